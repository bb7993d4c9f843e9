"""Spans and trace context for users of OpenTelemetry; does nothing for others."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message

try:
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:  # without OpenTelemetry, there are no spans
    trace = None  # type: ignore[assignment]

from berm.errors import BermError

# Maps a request field to the span attribute that gets its value (TEL-2).
_ATTRIBUTES = {"sandbox_id": "sandbox.id", "exec_id": "exec.id"}


class Span:
    """One call or stream with all its attempts. It is a child of the caller's current span, and the parent of the
    daemon's spans. It never becomes the current span: a stream is read in pieces, and the caller's own spans start
    and end in between."""

    def __init__(self, name: str, request: Message):
        self._span: Any = None
        self.metadata: list[tuple[str, str]] = []
        if trace is None:
            return
        service, method = name.split("/")
        attributes = {"rpc.system": "grpc", "rpc.service": f"berm.v1.{service}", "rpc.method": method}
        for field, key in _ATTRIBUTES.items():
            value = getattr(request, field, "")
            if value:
                attributes[key] = value
        self._span = trace.get_tracer("berm").start_span(
            f"berm.v1.{name}", kind=trace.SpanKind.CLIENT, attributes=attributes
        )
        carrier: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(carrier, trace.set_span_in_context(self._span))
        self.metadata = list(carrier.items())

    def again(self, failure: BermError) -> None:
        """Records a failure after which the call is retried."""
        if self._span is not None:
            self._span.add_event("retry", {"error.type": failure.reason})

    def end(self, failure: BermError | None = None) -> None:
        if self._span is None:
            return
        if failure is None:
            self._span.set_attribute("rpc.grpc.status_code", 0)
        else:
            self._span.set_attribute("error.type", failure.reason)
            self._span.set_attribute("rpc.grpc.status_code", _STATUS.get(failure.grpc, 2))
            self._span.set_status(trace.Status(trace.StatusCode.ERROR))
        self._span.end()


_STATUS = {
    name: number
    for number, name in enumerate(
        "OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS "
        "PERMISSION_DENIED RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED "
        "INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED".split()
    )
}
