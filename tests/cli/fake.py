"""A daemon that is not there yet, and a road to it that breaks.

Fake is grpcio's own server with just enough of the contract to tell whether a client keeps RETRY and BEAT: output
by offset, events by sequence, answers remembered by request id. Road carries bytes to it and cuts or stalls after
as many as it is told, wherever in a frame that falls.
"""

import concurrent.futures
import contextlib
import os
import random
import socket
import threading
import time

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from berm._gen.berm.v1 import berm_pb2 as pb
from berm._gen.berm.v1 import berm_pb2_grpc


def fail(context, code, reason, message, retry, **metadata):
    """Ends a call as bermd does."""
    info = error_details_pb2.ErrorInfo(reason=reason, domain="berm", metadata={"retry": retry, **metadata})
    detail = any_pb2.Any()
    detail.Pack(info)
    status = status_pb2.Status(code=code.value[0], message=message, details=[detail])
    context.set_trailing_metadata([("grpc-status-details-bin", status.SerializeToString())])
    context.abort(code, message)


class Fake(berm_pb2_grpc.ExecServiceServicer, berm_pb2_grpc.SandboxServiceServicer,
           berm_pb2_grpc.SystemServiceServicer, berm_pb2_grpc.FileServiceServicer):
    """Serves one program's output and one line of events; counts what it is asked."""

    def __init__(self, path):
        self.path = path
        self.output = {pb.OUTPUT_STREAM_STDOUT: b"", pb.OUTPUT_STREAM_STDERR: b""}
        self.chunk = 1000
        self.events = 0           # how many there are
        self.end_after = None     # messages after which a stream ends with DRAINING
        self.fail_next = []       # (code, reason, retry) for the next calls
        self.quiet = threading.Event()   # a stream says nothing more while it is set
        self.asked = []           # every request
        self.answers = {}         # by request id
        self.acks = []
        self.stdin = b""
        self.stdin_takes = 1 << 20
        self.tree = b""           # what DownloadTree sends
        self.server = None

    def start(self):
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=32))
        berm_pb2_grpc.add_ExecServiceServicer_to_server(self, self.server)
        berm_pb2_grpc.add_SandboxServiceServicer_to_server(self, self.server)
        berm_pb2_grpc.add_SystemServiceServicer_to_server(self, self.server)
        berm_pb2_grpc.add_FileServiceServicer_to_server(self, self.server)
        assert self.server.add_insecure_port(f"unix:{self.path}")
        self.server.start()

    def stop(self, grace=None):
        self.server.stop(grace).wait()

    def note(self, request, context):
        self.asked.append(request)
        self.metadata = dict(context.invocation_metadata())
        if self.fail_next:
            code, reason, retry = self.fail_next.pop(0)
            fail(context, code, reason, f"as told: {reason}", retry, exec_id="ex-1")

    def Ping(self, request, context):
        self.note(request, context)
        return pb.PingResponse(payload=request.payload)

    def CreateSandbox(self, request, context):
        self.note(request, context)
        return pb.CreateSandboxResponse(sandbox=pb.Sandbox(sandbox_id="sb-1", state=pb.SANDBOX_STATE_READY))

    def StartExec(self, request, context):
        """Remembers by request id, as IDEMP-1 asks."""
        self.note(request, context)
        if request.request_id not in self.answers:
            self.answers[request.request_id] = f"ex-{len(self.answers) + 1}"
        return pb.StartExecResponse(exec=pb.Exec(exec_id=self.answers[request.request_id]))

    def RunExec(self, request, context):
        """Without a program, never ends by itself."""
        self.note(request, context)
        if not request.spec.argv:
            self.quiet.wait(30)
        return pb.RunExecResponse(exec=pb.Exec(exec_id="ex-1", exit=pb.ExitStatus(code=7)), stdout_data=request.stdin_data)

    def StatFile(self, request, context):
        self.note(request, context)
        return pb.StatFileResponse(info=pb.FileInfo(path="/tree", type=pb.FILE_TYPE_DIRECTORY))

    def DownloadTree(self, request, context):
        self.note(request, context)
        yield pb.DownloadTreeResponse(sequence=1, data=self.tree)
        yield pb.DownloadTreeResponse(sequence=2, end=pb.DownloadTreeEnd())

    def AckOutput(self, request, context):
        self.note(request, context)
        self.acks.append(request)
        return pb.AckOutputResponse()

    def WriteStdin(self, request, context):
        self.note(request, context)
        assert request.offset <= len(self.stdin)
        data = request.data[len(self.stdin) - request.offset:][:self.stdin_takes]
        self.stdin += data
        return pb.WriteStdinResponse(next_offset=len(self.stdin))

    def _exec(self):
        return pb.Exec(exec_id="ex-1", sandbox_id="sb-1", output=[
            pb.OutputState(stream=s, end_offset=len(d)) for s, d in self.output.items()])

    def AttachExec(self, request, context):
        self.note(request, context)
        n = 1
        yield pb.AttachExecResponse(sequence=n, attached=self._exec())
        at = {pb.OUTPUT_STREAM_STDOUT: request.stdout_offset, pb.OUTPUT_STREAM_STDERR: request.stderr_offset}
        if request.tail_bytes:
            at = {s: max(0, len(d) - request.tail_bytes) for s, d in self.output.items()}
        while any(at[s] < len(d) for s, d in self.output.items()):
            for stream, data in self.output.items():
                if at[stream] < len(data):
                    n += 1
                    piece = data[at[stream]:at[stream] + self.chunk]
                    yield pb.AttachExecResponse(sequence=n, output=pb.OutputChunk(
                        stream=stream, offset=at[stream], data=piece))
                    at[stream] += len(piece)
                if self.end_after and n >= self.end_after:
                    yield pb.AttachExecResponse(end=pb.StreamEnd(reason=pb.STREAM_END_REASON_DRAINING))
                    return
                while self.quiet.is_set() and context.is_active():
                    threading.Event().wait(0.05)
        ended = self._exec()
        ended.exit.code = 7
        yield pb.AttachExecResponse(sequence=n + 1, exited=ended)

    def WatchEvents(self, request, context):
        self.note(request, context)
        at = request.after_sequence if request.WhichOneof("start") == "after_sequence" else 0
        n, caught_up = 0, False
        while at < self.events:
            at += 1
            n += 1
            yield pb.WatchEventsResponse(sequence=at, event=pb.Event(sequence=at, kind=pb.EVENT_KIND_EXEC_SIGNAL))
            if self.end_after and n >= self.end_after:
                yield pb.WatchEventsResponse(sequence=at, end=pb.StreamEnd(reason=pb.STREAM_END_REASON_SLOW_READER))
                return
            if at >= self.events // 2 and not caught_up:     # each stream tells it once
                caught_up = True
                yield pb.WatchEventsResponse(sequence=at, caught_up=pb.CaughtUp())
                yield pb.WatchEventsResponse(sequence=at, heartbeat=pb.Heartbeat(head_sequence=self.events))
        yield pb.WatchEventsResponse(sequence=at, end=pb.StreamEnd(reason=pb.STREAM_END_REASON_COMPLETE))


