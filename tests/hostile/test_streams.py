"""Long replies to clients that read in the worst way. The daemon sends them without copying, so whatever a client
does while bytes are pending, it must get the right bytes or none. bench-server is bermd with one streaming method."""

import itertools
import pathlib
import random
import socket
import struct

import pytest

import victim
from peer import CANCEL, CHECK, END_STREAM, PREFACE, RST, WINDOW_UPDATE, Peer, field, frame, message, settings

STREAM = "/berm.bench.v1.BenchService/Stream"
SIZE = 65536
MESSAGE = field(1, b"b" * SIZE)


@pytest.fixture
def streamer(start, monkeypatch):
    monkeypatch.setattr(victim, "BERMD", pathlib.Path(victim.BERMD).with_name("bench-server"))
    return start()


class Sips(socket.socket):
    """A socket that reads only a few bytes at a time."""
    sizes = itertools.repeat(1 << 18)

    def recv(self, n):
        return super().recv(min(n, next(self.sizes)))


def sipping(daemon, sizes):
    sips = Sips(socket.AF_UNIX)
    sips.connect(str(daemon.socket))
    sips.sizes = sizes
    return Peer(sips)


def ask(peer, stream, count, size=SIZE, **more):
    peer.send_body(stream, message(field(1, count) + field(2, size)), END_STREAM, peer.headers(stream, STREAM, **more))


def is_whole(answer, count):
    return answer.code == 0 and answer.messages == [MESSAGE] * count


def grant(stream, n):
    return frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", n))


def test_slow_reader_gets_the_right_bytes(streamer):
    """covers: RPC-16. More than the socket buffers, so most of it is pending in the daemon."""
    with sipping(streamer, itertools.repeat(7)) as peer:
        ask(peer, 1, 40)
        assert is_whole(peer.end_of(1), 40)


def test_slow_reader_of_many_streams_gets_the_right_bytes(streamer):
    rng = random.Random(1)
    with sipping(streamer, iter(lambda: rng.randrange(1, 30_000), None)) as peer:
        for stream in range(1, 21, 2):
            ask(peer, stream, stream)
        for stream in range(1, 21, 2):
            assert is_whole(peer.end_of(stream), stream)


@pytest.mark.parametrize("step", [1009, 8191, 8192, 20_000, 70_000])
def test_windows_that_open_in_steps_deliver_the_right_bytes(streamer, step):
    """Frames of every length, copied or not, of streams that end in the middle of a loop iteration."""
    with Peer(streamer.socket, hello=False) as peer:
        peer.send(PREFACE + settings(window=0), grant(0, 1 << 30))
        for stream in (1, 3, 5):
            ask(peer, stream, 4)
        for _ in range(4 * len(message(MESSAGE)) // step + 1):
            peer.send(*(grant(stream, step) for stream in (1, 3, 5)))
            peer.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)))
        for stream in (1, 3, 5):
            assert is_whole(peer.end_of(stream), 4)


def test_reset_with_pending_output_delivers_no_wrong_bytes(streamer):
    """covers: RPC-9"""
    rng = random.Random(2)
    with sipping(streamer, iter(lambda: rng.randrange(1, 40_000), None)) as peer:
        for stream in range(1, 121, 2):
            ask(peer, stream, 1_000_000)
            least = rng.randrange(200_000)
            peer.wait(lambda s=stream, n=least: len(peer.answers[s].data) > n, "beginning")
            peer.send(frame(RST, 0, stream, struct.pack(">I", CANCEL)))
            whole = len(peer.answers[stream].data) // len(message(MESSAGE)) * len(message(MESSAGE))
            del peer.answers[stream].data[whole:]
            assert set(peer.answers[stream].messages) <= {MESSAGE}
        peer.still_works(121)


def test_deadline_with_pending_output_delivers_no_wrong_bytes(streamer):
    """covers: RPC-8. The client does not read meanwhile, so a frame is partly sent when the deadline comes."""
    with Peer(streamer.socket) as peer:
        for stream in range(1, 31, 2):
            ask(peer, stream, 1_000_000, grpc_timeout=f"{stream * 3}m")
        for stream in range(1, 31, 2):
            assert peer.end_of(stream).code == 4
        peer.still_works(31)


def test_client_that_leaves_with_pending_output_leaks_nothing(streamer):
    for n in range(30):
        with sipping(streamer, itertools.repeat(1 + 997 * n)) as peer:
            for stream in (1, 3, 5):
                ask(peer, stream, 1_000_000)
            peer.wait(lambda n=n, p=peer: len(p.answers[1].data) >= n * 3000, "beginning")
    with Peer(streamer.socket) as peer:
        assert peer.call(1, CHECK).code == 0
