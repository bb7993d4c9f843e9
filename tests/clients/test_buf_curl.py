"""buf curl, which knows no .proto here: it learns the contract by reflection."""

import base64
import json
import subprocess

import pytest

from conftest import ROOT, SECONDS

BUF = ROOT / "tests/node/node_modules/.bin/buf"


@pytest.fixture(params=["unix", "tcp"])
def curl(request, daemon, tmp_path):
    def run(method, *arguments, token=True):
        command = [BUF, "curl", "--protocol", "grpc", "--http2-prior-knowledge"]
        if request.param == "unix":
            command += ["--unix-socket", daemon.socket]
            base = "http://localhost"
        else:
            base = f"http://{daemon.tcp}"
            if token:
                command += ["-H", f"authorization: Bearer {daemon.token}",
                            "--reflect-header", f"authorization: Bearer {daemon.token}"]
        # Away from the repository: its buf.yaml must not tell the answers.
        return subprocess.run([*command, *arguments, base + method], cwd=tmp_path, capture_output=True,
                              text=True, timeout=SECONDS, stdin=subprocess.DEVNULL)

    run.kind = request.param
    return run


def answer(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_lists(curl):
    services = curl("", "--list-services").stdout.split()
    assert "berm.v1.SystemService" in services and "grpc.health.v1.Health" in services
    methods = curl("", "--list-methods").stdout.split()
    assert "berm.v1.SandboxService/CreateSandbox" in methods and "berm.v1.ExecService/Interact" in methods


@pytest.mark.parametrize("protocol", ["grpc-v1", "grpc-v1alpha"])
def test_ping_by_either_reflection(curl, protocol):
    payload = base64.b64encode(bytes(range(256))).decode()
    done = curl("/berm.v1.SystemService/Ping", "--reflect-protocol", protocol, "-d", json.dumps({"payload": payload}))
    assert answer(done) == {"payload": payload}


def test_get_info(curl):
    info = answer(curl("/berm.v1.SystemService/GetInfo", "-d", "{}"))
    assert info["protocol"] == "berm.v1" and info["state"] == "DAEMON_STATE_SERVING"


def test_health(curl):
    assert answer(curl("/grpc.health.v1.Health/Check", "-d", "{}")) == {"status": "SERVING"}


def test_a_method_that_is_not_built(curl):
    done = curl("/berm.v1.SandboxService/SnapshotSandbox", "-d", "{}")
    assert done.returncode != 0 and "unimplemented" in done.stderr
    assert "SnapshotSandbox" in done.stderr


def test_a_stranger_is_reported_nothing(curl):
    done = curl("/berm.v1.SystemService/Ping", "-d", "{}", token=False)
    if curl.kind == "unix":
        assert answer(done) == {}
    else:
        assert done.returncode != 0 and done.stdout == ""
