"""Berm as the sandbox backend of deepagents: the agent runs anywhere, and its tools run in the sandbox.

    with berm.Sandbox.create() as sb:
        agent = create_deep_agent(model=..., backend=BermBackend(sb))

The sandbox's guest reads, searches and edits files, so the image needs neither python3 nor grep, and contents stay
exact bytes. Results report errors that a model can correct, such as a missing file. Other errors, such as a deleted
sandbox, are raised as BermError."""

from __future__ import annotations

import base64
from datetime import datetime, timezone

from deepagents.backends.protocol import (
    FILE_NOT_FOUND,
    INVALID_PATH,
    IS_DIRECTORY,
    PERMISSION_DENIED,
    DeleteResult,
    EditResult,
    ExecuteResponse,
    FileData,
    FileDownloadResponse,
    FileInfo,
    FileUploadResponse,
    GlobResult,
    GrepMatch,
    GrepResult,
    LsResult,
    ReadResult,
    SandboxBackendProtocol,
    WriteResult,
)
from deepagents.backends.utils import _get_backend_read_file_type, normalize_read_bounds

import berm
from berm import errors, types

MAX_OUTPUT = 10 * 1024 * 1024  # bytes of output of one command
MAX_PAGE = 500 * 1024  # bytes of one read
MAX_BINARY = 500 * 1024  # bytes; a larger binary file is not shown to a model
MAX_MATCHES = 10_000  # the daemon's maximum for one reply
MAX_LINES = 100_000

# Errors that a model can correct, with their text in the deepagents protocol. "" stands for the error's own text.
_WORDS: dict[type[berm.BermError], str] = {
    errors.FileNotFoundError: FILE_NOT_FOUND,
    errors.FileDeniedError: PERMISSION_DENIED,
    errors.FileReadOnlyError: PERMISSION_DENIED,
    errors.IsADirectoryError: IS_DIRECTORY,
    errors.NotADirectoryError: INVALID_PATH,
    errors.SymlinkLoopError: INVALID_PATH,
    errors.InvalidArgumentError: INVALID_PATH,
    errors.NotARegularFileError: "not_a_file",
    errors.FileTooLargeError: "",
    errors.FileChangedError: "",
    errors.DiskFullError: "",
    errors.LimitReachedError: "",
}
_MENDABLE = tuple(_WORDS)


def _word(error: berm.BermError) -> str:
    return _WORDS[type(error)] or str(error)


