"""Python's grpcio against bermd, on a Unix socket and on TCP."""

import os
import re
import time

import grpc
import pytest
from google.protobuf import descriptor_pool
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from grpc_status import rpc_status

from berm._gen.berm.v1 import berm_pb2, berm_pb2_grpc
from conftest import ROOT, SECONDS, open_channel

MAX_MESSAGE = 4 << 20
UNBUILT = [berm_pb2.DESCRIPTOR.services_by_name["SandboxService"].methods_by_name[name]
           for name in ("SnapshotSandbox", "ForkSandbox", "ListSnapshots", "DeleteSnapshot")]


def system(channel):
    return berm_pb2_grpc.SystemServiceStub(channel)


def ping(channel, payload=b"hello", **options):
    return system(channel).Ping(berm_pb2.PingRequest(payload=payload), timeout=SECONDS, **options).payload


def error_info(error):
    """The one google.rpc.ErrorInfo every failure of bermd carries."""
    status = rpc_status.from_call(error)
    assert status is not None, f"no grpc-status-details-bin: {error}"
    infos = [d for d in status.details if d.Is(error_details_pb2.ErrorInfo.DESCRIPTOR)]
    assert len(infos) == 1
    assert status.code == error.code().value[0] and status.message == error.details()
    info = error_details_pb2.ErrorInfo()
    infos[0].Unpack(info)
    assert info.domain == "berm" and info.metadata["retry"] in ("never", "later", "check")
    return info


def refused(code, reason, call):
    with pytest.raises(grpc.RpcError) as caught:
        call()
    assert caught.value.code() == code, caught.value
    assert error_info(caught.value).reason == reason
    return caught.value


@pytest.mark.parametrize("size", [0, 1, 5, 1000, 16384, 65535, 65536, 300_000, 1 << 20])
def test_ping_echoes_any_bytes(channel, size):
    # covers: RPC-18
    payload = os.urandom(size)
    assert ping(channel, payload) == payload


def test_ping_takes_a_message_of_exactly_the_limit(daemon):
    # covers: RPC-5
    with open_channel(daemon.unix, max_receive_message_length=MAX_MESSAGE) as channel:
        payload = bytes(MAX_MESSAGE - 5)  # one byte of tag, four of length
        assert berm_pb2.PingRequest(payload=payload).ByteSize() == MAX_MESSAGE
        assert ping(channel, payload) == payload


def test_many_calls_at_once(channel):
    payloads = [os.urandom(3000) for _ in range(300)]
    calls = [system(channel).Ping.future(berm_pb2.PingRequest(payload=p), timeout=SECONDS) for p in payloads]
    assert [call.result().payload for call in calls] == payloads


def test_get_info(channel):
    # covers: RPC-17
    before = int(time.time() * 1000)
    first, second = [system(channel).GetInfo(berm_pb2.GetInfoRequest(), timeout=SECONDS) for _ in range(2)]
    after = int(time.time() * 1000) + 1
    assert first.version and first.spec_version and first.protocol == "berm.v1"
    assert first.state == berm_pb2.DAEMON_STATE_SERVING
    assert (first.instance_id, first.run_id) == (second.instance_id, second.run_id)
    assert first.instance_id and first.run_id
    assert before <= first.server_unix_ms <= after
    assert first.started_unix_ms <= first.server_unix_ms and second.uptime_ms >= first.uptime_ms
    assert first.identity
    limits = {limit.name: limit for limit in first.limits}
    assert limits["message.inbound"].value == MAX_MESSAGE and limits["message.inbound"].unit == "bytes"


def test_get_info_reports_every_number_of_the_spec(channel):
    # covers: RPC-17
    table = re.findall(r"^\| `([a-z_.]+)` \| (-?\d+) \| (bytes|ms|count) \|", (ROOT / "spec/behavior.md").read_text(), re.M)
    assert len(table) > 50
    info = system(channel).GetInfo(berm_pb2.GetInfoRequest(), timeout=SECONDS)
    assert {(name, int(value), unit) for name, value, unit in table} == {
        (limit.name, limit.value, limit.unit) for limit in info.limits}


