"""Abuse of HTTP/2: floods, bombs, misplaced frames, too many streams, clients that do not read."""

import gzip
import random
import struct

import pytest

from peer import (ACK, CANCEL, CHECK, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, GOAWAY, HEADERS,
                  PADDED, PING, PING_METHOD, PREFACE, PRIORITY, PROTOCOL_ERROR, PUSH, REFLECTION, REFUSED_STREAM, RST,
                  SETTINGS, WATCH, WINDOW_UPDATE, Peer, body_frames, field, frame, message, request_headers,
                  settings)
from victim import until

RESOURCE_EXHAUSTED = 8
CREDIT = 1000      # frames.credit
FLOOD = 20_000     # earning this many back takes minutes at frames.per_second


# --- floods ---

def flood(peer, *frames, times=FLOOD):
    """Sends everything or until disconnected, without reading."""
    batch = b"".join(frames) * 100
    for _ in range(times // 100):
        if not peer.send(batch):
            return


FLOODS = {
    "ping": frame(PING, payload=bytes(8)),
    "pong": frame(PING, ACK, payload=bytes(8)),
    "settings": settings(),
    "full settings": settings(header_table_size=0, max_streams=100, window=65535),
    "settings ack": frame(SETTINGS, ACK),
    "empty data": frame(DATA, 0, 1),
    "padded empty data": frame(DATA, PADDED, 1, b"\x03" + bytes(3)),
    "window update": frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", 1)),
    "connection window update": frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)),
    "priority": frame(PRIORITY, 0, 1, bytes(5)),
    "priority of other streams": b"".join(frame(PRIORITY, 0, 2 * i + 1, bytes(5)) for i in range(50, 60)),
    "unknown type": frame(0x42, 0xFF, 1, b"whatever"),
    "empty unknown type": frame(0xF0),
}


@pytest.mark.parametrize("what", FLOODS)
def test_flood_of_frames_without_work_ends_the_connection(bermd, what):
    """covers: RPC-22"""
    with Peer(bermd.socket, polite=False) as peer, Peer(bermd.socket) as other:
        peer.send(peer.headers(1, REFLECTION))
        flood(peer, FLOODS[what])
        peer.until_closed()
        if peer.goaway:  # nghttp2 has its own limits for some of these, and a reset loses data
            assert peer.goaway[1] in (ENHANCE_YOUR_CALM, PROTOCOL_ERROR), peer
        other.still_works(1)