class BermBackend(SandboxBackendProtocol):
    """A sandbox as the backend of a deep agent. `timeout`, in seconds, applies to commands that set none."""

    def __init__(self, sandbox: berm.Sandbox, *, timeout: float = 1800.0):
        self._sandbox = sandbox
        self._files = sandbox.files
        self._timeout = timeout

    @property
    def id(self) -> str:
        return self._sandbox.id

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Runs a shell command and merges both output streams. A timeout of 0 means no timeout."""
        seconds = self._timeout if timeout is None else timeout
        done = self._sandbox.run(
            command, merge_stderr=True, timeout=seconds or None, max_output=MAX_OUTPUT
        )
        output = done.stdout
        if done.exit.how != "code":
            output += f"{'' if not output or output.endswith(chr(10)) else chr(10)}[command {done.exit}]"
        code = None if done.exit.how == "lost" else done.exit.shell_code
        return ExecuteResponse(output=output, exit_code=code, truncated=done.truncated)

    # --- files ---

    def ls(self, path: str) -> LsResult:
        if not path.startswith("/"):
            return LsResult(error=f"Path '{path}': {INVALID_PATH}")
        try:
            return LsResult(entries=[_entry(info) for info in self._files.list(path)])
        except _MENDABLE as error:
            return LsResult(error=f"Path '{path}': {_word(error)}")

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        if not file_path.startswith("/"):
            return ReadResult(error=f"File '{file_path}': {INVALID_PATH}")
        try:
            return self._read(file_path, *normalize_read_bounds(offset, limit))
        except _MENDABLE as error:
            return ReadResult(error=f"File '{file_path}': {_word(error)}")

    def _read(self, path: str, offset: int, limit: int) -> ReadResult:
        info = self._files.stat(path, follow=True)
        if info.type != "regular":
            return ReadResult(error=f"File '{path}': not_a_file")
        if info.size == 0:
            return ReadResult(file_data=FileData(content="", encoding="utf-8"))
        if _get_backend_read_file_type(path) != "text":
            return self._read_binary(path, info.size)
        if limit == 0:
            return ReadResult(file_data=FileData(content="", encoding="utf-8"), no_lines_requested=True)
        page = self._files.read_lines(path, offset, max_lines=min(limit, MAX_LINES), max_bytes=MAX_PAGE)
        if page.next <= offset:
            return ReadResult(
                error=f"File '{path}': Line offset {offset} exceeds file length ({page.total} lines)"
            )
        try:
            text = page.data.decode()
        except UnicodeDecodeError:
            return self._read_binary(path, info.size)
        total = None if page.total_truncated else page.total
        return ReadResult(
            file_data=FileData(content=text.replace("\r\n", "\n").removesuffix("\n"), encoding="utf-8"),
            total_lines=total,
            start_line=offset + 1,
            end_line=page.next,
            next_offset=None if total is not None and page.next >= total else page.next,
        )

    def _read_binary(self, path: str, size: int) -> ReadResult:
        if size > MAX_BINARY:
            return ReadResult(
                error=f"File '{path}': Binary file exceeds maximum preview size of {MAX_BINARY} bytes"
            )
        content = base64.b64encode(self._files.read(path)).decode()
        return ReadResult(file_data=FileData(content=content, encoding="base64"))

    def write(self, file_path: str, content: str) -> WriteResult:
        [response] = self.upload_files([(file_path, content.encode())])
        if response.error is not None:
            return WriteResult(error=f"Failed to write file '{file_path}': {response.error}")
        return WriteResult(path=file_path)

    def edit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> EditResult:
        if not file_path.startswith("/"):
            return EditResult(error=f"Error editing file '{file_path}': {INVALID_PATH}")
        try:
            count = self._files.edit(file_path, (old_string, new_string), replace_all=replace_all)
        except errors.EditNoMatchError:
            return EditResult(error=f"Error: String not found in file: '{old_string}'")
        except errors.EditNotUniqueError:
            return EditResult(
                error=f"Error: String '{old_string}' appears multiple times. "
                "Use replace_all=True to replace all occurrences."
            )
        except errors.FileNotFoundError:
            return EditResult(error=f"Error: File '{file_path}' not found")
        except errors.InvalidArgumentError as error:
            return EditResult(error=f"Error editing file '{file_path}': {error}")
        except _MENDABLE as error:
            return EditResult(error=f"Error editing file '{file_path}': {_word(error)}")
        return EditResult(path=file_path, occurrences=count)

    def delete(self, file_path: str) -> DeleteResult:
        if not file_path.startswith("/"):
            return DeleteResult(error=f"Error deleting file '{file_path}': {INVALID_PATH}")
        try:
            self._files.remove(file_path, recursive=True)
        except errors.FileNotFoundError:
            return DeleteResult(error=f"Error: '{file_path}' not found")
        except _MENDABLE as error:
            return DeleteResult(error=f"Error deleting file '{file_path}': {_word(error)}")
        return DeleteResult(path=file_path)

    # --- searching ---

    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        most = MAX_MATCHES if max_count is None else max(1, min(max_count + 1, MAX_MATCHES))
        try:
            found = self._files.grep(pattern, path, glob=glob or "", max_matches=most)
        except errors.InvalidArgumentError as error:
            return GrepResult(error=f"Path '{path or '.'}': {error}")
        except _MENDABLE as error:
            return GrepResult(error=f"Path '{path or '.'}': {_word(error)}")
        matches = [GrepMatch(path=m.path, line=m.line, text=m.text) for m in found.matches]
        if max_count is not None and len(matches) > max_count:
            return GrepResult(matches=matches[:max_count], truncated=True)
        return GrepResult(matches=matches, truncated=bool(found.truncated))

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        try:
            found = self._files.glob(pattern, path)
        except errors.InvalidArgumentError as error:
            return GlobResult(error=f"Path '{path or '.'}': {error}")
        except _MENDABLE as error:
            return GlobResult(error=f"Path '{path or '.'}': {_word(error)}")
        return GlobResult(matches=[_entry(info) for info in found.matches], truncated=bool(found.truncated))

    # --- many files ---

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [FileUploadResponse(path=path, error=self._upload(path, data)) for path, data in files]

    def _upload(self, path: str, data: bytes) -> str | None:
        if not path.startswith("/"):
            return INVALID_PATH
        try:
            self._files.write(path, data)
        except _MENDABLE as error:
            return _word(error)
        return None

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return [self._download(path) for path in paths]

    def _download(self, path: str) -> FileDownloadResponse:
        if not path.startswith("/"):
            return FileDownloadResponse(path=path, error=INVALID_PATH)
        try:
            return FileDownloadResponse(path=path, content=self._files.read(path))
        except _MENDABLE as error:
            return FileDownloadResponse(path=path, error=_word(error))


def _entry(info: types.FileInfo) -> FileInfo:
    when = datetime.fromtimestamp(info.modified_ns / 1e9, timezone.utc)
    return FileInfo(path=info.path, is_dir=info.is_dir, size=info.size, modified_at=when.isoformat())
