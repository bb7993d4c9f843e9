#!/usr/bin/env python3
"""scripts/check-layers.py [ROOT]   checks which layer of src/ and clients/c uses which other layer.

The table MAY is the rule; docs/architecture.md gives the reasons. Includes are checked in the sources. Symbols are
checked in the objects of ROOT/build, because a layer can also reach another one through the functions of a third.
"""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
ROOT = ROOT if ROOT.is_dir() else ROOT.parent.parent
CLIENT = "clients/c"  # a layer of its own, the only one outside src/

# folder: what it may include besides itself; a name with a slash is one file, not its folder.
MAY = {
    "base": "",
    "loop": "base",
    "wire": "base proto",
    "store": "loop base proto",
    "core": "open/request.h store loop base proto",
    "api": "core base proto loop/deadline.h wire/gzip.h",
    "drivers": "core/driver.h spawn/request.h spawn/steps.c wire loop base",
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
# The daemon speaks JSON with the guest only, through the typed client in core/guest.
GUEST_CLIENT = "core/guest/"
GUEST_CLIENT_ONLY = ("base/json.h", "base/rpc.h", "core/guest/guest_field.h", "core/guest/guest_link_impl.h")
# Outside headers that count as a folder of ours: libuv is the loop, protobuf-c the messages.
COUNTS_AS = {"uv.h": "loop", "protobuf-c/": "proto", "berm.h": CLIENT, "berm/v1/": "proto"}
# wire is bytes in, bytes out.
SOCKETS = ("sys/socket.h", "sys/un.h", "netinet/", "arpa/", "netdb.h")

# Nouns (the folders inside a layer), lowest first: a noun includes only nouns of the rows above it. "." stands for the
# files that lie in the layer itself; where it has no row, they may include every noun and every noun may include them.
NOUNS = {
    "core": [".", "guest", "box", "exec files imports", "sandbox", "registry"],
    "api": ["exec", "file sandbox system"],
    "guest": ["exec files", "search watch"],
}

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.M)


def layer_of(header):
    if header.endswith(".pb-c.h") or header.startswith("proto/"):
        return "proto"
    return folder_of(header)


def folder_of(path):
    return CLIENT if path.startswith(CLIENT + "/") else path.split("/")[0]


def complaint(path, quote, header):
    folder = folder_of(path)
    if folder in ("api", "core") and header in GUEST_CLIENT_ONLY and not path.startswith(GUEST_CLIENT):
        return f"only src/{GUEST_CLIENT} may include {header}"
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


def noun_of(path):
    return (path.split("/")[1:-1] or ["."])[0]


def noun_complaint(path, header):
    layer, noun, other = folder_of(path), noun_of(path), noun_of(header)
    if header.endswith("_impl.h") and path.rsplit("/", 1)[0] != header.rsplit("/", 1)[0]:
        return f"{header} is for its own folder"
    rank = {name: i for i, row in enumerate(NOUNS.get(layer, [])) for name in row.split()}
    if folder_of(header) != layer or noun == other or not rank:
        return None
    for name in (noun, other):
        if name != "." and name not in rank:
            return f"{layer}/{name} has no row in NOUNS"
    if noun in rank and other in rank and rank[other] >= rank[noun]:
        return f"{layer}/{noun} is not above {layer}/{other}, but includes {header}"
    return None


def sources():
    """Path as the table names it, and the file."""
    for top, base in (("src", ROOT / "src"), (CLIENT, ROOT)):
        for file in sorted((ROOT / top).rglob("*")):
            if file.suffix in (".c", ".h", ".def") and "include" not in file.parts:
                yield file.relative_to(base).as_posix(), file


def objects():
    """Each object of the build with the path of its source, as the table names it."""
    paths = {file.relative_to(ROOT).as_posix(): path for path, file in sources()}
    for target in sorted((ROOT / "build").rglob("*.p")):
        folder = target.parent.relative_to(ROOT / "build")  # of the meson.build file that defines the target
        names = {os.path.relpath(file, folder).replace("/", "_") + ".o": path for file, path in paths.items()}
        for file in target.glob("*.o"):
            if file.name in names:
                yield file, names[file.name]


def symbols(paths):
    """Two maps: symbol to the sources that define it, and source to the symbols that it lacks."""
    defined, undefined = {}, {}
    out = subprocess.run(["nm", "-A", "-g", *paths], check=True, capture_output=True, text=True).stdout
    for line in out.splitlines():
        file, rest = line.rsplit(":", 1)
        *_, kind, name = rest.split()
        if kind == "U":
            undefined.setdefault(paths[file], set()).add(name)
        elif os.path.basename(os.path.dirname(file)).startswith("lib"):  # a program's own objects serve nobody else
            defined.setdefault(name, set()).add(paths[file])
    return defined, undefined


def may_use(path, definer):
    """A layer may use a symbol of another one that it may include; a single header allows its .c file alone."""
    folder, other = folder_of(path), folder_of(definer)
    allowed = MAY[folder].split()
    return other == folder or other in allowed or definer in allowed or definer.removesuffix(".c") + ".h" in allowed


def check_symbols():
    paths = {str(file): path for file, path in objects()}
    if not paths:
        return ["no objects in build/: build first"]
    defined, undefined = symbols(paths)
    bad = []
    for path in sorted(undefined):
        for name in sorted(undefined[path]):
            definers = defined.get(name, set())  # several: programs that are never linked together
            if definers and not any(may_use(path, definer) for definer in definers):
                bad.append(f"{path}: {folder_of(path)} may use {MAY[folder_of(path)] or 'libc only'}, "
                           f"not {name} of {min(definers)}")
    return bad


def check_includes():
    bad = []
    seen = 0
    for path, file in sources():
        shown = file.relative_to(ROOT)
        if folder_of(path) not in MAY:
            bad.append(f"{shown}: no layer has this name")
            continue
        seen += 1
        text = file.read_text()
        for match in INCLUDE.finditer(text):
            if why := complaint(path, *match.groups()) or noun_complaint(path, match[2]):
                bad.append(f"{shown}:{text.count(chr(10), 0, match.start()) + 1}: {why}")
    return bad if seen else ["no sources found in src/"]


def main():
    bad = check_includes() or check_symbols()
    print("\n".join(bad), end="\n" if bad else "")
    return 1 if bad else 0


sys.exit(main())
