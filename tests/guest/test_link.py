"""The link: handshake, framing, bounds, descriptors, lost connections and the lease. spec/guest.md."""

import json
import os
import signal
import socket
import subprocess
import time

import pytest

from conftest import GUEST, TIMEOUT_S, Exec, Gone, GuestError, Link, b64, descendants, until


def error_of(link):
    message = link.receive()
    assert message is not None and "error" in message
    return message["id"], message["error"]["data"]["code"]


# Handshake.

def test_hello_reports_version_and_capabilities(guest):
    welcome = guest.connect(versions=[7, 1, 3]).welcome
    assert welcome["version"] == 1 and welcome["fd_passing"] is True and welcome["execs"] == []


def test_hello_without_a_common_version_changes_nothing(guest, tmp_path):
    x = Exec(guest.connect(), tmp_path, "ex-a", ["sleep", "1000"])
    link = guest.connect(hello=False)
    with pytest.raises(GuestError) as error:
        link.hello(versions=[2, 65535])
    assert error.value.code == "GUEST_VERSION"
    assert link.hello()["execs"][0]["state"] == "running"
    link.call("signal", exec_id=x.id, signal=9)


@pytest.mark.parametrize("params", [{"versions": []}, {"versions": ["1"]}, {"versions": [0]}, {"lease_ms": -1},
                                    {"versions": 1}])
def test_invalid_hello_is_refused(guest, params):
    link = guest.connect(hello=False)
    with pytest.raises(GuestError) as error:
        link.hello(**params)
    assert error.value.code == "INVALID_ARGUMENT"


def test_request_before_hello_is_refused(guest):
    link = guest.connect(hello=False)
    for method in ("ping", "exec", "status", "shutdown", "format_disk"):
        link.methods[link.next_id] = "ping"
        with pytest.raises(GuestError) as error:
            link.call(method)
        assert error.value.code == "MALFORMED"
    link.hello()


def test_unknown_method_is_unimplemented_and_unknown_member_ignored(link):
    """covers: SKEW-2"""
    with pytest.raises(GuestError) as error:
        link.call("format_disk", all=True)
    assert error.value.code == "UNIMPLEMENTED" and "format_disk" in str(error.value)
    assert "uptime_ms" in link.call("ping", later={"deep": [1]})
    link.raw(b'{"jsonrpc":"2.0","method":"a_notification_of_a_later_version","params":{}}\n')
    link.call("ping")


def test_configure_succeeds_once_and_before_programs(make_guest, tmp_path):
    link = make_guest().connect()
    work = tmp_path / "work"
    work.mkdir()
    config = {"sandbox_id": "demo", "incarnation": 1, "workspace": str(work),
              "env": [{"key": "FROM_SANDBOX", "value": "1"}, {"key": "BOTH", "value": "sandbox"}]}
    link.call("configure", **config)
    x = Exec(link, tmp_path, "ex-a", ["sh", "-c", "pwd; echo $FROM_SANDBOX $BOTH"],
             env=[{"key": "BOTH", "value": "exec"}])
    x.wait()
    assert x.output().decode() == f"{work}\n1 exec\n"
    with pytest.raises(GuestError):
        link.call("configure", **config)


@pytest.mark.parametrize("at_once", [True, False])
def test_configure_creates_a_missing_workspace(make_guest, tmp_path, at_once, monkeypatch):
    """The program starts in the workspace even if `exec` arrives together with `configure`."""
    link = make_guest().connect()
    work = tmp_path / "a" / "b"
    held = []
    if at_once:
        with monkeypatch.context() as patch:
            patch.setattr(link, "raw", lambda data, fds=(): held.append(data))
            link.send("configure", {"sandbox_id": "demo", "incarnation": 1, "workspace": str(work)})
        raw = link.raw
        monkeypatch.setattr(link, "raw", lambda data, fds=(): raw(b"".join(held) + data, fds))
    else:
        link.call("configure", sandbox_id="demo", incarnation=1, workspace=str(work))
    x = Exec(link, tmp_path, "ex-a", ["pwd"])
    assert x.wait()["exit"] == {"code": 0} and x.output().decode() == f"{work}\n"


# Framing.

