"""Bytes that are not a protocol, or only a part of one, arrive slowly, or stop anywhere."""

import contextlib
import random
import socket
import struct
import time

import pytest

from peer import (CHECK, DATA, END_STREAM, GOAWAY, HEADERS, PING, PING_METHOD, PREFACE, REFLECTION, RST,
                  SECONDS, WATCH, Peer, field, frame, message, request_headers, settings)
from victim import until

DEADLINE_EXCEEDED = 4


def dial(target):
    peer = socket.create_connection(target) if isinstance(target, tuple) else socket.socket(socket.AF_UNIX)
    if not isinstance(target, tuple):
        peer.connect(str(target))
    peer.settimeout(SECONDS)
    return peer


def all_of(peer):
    """Reads until the end."""
    out = b""
    try:
        while data := peer.recv(1 << 16):
            out += data
    except ConnectionResetError:
        pass
    return out


# --- no protocol ---

@pytest.mark.parametrize("first", [
    b"\0", b"\xff" * 100, b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03", b"SSH-2.0-x\r\n", b"PRI * HTTP/1.1\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\r", b"\n" * 24, bytes(range(256)) * 600,
], ids=["nul", "ff", "tls", "ssh", "pri", "almost", "newlines", "much"])
def test_garbage_closes_the_connection(bermd, target, first):
    """covers: RPC-23"""
    with dial(target) as peer:
        try:
            peer.sendall(first)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert all_of(peer)[:9] in (b"", b"HTTP/1.1 ")


@pytest.mark.parametrize("request_line", [b"GET / HTTP/1.1", b"POST /berm.v1.SystemService/Ping HTTP/1.1",
                                          b"PRINT / HTTP/1.0", b"OPTIONS * HTTP/1.1"])
def test_http_1_request_gets_a_readable_error(bermd, target, request_line):
    """covers: RPC-23"""
    with dial(target) as peer:
        peer.sendall(request_line + b"\r\nHost: localhost\r\nUpgrade: h2c\r\n\r\n")
        head, body = all_of(peer).split(b"\r\n\r\n", 1)
        lines = head.split(b"\r\n")
        assert lines[0].startswith(b"HTTP/1.1 505 ")
        assert b"connection: close" in [line.lower() for line in lines]
        assert b"content-length: %d" % len(body) in [line.lower() for line in lines]
        assert b"HTTP/2" in body


# --- time ---

@pytest.mark.parametrize("first", [b"", b"P", PREFACE[:-1]], ids=["nothing", "one", "almost"])
def test_silent_connection_is_closed_after_first_bytes(start, first):
    """covers: RPC-23"""
    daemon = start("--listen", "127.0.0.1:0", "--set", "limits.connection.first_bytes=200")
    for target in (daemon.socket, daemon.address):
        with dial(target) as peer:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):    # the test was too late
                peer.sendall(first)
            assert all_of(peer) == b""


@pytest.mark.parametrize("sent", ["nothing", "part of the prefix", "part of the message", "one message"])
def test_incomplete_request_ends_at_its_deadline(start, sent):
    """covers: RPC-23"""
    body = message(field(1, b"0123456789"))
    part = {"nothing": 0, "part of the prefix": 3, "part of the message": 9, "one message": len(body)}[sent]
    daemon = start("--set", "limits.connection.request=300")
    with Peer(daemon.socket) as peer, Peer(daemon.socket) as other:
        peer.send(peer.headers(1, PING_METHOD), frame(DATA, 0, 1, body[:part]) if part else b"")
        peer.wait(lambda: peer.closed or peer.answers[1].ended, "end")
        assert peer.closed or peer.answers[1].code == DEADLINE_EXCEEDED, peer
        other.still_works(1)


def test_dripping_body_does_not_extend_the_deadline(start):
    """An occasional byte does not keep the call alive.

    covers: RPC-23
    """
    daemon = start("--set", "limits.connection.request=300")
    body = message(field(1, bytes(60_000)))
    with Peer(daemon.socket) as peer:
        peer.socket.settimeout(0.02)
        peer.send(peer.headers(1, PING_METHOD))
        for i in range(len(body)):
            peer.send(frame(DATA, 0, 1, body[i:i + 1]))
            try:
                peer._receive()
            except TimeoutError:
                pass
            if peer.closed or peer.answers[1].ended:
                break
        assert i < 2000 and (peer.closed or peer.answers[1].code == DEADLINE_EXCEEDED), peer


