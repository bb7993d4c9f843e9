"""berm against a real bermd: what needs no sandbox."""

import json
import os
import pathlib
import re
import shlex
import shutil
import socket
import subprocess

import grpc
import pytest

from berm._gen.berm.v1 import berm_pb2 as pb
from conftest import BERM, ROOT, SECONDS, Berm, can_sandbox
from fake import HARM, harmful

COMMANDS = subprocess.run([BERM, "--help"], capture_output=True, text=True, check=True).stdout
NAMES = [line[2:18].strip() for line in COMMANDS.splitlines() if line.startswith("  ")]


def test_every_command_has_a_help(berm):
    assert len(NAMES) > 20
    for name in NAMES:
        text = berm(*name.split(), "--help").stdout.decode()
        assert text.startswith(f"usage: berm {name}") and "--socket PATH" in text


def test_the_pages_are_what_the_table_says(berm):
    assert berm("--dump-docs").stdout == (ROOT / "docs/cli.md").read_bytes()
    assert berm("--dump-man").stdout == (ROOT / "docs/berm.1").read_bytes()


def test_the_manual_is_one(berm):
    """man itself reads it without a complaint and finds every command in it."""
    if not shutil.which("man"):
        pytest.skip("there is no man to read it")
    done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", ROOT / "docs/berm.1"], capture_output=True, text=True,
                          env={**os.environ, "MANWIDTH": "100", "MAN_KEEP_FORMATTING": "0"}, check=True, timeout=SECONDS)
    assert not done.stderr
    for name in NAMES:
        assert f"berm {name}" in re.sub(r".\x08", "", done.stdout)


def test_completion_knows_every_command_and_option(berm):
    script = berm("completion", "bash").stdout.decode()

    def complete(*words):
        ask = f"COMP_WORDS=({' '.join(shlex.quote(w) for w in words)}); COMP_CWORD={len(words) - 1}; _berm; echo ${{COMPREPLY[@]}}"
        return subprocess.run(["bash", "-c", script + ask], capture_output=True, text=True, check=True).stdout.split()

    assert {n.split()[0] for n in NAMES} == set(complete("berm", ""))
    assert complete("berm", "compl") == ["completion"] and complete("berm", "daemon", "sta") == ["start", "status"]
    assert complete("berm", "exec", "sb", "--inter") == ["--interactive"]
    assert complete("berm", "daemon", "start", "--lis") == ["--listen"]
    for shell in ("zsh", "fish"):
        text = berm("completion", shell).stdout.decode()
        assert all(f"--{option}" in text or f"-l {option}" in text for option in ("copy-here", "since-offset", "no-start"))


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_in_other_shells(berm, shell, tmp_path):
    """By the shell itself."""
    if not shutil.which(shell):
        pytest.skip(f"there is no {shell}")
    (tmp_path / "script").write_bytes(berm("completion", shell).stdout)

    def run(command):
        return subprocess.run([shell, "-c", f"source {tmp_path}/script; {command}"], capture_output=True, text=True, check=True,
                              env={**berm.environment, "HOME": str(tmp_path)}, timeout=SECONDS).stdout.split()

    if shell == "zsh":
        words = lambda *at: run("_berm_words " + " ".join(shlex.quote(w) for w in at))  # noqa: E731
        assert words("2", "daemon", "sta") == ["start", "stop", "status"] and "--interactive" in words("4", "exec", "sb")
        assert {n.split()[0] for n in NAMES} == set(words("1", "", "")) and "--state" in words("3", "daemon", "start")
    else:
        words = lambda line: [w for w in run(f"complete -C {shlex.quote(line)}")]  # noqa: E731
        assert {n.split()[0] for n in NAMES} <= set(words("berm "))
        assert "status" in words("berm daemon sta") and "--interactive" in words("berm exec sb --inter")
        assert "--state" in words("berm daemon start --st") and "--state" not in words("berm start sb --st")


