from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StreamEndReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STREAM_END_REASON_UNSPECIFIED: _ClassVar[StreamEndReason]
    STREAM_END_REASON_COMPLETE: _ClassVar[StreamEndReason]
    STREAM_END_REASON_DRAINING: _ClassVar[StreamEndReason]
    STREAM_END_REASON_SLOW_READER: _ClassVar[StreamEndReason]
    STREAM_END_REASON_SANDBOX_GONE: _ClassVar[StreamEndReason]

class SandboxState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SANDBOX_STATE_UNSPECIFIED: _ClassVar[SandboxState]
    SANDBOX_STATE_PENDING: _ClassVar[SandboxState]
    SANDBOX_STATE_READY: _ClassVar[SandboxState]
    SANDBOX_STATE_PAUSED: _ClassVar[SandboxState]
    SANDBOX_STATE_STOPPING: _ClassVar[SandboxState]
    SANDBOX_STATE_STOPPED: _ClassVar[SandboxState]
    SANDBOX_STATE_FAILED: _ClassVar[SandboxState]
    SANDBOX_STATE_DELETING: _ClassVar[SandboxState]
    SANDBOX_STATE_DELETED: _ClassVar[SandboxState]

class StateCause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STATE_CAUSE_UNSPECIFIED: _ClassVar[StateCause]
    STATE_CAUSE_REQUESTED: _ClassVar[StateCause]
    STATE_CAUSE_COMPLETED: _ClassVar[StateCause]
    STATE_CAUSE_IDLE_TTL: _ClassVar[StateCause]
    STATE_CAUSE_TTL: _ClassVar[StateCause]
    STATE_CAUSE_GUEST_LOST: _ClassVar[StateCause]
    STATE_CAUSE_HOST_REBOOT: _ClassVar[StateCause]
    STATE_CAUSE_RECOVERY: _ClassVar[StateCause]
    STATE_CAUSE_ERROR: _ClassVar[StateCause]
    STATE_CAUSE_WOKEN: _ClassVar[StateCause]