def test_incomplete_headers_close_the_connection(start):
    """The wait for a request starts with its first byte, not with its last header.

    covers: RPC-23
    """
    daemon = start("--set", "limits.connection.request=300")
    with Peer(daemon.socket, polite=False) as peer:
        peer.send(frame(HEADERS, 0, 1, peer.encoder.encode(request_headers(PING_METHOD))))
        peer.until_closed()


def test_open_stream_outlives_the_request_deadline(start):
    """The limit is for single requests; a client that keeps a stream open stays.

    covers: RPC-23
    """
    daemon = start("--set", "limits.connection.request=100")
    with Peer(daemon.socket) as peer, Peer(daemon.socket) as other:
        peer.send(peer.headers(1, REFLECTION), peer.headers(3, WATCH), frame(DATA, END_STREAM, 3, message()))
        other.send(other.headers(1, PING_METHOD))
        other.wait(lambda: other.closed or other.answers[1].ended, "cut of the other")  # then the time has passed
        peer.send(frame(DATA, END_STREAM, 1, message(field(7, b""))))
        assert peer.end_of(1).code == 0 and not peer.answers[3].ended


def test_idle_connection_gets_goaway(start):
    """covers: RPC-23"""
    daemon = start("--set", "limits.connection.idle=2000", "--set", "limits.keepalive.interval=1000")
    with Peer(daemon.socket) as peer:
        peer.still_works(1)
        assert peer.until_closed().goaway[1] == 0


def test_peer_that_ignores_a_ping_is_closed(start):
    """covers: RPC-24"""
    daemon = start("--set", "limits.keepalive.interval=1000", "--set", "limits.keepalive.timeout=4000")
    with Peer(daemon.socket, polite=False) as dead, Peer(daemon.socket) as alive:
        dead.send(dead.headers(1, WATCH), frame(DATA, END_STREAM, 1, message()))
        alive.send(alive.headers(1, WATCH), frame(DATA, END_STREAM, 1, message()))
        while not dead.closed:
            alive.socket.settimeout(0.05)
            try:
                alive._receive()  # it answers pings meanwhile
            except TimeoutError:
                pass
            dead.socket.settimeout(0.05)
            try:
                dead._receive()
            except TimeoutError:
                pass
        alive.socket.settimeout(SECONDS)
        alive.still_works(3)
        assert not alive.answers[1].ended
    daemon.wait_for_log("connection_dead")


def test_flooding_peer_that_never_reads_is_closed(start):
    """GOAWAY cannot be delivered to a peer that reads nothing and keeps sending.

    covers: RPC-22, RPC-24
    """
    daemon = start("--set", "limits.keepalive.interval=1000", "--set", "limits.keepalive.timeout=1000")
    with Peer(daemon.socket, polite=False) as peer:
        peer.send(peer.headers(1, REFLECTION),
                  *[frame(DATA, 0, 1, message(field(4, b"berm.v1.SystemService")) * 400) for _ in range(3)])
        peer.send(*[frame(PING, payload=bytes(8)) for _ in range(3000)])
        until(lambda: time.sleep(0.1) or not peer.send(b"\0"), "cut off")
    daemon.wait_for_log("code=CANCELLED")


# --- whole conversations ---

def conversation(token=None):
    """The bytes of a valid client: calls of every kind, some cancelled."""
    peer = Peer(socket.socket(socket.AF_UNIX), hello=False)
    auth = {"authorization": f"Bearer {token}"} if token else {}
    parts = [PREFACE, settings(window=1 << 20),
             peer.headers(1, PING_METHOD, **auth), frame(DATA, END_STREAM, 1, message(field(1, b"hello"))),
             peer.headers(3, WATCH, **auth), frame(DATA, END_STREAM, 3, message()),
             peer.headers(5, REFLECTION, **auth), frame(DATA, 0, 5, message(field(7, b""))[:4]),
             frame(DATA, 0, 5, message(field(7, b""))[4:]), frame(RST, 0, 3, struct.pack(">I", 8)),
             frame(PING, payload=b"12345678"), frame(DATA, END_STREAM, 5, message(field(4, b"berm.v1.Ping"))),
             peer.headers(7, CHECK, grpc_timeout="5S", **auth), frame(DATA, END_STREAM, 7, message()),
             frame(GOAWAY, payload=bytes(8))]
    peer.close()
    return b"".join(parts)


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_client_may_disconnect_after_any_byte(bermd, target, reset):
    """covers: RPC-9"""
    if reset and not isinstance(target, tuple):
        reset = None  # a Unix socket has no reset, so neither side reads
    said = conversation(bermd.token if isinstance(target, tuple) else None)
    files = bermd.fds()
    for cut in range(len(said) + 1):
        with dial(target) as peer:
            if reset:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.sendall(said[:cut])
            if reset is None:
                peer.shutdown(socket.SHUT_RD)
    until(lambda: bermd.fds() <= files, "every connection ended")