@pytest.mark.parametrize("what", ["ping", "settings", "empty data", "window update"])
def test_goaway_of_a_flood_names_the_reason(bermd, what):
    """Sends just past the credit and then reads, so that GOAWAY arrives.

    covers: RPC-22
    """
    with Peer(bermd.socket) as peer:
        peer.send(peer.headers(1, REFLECTION))
        until_gone = 0
        while not peer.closed and until_gone < 20:
            peer.send(FLOODS[what] * (CREDIT // 4))
            peer.send(frame(PING, payload=b"are you?"))
            pongs = peer.pongs
            peer.wait(lambda: peer.closed or peer.pongs > pongs, "answer")
            until_gone += 1
        assert peer.closed and peer.goaway and peer.goaway[1:] == (ENHANCE_YOUR_CALM, b"too_many_pings"), peer


def test_frame_credit_is_as_large_as_specified(bermd):
    """covers: RPC-22"""
    with Peer(bermd.socket) as peer:
        peer.send(frame(PING, payload=bytes(8)) * (CREDIT - 50))
        peer.wait(lambda: peer.pongs == CREDIT - 50, "pongs")
        peer.still_works(1)


def test_useful_frames_earn_credit_back(bermd):
    """An honest client that pings occasionally is never disconnected.

    covers: RPC-22
    """
    with Peer(bermd.socket) as peer:
        for i in range(300):
            peer.send(frame(PING, payload=bytes(8)) * 5)
            peer.still_works(2 * i + 1)


def test_rapid_reset_ends_the_connection(bermd):
    """Opens and cancels calls repeatedly (CVE-2023-44487).

    covers: RPC-22, RPC-9
    """
    before = bermd.rss()
    with Peer(bermd.socket) as peer, Peer(bermd.socket) as other:
        for i in range(20_000):
            stream = 2 * i + 1
            if not peer.send(peer.headers(stream, WATCH), frame(DATA, END_STREAM, stream, message()),
                             frame(RST, 0, stream, struct.pack(">I", CANCEL))):
                break
        peer.until_closed()
        other.still_works(1)
    assert bermd.text().count("code=CANCELLED") < 10_000
    assert bermd.rss() - before < 64 << 20


@pytest.mark.parametrize("provoke", [
    lambda stream: frame(WINDOW_UPDATE, 0, stream, bytes(4)),
    lambda stream: frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", (1 << 31) - 1)) * 2,
    lambda stream: frame(DATA, END_STREAM, stream) + frame(DATA, 0, stream, b"more"),
    lambda stream: frame(PRIORITY, 0, stream, b"123"),
], ids=["no increment", "window overflow", "data after the end", "short priority"])
def test_made_you_reset_ends_the_connection(bermd, provoke):
    """Opens calls and makes them invalid, so that the daemon resets them (CVE-2025-8671).

    covers: RPC-22
    """
    before = bermd.rss()
    with Peer(bermd.socket) as peer, Peer(bermd.socket) as other:
        for i in range(10_000):
            if not peer.send(peer.headers(2 * i + 1, REFLECTION), provoke(2 * i + 1)):
                break
        peer.until_closed()
        other.still_works(1)
    assert bermd.rss() - before < 64 << 20


def test_continuation_flood_ends_the_connection(bermd):
    """covers: RPC-7, RPC-22"""
    before = bermd.rss()
    with Peer(bermd.socket) as peer, Peer(bermd.socket) as other:
        peer.send(frame(HEADERS, 0, 1, peer.encoder.encode(request_headers(CHECK))))
        flood(peer, frame(CONTINUATION, 0, 1))
        peer.until_closed()
        other.still_works(1)
    with Peer(bermd.socket) as peer:
        peer.send(frame(HEADERS, 0, 1, peer.encoder.encode(request_headers(CHECK))))
        flood(peer, *[frame(CONTINUATION, 0, 1, b"\0\1a\1b" * 3000)], times=2000)
        peer.until_closed()
    assert bermd.rss() - before < 64 << 20


# --- headers ---

def split_block(stream, block, end=True):
    """Splits a header block over HEADERS and CONTINUATION frames."""
    parts = [block[i:i + 16384] for i in range(0, len(block), 16384)]
    for i, part in enumerate(parts):
        last = END_HEADERS if i == len(parts) - 1 else 0
        yield frame(CONTINUATION if i else HEADERS, last | (END_STREAM if end and not i else 0), stream, part)


def no_index(headers):
    """Encodes headers as plain literals, which do not enter the table."""
    return b"".join(b"\0" + hpack_int(len(n)) + n.encode() + hpack_int(len(v)) + v.encode() for n, v in headers)


def hpack_int(value, bits=7):
    top = (1 << bits) - 1
    if value < top:
        return bytes([value])
    out, value = bytes([top]), value - top
    while value >= 128:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


HEADER_BOMBS = {
    "many": [(f"x-{i}", "v") for i in range(10_000)],
    "129": [(f"x-{i}", "v") for i in range(123)],
    "64 KB": [(f"x-{i}", "v" * 1000) for i in range(64)],
    "one of 60 KB": [("x-long", "v" * 60_000)],
    "one of 17 KB": [("x-long", "v" * 17_000)],
    "long name": [("x-" + "n" * 17_000, "v")],
    "long bin": [("x-long-bin", "QUJD" * 5000)],
    "long authorization": [("authorization", "Bearer " + "v" * 17_000)],
    "long timeout": [("grpc-timeout", "1" * 17_000)],
}


@pytest.mark.parametrize("what", HEADER_BOMBS)
def test_oversized_headers_fail_only_their_call(bermd, what):
    """covers: RPC-7"""
    with Peer(bermd.socket) as peer:
        block = no_index(request_headers(CHECK) + HEADER_BOMBS[what])
        assert len(block) < 9 * 16384  # nghttp2 accepts eight CONTINUATIONs
        assert peer.send(*split_block(1, block))
        answer = peer.end_of(1)
        assert (answer.code, answer.reason) == (RESOURCE_EXHAUSTED, "HEADERS_TOO_LARGE"), answer
        peer.still_works(3)


@pytest.mark.parametrize("name", [":path", ":authority"])
def test_oversized_pseudo_header_fails_only_its_call(bermd, name):
    """covers: RPC-7"""
    with Peer(bermd.socket) as peer:
        long = {":path": "/" + "x" * 17_000, ":authority": "x" * 17_000}[name]
        headers = [(n, long if n == name else v) for n, v in request_headers(CHECK)]
        assert peer.send(*split_block(1, no_index(headers)))
        answer = peer.end_of(1)
        assert (answer.code, answer.reason) == (RESOURCE_EXHAUSTED, "HEADERS_TOO_LARGE"), answer
        peer.still_works(3)


def test_headers_just_within_the_limits_are_accepted(start):
    """covers: RPC-7"""
    daemon = start("--set", "limits.headers.block=4096")
    with Peer(daemon.socket) as peer:
        headers = request_headers(CHECK) + [(f"x-{i}", "") for i in range(122)]
        assert len(headers) == 128
        peer.send(frame(HEADERS, END_HEADERS, 1, no_index(headers)), frame(DATA, END_STREAM, 1, message()))
        assert peer.end_of(1).code == 0
        fixed = sum(len(n) + len(v) for n, v in request_headers(CHECK))
        for stream, size, code in ((3, 4096, 0), (5, 4097, RESOURCE_EXHAUSTED)):
            headers = request_headers(CHECK) + [("x", "v" * (size - fixed - 1))]
            peer.send(frame(HEADERS, END_HEADERS, stream, no_index(headers)), frame(DATA, END_STREAM, stream, message()))
            assert peer.end_of(stream).code == code, size


def test_hpack_bomb_is_refused(bermd):
    """One large header in the table, then one reference per byte: 4 KB expand to 400 MB.

    covers: RPC-7
    """
    before = bermd.rss()
    with Peer(bermd.socket) as peer:
        block = no_index(request_headers(CHECK))
        block += b"\x40" + hpack_int(1) + b"x" + hpack_int(4000) + b"v" * 4000 + b"\xbe" * 100_000
        assert peer.send(*split_block(1, block))
        answer = peer.end_of(1)
        assert answer.reason == "HEADERS_TOO_LARGE", answer
        peer.still_works(3)
    assert bermd.rss() - before < 64 << 20


@pytest.mark.parametrize("block", [
    b"\x80", b"\xff\xff\xff\xff\xff\xff\xff", b"\xbf", b"\x3f\xe1\xff\xff\x7f", b"\x40", b"\0\x7f\xff\xff\xff\x0f",
    b"\0\x81\xff\0", b"\x40\x82\xff\xff\0",
], ids=bytes.hex)
def test_invalid_hpack_ends_the_connection(bermd, block):
    """covers: RPC-9"""
    with Peer(bermd.socket) as peer, Peer(bermd.socket) as other:
        peer.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, block))
        assert peer.until_closed().goaway[1] in (9, PROTOCOL_ERROR), peer  # COMPRESSION_ERROR
        other.still_works(1)


