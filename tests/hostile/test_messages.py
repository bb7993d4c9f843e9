"""Bodies that violate gRPC or protobuf."""

import gzip
import os
import random
import zlib

import pytest

from peer import (CHECK, DATA, END_STREAM, PADDED, PING_METHOD, PREFACE, REFLECTION, WATCH, Peer, field, frame,
                  message, settings)

OK, INVALID_ARGUMENT, UNIMPLEMENTED, INTERNAL, RESOURCE_EXHAUSTED = 0, 3, 12, 13, 8
LIMIT = 4 << 20


def refused(answer, code, reason):
    assert (answer.code, answer.reason) == (code, reason), answer
    assert answer.http == "200" and not answer.data
    return answer


# --- the prefix ---

@pytest.mark.parametrize("flag", [2, 3, 0x80, 0xFF])
def test_unknown_compression_flag_is_refused(bermd, flag):
    """covers: RPC-3"""
    with Peer(bermd.socket) as peer:
        body = bytes([flag]) + message(b"")[1:]
        refused(peer.call(1, PING_METHOD, body), INTERNAL, "MALFORMED")
        peer.still_works(3)


@pytest.mark.parametrize("body", [b"\0", b"\0\0\0\0", message(b"abcd", declared=5), message(field(1, b"x" * 9))[:-1],
                                  message() + b"\0"], ids=["1", "4", "short", "cut", "second"])
def test_truncated_message_is_refused(bermd, body):
    """covers: RPC-3"""
    with Peer(bermd.socket) as peer:
        refused(peer.call(1, PING_METHOD, body), INTERNAL, "MALFORMED")
        peer.still_works(3)


@pytest.mark.parametrize("declared", [LIMIT + 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1])
def test_oversized_declared_length_is_refused_immediately(bermd, declared):
    """The prefix alone suffices: the reply does not wait for the rest.

    covers: RPC-5
    """
    with Peer(bermd.socket) as peer:
        peer.send(peer.headers(1, PING_METHOD), frame(DATA, 0, 1, message(declared=declared)))
        answer = refused(peer.end_of(1), RESOURCE_EXHAUSTED, "MESSAGE_TOO_LARGE")
        assert str(LIMIT) in answer.text
        peer.still_works(3)


def test_declared_lengths_allocate_no_memory(bermd):
    """A prefix with the largest allowed length does not make the daemon allocate it.

    covers: RPC-5, SIZE-1
    """
    before = bermd.rss()
    peers = [Peer(bermd.socket) for _ in range(8)]
    for peer in peers:
        for stream in range(1, 401, 2):
            peer.send(peer.headers(stream, PING_METHOD), frame(DATA, 0, stream, message(b"x", declared=LIMIT)))
        peer.still_works(401)
    assert bermd.rss() - before < 128 << 20  # 1600 calls, which declare 6.4 GB
    for peer in peers:
        peer.close()


def test_message_limit_follows_the_configuration(start):
    """covers: RPC-5"""
    daemon = start("--set", "limits.message.inbound=1024")
    with Peer(daemon.socket) as peer:
        for stream, size, code in ((1, 1024, OK), (3, 1025, RESOURCE_EXHAUSTED)):
            payload = field(1, bytes(size - 3))
            assert len(payload) == size
            assert peer.call(stream, PING_METHOD, message(payload)).code == code


def test_several_messages_in_one_frame_are_all_answered(bermd):
    """covers: RPC-3"""
    questions = [field(7, b"%d" % i) for i in range(100)]
    with Peer(bermd.socket) as peer:
        answer = peer.call(1, REFLECTION, b"".join(map(message, questions)))
        assert answer.code == OK and len(answer.messages) == 100
        for question, got in zip(questions, answer.messages):
            assert field(2, question) in got  # the original request, in order


@pytest.mark.parametrize("target", ["unix", "tcp"], indirect=True)
def test_message_in_frames_of_one_byte_is_accepted(bermd, target):
    """covers: RPC-3, RPC-18"""
    payload = os.urandom(700)
    body = message(field(1, payload))
    with Peer(target) as peer:
        headers = peer.headers(1, PING_METHOD, authorization=f"Bearer {bermd.token}")
        frames = [frame(DATA, 0, 1, body[i:i + 1]) for i in range(len(body))]
        assert peer.send(headers, *frames, frame(DATA, END_STREAM, 1))
        answer = peer.end_of(1)
        assert answer.code == OK and answer.messages == [field(1, payload)]