def test_client_may_stall_after_any_byte(bermd):
    """Hundreds at once, each stalled at another byte; then all disconnect.

    covers: RPC-9, RPC-21
    """
    said, files = conversation(), bermd.fds()
    peers = []
    for cut in range(len(said) + 1):
        peers.append(dial(bermd.socket))
        peers[-1].sendall(said[:cut])
    bermd.serves()
    for peer in peers:
        peer.close()
    until(lambda: bermd.fds() <= files, "every connection ended")


def test_requests_sent_byte_by_byte_succeed(bermd, target):
    """covers: RPC-3"""
    said = conversation(bermd.token if isinstance(target, tuple) else None)
    with Peer(target, hello=False) as peer:
        for i in range(len(said)):
            assert peer.send(said[i:i + 1])
        peer.until_closed()
        assert {s: peer.answers[s].code for s in (1, 5, 7)} == {1: 0, 5: 0, 7: 0}, peer
        assert peer.pongs == 1


def mutate(rng, said):
    """Changes one to four places."""
    said = bytearray(said)
    for _ in range(rng.randint(1, 4)):
        at, n = rng.randrange(len(said)), rng.choice([1, 1, 2, 9, 40])
        kind = rng.randrange(6)
        if kind == 0:
            said[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            said[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
        elif kind == 2:
            del said[at:at + n]
        elif kind == 3:
            said[at:at] = said[at:at + n]
        elif kind == 4:
            said[at:at] = rng.randbytes(n)
        else:
            other = rng.randrange(len(said))
            said[at:at + n] = said[other:other + n]
    return bytes(said)


@pytest.mark.parametrize("seed", range(8))
def test_corrupted_conversations_do_not_crash_the_daemon(bermd, target, seed):
    """covers: ERR-7"""
    rng = random.Random(seed)
    said = conversation(bermd.token if isinstance(target, tuple) else None)
    files = bermd.fds()
    for i in range(60):
        wrong = mutate(rng, said)
        with dial(target) as peer:
            try:
                if i % 2:
                    peer.sendall(wrong)
                else:
                    cut = rng.randrange(len(wrong) + 1)
                    peer.sendall(wrong[:cut])
                    peer.sendall(wrong[cut:])
                peer.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            all_of(peer)
    until(lambda: bermd.fds() <= files, "every connection ended")


# --- many connections ---

def test_connections_past_the_limit_are_refused(start):
    """covers: RPC-21"""
    daemon = start("--listen", "127.0.0.1:0", "--set", "limits.connections.max=20")
    files = daemon.fds()
    with Peer(daemon.socket) as first:
        first.still_works(1)
        crowd = [Peer(daemon.address if i % 2 else daemon.socket) for i in range(60)]
        for peer in crowd:
            peer.wait(lambda p=peer: p.closed or p.settings, "word")
        assert sum(not peer.closed for peer in crowd) == 19
        first.still_works(3)
        for peer in crowd:
            peer.close()
        until(lambda: daemon.fds() <= files + 1, "closed connections")
        crowd = [Peer(daemon.socket) for _ in range(19)]
        for peer in crowd:
            peer.still_works(1)
            peer.close()
    daemon.wait_for_log("connections.max is reached", 41)


def test_thousand_connections_leave_nothing_behind(bermd):
    """covers: RPC-21, SIZE-1"""
    files, before = bermd.fds(), bermd.rss()
    for _ in range(3):
        peers = [dial(bermd.socket) for _ in range(300)]  # three times as many at once are still within the limit
        for peer in peers:
            peer.sendall(PREFACE + settings())
        for peer in peers:
            peer.close()
    until(lambda: bermd.fds() <= files, "every connection ended")
    assert bermd.rss() - before < 64 << 20
