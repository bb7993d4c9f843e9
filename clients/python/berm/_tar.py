"""Local trees to and from tar archives."""

from __future__ import annotations

import os
import tarfile
from typing import IO


def pack(local: str | os.PathLike[str], to: IO[bytes]) -> None:
    """The contents of a directory."""
    with tarfile.open(fileobj=to, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.add(local, arcname=".")


def unpack(archive: IO[bytes], local: str | os.PathLike[str]) -> int:
    """Unpacks what came out of a sandbox, so is not believed: nothing lands outside of `local`, links that
    lead out of it are left out, and so is what is no file, directory or link. All belongs to the caller,
    without setuid bits. The number of files and links written.

    Not tarfile's own "data" filter: Pythons before 3.11.4 lack it, and it refuses a whole tree for one link."""
    os.makedirs(local, exist_ok=True)
    root = os.path.realpath(local)
    written = 0
    with tarfile.open(fileobj=archive) as tar:
        tar.extraction_filter = lambda member, path: member  # judged here already
        for member in tar:
            if not _is_safe(member, root):
                continue
            member.mode &= 0o777
            member.uid, member.gid, member.uname, member.gname = os.geteuid(), os.getegid(), "", ""
            tar.extract(member, root)
            written += not member.isdir()
    return written


def _is_safe(member: tarfile.TarInfo, root: str) -> bool:
    """Whether it is of a kind we take, and both it and what it links to lie within the root, as the links
    that were unpacked before it lead there."""
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        return False
    place = os.path.join(root, member.name)
    parent = os.path.realpath(os.path.dirname(place.rstrip("/")))
    places = [os.path.realpath(place) if member.isdir() else os.path.join(parent, os.path.basename(place))]
    if member.issym():
        names = member.linkname.split("/")
        if ".." in names[next((i for i, name in enumerate(names) if name != ".."), len(names)) :]:
            return False  # through a link that may lead elsewhere by then
        places.append(os.path.realpath(os.path.join(parent, member.linkname)))
    elif member.islnk():
        places.append(os.path.realpath(os.path.join(root, member.linkname)))
    return all(path == root or path.startswith(root.rstrip("/") + "/") for path in places)
