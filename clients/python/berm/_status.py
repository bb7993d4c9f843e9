"""Converts gRPC statuses to the errors of this package, so that no gRPC error leaves it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc
from google.rpc import error_details_pb2, status_pb2

from berm import errors
from berm.errors import BermError

if TYPE_CHECKING:
    from berm.types import Completed


class DisconnectedError(BermError):
    """the connection was lost before the reply; the call may have taken effect"""

    reason = "DISCONNECTED"
    grpc = "UNAVAILABLE"
    http = 503
    retry = "check"
    meaning = "the connection was lost before the answer; the call may have happened"


class UnreachableError(BermError):
    """no daemon replied within the time that the client waits"""

    reason = "UNREACHABLE"
    grpc = "UNAVAILABLE"
    http = 503
    retry = "check"
    meaning = "no daemon answered for as long as the client waits for one"


class ClosedError(BermError, RuntimeError):
    """the client, or the handle that uses it, is closed"""

    reason = "CLIENT_CLOSED"
    retry = "never"
    meaning = "the client is closed"


class ArgumentError(errors.InvalidArgumentError, ValueError):
    """an argument was refused before anything was sent"""

    def __init__(self, field: str, must: str, got: object):
        text = f"must be {must}, got {got!r}"
        super().__init__(f"{field}: {text}", fields={field: text})


class ProgramFailedError(BermError):
    """a program run with check=True did not exit with 0; `completed` has the result"""

    reason = "PROGRAM_FAILED"
    retry = "never"
    meaning = "the program did not end with 0"

    def __init__(self, completed: Completed):
        super().__init__(f"{completed.argv[0] if completed.argv else 'the program'}: {completed.exit}")
        self.completed = completed


# Errors for statuses without details, which the local gRPC library creates, because the daemon always sends
# details. Any other status without details means a lost connection.
_BARE: dict[grpc.StatusCode, type[BermError]] = {
    grpc.StatusCode.DEADLINE_EXCEEDED: errors.DeadlineExceededError,
    grpc.StatusCode.UNIMPLEMENTED: errors.UnimplementedError,
    grpc.StatusCode.UNAUTHENTICATED: errors.UnauthenticatedError,
    grpc.StatusCode.PERMISSION_DENIED: errors.PermissionDeniedError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: errors.MessageTooLargeError,
    grpc.StatusCode.DATA_LOSS: errors.MalformedError,
}


def failure_of(error: grpc.RpcError) -> BermError:
    """Converts an error of gRPC's sync or asyncio API to an error of this package."""
    code: grpc.StatusCode = error.code()
    text = str(error.details() or "")
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            return _with_details(status_pb2.Status.FromString(value))
    kind = _BARE.get(code, DisconnectedError)
    return kind() if kind is DisconnectedError else kind(text)  # gRPC's text for a lost connection does not help users


def _with_details(status: status_pb2.Status) -> BermError:
    info, fields = error_details_pb2.ErrorInfo(), {}
    for detail in status.details:
        if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            detail.Unpack(info)
        elif detail.Is(error_details_pb2.BadRequest.DESCRIPTOR):
            bad = error_details_pb2.BadRequest()
            detail.Unpack(bad)
            fields = {violation.field: violation.description for violation in bad.field_violations}
    kind = errors.class_of(info.reason)
    return kind(
        status.message,
        reason=info.reason,
        retry=info.metadata.get("retry", ""),
        metadata=info.metadata,
        fields=fields,
    )