GOOD = request_headers(CHECK)
BAD_HEADERS = {
    "no path": [h for h in GOOD if h[0] != ":path"],
    "no method": [h for h in GOOD if h[0] != ":method"],
    "no scheme": [h for h in GOOD if h[0] != ":scheme"],
    "no authority": [h for h in GOOD if h[0] != ":authority"],
    "two paths": GOOD[:4] + [(":path", CHECK)] + GOOD[4:],
    "two methods": GOOD[:4] + [(":method", "POST")] + GOOD[4:],
    "two authorities": GOOD[:4] + [(":authority", "localhost")] + GOOD[4:],
    "pseudo last": GOOD[1:] + GOOD[:1],
    "unknown pseudo": GOOD[:4] + [(":berm", "x")] + GOOD[4:],
    "status": GOOD[:4] + [(":status", "200")] + GOOD[4:],
    "upper case": GOOD + [("X-Upper", "v")],
    "connection": GOOD + [("connection", "close")],
    "transfer encoding": GOOD + [("transfer-encoding", "chunked")],
    "te": GOOD[:-1] + [("te", "gzip")],
    "empty path": [(n, "" if n == ":path" else v) for n, v in GOOD],
    "content length": GOOD + [("content-length", "3")],
    "content lengths": GOOD + [("content-length", "5"), ("content-length", "5")],
    "bad content length": GOOD + [("content-length", "-5")],
}


@pytest.mark.parametrize("what", BAD_HEADERS)
def test_forbidden_headers_reset_only_their_stream(bermd, what):
    """The stream is reset; the connection survives.

    covers: RPC-9
    """
    with Peer(bermd.socket) as peer:
        peer.send(frame(HEADERS, END_HEADERS, 1, no_index(BAD_HEADERS[what])),
                  frame(DATA, END_STREAM, 1, message()))
        answer = peer.end_of(1)
        assert answer.reset == PROTOCOL_ERROR and answer.code is None, answer
        peer.still_works(3)


