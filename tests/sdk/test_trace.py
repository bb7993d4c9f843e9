"""Trace context for those who have OpenTelemetry on; the same client for those who have not (TEL-1, TEL-2)."""

import subprocess
import sys

import berm
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from berm._gen.berm.v1 import berm_pb2 as pb
from daemon import SECONDS
from peer import Failure, Peer

BUSY = Failure("LIMIT_REACHED", "later")
GONE = Failure("SANDBOX_NOT_FOUND", "never")


@pytest.fixture(scope="module")
def spans():
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


async def test_calls_are_children_of_the_callers_span(both, spans):
    # covers: TEL-1, TEL-2
    ended = pb.AttachExecResponse(exited=pb.Exec(exec_id="job", exit=pb.ExitStatus(code=0)))
    peer = Peer(Ping=[BUSY, pb.PingResponse()], GetSandbox=[GONE], AttachExec=[[ended]],
                GetExec=[pb.GetExecResponse(exec=pb.Exec(exec_id="job"))]).start()
    spans.clear()
    try:
        with trace.get_tracer("test").start_as_current_span("mine") as mine:
            async with both.client(address=peer.address) as client:
                await client.ping()
                with pytest.raises(berm.SandboxNotFoundError):
                    await both.Sandbox.connect("box", client=client)
        ping, connect, _ = spans.get_finished_spans()
    finally:
        peer.stop()
    assert ping.parent.span_id == connect.parent.span_id == mine.get_span_context().span_id
    assert ping.name == "berm.v1.SystemService/Ping" and ping.kind is trace.SpanKind.CLIENT
    assert dict(ping.attributes) == {"rpc.system": "grpc", "rpc.service": "berm.v1.SystemService",
                                     "rpc.method": "Ping", "rpc.grpc.status_code": 0}
    assert [e.attributes["error.type"] for e in ping.events] == ["LIMIT_REACHED"]
    assert connect.attributes["sandbox.id"] == "box" and connect.attributes["error.type"] == "SANDBOX_NOT_FOUND"
    assert connect.attributes["rpc.grpc.status_code"] == 5
    for span, metadata in zip([ping, ping, connect], peer.metadata):   # what the daemon gets
        context = span.get_span_context()
        assert metadata["traceparent"].startswith(f"00-{context.trace_id:032x}-{context.span_id:016x}-")


async def test_no_secret_is_reported(both, client, spans):
    # covers: TEL-3
    spans.clear()
    async with both.Sandbox.create(client=client, env={"KEY": "hush-env"}) as sb:
        await sb.run(["echo", "hush-argv"], env={"OTHER": "hush-env"}, input=b"hush-input")
    told = "".join(span.to_json() for span in spans.get_finished_spans())
    assert "RunExec" in told and sb.id in told and "hush" not in told


def test_without_opentelemetry(daemon):
    # covers: TEL-1
    script = f"""
import sys
sys.modules["opentelemetry"] = None          # as if it were not installed
import berm, berm._trace
assert berm._trace.trace is None
print(berm.Client(socket={str(daemon.socket)!r}).ping(b"x"))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=SECONDS,
                          env={"PYTHONPATH": ":".join(sys.path)})
    assert done.stdout == "b'x'\n", done.stderr
