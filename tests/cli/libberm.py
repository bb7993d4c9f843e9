"""The real libberm.so for Python tests: messages go in and out as bytes, so the official ones can be compared."""

import ctypes
import os
import pathlib
import select
import time

from berm._gen.berm.v1 import berm_pb2

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = ROOT / os.environ.get("LIBBERM", "build/clients/c/libberm.so")

ON_MESSAGE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
SINK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t)
SOURCE = ctypes.CFUNCTYPE(ctypes.c_ssize_t, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t)
ON_DONE = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
ON_WAKE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class Options(ctypes.Structure):
    _fields_ = [("socket", ctypes.c_char_p), ("address", ctypes.c_char_p), ("token", ctypes.c_char_p),
                ("token_file", ctypes.c_char_p), ("timeout_ms", ctypes.c_int64), ("connect_ms", ctypes.c_int64),
                ("reconnect_ms", ctypes.c_int64), ("silence_ms", ctypes.c_int64), ("traceparent", ctypes.c_char_p)]


class Fd(ctypes.Structure):
    _fields_ = [("fd", ctypes.c_int), ("next", ctypes.c_uint64)]


class Pair(ctypes.Structure):
    _fields_ = [("key", ctypes.c_char * 32), ("value", ctypes.c_char * 128)]


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("name", ctypes.c_char_p), ("grpc_status", ctypes.c_int),
                ("retry", ctypes.c_int), ("message", ctypes.c_char * 512), ("field", ctypes.c_char * 128),
                ("n_metadata", ctypes.c_size_t), ("metadata", Pair * 8)]


class BermError(Exception):
    def __init__(self, error):
        super().__init__(f"{error.name.decode()}: {error.message.decode()}")
        self.name, self.message, self.field = error.name.decode(), error.message.decode(), error.field.decode()
        self.retry = ("never", "later", "check")[error.retry]
        self.metadata = {p.key.decode(): p.value.decode() for p in error.metadata[:error.n_metadata]}


lib = ctypes.CDLL(str(LIBRARY))
pbc = ctypes.CDLL("libprotobuf-c.so.1")
for function in ("berm_client_new", "berm_method_find", "berm_method_request", "berm_method_response", "berm_json",
                 "berm_session_new", "berm_async_new", "berm_async_call"):
    getattr(lib, function).restype = ctypes.c_void_p
pbc.protobuf_c_message_unpack.restype = ctypes.c_void_p
lib.berm_session_write.restype = ctypes.c_size_t
lib.berm_async_dispatch.restype = ctypes.c_size_t
pbc.protobuf_c_message_get_packed_size.restype = ctypes.c_size_t


def to_c(descriptor, message):
    """A message of protobuf-c with the same content."""
    data = message.SerializeToString()
    made = pbc.protobuf_c_message_unpack(ctypes.c_void_p(descriptor), None, ctypes.c_size_t(len(data)), data)
    assert made, "protobuf-c refused the bytes"
    return ctypes.c_void_p(made)


def from_c(pointer, into):
    size = pbc.protobuf_c_message_get_packed_size(ctypes.c_void_p(pointer))
    data = ctypes.create_string_buffer(size)
    pbc.protobuf_c_message_pack(ctypes.c_void_p(pointer), data)
    return into.FromString(data.raw)


def to_json(message):
    """What berm_json says of it; the library must know the type as request or response of some method."""
    name = type(message).__name__
    method, _, kind = name.rpartition("Response")[0] or name.rpartition("Request")[0], "", name
    found = ctypes.c_void_p(lib.berm_method_find(method.encode()))
    assert found, name
    descriptor = lib.berm_method_response(found) if kind.endswith("Response") else lib.berm_method_request(found)
    made = to_c(descriptor, message)
    text = lib.berm_json(made)
    lib.berm_free(made)
    if not text:
        return None
    try:
        return ctypes.string_at(text).decode()
    finally:
        ctypes.CDLL(None).free(ctypes.c_void_p(text))