def test_doctor(berm):
    lines = json.loads(berm("doctor", "--json", status=None).stdout)
    by_name = {line["name"]: line for line in lines}
    assert by_name["root"]["ok"] == (os.geteuid() == 0) and by_name["daemon"]["ok"] == can_sandbox_here(berm)
    assert by_name["programs"]["ok"] and os.uname().release in by_name["kernel"]["found"]
    assert all(line["ok"] or line["fix"] for line in lines)
    assert not can_sandbox_here(berm) or all(line["ok"] for line in lines if line["needed"]), "it works all the same"
    expected = int(any(line["needed"] and not line["ok"] for line in lines))
    text = berm("doctor", status=expected).stdout.decode()
    assert all(line["name"] in text for line in lines)


def can_sandbox_here(berm):
    return any(d.get("available") for d in json.loads(berm("info", "--json").stdout).get("drivers", []))


def test_doctor_names_what_is_missing(tmp_path):
    """A berm alone in a folder, no daemon."""
    shutil.copy(BERM, tmp_path / "berm")
    done = subprocess.run([tmp_path / "berm", "doctor", "--socket", tmp_path / "none.sock"], capture_output=True, text=True)
    assert done.returncode == 1 and "without berm-guest" in done.stdout
    assert "MISSING  programs" in done.stdout and "fix: berm daemon start" in done.stdout


@pytest.mark.parametrize("arguments, word", [
    ([], "usage: berm COMMAND"), (["nope"], 'unknown command "nope"'), (["daemon"], "berm daemon start"),
    (["daemon", "dance"], "berm daemon start"), (["ls", "--nope"], "unknown option --nope"), (["ls", "-Z"], "unknown option -Z"),
    (["ls", "--quiet=1"], "--quiet takes no value"), (["ls", "--state"], "--state needs STATE"),
    (["ls", "extra"], 'unexpected argument "extra"'), (["exec", "sb"], "missing argument"),
    (["get"], "missing argument"), (["run"], "missing argument"), (["kill"], "missing argument"),
    (["create", "--memory", "many"], '--memory: must be bytes, such as 512M or 4G, or none, got "many"'), (["create", "--cpus", "x"], 'got "x"'),
    (["create", "--ttl", "1y"], "--ttl: must be a time"), (["create", "--label", "x"], '--label: must be KEY=VALUE, got "x"'),
    (["create", "--network", "all"], "must be none, egress or open"), (["create", "--mount", ":/x"], "SOURCE:TARGET"),
    (["create", "--mount", "/x:y"], "absolute TARGET"), (["create", "--tool", "git:credential"], "NAME:credentials"),
    (["create", "--tool", "uv:cache:"], "NAME:cache"),
    (["create", "--image", "/", "--snapshot", "s"], "must not be used together"), (["create", "--allow", "h:0"], "port"),
    (["create", "--memory", "99999999999G"], "--memory"), (["rm"], "give sandboxes, or --label"),
    (["rm", "sb", "--label", "a=b"], "give sandboxes, or --label"), (["update", "sb"], "nothing to change"),
    (["kill", "ex", "-s", "NOPE"], '--signal: must be a name such as TERM, or 1 to 64, got "NOPE"'), (["ls", "--state", "nope"], "--state"),
    (["logs", "ex", "--since-offset", "x"], 'got "x"'), (["events", "--since", "x"], 'got "x"'),
    (["logs", "ex", "--since-offset", "1", "--stream", "both"], "offset of one stream"),
    (["exec", "sb", "-t", "--json", "--", "sh"], "no terminal"), (["shell", "sb", "--json"], "no --json"),
    (["cp", "a", "b"], "one argument must be SANDBOX:PATH"), (["cat", "file"], "must be SANDBOX:PATH"),
    (["completion", "csh"], "must be bash, zsh or fish"), (["grep", "x", "sb", "-A", "99"], "from 0 to 20"),
    (["debug", "guest-log", "../x"], "not an id")])
def test_a_wrong_command_line_is_named(berm, arguments, word):
    done = berm(*arguments, status=125)
    assert word in done.stderr.decode() and not done.stdout


def test_no_daemon_says_what_to_do(tmp_path):
    done = Berm(tmp_path / "none.sock")("ls", status=125)
    assert "none.sock" in done.stderr.decode() and "berm daemon start" in done.stderr.decode()
    done = Berm(tmp_path / "none.sock")("ls", "--json", status=125)
    error = json.loads(done.stderr)
    assert error["code"] == "UNREACHABLE" and error["retry"] == "later"


