"""A gRPC server with scripted answers, to test how the client reacts to them."""

import threading
from concurrent import futures

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from berm import _methods
from berm._gen.berm.v1 import berm_pb2 as pb


class Failure(Exception):
    """An error answer in the form that the contract defines."""

    def __init__(self, reason, retry, code=grpc.StatusCode.UNAVAILABLE, message="because", fields=(), **metadata):
        self.code, self.message = code, message
        info = error_details_pb2.ErrorInfo(reason=reason, domain="berm", metadata={"retry": retry, **metadata})
        bad = error_details_pb2.BadRequest(
            field_violations=[{"field": path, "description": text} for path, text in fields])
        details = [any_pb2.Any(), any_pb2.Any()]
        details[0].Pack(info)
        details[1].Pack(bad)
        self.status = status_pb2.Status(code=code.value[0], message=message, details=details)


class Peer(grpc.GenericRpcHandler):
    """`answers[method]` lists the answer to each call in turn: a Failure, a message, or a list of messages and Failures
    for a stream. The last answer repeats for all further calls. `calls` records the calls that arrived."""

    def __init__(self, **answers):
        self.answers = {"Ping": [pb.PingResponse()], **answers}  # a client sends Ping after it lost its connection
        self.calls = []
        self.metadata = []
        self._lock = threading.Lock()
        self._methods = {m.path: m for m in vars(_methods).values() if isinstance(m, _methods.Method)}

    def start(self, address="127.0.0.1:0"):
        self.server = grpc.server(futures.ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
        self.server.add_generic_rpc_handlers([self])
        self.port = self.server.add_insecure_port(address)
        self.server.start()
        return self

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def stop(self):
        self.server.stop(None).wait()

    def named(self, name):
        return [request for method, request in self.calls if method == name]

    def service(self, details):
        method = self._methods[details.method]
        name = method.name.split("/")[1]

        def next_answer(request, context):
            with self._lock:
                self.calls.append((name, request))
                self.metadata.append(dict(context.invocation_metadata()))
                answers = self.answers[name]
                return answers.pop(0) if len(answers) > 1 else answers[0]

        def unary(request, context):
            answer = next_answer(request, context)
            if isinstance(answer, Failure):
                fail(answer, context)
            return answer

        def upload(requests, context):
            requests = list(requests)
            answer = next_answer(requests, context)
            if isinstance(answer, Failure):
                fail(answer, context)
            return answer

        def stream(request, context):
            for answer in next_answer(request, context):
                if isinstance(answer, Failure):
                    fail(answer, context)
                if callable(answer):
                    answer()
                else:
                    yield answer

        codec = {"request_deserializer": method.request.FromString,
                 "response_serializer": method.response.SerializeToString}
        if name in ("WriteFile", "UploadTree"):
            return grpc.stream_unary_rpc_method_handler(upload, **codec)
        if name in ("AttachExec", "WatchEvents", "WatchUsage", "ReadFile", "WatchFiles", "DownloadTree"):
            return grpc.unary_stream_rpc_method_handler(stream, **codec)
        return grpc.unary_unary_rpc_method_handler(unary, **codec)


def fail(failure, context):
    context.set_trailing_metadata([("grpc-status-details-bin", failure.status.SerializeToString())])
    context.abort(failure.code, failure.message)
