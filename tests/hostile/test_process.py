"""bermd in a bad environment: configuration, directories, descriptors, signals."""

import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import time

import pytest

from peer import CHECK, DATA, END_STREAM, PING_METHOD, REFLECTION, WATCH, Peer, field, frame, message
from victim import BERMD, SANITIZER, SECONDS, Daemon, until

USAGE, BROKEN, HELD = 2, 1, 3
UNAVAILABLE = 14


def run(*arguments, program=BERMD, **options):
    """Runs a start that must fail. Returns its status and output."""
    done = subprocess.run([program, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                          timeout=SECONDS, env={**os.environ, **SANITIZER}, **options)
    assert "Sanitizer" not in done.stderr and "runtime error:" not in done.stderr, done.stderr
    return done


@pytest.fixture
def places(tmp_path):
    return ["--state", tmp_path / "state", "--socket", tmp_path / "sock"]


# --- configuration ---

BAD_KNOBS = {
    "no_such_knob = 1": "no_such_knob", "limits.no.such = 1": "limits.no.such", "limits. = 1": "limits.",
    "just words": "just words", "= 1": "", "limits.message.inbound = 1023": "1024 to 67108864",
    "limits.message.inbound = 67108865": "67108865", "limits.message.inbound = -1": "-1",
    "limits.message.inbound = 0x400": "0x400", "limits.message.inbound = 4k": "4k", "limits.message.inbound =": "number",
    "limits.connections.max = 0": "1 to 100000", "limits.drain.max = 99999999999999999999999": "3600000",
    "limits.message.depth = 17": "part of the API", "limits.frames.credit = 1000000": "part of the API",
    "limits.heartbeat = 1": "part of the API", "socket_mode = 888": "octal", "socket_mode = 1777": "octal",
    "socket_mode = rw": "octal", "allow_uids = root": "numbers", "allow_uids = 1,,2": "numbers",
    "allow_uids = 4294967295": "numbers", "allow_uids = -1": "numbers",
    "allow_uids = " + ",".join(map(str, range(65))): "numbers", "log_level = loud": "debug, info, warn or error",
    "access_log = yes": "true or false", "state = relative": "absolute", "state =": "absolute",
    "socket = /" + "x" * 107: "107 bytes", "state = /" + "x" * 5000: "absolute",
}


@pytest.mark.parametrize("line", BAD_KNOBS, ids=lambda line: line[:40])
def test_error_names_the_line_of_an_invalid_setting(tmp_path, places, line):
    """covers: SIZE-1"""
    file = tmp_path / "bermd.conf"
    file.write_text(f"# a comment\n\nlog_level = warn\n{line}\nno_such_knob_behind_it = 1\n")
    done = run("--config", file, *places)
    assert done.returncode == USAGE and f"{file}:4: " in done.stderr, done
    assert BAD_KNOBS[line] in done.stderr
    assert not (tmp_path / "state").exists()
    if "=" in line:
        name, _, value = line.partition("=")
        done = run("--set", f"{name.strip()}={value.strip()}", *places)
        assert done.returncode == USAGE and BAD_KNOBS[line] in done.stderr, done


@pytest.mark.parametrize("content", [b"\0" * 100, b"\xff\xfe\n", b"x" * 70_000, b"state = /a\0b\n", b"a=\n" * 30_000],
                         ids=["nul", "bytes", "large", "nul in a value", "many lines"])
def test_invalid_configuration_file_is_refused(tmp_path, places, content):
    """covers: SIZE-1"""
    file = tmp_path / "bermd.conf"
    file.write_bytes(content)
    done = run("--config", file, *places)
    assert done.returncode == USAGE and str(file) in done.stderr, done


@pytest.mark.parametrize("path", ["/no/such/file", "/", "/proc/self/mem"])
def test_unreadable_configuration_file_is_refused(places, path):
    """covers: SIZE-1"""
    done = run("--config", path, *places)
    assert done.returncode == USAGE and path in done.stderr, done


@pytest.mark.parametrize("arguments", [["--set", "x"], ["--set", ""], ["--set", "="], ["--no-such"], ["word"],
                                       ["--state"], ["--log-level", "x"], ["--set", "state=x"], ["--socket", "x"]],
                         ids=" ".join)
def test_invalid_usage_is_refused(places, arguments):
    done = run(*places, *arguments)
    assert done.returncode == USAGE and done.stderr.strip(), done


def test_printed_configuration_with_edge_values_is_accepted(places):
    """The output of --print-config is a valid configuration."""
    printed = run("--print-config", *places).stdout
    limits = re.findall(r"\((?:bytes|ms|count), (\d+) to (\d+)\)\n(limits\.\S+) = ", printed)
    assert len(limits) > 10
    for edge in (0, 1):
        settings = [argument for limit in limits for argument in ("--set", f"{limit[2]}={limit[edge]}")]
        done = run(*settings, "--print-config", *places)
        assert done.returncode == 0, done
        for limit in limits:
            assert f"\n{limit[2]} = {limit[edge]}\n" in done.stdout


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:127.0.0.1]:0", "[2001:db8::1]:0",
                                     "126.255.255.255:1", "128.0.0.1:1", "0:0", ":0", "127.0.0.1", "127.0.0.1:",
                                     "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:x", "localhost.evil:0", "[::1", "]:1",
                                     "127.1:0", "evil:0", "x" * 120 + ":0", "127.0.0.1:0 "])