def test_a_deadline_ends_a_stream(channel):
    # covers: RPC-8
    start = time.monotonic()
    watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=0.5)
    with pytest.raises(grpc.RpcError) as caught:
        for _ in watch:
            pass
    assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    assert time.monotonic() - start > 0.4


def test_a_cancelled_stream_ends_here_and_there(start):
    # covers: RPC-9, RPC-29
    daemon = start()
    with open_channel(daemon.unix) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        watch.cancel()
        with pytest.raises(grpc.RpcError) as caught:
            next(watch)
        assert caught.value.code() == grpc.StatusCode.CANCELLED
        daemon.wait_for_log(r"method=grpc\.health\.v1\.Health/Watch .*code=CANCELLED")
        assert ping(channel) == b"hello"


def test_metadata_of_every_kind_is_taken(channel):
    metadata = [("x-plain", "text"), ("x-twice", "1"), ("x-twice", "2"), ("x-empty", ""),
                ("x-any-bin", bytes(range(256))), ("x-empty-bin", b""), ("x-long", "v" * 2000)]
    assert ping(channel, metadata=metadata) == b"hello"


def test_too_much_metadata_is_refused_and_the_connection_lives(channel):
    # covers: RPC-7
    metadata = [(f"x-{i}", "v" * 1000) for i in range(40)]
    refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "HEADERS_TOO_LARGE", lambda: ping(channel, metadata=metadata))
    assert ping(channel) == b"hello"


@pytest.mark.parametrize("payload", [b"", b"small", b"compressible " * 50_000, os.urandom(100_000)],
                         ids=["empty", "small", "compressible", "random"])
def test_gzip(channel, payload):
    # covers: RPC-6
    assert ping(channel, payload, compression=grpc.Compression.Gzip) == payload


def test_an_encoding_we_do_not_speak_is_refused_by_name(channel):
    # covers: RPC-6
    with pytest.raises(grpc.RpcError) as caught:
        ping(channel, b"x" * 10_000, compression=grpc.Compression.Deflate)
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert ping(channel) == b"hello"


def test_a_message_over_the_limit_is_refused(channel):
    # covers: RPC-5, ERR-1
    refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "MESSAGE_TOO_LARGE", lambda: ping(channel, bytes(MAX_MESSAGE)))
    assert ping(channel) == b"hello"


def test_the_limit_holds_for_what_gzip_unpacks_to(channel):
    # covers: RPC-5
    refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "MESSAGE_TOO_LARGE",
            lambda: ping(channel, bytes(64 << 20), compression=grpc.Compression.Gzip))
    assert ping(channel) == b"hello"


def test_health(channel):
    # covers: RPC-19
    health = health_pb2_grpc.HealthStub(channel)
    serving = health_pb2.HealthCheckResponse.SERVING
    for service in ["", *(f"berm.v1.{name}" for name in berm_pb2.DESCRIPTOR.services_by_name)]:
        request = health_pb2.HealthCheckRequest(service=service)
        assert health.Check(request, timeout=SECONDS).status == serving, service
        watch = health.Watch(request, timeout=SECONDS)
        assert next(watch).status == serving, service
        watch.cancel()


def test_health_of_an_unknown_service(channel):
    # covers: RPC-19
    health, request = health_pb2_grpc.HealthStub(channel), health_pb2.HealthCheckRequest(service="no.such.Service")
    refused(grpc.StatusCode.NOT_FOUND, "SERVICE_NOT_FOUND", lambda: health.Check(request, timeout=SECONDS))
    watch = health.Watch(request, timeout=SECONDS)
    assert next(watch).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
    watch.cancel()