def test_a_listener_that_is_no_daemon(tmp_path):
    """Something that closes at once is tried five times and then named."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "odd.sock"))
        listener.listen()
        listener.settimeout(SECONDS)
        process = Berm(tmp_path / "odd.sock").start("ping", stderr=subprocess.PIPE)
        for _ in range(5):
            peer, _ = listener.accept()
            peer.close()
        assert process.wait(SECONDS) == 125 and b"DISCONNECTED" in process.stderr.read()
        process.stderr.close()


@pytest.mark.parametrize("what", HARM)
def test_a_daemon_that_means_harm(tmp_path, what):
    with harmful(tmp_path / "s", what):
        for arguments in (["ping"], ["logs", "x"], ["events"]):
            assert b"berm: " in Berm(tmp_path / "s")(*arguments, status=125).stderr


def test_ping_and_info(berm, daemon):
    assert str(daemon.socket) in berm("ping").stdout.decode()
    info = json.loads(berm("info", "--json").stdout)
    assert info["protocol"] == "berm.v1" and info["identity"] == f"uid:{os.getuid()}"
    assert info["version"] in berm("info").stdout.decode()
    assert b"message.inbound" in berm("info", "--limits").stdout


def test_tcp_needs_the_token(daemon, tmp_path):
    berm = Berm(daemon.socket)
    berm("ping", "--address", daemon.tcp, "--token-file", daemon.state / "token")
    done = berm("ping", "--address", daemon.tcp, status=125)
    assert b"UNAUTHENTICATED" in done.stderr and b"--token-file" in done.stderr
    done = berm("ping", "--address", daemon.tcp, "--token-file", tmp_path / "none", status=125)
    assert b"No such file" in done.stderr
    done = berm("ping", "--address", "nonsense", status=125)
    assert b"not HOST:PORT" in done.stderr


def test_the_default_socket_is_the_daemons_own():
    """berm and bermd work it out apart from each other."""
    bermd = subprocess.run([BERM.parent / "bermd", "--print-config"], capture_output=True, text=True, check=True)
    expected = [line for line in bermd.stdout.splitlines() if line.startswith("socket = ")][0].split(" = ")[1]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("BERM_")}
    apart = [ROOT / "tests/apart", "/run", "--"] if os.geteuid() == 0 else []     # a daemon of this machine may use it
    done = subprocess.run([*apart, BERM, "ping"], env=environment, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 125 and f"at {expected}:" in done.stderr


START_SCRIPT = """
"$0" --help > /dev/null
"$0" ls --no-start; echo $?
BERM_NO_START=1 "$0" ls; echo $?
"$0" ping; echo $?
"$0" ls -q; echo $?
"$0" ls -q; echo $?
"$0" daemon stop
"""


def test_a_daemon_is_started_by_need():
    """In folders of its own, so that no daemon of this machine is met: no, no, no, yes, and not a second one."""
    if os.geteuid() != 0:
        pytest.skip("only root starts a daemon so")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("BERM_")}
    done = subprocess.run([ROOT / "tests/apart", "/run", "/var/lib", "--", "sh", "-c", START_SCRIPT, BERM],
                          env=environment, capture_output=True, text=True, timeout=2 * SECONDS)
    assert done.returncode == 0, done
    assert re.fullmatch(r"125\n125\n125\n0\n0\nstopped pid \d+\n", done.stdout), done
    assert done.stderr.count("started bermd at /run/berm/bermd.sock, pid ") == 1, done


# --- options become messages ---

def asked(fake, *arguments):
    """The request that berm makes of its options."""
    Berm(fake.path)(*arguments)
    return fake.asked[-1]


@pytest.mark.parametrize("options, spec", [
    ([], pb.SandboxSpec()),
    (["-l", "a=1", "--label=b=x=y"], pb.SandboxSpec(labels=[pb.KeyValue(key="a", value="1"), pb.KeyValue(key="b", value="x=y")])),
    (["-e", "A="], pb.SandboxSpec(env=[pb.KeyValue(key="A", value="")])),
    (["-m", "512M", "--cpus", "1.5", "--pids", "9", "--disk", "1G", "--inodes", "1000", "--output", "none"],
     pb.SandboxSpec(limits=pb.Limits(memory_bytes=512 << 20, cpu_millis=1500, pids=9, disk_bytes=1 << 30,
                                     disk_inodes=1000, output_bytes=-1))),
    (["--ttl", "2h", "--idle-ttl", "500ms", "--idle-action", "pause", "--ttl-action", "stop", "--wake"],
     pb.SandboxSpec(lifetime=pb.Lifetime(ttl_ms=7200000, idle_ttl_ms=500, idle_action=pb.LIFETIME_ACTION_PAUSE,
                                         ttl_action=pb.LIFETIME_ACTION_STOP, wake_on_call=True))),
    (["--ttl", "never", "--idle-ttl", "3"], pb.SandboxSpec(lifetime=pb.Lifetime(ttl_ms=-1, idle_ttl_ms=3000))),
    (["--allow", "x.org", "--allow", "*.y.org:8080"], pb.SandboxSpec(network=pb.Network(
        mode=pb.NETWORK_MODE_EGRESS, egress=[pb.EgressRule(host="x.org"), pb.EgressRule(host="*.y.org", ports=[8080])]))),
    (["--network", "open"], pb.SandboxSpec(network=pb.Network(mode=pb.NETWORK_MODE_OPEN))),
    (["--image", "debian:12"], pb.SandboxSpec(root=pb.RootFilesystem(image=pb.ImageRoot(
        kind=pb.IMAGE_KIND_REGISTRY, reference="debian:12")))),
    (["--image", "/usr"], pb.SandboxSpec(root=pb.RootFilesystem(image=pb.ImageRoot(
        kind=pb.IMAGE_KIND_DIRECTORY, reference="/usr")))),
    (["--image", "/etc/passwd"], pb.SandboxSpec(root=pb.RootFilesystem(image=pb.ImageRoot(
        kind=pb.IMAGE_KIND_TARBALL, reference="/etc/passwd")))),
    (["--snapshot", "sn-1", "--layer", "memory"], pb.SandboxSpec(root=pb.RootFilesystem(
        snapshot=pb.SnapshotRoot(snapshot_id="sn-1"), layer=pb.WRITABLE_LAYER_MEMORY))),
    (["-v", "/a:b:/c", "--mount", "/d:/e:rw"], pb.SandboxSpec(mounts=[
        pb.Mount(source="/a:b", target="/c"), pb.Mount(source="/d", target="/e", writable=True)])),
    (["-v", "/a", "--copy", "/b"], pb.SandboxSpec(mounts=[pb.Mount(source="/a", target="/workspace")],
                                                  copies=[pb.Copy(source="/b", target="/workspace")])),
    (["-v", "/a:rw", "--workspace", "/w"], pb.SandboxSpec(mounts=[
        pb.Mount(source="/a", target="/w", writable=True)], workspace="/w")),
    (["--copy", "/a:/b"], pb.SandboxSpec(copies=[pb.Copy(source="/a", target="/b")])),
    (["--tool", "git", "--tool", "node:credentials"], pb.SandboxSpec(tools=[
        pb.Tool(name="git"), pb.Tool(name="node", credentials=True)])),
    (["--tool", "uv:cache", "--tool", "npm:cache:credentials", "--tool", "x:credentials:cache"], pb.SandboxSpec(tools=[
        pb.Tool(name="uv", cache=True), pb.Tool(name="npm", credentials=True, cache=True),
        pb.Tool(name="x", credentials=True, cache=True)])),
    (["--device", "gpu:2", "--device", "kvm"], pb.SandboxSpec(devices=[
        pb.DeviceRequest(kind="gpu", count=2), pb.DeviceRequest(kind="kvm")])),
    (["--profile", "root", "--driver", "native", "--workspace", "/w"], pb.SandboxSpec(
        profile=pb.SANDBOX_PROFILE_ROOT, driver="native", workspace="/w"))])
def test_options_of_create(fake, options, spec):
    request = asked(fake, "create", *options)
    assert request.spec == spec and request.wait_ms == 60000 and request.request_id


def test_a_relative_path_is_ours(fake, tmp_path):
    (tmp_path / "here").mkdir()
    Berm(fake.path)("create", "-v", "here:/there", cwd=tmp_path)
    assert fake.asked[-1].spec.mounts[0].source == str(tmp_path / "here")


def test_options_of_exec(fake):
    request = asked(fake, "exec", "-d", "--timeout", "1m", "--grace", "2", "-w", "/x", "-u", "me", "--merge", "-e", "A=b",
                    "--output-limit", "1M", "--output-policy", "kill", "--exec-id", "mine", "-l", "k=v",
                    "--keep-descendants", "sb-1", "--", "cmd", "-x", "--", "--json")
    assert request.sandbox_id == "sb-1" and request.exec_id == "mine"
    assert request.spec == pb.ExecSpec(
        argv=["cmd", "-x", "--", "--json"], timeout_ms=60000, grace_ms=2000, cwd="/x", user="me", merge_stderr=True,
        env=[pb.KeyValue(key="A", value="b")], output_limit_bytes=1 << 20, output_policy=pb.OUTPUT_POLICY_KILL,
        labels=[pb.KeyValue(key="k", value="v")], keep_descendants=True)


def test_no_grace_is_none(fake):
    """0 would be the daemon's default."""
    assert asked(fake, "exec", "-d", "--grace", "0", "sb-1", "x").spec.grace_ms == -1