@pytest.mark.parametrize("value", ["line\nbreak", "carriage\rreturn", "nul\0byte"])
def test_control_characters_in_headers_are_refused(bermd, value):
    """covers: RPC-29"""
    with Peer(bermd.socket) as peer:
        block = no_index(request_headers("/x\n" + CHECK) if value.startswith("line") else GOOD + [("x-bad", value)])
        peer.send(frame(HEADERS, END_HEADERS, 1, block), frame(DATA, END_STREAM, 1, message()))
        answer = peer.end_of(1)
        assert answer.reset == PROTOCOL_ERROR or answer.code is not None, answer
        peer.still_works(3)


def test_request_trailers_are_ignored(bermd):
    """Even if they are a bomb.

    covers: RPC-7, AUTH-2
    """
    with Peer(bermd.address) as peer:
        block = no_index([("authorization", f"Bearer {bermd.token}"), *HEADER_BOMBS["64 KB"]])
        peer.send(peer.headers(1, PING_METHOD), frame(DATA, 0, 1, message()), *split_block(1, block))
        assert peer.end_of(1).code == 16
        peer.send(peer.headers(3, CHECK), frame(DATA, 0, 3, message()), *split_block(3, block))
        assert peer.end_of(3).code == 0
        peer.still_works(5)


# --- frames in the wrong place ---

WRONG = {
    "data on stream 0": frame(DATA, 0, 0, b"x"),
    "data on an idle stream": frame(DATA, 0, 7, b"x"),
    "headers on stream 0": frame(HEADERS, END_HEADERS, 0, b"\x82"),
    "headers on an even stream": frame(HEADERS, END_HEADERS, 2, b"\x82"),
    "settings on a stream": frame(SETTINGS, 0, 1),
    "settings of 5 bytes": frame(SETTINGS, payload=bytes(5)),
    "settings ack with a payload": frame(SETTINGS, ACK, 0, bytes(6)),
    "window of 2^31": settings(window=1 << 31),
    "frame size of 1": settings(frame_size=1),
    "push of 2": settings(enable_push=2),
    "ping of 7 bytes": frame(PING, payload=bytes(7)),
    "ping on a stream": frame(PING, 0, 1, bytes(8)),
    "push promise": frame(PUSH, END_HEADERS, 1, bytes(4)),
    "reset of an idle stream": frame(RST, 0, 9, bytes(4)),
    "reset of 3 bytes": frame(RST, 0, 1, bytes(3)),
    "reset of stream 0": frame(RST, 0, 0, bytes(4)),
    "no window increment": frame(WINDOW_UPDATE, 0, 0, bytes(4)),
    "window overflow": frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", (1 << 31) - 1)),
    "continuation alone": frame(CONTINUATION, END_HEADERS, 1, b"\x82"),
    "ping inside a header block": frame(HEADERS, 0, 1, b"\x82") + frame(PING, payload=bytes(8)),
    "padding beyond the frame": frame(HEADERS, END_HEADERS | PADDED, 1, b"\xff\x82"),
    "frame of 16 MB": struct.pack(">I", 0xFFFFFF)[1:] + bytes([DATA, 0]) + struct.pack(">I", 1),
    "frame of 16385": frame(PING, 0, 0, bytes(16385)),
    "goaway of 3 bytes": frame(GOAWAY, payload=bytes(3)),
    "thousand settings": frame(SETTINGS, payload=struct.pack(">HI", 0x99, 0) * 1000),
}


@pytest.mark.parametrize("what", WRONG)
def test_misplaced_frames_end_only_their_connection(bermd, what):
    """Only that connection ends.

    covers: RPC-9
    """
    with Peer(bermd.socket) as peer, Peer(bermd.socket) as other:
        other.send(other.headers(1, WATCH), frame(DATA, END_STREAM, 1, message()))
        other.wait(lambda: other.answers[1].data, "first answer")
        peer.send(WRONG[what])
        peer.until_closed()
        assert peer.goaway is None or peer.goaway[1] != 0, peer
        other.still_works(3)
        assert not other.answers[1].ended


def test_first_frame_must_be_settings(bermd):
    """covers: RPC-23"""
    with Peer(bermd.socket, hello=False) as peer:
        peer.send(PREFACE, frame(PING, payload=bytes(8)))
        assert peer.until_closed().goaway[1] == PROTOCOL_ERROR


