"""The methods that this client calls, one row each, with their message types."""

from __future__ import annotations

import dataclasses
import secrets
from typing import Generic, TypeVar

from google.protobuf.message import Message

from berm._gen.berm.v1 import berm_pb2 as pb

Req = TypeVar("Req", bound=Message)
Res = TypeVar("Res", bound=Message)


@dataclasses.dataclass(frozen=True)
class Method(Generic[Req, Res]):
    """One rpc. `name` has the form "SandboxService/GetSandbox"."""

    name: str
    request: type[Req]
    response: type[Res]

    @property
    def path(self) -> str:
        return f"/berm.v1.{self.name}"


CREATE_SANDBOX = Method("SandboxService/CreateSandbox", pb.CreateSandboxRequest, pb.CreateSandboxResponse)
GET_SANDBOX = Method("SandboxService/GetSandbox", pb.GetSandboxRequest, pb.GetSandboxResponse)
LIST_SANDBOXES = Method("SandboxService/ListSandboxes", pb.ListSandboxesRequest, pb.ListSandboxesResponse)
UPDATE_SANDBOX = Method("SandboxService/UpdateSandbox", pb.UpdateSandboxRequest, pb.UpdateSandboxResponse)
STOP_SANDBOX = Method("SandboxService/StopSandbox", pb.StopSandboxRequest, pb.StopSandboxResponse)
START_SANDBOX = Method("SandboxService/StartSandbox", pb.StartSandboxRequest, pb.StartSandboxResponse)
PAUSE_SANDBOX = Method("SandboxService/PauseSandbox", pb.PauseSandboxRequest, pb.PauseSandboxResponse)
RESUME_SANDBOX = Method("SandboxService/ResumeSandbox", pb.ResumeSandboxRequest, pb.ResumeSandboxResponse)
DELETE_SANDBOX = Method("SandboxService/DeleteSandbox", pb.DeleteSandboxRequest, pb.DeleteSandboxResponse)
DELETE_SANDBOXES = Method(
    "SandboxService/DeleteSandboxes", pb.DeleteSandboxesRequest, pb.DeleteSandboxesResponse
)
WATCH_USAGE = Method("SandboxService/WatchUsage", pb.WatchUsageRequest, pb.WatchUsageResponse)
WATCH_EVENTS = Method("SandboxService/WatchEvents", pb.WatchEventsRequest, pb.WatchEventsResponse)

START_EXEC = Method("ExecService/StartExec", pb.StartExecRequest, pb.StartExecResponse)
RUN_EXEC = Method("ExecService/RunExec", pb.RunExecRequest, pb.RunExecResponse)
INTERACT = Method("ExecService/Interact", pb.InteractRequest, pb.InteractResponse)
ATTACH_EXEC = Method("ExecService/AttachExec", pb.AttachExecRequest, pb.AttachExecResponse)
ACK_OUTPUT = Method("ExecService/AckOutput", pb.AckOutputRequest, pb.AckOutputResponse)
WRITE_STDIN = Method("ExecService/WriteStdin", pb.WriteStdinRequest, pb.WriteStdinResponse)
CLOSE_STDIN = Method("ExecService/CloseStdin", pb.CloseStdinRequest, pb.CloseStdinResponse)
SIGNAL_EXEC = Method("ExecService/SignalExec", pb.SignalExecRequest, pb.SignalExecResponse)
RESIZE_EXEC = Method("ExecService/ResizeExec", pb.ResizeExecRequest, pb.ResizeExecResponse)
GET_EXEC = Method("ExecService/GetExec", pb.GetExecRequest, pb.GetExecResponse)
LIST_EXECS = Method("ExecService/ListExecs", pb.ListExecsRequest, pb.ListExecsResponse)

READ_FILE = Method("FileService/ReadFile", pb.ReadFileRequest, pb.ReadFileResponse)
WRITE_FILE = Method("FileService/WriteFile", pb.WriteFileRequest, pb.WriteFileResponse)
STAT_FILE = Method("FileService/StatFile", pb.StatFileRequest, pb.StatFileResponse)
LIST_FILES = Method("FileService/ListFiles", pb.ListFilesRequest, pb.ListFilesResponse)
MAKE_DIR = Method("FileService/MakeDir", pb.MakeDirRequest, pb.MakeDirResponse)
REMOVE = Method("FileService/Remove", pb.RemoveRequest, pb.RemoveResponse)
RENAME = Method("FileService/Rename", pb.RenameRequest, pb.RenameResponse)
WATCH_FILES = Method("FileService/WatchFiles", pb.WatchFilesRequest, pb.WatchFilesResponse)
UPLOAD_TREE = Method("FileService/UploadTree", pb.UploadTreeRequest, pb.UploadTreeResponse)
DOWNLOAD_TREE = Method("FileService/DownloadTree", pb.DownloadTreeRequest, pb.DownloadTreeResponse)
EDIT_FILE = Method("FileService/EditFile", pb.EditFileRequest, pb.EditFileResponse)
GREP = Method("FileService/Grep", pb.GrepRequest, pb.GrepResponse)
GLOB = Method("FileService/Glob", pb.GlobRequest, pb.GlobResponse)

GET_INFO = Method("SystemService/GetInfo", pb.GetInfoRequest, pb.GetInfoResponse)
PING = Method("SystemService/Ping", pb.PingRequest, pb.PingResponse)


def new_request_id() -> str:
    return "py-" + secrets.token_hex(16)


def give_request_id(request: Message) -> bool:
    """Sets a new request id if the field is empty. Returns whether the request type has a request id."""
    if "request_id" not in request.DESCRIPTOR.fields_by_name:
        return False
    if not getattr(request, "request_id"):
        setattr(request, "request_id", new_request_id())
    return True