@pytest.mark.parametrize("code, hint", [
    ("SANDBOX_NOT_FOUND", "berm ls"), ("SANDBOX_STOPPED", "berm start"), ("SANDBOX_PAUSED", "berm resume"),
    ("SANDBOX_DELETED", "berm create"), ("LIMIT_REACHED", "berm info --limits"), ("PLACE_FAILED", "berm doctor"),
    ("HOST_PATH_REFUSED", "mount_roots"), ("PROGRAM_NOT_FOUND", "$PATH"), ("CWD_NOT_FOUND", "mkdir"),
    ("USER_NOT_FOUND", "/etc/passwd"), ("STORE_FULL", "berm rm"), ("UNSUPPORTED", "berm info")])
def test_an_error_says_what_to_do_next(fake, code, hint):
    fake.fail_next = [(grpc.StatusCode.FAILED_PRECONDITION, code, "never")]
    done = Berm(fake.path)("exec", "-d", "sb-1", "--", "x", status=None)
    first, second = done.stderr.decode().splitlines()
    assert done.returncode in (125, 127) and first == f"berm: as told: {code} ({code})" and hint in second


def test_a_pipe_blocks_and_a_detached_program_does_not(fake):
    berm = Berm(fake.path)
    fake.output[1] = bytes(10_000_000)
    fake.chunk = 60_000
    done = berm("exec", "sb-1", "--", "x", status=7)
    assert done.stdout == fake.output[1]
    start = next(r for r in fake.asked if isinstance(r, pb.StartExecRequest))
    attach = next(r for r in fake.asked if isinstance(r, pb.AttachExecRequest))
    assert start.spec.output_policy == pb.OUTPUT_POLICY_BLOCK and attach.reader_id
    offsets = [ack.stdout_offset for ack in fake.acks]
    chunks = len(fake.output[1]) // fake.chunk
    assert offsets == sorted(offsets) and offsets[-1] == 10_000_000
    assert 3 <= len(offsets) < chunks // 2, "not each of them: every 4 MiB, and where a slow daemon pauses"
    assert [ack.release for ack in fake.acks] == [False] * (len(offsets) - 1) + [True]
    assert {ack.reader_id for ack in fake.acks} == {attach.reader_id}
    assert asked(fake, "exec", "-d", "sb-1", "x").spec.output_policy == pb.OUTPUT_POLICY_DROP_OLDEST