def test_frames_on_an_ended_stream_are_harmless(bermd):
    """covers: RPC-26"""
    with Peer(bermd.socket) as peer:
        peer.still_works(1)
        peer.send(frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", 5)), frame(RST, 0, 1, struct.pack(">I", CANCEL)),
                  frame(PRIORITY, 0, 1, bytes(5)))
        peer.still_works(3)
        peer.send(frame(DATA, 0, 1, b"late"))
        peer.wait(lambda: peer.closed or peer.answers[1].reset is not None or not peer.send(frame(PING, payload=bytes(8)))
                  or peer.pongs, "reaction")


def test_client_goaway_lets_open_calls_finish(bermd):
    """Open calls finish, however slow the client is.

    covers: RPC-9
    """
    with Peer(bermd.socket) as peer:
        peer.send(peer.headers(1, PING_METHOD), frame(GOAWAY, payload=bytes(8) + b"bye"),
                  frame(DATA, END_STREAM, 1, message(field(1, b"last"))))
        assert peer.end_of(1).messages == [field(1, b"last")]
        peer.until_closed()


# --- streams ---

def test_streams_past_the_limit_are_refused(start):
    """covers: RPC-21"""
    daemon = start("--set", "limits.connection.streams=10")
    with Peer(daemon.socket, polite=False) as peer, Peer(daemon.socket) as other:
        for i in range(30):  # before it acknowledged the daemon's SETTINGS: refused one by one
            peer.send(peer.headers(2 * i + 1, WATCH), frame(DATA, END_STREAM, 2 * i + 1, message()))
        peer.wait(lambda: sum(a.reset == REFUSED_STREAM for a in peer.answers.values()) == 20 and
                  sum(bool(a.data) for a in peer.answers.values()) == 10, "refusals")
        assert peer.settings[3] == 10
        peer.send(frame(SETTINGS, ACK), peer.headers(61, WATCH))  # after the acknowledgement the connection ends
        peer.wait(lambda: peer.closed or peer.answers[61].ended, "refusal")
        assert not peer.answers[61].data
        other.still_works(1)


def test_ended_streams_free_their_slot(start):
    """covers: RPC-21, RPC-9"""
    daemon = start("--set", "limits.connection.streams=10")
    with Peer(daemon.socket) as peer:
        for i in range(200):
            stream = 2 * i + 1
            peer.send(peer.headers(stream, WATCH), frame(DATA, END_STREAM, stream, message()))
            peer.wait(lambda s=stream: peer.answers[s].data, "answer")
            peer.send(frame(RST, 0, stream, struct.pack(">I", CANCEL)))
        daemon.wait_for_log("code=CANCELLED", 200)
        peer.still_works(401)


def test_window_returns_for_bodies_of_failed_calls(bermd):
    """Bodies of calls that failed, were unknown or were reset, several times the connection's window in all.

    covers: RPC-3
    """
    with Peer(bermd.socket) as peer:
        chunk, stream = bytes(16384), -1
        for _ in range(100):
            for path in ("/no.such/Method", PING_METHOD, REFLECTION):
                stream += 2
                peer.send(peer.headers(stream, path))
                body = chunk if path != REFLECTION else message(declared=1 << 20) + chunk[5:]
                peer.send_body(stream, body * 3)
                peer.send(frame(RST, 0, stream, struct.pack(">I", CANCEL)))
        assert 100 * 3 * 3 * 16384 > 3 * (4 << 20)
        peer.still_works(stream + 2)
        payload = field(1, bytes(1 << 20))  # and a whole large message fits
        assert peer.call(stream + 4, PING_METHOD, message(payload)).messages == [payload]


