"""Authentication, invalid HTTP requests, and what reaches the log."""

import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile

import pytest

from peer import (CHECK, DATA, END_HEADERS, END_STREAM, HEADERS, PING_METHOD, REFLECTION, WATCH, Peer, field, frame,
                  message, request_headers)
from test_frames import no_index
from victim import Daemon

OK, PERMISSION_DENIED, UNIMPLEMENTED, INTERNAL, UNAUTHENTICATED = 0, 7, 12, 13, 16


# --- the token ---

def wrong_tokens(token):
    return {
        "none": None, "empty": "", "scheme alone": "Bearer", "no scheme": token,
        "other scheme": f"Basic {token}", "prefix": f"Bearer {token[:-1]}", "longer": f"Bearer {token}0",
        "twice": f"Bearer {token}{token}", "upper": f"Bearer {token.upper()}" if token.upper() != token else "Bearer x",
        "last digit": f"Bearer {token[:-1]}{'0' if token[-1] != '0' else '1'}",
        "zeros": "Bearer " + "0" * 64, "long": "Bearer " + "0" * 10_000, "list": f"Bearer x, Bearer {token}",
        "glued": f"Bearer{token}",
    }


@pytest.mark.parametrize("what", wrong_tokens("0" * 64))
def test_wrong_token_is_refused(bermd, what):
    """covers: AUTH-4, AUTH-8"""
    value = wrong_tokens(bermd.token)[what]
    with Peer(bermd.address) as peer:
        texts = set()
        for i, path in enumerate((PING_METHOD, REFLECTION, "/berm.v1.SandboxService/ListSandboxes", "/no.such/Method",
                                  "/berm.v1.SystemService/NoSuchMethod")):
            answer = peer.call(2 * i + 1, path, authorization=value)
            assert (answer.code, answer.reason) == (UNAUTHENTICATED, "UNAUTHENTICATED"), path
            assert not answer.data and bermd.token not in answer.text
            texts.add(answer.text)
        assert len(texts) == 1  # existing and unknown methods reply alike
        assert peer.call(101, PING_METHOD, authorization=f"Bearer {bermd.token}").code == OK
        assert peer.call(103, CHECK, authorization=value).code == OK


def test_first_of_two_tokens_counts(bermd):
    """covers: AUTH-4"""
    with Peer(bermd.address) as peer:
        headers = request_headers(PING_METHOD, authorization="Bearer x") + [("authorization", f"Bearer {bermd.token}")]
        peer.send(peer.block_of(1, headers), frame(DATA, END_STREAM, 1, message()))
        assert peer.end_of(1).code == UNAUTHENTICATED


def test_refused_caller_gets_its_reply_before_it_sends_a_body(bermd):
    """The daemon must not buffer anything for it.

    covers: AUTH-4, RPC-2
    """
    with Peer(bermd.address) as peer:
        peer.send(peer.headers(1, PING_METHOD))
        assert peer.end_of(1).code == UNAUTHENTICATED
        peer.still_works(3)


# --- names of the host ---

@pytest.mark.parametrize("authority", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.2",
                                       "[::2]", "localhos", "localhostx:80", "127.0.0.1@evil.example", "127.0.0.11:80",
                                       "[::1", "0.0.0.0", "x" * 300])
def test_foreign_authority_is_refused(bermd, authority):
    """Refused whatever the token, even for health checks: a browser with a rebound DNS name sends no token.

    covers: AUTH-7, AUTH-8
    """
    with Peer(bermd.address) as peer:
        for i, (path, token) in enumerate([(PING_METHOD, bermd.token), (PING_METHOD, "wrong"), (CHECK, "wrong"),
                                           ("/no.such/Method", bermd.token)]):
            answer = peer.call(2 * i + 1, path, authority=authority, authorization=f"Bearer {token}")
            assert (answer.code, answer.reason) == (PERMISSION_DENIED, "PERMISSION_DENIED"), path


@pytest.mark.parametrize("authority", ["localhost", "LOCALHOST:1", "127.0.0.1:99999", "[::1]:80", "[::1]"])
def test_own_authority_is_accepted(bermd, authority):
    """covers: AUTH-7"""
    with Peer(bermd.address) as peer:
        assert peer.call(1, PING_METHOD, authority=authority, authorization=f"Bearer {bermd.token}").code == OK