def test_json_of_a_whole_run(fake):
    berm = Berm(fake.path)
    done = json.loads(berm("exec", "--json", "-i", "sb-1", "--", "x", stdin=b"in", status=7).stdout)
    assert done["stdoutData"] == "aW4=" and done["exec"]["exit"] == {"code": 7}
    assert b"1 MiB" in berm("exec", "--json", "-i", "sb-1", "--", "x", stdin=bytes((1 << 20) + 1), status=125).stderr
    lines = [json.loads(line) for line in berm("attach", "--json", "ex-1", status=7).stdout.splitlines()]
    assert list(lines[-1]) == ["sequence", "exited"]


# --- the daemon ---

@pytest.fixture
def own(tmp_path):
    """berm with a socket where nobody listens yet; what it starts is stopped."""
    berm = Berm(tmp_path / "own.sock")
    berm.state = tmp_path / "state"
    yield berm
    berm("daemon", "stop", status=None)


def test_start_status_stop(own):
    assert own("daemon", "status", status=1).stdout.startswith(b"no daemon at")
    started = own("daemon", "start", "--state", own.state).stdout.decode()
    assert "pid" in started
    own("ping")
    status = own("daemon", "status").stdout.decode()
    pid = int(status.split("pid ")[1].split(":")[0])
    assert f"pid {pid}" in started and "serving" in status
    assert pathlib.Path(f"/proc/{pid}/comm").read_text() == "bermd\n"
    assert os.getsid(pid) == pid, "it would end with our terminal"
    done = own("daemon", "start", "--state", own.state, status=125)
    assert b"already" in done.stderr
    assert str(pid) in own("daemon", "stop").stdout.decode()
    own("daemon", "status", status=1)
    done = own("daemon", "stop", status=125)
    assert b"no daemon listens" in done.stderr


