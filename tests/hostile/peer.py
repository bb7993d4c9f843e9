"""A client with bad manners: HTTP/2 frames put together by hand, so that any of them can be wrong."""

import base64
import collections
import gzip
import os
import socket
import struct
import time
import urllib.parse

import hpack
from google.rpc import error_details_pb2, status_pb2

SECONDS = int(os.environ.get("BERM_TEST_TIMEOUT", "60"))  # for an answer to come; only ever waited for in a failure

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED = 1, 1, 4, 8
PROTOCOL_ERROR, INTERNAL_ERROR, REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM = 1, 2, 7, 8, 11

CHECK = "/grpc.health.v1.Health/Check"
WATCH = "/grpc.health.v1.Health/Watch"
PING_METHOD = "/berm.v1.SystemService/Ping"
REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def body_frames(stream, body, flags=0):
    """A body in frames as large as everyone takes; the flags are the last one's."""
    pieces = [body[i:i + 16384] for i in range(0, len(body), 16384)] or [b""]
    return [frame(DATA, flags if i == len(pieces) - 1 else 0, stream, p) for i, p in enumerate(pieces)]


def settings(**values):
    numbers = {"header_table_size": 1, "enable_push": 2, "max_streams": 3, "window": 4, "frame_size": 5}
    return frame(SETTINGS, payload=b"".join(struct.pack(">HI", numbers[k], v) for k, v in values.items()))


def message(payload=b"", compressed=False, declared=None):
    """A gRPC message with its prefix, which may lie."""
    return struct.pack(">BI", compressed, len(payload) if declared is None else declared) + payload