def test_address_reachable_from_outside_is_refused(tmp_path, places, address):
    """covers: AUTH-6"""
    done = run(*places, "--listen", address)
    assert done.returncode == BROKEN and "msg=failed" in done.stderr, done
    assert not (tmp_path / "sock").exists()


# --- directories ---

@pytest.mark.parametrize("path", ["/proc/berm", "/dev/null/berm", "/proc/self/mem", "/dev/null"])
def test_impossible_state_directory_is_refused(tmp_path, path):
    """covers: ERR-6"""
    done = run("--state", path, "--socket", tmp_path / "sock")
    assert done.returncode == BROKEN and path.split("/berm")[0] in done.stderr, done
    assert not (tmp_path / "sock").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_unwritable_state_directory_is_refused(tmp_path):
    """covers: AUTH-5"""
    state = tmp_path / "state"
    state.mkdir()
    tmp_path.parent.parent.chmod(0o755), tmp_path.parent.chmod(0o755), tmp_path.chmod(0o777)
    state.chmod(0o755)
    program = shutil.copy(BERMD, tmp_path / "bermd")      # the clone may be readable by root only
    program.chmod(0o755)
    done = run("--state", state, "--socket", tmp_path / "sock", program=program, user=12345)
    assert done.returncode == BROKEN and "Permission denied" in done.stderr, done
    assert not (tmp_path / "sock").exists() and not list(state.iterdir())


def no_room(size):
    """Limits file sizes to `size`, as on a full disk."""
    def prepare():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return prepare


@pytest.mark.parametrize("size", [0, 1, 20, 33, 50, 64])
def test_daemon_on_a_full_disk_starts_later(tmp_path, places, size):
    """The daemon does not start with half a token. It starts when there is disk space.

    covers: AUTH-5
    """
    done = run(*places, "--listen", "127.0.0.1:0", preexec_fn=no_room(size))
    assert done.returncode == BROKEN and "msg=failed" in done.stderr, done
    assert "Success" not in done.stderr
    assert not (tmp_path / "state/token").exists() and not (tmp_path / "sock").exists()
    daemon = Daemon(tmp_path, "--listen", "127.0.0.1:0")
    try:
        assert len(daemon.token) == 64
        daemon.serves()
    finally:
        daemon.stop()


@pytest.mark.parametrize("content, mode", [(b"", 0o600), (b"short\n", 0o600), (b"0" * 65, 0o600), (b"0" * 64, 0o640),
                                           (b"0" * 64, 0o604), (b"\0" * 64 + b"0" * 10, 0o600)],
                         ids=["empty", "short", "long", "group", "others", "nul"])
def test_untrusted_token_file_is_refused(tmp_path, places, content, mode):
    """covers: AUTH-5"""
    (tmp_path / "state").mkdir(0o700)
    token = tmp_path / "state/token"
    token.write_bytes(content)
    token.chmod(mode)
    done = run(*places, "--listen", "127.0.0.1:0")
    assert done.returncode == BROKEN and "token" in done.stderr, done
    assert content.decode()[:32] == "" or content.decode()[:32] not in done.stderr
    assert token.read_bytes() == content


def test_token_file_that_is_a_link_is_refused(tmp_path, places):
    """covers: AUTH-5"""
    (tmp_path / "state").mkdir(0o700)
    (tmp_path / "elsewhere").write_text("0" * 64)
    (tmp_path / "elsewhere").chmod(0o600)
    (tmp_path / "state/token").symlink_to(tmp_path / "elsewhere")
    assert run(*places, "--listen", "127.0.0.1:0").returncode == BROKEN


@pytest.mark.parametrize("content", [b"", b"x" * 32, b"0" * 31, b"0" * 500])
def test_damaged_instance_file_is_refused(tmp_path, places, content):
    """covers: STORE-5"""
    (tmp_path / "state").mkdir(0o700)
    (tmp_path / "state/instance").write_bytes(content)
    done = run(*places)
    assert done.returncode == BROKEN and "instance" in done.stderr, done
    assert (tmp_path / "state/instance").read_bytes() == content