@pytest.mark.parametrize("own", [True, False], ids=["both", "host alone"])
def test_foreign_host_header_is_refused(bermd, own):
    """covers: AUTH-7"""
    with Peer(bermd.address) as peer:
        answer = peer.call(1, PING_METHOD, authority="localhost" if own else None, host="evil.example",
                           authorization=f"Bearer {bermd.token}")
        assert answer.code == PERMISSION_DENIED


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "", "https://localhost.evil.example", "file://",
                                    "localhost", "http://", "http://user@evil.example", "ftp://localhost"])
def test_foreign_origin_is_refused(bermd, origin):
    """covers: AUTH-7"""
    with Peer(bermd.address) as peer:
        for stream, path in ((1, PING_METHOD), (3, CHECK)):
            answer = peer.call(stream, path, origin=origin, authorization=f"Bearer {bermd.token}")
            assert (answer.code, answer.reason) == (PERMISSION_DENIED, "PERMISSION_DENIED")
        answer = peer.call(5, PING_METHOD, origin="http://localhost:3000", authorization=f"Bearer {bermd.token}")
        assert answer.code == OK


# --- users ---

AS_USER = """
import os, socket, sys
uid, path, out = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
os.setgroups([]); os.setgid(uid); os.setuid(uid)
peer = socket.socket(socket.AF_UNIX)
peer.connect(path)
socket.send_fds(socket.socket(fileno=out), [b"x"], [peer.fileno()])
"""


def connect_as(uid, path):
    """A connection made by another user; the kernel remembers who it was."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        subprocess.run([sys.executable, "-I", "-c", AS_USER, str(uid), str(path), str(theirs.fileno())],
                       pass_fds=[theirs.fileno()], check=True)
        _, (fd,), _, _ = socket.recv_fds(ours, 1, 1)
    return socket.socket(fileno=fd)


@pytest.fixture
def public_dir():
    """A directory that every user can reach."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield pathlib.Path(folder)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")


@needs_root
def test_kernel_identifies_callers_by_uid(public_dir):
    """covers: AUTH-2, AUTH-3, AUTH-8"""
    daemon = Daemon(public_dir / "d", "--set", "socket_mode=0666", "--set", "allow_uids=23456,34567")
    try:
        with Peer(connect_as(12345, daemon.socket)) as stranger:
            texts = set()
            for i, path in enumerate((PING_METHOD, CHECK, WATCH, REFLECTION, "/no.such/Method")):
                answer = stranger.call(2 * i + 1, path, authorization="Bearer uid:0", x_uid="0")
                assert (answer.code, answer.reason) == (PERMISSION_DENIED, "PERMISSION_DENIED"), path
                assert not answer.data
                texts.add(answer.text)
            assert len(texts) == 1 and "12345" in texts.pop()
        for uid in (23456, 34567):
            with Peer(connect_as(uid, daemon.socket)) as friend:
                assert friend.call(1, PING_METHOD).code == OK
                info = friend.call(3, "/berm.v1.SystemService/GetInfo")
                assert info.code == OK and b"uid:%d" % uid in info.messages[0]
        daemon.wait_for_log(r"method=berm\.v1\.SystemService/Ping peer=uid:12345 code=PERMISSION_DENIED")
        daemon.serves()
    finally:
        daemon.stop()


@needs_root
def test_socket_mode_keeps_other_users_out(public_dir):
    """covers: AUTH-3"""
    daemon = Daemon(public_dir / "d", "--set", "allow_uids=23456")
    try:
        with pytest.raises(subprocess.CalledProcessError):
            connect_as(23456, daemon.socket)
        daemon.serves()
    finally:
        daemon.stop()


# --- HTTP ---

@pytest.mark.parametrize("kind", ["application/json", "application/grpc-web", "application/grpc+json", "", None,
                                  "application/grpcx", "APPLICATION/GRPC+thrift", "text/plain; application/grpc"])
def test_other_content_type_is_refused_at_the_headers(bermd, kind):
    """The reply comes at the headers.

    covers: RPC-2
    """
    with Peer(bermd.socket) as peer:
        peer.send(peer.headers(1, CHECK, content_type=kind))
        answer = peer.end_of(1)
        assert answer.http == "415" and answer.code is None
        peer.still_works(3)


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "post", "X" * 500])
def test_other_http_method_is_refused(bermd, method):
    """covers: RPC-2"""
    with Peer(bermd.socket) as peer:
        peer.send(peer.headers(1, CHECK, method=method, end=True))
        answer = peer.end_of(1)
        assert answer.http == "405" and answer.code is None
        peer.still_works(3)


