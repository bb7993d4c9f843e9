#!/usr/bin/env python3
"""Who may include whom in src/ and clients/c. The table is the rule; docs/architecture.md tells the reasons."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLIENT = "clients/c"  # a layer of its own, the only one outside src/

# folder: what it may include besides itself; a name with a slash is one header, not its folder.
MAY = {
    "base": "",
    "loop": "base",
    "wire": "base proto",
    "store": "loop base proto",
    "core": "open/request.h store loop base proto",
    "api": "core base proto wire/gzip.h",
    "drivers": "core/driver.h spawn/request.h wire loop base",
    "transport": "api/call.h wire loop base proto",
    "bermd": "base loop wire store core api drivers transport proto",
    "guest": "base",
    "spawn": "base",
    "open": "base",
    "jail": "spawn base",
    "cli": "clients/c base",
    CLIENT: "wire base proto",
}
# An outside library is met in one file, which turns its codes into ours.
ONLY_IN = {
    "nghttp2/": "wire/h2.c clients/c/conn.c",  # our server's side, our client's side
    "sqlite3.h": "store/sql.c",
    "wslay/": "wire/ws.c",
    "curl/": "drivers/http.c",
    "archive": "drivers/rootfs.c",
    "zlib.h": "wire/gzip.c",
    "openssl/": "transport/tls.c",
    "xxhash.h": "api/digest.c",
}
# Outside headers that count as a folder of ours: libuv is the loop, protobuf-c the messages.
COUNTS_AS = {"uv.h": "loop", "protobuf-c/": "proto", "berm.h": CLIENT, "berm/v1/": "proto"}
# wire is bytes in, bytes out.
SOCKETS = ("sys/socket.h", "sys/un.h", "netinet/", "arpa/", "netdb.h")

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.M)


def layer_of(header):
    if header.endswith(".pb-c.h") or header.startswith("proto/"):
        return "proto"
    return folder_of(header)


def folder_of(path):
    return CLIENT if path.startswith(CLIENT + "/") else path.split("/")[0]


def complaint(path, quote, header):
    folder = folder_of(path)
    allowed = MAY[folder].split()
    if quote == "<":
        for prefix, only in ONLY_IN.items():
            if header.startswith(prefix) and path not in only.split():
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


def sources():
    """Path as the table names it, and the file."""
    for top, base in (("src", ROOT / "src"), (CLIENT, ROOT)):
        for file in sorted((ROOT / top).rglob("*")):
            if file.suffix in (".c", ".h", ".def") and "include" not in file.parts:
                yield file.relative_to(base).as_posix(), file


def main():
    bad = seen = 0
    for path, file in sources():
        shown = file.relative_to(ROOT)
        if folder_of(path) not in MAY:
            print(f"{shown}: no layer has this name")
            bad += 1
            continue
        seen += 1
        text = file.read_text()
        for match in INCLUDE.finditer(text):
            if why := complaint(path, *match.groups()):
                print(f"{shown}:{text.count(chr(10), 0, match.start()) + 1}: {why}")
                bad += 1
    if not seen:
        print("no sources found in src/")
    return 1 if bad or not seen else 0


sys.exit(main())