@pytest.mark.parametrize("framing", ["lines", "length"])
def test_guest_replies_in_the_framing_of_the_request(guest, tmp_path, framing):
    link = guest.connect(framing=framing)
    x = Exec(link, tmp_path, "ex-a", ["echo", "hi"])
    assert x.wait()["exit"] == {"code": 0}


def test_framing_may_change_with_every_message(guest):
    link = guest.connect()
    for framing in ("length", "lines", "length", "length", "lines"):
        link.framing = framing
        link.call("ping")


def test_message_may_arrive_in_any_pieces(link):
    ping = lambda: link.frame({"jsonrpc": "2.0", "id": link.next_id, "method": "ping", "params": {}})
    for framing in ("lines", "length"):
        link.framing = framing
        for byte in ping():
            link.raw(bytes([byte]))
        link.methods[link.next_id] = "ping"
        link.next_id += 1
        link.answer(link.next_id - 1)
    many = b""
    first = link.next_id
    for _ in range(500):
        link.methods[link.next_id] = "ping"
        many += ping()
        link.next_id += 1
    link.raw(many + b"\r\n\n  \n")
    for request in range(first, first + 500):
        link.answer(request)


def test_other_headers_are_ignored_in_any_case(link):
    body = b'{"jsonrpc":"2.0","id":9,"method":"ping","params":{}}'
    link.methods[9] = "ping"
    link.framing = "length"
    link.raw(b"content-type: application/vscode-jsonrpc; charset=utf-8\r\nCONTENT-LENGTH:%d\r\n\r\n%s" % (len(body), body))
    link.answer(9)


@pytest.mark.parametrize("data, code", [
    (b"{not json}\n", "MALFORMED"),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{}} x\n', "MALFORMED"),
    (b'{"jsonrpc":"2.0","id":1,"id":1,"method":"ping","params":{}}\n', "MALFORMED"),
    (b'{"a":"\xff"}\n', "MALFORMED"),
    (b"\0\n", "MALFORMED"),
    (b"Content-Length: 10x\r\n\r\n", "MALFORMED"),
    (b"Content-Length: -1\r\n\r\n", "MALFORMED"),
    (b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", "MALFORMED"),
    (b"X: y\r\n\r\n", "MALFORMED"),
    (b"GET / HTTP/1.1\r\n\r\n", "MALFORMED"),
    (b"A" * 2000, "MALFORMED"),
    (b"Content-Length: 1048577\r\n\r\n", "MESSAGE_TOO_LARGE"),
    (b"Content-Length: 99999999999999999999999\r\n\r\n", "MESSAGE_TOO_LARGE"),
    (b'{"a":' + b"[" * 40 + b"]" * 40 + b"}\n", "MESSAGE_TOO_LARGE"),
    (b"{" + b" " * (1 << 20) + b"}\n", "MESSAGE_TOO_LARGE"),
])
def test_invalid_stream_is_reported_and_closed(guest, data, code):
    link = guest.connect()
    link.raw(data)
    assert error_of(link) == (None, code)
    with pytest.raises((Gone, ConnectionResetError)):
        while link.receive(TIMEOUT_S) is not None:
            pass
    assert guest.connect().call("ping")


def test_endless_line_is_refused_at_its_bound(guest):
    link = guest.connect()
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        for _ in range(1000):
            link.raw(b"{" + b" " * 65535)
    assert guest.connect().call("ping")


@pytest.mark.parametrize("message", [
    [], [1], {}, "x", 1, {"jsonrpc": "1.0", "id": 1, "method": "ping", "params": {}},
    {"jsonrpc": "2.0", "id": "1", "method": "ping", "params": {}},
    {"jsonrpc": "2.0", "id": 0, "method": "ping", "params": {}},
    {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []},
    {"jsonrpc": "2.0", "id": 1, "method": 5, "params": {}},
    {"jsonrpc": "2.0", "id": 1, "result": {}},
    [{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}}],
])
def test_json_that_is_no_request_is_reported_and_the_stream_continues(link, message):
    link.raw(json.dumps(message).encode() + b"\n")
    assert error_of(link) == (None, "MALFORMED")
    link.call("ping")


