"""Arguments and results of calls: plain values, the same for both halves of the package.

Kinds and states are lower-case strings, such as "ready" or "exec_exit". A value that this package does not know
yet is passed on as its number, in a string.
"""

from __future__ import annotations

import signal as _signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

# Values that calls accept; "" lets the daemon choose.
Profile = Literal["", "user", "root"]
NetworkMode = Literal["", "none", "egress", "open"]
Layer = Literal["", "disk", "memory"]
OutputPolicy = Literal["", "drop_oldest", "block", "kill"]
LifetimeAction = Literal["", "stop", "pause", "delete"]
ImageKind = Literal["registry", "directory", "tarball", "oci_layout"]
StreamName = Literal["stdout", "stderr"]


@dataclass(frozen=True)
class Limits:
    """Limits of a sandbox. In create, 0 selects the daemon's default and -1 means no limit; in update, 0 keeps the
    current value."""

    memory_bytes: int = 0
    cpu_millis: int = 0  #: thousandths of a processor
    pids: int = 0
    disk_bytes: int = 0
    disk_inodes: int = 0
    output_bytes: int = 0
    exec_wall_ms: int = 0
    execs: int = 0


@dataclass(frozen=True)
class Lifetime:
    """When a sandbox ends automatically. Times in seconds; 0: the daemon's default; -1: never."""

    idle_ttl: float = 0
    idle_action: LifetimeAction = ""  #: "stop" (default), "pause" or "delete"
    ttl: float = 0
    ttl_action: LifetimeAction = ""  #: "delete" (default), "stop" or "pause"
    wake_on_call: bool = False


@dataclass(frozen=True)
class Mount:
    """A host directory that is mounted in the sandbox."""

    source: str
    target: str
    writable: bool = False


@dataclass(frozen=True)
class Copy:
    """A host file or directory that is copied in before the first program starts."""

    source: str
    target: str
    excludes: Sequence[str] = ()


@dataclass(frozen=True)
class Tool:
    """A program of the host, such as "git" or "uv", with its dependencies."""

    name: str
    credentials: bool = False  #: also import the caller's credentials for the tool
    cache: bool = False  #: start with the caller's cache of the tool, not with an empty one


@dataclass(frozen=True)
class Image:
    """An image as root file system."""

    reference: str
    kind: ImageKind = "registry"  #: or "directory", "tarball", "oci_layout"


@dataclass(frozen=True)
class Egress:
    """A destination that network="egress" allows."""

    host: str
    ports: Sequence[int] = ()
    headers: Mapping[str, str] = field(default_factory=dict)  #: header → name of the secret that holds its value


@dataclass(frozen=True)
class SandboxInfo:
    """The record of a sandbox at the time of the daemon's reply."""

    id: str
    state: str
    incarnation: int
    owner: str
    cause: str  #: what caused the state, such as "requested" or "guest_lost"
    code: str  #: reason of an error, else empty
    message: str
    labels: Mapping[str, str]
    env: Mapping[str, str]
    limits: Limits
    lifetime: Lifetime
    driver: str
    profile: str
    network: str
    workspace: str
    created: datetime
    expires: datetime | None
    running_execs: int
    sequence: int  #: sequence of the last event that changed the sandbox