def test_http_connect_is_refused(bermd):
    """covers: RPC-2"""
    with Peer(bermd.socket) as peer:
        peer.send(frame(HEADERS, END_HEADERS, 1, no_index([(":method", "CONNECT"), (":authority", "localhost:22")])))
        assert peer.end_of(1).http == "405"
        peer.still_works(3)


@pytest.mark.parametrize("value", ["", "1", "S", "-1S", "+1S", "1.5S", "1s", "1h", "1 S", " 1S", "1S ", "123456789S",
                                   "0x1S", "1SS", "1e3S", "٣S", "S1", "18446744073709551616n"])
def test_invalid_timeout_is_refused(bermd, value):
    """covers: RPC-8"""
    with Peer(bermd.socket) as peer:
        block = no_index([(":method", "POST"), (":scheme", "http"), (":authority", "localhost"), (":path", CHECK),
                          ("content-type", "application/grpc")])
        raw = value.encode()
        block += b"\0" + bytes([12]) + b"grpc-timeout" + bytes([len(raw)]) + raw
        peer.send(frame(HEADERS, END_HEADERS, 1, block), frame(DATA, END_STREAM, 1, message()))
        answer = peer.end_of(1)
        if value.strip() != value:  # nghttp2 may refuse or trim it
            assert answer.reset is not None or answer.code in (OK, INTERNAL)
        else:
            assert (answer.code, answer.reason) == (INTERNAL, "MALFORMED"), answer
        peer.still_works(3)


@pytest.mark.parametrize("value", ["99999999H", "00000001S", "99999999n", "20S", "20000m", "99999999u"])
def test_largest_timeouts_are_accepted(bermd, value):
    """covers: RPC-8"""
    with Peer(bermd.socket) as peer:
        assert peer.call(1, CHECK, grpc_timeout=value).code in (OK, 4)


@pytest.mark.parametrize("value", ["0S", "1n", "1u", "100m"])
def test_timeout_ends_a_call(bermd, value):
    """covers: RPC-8"""
    with Peer(bermd.socket) as peer:
        answer = peer.call(1, WATCH, grpc_timeout=value)
        assert (answer.code, answer.reason) == (4, "DEADLINE_EXCEEDED")


# --- the log ---

def test_caller_cannot_forge_a_log_line(bermd):
    """covers: RPC-29"""
    forged = 'level=info msg=call method=berm.v1.SystemService/Ping peer=uid:0 code=OK'
    paths = [f'/x" {forged}', f"/x {forged}", "/x\\", '/"', "/" + "\\" * 600, "/" + '"' * 600, "/" + "x" * 8000, "/\x7f",
             "/=", "//", "/ ", "*", "/%0a" + forged]
    with Peer(bermd.address) as peer:
        for i, path in enumerate(paths):
            block = no_index([(":method", "POST"), (":scheme", "http"), (":authority", "localhost"), (":path", path),
                              ("content-type", "application/grpc"), ("user-agent", f"x\t{forged}"),
                              ("authorization", f"Bearer {forged}")])
            peer.send(frame(HEADERS, END_HEADERS, 2 * i + 1, block), frame(DATA, END_STREAM, 2 * i + 1, message()))
            peer.end_of(2 * i + 1)
        for i, host in enumerate(['evil" code=OK x="', "evil\\", "a b"]):
            peer.call(101 + 2 * i, PING_METHOD, authority=host)
        for i, origin in enumerate(['evil" code=OK x="', "evil\\", "a\tb"]):
            peer.call(201 + 2 * i, PING_METHOD, origin=origin)
        peer.still_works(301)
    bermd.wait_for_log("method=grpc.health.v1.Health/Check")
    for line in bermd.text().splitlines():
        fields = log_fields(line)
        if fields.get("msg") == "call" and "Health" not in fields["method"]:
            assert fields["code"] != "OK" and fields["peer"].startswith("127.0.0.1:"), line


FIELD = re.compile(r' ?([a-z_]+)=("(?:[^"\\]|\\["\\]|\\x[0-9a-f]{2})*"|[^\s"=\\]+)')