def test_peer_that_never_reads_costs_bounded_memory(guest):
    link = guest.connect()
    before = int(open(f"/proc/{guest.pid()}/statm").read().split()[1])
    request = link.frame({"jsonrpc": "2.0", "id": 1, "method": "status", "params": {}})
    link.sock.setblocking(False)
    batch, sent = request * 1000, 0
    try:
        while sent < 64 << 20:
            sent += link.sock.send(batch[sent % len(batch):])       # continue where the last send stopped
    except BlockingIOError:
        pass
    assert sent < 64 << 20
    assert guest.connect().call("ping")
    after = int(open(f"/proc/{guest.pid()}/statm").read().split()[1])
    assert "asan" in str(GUEST) or (after - before) * 4096 < 8 << 20


# Descriptors.

def open_fds(guest):
    return sorted(os.listdir(f"/proc/{guest.pid()}/fd"))


def test_descriptors_without_a_matching_count_are_closed(guest):
    link = guest.connect()
    before = open_fds(guest)
    null = os.open("/dev/null", os.O_RDWR)
    for announced, sent in ((1, 0), (0, 1), (2, 1), (1, 2), (8, 7), (9, 1), ("1", 1)):
        link.methods[link.next_id] = "ping"
        with pytest.raises(GuestError) as error:
            link.answer(link.send("ping", {"fds": announced}, [null] * sent))
        assert error.value.code == "MALFORMED", (announced, sent)
    link.answer(link.send("ping", {"fds": 3}, [null] * 3))        # no handler takes them
    link.call("ping")
    until(lambda: open_fds(guest) == before, "descriptors leak")
    os.close(null)


def test_too_many_descriptors_close_the_connection(guest):
    link = guest.connect()
    before = open_fds(guest)
    null = os.open("/dev/null", os.O_RDWR)
    for _ in range(3):
        try:
            socket.send_fds(link.sock, [b"  "], [null] * 60)
        except OSError:
            break
    with pytest.raises((Gone, ConnectionResetError)):
        while link.receive(TIMEOUT_S) is not None:
            pass
    link = guest.connect()
    link.call("ping")
    until(lambda: open_fds(guest) == before, "descriptors leak")
    os.close(null)


# Lost connections.

def test_new_connection_replaces_the_old_one(guest):
    old = guest.connect()
    new = guest.connect()
    with pytest.raises((Gone, ConnectionResetError, BrokenPipeError)):
        for _ in range(100):
            old.call("ping")
    new.call("ping")


def test_programs_outlive_a_connection_and_the_next_lists_them(guest, tmp_path):
    link = guest.connect()
    running = Exec(link, tmp_path, "ex-running", ["cat"], stdin="pipe")
    Exec(link, tmp_path, "ex-ended", ["sh", "-c", "echo x; exit 9"]).wait()
    link.call("stdin", exec_id="ex-running", offset=0, data_b64=b64(b"before "))
    link.close()
    link = guest.connect()
    states = {state["exec_id"]: state for state in link.welcome["execs"]}
    assert states["ex-running"]["state"] == "running" and states["ex-running"]["stdin_next"] == 7
    assert states["ex-ended"]["exit"] == {"code": 9} and states["ex-ended"]["stdout_bytes"] == 2
    running.link = link
    link.call("stdin", exec_id="ex-running", offset=0, data_b64=b64(b"before after"))
    link.call("close_stdin", exec_id="ex-running", offset=12)
    assert running.wait()["exit"] == {"code": 0}
    assert running.output() == b"before after"


def test_every_exec_is_listed_however_many(guest, tmp_path):
    link = guest.connect()
    link.validate = False
    ids = [f"ex-{i:03}-{'x' * 40}" for i in range(4096)]
    for start in range(0, len(ids), 128):
        sent = [link.send("exec", {"exec_id": i, "argv": ["/no/such/" + "p" * 200], "output": {
            "policy": "kill", "limit_bytes": 65536}}) for i in ids[start:start + 128]]
        for request in sent:
            assert link.answer(request)["state"] == "exited"
    with pytest.raises(GuestError) as error:
        link.call("exec", exec_id="one-more", argv=["true"], output={"policy": "kill", "limit_bytes": 65536})
    assert error.value.code == "LIMIT_REACHED"
    link = guest.connect()
    got = link.welcome
    seen = [state["exec_id"] for state in got["execs"]]
    assert got["more"] is True
    while got.get("more"):
        got = link.call("status", after=seen[-1])
        seen += [state["exec_id"] for state in got["execs"]]
    assert seen == ids