def test_window_returns_for_requests_that_were_never_read(bermd):
    """The daemon stops reading requests of a client that does not read replies. Pending requests end with the stream.

    covers: RPC-9, RPC-16
    """
    questions = message(field(4, b"berm.v1.SystemService")) * 2000
    assert len(questions) > 50_000
    with Peer(bermd.socket, hello=False) as peer:
        peer.send(PREFACE + settings(window=0))
        for stream in range(1, 241, 2):
            peer.send(peer.headers(stream, REFLECTION))
            peer.send_body(stream, questions)
            peer.send(frame(RST, 0, stream, struct.pack(">I", CANCEL)), frame(PING, payload=bytes(8)))
            peer.wait(lambda s=stream: peer.pongs == (s + 1) // 2, "pong")
        assert 120 * len(questions) > 4 << 20  # the connection's window
        peer.send(settings(window=1 << 20))
        peer.still_works(241)
        payload = field(1, bytes(1 << 19))
        assert peer.call(243, PING_METHOD, message(payload)).messages == [payload]


# --- readers who do not read ---

def test_unread_replies_stay_within_their_bound(bermd):
    """Sends requests without end and never reads a reply.

    covers: RPC-16
    """
    before = bermd.rss()
    question = message(field(4, b"berm.v1.SystemService"))  # the reply contains the whole API
    with Peer(bermd.socket, polite=False) as peer, Peer(bermd.socket) as other:
        peer.send(frame(WINDOW_UPDATE, payload=struct.pack(">I", 1)))
        peer.socket.settimeout(1)
        for stream in range(1, 129, 2):
            peer.send(peer.headers(stream, REFLECTION))
        try:
            for _ in range(50):
                for stream in range(1, 129, 2):
                    peer.send(frame(DATA, 0, stream, question * 300))
        except TimeoutError:
            pass  # the daemon stops reading requests, as intended
        other.still_works(1)
        assert bermd.rss() - before < 96 << 20  # 64 calls of 256 KiB, and their requests
        other.still_works(3)


@pytest.mark.parametrize("method", [PING_METHOD, REFLECTION], ids=["ping", "reflection"])
@pytest.mark.parametrize("order", ["one by one", "all headers first", "all ends last"])
def test_large_unread_replies_stay_within_their_bound(bermd, order, method):
    """4 MiB per reply for 4 KiB per request: a connection buffers a bounded amount, not a gigabyte.

    covers: RPC-16, SIZE-1
    """
    before = bermd.rss()
    question = message(gzip.compress(field(1, b"x" * ((4 << 20) - 5))), compressed=True)
    with Peer(bermd.socket, polite=False) as peer, Peer(bermd.socket) as other:
        peer.socket.settimeout(1)
        streams = range(1, 401, 2)
        parts = [[peer.headers(stream, method, grpc_encoding="gzip") for stream in streams],
                 [frame(DATA, 0, stream, question) for stream in streams],
                 [frame(DATA, END_STREAM, stream) for stream in streams]]
        if order == "one by one":
            parts = [map(b"".join, zip(*parts))]
        elif order == "all headers first":
            parts = [parts[0], map(b"".join, zip(*parts[1:]))]
        try:
            for part in parts:
                for piece in part:
                    peer.send(piece)
        except TimeoutError:
            pass
        other.still_works(1)
        assert bermd.rss() - before < 256 << 20


def test_window_opened_by_single_bytes_delivers_the_reply(bermd):
    """covers: RPC-16, RPC-26"""
    with Peer(bermd.socket, polite=False, hello=False) as peer, Peer(bermd.socket) as other:
        peer.send(PREFACE + settings(window=0))
        peer.send(peer.headers(1, PING_METHOD), frame(DATA, END_STREAM, 1, message(field(1, b"0123456789"))))
        want = 5 + 12
        for i in range(want):
            peer.send(frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", 1)))
            peer.wait(lambda n=i: len(peer.answers[1].data) == n + 1, "next byte")
        assert peer.end_of(1).code == 0
        other.still_works(1)


def test_negative_window_is_tolerated(bermd):
    """covers: RPC-16"""
    rng = random.Random(7)
    with Peer(bermd.socket) as peer:
        peer.send(peer.headers(1, REFLECTION))
        for _ in range(60):
            peer.send(settings(window=rng.choice([0, 1, 65535, 1 << 20])),
                      frame(DATA, 0, 1, message(field(4, b"berm.v1.SystemService"))))
        peer.send(settings(window=(1 << 31) - 1), frame(DATA, END_STREAM, 1))
        answer = peer.end_of(1)
        assert answer.code == 0 and len(answer.messages) == 60


def test_client_that_leaves_without_reading_leaks_nothing(bermd):
    """covers: RPC-9, RPC-16"""
    files = bermd.fds()
    for _ in range(30):
        with Peer(bermd.socket, polite=False) as peer:
            peer.send(peer.headers(1, REFLECTION),
                      *body_frames(1, message(field(4, b"berm.v1.SystemService")) * 500))
            peer.wait(lambda p=peer: p.answers[1].data, "beginning of the answer")
    until(lambda: bermd.fds() <= files, "descriptors closed")
    assert len(bermd.wait_for_log("code=CANCELLED", 30)) == 30