def test_a_daemon_that_does_not_start_is_quoted(own):
    done = own("daemon", "start", "--state", own.state, "--set", "no_such_knob=1", status=125)
    assert b"no_such_knob" in done.stderr and b"bermd ended" in done.stderr
    done = own("daemon", "start", "--state", own.state, "--", "--no-such-option", status=125)
    assert b"no-such-option" in done.stderr


def test_options_go_through(own):
    own("daemon", "start", "--state", own.state, "--set", "limits.drain.max=1234", "--log-level", "debug")
    assert b"1234" in own("info", "--limits").stdout


def test_stop_names_the_one_at_the_socket(own, daemon):
    """Another daemon of this machine goes on."""
    own("daemon", "start", "--state", own.state)
    own("daemon", "stop")
    Berm(daemon.socket)("ping")


# --- output ---

def test_a_table_fits_the_terminal(berm):
    """At 30 columns nothing is longer, and nothing is coloured when told so."""
    import fcntl
    import pty
    import struct
    import termios
    for color in (False, True):
        main, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 10, 30, 0, 0))
        environment = {**berm.environment, "TERM": "xterm"}
        if color:
            environment.pop("NO_COLOR")
        process = subprocess.Popen([BERM, "info", "--limits"], env=environment, stdout=side)
        os.close(side)
        text = b""
        try:
            while data := os.read(main, 65536):
                text += data
        except OSError:
            pass
        os.close(main)
        assert process.wait(SECONDS) == 0 and b"message.in" in text
        assert (b"\033[" in text) == color
        if not color:
            assert max(len(line.decode().rstrip()) for line in text.splitlines()) <= 30


def test_json_is_indented_for_people_alone(berm):
    assert berm("info", "--json").stdout.count(b"\n") == 1


# --- what is installed ---

@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """`meson install` into a folder of its own, as `make install` does it; where /usr/local is in it."""
    where = tmp_path_factory.mktemp("installed")
    subprocess.run(["meson", "install", "-C", ROOT / "build", "--no-rebuild", "--quiet"], check=True, capture_output=True,
                   env={**os.environ, "DESTDIR": str(where)}, timeout=2 * SECONDS)
    return where / "usr/local"