def test_second_daemon_is_refused_and_names_the_first(start, tmp_path):
    """With the same state directory the error names the process; with the same socket it says that it is in use.

    covers: STORE-5
    """
    first = start()
    done = run("--state", first.state, "--socket", tmp_path / "other.sock")
    assert done.returncode == HELD and str(first.process.pid) in done.stderr, done
    done = run("--state", tmp_path / "other", "--socket", first.socket)
    assert done.returncode == BROKEN and "already serves" in done.stderr, done
    assert first.socket.exists()


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_file_at_the_socket_path_is_kept(tmp_path, places, kind):
    """covers: AUTH-1"""
    path = tmp_path / "sock"
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        (tmp_path / "target").write_text("precious")
        path.symlink_to(tmp_path / "target")
    else:
        path.write_text("precious")
    done = run(*places)
    assert done.returncode == BROKEN and "not a socket" in done.stderr, done
    assert path.is_dir() or path.read_text() == "precious"


# --- descriptors ---

def answers(daemon):
    """Returns whether the daemon accepts connections, without its log."""
    assert daemon.process.poll() is None, f"it ended with status {daemon.process.returncode}"
    try:
        Peer(daemon.socket).close()
        return True
    except OSError:
        return False


@pytest.mark.parametrize("closed", [[2], [1, 2], [0, 1, 2], [0], [0, 2]], ids=str)
def test_daemon_starts_without_standard_descriptors(tmp_path, closed):
    """Log lines must not go into a file or to a client that happens to have descriptor 2."""
    daemon = Daemon(tmp_path, listening=False, preexec_fn=lambda: [os.close(fd) for fd in closed])
    try:
        until(lambda: answers(daemon), "started")
        for _ in range(3):
            with Peer(daemon.socket) as peer:
                for stream in range(1, 41, 2):
                    peer.still_works(stream)
        daemon.serves()
        assert (daemon.state / "lock").read_text() == f"{daemon.process.pid}\n"
        small = [daemon.state / name for name in ("lock", "instance", "boot")]
        assert all(file.stat().st_size < 100 for file in small)
    finally:
        daemon.stop()


def test_unread_log_does_not_block_calls(tmp_path):
    """With a full pipe, log lines are lost but calls are not.

    covers: RPC-29
    """
    reader, writer = os.pipe()
    daemon = Daemon(tmp_path, listening=False, stderr=writer)
    os.close(writer)
    try:
        until(lambda: answers(daemon), "started")
        with Peer(daemon.socket) as peer:
            for stream in range(1, 6001, 2):
                peer.send(peer.headers(stream, CHECK), frame(DATA, END_STREAM, stream, message()))
                if stream % 200 == 199:
                    peer.end_of(stream)
        daemon.serves()
        os.set_blocking(reader, False)
        held = os.read(reader, 1 << 20)
        assert len(held) <= 1 << 17 and held.count(b"msg=call") > 100
        until(lambda: daemon.serves() or b"dropped_lines=" in drain(reader), "word of the lost lines")
    finally:
        os.close(reader)  # now the pipe is broken, too
        daemon.serves()
        daemon.stop()


def drain(fd):
    try:
        return os.read(fd, 1 << 20)
    except BlockingIOError:
        return b""


def test_daemon_survives_running_out_of_descriptors(tmp_path):
    """covers: RPC-21, ERR-7"""
    daemon = Daemon(tmp_path, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (260, 260)))
    try:
        before = daemon.fds()
        with Peer(daemon.socket) as first:
            first.still_works(1)
            crowd = [Peer(daemon.socket) for _ in range(400)]
            for peer in crowd:
                peer.wait(lambda p=peer: p.closed or p.settings, "word")
            served = [peer for peer in crowd if not peer.closed]
            assert 0 < len(served) < 260
            first.still_works(3)
            served[0].still_works(1)
            for peer in crowd:
                peer.close()
        until(lambda: daemon.fds() <= before, "closed connections")
        with Peer(daemon.socket) as again:
            again.still_works(1)
        daemon.serves()
    finally:
        daemon.stop()


# --- signals ---

def test_drain_survives_clients_that_leave_at_the_same_time(start):
    """The signal and the ends of connections arrive together, in every possible state.

    covers: RPC-25
    """
    daemon = start("--listen", "127.0.0.1:0")
    peers = [Peer(daemon.address if i % 2 else daemon.socket) for i in range(20)]
    for i, peer in enumerate(peers):
        if i % 3 == 0:
            peer.still_works(1)
        if i % 3 == 1:
            peer.send(peer.headers(3, WATCH), frame(DATA, END_STREAM, 3, message()))
            peer.wait(lambda p=peer: p.answers[3].data, "answer")
    half = socket.socket(socket.AF_UNIX)
    half.connect(str(daemon.socket))
    daemon.freeze()
    for peer in peers:
        peer.close()
    half.close()
    daemon.process.send_signal(signal.SIGTERM)
    daemon.thaw()
    daemon.wait()


