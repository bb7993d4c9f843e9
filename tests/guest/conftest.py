"""Runs the real berm-guest and talks to it like the daemon. Every message of the guest is checked against the schema."""

import base64
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import time

import jsonschema
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUEST = ROOT / os.environ.get("BERM_GUEST", "build/bin/berm-guest")
SCHEMA = json.loads((ROOT / "spec/guest.schema.json").read_text())
TIMEOUT_S = int(os.environ.get("BERM_TEST_TIMEOUT", "30"))   # seconds until a wait fails

DROP = {"policy": "drop_oldest", "limit_bytes": 1 << 26}


def validator(ref):
    return jsonschema.Draft202012Validator({"$schema": SCHEMA["$schema"], "$ref": ref, "$defs": SCHEMA["$defs"]})


# What a guest may send. Each kind excludes the others; trying all of them for every message takes most of the tests' time.
KINDS = {"result": validator("#/$defs/response"), "error": validator("#/$defs/failure"),
         "method": validator("#/$defs/notification")}
RESULT = {name: validator(f"#/$defs/{name}/properties/result") for name in SCHEMA["x-methods"]}


class GuestError(Exception):
    def __init__(self, error):
        super().__init__(error["message"])
        self.code = error["data"]["code"]
        self.error = error


class Gone(Exception):
    """The guest closed the connection."""


class Link:
    """One connection: a Unix socket, or a pair of pipes."""

    def __init__(self, sock=None, read_fd=-1, write_fd=-1, framing="lines"):
        self.sock, self.read_fd, self.write_fd, self.framing = sock, read_fd, write_fd, framing
        self.bytes, self.fds, self.next_id = b"", [], 1
        self.methods, self.answers, self.notices = {}, {}, []
        self.validate = True        # takes milliseconds per message, so endurance tests switch it off

    def close(self):
        for fd in self.fds:
            os.close(fd)
        self.fds = []
        if self.sock:
            self.sock.close()
        else:
            for fd in {self.read_fd, self.write_fd} - {-1}:
                os.close(fd)
            self.read_fd = self.write_fd = -1

    def raw(self, data, fds=()):
        if self.sock:
            data = memoryview(data)
            sent = socket.send_fds(self.sock, [data], list(fds)) if fds else self.sock.send(data)
            while sent < len(data):
                sent += self.sock.send(data[sent:])
        else:
            while data:
                data = data[os.write(self.write_fd, data):]

    def frame(self, message):
        text = json.dumps(message).encode()
        return b"Content-Length: %d\r\n\r\n%s" % (len(text), text) if self.framing == "length" else text + b"\n"

    def send(self, method, params, fds=()):
        request = {"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params}
        self.methods[self.next_id] = method
        self.next_id += 1
        self.raw(self.frame(request), fds)
        return request["id"]

    def take_message(self):
        """Return the next complete message of the buffer, or None. Fails if the guest uses the wrong framing."""
        if self.framing == "length":
            head, sep, rest = self.bytes.partition(b"\r\n\r\n")
            if not sep:
                return None
            name, _, size = head.partition(b": ")
            assert name == b"Content-Length", head
            if len(rest) < int(size):
                return None
            text, self.bytes = rest[:int(size)], rest[int(size):]
        else:
            text, sep, rest = self.bytes.partition(b"\n")
            if not sep:
                return None
            self.bytes = rest
        assert len(text) <= 1 << 20
        return json.loads(text)

    def receive(self, timeout=TIMEOUT_S):
        """Return the next message, validated, or None after the timeout."""
        end = time.monotonic() + timeout
        while (message := self.take_message()) is None:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.sock or self.read_fd], [], [], left)[0]:
                return None
            if self.sock:
                data, fds, flags, _ = socket.recv_fds(self.sock, 1 << 16, 64)
                self.fds += fds
            else:
                data = os.read(self.read_fd, 1 << 16)
            if not data:
                raise Gone
            self.bytes += data
        if self.validate:
            next(KINDS[key] for key in KINDS if key in message).validate(message)
        if self.validate and "result" in message:
            RESULT[self.methods[message["id"]]].validate(message["result"])
        return message

    def pump(self, timeout=TIMEOUT_S):
        message = self.receive(timeout)
        if message is None:
            return False
        if "method" in message:
            self.notices.append(message)
        else:
            self.answers[message["id"]] = message
        return True

    def answer(self, request_id):
        while request_id not in self.answers:
            assert self.pump(), f"no answer to request {request_id}"
        message = self.answers.pop(request_id)
        if "error" in message:
            raise GuestError(message["error"])
        return message["result"]

    def call(self, method, fds=(), **params):
        return self.answer(self.send(method, params, fds))

    def notice(self, method, wanted=lambda params: True):
        """Wait for the first matching notification."""
        while True:
            for message in self.notices:
                if message["method"] == method and wanted(message["params"]):
                    self.notices.remove(message)
                    return message["params"]
            assert self.pump(), f"no {method}"

    def hello(self, **params):
        return self.call("hello", **{"versions": [1], "lease_ms": 0, **params})