class Road:
    """A socket whose connections reach another one, each for as many bytes as `budgets` gives next: of answers, or
    of requests too with `both`. At each cut `on_cut` is called first."""

    def __init__(self, path, target, budgets=(), stall=False, both=False, on_cut=lambda: None):
        self.path, self.target, self.budgets, self.stall, self.both = str(path), str(target), iter(budgets), stall, both
        self.on_cut = on_cut
        self.connections = 0
        self.lock = threading.Lock()
        self.open()

    def open(self):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(64)
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()

    def close(self):
        """As when the daemon ends: nobody listens, the path is gone."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        os.unlink(self.path)

    def _accept(self, listener):
        while True:
            try:
                here, _ = listener.accept()
            except OSError:
                return
            self.connections += 1
            there = socket.socket(socket.AF_UNIX)
            try:
                there.connect(self.target)
            except OSError:
                here.close()
                continue
            budget = [next(self.budgets, None)]
            for args in ((here, there, budget if self.both else [None]), (there, here, budget)):
                threading.Thread(target=self._carry, args=args, daemon=True).start()

    def _pay(self, budget, n):
        """How many of n bytes may pass before the cut, which a connection has once, whichever way they go; None: all."""
        with self.lock:
            if budget[0] is None or n < budget[0]:
                budget[0] = None if budget[0] is None else budget[0] - n
                return None
            left, budget[0] = budget[0], None
            return left

    def _carry(self, source, sink, budget):
        try:
            while data := source.recv(65536):
                left = self._pay(budget, len(data))
                sink.sendall(data[:left])
                if left is not None:
                    self.on_cut()
                    if self.stall:
                        threading.Event().wait(60)
                    return
        except OSError:
            pass
        finally:
            for end in (source, sink):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass


# --- a daemon that means harm ---

def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


SETTINGS, HEADERS, DATA, RST, GOAWAY = frame(4, 0, 0), 1, 0, 3, 7
OK = frame(HEADERS, 4, 1, b"\x88")  # :status 200
HARM = {
    "nothing": b"", "http1": b"HTTP/1.1 400 Bad Request\r\n\r\n", "noise": random.Random(0).randbytes(3000),
    "half a frame": SETTINGS + OK[:5], "reset": SETTINGS + frame(RST, 0, 1, bytes(4)),
    "goaway": SETTINGS + frame(GOAWAY, 0, 0, bytes(8)),
    "a huge message": SETTINGS + OK + frame(DATA, 0, 1, b"\0\xff\xff\xff\xff" + bytes(100)),
    "a compressed one": SETTINGS + OK + frame(DATA, 0, 1, b"\1\0\0\0\1x"),
    "not a message": SETTINGS + OK + frame(DATA, 0, 1, b"\0\0\0\0\3\xff\xff\xff"),
    "half a message": SETTINGS + OK + frame(DATA, 1, 1, b"\0\0\0\0\x09ab"),
    "no status": SETTINGS + OK + frame(DATA, 1, 1, b"\0\0\0\0\0"),
    "another status": SETTINGS + frame(HEADERS, 5, 1, b"\x8d"),  # 404 and the end
    "frames of nobody": SETTINGS + frame(DATA, 0, 9, b"x" * 50),
    "a push": SETTINGS + frame(5, 4, 1, bytes([0, 0, 0, 2, 0x88])),
}


@contextlib.contextmanager
def harmful(path, what):
    """Answers every connection with the same bytes and nothing more."""
    def serve(listener):
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer, contextlib.suppress(OSError):
                peer.recv(65536)
                time.sleep(0.02)
                peer.sendall(HARM[what])
                peer.shutdown(socket.SHUT_WR)
                peer.recv(65536)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        yield
        listener.shutdown(socket.SHUT_RDWR)