def test_reflection_v1alpha_tells_the_whole_contract(channel):
    # covers: RPC-20
    database = ProtoReflectionDescriptorDatabase(channel)
    services = set(database.get_services())
    assert {f"berm.v1.{name}" for name in berm_pb2.DESCRIPTOR.services_by_name} <= services
    assert {"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection"} <= services
    pool = descriptor_pool.DescriptorPool(database)
    for name, ours in berm_pb2.DESCRIPTOR.services_by_name.items():
        theirs = pool.FindServiceByName(f"berm.v1.{name}")
        assert [(m.name, m.input_type.full_name, m.output_type.full_name, m.client_streaming, m.server_streaming)
                for m in theirs.methods] == [
            (m.name, m.input_type.full_name, m.output_type.full_name, m.client_streaming, m.server_streaming)
            for m in ours.methods]
    ours = berm_pb2.Sandbox.DESCRIPTOR.fields
    assert [(f.name, f.number) for f in pool.FindMessageTypeByName("berm.v1.Sandbox").fields] == [
        (f.name, f.number) for f in ours]
    with pytest.raises(KeyError):
        pool.FindMessageTypeByName("berm.v1.NoSuchMessage")


@pytest.mark.parametrize("method", UNBUILT, ids=lambda m: m.full_name)
def test_what_is_not_built_says_so_by_name(channel, method):
    # covers: RPC-1, ERR-1
    path = f"/{method.containing_service.full_name}/{method.name}"
    kind = f"{'stream' if method.client_streaming else 'unary'}_{'stream' if method.server_streaming else 'unary'}"
    call = getattr(channel, kind)(path, request_serializer=lambda m: m.SerializeToString(), response_deserializer=bytes)
    request = berm_pb2.DESCRIPTOR.message_types_by_name[method.input_type.name]._concrete_class()
    request = iter([request]) if method.client_streaming else request

    def run():
        answer = call(request, timeout=SECONDS)
        if method.server_streaming:
            list(answer)

    error = refused(grpc.StatusCode.UNIMPLEMENTED, "UNIMPLEMENTED", run)
    assert method.name in error.details()
    assert error_info(error).metadata["retry"] == "never"


def test_an_unknown_method_and_service(channel):
    # covers: RPC-1
    for path in ("/berm.v1.SystemService/NoSuchMethod", "/no.such.Service/Method"):
        call = channel.unary_unary(path, request_serializer=bytes, response_deserializer=bytes)
        error = refused(grpc.StatusCode.UNIMPLEMENTED, "UNIMPLEMENTED", lambda: call(b"", timeout=SECONDS))
        assert path.split("/")[-1] in error.details()


# --- who may call ---


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer wrong", "Basic {token}", "{token}",
                                    "Bearer {token}x", "Bearer {half}"])
def test_tcp_without_the_token_is_unauthenticated(daemon, header):
    # covers: AUTH-4
    metadata = []
    if header is not None:
        metadata = [("authorization", header.format(token=daemon.token, half=daemon.token[:-1]))]
    with open_channel(daemon.tcp) as channel:
        refused(grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED", lambda: ping(channel, metadata=metadata))


def test_a_health_check_alone_needs_no_token(daemon):
    # covers: AUTH-4
    with open_channel(daemon.tcp) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        assert health.Check(health_pb2.HealthCheckRequest(), timeout=SECONDS).status == health_pb2.HealthCheckResponse.SERVING


def test_a_stranger_does_not_learn_which_methods_there_are(daemon):
    # covers: AUTH-8
    with open_channel(daemon.tcp) as channel:
        call = channel.unary_unary("/no.such.Service/Method", request_serializer=bytes, response_deserializer=bytes)
        refused(grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED", lambda: call(b"", timeout=SECONDS))


@pytest.mark.parametrize("authority", ["evil.example.com", "127.0.0.1.evil.example.com", "localhost.evil:80", "10.0.0.1"])
def test_tcp_under_a_foreign_name_is_refused_token_or_not(daemon, authority):
    # covers: AUTH-7
    with open_channel(daemon.tcp, daemon.token, default_authority=authority) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            ping(channel)
        assert caught.value.code() == grpc.StatusCode.PERMISSION_DENIED


def test_tcp_from_a_foreign_web_page_is_refused(daemon):
    # covers: AUTH-7
    with open_channel(daemon.tcp, daemon.token) as channel:
        assert ping(channel, metadata=[("origin", "http://localhost:3000")]) == b"hello"
        with pytest.raises(grpc.RpcError) as caught:
            ping(channel, metadata=[("origin", "https://evil.example.com")])
        assert caught.value.code() == grpc.StatusCode.PERMISSION_DENIED