@dataclass(frozen=True)
class Exit:
    """How a program ended. If the daemon does not know, `how` is "lost"."""

    how: str  #: "code", "signal", "timed_out", "out_of_memory", "output_limit", "not_started" or "lost"
    code: int | None = None  #: exit code; None if the program did not return one
    signal: int | None = None  #: signal that ended the program, if any
    reason: str = ""  #: reason of the error, if `how` is "not_started" or "lost"
    message: str = ""

    @property
    def ok(self) -> bool:
        return self.code == 0

    @property
    def shell_code(self) -> int:
        """The exit code that a shell would report: 128+N for signal N, 124 timed out, 127 or 126 not started, 137 out
        of memory, 125 unknown."""
        if self.code is not None:
            return self.code
        if self.how == "not_started":
            return 127 if self.reason == "PROGRAM_NOT_FOUND" else 126
        known = {"timed_out": 124, "out_of_memory": 137}
        if self.how in known:
            return known[self.how]
        return 125 if self.signal is None else 128 + self.signal

    def __str__(self) -> str:
        if self.how == "code":
            return f"ended with {self.code}"
        if self.how == "signal" and self.signal:
            try:
                return f"ended by {_signal.Signals(self.signal).name}"
            except ValueError:
                return f"ended by signal {self.signal}"
        return f"{self.how.replace('_', ' ')}{': ' + self.message if self.message else ''}"


@dataclass(frozen=True)
class ExecUsage:
    """Resource usage of a program and its descendants; 0 where the host cannot measure it."""

    cpu_user_us: int = 0
    cpu_system_us: int = 0
    wall_us: int = 0
    memory_peak_bytes: int = 0
    stdin_bytes: int = 0
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    pids_peak: int = 0
    disk_read_bytes: int = 0
    disk_written_bytes: int = 0


@dataclass(frozen=True)
class ExecInfo:
    """The record of a program at the time of the daemon's reply."""

    id: str
    sandbox_id: str
    argv: Sequence[str]
    state: str  #: "starting", "running", "exited" or "lost"
    exit: Exit | None
    usage: ExecUsage
    cwd: str
    user: str
    labels: Mapping[str, str]
    terminal: bool
    output_policy: str  #: what happens at the output limit: "drop_oldest", "block" or "kill"
    output_limit: int  #: maximum bytes of output that the daemon stores
    created: datetime
    stdin_offset: int  #: bytes of input accepted so far
    stdin_closed: bool


@dataclass(frozen=True)
class Completed:
    """A program that has ended, with its output."""

    exec_id: str
    argv: Sequence[str]
    exit: Exit
    stdout_bytes: bytes
    stderr_bytes: bytes
    usage: ExecUsage
    truncated: bool = False  #: output is missing, because it exceeded max_output or the daemon dropped it

    @property
    def stdout(self) -> str:
        """The output as text; invalid UTF-8 becomes U+FFFD."""
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode("utf-8", "replace")

    @property
    def exit_code(self) -> int | None:
        """The exit code; None if the program did not return one. `exit` then tells how it ended."""
        return self.exit.code

    @property
    def ok(self) -> bool:
        return self.exit.ok


class Chunk(bytes):
    """Bytes of output with their position."""

    stream: str  #: "stdout" or "stderr"
    offset: int  #: offset of the first byte in its stream; continue at offset + len(chunk)
    missing: int  #: dropped bytes right before this chunk; 0 unless the output exceeded its limit

    @classmethod
    def of(cls, data: bytes, stream: str, offset: int, missing: int = 0) -> Chunk:
        chunk = cls(data)
        chunk.stream, chunk.offset, chunk.missing = stream, offset, missing
        return chunk


class Text(str):
    """Text of output with its stream."""

    stream: str  #: "stdout" or "stderr"

    @classmethod
    def of(cls, text: str, stream: str) -> Text:
        made = cls(text)
        made.stream = stream
        return made


@dataclass(frozen=True)
class Usage:
    """Resource usage of a sandbox at one time; 0 where the host cannot measure it."""

    time: datetime
    cpu_us: int
    memory_bytes: int
    memory_peak_bytes: int
    pids: int
    disk_bytes: int
    disk_inodes: int
    output_bytes: int
    oom_kills: int
    network_received_bytes: int
    network_sent_bytes: int
    running_execs: int
    cpu_throttled_us: int
    limits: Limits