def test_message_split_at_any_byte_is_accepted(bermd):
    """covers: RPC-3"""
    body = message(field(1, b"0123456789"))
    with Peer(bermd.socket) as peer:
        for cut in range(len(body) + 1):
            stream = 2 * cut + 1
            peer.send(peer.headers(stream, PING_METHOD), frame(DATA, 0, stream, body[:cut]),
                      frame(DATA, PADDED | END_STREAM, stream, b"\x07" + body[cut:] + bytes(7)))
            assert peer.end_of(stream).messages == [body[5:]], cut


@pytest.mark.parametrize("method", [PING_METHOD, CHECK, WATCH], ids=["ping", "check", "watch"])
@pytest.mark.parametrize("count", [0, 2, 50])
def test_unary_call_with_zero_or_two_requests_is_refused(bermd, method, count):
    """covers: RPC-4"""
    with Peer(bermd.socket) as peer:
        refused(peer.call(1, method, message() * count), UNIMPLEMENTED, "UNIMPLEMENTED")
        peer.send(peer.headers(3, method, end=count == 0))
        if count:
            peer.send(frame(DATA, 0, 3, message()), *[frame(DATA, 0, 3, message())] * (count - 1))
        refused(peer.end_of(3), UNIMPLEMENTED, "UNIMPLEMENTED")
        peer.still_works(5)


# --- compression ---

def packed(payload):
    return message(gzip.compress(payload), compressed=True)


def test_gzip_bomb_is_refused(bermd):
    """64 MiB of zeros in 64 KiB; the daemon never holds more than the limit.

    covers: RPC-5
    """
    before = bermd.rss()
    with Peer(bermd.socket) as peer:
        bomb = packed(bytes(64 << 20))
        assert len(bomb) < 1 << 17
        for stream in range(1, 41, 2):
            peer.send(peer.headers(stream, PING_METHOD, grpc_encoding="gzip"))
            peer.send_body(stream, bomb, END_STREAM)
        for stream in range(1, 41, 2):
            refused(peer.end_of(stream), RESOURCE_EXHAUSTED, "MESSAGE_TOO_LARGE")
        assert bermd.rss() - before < 64 << 20
        peer.still_works(41)


@pytest.mark.parametrize("size, code", [(LIMIT, OK), (LIMIT + 1, RESOURCE_EXHAUSTED)])
def test_message_limit_applies_to_the_decompressed_size(bermd, size, code):
    """covers: RPC-5"""
    with Peer(bermd.socket) as peer:
        payload = field(1, bytes(size - 5))
        assert len(payload) == size
        assert peer.call(1, PING_METHOD, packed(payload), grpc_encoding="gzip").code == code


@pytest.mark.parametrize("bad", [
    b"", b"\x1f", b"not gzip at all", gzip.compress(b"\n\3abc")[:-1], gzip.compress(b"\n\3abc")[:12],
    gzip.compress(b"\n\3abc") + b"x", gzip.compress(b"\n\3abc") * 2, zlib.compress(b"\n\3abc"),
    gzip.compress(b"\n\3abc")[:-8] + bytes(8), b"\x1f\x8b\x08\xff" + bytes(60),
], ids=["empty", "one", "text", "cut", "half", "tail", "twice", "zlib", "sum", "flags"])
def test_invalid_gzip_is_refused(bermd, bad):
    """covers: RPC-6"""
    with Peer(bermd.socket) as peer:
        answer = peer.call(1, PING_METHOD, message(bad, compressed=True), grpc_encoding="gzip")
        refused(answer, INTERNAL, "MALFORMED")
        good = peer.call(3, PING_METHOD, packed(b"\n\3abc"), grpc_encoding="gzip")
        assert good.code == OK and good.messages == [b"\n\3abc"]  # no state of the last message is left


@pytest.mark.parametrize("encoding", [None, "identity"])
def test_compressed_flag_without_encoding_is_refused(bermd, encoding):
    """covers: RPC-6"""
    with Peer(bermd.socket) as peer:
        refused(peer.call(1, PING_METHOD, packed(b""), grpc_encoding=encoding), INTERNAL, "MALFORMED")
        peer.still_works(3)


@pytest.mark.parametrize("encoding", ["br", "GZIP", "", "gzip, gzip", "x" * 5000, 'a"b'])
def test_unknown_encoding_is_refused_at_the_headers(bermd, encoding):
    """The reply comes at the headers, without a body.

    covers: RPC-2, RPC-6
    """
    with Peer(bermd.socket) as peer:
        peer.send(peer.headers(1, PING_METHOD, grpc_encoding=encoding))
        answer = refused(peer.end_of(1), UNIMPLEMENTED, "UNIMPLEMENTED")
        assert answer.get("grpc-accept-encoding").split(",")
        assert "gzip" in answer.get("grpc-accept-encoding")
        peer.still_works(3)