class SandboxProfile(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SANDBOX_PROFILE_UNSPECIFIED: _ClassVar[SandboxProfile]
    SANDBOX_PROFILE_USER: _ClassVar[SandboxProfile]
    SANDBOX_PROFILE_ROOT: _ClassVar[SandboxProfile]

class LifetimeAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LIFETIME_ACTION_UNSPECIFIED: _ClassVar[LifetimeAction]
    LIFETIME_ACTION_STOP: _ClassVar[LifetimeAction]
    LIFETIME_ACTION_PAUSE: _ClassVar[LifetimeAction]
    LIFETIME_ACTION_DELETE: _ClassVar[LifetimeAction]

class NetworkMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NETWORK_MODE_UNSPECIFIED: _ClassVar[NetworkMode]
    NETWORK_MODE_NONE: _ClassVar[NetworkMode]
    NETWORK_MODE_EGRESS: _ClassVar[NetworkMode]
    NETWORK_MODE_OPEN: _ClassVar[NetworkMode]

class ImageKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    IMAGE_KIND_UNSPECIFIED: _ClassVar[ImageKind]
    IMAGE_KIND_REGISTRY: _ClassVar[ImageKind]
    IMAGE_KIND_DIRECTORY: _ClassVar[ImageKind]
    IMAGE_KIND_TARBALL: _ClassVar[ImageKind]
    IMAGE_KIND_OCI_LAYOUT: _ClassVar[ImageKind]

class WritableLayer(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WRITABLE_LAYER_UNSPECIFIED: _ClassVar[WritableLayer]
    WRITABLE_LAYER_DISK: _ClassVar[WritableLayer]
    WRITABLE_LAYER_MEMORY: _ClassVar[WritableLayer]

class SnapshotState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SNAPSHOT_STATE_UNSPECIFIED: _ClassVar[SnapshotState]
    SNAPSHOT_STATE_PENDING: _ClassVar[SnapshotState]
    SNAPSHOT_STATE_READY: _ClassVar[SnapshotState]
    SNAPSHOT_STATE_FAILED: _ClassVar[SnapshotState]
    SNAPSHOT_STATE_DELETING: _ClassVar[SnapshotState]

class EventKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EVENT_KIND_UNSPECIFIED: _ClassVar[EventKind]
    EVENT_KIND_SANDBOX_STATE: _ClassVar[EventKind]
    EVENT_KIND_SANDBOX_UPDATE: _ClassVar[EventKind]
    EVENT_KIND_EXEC_START: _ClassVar[EventKind]
    EVENT_KIND_EXEC_EXIT: _ClassVar[EventKind]
    EVENT_KIND_EXEC_SIGNAL: _ClassVar[EventKind]
    EVENT_KIND_OUTPUT_CAP: _ClassVar[EventKind]
    EVENT_KIND_FILE: _ClassVar[EventKind]
    EVENT_KIND_SNAPSHOT: _ClassVar[EventKind]
    EVENT_KIND_DAEMON: _ClassVar[EventKind]

class ActorKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACTOR_KIND_UNSPECIFIED: _ClassVar[ActorKind]
    ACTOR_KIND_CALLER: _ClassVar[ActorKind]
    ACTOR_KIND_DAEMON: _ClassVar[ActorKind]
    ACTOR_KIND_SANDBOX: _ClassVar[ActorKind]

class FileOperation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FILE_OPERATION_UNSPECIFIED: _ClassVar[FileOperation]
    FILE_OPERATION_READ: _ClassVar[FileOperation]
    FILE_OPERATION_WRITE: _ClassVar[FileOperation]
    FILE_OPERATION_EDIT: _ClassVar[FileOperation]
    FILE_OPERATION_MAKE_DIR: _ClassVar[FileOperation]
    FILE_OPERATION_REMOVE: _ClassVar[FileOperation]
    FILE_OPERATION_RENAME: _ClassVar[FileOperation]
    FILE_OPERATION_UPLOAD_TREE: _ClassVar[FileOperation]
    FILE_OPERATION_DOWNLOAD_TREE: _ClassVar[FileOperation]
    FILE_OPERATION_GREP: _ClassVar[FileOperation]

class ExecState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EXEC_STATE_UNSPECIFIED: _ClassVar[ExecState]
    EXEC_STATE_STARTING: _ClassVar[ExecState]
    EXEC_STATE_RUNNING: _ClassVar[ExecState]
    EXEC_STATE_EXITED: _ClassVar[ExecState]
    EXEC_STATE_LOST: _ClassVar[ExecState]

class StdinMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STDIN_MODE_UNSPECIFIED: _ClassVar[StdinMode]
    STDIN_MODE_EMPTY: _ClassVar[StdinMode]
    STDIN_MODE_PIPE: _ClassVar[StdinMode]

class OutputPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTPUT_POLICY_UNSPECIFIED: _ClassVar[OutputPolicy]
    OUTPUT_POLICY_DROP_OLDEST: _ClassVar[OutputPolicy]
    OUTPUT_POLICY_BLOCK: _ClassVar[OutputPolicy]
    OUTPUT_POLICY_KILL: _ClassVar[OutputPolicy]

class SignalSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SIGNAL_SOURCE_UNSPECIFIED: _ClassVar[SignalSource]
    SIGNAL_SOURCE_SANDBOX: _ClassVar[SignalSource]
    SIGNAL_SOURCE_CALLER: _ClassVar[SignalSource]
    SIGNAL_SOURCE_STOP: _ClassVar[SignalSource]

class OutputStream(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTPUT_STREAM_UNSPECIFIED: _ClassVar[OutputStream]
    OUTPUT_STREAM_STDOUT: _ClassVar[OutputStream]
    OUTPUT_STREAM_STDERR: _ClassVar[OutputStream]

class FileType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FILE_TYPE_UNSPECIFIED: _ClassVar[FileType]
    FILE_TYPE_REGULAR: _ClassVar[FileType]
    FILE_TYPE_DIRECTORY: _ClassVar[FileType]
    FILE_TYPE_SYMLINK: _ClassVar[FileType]
    FILE_TYPE_FIFO: _ClassVar[FileType]
    FILE_TYPE_SOCKET: _ClassVar[FileType]
    FILE_TYPE_DEVICE: _ClassVar[FileType]

class FileChangeKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FILE_CHANGE_KIND_UNSPECIFIED: _ClassVar[FileChangeKind]
    FILE_CHANGE_KIND_CREATED: _ClassVar[FileChangeKind]
    FILE_CHANGE_KIND_MODIFIED: _ClassVar[FileChangeKind]
    FILE_CHANGE_KIND_REMOVED: _ClassVar[FileChangeKind]
    FILE_CHANGE_KIND_RENAMED: _ClassVar[FileChangeKind]
    FILE_CHANGE_KIND_ATTRIBUTES: _ClassVar[FileChangeKind]

class FileResyncReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FILE_RESYNC_REASON_UNSPECIFIED: _ClassVar[FileResyncReason]
    FILE_RESYNC_REASON_OVERFLOW: _ClassVar[FileResyncReason]
    FILE_RESYNC_REASON_RESTARTED: _ClassVar[FileResyncReason]
    FILE_RESYNC_REASON_ROOT_CHANGED: _ClassVar[FileResyncReason]

class TreeCompression(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TREE_COMPRESSION_UNSPECIFIED: _ClassVar[TreeCompression]
    TREE_COMPRESSION_NONE: _ClassVar[TreeCompression]
    TREE_COMPRESSION_GZIP: _ClassVar[TreeCompression]

class TruncatedReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TRUNCATED_REASON_UNSPECIFIED: _ClassVar[TruncatedReason]
    TRUNCATED_REASON_MATCHES: _ClassVar[TruncatedReason]
    TRUNCATED_REASON_SIZE: _ClassVar[TruncatedReason]
    TRUNCATED_REASON_WORK: _ClassVar[TruncatedReason]

class DaemonState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DAEMON_STATE_UNSPECIFIED: _ClassVar[DaemonState]
    DAEMON_STATE_SERVING: _ClassVar[DaemonState]
    DAEMON_STATE_DRAINING: _ClassVar[DaemonState]
STREAM_END_REASON_UNSPECIFIED: StreamEndReason
STREAM_END_REASON_COMPLETE: StreamEndReason
STREAM_END_REASON_DRAINING: StreamEndReason
STREAM_END_REASON_SLOW_READER: StreamEndReason
STREAM_END_REASON_SANDBOX_GONE: StreamEndReason
SANDBOX_STATE_UNSPECIFIED: SandboxState
SANDBOX_STATE_PENDING: SandboxState
SANDBOX_STATE_READY: SandboxState
SANDBOX_STATE_PAUSED: SandboxState
SANDBOX_STATE_STOPPING: SandboxState
SANDBOX_STATE_STOPPED: SandboxState
SANDBOX_STATE_FAILED: SandboxState
SANDBOX_STATE_DELETING: SandboxState
SANDBOX_STATE_DELETED: SandboxState
STATE_CAUSE_UNSPECIFIED: StateCause
STATE_CAUSE_REQUESTED: StateCause
STATE_CAUSE_COMPLETED: StateCause
STATE_CAUSE_IDLE_TTL: StateCause
STATE_CAUSE_TTL: StateCause
STATE_CAUSE_GUEST_LOST: StateCause
STATE_CAUSE_HOST_REBOOT: StateCause
STATE_CAUSE_RECOVERY: StateCause
STATE_CAUSE_ERROR: StateCause
STATE_CAUSE_WOKEN: StateCause
SANDBOX_PROFILE_UNSPECIFIED: SandboxProfile
SANDBOX_PROFILE_USER: SandboxProfile
SANDBOX_PROFILE_ROOT: SandboxProfile
LIFETIME_ACTION_UNSPECIFIED: LifetimeAction
LIFETIME_ACTION_STOP: LifetimeAction
LIFETIME_ACTION_PAUSE: LifetimeAction
LIFETIME_ACTION_DELETE: LifetimeAction
NETWORK_MODE_UNSPECIFIED: NetworkMode
NETWORK_MODE_NONE: NetworkMode
NETWORK_MODE_EGRESS: NetworkMode
NETWORK_MODE_OPEN: NetworkMode
IMAGE_KIND_UNSPECIFIED: ImageKind
IMAGE_KIND_REGISTRY: ImageKind
IMAGE_KIND_DIRECTORY: ImageKind
IMAGE_KIND_TARBALL: ImageKind
IMAGE_KIND_OCI_LAYOUT: ImageKind
WRITABLE_LAYER_UNSPECIFIED: WritableLayer
WRITABLE_LAYER_DISK: WritableLayer
WRITABLE_LAYER_MEMORY: WritableLayer
SNAPSHOT_STATE_UNSPECIFIED: SnapshotState
SNAPSHOT_STATE_PENDING: SnapshotState
SNAPSHOT_STATE_READY: SnapshotState
SNAPSHOT_STATE_FAILED: SnapshotState
SNAPSHOT_STATE_DELETING: SnapshotState
EVENT_KIND_UNSPECIFIED: EventKind
EVENT_KIND_SANDBOX_STATE: EventKind
EVENT_KIND_SANDBOX_UPDATE: EventKind
EVENT_KIND_EXEC_START: EventKind
EVENT_KIND_EXEC_EXIT: EventKind
EVENT_KIND_EXEC_SIGNAL: EventKind
EVENT_KIND_OUTPUT_CAP: EventKind
EVENT_KIND_FILE: EventKind
EVENT_KIND_SNAPSHOT: EventKind
EVENT_KIND_DAEMON: EventKind
ACTOR_KIND_UNSPECIFIED: ActorKind
ACTOR_KIND_CALLER: ActorKind
ACTOR_KIND_DAEMON: ActorKind
ACTOR_KIND_SANDBOX: ActorKind
FILE_OPERATION_UNSPECIFIED: FileOperation
FILE_OPERATION_READ: FileOperation
FILE_OPERATION_WRITE: FileOperation
FILE_OPERATION_EDIT: FileOperation
FILE_OPERATION_MAKE_DIR: FileOperation
FILE_OPERATION_REMOVE: FileOperation
FILE_OPERATION_RENAME: FileOperation
FILE_OPERATION_UPLOAD_TREE: FileOperation
FILE_OPERATION_DOWNLOAD_TREE: FileOperation
FILE_OPERATION_GREP: FileOperation
EXEC_STATE_UNSPECIFIED: ExecState
EXEC_STATE_STARTING: ExecState
EXEC_STATE_RUNNING: ExecState
EXEC_STATE_EXITED: ExecState
EXEC_STATE_LOST: ExecState
STDIN_MODE_UNSPECIFIED: StdinMode
STDIN_MODE_EMPTY: StdinMode
STDIN_MODE_PIPE: StdinMode
OUTPUT_POLICY_UNSPECIFIED: OutputPolicy
OUTPUT_POLICY_DROP_OLDEST: OutputPolicy
OUTPUT_POLICY_BLOCK: OutputPolicy
OUTPUT_POLICY_KILL: OutputPolicy
SIGNAL_SOURCE_UNSPECIFIED: SignalSource
SIGNAL_SOURCE_SANDBOX: SignalSource
SIGNAL_SOURCE_CALLER: SignalSource
SIGNAL_SOURCE_STOP: SignalSource
OUTPUT_STREAM_UNSPECIFIED: OutputStream
OUTPUT_STREAM_STDOUT: OutputStream
OUTPUT_STREAM_STDERR: OutputStream
FILE_TYPE_UNSPECIFIED: FileType
FILE_TYPE_REGULAR: FileType
FILE_TYPE_DIRECTORY: FileType
FILE_TYPE_SYMLINK: FileType
FILE_TYPE_FIFO: FileType
FILE_TYPE_SOCKET: FileType
FILE_TYPE_DEVICE: FileType
FILE_CHANGE_KIND_UNSPECIFIED: FileChangeKind
FILE_CHANGE_KIND_CREATED: FileChangeKind
FILE_CHANGE_KIND_MODIFIED: FileChangeKind
FILE_CHANGE_KIND_REMOVED: FileChangeKind
FILE_CHANGE_KIND_RENAMED: FileChangeKind
FILE_CHANGE_KIND_ATTRIBUTES: FileChangeKind
FILE_RESYNC_REASON_UNSPECIFIED: FileResyncReason
FILE_RESYNC_REASON_OVERFLOW: FileResyncReason
FILE_RESYNC_REASON_RESTARTED: FileResyncReason
FILE_RESYNC_REASON_ROOT_CHANGED: FileResyncReason
TREE_COMPRESSION_UNSPECIFIED: TreeCompression
TREE_COMPRESSION_NONE: TreeCompression
TREE_COMPRESSION_GZIP: TreeCompression
TRUNCATED_REASON_UNSPECIFIED: TruncatedReason
TRUNCATED_REASON_MATCHES: TruncatedReason
TRUNCATED_REASON_SIZE: TruncatedReason
TRUNCATED_REASON_WORK: TruncatedReason
DAEMON_STATE_UNSPECIFIED: DaemonState
DAEMON_STATE_SERVING: DaemonState
DAEMON_STATE_DRAINING: DaemonState

class KeyValue(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("server_unix_ms", "head_sequence")
    SERVER_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    HEAD_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    server_unix_ms: int
    head_sequence: int
    def __init__(self, server_unix_ms: _Optional[int] = ..., head_sequence: _Optional[int] = ...) -> None: ...

class StreamEnd(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: StreamEndReason
    def __init__(self, reason: _Optional[_Union[StreamEndReason, str]] = ...) -> None: ...

class Sandbox(_message.Message):
    __slots__ = ("sandbox_id", "incarnation", "owner", "state", "reason", "spec", "snapshot_id", "created_unix_ms", "state_changed_unix_ms", "changed_sequence", "last_activity_unix_ms", "idle_due_unix_ms", "expires_unix_ms", "running_execs")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    STATE_CHANGED_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    CHANGED_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    LAST_ACTIVITY_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    IDLE_DUE_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_EXECS_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    incarnation: int
    owner: str
    state: SandboxState
    reason: StateReason
    spec: SandboxSpec
    snapshot_id: str
    created_unix_ms: int
    state_changed_unix_ms: int
    changed_sequence: int
    last_activity_unix_ms: int
    idle_due_unix_ms: int
    expires_unix_ms: int
    running_execs: int
    def __init__(self, sandbox_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., owner: _Optional[str] = ..., state: _Optional[_Union[SandboxState, str]] = ..., reason: _Optional[_Union[StateReason, _Mapping]] = ..., spec: _Optional[_Union[SandboxSpec, _Mapping]] = ..., snapshot_id: _Optional[str] = ..., created_unix_ms: _Optional[int] = ..., state_changed_unix_ms: _Optional[int] = ..., changed_sequence: _Optional[int] = ..., last_activity_unix_ms: _Optional[int] = ..., idle_due_unix_ms: _Optional[int] = ..., expires_unix_ms: _Optional[int] = ..., running_execs: _Optional[int] = ...) -> None: ...

class StateReason(_message.Message):
    __slots__ = ("cause", "code", "message")
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    cause: StateCause
    code: str
    message: str
    def __init__(self, cause: _Optional[_Union[StateCause, str]] = ..., code: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class SandboxSpec(_message.Message):
    __slots__ = ("labels", "env", "limits", "lifetime", "network", "root", "mounts", "copies", "tools", "devices", "profile", "driver", "workspace")
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_FIELD_NUMBER: _ClassVar[int]
    NETWORK_FIELD_NUMBER: _ClassVar[int]
    ROOT_FIELD_NUMBER: _ClassVar[int]
    MOUNTS_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    DRIVER_FIELD_NUMBER: _ClassVar[int]
    WORKSPACE_FIELD_NUMBER: _ClassVar[int]
    labels: _containers.RepeatedCompositeFieldContainer[KeyValue]
    env: _containers.RepeatedCompositeFieldContainer[KeyValue]
    limits: Limits
    lifetime: Lifetime
    network: Network
    root: RootFilesystem
    mounts: _containers.RepeatedCompositeFieldContainer[Mount]
    copies: _containers.RepeatedCompositeFieldContainer[Copy]
    tools: _containers.RepeatedCompositeFieldContainer[Tool]
    devices: _containers.RepeatedCompositeFieldContainer[DeviceRequest]
    profile: SandboxProfile
    driver: str
    workspace: str
    def __init__(self, labels: _Optional[_Iterable[_Union[KeyValue, _Mapping]]] = ..., env: _Optional[_Iterable[_Union[KeyValue, _Mapping]]] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ..., lifetime: _Optional[_Union[Lifetime, _Mapping]] = ..., network: _Optional[_Union[Network, _Mapping]] = ..., root: _Optional[_Union[RootFilesystem, _Mapping]] = ..., mounts: _Optional[_Iterable[_Union[Mount, _Mapping]]] = ..., copies: _Optional[_Iterable[_Union[Copy, _Mapping]]] = ..., tools: _Optional[_Iterable[_Union[Tool, _Mapping]]] = ..., devices: _Optional[_Iterable[_Union[DeviceRequest, _Mapping]]] = ..., profile: _Optional[_Union[SandboxProfile, str]] = ..., driver: _Optional[str] = ..., workspace: _Optional[str] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ("memory_bytes", "cpu_millis", "pids", "disk_bytes", "disk_inodes", "output_bytes", "exec_wall_ms", "execs")
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    CPU_MILLIS_FIELD_NUMBER: _ClassVar[int]
    PIDS_FIELD_NUMBER: _ClassVar[int]
    DISK_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_INODES_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_BYTES_FIELD_NUMBER: _ClassVar[int]
    EXEC_WALL_MS_FIELD_NUMBER: _ClassVar[int]
    EXECS_FIELD_NUMBER: _ClassVar[int]
    memory_bytes: int
    cpu_millis: int
    pids: int
    disk_bytes: int
    disk_inodes: int
    output_bytes: int
    exec_wall_ms: int
    execs: int
    def __init__(self, memory_bytes: _Optional[int] = ..., cpu_millis: _Optional[int] = ..., pids: _Optional[int] = ..., disk_bytes: _Optional[int] = ..., disk_inodes: _Optional[int] = ..., output_bytes: _Optional[int] = ..., exec_wall_ms: _Optional[int] = ..., execs: _Optional[int] = ...) -> None: ...

class Lifetime(_message.Message):
    __slots__ = ("idle_ttl_ms", "idle_action", "ttl_ms", "ttl_action", "wake_on_call")
    IDLE_TTL_MS_FIELD_NUMBER: _ClassVar[int]
    IDLE_ACTION_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    TTL_ACTION_FIELD_NUMBER: _ClassVar[int]
    WAKE_ON_CALL_FIELD_NUMBER: _ClassVar[int]
    idle_ttl_ms: int
    idle_action: LifetimeAction
    ttl_ms: int
    ttl_action: LifetimeAction
    wake_on_call: bool
    def __init__(self, idle_ttl_ms: _Optional[int] = ..., idle_action: _Optional[_Union[LifetimeAction, str]] = ..., ttl_ms: _Optional[int] = ..., ttl_action: _Optional[_Union[LifetimeAction, str]] = ..., wake_on_call: bool = ...) -> None: ...

class Network(_message.Message):
    __slots__ = ("mode", "egress")
    MODE_FIELD_NUMBER: _ClassVar[int]
    EGRESS_FIELD_NUMBER: _ClassVar[int]
    mode: NetworkMode
    egress: _containers.RepeatedCompositeFieldContainer[EgressRule]
    def __init__(self, mode: _Optional[_Union[NetworkMode, str]] = ..., egress: _Optional[_Iterable[_Union[EgressRule, _Mapping]]] = ...) -> None: ...

class EgressRule(_message.Message):
    __slots__ = ("host", "ports", "headers")
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    host: str
    ports: _containers.RepeatedScalarFieldContainer[int]
    headers: _containers.RepeatedCompositeFieldContainer[InjectedHeader]
    def __init__(self, host: _Optional[str] = ..., ports: _Optional[_Iterable[int]] = ..., headers: _Optional[_Iterable[_Union[InjectedHeader, _Mapping]]] = ...) -> None: ...

class InjectedHeader(_message.Message):
    __slots__ = ("name", "secret")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    name: str
    secret: str
    def __init__(self, name: _Optional[str] = ..., secret: _Optional[str] = ...) -> None: ...

class RootFilesystem(_message.Message):
    __slots__ = ("host", "image", "snapshot", "layer")
    HOST_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    LAYER_FIELD_NUMBER: _ClassVar[int]
    host: HostRoot
    image: ImageRoot
    snapshot: SnapshotRoot
    layer: WritableLayer
    def __init__(self, host: _Optional[_Union[HostRoot, _Mapping]] = ..., image: _Optional[_Union[ImageRoot, _Mapping]] = ..., snapshot: _Optional[_Union[SnapshotRoot, _Mapping]] = ..., layer: _Optional[_Union[WritableLayer, str]] = ...) -> None: ...

class HostRoot(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ImageRoot(_message.Message):
    __slots__ = ("kind", "reference")
    KIND_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    kind: ImageKind
    reference: str
    def __init__(self, kind: _Optional[_Union[ImageKind, str]] = ..., reference: _Optional[str] = ...) -> None: ...

class SnapshotRoot(_message.Message):
    __slots__ = ("snapshot_id",)
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    snapshot_id: str
    def __init__(self, snapshot_id: _Optional[str] = ...) -> None: ...

class Mount(_message.Message):
    __slots__ = ("source", "target", "writable")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    WRITABLE_FIELD_NUMBER: _ClassVar[int]
    source: str
    target: str
    writable: bool
    def __init__(self, source: _Optional[str] = ..., target: _Optional[str] = ..., writable: bool = ...) -> None: ...

class Copy(_message.Message):
    __slots__ = ("source", "target", "excludes")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    EXCLUDES_FIELD_NUMBER: _ClassVar[int]
    source: str
    target: str
    excludes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, source: _Optional[str] = ..., target: _Optional[str] = ..., excludes: _Optional[_Iterable[str]] = ...) -> None: ...

class Tool(_message.Message):
    __slots__ = ("name", "credentials", "cache")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CREDENTIALS_FIELD_NUMBER: _ClassVar[int]
    CACHE_FIELD_NUMBER: _ClassVar[int]
    name: str
    credentials: bool
    cache: bool
    def __init__(self, name: _Optional[str] = ..., credentials: bool = ..., cache: bool = ...) -> None: ...

class DeviceRequest(_message.Message):
    __slots__ = ("kind", "count")
    KIND_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    kind: str
    count: int
    def __init__(self, kind: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class CreateSandboxRequest(_message.Message):
    __slots__ = ("sandbox_id", "spec", "wait_ms", "request_id")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    spec: SandboxSpec
    wait_ms: int
    request_id: str
    def __init__(self, sandbox_id: _Optional[str] = ..., spec: _Optional[_Union[SandboxSpec, _Mapping]] = ..., wait_ms: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class CreateSandboxResponse(_message.Message):
    __slots__ = ("sandbox", "sequence")
    SANDBOX_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    sandbox: Sandbox
    sequence: int
    def __init__(self, sandbox: _Optional[_Union[Sandbox, _Mapping]] = ..., sequence: _Optional[int] = ...) -> None: ...

class GetSandboxRequest(_message.Message):
    __slots__ = ("sandbox_id",)
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    def __init__(self, sandbox_id: _Optional[str] = ...) -> None: ...

class GetSandboxResponse(_message.Message):
    __slots__ = ("sandbox", "sequence")
    SANDBOX_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    sandbox: Sandbox
    sequence: int
    def __init__(self, sandbox: _Optional[_Union[Sandbox, _Mapping]] = ..., sequence: _Optional[int] = ...) -> None: ...

class ListSandboxesRequest(_message.Message):
    __slots__ = ("label_selector", "states", "owner", "page_size", "page_token")
    LABEL_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    label_selector: _containers.RepeatedCompositeFieldContainer[KeyValue]
    states: _containers.RepeatedScalarFieldContainer[SandboxState]
    owner: str
    page_size: int
    page_token: str
    def __init__(self, label_selector: _Optional[_Iterable[_Union[KeyValue, _Mapping]]] = ..., states: _Optional[_Iterable[_Union[SandboxState, str]]] = ..., owner: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListSandboxesResponse(_message.Message):
    __slots__ = ("sandboxes", "next_page_token", "sequence")
    SANDBOXES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    sandboxes: _containers.RepeatedCompositeFieldContainer[Sandbox]
    next_page_token: str
    sequence: int
    def __init__(self, sandboxes: _Optional[_Iterable[_Union[Sandbox, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., sequence: _Optional[int] = ...) -> None: ...

class UpdateSandboxRequest(_message.Message):
    __slots__ = ("sandbox_id", "incarnation", "labels", "limits", "lifetime", "network", "request_id")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_FIELD_NUMBER: _ClassVar[int]
    NETWORK_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    incarnation: int
    labels: LabelsUpdate
    limits: Limits
    lifetime: Lifetime
    network: Network
    request_id: str
    def __init__(self, sandbox_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., labels: _Optional[_Union[LabelsUpdate, _Mapping]] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ..., lifetime: _Optional[_Union[Lifetime, _Mapping]] = ..., network: _Optional[_Union[Network, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class LabelsUpdate(_message.Message):
    __slots__ = ("set", "remove")
    SET_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    set: _containers.RepeatedCompositeFieldContainer[KeyValue]
    remove: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, set: _Optional[_Iterable[_Union[KeyValue, _Mapping]]] = ..., remove: _Optional[_Iterable[str]] = ...) -> None: ...

class UpdateSandboxResponse(_message.Message):
    __slots__ = ("sandbox", "sequence")
    SANDBOX_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    sandbox: Sandbox
    sequence: int
    def __init__(self, sandbox: _Optional[_Union[Sandbox, _Mapping]] = ..., sequence: _Optional[int] = ...) -> None: ...

class StopSandboxRequest(_message.Message):
    __slots__ = ("sandbox_id", "incarnation", "grace_ms", "wait_ms", "request_id")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    GRACE_MS_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    incarnation: int
    grace_ms: int
    wait_ms: int
    request_id: str
    def __init__(self, sandbox_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., grace_ms: _Optional[int] = ..., wait_ms: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class StopSandboxResponse(_message.Message):
    __slots__ = ("sandbox", "sequence")
    SANDBOX_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    sandbox: Sandbox
    sequence: int
    def __init__(self, sandbox: _Optional[_Union[Sandbox, _Mapping]] = ..., sequence: _Optional[int] = ...) -> None: ...

class StartSandboxRequest(_message.Message):
    __slots__ = ("sandbox_id", "incarnation", "wait_ms", "request_id")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    incarnation: int
    wait_ms: int
    request_id: str
    def __init__(self, sandbox_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., wait_ms: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class StartSandboxResponse(_message.Message):
    __slots__ = ("sandbox", "sequence")
    SANDBOX_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    sandbox: Sandbox
    sequence: int
    def __init__(self, sandbox: _Optional[_Union[Sandbox, _Mapping]] = ..., sequence: _Optional[int] = ...) -> None: ...

class PauseSandboxRequest(_message.Message):
    __slots__ = ("sandbox_id", "incarnation", "wait_ms", "request_id")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    incarnation: int
    wait_ms: int
    request_id: str
    def __init__(self, sandbox_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., wait_ms: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class PauseSandboxResponse(_message.Message):
    __slots__ = ("sandbox", "sequence")
    SANDBOX_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    sandbox: Sandbox
    sequence: int
    def __init__(self, sandbox: _Optional[_Union[Sandbox, _Mapping]] = ..., sequence: _Optional[int] = ...) -> None: ...

class ResumeSandboxRequest(_message.Message):
    __slots__ = ("sandbox_id", "incarnation", "wait_ms", "request_id")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    incarnation: int
    wait_ms: int
    request_id: str
    def __init__(self, sandbox_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., wait_ms: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class ResumeSandboxResponse(_message.Message):
    __slots__ = ("sandbox", "sequence")
    SANDBOX_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    sandbox: Sandbox
    sequence: int
    def __init__(self, sandbox: _Optional[_Union[Sandbox, _Mapping]] = ..., sequence: _Optional[int] = ...) -> None: ...

class DeleteSandboxRequest(_message.Message):
    __slots__ = ("sandbox_id", "incarnation", "wait_ms", "request_id")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    incarnation: int
    wait_ms: int
    request_id: str
    def __init__(self, sandbox_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., wait_ms: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class DeleteSandboxResponse(_message.Message):
    __slots__ = ("sandbox", "sequence")
    SANDBOX_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    sandbox: Sandbox
    sequence: int
    def __init__(self, sandbox: _Optional[_Union[Sandbox, _Mapping]] = ..., sequence: _Optional[int] = ...) -> None: ...

class DeleteSandboxesRequest(_message.Message):
    __slots__ = ("label_selector", "wait_ms", "request_id")
    LABEL_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    label_selector: _containers.RepeatedCompositeFieldContainer[KeyValue]
    wait_ms: int
    request_id: str
    def __init__(self, label_selector: _Optional[_Iterable[_Union[KeyValue, _Mapping]]] = ..., wait_ms: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class DeleteSandboxesResponse(_message.Message):
    __slots__ = ("sandbox_ids", "more", "sequence")
    SANDBOX_IDS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    sandbox_ids: _containers.RepeatedScalarFieldContainer[str]
    more: bool
    sequence: int
    def __init__(self, sandbox_ids: _Optional[_Iterable[str]] = ..., more: bool = ..., sequence: _Optional[int] = ...) -> None: ...

class Snapshot(_message.Message):
    __slots__ = ("snapshot_id", "owner", "sandbox_id", "incarnation", "state", "reason", "labels", "size_bytes", "created_unix_ms", "changed_sequence")
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    CREATED_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    CHANGED_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    snapshot_id: str
    owner: str
    sandbox_id: str
    incarnation: int
    state: SnapshotState
    reason: StateReason
    labels: _containers.RepeatedCompositeFieldContainer[KeyValue]
    size_bytes: int
    created_unix_ms: int
    changed_sequence: int
    def __init__(self, snapshot_id: _Optional[str] = ..., owner: _Optional[str] = ..., sandbox_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., state: _Optional[_Union[SnapshotState, str]] = ..., reason: _Optional[_Union[StateReason, _Mapping]] = ..., labels: _Optional[_Iterable[_Union[KeyValue, _Mapping]]] = ..., size_bytes: _Optional[int] = ..., created_unix_ms: _Optional[int] = ..., changed_sequence: _Optional[int] = ...) -> None: ...

class SnapshotSandboxRequest(_message.Message):
    __slots__ = ("sandbox_id", "incarnation", "snapshot_id", "labels", "wait_ms", "request_id")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    incarnation: int
    snapshot_id: str
    labels: _containers.RepeatedCompositeFieldContainer[KeyValue]
    wait_ms: int
    request_id: str
    def __init__(self, sandbox_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., snapshot_id: _Optional[str] = ..., labels: _Optional[_Iterable[_Union[KeyValue, _Mapping]]] = ..., wait_ms: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class SnapshotSandboxResponse(_message.Message):
    __slots__ = ("snapshot", "sequence")
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    snapshot: Snapshot
    sequence: int
    def __init__(self, snapshot: _Optional[_Union[Snapshot, _Mapping]] = ..., sequence: _Optional[int] = ...) -> None: ...

class ForkSandboxRequest(_message.Message):
    __slots__ = ("sandbox_id", "incarnation", "snapshot_id", "new_sandbox_id", "labels", "env", "limits", "lifetime", "network", "wait_ms", "request_id")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    NEW_SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_FIELD_NUMBER: _ClassVar[int]
    NETWORK_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    incarnation: int
    snapshot_id: str
    new_sandbox_id: str
    labels: _containers.RepeatedCompositeFieldContainer[KeyValue]
    env: _containers.RepeatedCompositeFieldContainer[KeyValue]
    limits: Limits
    lifetime: Lifetime
    network: Network
    wait_ms: int
    request_id: str
    def __init__(self, sandbox_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., snapshot_id: _Optional[str] = ..., new_sandbox_id: _Optional[str] = ..., labels: _Optional[_Iterable[_Union[KeyValue, _Mapping]]] = ..., env: _Optional[_Iterable[_Union[KeyValue, _Mapping]]] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ..., lifetime: _Optional[_Union[Lifetime, _Mapping]] = ..., network: _Optional[_Union[Network, _Mapping]] = ..., wait_ms: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class ForkSandboxResponse(_message.Message):
    __slots__ = ("sandbox", "sequence")
    SANDBOX_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    sandbox: Sandbox
    sequence: int
    def __init__(self, sandbox: _Optional[_Union[Sandbox, _Mapping]] = ..., sequence: _Optional[int] = ...) -> None: ...

class ListSnapshotsRequest(_message.Message):
    __slots__ = ("sandbox_id", "snapshot_ids", "label_selector", "page_size", "page_token")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_IDS_FIELD_NUMBER: _ClassVar[int]
    LABEL_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    snapshot_ids: _containers.RepeatedScalarFieldContainer[str]
    label_selector: _containers.RepeatedCompositeFieldContainer[KeyValue]
    page_size: int
    page_token: str
    def __init__(self, sandbox_id: _Optional[str] = ..., snapshot_ids: _Optional[_Iterable[str]] = ..., label_selector: _Optional[_Iterable[_Union[KeyValue, _Mapping]]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListSnapshotsResponse(_message.Message):
    __slots__ = ("snapshots", "next_page_token", "sequence")
    SNAPSHOTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    snapshots: _containers.RepeatedCompositeFieldContainer[Snapshot]
    next_page_token: str
    sequence: int
    def __init__(self, snapshots: _Optional[_Iterable[_Union[Snapshot, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., sequence: _Optional[int] = ...) -> None: ...

class DeleteSnapshotRequest(_message.Message):
    __slots__ = ("snapshot_id", "wait_ms", "request_id")
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    snapshot_id: str
    wait_ms: int
    request_id: str
    def __init__(self, snapshot_id: _Optional[str] = ..., wait_ms: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class DeleteSnapshotResponse(_message.Message):
    __slots__ = ("sequence",)
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    def __init__(self, sequence: _Optional[int] = ...) -> None: ...

class WatchUsageRequest(_message.Message):
    __slots__ = ("sandbox_id", "incarnation", "interval_ms")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    incarnation: int
    interval_ms: int
    def __init__(self, sandbox_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., interval_ms: _Optional[int] = ...) -> None: ...

class WatchUsageResponse(_message.Message):
    __slots__ = ("sequence", "sample", "heartbeat", "end")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    sample: UsageSample
    heartbeat: Heartbeat
    end: StreamEnd
    def __init__(self, sequence: _Optional[int] = ..., sample: _Optional[_Union[UsageSample, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., end: _Optional[_Union[StreamEnd, _Mapping]] = ...) -> None: ...

class UsageSample(_message.Message):
    __slots__ = ("time_unix_ms", "cpu_us", "memory_bytes", "memory_peak_bytes", "pids", "disk_bytes", "disk_inodes", "output_bytes", "oom_kills", "network_received_bytes", "network_sent_bytes", "running_execs", "cpu_throttled_us", "limits")
    TIME_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    CPU_US_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_PEAK_BYTES_FIELD_NUMBER: _ClassVar[int]
    PIDS_FIELD_NUMBER: _ClassVar[int]
    DISK_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_INODES_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_BYTES_FIELD_NUMBER: _ClassVar[int]
    OOM_KILLS_FIELD_NUMBER: _ClassVar[int]
    NETWORK_RECEIVED_BYTES_FIELD_NUMBER: _ClassVar[int]
    NETWORK_SENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    RUNNING_EXECS_FIELD_NUMBER: _ClassVar[int]
    CPU_THROTTLED_US_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    time_unix_ms: int
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
    def __init__(self, time_unix_ms: _Optional[int] = ..., cpu_us: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., memory_peak_bytes: _Optional[int] = ..., pids: _Optional[int] = ..., disk_bytes: _Optional[int] = ..., disk_inodes: _Optional[int] = ..., output_bytes: _Optional[int] = ..., oom_kills: _Optional[int] = ..., network_received_bytes: _Optional[int] = ..., network_sent_bytes: _Optional[int] = ..., running_execs: _Optional[int] = ..., cpu_throttled_us: _Optional[int] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("sequence", "time_unix_ms", "kind", "sandbox_id", "incarnation", "owner", "actor", "request_id", "replayed", "sandbox_state", "sandbox_update", "exec_start", "exec_exit", "exec_signal", "output_cap", "file", "snapshot", "daemon")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TIME_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_STATE_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_UPDATE_FIELD_NUMBER: _ClassVar[int]
    EXEC_START_FIELD_NUMBER: _ClassVar[int]
    EXEC_EXIT_FIELD_NUMBER: _ClassVar[int]
    EXEC_SIGNAL_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_CAP_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    DAEMON_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    time_unix_ms: int
    kind: EventKind
    sandbox_id: str
    incarnation: int
    owner: str
    actor: Actor
    request_id: str
    replayed: bool
    sandbox_state: SandboxStateEvent
    sandbox_update: SandboxUpdateEvent
    exec_start: ExecStartEvent
    exec_exit: ExecExitEvent
    exec_signal: ExecSignalEvent
    output_cap: OutputCapEvent
    file: FileEvent
    snapshot: SnapshotEvent
    daemon: DaemonEvent
    def __init__(self, sequence: _Optional[int] = ..., time_unix_ms: _Optional[int] = ..., kind: _Optional[_Union[EventKind, str]] = ..., sandbox_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., owner: _Optional[str] = ..., actor: _Optional[_Union[Actor, _Mapping]] = ..., request_id: _Optional[str] = ..., replayed: bool = ..., sandbox_state: _Optional[_Union[SandboxStateEvent, _Mapping]] = ..., sandbox_update: _Optional[_Union[SandboxUpdateEvent, _Mapping]] = ..., exec_start: _Optional[_Union[ExecStartEvent, _Mapping]] = ..., exec_exit: _Optional[_Union[ExecExitEvent, _Mapping]] = ..., exec_signal: _Optional[_Union[ExecSignalEvent, _Mapping]] = ..., output_cap: _Optional[_Union[OutputCapEvent, _Mapping]] = ..., file: _Optional[_Union[FileEvent, _Mapping]] = ..., snapshot: _Optional[_Union[SnapshotEvent, _Mapping]] = ..., daemon: _Optional[_Union[DaemonEvent, _Mapping]] = ...) -> None: ...

class Actor(_message.Message):
    __slots__ = ("kind", "identity")
    KIND_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    kind: ActorKind
    identity: str
    def __init__(self, kind: _Optional[_Union[ActorKind, str]] = ..., identity: _Optional[str] = ...) -> None: ...

class SandboxStateEvent(_message.Message):
    __slots__ = ("previous", "state", "reason", "labels")
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    previous: SandboxState
    state: SandboxState
    reason: StateReason
    labels: _containers.RepeatedCompositeFieldContainer[KeyValue]
    def __init__(self, previous: _Optional[_Union[SandboxState, str]] = ..., state: _Optional[_Union[SandboxState, str]] = ..., reason: _Optional[_Union[StateReason, _Mapping]] = ..., labels: _Optional[_Iterable[_Union[KeyValue, _Mapping]]] = ...) -> None: ...

class SandboxUpdateEvent(_message.Message):
    __slots__ = ("parts", "labels")
    PARTS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    parts: _containers.RepeatedScalarFieldContainer[str]
    labels: _containers.RepeatedCompositeFieldContainer[KeyValue]
    def __init__(self, parts: _Optional[_Iterable[str]] = ..., labels: _Optional[_Iterable[_Union[KeyValue, _Mapping]]] = ...) -> None: ...

class ExecStartEvent(_message.Message):
    __slots__ = ("exec_id", "argv", "argv_truncated", "cwd", "user")
    EXEC_ID_FIELD_NUMBER: _ClassVar[int]
    ARGV_FIELD_NUMBER: _ClassVar[int]
    ARGV_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    exec_id: str
    argv: _containers.RepeatedScalarFieldContainer[str]
    argv_truncated: bool
    cwd: str
    user: str
    def __init__(self, exec_id: _Optional[str] = ..., argv: _Optional[_Iterable[str]] = ..., argv_truncated: bool = ..., cwd: _Optional[str] = ..., user: _Optional[str] = ...) -> None: ...

class ExecExitEvent(_message.Message):
    __slots__ = ("exec_id", "exit", "usage")
    EXEC_ID_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    exec_id: str
    exit: ExitStatus
    usage: ExecUsage
    def __init__(self, exec_id: _Optional[str] = ..., exit: _Optional[_Union[ExitStatus, _Mapping]] = ..., usage: _Optional[_Union[ExecUsage, _Mapping]] = ...) -> None: ...

class ExecSignalEvent(_message.Message):
    __slots__ = ("exec_id", "signal_number")
    EXEC_ID_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_NUMBER_FIELD_NUMBER: _ClassVar[int]
    exec_id: str
    signal_number: int
    def __init__(self, exec_id: _Optional[str] = ..., signal_number: _Optional[int] = ...) -> None: ...

class OutputCapEvent(_message.Message):
    __slots__ = ("exec_id", "policy", "limit_bytes")
    EXEC_ID_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    exec_id: str
    policy: OutputPolicy
    limit_bytes: int
    def __init__(self, exec_id: _Optional[str] = ..., policy: _Optional[_Union[OutputPolicy, str]] = ..., limit_bytes: _Optional[int] = ...) -> None: ...

class FileEvent(_message.Message):
    __slots__ = ("operation", "path", "raw_path", "new_path", "raw_new_path", "bytes_moved")
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    RAW_PATH_FIELD_NUMBER: _ClassVar[int]
    NEW_PATH_FIELD_NUMBER: _ClassVar[int]
    RAW_NEW_PATH_FIELD_NUMBER: _ClassVar[int]
    BYTES_MOVED_FIELD_NUMBER: _ClassVar[int]
    operation: FileOperation
    path: str
    raw_path: bytes
    new_path: str
    raw_new_path: bytes
    bytes_moved: int
    def __init__(self, operation: _Optional[_Union[FileOperation, str]] = ..., path: _Optional[str] = ..., raw_path: _Optional[bytes] = ..., new_path: _Optional[str] = ..., raw_new_path: _Optional[bytes] = ..., bytes_moved: _Optional[int] = ...) -> None: ...

class SnapshotEvent(_message.Message):
    __slots__ = ("snapshot_id", "state", "reason")
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    snapshot_id: str
    state: SnapshotState
    reason: StateReason
    def __init__(self, snapshot_id: _Optional[str] = ..., state: _Optional[_Union[SnapshotState, str]] = ..., reason: _Optional[_Union[StateReason, _Mapping]] = ...) -> None: ...

class DaemonEvent(_message.Message):
    __slots__ = ("state", "version", "run_id", "adopted_sandboxes", "adopted_execs", "lost_execs")
    STATE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    ADOPTED_SANDBOXES_FIELD_NUMBER: _ClassVar[int]
    ADOPTED_EXECS_FIELD_NUMBER: _ClassVar[int]
    LOST_EXECS_FIELD_NUMBER: _ClassVar[int]
    state: DaemonState
    version: str
    run_id: str
    adopted_sandboxes: int
    adopted_execs: int
    lost_execs: int
    def __init__(self, state: _Optional[_Union[DaemonState, str]] = ..., version: _Optional[str] = ..., run_id: _Optional[str] = ..., adopted_sandboxes: _Optional[int] = ..., adopted_execs: _Optional[int] = ..., lost_execs: _Optional[int] = ...) -> None: ...

class WatchEventsRequest(_message.Message):
    __slots__ = ("after_sequence", "oldest", "now", "include_snapshot", "sandbox_ids", "label_selector", "kinds", "owner", "until_now")
    AFTER_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    OLDEST_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_IDS_FIELD_NUMBER: _ClassVar[int]
    LABEL_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    UNTIL_NOW_FIELD_NUMBER: _ClassVar[int]
    after_sequence: int
    oldest: StartOldest
    now: StartNow
    include_snapshot: bool
    sandbox_ids: _containers.RepeatedScalarFieldContainer[str]
    label_selector: _containers.RepeatedCompositeFieldContainer[KeyValue]
    kinds: _containers.RepeatedScalarFieldContainer[EventKind]
    owner: str
    until_now: bool
    def __init__(self, after_sequence: _Optional[int] = ..., oldest: _Optional[_Union[StartOldest, _Mapping]] = ..., now: _Optional[_Union[StartNow, _Mapping]] = ..., include_snapshot: bool = ..., sandbox_ids: _Optional[_Iterable[str]] = ..., label_selector: _Optional[_Iterable[_Union[KeyValue, _Mapping]]] = ..., kinds: _Optional[_Iterable[_Union[EventKind, str]]] = ..., owner: _Optional[str] = ..., until_now: bool = ...) -> None: ...

class StartOldest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StartNow(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WatchEventsResponse(_message.Message):
    __slots__ = ("sequence", "event", "sandbox", "exec", "caught_up", "heartbeat", "end")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_FIELD_NUMBER: _ClassVar[int]
    EXEC_FIELD_NUMBER: _ClassVar[int]
    CAUGHT_UP_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    event: Event
    sandbox: Sandbox
    exec: Exec
    caught_up: CaughtUp
    heartbeat: Heartbeat
    end: StreamEnd
    def __init__(self, sequence: _Optional[int] = ..., event: _Optional[_Union[Event, _Mapping]] = ..., sandbox: _Optional[_Union[Sandbox, _Mapping]] = ..., exec: _Optional[_Union[Exec, _Mapping]] = ..., caught_up: _Optional[_Union[CaughtUp, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., end: _Optional[_Union[StreamEnd, _Mapping]] = ...) -> None: ...

class CaughtUp(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Exec(_message.Message):
    __slots__ = ("exec_id", "sandbox_id", "incarnation", "spec", "state", "exit", "usage", "output", "input", "created_unix_ms", "started_unix_ms", "exited_unix_ms", "changed_sequence")
    EXEC_ID_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    CREATED_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    STARTED_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    EXITED_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    CHANGED_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    exec_id: str
    sandbox_id: str
    incarnation: int
    spec: ExecSpec
    state: ExecState
    exit: ExitStatus
    usage: ExecUsage
    output: _containers.RepeatedCompositeFieldContainer[OutputState]
    input: StdinState
    created_unix_ms: int
    started_unix_ms: int
    exited_unix_ms: int
    changed_sequence: int
    def __init__(self, exec_id: _Optional[str] = ..., sandbox_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., spec: _Optional[_Union[ExecSpec, _Mapping]] = ..., state: _Optional[_Union[ExecState, str]] = ..., exit: _Optional[_Union[ExitStatus, _Mapping]] = ..., usage: _Optional[_Union[ExecUsage, _Mapping]] = ..., output: _Optional[_Iterable[_Union[OutputState, _Mapping]]] = ..., input: _Optional[_Union[StdinState, _Mapping]] = ..., created_unix_ms: _Optional[int] = ..., started_unix_ms: _Optional[int] = ..., exited_unix_ms: _Optional[int] = ..., changed_sequence: _Optional[int] = ...) -> None: ...

class ExecSpec(_message.Message):
    __slots__ = ("argv", "env", "cwd", "user", "terminal", "stdin_mode", "timeout_ms", "grace_ms", "output_policy", "output_limit_bytes", "merge_stderr", "labels", "keep_descendants")
    ARGV_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    TERMINAL_FIELD_NUMBER: _ClassVar[int]
    STDIN_MODE_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    GRACE_MS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_POLICY_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    MERGE_STDERR_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    KEEP_DESCENDANTS_FIELD_NUMBER: _ClassVar[int]
    argv: _containers.RepeatedScalarFieldContainer[str]
    env: _containers.RepeatedCompositeFieldContainer[KeyValue]
    cwd: str
    user: str
    terminal: Terminal
    stdin_mode: StdinMode
    timeout_ms: int
    grace_ms: int
    output_policy: OutputPolicy
    output_limit_bytes: int
    merge_stderr: bool
    labels: _containers.RepeatedCompositeFieldContainer[KeyValue]
    keep_descendants: bool
    def __init__(self, argv: _Optional[_Iterable[str]] = ..., env: _Optional[_Iterable[_Union[KeyValue, _Mapping]]] = ..., cwd: _Optional[str] = ..., user: _Optional[str] = ..., terminal: _Optional[_Union[Terminal, _Mapping]] = ..., stdin_mode: _Optional[_Union[StdinMode, str]] = ..., timeout_ms: _Optional[int] = ..., grace_ms: _Optional[int] = ..., output_policy: _Optional[_Union[OutputPolicy, str]] = ..., output_limit_bytes: _Optional[int] = ..., merge_stderr: bool = ..., labels: _Optional[_Iterable[_Union[KeyValue, _Mapping]]] = ..., keep_descendants: bool = ...) -> None: ...

class Terminal(_message.Message):
    __slots__ = ("size", "term")
    SIZE_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    size: TerminalSize
    term: str
    def __init__(self, size: _Optional[_Union[TerminalSize, _Mapping]] = ..., term: _Optional[str] = ...) -> None: ...

class TerminalSize(_message.Message):
    __slots__ = ("cols", "rows")
    COLS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    cols: int
    rows: int
    def __init__(self, cols: _Optional[int] = ..., rows: _Optional[int] = ...) -> None: ...

class ExitStatus(_message.Message):
    __slots__ = ("code", "signal", "timed_out", "out_of_memory", "lost", "output_limit", "not_started")
    CODE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    TIMED_OUT_FIELD_NUMBER: _ClassVar[int]
    OUT_OF_MEMORY_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_LIMIT_FIELD_NUMBER: _ClassVar[int]
    NOT_STARTED_FIELD_NUMBER: _ClassVar[int]
    code: int
    signal: ExitSignal
    timed_out: ExitTimedOut
    out_of_memory: ExitOutOfMemory
    lost: ExitLost
    output_limit: ExitOutputLimit
    not_started: ExitNotStarted
    def __init__(self, code: _Optional[int] = ..., signal: _Optional[_Union[ExitSignal, _Mapping]] = ..., timed_out: _Optional[_Union[ExitTimedOut, _Mapping]] = ..., out_of_memory: _Optional[_Union[ExitOutOfMemory, _Mapping]] = ..., lost: _Optional[_Union[ExitLost, _Mapping]] = ..., output_limit: _Optional[_Union[ExitOutputLimit, _Mapping]] = ..., not_started: _Optional[_Union[ExitNotStarted, _Mapping]] = ...) -> None: ...

class ExitSignal(_message.Message):
    __slots__ = ("signal_number", "source")
    SIGNAL_NUMBER_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    signal_number: int
    source: SignalSource
    def __init__(self, signal_number: _Optional[int] = ..., source: _Optional[_Union[SignalSource, str]] = ...) -> None: ...

class ExitTimedOut(_message.Message):
    __slots__ = ("timeout_ms", "signal_number")
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_NUMBER_FIELD_NUMBER: _ClassVar[int]
    timeout_ms: int
    signal_number: int
    def __init__(self, timeout_ms: _Optional[int] = ..., signal_number: _Optional[int] = ...) -> None: ...

class ExitOutOfMemory(_message.Message):
    __slots__ = ("limit_bytes",)
    LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    limit_bytes: int
    def __init__(self, limit_bytes: _Optional[int] = ...) -> None: ...

class ExitLost(_message.Message):
    __slots__ = ("code", "message")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class ExitOutputLimit(_message.Message):
    __slots__ = ("limit_bytes",)
    LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    limit_bytes: int
    def __init__(self, limit_bytes: _Optional[int] = ...) -> None: ...

class ExitNotStarted(_message.Message):
    __slots__ = ("code", "message")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class ExecUsage(_message.Message):
    __slots__ = ("cpu_user_us", "cpu_system_us", "wall_us", "memory_peak_bytes", "stdin_bytes", "stdout_bytes", "stderr_bytes", "pids_peak", "disk_read_bytes", "disk_written_bytes")
    CPU_USER_US_FIELD_NUMBER: _ClassVar[int]
    CPU_SYSTEM_US_FIELD_NUMBER: _ClassVar[int]
    WALL_US_FIELD_NUMBER: _ClassVar[int]
    MEMORY_PEAK_BYTES_FIELD_NUMBER: _ClassVar[int]
    STDIN_BYTES_FIELD_NUMBER: _ClassVar[int]
    STDOUT_BYTES_FIELD_NUMBER: _ClassVar[int]
    STDERR_BYTES_FIELD_NUMBER: _ClassVar[int]
    PIDS_PEAK_FIELD_NUMBER: _ClassVar[int]
    DISK_READ_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_WRITTEN_BYTES_FIELD_NUMBER: _ClassVar[int]
    cpu_user_us: int
    cpu_system_us: int
    wall_us: int
    memory_peak_bytes: int
    stdin_bytes: int
    stdout_bytes: int
    stderr_bytes: int
    pids_peak: int
    disk_read_bytes: int
    disk_written_bytes: int
    def __init__(self, cpu_user_us: _Optional[int] = ..., cpu_system_us: _Optional[int] = ..., wall_us: _Optional[int] = ..., memory_peak_bytes: _Optional[int] = ..., stdin_bytes: _Optional[int] = ..., stdout_bytes: _Optional[int] = ..., stderr_bytes: _Optional[int] = ..., pids_peak: _Optional[int] = ..., disk_read_bytes: _Optional[int] = ..., disk_written_bytes: _Optional[int] = ...) -> None: ...

class OutputState(_message.Message):
    __slots__ = ("stream", "first_offset", "end_offset")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    stream: OutputStream
    first_offset: int
    end_offset: int
    def __init__(self, stream: _Optional[_Union[OutputStream, str]] = ..., first_offset: _Optional[int] = ..., end_offset: _Optional[int] = ...) -> None: ...

class StdinState(_message.Message):
    __slots__ = ("next_offset", "closed")
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    next_offset: int
    closed: bool
    def __init__(self, next_offset: _Optional[int] = ..., closed: bool = ...) -> None: ...

class StartExecRequest(_message.Message):
    __slots__ = ("sandbox_id", "incarnation", "exec_id", "spec", "request_id")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    EXEC_ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    incarnation: int
    exec_id: str
    spec: ExecSpec
    request_id: str
    def __init__(self, sandbox_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., exec_id: _Optional[str] = ..., spec: _Optional[_Union[ExecSpec, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class StartExecResponse(_message.Message):
    __slots__ = ("exec", "sequence")
    EXEC_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    exec: Exec
    sequence: int
    def __init__(self, exec: _Optional[_Union[Exec, _Mapping]] = ..., sequence: _Optional[int] = ...) -> None: ...

class RunExecRequest(_message.Message):
    __slots__ = ("sandbox_id", "incarnation", "exec_id", "spec", "stdin_data", "max_output_bytes", "request_id")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    EXEC_ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STDIN_DATA_FIELD_NUMBER: _ClassVar[int]
    MAX_OUTPUT_BYTES_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    incarnation: int
    exec_id: str
    spec: ExecSpec
    stdin_data: bytes
    max_output_bytes: int
    request_id: str
    def __init__(self, sandbox_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., exec_id: _Optional[str] = ..., spec: _Optional[_Union[ExecSpec, _Mapping]] = ..., stdin_data: _Optional[bytes] = ..., max_output_bytes: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class RunExecResponse(_message.Message):
    __slots__ = ("exec", "stdout_data", "stderr_data", "stdout_truncated", "stderr_truncated", "sequence")
    EXEC_FIELD_NUMBER: _ClassVar[int]
    STDOUT_DATA_FIELD_NUMBER: _ClassVar[int]
    STDERR_DATA_FIELD_NUMBER: _ClassVar[int]
    STDOUT_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    STDERR_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    exec: Exec
    stdout_data: bytes
    stderr_data: bytes
    stdout_truncated: bool
    stderr_truncated: bool
    sequence: int
    def __init__(self, exec: _Optional[_Union[Exec, _Mapping]] = ..., stdout_data: _Optional[bytes] = ..., stderr_data: _Optional[bytes] = ..., stdout_truncated: bool = ..., stderr_truncated: bool = ..., sequence: _Optional[int] = ...) -> None: ...

class AttachExecRequest(_message.Message):
    __slots__ = ("exec_id", "stdout_offset", "stderr_offset", "tail_bytes", "streams", "until_now", "fail_on_gap", "reader_id")
    EXEC_ID_FIELD_NUMBER: _ClassVar[int]
    STDOUT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    STDERR_OFFSET_FIELD_NUMBER: _ClassVar[int]
    TAIL_BYTES_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_NOW_FIELD_NUMBER: _ClassVar[int]
    FAIL_ON_GAP_FIELD_NUMBER: _ClassVar[int]
    READER_ID_FIELD_NUMBER: _ClassVar[int]
    exec_id: str
    stdout_offset: int
    stderr_offset: int
    tail_bytes: int
    streams: _containers.RepeatedScalarFieldContainer[OutputStream]
    until_now: bool
    fail_on_gap: bool
    reader_id: str
    def __init__(self, exec_id: _Optional[str] = ..., stdout_offset: _Optional[int] = ..., stderr_offset: _Optional[int] = ..., tail_bytes: _Optional[int] = ..., streams: _Optional[_Iterable[_Union[OutputStream, str]]] = ..., until_now: bool = ..., fail_on_gap: bool = ..., reader_id: _Optional[str] = ...) -> None: ...

class AttachExecResponse(_message.Message):
    __slots__ = ("sequence", "attached", "output", "gap", "exited", "heartbeat", "end")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ATTACHED_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    GAP_FIELD_NUMBER: _ClassVar[int]
    EXITED_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    attached: Exec
    output: OutputChunk
    gap: OutputGap
    exited: Exec
    heartbeat: Heartbeat
    end: StreamEnd
    def __init__(self, sequence: _Optional[int] = ..., attached: _Optional[_Union[Exec, _Mapping]] = ..., output: _Optional[_Union[OutputChunk, _Mapping]] = ..., gap: _Optional[_Union[OutputGap, _Mapping]] = ..., exited: _Optional[_Union[Exec, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., end: _Optional[_Union[StreamEnd, _Mapping]] = ...) -> None: ...

class OutputChunk(_message.Message):
    __slots__ = ("stream", "offset", "data", "replayed")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    stream: OutputStream
    offset: int
    data: bytes
    replayed: bool
    def __init__(self, stream: _Optional[_Union[OutputStream, str]] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ..., replayed: bool = ...) -> None: ...

class OutputGap(_message.Message):
    __slots__ = ("stream", "offset", "next_offset")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    stream: OutputStream
    offset: int
    next_offset: int
    def __init__(self, stream: _Optional[_Union[OutputStream, str]] = ..., offset: _Optional[int] = ..., next_offset: _Optional[int] = ...) -> None: ...

class AckOutputRequest(_message.Message):
    __slots__ = ("exec_id", "reader_id", "stdout_offset", "stderr_offset", "release")
    EXEC_ID_FIELD_NUMBER: _ClassVar[int]
    READER_ID_FIELD_NUMBER: _ClassVar[int]
    STDOUT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    STDERR_OFFSET_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    exec_id: str
    reader_id: str
    stdout_offset: int
    stderr_offset: int
    release: bool
    def __init__(self, exec_id: _Optional[str] = ..., reader_id: _Optional[str] = ..., stdout_offset: _Optional[int] = ..., stderr_offset: _Optional[int] = ..., release: bool = ...) -> None: ...

class AckOutputResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WriteStdinRequest(_message.Message):
    __slots__ = ("exec_id", "offset", "data", "request_id")
    EXEC_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    exec_id: str
    offset: int
    data: bytes
    request_id: str
    def __init__(self, exec_id: _Optional[str] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ..., request_id: _Optional[str] = ...) -> None: ...

class WriteStdinResponse(_message.Message):
    __slots__ = ("next_offset", "window_bytes")
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    WINDOW_BYTES_FIELD_NUMBER: _ClassVar[int]
    next_offset: int
    window_bytes: int
    def __init__(self, next_offset: _Optional[int] = ..., window_bytes: _Optional[int] = ...) -> None: ...

class CloseStdinRequest(_message.Message):
    __slots__ = ("exec_id", "offset", "request_id")
    EXEC_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    exec_id: str
    offset: int
    request_id: str
    def __init__(self, exec_id: _Optional[str] = ..., offset: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class CloseStdinResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SignalExecRequest(_message.Message):
    __slots__ = ("exec_id", "signal_number", "leader_only", "request_id")
    EXEC_ID_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_NUMBER_FIELD_NUMBER: _ClassVar[int]
    LEADER_ONLY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    exec_id: str
    signal_number: int
    leader_only: bool
    request_id: str
    def __init__(self, exec_id: _Optional[str] = ..., signal_number: _Optional[int] = ..., leader_only: bool = ..., request_id: _Optional[str] = ...) -> None: ...

class SignalExecResponse(_message.Message):
    __slots__ = ("sequence",)
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    def __init__(self, sequence: _Optional[int] = ...) -> None: ...

class ResizeExecRequest(_message.Message):
    __slots__ = ("exec_id", "size", "request_id")
    EXEC_ID_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    exec_id: str
    size: TerminalSize
    request_id: str
    def __init__(self, exec_id: _Optional[str] = ..., size: _Optional[_Union[TerminalSize, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class ResizeExecResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetExecRequest(_message.Message):
    __slots__ = ("exec_id",)
    EXEC_ID_FIELD_NUMBER: _ClassVar[int]
    exec_id: str
    def __init__(self, exec_id: _Optional[str] = ...) -> None: ...

class GetExecResponse(_message.Message):
    __slots__ = ("exec", "sequence")
    EXEC_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    exec: Exec
    sequence: int
    def __init__(self, exec: _Optional[_Union[Exec, _Mapping]] = ..., sequence: _Optional[int] = ...) -> None: ...

class ListExecsRequest(_message.Message):
    __slots__ = ("sandbox_id", "states", "label_selector", "page_size", "page_token")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    LABEL_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    states: _containers.RepeatedScalarFieldContainer[ExecState]
    label_selector: _containers.RepeatedCompositeFieldContainer[KeyValue]
    page_size: int
    page_token: str
    def __init__(self, sandbox_id: _Optional[str] = ..., states: _Optional[_Iterable[_Union[ExecState, str]]] = ..., label_selector: _Optional[_Iterable[_Union[KeyValue, _Mapping]]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListExecsResponse(_message.Message):
    __slots__ = ("execs", "next_page_token", "sequence")
    EXECS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    execs: _containers.RepeatedCompositeFieldContainer[Exec]
    next_page_token: str
    sequence: int
    def __init__(self, execs: _Optional[_Iterable[_Union[Exec, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., sequence: _Optional[int] = ...) -> None: ...

class InteractRequest(_message.Message):
    __slots__ = ("start", "attach", "input", "input_end", "resize", "signal_number", "ack")
    START_FIELD_NUMBER: _ClassVar[int]
    ATTACH_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    INPUT_END_FIELD_NUMBER: _ClassVar[int]
    RESIZE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_NUMBER_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    start: StartExecRequest
    attach: AttachExecRequest
    input: StdinChunk
    input_end: StdinEnd
    resize: TerminalSize
    signal_number: int
    ack: OutputAck
    def __init__(self, start: _Optional[_Union[StartExecRequest, _Mapping]] = ..., attach: _Optional[_Union[AttachExecRequest, _Mapping]] = ..., input: _Optional[_Union[StdinChunk, _Mapping]] = ..., input_end: _Optional[_Union[StdinEnd, _Mapping]] = ..., resize: _Optional[_Union[TerminalSize, _Mapping]] = ..., signal_number: _Optional[int] = ..., ack: _Optional[_Union[OutputAck, _Mapping]] = ...) -> None: ...

class StdinChunk(_message.Message):
    __slots__ = ("offset", "data")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    offset: int
    data: bytes
    def __init__(self, offset: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class StdinEnd(_message.Message):
    __slots__ = ("offset",)
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    offset: int
    def __init__(self, offset: _Optional[int] = ...) -> None: ...

class OutputAck(_message.Message):
    __slots__ = ("stdout_offset", "stderr_offset")
    STDOUT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    STDERR_OFFSET_FIELD_NUMBER: _ClassVar[int]
    stdout_offset: int
    stderr_offset: int
    def __init__(self, stdout_offset: _Optional[int] = ..., stderr_offset: _Optional[int] = ...) -> None: ...

class InteractResponse(_message.Message):
    __slots__ = ("sequence", "attached", "output", "gap", "input_accepted", "exited", "heartbeat", "end")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ATTACHED_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    GAP_FIELD_NUMBER: _ClassVar[int]
    INPUT_ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    EXITED_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    attached: Exec
    output: OutputChunk
    gap: OutputGap
    input_accepted: StdinAccepted
    exited: Exec
    heartbeat: Heartbeat
    end: StreamEnd
    def __init__(self, sequence: _Optional[int] = ..., attached: _Optional[_Union[Exec, _Mapping]] = ..., output: _Optional[_Union[OutputChunk, _Mapping]] = ..., gap: _Optional[_Union[OutputGap, _Mapping]] = ..., input_accepted: _Optional[_Union[StdinAccepted, _Mapping]] = ..., exited: _Optional[_Union[Exec, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., end: _Optional[_Union[StreamEnd, _Mapping]] = ...) -> None: ...

class StdinAccepted(_message.Message):
    __slots__ = ("next_offset", "window_bytes")
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    WINDOW_BYTES_FIELD_NUMBER: _ClassVar[int]
    next_offset: int
    window_bytes: int
    def __init__(self, next_offset: _Optional[int] = ..., window_bytes: _Optional[int] = ...) -> None: ...

class FileInfo(_message.Message):
    __slots__ = ("path", "raw_path", "type", "size_bytes", "mode", "uid", "gid", "user", "group", "modified_unix_ns", "symlink_target", "raw_symlink_target")
    PATH_FIELD_NUMBER: _ClassVar[int]
    RAW_PATH_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    GID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MODIFIED_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    SYMLINK_TARGET_FIELD_NUMBER: _ClassVar[int]
    RAW_SYMLINK_TARGET_FIELD_NUMBER: _ClassVar[int]
    path: str
    raw_path: bytes
    type: FileType
    size_bytes: int
    mode: int
    uid: int
    gid: int
    user: str
    group: str
    modified_unix_ns: int
    symlink_target: str
    raw_symlink_target: bytes
    def __init__(self, path: _Optional[str] = ..., raw_path: _Optional[bytes] = ..., type: _Optional[_Union[FileType, str]] = ..., size_bytes: _Optional[int] = ..., mode: _Optional[int] = ..., uid: _Optional[int] = ..., gid: _Optional[int] = ..., user: _Optional[str] = ..., group: _Optional[str] = ..., modified_unix_ns: _Optional[int] = ..., symlink_target: _Optional[str] = ..., raw_symlink_target: _Optional[bytes] = ...) -> None: ...

class ReadFileRequest(_message.Message):
    __slots__ = ("sandbox_id", "incarnation", "path", "raw_path", "offset", "max_bytes", "lines", "user")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    RAW_PATH_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    incarnation: int
    path: str
    raw_path: bytes
    offset: int
    max_bytes: int
    lines: LineWindow
    user: str
    def __init__(self, sandbox_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., path: _Optional[str] = ..., raw_path: _Optional[bytes] = ..., offset: _Optional[int] = ..., max_bytes: _Optional[int] = ..., lines: _Optional[_Union[LineWindow, _Mapping]] = ..., user: _Optional[str] = ...) -> None: ...

class LineWindow(_message.Message):
    __slots__ = ("first_line", "max_lines", "max_bytes")
    FIRST_LINE_FIELD_NUMBER: _ClassVar[int]
    MAX_LINES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    first_line: int
    max_lines: int
    max_bytes: int
    def __init__(self, first_line: _Optional[int] = ..., max_lines: _Optional[int] = ..., max_bytes: _Optional[int] = ...) -> None: ...

class ReadFileResponse(_message.Message):
    __slots__ = ("sequence", "info", "chunk", "heartbeat", "end")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    info: FileInfo
    chunk: FileChunk
    heartbeat: Heartbeat
    end: ReadFileEnd
    def __init__(self, sequence: _Optional[int] = ..., info: _Optional[_Union[FileInfo, _Mapping]] = ..., chunk: _Optional[_Union[FileChunk, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., end: _Optional[_Union[ReadFileEnd, _Mapping]] = ...) -> None: ...

class FileChunk(_message.Message):
    __slots__ = ("offset", "data")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    offset: int
    data: bytes
    def __init__(self, offset: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class ReadFileEnd(_message.Message):
    __slots__ = ("total_bytes", "shrunk", "lines")
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    SHRUNK_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    total_bytes: int
    shrunk: bool
    lines: LineRange
    def __init__(self, total_bytes: _Optional[int] = ..., shrunk: bool = ..., lines: _Optional[_Union[LineRange, _Mapping]] = ...) -> None: ...

class LineRange(_message.Message):
    __slots__ = ("first_line", "next_line", "total_lines", "total_truncated")
    FIRST_LINE_FIELD_NUMBER: _ClassVar[int]
    NEXT_LINE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_LINES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    first_line: int
    next_line: int
    total_lines: int
    total_truncated: bool
    def __init__(self, first_line: _Optional[int] = ..., next_line: _Optional[int] = ..., total_lines: _Optional[int] = ..., total_truncated: bool = ...) -> None: ...

class WriteFileRequest(_message.Message):
    __slots__ = ("header", "data")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    header: WriteFileHeader
    data: bytes
    def __init__(self, header: _Optional[_Union[WriteFileHeader, _Mapping]] = ..., data: _Optional[bytes] = ...) -> None: ...

class WriteFileHeader(_message.Message):
    __slots__ = ("sandbox_id", "incarnation", "path", "raw_path", "mode", "make_parents", "must_not_exist", "size", "user", "request_id")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    RAW_PATH_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    MAKE_PARENTS_FIELD_NUMBER: _ClassVar[int]
    MUST_NOT_EXIST_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    incarnation: int
    path: str
    raw_path: bytes
    mode: FileMode
    make_parents: bool
    must_not_exist: bool
    size: ExpectedSize
    user: str
    request_id: str
    def __init__(self, sandbox_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., path: _Optional[str] = ..., raw_path: _Optional[bytes] = ..., mode: _Optional[_Union[FileMode, _Mapping]] = ..., make_parents: bool = ..., must_not_exist: bool = ..., size: _Optional[_Union[ExpectedSize, _Mapping]] = ..., user: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class FileMode(_message.Message):
    __slots__ = ("bits",)
    BITS_FIELD_NUMBER: _ClassVar[int]
    bits: int
    def __init__(self, bits: _Optional[int] = ...) -> None: ...

class ExpectedSize(_message.Message):
    __slots__ = ("size_bytes",)
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    size_bytes: int
    def __init__(self, size_bytes: _Optional[int] = ...) -> None: ...

class WriteFileResponse(_message.Message):
    __slots__ = ("info", "created")
    INFO_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    info: FileInfo
    created: bool
    def __init__(self, info: _Optional[_Union[FileInfo, _Mapping]] = ..., created: bool = ...) -> None: ...

class StatFileRequest(_message.Message):
    __slots__ = ("sandbox_id", "incarnation", "path", "raw_path", "follow", "user")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    RAW_PATH_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    incarnation: int
    path: str
    raw_path: bytes
    follow: bool
    user: str
    def __init__(self, sandbox_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., path: _Optional[str] = ..., raw_path: _Optional[bytes] = ..., follow: bool = ..., user: _Optional[str] = ...) -> None: ...

class StatFileResponse(_message.Message):
    __slots__ = ("info",)
    INFO_FIELD_NUMBER: _ClassVar[int]
    info: FileInfo
    def __init__(self, info: _Optional[_Union[FileInfo, _Mapping]] = ...) -> None: ...

class ListFilesRequest(_message.Message):
    __slots__ = ("sandbox_id", "incarnation", "path", "raw_path", "depth", "page_size", "page_token", "user")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    RAW_PATH_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    incarnation: int
    path: str
    raw_path: bytes
    depth: int
    page_size: int
    page_token: str
    user: str
    def __init__(self, sandbox_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., path: _Optional[str] = ..., raw_path: _Optional[bytes] = ..., depth: _Optional[int] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., user: _Optional[str] = ...) -> None: ...

class ListFilesResponse(_message.Message):
    __slots__ = ("entries", "next_page_token", "unreadable")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    UNREADABLE_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[FileInfo]
    next_page_token: str
    unreadable: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, entries: _Optional[_Iterable[_Union[FileInfo, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., unreadable: _Optional[_Iterable[str]] = ...) -> None: ...

class MakeDirRequest(_message.Message):
    __slots__ = ("sandbox_id", "incarnation", "path", "raw_path", "mode", "make_parents", "user", "request_id")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    RAW_PATH_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    MAKE_PARENTS_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    incarnation: int
    path: str
    raw_path: bytes
    mode: FileMode
    make_parents: bool
    user: str
    request_id: str
    def __init__(self, sandbox_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., path: _Optional[str] = ..., raw_path: _Optional[bytes] = ..., mode: _Optional[_Union[FileMode, _Mapping]] = ..., make_parents: bool = ..., user: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class MakeDirResponse(_message.Message):
    __slots__ = ("info", "created")
    INFO_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    info: FileInfo
    created: bool
    def __init__(self, info: _Optional[_Union[FileInfo, _Mapping]] = ..., created: bool = ...) -> None: ...

class RemoveRequest(_message.Message):
    __slots__ = ("sandbox_id", "incarnation", "path", "raw_path", "recursive", "missing_ok", "user", "request_id")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    RAW_PATH_FIELD_NUMBER: _ClassVar[int]
    RECURSIVE_FIELD_NUMBER: _ClassVar[int]
    MISSING_OK_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    incarnation: int
    path: str
    raw_path: bytes
    recursive: bool
    missing_ok: bool
    user: str
    request_id: str
    def __init__(self, sandbox_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., path: _Optional[str] = ..., raw_path: _Optional[bytes] = ..., recursive: bool = ..., missing_ok: bool = ..., user: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class RemoveResponse(_message.Message):
    __slots__ = ("removed",)
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    removed: int
    def __init__(self, removed: _Optional[int] = ...) -> None: ...

class RenameRequest(_message.Message):
    __slots__ = ("sandbox_id", "incarnation", "path", "raw_path", "new_path", "raw_new_path", "replace", "make_parents", "user", "request_id")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    RAW_PATH_FIELD_NUMBER: _ClassVar[int]
    NEW_PATH_FIELD_NUMBER: _ClassVar[int]
    RAW_NEW_PATH_FIELD_NUMBER: _ClassVar[int]
    REPLACE_FIELD_NUMBER: _ClassVar[int]
    MAKE_PARENTS_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    incarnation: int
    path: str
    raw_path: bytes
    new_path: str
    raw_new_path: bytes
    replace: bool
    make_parents: bool
    user: str
    request_id: str
    def __init__(self, sandbox_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., path: _Optional[str] = ..., raw_path: _Optional[bytes] = ..., new_path: _Optional[str] = ..., raw_new_path: _Optional[bytes] = ..., replace: bool = ..., make_parents: bool = ..., user: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class RenameResponse(_message.Message):
    __slots__ = ("info",)
    INFO_FIELD_NUMBER: _ClassVar[int]
    info: FileInfo
    def __init__(self, info: _Optional[_Union[FileInfo, _Mapping]] = ...) -> None: ...

class WatchFilesRequest(_message.Message):
    __slots__ = ("sandbox_id", "incarnation", "path", "raw_path", "recursive", "include_info", "user")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    RAW_PATH_FIELD_NUMBER: _ClassVar[int]
    RECURSIVE_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_INFO_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    incarnation: int
    path: str
    raw_path: bytes
    recursive: bool
    include_info: bool
    user: str
    def __init__(self, sandbox_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., path: _Optional[str] = ..., raw_path: _Optional[bytes] = ..., recursive: bool = ..., include_info: bool = ..., user: _Optional[str] = ...) -> None: ...

class WatchFilesResponse(_message.Message):
    __slots__ = ("sequence", "watching", "change", "resync", "heartbeat", "end")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    WATCHING_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    RESYNC_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    watching: FileInfo
    change: FileChange
    resync: FileResync
    heartbeat: Heartbeat
    end: StreamEnd
    def __init__(self, sequence: _Optional[int] = ..., watching: _Optional[_Union[FileInfo, _Mapping]] = ..., change: _Optional[_Union[FileChange, _Mapping]] = ..., resync: _Optional[_Union[FileResync, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., end: _Optional[_Union[StreamEnd, _Mapping]] = ...) -> None: ...

class FileChange(_message.Message):
    __slots__ = ("kind", "path", "raw_path", "old_path", "raw_old_path", "info")
    KIND_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    RAW_PATH_FIELD_NUMBER: _ClassVar[int]
    OLD_PATH_FIELD_NUMBER: _ClassVar[int]
    RAW_OLD_PATH_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    kind: FileChangeKind
    path: str
    raw_path: bytes
    old_path: str
    raw_old_path: bytes
    info: FileInfo
    def __init__(self, kind: _Optional[_Union[FileChangeKind, str]] = ..., path: _Optional[str] = ..., raw_path: _Optional[bytes] = ..., old_path: _Optional[str] = ..., raw_old_path: _Optional[bytes] = ..., info: _Optional[_Union[FileInfo, _Mapping]] = ...) -> None: ...

class FileResync(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: FileResyncReason
    def __init__(self, reason: _Optional[_Union[FileResyncReason, str]] = ...) -> None: ...

class UploadTreeRequest(_message.Message):
    __slots__ = ("header", "data")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    header: UploadTreeHeader
    data: bytes
    def __init__(self, header: _Optional[_Union[UploadTreeHeader, _Mapping]] = ..., data: _Optional[bytes] = ...) -> None: ...

class UploadTreeHeader(_message.Message):
    __slots__ = ("sandbox_id", "incarnation", "path", "raw_path", "compression", "user", "request_id")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    RAW_PATH_FIELD_NUMBER: _ClassVar[int]
    COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    incarnation: int
    path: str
    raw_path: bytes
    compression: TreeCompression
    user: str
    request_id: str
    def __init__(self, sandbox_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., path: _Optional[str] = ..., raw_path: _Optional[bytes] = ..., compression: _Optional[_Union[TreeCompression, str]] = ..., user: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class UploadTreeResponse(_message.Message):
    __slots__ = ("files", "directories", "total_bytes")
    FILES_FIELD_NUMBER: _ClassVar[int]
    DIRECTORIES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    files: int
    directories: int
    total_bytes: int
    def __init__(self, files: _Optional[int] = ..., directories: _Optional[int] = ..., total_bytes: _Optional[int] = ...) -> None: ...

class DownloadTreeRequest(_message.Message):
    __slots__ = ("sandbox_id", "incarnation", "path", "raw_path", "excludes", "compression", "user")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    RAW_PATH_FIELD_NUMBER: _ClassVar[int]
    EXCLUDES_FIELD_NUMBER: _ClassVar[int]
    COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    incarnation: int
    path: str
    raw_path: bytes
    excludes: _containers.RepeatedScalarFieldContainer[str]
    compression: TreeCompression
    user: str
    def __init__(self, sandbox_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., path: _Optional[str] = ..., raw_path: _Optional[bytes] = ..., excludes: _Optional[_Iterable[str]] = ..., compression: _Optional[_Union[TreeCompression, str]] = ..., user: _Optional[str] = ...) -> None: ...

class DownloadTreeResponse(_message.Message):
    __slots__ = ("sequence", "heartbeat", "data", "end")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    heartbeat: Heartbeat
    data: bytes
    end: DownloadTreeEnd
    def __init__(self, sequence: _Optional[int] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., data: _Optional[bytes] = ..., end: _Optional[_Union[DownloadTreeEnd, _Mapping]] = ...) -> None: ...

class DownloadTreeEnd(_message.Message):
    __slots__ = ("files", "directories", "total_bytes", "skipped_special", "skipped_unreadable")
    FILES_FIELD_NUMBER: _ClassVar[int]
    DIRECTORIES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_SPECIAL_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_UNREADABLE_FIELD_NUMBER: _ClassVar[int]
    files: int
    directories: int
    total_bytes: int
    skipped_special: int
    skipped_unreadable: int
    def __init__(self, files: _Optional[int] = ..., directories: _Optional[int] = ..., total_bytes: _Optional[int] = ..., skipped_special: _Optional[int] = ..., skipped_unreadable: _Optional[int] = ...) -> None: ...

class EditFileRequest(_message.Message):
    __slots__ = ("sandbox_id", "incarnation", "path", "raw_path", "edits", "user", "request_id")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    RAW_PATH_FIELD_NUMBER: _ClassVar[int]
    EDITS_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    incarnation: int
    path: str
    raw_path: bytes
    edits: _containers.RepeatedCompositeFieldContainer[TextEdit]
    user: str
    request_id: str
    def __init__(self, sandbox_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., path: _Optional[str] = ..., raw_path: _Optional[bytes] = ..., edits: _Optional[_Iterable[_Union[TextEdit, _Mapping]]] = ..., user: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class TextEdit(_message.Message):
    __slots__ = ("old_text", "new_text", "replace_all")
    OLD_TEXT_FIELD_NUMBER: _ClassVar[int]
    NEW_TEXT_FIELD_NUMBER: _ClassVar[int]
    REPLACE_ALL_FIELD_NUMBER: _ClassVar[int]
    old_text: str
    new_text: str
    replace_all: bool
    def __init__(self, old_text: _Optional[str] = ..., new_text: _Optional[str] = ..., replace_all: bool = ...) -> None: ...

class EditFileResponse(_message.Message):
    __slots__ = ("replacements", "info")
    REPLACEMENTS_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    replacements: int
    info: FileInfo
    def __init__(self, replacements: _Optional[int] = ..., info: _Optional[_Union[FileInfo, _Mapping]] = ...) -> None: ...

class GrepRequest(_message.Message):
    __slots__ = ("sandbox_id", "incarnation", "path", "raw_path", "pattern", "regex", "ignore_case", "glob", "max_matches", "before_lines", "after_lines", "user")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    RAW_PATH_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    REGEX_FIELD_NUMBER: _ClassVar[int]
    IGNORE_CASE_FIELD_NUMBER: _ClassVar[int]
    GLOB_FIELD_NUMBER: _ClassVar[int]
    MAX_MATCHES_FIELD_NUMBER: _ClassVar[int]
    BEFORE_LINES_FIELD_NUMBER: _ClassVar[int]
    AFTER_LINES_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    incarnation: int
    path: str
    raw_path: bytes
    pattern: str
    regex: bool
    ignore_case: bool
    glob: str
    max_matches: int
    before_lines: int
    after_lines: int
    user: str
    def __init__(self, sandbox_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., path: _Optional[str] = ..., raw_path: _Optional[bytes] = ..., pattern: _Optional[str] = ..., regex: bool = ..., ignore_case: bool = ..., glob: _Optional[str] = ..., max_matches: _Optional[int] = ..., before_lines: _Optional[int] = ..., after_lines: _Optional[int] = ..., user: _Optional[str] = ...) -> None: ...

class GrepResponse(_message.Message):
    __slots__ = ("matches", "truncated", "files", "binary_files", "unreadable")
    MATCHES_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    BINARY_FILES_FIELD_NUMBER: _ClassVar[int]
    UNREADABLE_FIELD_NUMBER: _ClassVar[int]
    matches: _containers.RepeatedCompositeFieldContainer[GrepMatch]
    truncated: TruncatedReason
    files: int
    binary_files: int
    unreadable: int
    def __init__(self, matches: _Optional[_Iterable[_Union[GrepMatch, _Mapping]]] = ..., truncated: _Optional[_Union[TruncatedReason, str]] = ..., files: _Optional[int] = ..., binary_files: _Optional[int] = ..., unreadable: _Optional[int] = ...) -> None: ...

class GrepMatch(_message.Message):
    __slots__ = ("path", "raw_path", "line", "text", "text_truncated", "before", "after")
    PATH_FIELD_NUMBER: _ClassVar[int]
    RAW_PATH_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TEXT_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    path: str
    raw_path: bytes
    line: int
    text: str
    text_truncated: bool
    before: _containers.RepeatedScalarFieldContainer[str]
    after: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, path: _Optional[str] = ..., raw_path: _Optional[bytes] = ..., line: _Optional[int] = ..., text: _Optional[str] = ..., text_truncated: bool = ..., before: _Optional[_Iterable[str]] = ..., after: _Optional[_Iterable[str]] = ...) -> None: ...

class GlobRequest(_message.Message):
    __slots__ = ("sandbox_id", "incarnation", "path", "raw_path", "pattern", "all_types", "max_matches", "user")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    RAW_PATH_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    ALL_TYPES_FIELD_NUMBER: _ClassVar[int]
    MAX_MATCHES_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    incarnation: int
    path: str
    raw_path: bytes
    pattern: str
    all_types: bool
    max_matches: int
    user: str
    def __init__(self, sandbox_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., path: _Optional[str] = ..., raw_path: _Optional[bytes] = ..., pattern: _Optional[str] = ..., all_types: bool = ..., max_matches: _Optional[int] = ..., user: _Optional[str] = ...) -> None: ...

class GlobResponse(_message.Message):
    __slots__ = ("matches", "truncated", "unreadable")
    MATCHES_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    UNREADABLE_FIELD_NUMBER: _ClassVar[int]
    matches: _containers.RepeatedCompositeFieldContainer[FileInfo]
    truncated: TruncatedReason
    unreadable: int
    def __init__(self, matches: _Optional[_Iterable[_Union[FileInfo, _Mapping]]] = ..., truncated: _Optional[_Union[TruncatedReason, str]] = ..., unreadable: _Optional[int] = ...) -> None: ...

class GetInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetInfoResponse(_message.Message):
    __slots__ = ("version", "spec_version", "protocol", "instance_id", "run_id", "state", "server_unix_ms", "started_unix_ms", "uptime_ms", "identity", "admin", "drivers", "capabilities", "limits", "head_sequence", "oldest_sequence")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SPEC_VERSION_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SERVER_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    STARTED_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    UPTIME_MS_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    ADMIN_FIELD_NUMBER: _ClassVar[int]
    DRIVERS_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    HEAD_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    OLDEST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    version: str
    spec_version: str
    protocol: str
    instance_id: str
    run_id: str
    state: DaemonState
    server_unix_ms: int
    started_unix_ms: int
    uptime_ms: int
    identity: str
    admin: bool
    drivers: _containers.RepeatedCompositeFieldContainer[DriverInfo]
    capabilities: _containers.RepeatedScalarFieldContainer[str]
    limits: _containers.RepeatedCompositeFieldContainer[LimitInfo]
    head_sequence: int
    oldest_sequence: int
    def __init__(self, version: _Optional[str] = ..., spec_version: _Optional[str] = ..., protocol: _Optional[str] = ..., instance_id: _Optional[str] = ..., run_id: _Optional[str] = ..., state: _Optional[_Union[DaemonState, str]] = ..., server_unix_ms: _Optional[int] = ..., started_unix_ms: _Optional[int] = ..., uptime_ms: _Optional[int] = ..., identity: _Optional[str] = ..., admin: bool = ..., drivers: _Optional[_Iterable[_Union[DriverInfo, _Mapping]]] = ..., capabilities: _Optional[_Iterable[str]] = ..., limits: _Optional[_Iterable[_Union[LimitInfo, _Mapping]]] = ..., head_sequence: _Optional[int] = ..., oldest_sequence: _Optional[int] = ...) -> None: ...

class DriverInfo(_message.Message):
    __slots__ = ("name", "available", "unavailable_reason", "capabilities")
    NAME_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    UNAVAILABLE_REASON_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    name: str
    available: bool
    unavailable_reason: str
    capabilities: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., available: bool = ..., unavailable_reason: _Optional[str] = ..., capabilities: _Optional[_Iterable[str]] = ...) -> None: ...

class LimitInfo(_message.Message):
    __slots__ = ("name", "value", "unit")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: int
    unit: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[int] = ..., unit: _Optional[str] = ...) -> None: ...

class PingRequest(_message.Message):
    __slots__ = ("payload",)
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    payload: bytes
    def __init__(self, payload: _Optional[bytes] = ...) -> None: ...

class PingResponse(_message.Message):
    __slots__ = ("payload",)
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    payload: bytes
    def __init__(self, payload: _Optional[bytes] = ...) -> None: ...