def test_connection_may_break_after_any_byte(guest, tmp_path):
    """A daemon that dies in the middle of a message does not affect the next one."""
    message = b'{"jsonrpc":"2.0","id":1,"method":"hello","params":{"versions":[1],"lease_ms":0}}\n'
    for cut in range(0, len(message), 7):
        link = guest.connect(hello=False)
        link.raw(message[:cut])
        link.close()
    assert guest.connect().call("ping")


# The lease.

def test_expired_lease_ends_programs_and_guest(make_guest, tmp_path):
    guest = make_guest()
    link = guest.connect(lease_ms=300)
    x = Exec(link, tmp_path, "ex-a", ["sh", "-c", "trap '' TERM; echo ready; sleep 1000 & wait"])
    x.wait_output(b"ready")
    time.sleep(0.6)
    link.call("ping")                       # the lease does not run while a daemon is connected
    link.close()
    assert guest.wait() == 0
    assert json.loads(x.paths["status"].read_text())["exit"] == {"signal": 9}


def test_guest_without_any_hello_ends_with_its_lease(make_guest):
    for lease_ms in (3000, 20000):          # a slow machine gets a second, longer try
        guest = make_guest("--lease-ms", str(lease_ms))
        try:
            guest.connect(hello=False)      # only hello stops the lease
            break
        except Gone:
            assert guest.wait() == 0
    else:
        raise AssertionError("it ended before anybody could connect")
    assert guest.wait() == 0


def test_hello_stops_the_lease(make_guest):
    guest = make_guest()
    for _ in range(3):
        guest.connect(lease_ms=60000).close()
    link = guest.connect(lease_ms=0)
    link.close()
    link = guest.connect()
    link.call("ping")


@pytest.mark.parametrize("trap, grace_ms, ended", [("exit 4", 60000, {"code": 4}), ("", 300, {"signal": 9})])
def test_shutdown_ends_programs_within_the_grace_period(guest, tmp_path, trap, grace_ms, ended):
    link = guest.connect()
    x = Exec(link, tmp_path, "ex-a", ["sh", "-c", f"trap '{trap}' TERM; echo ready; while :; do sleep 0.1; done"])
    x.wait_output(b"ready")
    link.call("shutdown", grace_ms=grace_ms)
    assert x.wait()["exit"] == ended
    assert guest.wait() == 0


# stdin and stdout.

class Stdio(Link):
    def __init__(self, framing="lines"):
        self.process = subprocess.Popen([str(GUEST), "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        super().__init__(read_fd=os.dup(self.process.stdout.fileno()),
                         write_fd=os.dup(self.process.stdin.fileno()), framing=framing)
        self.process.stdin.close()
        self.process.stdout.close()

    def read_all(self, exec_id, stream="stdout"):
        data = b""
        while True:
            got = self.call("read_output", exec_id=exec_id, stream=stream, offset=len(data), max_bytes=49152)
            data += __import__("base64").b64decode(got["data_b64"])
            if got["end"]:
                return data


@pytest.mark.parametrize("framing", ["lines", "length"])
def test_guest_serves_on_stdin_and_stdout(framing):
    link = Stdio(framing)
    assert link.hello()["fd_passing"] is False
    link.call("exec", exec_id="a", argv=["sh", "-c", "ls /proc/self/fd | head -c 6; cat; echo e >&2"], stdin="pipe",
              output={"policy": "drop_oldest", "limit_bytes": 65536})
    link.call("stdin", exec_id="a", offset=0, data_b64=b64(b"\0binary\xff"))
    link.call("close_stdin", exec_id="a", offset=8)
    assert link.notice("exited")["exit"] == {"code": 0}
    assert link.read_all("a") == b"0\n1\n2\n\0binary\xff"
    assert link.read_all("a", "stderr") == b"e\n"
    link.close()
    assert link.process.wait(TIMEOUT_S) == 0


def test_guest_on_stdin_recovers_at_the_next_line():
    link = Stdio()
    link.hello()
    link.raw(b"{broken\n")
    assert error_of(link) == (None, "MALFORMED")
    with pytest.raises(GuestError) as error:
        link.call("ping")
    assert error.value.code == "MALFORMED"
    link.hello()
    link.call("ping")
    link.close()
    assert link.process.wait(TIMEOUT_S) == 0


def test_end_of_stdin_ends_programs_and_guest():
    link = Stdio()
    link.hello()
    link.call("exec", exec_id="a", argv=["sh", "-c", "sleep 1000 & setsid sleep 1000 & wait"],
              output={"policy": "kill", "limit_bytes": 65536})
    children = until(lambda: len(found := descendants(link.process.pid)) >= 4 and found, "the programs did not start")
    link.close()
    assert link.process.wait(TIMEOUT_S) == 0
    until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in children), "programs outlived their guest")


