# Derived from berm/_async/files.py by scripts/gen-python-sync.py; do not edit.
"""Files of a sandbox. Paths are absolute or relative to the workspace, as text or bytes."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO, BinaryIO

from berm import _convert as convert
from berm import _methods as methods
from berm import _runtime_sync as runtime
from berm import _tar, errors, types
from berm._sync.client import Client
from berm._convert import Path
from berm._gen.berm.v1 import berm_pb2 as pb

_PIECE = 1024 * 1024  # bytes per upload message

Data = bytes | str | BinaryIO | IO[bytes]


class Files:
    """The files of a sandbox, accessed as `user`; by default as the sandbox's user."""

    def __init__(self, client: Client, sandbox_id: str, user: str = ""):
        self._client = client
        self._sandbox_id = sandbox_id
        self._user = user

    def as_user(self, user: str) -> Files:
        """Returns the same files, accessed as another user."""
        return Files(self._client, self._sandbox_id, user)

    # --- contents ---

    def read(self, path: Path, *, offset: int = 0, max_bytes: int = 0) -> bytes:
        """Returns the bytes of a file, or of a range in it."""
        data = bytearray()
        with runtime.closing(self.stream(path, offset=offset, max_bytes=max_bytes)) as chunks:
            for chunk in chunks:
                data += chunk
        return bytes(data)

    def read_text(self, path: Path, encoding: str = "utf-8", errors: str = "strict") -> str:
        return (self.read(path)).decode(encoding, errors)

    def stream(self, path: Path, *, offset: int = 0, max_bytes: int = 0) -> runtime.Stream[bytes]:
        """Yields the bytes of a file. Resumes after a lost connection; raises FileChangedError if the file was
        replaced meanwhile."""
        at, opened = offset, None

        def request() -> pb.ReadFileRequest:
            left = max_bytes - (at - offset) if max_bytes else 0
            return pb.ReadFileRequest(
                sandbox_id=self._sandbox_id,
                offset=at,
                max_bytes=left,
                user=self._user,
                **convert.path_fields(path),
            )

        with runtime.closing(self._client.follow(methods.READ_FILE, request)) as messages:
            for message in messages:
                part = message.WhichOneof("part")
                if part == "info":
                    now = (message.info.size_bytes, message.info.modified_unix_ns)
                    if opened not in (None, now) and at > offset:
                        raise errors.FileChangedError("the file changed while it was read")
                    opened = now
                elif part == "chunk":
                    at = message.chunk.offset + len(message.chunk.data)
                    yield message.chunk.data
                    if max_bytes and at - offset >= max_bytes:
                        return  # do not resume with 0 bytes left, because 0 requests the whole file
                elif part == "end":
                    return

    def read_lines(
        self, path: Path, first: int = 0, *, max_lines: int = 0, max_bytes: int = 0
    ) -> types.Lines:
        """Returns a window of lines, starting at line `first`. A maximum of 0 selects the daemon's default of 2000
        lines or 512,000 bytes."""
        request = pb.ReadFileRequest(
            sandbox_id=self._sandbox_id,
            lines=pb.LineWindow(first_line=first, max_lines=max_lines, max_bytes=max_bytes),
            user=self._user,
            **convert.path_fields(path),
        )
        data, lines = bytearray(), pb.LineRange()
        with runtime.closing(self._client.follow(methods.READ_FILE, lambda: request)) as messages:
            for message in messages:
                part = message.WhichOneof("part")
                if part == "info":
                    data.clear()  # each attempt starts with this message
                elif part == "chunk":
                    data += message.chunk.data
                elif part == "end":
                    lines = message.end.lines
        return types.Lines(
            bytes(data), lines.first_line, lines.next_line, lines.total_lines, lines.total_truncated
        )

    def write(
        self,
        path: Path,
        data: Data,
        *,
        mode: int | None = None,
        make_parents: bool = True,
        must_not_exist: bool = False,
    ) -> types.FileInfo:
        """Writes a file atomically, from bytes, text, or an open binary file (from its current position). If `data`
        is a file that cannot seek, the call fails when the connection is lost, because it cannot read the data
        again."""
        source = _Upload(data)
        header = pb.WriteFileHeader(
            sandbox_id=self._sandbox_id,
            mode=None if mode is None else pb.FileMode(bits=mode),
            make_parents=make_parents,
            must_not_exist=must_not_exist,
            size=None if source.size is None else pb.ExpectedSize(size_bytes=source.size),
            user=self._user,
            **convert.path_fields(path),
        )

        def requests() -> Iterator[pb.WriteFileRequest]:
            yield pb.WriteFileRequest(header=header)
            for piece in source.pieces():
                yield pb.WriteFileRequest(data=piece)

        answer = self._client.upload(
            methods.WRITE_FILE, header, requests, repeatable=source.repeatable
        )
        return convert.file_of(answer.info)

    def edit(self, path: Path, *edits: tuple[str, str], replace_all: bool = False) -> int:
        """Replaces exact text; applies all edits or none. Returns the number of replacements. Without `replace_all`,
        each old text must occur exactly once."""
        request = pb.EditFileRequest(
            sandbox_id=self._sandbox_id,
            edits=[pb.TextEdit(old_text=old, new_text=new, replace_all=replace_all) for old, new in edits],
            user=self._user,
            **convert.path_fields(path),
        )
        return (self._client.call(methods.EDIT_FILE, request)).replacements

    # --- the tree ---

    def stat(self, path: Path, *, follow: bool = False) -> types.FileInfo:
        request = pb.StatFileRequest(
            sandbox_id=self._sandbox_id, follow=follow, user=self._user, **convert.path_fields(path)
        )
        return convert.file_of((self._client.call(methods.STAT_FILE, request)).info)

    def exists(self, path: Path) -> bool:
        """Returns whether the path exists. A dangling symlink counts."""
        try:
            self.stat(path)
        except (errors.FileNotFoundError, errors.NotADirectoryError):
            return False
        return True

    def list(self, path: Path = ".", *, depth: int = 1) -> runtime.Stream[types.FileInfo]:
        """Yields the entries below a directory, sorted, each directory before its contents."""
        request = pb.ListFilesRequest(
            sandbox_id=self._sandbox_id, depth=depth, user=self._user, **convert.path_fields(path)
        )
        while True:
            page = self._client.call(methods.LIST_FILES, request)
            for entry in page.entries:
                yield convert.file_of(entry)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def make_dir(self, path: Path, *, mode: int | None = None, make_parents: bool = True) -> bool:
        """Creates a directory. Returns whether it is new."""
        request = pb.MakeDirRequest(
            sandbox_id=self._sandbox_id,
            mode=None if mode is None else pb.FileMode(bits=mode),
            make_parents=make_parents,
            user=self._user,
            **convert.path_fields(path),
        )
        return (self._client.call(methods.MAKE_DIR, request)).created

    def remove(self, path: Path, *, recursive: bool = False, missing_ok: bool = False) -> int:
        """Removes a file, link or directory. Returns the number of removed files and directories."""
        request = pb.RemoveRequest(
            sandbox_id=self._sandbox_id,
            recursive=recursive,
            missing_ok=missing_ok,
            user=self._user,
            **convert.path_fields(path),
        )
        return (self._client.call(methods.REMOVE, request)).removed

    def rename(
        self, path: Path, new_path: Path, *, replace: bool = False, make_parents: bool = False
    ) -> types.FileInfo:
        request = pb.RenameRequest(
            sandbox_id=self._sandbox_id,
            replace=replace,
            make_parents=make_parents,
            user=self._user,
            **convert.path_fields(path),
            **convert.path_fields(new_path, "new_path"),
        )
        return convert.file_of((self._client.call(methods.RENAME, request)).info)

    def watch(
        self, path: Path = ".", *, recursive: bool = False, include_info: bool = False
    ) -> runtime.Stream[types.FileChange]:
        """Yields changes below a path. The first item has the kind "watching": the daemon reports every change after
        it. A "resync" reports that changes were missed, for example after a lost connection."""
        request = pb.WatchFilesRequest(
            sandbox_id=self._sandbox_id,
            recursive=recursive,
            include_info=include_info,
            user=self._user,
            **convert.path_fields(path),
        )
        begun = False
        with runtime.closing(self._client.follow(methods.WATCH_FILES, lambda: request)) as messages:
            for message in messages:
                event = message.WhichOneof("event")
                if event == "watching":
                    info = convert.file_of(message.watching)
                    if begun:
                        yield types.FileChange("resync", info.path, reason="restarted")
                    else:
                        yield types.FileChange("watching", info.path, info=info)
                    begun = True
                elif event == "change":
                    yield convert.change_of(message.change)
                elif event == "resync":
                    reason = convert.word(pb.FileResyncReason, "FILE_RESYNC_REASON_", message.resync.reason)
                    yield types.FileChange("resync", reason=reason)

    # --- searching ---

    def grep(
        self,
        pattern: str,
        path: Path | None = None,
        *,
        regex: bool = False,
        ignore_case: bool = False,
        glob: str = "",
        max_matches: int = 0,
        before: int = 0,
        after: int = 0,
    ) -> types.Found:
        """Returns lines that contain a text or match an extended regular expression."""
        request = pb.GrepRequest(
            sandbox_id=self._sandbox_id,
            pattern=pattern,
            regex=regex,
            ignore_case=ignore_case,
            glob=glob,
            max_matches=max_matches,
            before_lines=before,
            after_lines=after,
            user=self._user,
            **({} if path is None else convert.path_fields(path)),
        )
        answer = self._client.call(methods.GREP, request, wait=30)
        matches = [convert.grep_match_of(match) for match in answer.matches]
        return types.Found(matches, convert.truncated_of(answer.truncated), answer.unreadable)

    def glob(
        self, pattern: str, path: Path | None = None, *, all_types: bool = False, max_matches: int = 0
    ) -> types.Globbed:
        """Returns paths that match a pattern: * ? [a] [!a] {a,b}, and ** for any number of directories."""
        request = pb.GlobRequest(
            sandbox_id=self._sandbox_id,
            pattern=pattern,
            all_types=all_types,
            max_matches=max_matches,
            user=self._user,
            **({} if path is None else convert.path_fields(path)),
        )
        answer = self._client.call(methods.GLOB, request)
        matches = [convert.file_of(match) for match in answer.matches]
        return types.Globbed(matches, convert.truncated_of(answer.truncated), answer.unreadable)

    # --- whole trees ---

    def upload_tree(self, path: Path, tar: Data, *, gzip: bool = False) -> int:
        """Unpacks a tar archive below a directory. Returns the number of files written."""
        source = _Upload(tar)
        header = pb.UploadTreeHeader(
            sandbox_id=self._sandbox_id,
            compression=pb.TREE_COMPRESSION_GZIP if gzip else pb.TREE_COMPRESSION_NONE,
            user=self._user,
            **convert.path_fields(path),
        )

        def requests() -> Iterator[pb.UploadTreeRequest]:
            yield pb.UploadTreeRequest(header=header)
            for piece in source.pieces():
                yield pb.UploadTreeRequest(data=piece)

        answer = self._client.upload(
            methods.UPLOAD_TREE, header, requests, repeatable=source.repeatable
        )
        return answer.files

    def download_tree(
        self, path: Path, to: BinaryIO | IO[bytes], *, excludes: Sequence[str] = (), gzip: bool = False
    ) -> int:
        """Writes a tar archive of a file or directory to an open, seekable file. Returns the number of files in it.
        After a lost connection, starts again at the original position of `to`."""
        request = pb.DownloadTreeRequest(
            sandbox_id=self._sandbox_id,
            excludes=excludes,
            compression=pb.TREE_COMPRESSION_GZIP if gzip else pb.TREE_COMPRESSION_NONE,
            user=self._user,
            **convert.path_fields(path),
        )
        start, files = to.tell(), 0

        def again() -> pb.DownloadTreeRequest:
            to.seek(start)
            to.truncate()
            return request

        with runtime.closing(self._client.follow(methods.DOWNLOAD_TREE, again)) as messages:
            for message in messages:
                part = message.WhichOneof("part")
                if part == "data":
                    to.write(message.data)
                elif part == "end":
                    files = message.end.files
        return files

    def upload(self, local: str | os.PathLike[str], path: Path) -> int:
        """Copies a local file or directory into the sandbox. Returns the number of files written. The contents of a
        local directory are placed directly in the directory at `path`."""
        if not os.path.isdir(local):
            with open(local, "rb") as file:
                self.write(path, file, mode=os.stat(local).st_mode & 0o777)
            return 1
        with tempfile.TemporaryFile() as archive:
            _tar.pack(local, archive)
            archive.seek(0)
            return self.upload_tree(path, archive)

    def download(self, path: Path, local: str | os.PathLike[str]) -> int:
        """Copies a file or directory from the sandbox to a local path. Returns the number of files written. Never
        writes outside of `local`, and omits links that lead out of it. If `local` itself is a link, the download
        does not follow it, because an earlier download may have created it: a file replaces the link, and a
        directory raises NotADirectoryError unless `local` ends with a slash."""
        if not (self.stat(path, follow=True)).is_dir:
            with runtime.closing(self.stream(path)) as chunks:
                with _tar.replacing(local) as file:
                    for chunk in chunks:
                        file.write(chunk)
            return 1
        with tempfile.TemporaryFile() as archive:
            self.download_tree(path, archive)
            archive.seek(0)
            return _tar.unpack(archive, local)


class _Upload:
    """Bytes to upload, in pieces. An upload can be repeated from the start if the data can seek."""

    def __init__(self, data: Data):
        raw = data.encode() if isinstance(data, str) else data
        self._file = io.BytesIO(raw) if isinstance(raw, (bytes, bytearray, memoryview)) else raw
        self.repeatable = self._file.seekable()
        self.size: int | None = None
        self._start = 0
        if self.repeatable:
            self._start = self._file.tell()
            self.size = self._file.seek(0, os.SEEK_END) - self._start

    def pieces(self) -> Iterator[bytes]:
        if self.repeatable:
            self._file.seek(self._start)
        while piece := self._file.read(_PIECE):
            yield piece
