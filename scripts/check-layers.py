#!/usr/bin/env python3
"""Who may include whom in src/. The table is the rule; docs/architecture.md tells the reasons."""

import pathlib
import re
import sys

SRC = pathlib.Path(__file__).resolve().parent.parent / "src"

# folder: what it may include besides itself; a name with a slash is one header, not its folder.
MAY = {
    "base": "",
    "loop": "base",
    "wire": "base proto",
    "store": "loop base proto",
    "core": "store loop base proto",
    "api": "core base proto wire/gzip.h",
    "drivers": "core/driver.h spawn/request.h wire loop base",
    "transport": "api/call.h wire loop base proto",
    "bermd": "base loop wire store core api drivers transport proto",
    "guest": "base",
    "spawn": "base",
    "jail": "spawn base",
    "cli": "clients base",
}
# An outside library is met in one file, which turns its codes into ours.
ONLY_IN = {
    "nghttp2/": "wire/h2.c",
    "sqlite3.h": "store/sql.c",
    "wslay/": "wire/ws.c",
    "curl/": "drivers/http.c",
    "archive": "drivers/rootfs.c",
    "zlib.h": "wire/gzip.c",
    "openssl/": "transport/tls.c",
    "xxhash.h": "api/digest.c",
}
# Outside headers that count as a folder of ours: libuv is the loop, protobuf-c the messages.
COUNTS_AS = {"uv.h": "loop", "protobuf-c/": "proto"}
# wire is bytes in, bytes out.
SOCKETS = ("sys/socket.h", "sys/un.h", "netinet/", "arpa/", "netdb.h")

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.M)


def layer_of(header):
    if header.endswith(".pb-c.h") or header.startswith("proto/"):
        return "proto"
    return header.split("/")[0]


def complaint(path, quote, header):
    folder = path.split("/")[0]
    allowed = MAY[folder].split()
    if quote == "<":
        for prefix, only in ONLY_IN.items():
            if header.startswith(prefix) and path != only:
                return f"only {only} may include <{header}>"
        if folder == "wire" and header.startswith(SOCKETS):
            return f"wire has no sockets, but includes <{header}>"
        layer = next((name for prefix, name in COUNTS_AS.items() if header.startswith(prefix)), folder)
    else:
        layer = layer_of(header)
        if "/" not in header and layer != "proto":
            return f'"{header}" should be included as "{folder}/{header}"'
    if layer == folder or layer in allowed or header in allowed:
        return None
    return f"{folder} may include {MAY[folder] or 'libc only'}, not {header}"


def main():
    bad = seen = 0
    for file in sorted(p for p in SRC.rglob("*") if p.suffix in (".c", ".h", ".def")):
        path = file.relative_to(SRC).as_posix()
        if path.split("/")[0] not in MAY:
            print(f"src/{path}: no layer has this name")
            bad += 1
            continue
        seen += 1
        text = file.read_text()
        for match in INCLUDE.finditer(text):
            if why := complaint(path, *match.groups()):
                print(f"src/{path}:{text.count(chr(10), 0, match.start()) + 1}: {why}")
                bad += 1
    if not seen:
        print("no sources found in src/")
    return 1 if bad or not seen else 0


sys.exit(main())
