"""Packs local directories into tar archives and unpacks them."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
import tarfile
from typing import IO, Iterator

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OWNER = 0o700


def pack(local: str | os.PathLike[str], to: IO[bytes]) -> None:
    """Writes the contents of a directory as an archive."""
    with tarfile.open(fileobj=to, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.add(local, arcname=".")


def unpack(archive: IO[bytes], local: str | os.PathLike[str]) -> int:
    """Extracts an archive from a sandbox, which may be hostile. Returns the number of files and links written.

    Never writes outside of `local`: opens each directory relative to its parent and without following links, and
    replaces a file or link of the same name instead of writing through it. Skips links that lead out of `local`,
    devices, FIFOs, and members below a name that is not a directory. The caller owns every file, without set-id bits.

    tarfile's own "data" filter is not sufficient: it checks paths before it uses them, and it refuses a whole tree
    because of one link.
    """
    written = 0
    closed: list[tuple[list[str], int]] = []
    with _open_root(local) as root, tarfile.open(fileobj=archive) as tar:
        for member in tar:
            names = _names(member.name)
            if names is None:
                continue
            try:
                if member.isdir():
                    _make_directory(root, names, member.mode & 0o777, closed)
                elif names and (member.isreg() or member.issym() or member.islnk()):
                    written += _write(tar, member, root, names)
            except (NotADirectoryError, IsADirectoryError):
                continue  # the archive needs a directory where a link or file exists, or the reverse
        for names, mode in reversed(closed):
            with contextlib.suppress(OSError), _open_directory(root, names) as directory:
                os.fchmod(directory, mode)
    return written


@contextlib.contextmanager
def replacing(local: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Yields a file that gets the name `local` when the block ends without an error. Replaces a link of that name and
    never follows it; opens a device or FIFO directly."""
    path = os.fspath(local)
    with contextlib.suppress(FileNotFoundError):
        mode = os.lstat(path).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(f"{path!r} is a directory")
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
            with open(path, "wb") as special:
                yield special
            return
    part = f"{path}.berm-{secrets.token_hex(6)}"
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666), "wb") as file:
            yield file
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)
        raise


@contextlib.contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open_root(local: str | os.PathLike[str]) -> contextlib.AbstractContextManager[int]:
    """Opens the directory `local`, creating it if it is missing. An earlier download may have created a link of that
    name, so the link is followed only if the caller wrote a trailing slash."""
    path = os.fspath(local)
    if os.path.islink(path) and not path.endswith("/"):
        raise NotADirectoryError(f"{path!r} is a symbolic link: remove it, or append a slash to follow it")
    os.makedirs(path, exist_ok=True)
    return _closing(os.open(path, _DIRECTORY & ~os.O_NOFOLLOW if path.endswith("/") else _DIRECTORY))


def _names(path: str) -> list[str] | None:
    """Splits a member's name. Returns None if it is absolute or contains ".."."""
    if path.startswith("/"):
        return None
    names = [name for name in path.split("/") if name not in ("", ".")]
    return None if ".." in names or "\0" in path else names


def _open_directory(root: int, names: list[str], make: bool = False) -> contextlib.AbstractContextManager[int]:
    """Opens a directory below the root, component by component, without following links."""
    here = os.dup(root)
    try:
        for name in names:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o755, dir_fd=here)
            there = os.open(name, _DIRECTORY, dir_fd=here)
            os.close(here)
            here = there
    except OSError as error:
        os.close(here)
        if error.errno in (errno.ELOOP, errno.EMLINK):  # a link, with O_NOFOLLOW on Linux or BSD
            raise NotADirectoryError(error.errno, "a symbolic link is in the way", error.filename) from error
        raise
    return _closing(here)


def _make_directory(root: int, names: list[str], mode: int, closed: list[tuple[list[str], int]]) -> None:
    """Creates a directory; an existing one keeps its mode. If `mode` denies access to the owner, adds the directory to
    `closed`, so that it gets its mode after its contents are written."""
    if not names:
        return
    with _open_directory(root, names[:-1], make=True) as parent:
        try:
            os.mkdir(names[-1], mode | _OWNER, dir_fd=parent)
        except FileExistsError:
            with _open_directory(parent, names[-1:]):  # must not be a link or a file
                return
    if mode & _OWNER != _OWNER:
        closed.append((names, mode))


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, root: int, names: list[str]) -> bool:
    """Creates a file or link. Returns False if it skips a link, for example one that leads out of the root."""
    if member.issym() and not _link_stays_inside(member.linkname, depth=len(names) - 1):
        return False
    source = _names(member.linkname) if member.islnk() else None
    if member.islnk() and not source:
        return False
    with _open_directory(root, names[:-1], make=True) as parent:
        name = names[-1]
        if source == names:
            return False
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=parent)
        if member.issym():
            os.symlink(member.linkname, name, dir_fd=parent)
        elif source:
            return _link(root, source, parent, name)
        else:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(name, flags, member.mode & 0o777, dir_fd=parent), "wb") as file:
                data = tar.extractfile(member)
                if data is not None:
                    shutil.copyfileobj(data, file, 1 << 20)
                os.fchmod(file.fileno(), member.mode & 0o777)
                os.utime(file.fileno(), (member.mtime, member.mtime))
    return True


def _link(root: int, source: list[str], parent: int, name: str) -> bool:
    """Creates a hard link to a file that was extracted before. Returns False if the file does not exist or is a
    directory."""
    try:
        with _open_directory(root, source[:-1]) as directory:
            os.link(source[-1], name, src_dir_fd=directory, dst_dir_fd=parent, follow_symlinks=False)
    except (FileNotFoundError, PermissionError):
        return False
    return True


def _link_stays_inside(target: str, depth: int) -> bool:
    """Returns whether a symbolic link that is `depth` directories below the root leads to a path below the root.
    Refuses ".." after a name, because the name may be another link."""
    if target.startswith("/") or not target:
        return False
    names = [name for name in target.split("/") if name not in ("", ".")]
    up = next((i for i, name in enumerate(names) if name != ".."), len(names))
    return up <= depth and ".." not in names[up:]