def test_stream_may_mix_plain_and_compressed_messages(bermd):
    """covers: RPC-6"""
    with Peer(bermd.socket) as peer:
        body = b"".join(random.Random(1).choice([message, packed])(field(7, b"%d" % i)) for i in range(40))
        answer = peer.call(1, REFLECTION, body, grpc_encoding="gzip", grpc_accept_encoding="gzip")
        assert answer.code == OK and len(answer.messages) == 40


# --- protobuf ---

BAD_TEXT = [b"a\0b", b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"12345678\x80"]


@pytest.mark.parametrize("text", BAD_TEXT, ids=bytes.hex)
def test_error_names_the_field_with_invalid_utf8(bermd, text):
    """covers: RPC-13, ERR-2"""
    cases = [(CHECK, field(1, text), "service"),
             (WATCH, field(1, text), "service"),
             (REFLECTION, field(1, text), "host"),
             (REFLECTION, field(3, text), "file_by_filename"),
             (REFLECTION, field(5, field(1, text)), "file_containing_extension.containing_type")]
    with Peer(bermd.socket) as peer:
        for i, (method, body, path) in enumerate(cases):
            answer = refused(peer.call(2 * i + 1, method, message(body)), INVALID_ARGUMENT, "INVALID_ARGUMENT")
            assert answer.field == path
        peer.still_works(101)


@pytest.mark.parametrize("body", [
    b"\x08\x01", b"\x0d\0\0\0\0", b"\x09" + bytes(8), b"\x0b", b"\x0c", b"\x0e", b"\x0f", b"\x0a", b"\x0a\x05abcd",
    b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x0a\xff\xff\xff\xff\x0f", b"\0\0", b"\x02\0", b"\x80",
    b"\xff" * 10, b"\xf8\xff\xff\xff\x7f\0", b"\x10", b"\x10" + b"\xff" * 10, b"\x11abc", b"\x15abc",
], ids=bytes.hex)
def test_malformed_message_is_refused(bermd, body):
    """Wrong wire types, groups, lengths past the end, invalid field numbers, truncated numbers.

    covers: RPC-14, ERR-7
    """
    with Peer(bermd.socket) as peer:
        for stream, method in ((1, CHECK), (3, PING_METHOD), (5, REFLECTION)):
            refused(peer.call(stream, method, message(body)), INVALID_ARGUMENT, "INVALID_ARGUMENT")
        peer.still_works(7)


@pytest.mark.parametrize("body", [
    b"\x8a\x80\x80\x80\x80\x80\x00\x01x", b"\x0a\x81\x80\x80\x80\x80\x00x",
], ids=["tag", "length"])
def test_overlong_varints_are_bounded(bermd, body):
    """A tag or length with redundant zeros is accepted or refused, but never for lack of memory.

    covers: RPC-14, RPC-15
    """
    with Peer(bermd.socket) as peer:
        answer = peer.call(1, PING_METHOD, message(body))
        assert answer.code in (OK, INVALID_ARGUMENT), answer
        peer.still_works(3)


def test_duplicate_sub_message_is_refused(bermd):
    """covers: RPC-14"""
    with Peer(bermd.socket) as peer:
        part = field(5, field(1, b"a"))
        answer = refused(peer.call(1, REFLECTION, message(part + part)), INVALID_ARGUMENT, "INVALID_ARGUMENT")
        assert answer.field == "file_containing_extension"
        answer = peer.call(3, REFLECTION, message(field(3, b"a") + field(3, b"b")))  # a string: the last one wins
        assert answer.code == OK and len(answer.messages) == 1


def test_unknown_fields_are_ignored_at_any_depth(bermd):
    """covers: RPC-14"""
    nested = b""
    for _ in range(2000):
        nested = field(99, nested)
    with Peer(bermd.socket) as peer:
        answer = peer.call(1, PING_METHOD, message(field(1, b"x") + nested + field(1000, 7) + field(1, b"y")))
        assert answer.code == OK and answer.messages[0].startswith(field(1, b"y"))