@dataclass(frozen=True)
class Event:
    """An event. The comment of an optional field lists the kinds that set it."""

    sequence: int
    time: datetime
    kind: str  #: "sandbox_state", "sandbox_update", "exec_start", "exec_exit", "exec_signal", "file", …
    sandbox_id: str
    incarnation: int
    owner: str
    actor: str  #: "caller", "daemon" or "sandbox"
    identity: str  #: identity of the caller; empty for other actors
    request_id: str
    replayed: bool  #: recorded before this watch started
    # ---
    state: str = ""  #: sandbox_state, snapshot, daemon
    previous: str = ""  #: sandbox_state
    cause: str = ""  #: sandbox_state, snapshot
    code: str = ""  #: sandbox_state, snapshot: reason of an error
    message: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)  #: sandbox_state, sandbox_update
    parts: Sequence[str] = ()  #: sandbox_update
    exec_id: str = ""  #: exec_start, exec_exit, exec_signal, output_cap
    argv: Sequence[str] = ()  #: exec_start
    exit: Exit | None = None  #: exec_exit
    usage: ExecUsage | None = None  #: exec_exit
    signal: int = 0  #: exec_signal
    operation: str = ""  #: file
    path: str = ""  #: file
    new_path: str = ""  #: file: the new path of a rename
    bytes_moved: int = 0  #: file


@dataclass(frozen=True)
class FileInfo:
    """A file, directory or other entry. A name that is not UTF-8 is in os.fsdecode form, which calls accept too."""

    path: str
    type: str  #: "regular", "directory", "symlink", "fifo", "socket" or "device"
    size: int
    mode: int
    uid: int
    gid: int
    user: str
    group: str
    modified_ns: int
    symlink_target: str = ""

    @property
    def is_dir(self) -> bool:
        return self.type == "directory"

    @property
    def name(self) -> str:
        return self.path.rstrip("/").rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Lines:
    """A window of a file's lines, counted from 0."""

    data: bytes
    first: int
    next: int  #: first line of the next window
    total: int  #: lines in the file; a lower bound if `total_truncated`
    total_truncated: bool

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


@dataclass(frozen=True)
class GrepMatch:
    path: str
    line: int  #: line number, counted from 1
    text: str
    before: Sequence[str] = ()
    after: Sequence[str] = ()


@dataclass(frozen=True)
class Found:
    """The matches of grep. `truncated` tells why there may be more: "" if complete, else "matches", "size" or "work"."""

    matches: Sequence[GrepMatch]
    truncated: str
    unreadable: int


@dataclass(frozen=True)
class Globbed:
    """The matches of glob; `truncated` as in Found."""

    matches: Sequence[FileInfo]
    truncated: str
    unreadable: int


@dataclass(frozen=True)
class FileChange:
    """A change below a watched path. After a "resync", look at the tree again, because changes were missed."""

    kind: str  #: "created", "modified", "removed", "renamed", "attributes" or "resync"
    path: str = ""
    old_path: str = ""  #: path before a rename
    info: FileInfo | None = None
    reason: str = ""  #: reason of a resync: "overflow", "restarted" or "root_changed"


@dataclass(frozen=True)
class DaemonInfo:
    """The daemon's version, features and limits."""

    version: str
    spec_version: str
    instance_id: str
    run_id: str
    identity: str
    admin: bool
    drivers: Sequence[str]
    capabilities: frozenset[str]
    limits: Mapping[str, int]
    head_sequence: int
    oldest_sequence: int


__all__ = [
    "Chunk",
    "Completed",
    "Copy",
    "DaemonInfo",
    "Egress",
    "Event",
    "ExecInfo",
    "ExecUsage",
    "Exit",
    "FileChange",
    "FileInfo",
    "Found",
    "Globbed",
    "GrepMatch",
    "Image",
    "ImageKind",
    "Layer",
    "Lifetime",
    "LifetimeAction",
    "Limits",
    "Lines",
    "Mount",
    "NetworkMode",
    "OutputPolicy",
    "Profile",
    "SandboxInfo",
    "StreamName",
    "Text",
    "Tool",
    "Usage",
]