def log_fields(line):
    """Returns the fields of a log line. A line that does not consist of fields is forged or broken."""
    assert re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z ", line), line
    at, found = line.index(" "), {}
    while at < len(line):
        match = FIELD.match(line, at)
        assert match and match[1] not in found, f"at {at}: {line}"
        found[match[1]], at = match[2], match.end()
    return found


def test_invalid_utf8_does_not_truncate_a_log_line(bermd):
    """Every line names the caller and the result.

    covers: RPC-29
    """
    with Peer(bermd.address) as peer:
        for i, filler in enumerate((b"\xff", b"\x80", b"\xc3\xa9", b"\xe2\x82", b'"', b"\\")):
            path = b"/" + (filler * 600)[:600]
            block = no_index([(":method", "POST"), (":scheme", "http"), (":authority", "localhost")])
            block += b"\0\x05:path\x7f" + bytes([(len(path) - 127) & 127 | 128, (len(path) - 127) >> 7]) + path
            block += no_index([("content-type", "application/grpc")])
            peer.send(frame(HEADERS, END_HEADERS, 2 * i + 1, block), frame(DATA, END_STREAM, 2 * i + 1, message()))
            answer = peer.end_of(2 * i + 1)
            assert answer.code == UNAUTHENTICATED or answer.reset is not None
        peer.still_works(101)
    bermd.wait_for_log("method=grpc.health.v1.Health/Check")
    for line in bermd.text().splitlines():
        fields = log_fields(line)
        if fields["msg"] == "call":
            assert {"method", "peer", "code", "us", "in", "out"} <= set(fields), line


def test_no_control_character_reaches_the_log(bermd):
    """Also not those above 0x7f, which some terminals obey: U+009B starts an escape sequence.

    covers: RPC-29
    """
    with Peer(bermd.socket) as peer:
        for i, text in enumerate(("\x9b31m", "\x85", "\x1b[31m", "\x07")):
            peer.call(2 * i + 1, CHECK, message(field(1, text.encode())))
        peer.still_works(101)
    bermd.wait_for_log("code=OK")
    text = bermd.log.read_bytes().decode()
    assert not [c for c in text if c != "\n" and (ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0)]


def test_no_secret_reaches_the_log(start):
    """covers: AUTH-5, RPC-29, ERR-6"""
    daemon = start("--listen", "127.0.0.1:0", "--log-level", "debug")
    token = daemon.token
    with Peer(daemon.address) as peer:
        for i, value in enumerate((f"Bearer {token}", f"Basic {token}", token, f"Bearer {token}x", f"Bearer {token[:60]}")):
            answer = peer.call(2 * i + 1, PING_METHOD, message(field(1, b"PAYLOAD-SECRET")), authorization=value,
                               x_secret="HEADER-SECRET")
            assert token[:32] not in answer.text
    daemon.wait_for_log("msg=call", 5)
    assert token[:32] not in daemon.text() and "SECRET" not in daemon.text()


def test_every_call_logs_one_line(bermd):
    """covers: RPC-29, RPC-26"""
    with Peer(bermd.socket) as peer:
        peer.call(1, PING_METHOD, message(field(1, bytes(10))))
        peer.call(3, PING_METHOD, b"\2\0\0\0\0")
        peer.call(5, "/no.such/Method")
        peer.call(7, CHECK, grpc_timeout="x")
        peer.call(9, WATCH, grpc_timeout="1m")
        peer.send(peer.headers(11, WATCH), frame(DATA, END_STREAM, 11, message()))
        peer.wait(lambda: peer.answers[11].data, "answer")
    lines = [log_fields(line) for line in bermd.wait_for_log(".*msg=call.*", 6)]
    assert [line["code"] for line in lines] == ["OK", "INTERNAL", "UNIMPLEMENTED", "INTERNAL", "DEADLINE_EXCEEDED",
                                               "CANCELLED"]
    assert [line.get("reason") for line in lines] == [None, "MALFORMED", "UNIMPLEMENTED", "MALFORMED",
                                                      "DEADLINE_EXCEEDED", "CANCELLED"]
    assert lines[0]["in"] == lines[0]["out"] == "12" and {line["peer"] for line in lines} == {f"uid:{os.geteuid()}"}