class Exec:
    """A program started over the link, with its logs in files as the daemon makes them."""

    def __init__(self, link, directory, exec_id, argv, exec_cgroup=None, cgroups=(), status=True, **params):
        self.link, self.id = link, exec_id
        self.paths = {role: directory / f"{exec_id}.{role}" for role in ("stdout", "stderr", "status")}
        params = {"output": DROP, **params}
        one = "terminal" in params or params["output"].get("merge_stderr")
        roles = ["stdout"] + ([] if one else ["stderr"]) + (["status"] if status else [])
        fds = [os.open(self.paths[role], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) for role in roles]
        for fd in cgroups:
            roles.append("cgroup")
            fds.append(os.dup(fd))
        if exec_cgroup is not None:
            roles.append("leaf")
            fds.append(os.dup(exec_cgroup))
        try:
            self.request = {"exec_id": exec_id, "argv": argv, "fds": len(fds), "fd_roles": roles, **params}
            self.state = link.answer(link.send("exec", self.request, fds))
        finally:
            for fd in fds:
                os.close(fd)

    def wait(self):
        """Wait for `exited`, and check that the status file has the same contents."""
        params = self.link.notice("exited", lambda p: p["exec_id"] == self.id)
        line = self.paths["status"].read_text()
        assert line.endswith("\n") and json.loads(line) == params
        assert os.path.getsize(self.paths["stdout"]) == params["stdout_bytes"]
        return params

    def output(self, stream="stdout"):
        return self.paths[stream].read_bytes()

    def status(self):
        return self.link.call("status", exec_id=self.id)["execs"][0]

    def has_ended(self):
        return any(n["method"] == "exited" and n["params"]["exec_id"] == self.id for n in self.link.notices)

    def wait_output(self, text, stream="stdout"):
        """Wait for text in the output. Look after any message, because `exited` alone reports the last output."""
        while text not in self.output(stream):
            if self.has_ended():
                assert text in self.output(stream), f"the program ended without {text}"
                return
            assert self.link.pump(), f"no {text} in {self.output(stream)[-200:]}"


class Guest:
    """A guest process that listens on its own socket."""

    def __init__(self, directory, *options, prefix=(), env=None, preexec=None):
        self.path = str(directory / "ctl")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.path)
        self.directory = directory

        def child():
            os.dup2(listener.fileno(), 3)
            if preexec:
                preexec()

        self.process = subprocess.Popen([*prefix, str(GUEST), *options], preexec_fn=child, pass_fds=[3],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        listener.close()
        self.links = []

    def connect(self, framing="lines", hello=True, **params):
        end = time.monotonic() + TIMEOUT_S
        while True:
            sock = socket.socket(socket.AF_UNIX)
            try:
                sock.connect(self.path)
                break
            except ConnectionRefusedError:      # the guest does not listen yet
                sock.close()
                if self.process.poll() is not None:
                    raise Gone from None
                assert time.monotonic() < end
                time.sleep(0.005)
        link = Link(sock=sock, framing=framing)
        self.links.append(link)
        if hello:
            link.welcome = link.hello(**params)
        return link

    def pid(self):
        return self.process.pid

    def wait(self):
        return self.process.wait(TIMEOUT_S)

    def stop(self):
        for link in self.links:
            link.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError("the guest did not exit on SIGTERM")


@pytest.fixture(autouse=True)
def tidy(tmp_path):
    """Remove trees that are too deep for the recursive deletion of pytest."""
    yield
    subprocess.run(["rm", "-rf", str(tmp_path)], check=True)


@pytest.fixture
def make_guest(tmp_path_factory):
    made = []

    def make(*options, **how):
        made.append(Guest(tmp_path_factory.mktemp("guest"), *options, **how))
        return made[-1]

    yield make
    for guest in made:
        guest.stop()
        if not getattr(guest, "killed", False):
            assert guest.process.returncode == 0, "the guest crashed, or a sanitizer reported an error"


@pytest.fixture
def guest(make_guest):
    return make_guest()


@pytest.fixture
def link(guest):
    return guest.connect()


@pytest.fixture
def run(link, tmp_path):
    """run(argv, **params) starts a program with a new id."""
    count = iter(range(1, 1 << 20))

    def start(argv, **params):
        if isinstance(argv, str):
            argv = ["sh", "-c", argv]
        params.setdefault("exec_id", f"ex-{next(count)}")
        return Exec(params.pop("link", link), tmp_path, params.pop("exec_id"), argv, **params)

    return start


def b64(data):
    return base64.b64encode(data).decode()


def descendants(pid):
    """Return the pids of all descendants of a process, with zombies."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                text = pathlib.Path(f"/proc/{entry}/stat").read_text(errors="replace")
            except OSError:
                continue
            parents[int(entry)] = int(text.rpartition(")")[2].split()[1])
    found, todo = [], [pid]
    while todo:
        parent = todo.pop()
        below = [p for p, pp in parents.items() if pp == parent]
        found += below
        todo += below
    return found


def freeze(pid):
    """Send SIGSTOP and wait until the process has stopped."""
    os.kill(pid, signal.SIGSTOP)
    stat = pathlib.Path(f"/proc/{pid}/stat")
    until(lambda: stat.read_text(errors="replace").rpartition(")")[2].split()[0] == "T", "the process did not stop")


def until(condition, what):
    end = time.monotonic() + TIMEOUT_S
    while not (value := condition()):
        assert time.monotonic() < end, what
        time.sleep(0.01)
    return value