def test_read_output_reports_the_offset_of_dropped_output():
    link = Stdio()
    link.hello()
    link.call("exec", exec_id="a", argv=["sh", "-c", "head -c 300000 /dev/zero; echo end"],
              output={"policy": "drop_oldest", "limit_bytes": 65536})
    first = link.notice("exited")["stdout_first"]
    got = link.call("read_output", exec_id="a", stream="stdout", offset=0, max_bytes=10)
    assert got["offset"] == first > 0
    with pytest.raises(GuestError) as error:
        link.call("read_output", exec_id="a", stream="stdout", offset=300005, max_bytes=10)
    assert error.value.code == "OFFSET_BEYOND_END"
    link.close()
    assert link.process.wait(TIMEOUT_S) == 0


# Endurance.

def test_thousands_of_programs_leak_nothing(guest, tmp_path):
    link = guest.connect()
    link.validate = False
    n, batch = int(os.environ.get("BERM_GUEST_EXECS", "2000")), 50
    base = None
    for start in range(0, n, batch):
        running = []
        for i in range(start, start + batch):
            status = os.open(tmp_path, os.O_TMPFILE | os.O_RDWR)
            out = os.open(tmp_path, os.O_TMPFILE | os.O_WRONLY)
            running.append((f"ex-{i}", link.send("exec", {
                "exec_id": f"ex-{i}", "argv": ["/bin/true"], "fds": 2, "fd_roles": ["stdout", "status"],
                "output": {"policy": "kill", "limit_bytes": 65536, "merge_stderr": True}}, [out, status])))
            os.close(out)
            os.close(status)
        for exec_id, request in running:
            link.answer(request)
        for exec_id, _ in running:
            assert link.notice("exited", lambda p: p["exec_id"] == exec_id)["exit"] == {"code": 0}
            link.call("done", exec_id=exec_id)
        link.notices.clear()
        if base is None:
            until(lambda: not descendants(guest.pid()), "the guest did not reap its children")
            link.call("ping")               # so that the guest has finished the turn in which it reaped them
            base = len(open_fds(guest))
    until(lambda: not descendants(guest.pid()), "zombies are left")
    until(lambda: len(open_fds(guest)) == base, "descriptors leak")


def test_guest_as_pid_1_survives_signals_and_reaps_orphans(make_guest, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root for a pid namespace")
    guest = make_guest(prefix=["unshare", "-pf", "--mount-proc", "--kill-child=KILL"])
    guest.killed = True                     # unshare does not forward SIGTERM
    link = guest.connect()
    x = Exec(link, tmp_path, "ex-a", ["sh", "-c", "cat /proc/1/comm; setsid sh -c 'sleep 1000 &'; kill -9 1; kill -STOP 1; "
                                      "kill -9 -1; echo not reached"])
    assert x.wait()["exit"] in ({"signal": 9}, {"code": 0})   # `kill -9 -1` spares the caller but may hit its shepherd
    assert x.output().startswith(b"berm-guest\n")
    count = iter(range(1000))

    def alone():
        y = Exec(link, tmp_path, f"ex-b{next(count)}", ["sh", "-c", "echo alive; ls /proc | grep -c '^[0-9]'"])
        assert y.wait()["exit"] == {"code": 0}
        lines = y.output().split()
        return lines[0] == b"alive" and int(lines[1]) <= 5      # the guest, a shepherd, and this pipeline

    until(alone, "killed processes are left")
    link.call("shutdown", grace_ms=0)
    guest.wait()