def test_decoded_memory_is_bounded(bermd):
    """Two million empty fields in 4 MiB would need some 200 MiB.

    covers: RPC-15
    """
    before = bermd.rss()
    body = message(field(99, 0) * (LIMIT // 3))
    with Peer(bermd.socket) as peer:
        for stream in (1, 3, 5):
            refused(peer.call(stream, PING_METHOD, body), RESOURCE_EXHAUSTED, "LIMIT_REACHED")
        assert bermd.rss() - before < 80 << 20
        peer.still_works(7)


def test_message_that_exhausts_its_memory_still_gets_a_status(start):
    """The reply must not need memory that the request used up.

    covers: RPC-15, RPC-26
    """
    daemon = start("--set", "limits.message.decoded=65536")
    with Peer(daemon.socket) as peer:
        seen = set()
        for i, size in enumerate(range(61000, 66000, 200)):
            body = field(1, bytes(size)) + field(99, bytes(3000))
            answer = peer.call(2 * i + 1, PING_METHOD, message(body))
            assert answer.code in (OK, RESOURCE_EXHAUSTED), (size, answer)
            seen.add(answer.code)
        assert RESOURCE_EXHAUSTED in seen


def test_requests_without_end_stream_are_bounded(bermd):
    """Complete messages, large when decoded but tiny on the wire, without END_STREAM. No token is needed, because
    health checks are open to everyone.

    covers: RPC-15, SIZE-1
    """
    before = bermd.rss()
    body = packed(field(99, 0) * 100_000)  # some 10 MB decoded
    assert len(body) < 1000
    with Peer(bermd.address) as peer:
        for stream in range(1, 401, 2):
            peer.send(peer.headers(stream, CHECK, grpc_encoding="gzip"), frame(DATA, 0, stream, body))
        peer.still_works(401)
        assert bermd.rss() - before < 160 << 20
        peer.send(*[frame(DATA, END_STREAM, stream) for stream in range(1, 401, 2) if not peer.answers[stream].ended])
        assert {peer.end_of(stream).code for stream in range(1, 401, 2)} <= {OK, RESOURCE_EXHAUSTED}
        assert bermd.rss() - before < 160 << 20


def test_request_memory_is_freed_with_the_reply(bermd):
    """However long the client takes to read the reply.

    covers: RPC-15, RPC-16, SIZE-1
    """
    before = bermd.rss()
    body = packed(field(99, 0) * 100_000)
    with Peer(bermd.address, polite=False, hello=False) as peer, Peer(bermd.socket) as other:
        peer.send(PREFACE + settings(window=0))
        for stream in range(1, 401, 2):
            peer.send(peer.headers(stream, CHECK, grpc_encoding="gzip"), frame(DATA, END_STREAM, stream, body))
        peer.wait(lambda: peer.answers[399].headers, "answer to the last")
        assert bermd.rss() - before < 160 << 20
        other.still_works(1)


def test_incomplete_messages_of_a_connection_are_bounded(start):
    """Many messages, each within its limit and none complete.

    covers: RPC-15, SIZE-1
    """
    daemon = start("--set", "limits.connection.unfinished=8388608")
    before = daemon.rss()
    with Peer(daemon.socket) as peer, Peer(daemon.socket) as other:
        for stream in range(1, 65, 2):
            peer.send(peer.headers(stream, PING_METHOD))
            peer.send_body(stream, message(bytes(1 << 20), declared=LIMIT))
        peer.still_works(65)
        refusals = [a for a in peer.answers.values() if a.code == RESOURCE_EXHAUSTED]
        assert len(refusals) >= 20 and {a.reason for a in refusals} == {"LIMIT_REACHED"}
        assert daemon.rss() - before < 64 << 20
        other.still_works(1)


def test_open_stream_frees_the_memory_of_a_large_message(start):
    """An open stream does not keep the memory of its largest message.

    covers: SIZE-1
    """
    daemon = start()
    before = daemon.rss()
    with Peer(daemon.socket) as peer:
        body = message(field(1, b"h" * (3 << 20)))
        for stream in range(1, 101, 2):
            peer.send(peer.headers(stream, REFLECTION))
            peer.send_body(stream, body)
            peer.wait(lambda s=stream: len(peer.answers[s].data) > 6 << 20, "answer")
            peer.answers[stream].data.clear()
        assert daemon.rss() - before < 80 << 20  # 50 open streams, none with a message
        peer.still_works(101)


def test_truncated_error_text_stays_utf8(bermd):
    """A name that must be truncated is cut between characters.

    covers: ERR-1, ERR-3
    """
    with Peer(bermd.socket) as peer:
        for i, name in enumerate(("é" * 60, "x" + "é" * 60, "€" * 60, "x€" * 60, "😀" * 30, "xx" + "😀" * 30)):
            answer = peer.call(2 * i + 1, CHECK, message(field(1, name.encode())))
            assert answer.code == 5 and answer.reason == "SERVICE_NOT_FOUND"
            assert answer.text.split('"')[1].rstrip("?\ufffd…") in name
