#!/usr/bin/env python3
"""make-corpus.py   writes the seeds of every fuzzer to corpus/TARGET/seed-NAME; what else lies there stays

Run it with .deps/venv/bin/python. Crashes that were found join the corpus under other names.
"""

import gzip
import io
import json
import pathlib
import random
import re
import struct
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "hostile"))

import hpack  # noqa: E402

from peer import (ACK, CHECK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PADDED, PING,  # noqa: E402
                  PING_METHOD, PREFACE, PRIORITY, REFLECTION, RST, SETTINGS, WATCH, WINDOW_UPDATE, field, frame,
                  message, request_headers, settings)


def h2_conversations():
    """What clients say after the preface and the first SETTINGS."""
    def call(stream, path, *bodies, encoder=None, **more):
        block = (encoder or hpack.Encoder()).encode(request_headers(path, **more))
        frames = [frame(DATA, 0, stream, b) for b in bodies[:-1]]
        frames += [frame(DATA, END_STREAM, stream, bodies[-1])] if bodies else []
        return frame(HEADERS, END_HEADERS | (0 if bodies else END_STREAM), stream, block) + b"".join(frames)

    ping = message(field(1, b"hello"))
    shared = hpack.Encoder()
    block = hpack.Encoder().encode(request_headers(CHECK))
    bomb = b"\x40\x01x" + b"\x7f\x81\x06" + b"v" * 896 + b"\xbe" * 200
    cancel = struct.pack(">I", 8)
    yield "ping", call(1, PING_METHOD, ping)
    yield "ping-split", call(1, PING_METHOD, *(ping[i:i + 1] for i in range(len(ping))))
    yield "two-calls", call(1, CHECK, message(), encoder=shared) + call(3, WATCH, message(), encoder=shared)
    yield "watch-cancelled", call(1, WATCH, message()) + frame(RST, 0, 1, cancel)
    yield "reflection", call(1, REFLECTION, message(field(7, b"")) + message(field(4, b"berm.v1.SystemService")), b"")
    yield "reflection-flood", call(1, REFLECTION, message(field(4, b"berm.v1.SystemService")) * 30, b"")
    yield "gzip", call(1, PING_METHOD, message(gzip.compress(field(1, bytes(500)), mtime=0), True), grpc_encoding="gzip")
    yield "gzip-bomb", call(1, PING_METHOD, message(gzip.compress(bytes(9000), mtime=0), True), grpc_encoding="gzip")
    yield "gzip-reply", call(1, REFLECTION, message(field(4, b"berm.v1.SystemService")), b"",
                             grpc_encoding="gzip", grpc_accept_encoding="gzip")
    yield "timeout", call(1, WATCH, message(), grpc_timeout="1n")
    yield "too-large", call(1, PING_METHOD, message(declared=1 << 31))
    yield "none", call(1, CHECK)
    yield "two", call(1, CHECK, message() * 2)
    yield "cut", call(1, CHECK, message(b"abc", declared=9))
    yield "bad-text", call(1, CHECK, message(field(1, b"a\xffb")))
    yield "twice", call(1, REFLECTION, message(field(5, b"") * 2), b"")
    yield "unknown", call(1, "/no.such/Method", message())
    yield "unbuilt", call(1, "/berm.v1.SandboxService/ListSnapshots", message())
    yield "get", call(1, CHECK, method="GET")
    yield "type", call(1, CHECK, message(), content_type="text/plain")
    yield "padded", frame(HEADERS, END_HEADERS | PADDED, 1, b"\x04" + block + bytes(4)) + \
        frame(DATA, END_STREAM | PADDED, 1, b"\x09" + message() + bytes(9))
    yield "continuation", frame(HEADERS, END_STREAM, 1, block[:10]) + frame(CONTINUATION, 0, 1, block[10:20]) + \
        frame(CONTINUATION, END_HEADERS, 1, block[20:])
    yield "trailers", frame(HEADERS, END_HEADERS, 1, block) + frame(DATA, 0, 1, message()) + \
        frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\0\1a\1b")
    yield "hpack-bomb", frame(HEADERS, END_HEADERS | END_STREAM, 1, block + bomb)
    yield "table-size", frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x20\x3f\xe1\x1f" + block)
    yield "window", settings(window=0) + call(1, PING_METHOD, ping) + \
        b"".join(frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", n)) for n in (1, 2, 30)) + settings(window=100)
    yield "window-overflow", call(1, REFLECTION, b"\0") + frame(WINDOW_UPDATE, 0, 1, b"\x7f\xff\xff\xff")
    yield "pings", frame(PING, payload=bytes(8)) * 20 + frame(PING, ACK, payload=b"bermdrn\0")
    yield "settings", settings(header_table_size=0, max_streams=1, window=1 << 20, frame_size=1 << 20) + \
        frame(SETTINGS, ACK)
    yield "empty-data", frame(HEADERS, END_HEADERS, 1, block) + frame(DATA, 0, 1) * 30
    yield "rapid-reset", b"".join(call(s, CHECK, b"\0") + frame(RST, 0, s, cancel) for s in range(1, 21, 2))
    yield "streams", b"".join(call(s, WATCH, message()) for s in range(1, 31, 2))
    yield "priority", frame(PRIORITY, 0, 5, b"\0\0\0\7\1") + frame(PRIORITY, 0, 7, b"\x80\0\0\5\1") + \
        call(9, CHECK, message())
    yield "goaway", frame(GOAWAY, payload=bytes(8)) + call(1, CHECK, message())
    yield "unknown-frame", frame(0x42, 7, 1, b"x") + call(1, CHECK, message())
    yield "no-path", frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x83\x86")


def h2(_):
    for i, (name, said) in enumerate(h2_conversations()):
        how = [1, 1 | 2, 1 | 4, 1 | 8, 1 | 16, 1 | 32][i % 6]
        yield name, bytes([how, [255, 0, 3, 40][i % 4]]) + said
    yield "raw", bytes([0, 255]) + PREFACE + settings() + dict(h2_conversations())["ping"]
    yield "http1", bytes([0, 255]) + b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


def transport(_):
    for i, (name, said) in enumerate(h2_conversations()):
        how = [1, 1 | 2, 1 | 4, 1][i % 4]
        yield name, bytes([how, [255, 0, 3, 40, 255][i % 5]]) + said
    yield "raw", bytes([0, 255]) + PREFACE + settings() + dict(h2_conversations())["ping"]
    yield "http1", bytes([0, 255]) + b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
    yield "half-preface", bytes([0, 255]) + PREFACE[:11]


def grpc(rng):
    bodies = {
        "one": message(b"abc"), "empty": message(), "many": b"".join(message(bytes(i)) for i in range(30)),
        "compressed": message(b"xyz", True), "flag": b"\x02\0\0\0\0", "large": message(declared=301),
        "largest": message(bytes(300)), "cut": message(b"abc", declared=4), "prefix": b"\0\0\0",
        "huge": b"\1\xff\xff\xff\xff", "percent": "50% é\n\x7f".encode(), "bytes": bytes(range(256)),
        "long": b"x" * 8500,
    }
    for text in ("1H", "100m", "99999999H", "999999999H", "0n", "1", "m", "-1S", "1 S", "1s", "00000001u", "1\0S"):
        bodies["timeout-" + text.encode().hex()] = text.encode()
    for name, body in bodies.items():
        sizes = bytes(rng.choice([0, 0, 1, 3, 4, 5, 200]) for _ in range(rng.randrange(20)))
        yield name, bytes([len(sizes)]) + sizes + body


def pb(_):
    sys.path.insert(0, str(HERE.parent.parent / "clients/python"))
    from berm._gen.berm.v1 import berm_pb2

    rows = (HERE.parent.parent / "src/api/methods.def").read_text()
    rows = re.split(r"(?:METHOD|UNBUILT)\(\"", rows)[1:]
    index = {tuple(row.split('"')[:3:2]): i for i, row in enumerate(rows)}

    def filled(descriptor, depth=0):
        """A message with something in every field."""
        m = berm_pb2.DESCRIPTOR.message_types_by_name[descriptor.name]._concrete_class() \
            if descriptor.file is berm_pb2.DESCRIPTOR and not descriptor.containing_type else None
        if m is None:
            return None
        for f in descriptor.fields:
            values = {f.TYPE_STRING: "text", f.TYPE_BYTES: b"\0\xff", f.TYPE_BOOL: True, f.TYPE_DOUBLE: 1.5,
                      f.TYPE_FLOAT: 0.5}
            value = filled(f.message_type, depth + 1) if f.message_type else values.get(f.type, 1)
            if value is None or f.containing_oneof and m.WhichOneof(f.containing_oneof.name):
                continue
            if f.is_repeated:
                getattr(m, f.name).extend([value, value])
            elif f.message_type:
                getattr(m, f.name).CopyFrom(value)
            else:
                setattr(m, f.name, value)
        return m

    for service in berm_pb2.DESCRIPTOR.services_by_name.values():
        for method in service.methods:
            row = 2 * index[service.full_name, method.name]
            if row > 254:
                continue
            body = filled(method.input_type).SerializeToString()
            if len(body) > 60 and len(body) < 3000:
                yield f"request-{method.name}", bytes([row, 255]) + body
                answer = filled(method.output_type).SerializeToString()
                if len(answer) < 2000:
                    yield f"response-{method.name}", bytes([row + 1, 40]) + answer
    create = 2 * index["berm.v1.SandboxService", "CreateSandbox"]
    deep = b""
    for _ in range(40):
        deep = field(1, deep)
    bad = {
        "empty": b"", "deep-unknown": field(900, deep), "deep": deep, "overlong-tag": b"\x8a\x80\x80\x80\x80\x80\0\1x",
        "overlong-length": b"\x0a\x81\x80\x80\x80\x80\0x", "overlong-number": field(99, b"")[:2] + b"\x80" * 9 + b"\1",
        "group": b"\x0b\x0c", "wire-6": b"\x0e", "field-0": b"\2\0", "field-max": b"\xf8\xff\xff\xff\x0f\0",
        "length-past-end": b"\x0a\x7f", "length-max": b"\x0a" + b"\xff" * 9 + b"\1", "cut": b"\x80",
        "nul": field(1, b"a\0b"), "not-utf8": field(1, b"\xed\xa0\x80"), "many": field(900, 0) * 500,
    }
    for name, body in bad.items():
        yield "bad-" + name, bytes([create, 100]) + body


def gzip_(rng):
    text = b"berm " * 100
    good = gzip.compress(text, mtime=0)
    noise = bytes(rng.randrange(256) for _ in range(300))
    cases = {
        "good": good, "empty": b"", "of-empty": gzip.compress(b"", mtime=0), "exact": good, "tail": good + b"x",
        "twice": good * 2, "cut": good[:-1], "half": good[:20], "sum": good[:-8] + bytes(8),
        "zlib": b"\x78\x9c\x03\0\0\0\0\1",
        "stored": gzip.compress(noise, 0, mtime=0), "noise": noise, "bomb": gzip.compress(bytes(1 << 20), mtime=0),
        "name": b"\x1f\x8b\x08\x08" + bytes(6) + b"file\0" + good[10:],
        "extra": b"\x1f\x8b\x08\x04" + bytes(6) + b"\4\0abcd" + good[10:],
        "flags": b"\x1f\x8b\x08\xff" + bytes(40), "one": b"\x1f", "dictionary": b"\x78\xbb" + bytes(10),
        "bad-block": good[:10] + b"\7" + bytes(20), "best": gzip.compress(noise * 3, 9, mtime=0),
    }
    for name, data in cases.items():
        most = {"exact": len(text), "bomb": 65535}.get(name, 2000)
        yield name, struct.pack(">H", most) + data
    yield "one-too-large", struct.pack(">H", len(text) - 1) + good
    yield "none-allowed", struct.pack(">H", 0) + good


def str_(_):
    for i, text in enumerate((
            b"", b"plain", "é€😀".encode(), b"\xc0\x80", b"\xed\x9f\xbf", b"\xed\xa0\x80", b"\xf4\x8f\xbf\xbf",
            b"\xf4\x90\x80\x80", b"\xe0\x9f\xbf", b"\xf0\x8f\xbf\xbf", b"12345678\xc3\xa9", b"1234567\xc3\xa9", b"\xc3",
            b"\x80", b"\xfe", b"QUJD", b"QUI=", b"QQ==", b"QQ=", b"Q", b"A===", b"====", b"-_+/", b"QU JD",
            b"18446744073709551615",
            b"18446744073709551616", b"99999999999999999999", b"00012", b"1,2,,3", b" a , b ", b",", b"\0", b"a\0b")):
        yield f"{i:02}", text


def config(_):
    knobs = ["state = /var/lib/x", "state = relative", "socket=/run/x.sock", "socket_mode = 0660", "socket_mode = 888",
             "socket_mode = 7777", "allow_uids = 1, 2,3", "allow_uids = ", "allow_uids = 4294967295", "allow_uids = 1,,2",
             "listen = 127.0.0.1:0", "log_level = debug", "log_level = loud", "access_log = true", "access_log = yes",
             "limits.message.inbound = 2048", "limits.message.inbound = 1", "limits.message.depth = 3",
             "limits.call.unread = 1", "limits.no.such = 1", "limits.", "limits.connection.idle = 0", "no_such = 1",
             "= 5", "no equals", "# a comment", "state = /x # and a comment", "a = b = c", "state = /" + "x" * 300,
             "allow_uids = " + ",".join(map(str, range(70))), "limits.drain.max = 99999999999999999999"]
    for i, knob in enumerate(knobs):
        yield f"{i:02}", f"{knob}\n".encode()
    yield "all", "\r\n\n".join(knobs[:1] + knobs[2:4] + knobs[6:8] + knobs[10:12]).encode()
    yield "nul", b"state = /a\0b\n"
    yield "bytes", bytes(range(256))


def guest_link(_):
    """What a guest says after it was asked hello (1) and ping (2); see fuzz_guest_link.c for the pieces."""
    def pieces(text, size=250):
        return b"".join(bytes([len(text[i:i + size])]) + text[i:i + size] for i in range(0, len(text), size))

    def line(**members):
        return json.dumps({"jsonrpc": "2.0", **members}, separators=(",", ":")).encode() + b"\n"

    def hello(**members):
        return line(id=1, result={"version": 1, "guest": "g", "fd_passing": True, "capabilities": ["terminal"],
                                  "execs": [], **members})

    program = {"exec_id": "ex-1", "state": "running", "stdout_bytes": 0, "stderr_bytes": 0}
    pong = line(id=2, result={})
    cases = {
        "hello": hello(), "answers": hello() + pong, "twice": hello() + pong + pong, "early": pong + hello(),
        "execs": hello(execs=[program]), "pages": hello(execs=[program], more=True) + line(id=3, result={"execs": []}),
        "endless": hello(execs=[program], more=True) + b"".join(
            line(id=i, result={"execs": [program], "more": True}) for i in range(3, 25)),
        "version": line(id=1, error={"code": 120, "message": "no", "data": {"code": "GUEST_VERSION"}}),
        "failure": hello() + line(id=2, error={"code": 71, "message": "no", "data": {
            "code": "STDIN_OFFSET", "field": "offset", "errno": 5, "next_offset": 7}}),
        "number": hello() + line(id=2, error={"code": 998, "message": "?"}), "id-null": line(
            id=None, error={"code": 14, "message": "?"}),
        "notices": hello() + line(method="grew", params={"exec_id": "ex-1"}) + line(method="exited"),
        "notice-early": line(method="grew"), "request": hello() + line(id=9, method="exec", params={}),
        "fds-missing": hello() + line(id=2, result={"fds": 1}), "fds-many": hello() + line(id=2, result={"fds": 9}),
        "secrets": hello() + line(method="x", params={"env": [{"key": "a", "value": "b"}], "data_b64": "YQ==",
                                                      "matches": [{"text": "t", "after": ["u"]}], "n": 1.5}),
        "garbage": b"(\n", "deep": b"[" * 70 + b"\n", "capabilities": hello(capabilities=["a"] * 65),
    }
    for name, text in cases.items():
        yield name, pieces(text)
    yield "bytes", pieces(hello() + pong, 1)
    yield "length", pieces(b"Content-Length: %d\r\n\r\n%s" % (len(hello()), hello()) + pong)
    yield "asks", pieces(hello()) + bytes(300)
    yield "cancels", bytes(4) + b"\xfe\1\xfe\0" + pieces(hello() + pong + line(id=3, result={}))
    with_fd = line(id=2, result={"fds": 1})
    yield "fd", pieces(hello()) + b"\xff" + with_fd[:1] + pieces(with_fd[1:])
    yield "fd-stray", pieces(hello()) + b"\xff" + pong[:1] + pieces(pong[1:])
    yield "fd-flood", pieces(hello()) + b"\xff{" * 70


def pattern(_):
    paths = ["a", "a.txt", "src/deep/main.c", ".env", ".git/config", "a/.h/b", "ünï/é", "\udcff/x", "a" * 60, "a/" * 40 + "b"]
    patterns = ["*", "**", "?", "*.txt", "/*.c", "src/**/*.c", "**/*", "a/**", ".*", "**/.*", "[a-c]*", "[!a]", "[]]", "[!]]",
                "[a", "{a,b}", "{a,{b,c}}.txt", "{a", "{[}]", "{,a}", "{}", "{a/,}**/b", "*a" * 20 + "b", "**/" * 20 + "b",
                "{a,a}" * 20, "?" * 60, "\\*", "é*", "[é-ü]n?", "{" * 16 + "a" + "}" * 16, "{" * 17 + "}" * 17, "/", "a\0b", ""]
    for i, text in enumerate(patterns):
        raw = text.encode()
        for path in (paths[i % len(paths)], paths[(i * 7 + 3) % len(paths)]):
            yield f"{i:02}-{paths.index(path)}", bytes([len(raw)]) + raw + path.encode("utf-8", "surrogateescape")


def tar(_):
    def made(format, *members, end=True):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=format) as archive:
            for name, kind, data, target in members:
                info = tarfile.TarInfo(name)
                info.type, info.size, info.linkname = kind, len(data), target
                archive.addfile(info, io.BytesIO(data))
        data = out.getvalue().rstrip(b"\0")
        return data + bytes(-len(data) % 512) + (bytes(1024) if end else b"")

    file, link, sym, folder = tarfile.REGTYPE, tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE
    for name, format in (("ustar", tarfile.USTAR_FORMAT), ("pax", tarfile.PAX_FORMAT), ("gnu", tarfile.GNU_FORMAT)):
        yield name, b"\xff" + made(format, ("a", file, b"x" * 700, ""), ("d", folder, b"", ""), ("s", sym, b"", "a"),
                                   ("h", link, b"", "a"), ("d/" * 60 + "f", file, b"", ""))
    long = [("n" * 200, file, b"12345", ""), ("l", sym, b"", "t" * 200), ("é", file, b"", ""), ("\udcff", file, b"", "")]
    yield "pax-long", b"\x07" + made(tarfile.PAX_FORMAT, *long)
    yield "gnu-long", b"\x00" + made(tarfile.GNU_FORMAT, *long)
    yield "no-end", b"\x40" + made(tarfile.USTAR_FORMAT, ("a", file, b"x", ""), end=False)
    for name, kind in (("device", b"3"), ("block", b"4"), ("fifo", b"6"), ("sparse", b"S"), ("unknown", b"Z"), ("old", b"\0")):
        yield name, b"\x80" + made(tarfile.USTAR_FORMAT, ("x", kind, b"", ""))
    good = bytearray(made(tarfile.USTAR_FORMAT, ("a", file, b"abc", "")))

    def patched(at, value):
        block = bytearray(good)
        block[at:at + len(value)] = value
        block[148:156] = b" " * 8
        block[148:156] = b"%06o\0 " % sum(block[:512])
        return b"\x20" + bytes(block)

    yield "base-256", patched(124, b"\x80" + bytes(10) + b"\3")
    yield "negative", patched(124, b"\xff" * 12)
    yield "too-large", patched(124, b"\x80" + b"\x7f" * 11)
    yield "time", patched(136, b"\xff" * 12)
    yield "digits", patched(124, b"9" * 12)
    yield "prefix", patched(345, b"p" * 155)
    yield "sum", b"\x20" + bytes(good[:148]) + b"0000000\0" + bytes(good[156:])
    for i, body in enumerate((b"11 path=ab\n", b"9 path=\n", b"99 path=x\n", b"x", b"5 a=\n", b"4 ab\n", b"20 mtime=-12345.678\n",
                              b"20 size=99999999999\n", b"22 GNU.sparse.major=1\n", b"11 path=\0b\n")):
        head = bytearray(patched(156, b"x")[1:513])
        head[124:136] = b"%011o\0" % len(body)
        head[148:156] = b" " * 8
        head[148:156] = b"%06o\0 " % sum(head)
        yield f"pax-{i}", b"\x10" + bytes(head) + body + bytes(-len(body) % 512) + bytes(good)
    yield "empty", b""
    yield "zeros", b"\x01" + bytes(1024)


def main():
    for make in (config, grpc, guest_link, gzip_, h2, pattern, pb, str_, tar, transport):
        folder = HERE / "corpus" / make.__name__.rstrip("_")
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("seed-*"):
            old.unlink()
        for name, data in make(random.Random(1)):
            (folder / f"seed-{name}").write_bytes(data)


main()