def test_what_is_installed(installed):
    found = {str(path.relative_to(installed)) for path in installed.rglob("*") if path.is_file()}
    programs = ["berm", "bermd", "berm-spawn", "berm-open", "berm-guest", "berm-jail"]
    assert {f"bin/{name}" for name in programs} == {path for path in found if path.startswith("bin/")}
    assert {"include/berm.h", "include/berm_errors.h", "include/berm/v1/berm.pb-c.h", "share/man/man1/berm.1",
            "share/bash-completion/completions/berm.bash", "share/zsh/site-functions/_berm",
            "share/fish/vendor_completions.d/berm.fish"} <= found
    assert (installed / "share/man/man1/berm.1").read_bytes() == (ROOT / "docs/berm.1").read_bytes()
    assert (installed / "share/zsh/site-functions/_berm").read_text().startswith("#compdef berm\n")
    assert "meson install -C build" in subprocess.run(["make", "-n", "install"], cwd=ROOT, capture_output=True, text=True,
                                                      check=True).stdout


def test_what_is_installed_works(installed, tmp_path):
    """From where it lies: bermd finds its helpers beside itself, berm finds bermd."""
    berm = [installed / "bin/berm"]
    environment = {**Berm(tmp_path / "own.sock").environment, "PATH": "/usr/bin:/bin"}
    run = lambda *arguments: subprocess.run([*berm, *arguments], env=environment, capture_output=True, text=True, timeout=SECONDS)  # noqa: E731
    done = run("daemon", "start", "--state", tmp_path / "state")
    assert done.returncode == 0, done
    try:
        doctor = {line["name"]: line for line in json.loads(run("doctor", "--json").stdout)}
        assert doctor["programs"]["ok"] and str(installed) in doctor["programs"]["found"]
        if doctor["daemon"]["ok"]:
            assert run("run", "--", "echo", "installed").stdout == "installed\n"
    finally:
        assert run("daemon", "stop").returncode == 0


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("name", ["run", "follow"])
def test_the_installed_library(daemon, tmp_path, installed, name, static):
    """Its examples, built as their first lines say, by pkg-config."""
    [package] = installed.rglob("berm.pc")
    sysroot = installed.parents[1]
    environment = {**os.environ, "PKG_CONFIG_PATH": str(package.parent), "PKG_CONFIG_SYSROOT_DIR": str(sysroot)}
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "berm"] + ["--static"] * static, env=environment,
                           check=True, capture_output=True, text=True).stdout.split()
    flags = ["-l:libberm.a" if static and f == "-lberm" else f for f in flags]
    source = ROOT / f"clients/c/examples/{name}.c"
    assert f"cc {name}.c $(pkg-config --cflags --libs berm)" in source.read_text()
    subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", source, *flags, "-o", tmp_path / name], check=True)
    if not can_sandbox(daemon):
        pytest.skip("this machine lets no driver make sandboxes")
    environment = {**os.environ, "BERM_SOCKET": str(daemon.socket), "LD_LIBRARY_PATH": str(package.parent.parent)}
    done = subprocess.run([tmp_path / name], env=environment, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done
    lines = done.stdout.splitlines()
    if name == "run":
        assert lines[0].startswith("bermd 0.") and lines[1] == os.uname().release
    else:
        assert sorted(lines) == ["0: ended with 1", "0: one", "1: ended with 2", "1: two", "2: CANCELLED"]
        assert lines[-1] == "2: CANCELLED"


@pytest.mark.parametrize("typed, meant", [("lst", "ls"), ("craete", "create"), ("exce", "exec"), ("shel", "shell"), ("dameon start", "daemon start")])
def test_mistyped_command_gets_a_suggestion(berm, typed, meant):
    done = berm(*typed.split(), status=125)
    assert f"did you mean `berm {meant}`?".encode() in done.stderr, done


def test_unknown_command_gets_no_wild_guess(berm):
    assert b"`berm --help` lists them" in berm("frobnicate", status=125).stderr


def test_control_characters_of_a_label_are_not_printed(berm, sandbox):
    berm("update", sandbox, "--label", "x=a\u009b31mb\u007fc")
    for arguments in (["get", sandbox], ["get", "--json", sandbox], ["ls", "--json"], ["ls", "--label", "x"]):
        out = berm(*arguments, status=None)
        assert b"\xc2\x9b" not in out.stdout + out.stderr and b"\x7f" not in out.stdout + out.stderr, (arguments, out)