class Client:
    def __init__(self, socket=None, **options):
        encoded = {k: str(v).encode() if isinstance(v, (str, pathlib.Path)) else v for k, v in options.items()}
        if socket:
            encoded["socket"] = str(socket).encode()
        self.pointer = ctypes.c_void_p(lib.berm_client_new(ctypes.byref(Options(**encoded))))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        lib.berm_client_free(self.pointer)

    def set_wake(self, fd, on_wake):
        self.wake = ON_WAKE(lambda _: on_wake())
        lib.berm_client_set_wake(self.pointer, fd, self.wake, None)

    def call(self, method, request):
        """One answer, as the official message."""
        found = ctypes.c_void_p(lib.berm_method_find(method.encode()))
        wanted, answer, error = to_c(lib.berm_method_request(found), request), ctypes.c_void_p(), Error()
        r = lib.berm_unary(self.pointer, found, wanted, ctypes.byref(answer), ctypes.byref(error))
        lib.berm_free(wanted)
        if r < 0:
            raise BermError(error)
        try:
            return from_c(answer.value, getattr(berm_pb2, method + "Response"))
        finally:
            lib.berm_free(answer)

    def _stream(self, function, method, request, on_message):
        found = ctypes.c_void_p(lib.berm_method_find(method.encode()))
        wanted, error = to_c(lib.berm_method_request(found), request), Error()
        response = getattr(berm_pb2, method + "Response")
        raised = []

        def on_pointer(pointer, _):
            try:
                return on_message(from_c(pointer, response)) or 0
            except BaseException as reason:  # ctypes would swallow it
                raised.append(reason)
                return 99

        arguments = [found, wanted] if function is lib.berm_stream else [wanted]
        r = function(self.pointer, *arguments, ON_MESSAGE(on_pointer), None, ctypes.byref(error))
        lib.berm_free(wanted)
        if raised:
            raise raised[0]
        if r < 0:
            raise BermError(error)
        return r

    def attach(self, request, on_message):
        return self._stream(lib.berm_exec_attach, "AttachExec", request, on_message)

    def watch(self, request, on_message):
        return self._stream(lib.berm_events_watch, "WatchEvents", request, on_message)

    def watch_files(self, request, on_message):
        return self._stream(lib.berm_files_watch, "WatchFiles", request, on_message)

    def _moved(self, function, first, callback, answer_type, user=None):
        """A call that moves bytes, and its last message."""
        answer, error = ctypes.c_void_p(), Error()
        r = function(self.pointer, first, callback, user, ctypes.byref(answer), ctypes.byref(error))
        lib.berm_free(first)
        if r < 0:
            raise BermError(error)
        try:
            return from_c(answer.value, answer_type) if answer else None
        finally:
            lib.berm_free(answer)

    def _download(self, function, method, request, on_piece, end_type):
        found = ctypes.c_void_p(lib.berm_method_find(method.encode()))
        sink = SINK(lambda _, offset, bytes_, n: on_piece(offset, ctypes.string_at(bytes_, n)) and 1 or 0)
        return self._moved(function, to_c(lib.berm_method_request(found), request), sink, end_type)

    def _upload(self, function, header, source, answer_type):
        def fill(_, offset, into, n):
            data = source(offset, n)
            if isinstance(data, int):
                return data
            ctypes.memmove(into, data, len(data))
            return len(data)

        return self._moved(function, self._header(header), SOURCE(fill), answer_type)

    def _header(self, header):
        return to_c(ctypes.addressof(ctypes.c_char.in_dll(lib, {
            "WriteFileHeader": "berm__v1__write_file_header__descriptor",
            "UploadTreeHeader": "berm__v1__upload_tree_header__descriptor"}[type(header).__name__])), header)

    def read_file(self, request, on_piece):
        return self._download(lib.berm_file_read, "ReadFile", request, on_piece, berm_pb2.ReadFileEnd)

    def download_tree(self, request, on_piece):
        return self._download(lib.berm_tree_download, "DownloadTree", request, on_piece, berm_pb2.DownloadTreeEnd)

    def write_file(self, header, source):
        return self._upload(lib.berm_file_write, header, source, berm_pb2.WriteFileResponse)

    def write_file_from(self, header, file):
        """Of a descriptor, by libberm's own source; and the byte that follows those it took."""
        local = Fd(file.fileno(), 0)
        answer = self._moved(lib.berm_file_write, self._header(header), lib.berm_fd_source, berm_pb2.WriteFileResponse,
                             ctypes.byref(local))
        return answer, local.next

    def upload_tree(self, header, source):
        return self._upload(lib.berm_tree_upload, header, source, berm_pb2.UploadTreeResponse)

    def session(self, first):
        return Session(self, first)

    def stream(self, method, request, on_message):
        return self._stream(lib.berm_stream, method, request, on_message)

    def feed(self, exec_id, data, offset=0):
        at, error = ctypes.c_uint64(offset), Error()
        r = lib.berm_exec_feed(self.pointer, exec_id.encode(), ctypes.byref(at), data,
                               ctypes.c_size_t(len(data)), ctypes.byref(error))
        if r < 0:
            raise BermError(error)
        return at.value


