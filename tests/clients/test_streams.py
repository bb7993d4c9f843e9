"""Long answers through the transport: bench-server is bermd with one method that streams what is asked for."""

import pathlib
import threading

import grpc
import pytest

import conftest

STREAM = "/berm.bench.v1.BenchService/Stream"
PING = "/berm.v1.SystemService/Ping"
KIB64 = 65536


@pytest.fixture
def streamer(tmp_path, monkeypatch):
    monkeypatch.setattr(conftest, "BERMD", pathlib.Path(conftest.BERMD).with_name("bench-server"))
    daemon = conftest.Daemon(tmp_path)
    yield daemon
    daemon.stop()


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def request(count, size):
    return b"\x08" + varint(count) + b"\x10" + varint(size)


def bytes_of(response):
    """The length of field 1 of a StreamResponse."""
    at, shift, n = 1, 0, 0
    while True:
        byte = response[at]
        n |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            break
    assert len(response) == at + n and response[at:] == b"b" * n
    return n


def rss_kb(daemon):
    for line in (pathlib.Path("/proc") / str(daemon.process.pid) / "status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")


@pytest.mark.parametrize("size", [0, 1, 16379, 16384, KIB64, 1 << 20])
def test_every_byte_arrives_whatever_the_size(streamer, size):
    with grpc.insecure_channel(streamer.unix) as channel:
        got = [bytes_of(r) if size else len(r) for r in channel.unary_stream(STREAM)(request(50, size))]
    assert got == [size] * 50


def test_streams_side_by_side(streamer):
    with grpc.insecure_channel(streamer.unix) as channel:
        calls = [channel.unary_stream(STREAM)(request(40, KIB64)) for _ in range(20)]
        assert [sum(map(bytes_of, call)) for call in calls] == [40 * KIB64] * 20


def test_deadlines_in_the_middle_of_a_stream(streamer):
    """covers: RPC-8. The answer is cut wherever the deadline finds it, and the daemon goes on."""
    with grpc.insecure_channel(streamer.unix) as channel:
        stream = channel.unary_stream(STREAM)
        for ms in range(1, 60):
            with pytest.raises(grpc.RpcError) as caught:
                for _ in stream(request(1_000_000, KIB64), timeout=ms / 1000):
                    pass
            assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        assert channel.unary_unary(PING)(b"\x0a\x01x") == b"\x0a\x01x"


def test_cancels_in_the_middle_of_a_stream(streamer):
    """covers: RPC-9"""
    with grpc.insecure_channel(streamer.unix) as channel:
        for after in range(1, 61):  # one that never got an answer might never have been sent
            call = channel.unary_stream(STREAM)(request(1_000_000, KIB64))
            for _ in range(after):
                next(call)
            call.cancel()
        assert channel.unary_unary(PING)(b"\x0a\x01x") == b"\x0a\x01x"
    streamer.wait_for_log("code=CANCELLED", 60)


def test_a_reader_that_stops_costs_a_bound_and_disturbs_nobody(streamer):
    """covers: RPC-16"""
    with grpc.insecure_channel(streamer.unix) as lazy, grpc.insecure_channel(streamer.unix, [("lazy", 0)]) as brisk:
        brisk.unary_unary(PING)(b"")
        before = rss_kb(streamer)
        idle = [lazy.unary_stream(STREAM)(request(1_000_000, KIB64)) for _ in range(20)]
        for call in idle:
            next(call)
        assert sum(map(bytes_of, brisk.unary_stream(STREAM)(request(200, KIB64)))) == 200 * KIB64
        # 20 calls of call.unread and a message each, far below the 1.2 TB they asked for.
        assert rss_kb(streamer) - before < 64 * 1024
        for call in idle:
            call.cancel()


def test_many_clients_read_at_their_own_pace(streamer):
    results = []

    def read(number):
        with grpc.insecure_channel(streamer.unix, [("own", number)]) as channel:  # options of its own, so a socket of its own
            results.append(sum(map(bytes_of, channel.unary_stream(STREAM)(request(200, KIB64)))))

    threads = [threading.Thread(target=read, args=[i]) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [200 * KIB64] * 8
