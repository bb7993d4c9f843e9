"""Local trees to and from tar archives."""

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

    Nothing is written outside of `local`: each directory is opened relative to its parent and through no link, and a
    file or link replaces what had its name instead of being written through it. Links that lead out of `local`,
    devices, FIFOs, and members below a name that is no directory are skipped. The caller owns every file, without
    set-id bits.

    tarfile's own "data" filter does not do: it checks paths before it uses them, and it refuses a whole tree for
    one link."""
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
                continue  # a link or a file where the archive wants a directory, or the reverse
        for names, mode in reversed(closed):
            with contextlib.suppress(OSError), _open_directory(root, names) as directory:
                os.fchmod(directory, mode)
    return written


@contextlib.contextmanager
def replacing(local: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file to write that takes the name `local` once the block ends without an error. A link of that name is
    replaced and never followed; a device or FIFO is opened as it is."""
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
    """The directory `local`, created if it is missing. A link of that name may have come out of a sandbox with an
    earlier copy, so it is followed only where the caller wrote a slash behind it."""
    path = os.fspath(local)
    if os.path.islink(path) and not path.endswith("/"):
        raise NotADirectoryError(f"{path!r} is a symbolic link: remove it, or append a slash to follow it")
    os.makedirs(path, exist_ok=True)
    return _closing(os.open(path, _DIRECTORY & ~os.O_NOFOLLOW if path.endswith("/") else _DIRECTORY))


def _names(path: str) -> list[str] | None:
    """The parts of a member's name; None where it is absolute or has a part ".."."""
    if path.startswith("/"):
        return None
    names = [name for name in path.split("/") if name not in ("", ".")]
    return None if ".." in names or "\0" in path else names


def _open_directory(root: int, names: list[str], make: bool = False) -> contextlib.AbstractContextManager[int]:
    """The directory of that name below the root, opened part by part and through no link."""
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
        if error.errno in (errno.ELOOP, errno.EMLINK):  # how systems refuse a link under O_NOFOLLOW
            raise NotADirectoryError(error.errno, "a symbolic link is in the way", error.filename) from error
        raise
    return _closing(here)


def _make_directory(root: int, names: list[str], mode: int, closed: list[tuple[list[str], int]]) -> None:
    """A directory that is there keeps its mode. One that its owner may not write gets its mode at the end."""
    if not names:
        return
    with _open_directory(root, names[:-1], make=True) as parent:
        try:
            os.mkdir(names[-1], mode | _OWNER, dir_fd=parent)
        except FileExistsError:
            with _open_directory(parent, names[-1:]):  # no link, and no file
                return
    if mode & _OWNER != _OWNER:
        closed.append((names, mode))


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, root: int, names: list[str]) -> bool:
    """Makes a file or link anew. False: it is a link that leads out."""
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
    """A second name for a file that the archive wrote before. False: there is no such file, or it is a directory."""
    try:
        with _open_directory(root, source[:-1]) as directory:
            os.link(source[-1], name, src_dir_fd=directory, dst_dir_fd=parent, follow_symlinks=False)
    except (FileNotFoundError, PermissionError):
        return False
    return True


def _link_stays_inside(target: str, depth: int) -> bool:
    """Whether a symbolic link that lies `depth` directories below the root leads to a name below it. Only leading
    ".." parts can be judged: behind a name they may pass through another link."""
    if target.startswith("/") or not target:
        return False
    names = [name for name in target.split("/") if name not in ("", ".")]
    up = next((i for i, name in enumerate(names) if name != ".."), len(names))
    return up <= depth and ".." not in names[up:]