class Session:
    def __init__(self, client, first):
        found = ctypes.c_void_p(lib.berm_method_find(b"Interact"))
        self.first = to_c(lib.berm_method_request(found), first)
        self.pointer = ctypes.c_void_p(lib.berm_session_new(client.pointer, self.first))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        lib.berm_session_free(self.pointer)
        lib.berm_free(self.first)

    def write(self, data):
        return lib.berm_session_write(self.pointer, data, ctypes.c_size_t(len(data)))

    def end_input(self):
        lib.berm_session_end_input(self.pointer)

    def run(self, on_message):
        error = Error()
        callback = ON_MESSAGE(lambda pointer, _: on_message(from_c(pointer, berm_pb2.InteractResponse)) or 0)
        r = lib.berm_session_run(self.pointer, callback, None, ctypes.byref(error))
        if r < 0:
            raise BermError(error)
        return r


class Async:
    """Calls that do not wait; a call answers a Pending, and run() turns the loop until all have ended."""

    def __init__(self, socket):
        self.options = Options(socket=str(socket).encode())
        self.pointer = ctypes.c_void_p(lib.berm_async_new(ctypes.byref(self.options)))
        self.pending = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        lib.berm_async_free(self.pointer)

    def call(self, method, request, on_message=None):
        self.pending.append(Pending(self, method, request, on_message))
        return self.pending[-1]

    def dispatch(self):
        return lib.berm_async_dispatch(self.pointer)

    def run(self, seconds=60):
        poll, deadline = select.poll(), time.monotonic() + seconds
        poll.register(lib.berm_async_fd(self.pointer), select.POLLIN)
        while self.dispatch() > 0:
            assert time.monotonic() < deadline
            poll.poll(1000)


class Pending:
    """`r` once it has ended, and `answer` or `error`."""

    def __init__(self, loop, method, request, on_message):
        self.r = self.answer = self.error = None
        response = getattr(berm_pb2, method + "Response")
        found = ctypes.c_void_p(lib.berm_method_find(method.encode()))
        wanted = to_c(lib.berm_method_request(found), request)

        def on_done(r, answer, error, _):
            self.r = r
            self.answer = from_c(answer, response) if answer else None
            self.error = BermError(Error.from_address(error)) if error else None

        self.callbacks = (ON_MESSAGE(lambda m, _: on_message(from_c(m, response)) or 0) if on_message else
                          ctypes.cast(None, ON_MESSAGE), ON_DONE(on_done))
        self.pointer = lib.berm_async_call(loop.pointer, found, wanted, *self.callbacks, None)
        lib.berm_free(wanted)

    def cancel(self):
        lib.berm_pending_cancel(ctypes.c_void_p(self.pointer))