def test_drain_survives_new_connections_at_the_same_time(start):
    """covers: RPC-25"""
    for both in (signal.SIGTERM, signal.SIGINT):
        daemon = start(name=both.name)
        daemon.freeze()
        crowd = []
        for _ in range(50):
            peer = socket.socket(socket.AF_UNIX)
            peer.connect(str(daemon.socket))
            crowd.append(peer)
        daemon.process.send_signal(signal.SIGTERM)
        daemon.process.send_signal(both)
        daemon.thaw()
        daemon.wait()
        for peer in crowd:
            peer.close()


def test_drain_ends_watches_and_finishes_calls(start):
    """The watch ends immediately, the call may finish, a new call is refused, and then the daemon ends.

    covers: RPC-25, RPC-19, RPC-26
    """
    daemon = start()
    peer = Peer(daemon.socket, polite=False)
    body = message(field(1, b"0123456789"))
    peer.send(peer.headers(1, WATCH), frame(DATA, END_STREAM, 1, message()),
              peer.headers(3, PING_METHOD), frame(DATA, 0, 3, body[:7]),
              peer.headers(5, REFLECTION))
    peer.wait(lambda: peer.answers[1].data, "first answer")
    daemon.process.send_signal(signal.SIGTERM)
    watch = peer.end_of(1)
    assert (watch.code, watch.reason) == (UNAVAILABLE, "SHUTTING_DOWN")
    assert watch.messages == [b"\x08\x01", b"\x08\x02"]  # serving, not serving
    assert peer.end_of(5).code == UNAVAILABLE
    late = peer.call(7, PING_METHOD)  # no PING was acknowledged yet, so calls are still accepted
    assert (late.code, late.reason) == (UNAVAILABLE, "SHUTTING_DOWN")
    assert peer.call(9, CHECK).messages == [b"\x08\x02"]
    peer.send(frame(DATA, END_STREAM, 3, body[7:]))
    assert peer.end_of(3).messages == [body[5:]]
    peer.send(frame(6, 1, 0, b"bermdrn\0"))
    peer.until_closed()
    assert peer.goaway[1] == 0
    daemon.wait()


def test_drain_limit_ends_a_stuck_call(start):
    """covers: RPC-25"""
    daemon = start("--set", "limits.drain.max=300")
    peer = Peer(daemon.socket)
    peer.send(peer.headers(1, PING_METHOD), frame(DATA, 0, 1, message(declared=100)))
    peer.wait(lambda: peer.settings, "settings")
    daemon.process.send_signal(signal.SIGTERM)
    peer.until_closed()
    daemon.wait()
    assert "msg=drain_limit" in daemon.text() and "code=CANCELLED" in daemon.text()


def test_second_signal_ends_open_calls(start):
    """covers: RPC-25"""
    daemon = start("--set", "limits.drain.max=3600000")
    peer = Peer(daemon.socket)
    peer.send(peer.headers(1, PING_METHOD), frame(DATA, 0, 1, message(declared=100)))
    peer.wait(lambda: peer.settings, "settings")
    daemon.process.send_signal(signal.SIGTERM)
    daemon.wait_for_log("msg=stopping")
    time.sleep(0.1)
    assert daemon.process.poll() is None
    daemon.process.send_signal(signal.SIGTERM)
    peer.until_closed()
    daemon.wait()


def test_client_that_never_reads_does_not_delay_the_end(start):
    """covers: RPC-25, RPC-16"""
    daemon = start("--set", "limits.drain.max=300")
    with Peer(daemon.socket, polite=False) as peer:
        for stream in range(1, 41, 2):
            peer.send(peer.headers(stream, REFLECTION),
                      frame(DATA, 0, stream, message(field(4, b"berm.v1.SystemService")) * 400))
        until(lambda: daemon.rss(), "started")
        daemon.process.send_signal(signal.SIGTERM)
        daemon.wait()


def test_draining_daemon_accepts_no_connection(start):
    """covers: RPC-25"""
    daemon = start("--set", "limits.drain.max=2000")
    with Peer(daemon.socket, polite=False) as peer:
        peer.send(peer.headers(1, PING_METHOD))
        peer.wait(lambda: peer.settings, "settings")
        daemon.process.send_signal(signal.SIGTERM)
        daemon.wait_for_log("msg=stopping")
        with pytest.raises(OSError):
            for _ in range(SECONDS * 100):
                Peer(daemon.socket).close()
                time.sleep(0.01)
        daemon.wait()