def varint(value):
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    """A protobuf field: bytes as length-delimited, numbers as a varint."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def request_headers(path, **more):
    """The headers of a gRPC call; None leaves one out, - is written _."""
    headers = {":method": "POST", ":scheme": "http", ":authority": "localhost", ":path": path,
               "content-type": "application/grpc", "te": "trailers"}
    for name, value in more.items():
        name = ":" + name if ":" + name in headers else name.replace("_", "-")
        headers[name] = value
    return [(name, value) for name, value in headers.items() if value is not None]


class Answer:
    """What came back on one stream."""

    def __init__(self):
        self.headers, self.data, self.reset, self.ended = [], bytearray(), None, False

    def get(self, name):
        values = [value for key, value in self.headers if key == name]
        assert len(values) < 2, f"{name} came {len(values)} times"
        return values[0] if values else None

    @property
    def http(self):
        return self.get(":status")

    @property
    def code(self):
        """grpc-status, which stands exactly once."""
        status = self.get("grpc-status")
        return None if status is None else int(status)

    @property
    def text(self):
        return urllib.parse.unquote(self.get("grpc-message") or "", errors="strict")

    @property
    def messages(self):
        found, at = [], 0
        while at < len(self.data):
            flag, size = struct.unpack(">BI", self.data[at:at + 5])
            payload = bytes(self.data[at + 5:at + 5 + size])
            assert len(payload) == size, "a message is cut short"
            found.append(gzip.decompress(payload) if flag else payload)
            at += 5 + size
        return found

    def _details(self, kind):
        raw = self.get("grpc-status-details-bin")
        status = status_pb2.Status.FromString(base64.b64decode(raw + "=" * (-len(raw) % 4)))
        assert status.code == self.code and status.message == self.text
        found = []
        for detail in status.details:
            if detail.Is(kind.DESCRIPTOR):
                found.append(kind())
                detail.Unpack(found[-1])
        return found

    @property
    def reason(self):
        info, = self._details(error_details_pb2.ErrorInfo)
        assert info.domain == "berm"
        return info.reason

    @property
    def field(self):
        """The path of the field at fault."""
        bad, = self._details(error_details_pb2.BadRequest)
        violation, = bad.field_violations
        return violation.field

    def __repr__(self):
        return f"<{self.headers} {len(self.data)} bytes reset={self.reset} ended={self.ended}>"


class Peer:
    """One connection. What comes back is sorted by stream; nothing is sent that was not asked for,
    but for the acknowledgement of SETTINGS and PING when `polite`."""

    def __init__(self, target, polite=True, hello=True):
        if isinstance(target, tuple):
            self.socket = socket.create_connection(target)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        elif isinstance(target, socket.socket):
            self.socket = target
        else:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(str(target))
        self.socket.settimeout(SECONDS)
        self.encoder, self.decoder = hpack.Encoder(), hpack.Decoder()
        self.polite, self.buffer, self.block = polite, bytearray(), b""
        self.answers = collections.defaultdict(Answer)
        self.sent, self.granted = collections.Counter(), collections.Counter()  # of bodies, in bytes by stream
        self.closed, self.goaway, self.pongs, self.settings = False, None, 0, {}
        if hello:
            self.send(PREFACE + settings(window=1 << 30), frame(WINDOW_UPDATE, payload=struct.pack(">I", 1 << 30)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send(self, *parts):
        """False when the daemon has cut the connection, which many of these deserve."""
        try:
            self.socket.sendall(b"".join(parts))
            return True
        except (BrokenPipeError, ConnectionResetError):
            return False

    def headers(self, stream, path, end=False, **more):
        """The HEADERS frame of a call, not yet sent."""
        return self.block_of(stream, request_headers(path, **more), end)

    def block_of(self, stream, headers, end=False):
        return frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream, self.encoder.encode(headers))

    def call(self, stream, path, body=message(), **more):
        """A whole call in one piece: the answer, once it has ended."""
        self.send_body(stream, body, END_STREAM, self.headers(stream, path, **more))
        return self.end_of(stream)

    def send_body(self, stream, body, flags=0, head=b""):
        """A body as far as the daemon's windows let it, which a large one has to wait for; `head` goes with its
        beginning, so that no limit on the time for a request runs out in between."""
        for part in body_frames(stream, body, flags):
            size = len(part) - 9
            if self.sent[stream] + size > 60_000:  # the least a window is at first
                self.wait(lambda n=size: self.answers[stream].ended or 4 in self.settings and all(
                    self.sent[s] + n <= self.granted[s] + w for s, w in ((stream, self.settings[4]), (0, 65535))),
                    "window")
            if self.answers[stream].ended:
                return
            self.send(head, part)
            head = b""
            self.sent[stream] += size
            self.sent[0] += size

    def _take(self, kind, flags, stream, payload):
        answer = self.answers[stream]
        if kind == DATA:
            answer.data += payload
            if payload and self.polite:
                update = struct.pack(">I", len(payload))
                self.send(frame(WINDOW_UPDATE, 0, 0, update))
        elif kind in (HEADERS, CONTINUATION):
            self.block += payload
            if flags & END_HEADERS:
                answer.headers += self.decoder.decode(self.block)
                self.block = b""
        elif kind == RST:
            answer.reset = struct.unpack(">I", payload)[0]
        elif kind == WINDOW_UPDATE:
            self.granted[stream] += struct.unpack(">I", payload)[0]
        elif kind == GOAWAY:
            last, code = struct.unpack(">II", payload[:8])
            self.goaway = (last, code, payload[8:])
        elif kind == SETTINGS and not flags & ACK:
            self.settings.update(struct.unpack(">HI", payload[i:i + 6]) for i in range(0, len(payload), 6))
            if self.polite:
                self.send(frame(SETTINGS, ACK))
        elif kind == PING and flags & ACK:
            self.pongs += 1
        elif kind == PING and self.polite:
            self.send(frame(PING, ACK, 0, payload))
        if kind in (DATA, HEADERS) and flags & END_STREAM or kind == RST:
            answer.ended = True

    def _receive(self):
        try:
            data = self.socket.recv(1 << 18)
        except ConnectionResetError:
            data = b""
        self.closed = not data
        self.buffer += data
        while len(self.buffer) >= 9:
            size = int.from_bytes(self.buffer[:3], "big")
            if len(self.buffer) < 9 + size:
                break
            kind, flags = self.buffer[3], self.buffer[4]
            stream = int.from_bytes(self.buffer[5:9], "big") & 0x7FFFFFFF
            payload = bytes(self.buffer[9:9 + size])
            del self.buffer[:9 + size]
            self._take(kind, flags, stream, payload)

    def wait(self, until, what):
        """Reads until something holds. The end of the connection is an error unless it was waited for."""
        deadline = time.monotonic() + SECONDS
        while not until():
            assert not self.closed, f"the connection ended before {what}: {self}"
            assert time.monotonic() < deadline, f"no {what}: {self}"
            try:
                self._receive()
            except TimeoutError:
                raise AssertionError(f"no {what}: {self}") from None

    def end_of(self, stream):
        self.wait(lambda: self.answers[stream].ended, f"end of stream {stream}")
        return self.answers[stream]

    def until_closed(self):
        """To the end of the connection, which is expected."""
        self.wait(lambda: self.closed, "end of the connection")
        return self

    def still_works(self, stream):
        """The connection itself took no harm."""
        answer = self.call(stream, CHECK)
        assert answer.code == 0 and answer.messages == [b"\x08\x01"], answer

    def __repr__(self):
        return f"<closed={self.closed} goaway={self.goaway} {dict(self.answers)}>"
