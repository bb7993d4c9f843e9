"""What the tests of FileService share: the streams as plain functions."""

import contextlib
import io
import tarfile

import grpc

from control import TIMEOUT_S, pb, translate

CHUNK = 256 << 10
REGULAR, DIRECTORY, SYMLINK, FIFO, SOCKET, DEVICE = range(1, 7)
READ, WRITE, EDIT, MAKE_DIR, REMOVE, RENAME, UPLOAD, DOWNLOAD, GREP = range(1, 10)
CREATED, MODIFIED, REMOVED, RENAMED, ATTRIBUTES = range(1, 6)
GZIP = pb.TREE_COMPRESSION_GZIP


def named(path, key="path"):
    """The fields for a path of any bytes."""
    if isinstance(path, bytes):
        return {f"raw_{key}": path}
    return {key: path}


def name_of(info):
    return info.path or info.raw_path


class Read:
    """A file as it came, held to FILE-1."""

    def __init__(self, messages):
        self.data, self.info, self.end, number = b"", None, None, 0
        for message in messages:
            number += 1
            part = message.WhichOneof("part")
            assert self.end is None, "something came after the end"
            assert (part == "info") == (number == 1), f"message {number} is {part}"
            if part == "info":
                self.info = message.info
            elif part == "chunk":
                assert 1 <= len(message.chunk.data) <= CHUNK
                if not self.data:
                    self.offset = message.chunk.offset
                assert message.chunk.offset == self.offset + len(self.data)
                self.data += message.chunk.data
            else:
                self.end = message.end
        assert self.end is not None and self.end.total_bytes == len(self.data)


def read_all(client, box, path, **fields):
    return Read(client.stream("ReadFile", sandbox_id=box, **named(path), **fields))


def read(client, box, path, **fields):
    return read_all(client, box, path, **fields).data


def pieces(data, size=1 << 20):
    return [data[at:at + size] for at in range(0, len(data), size)]


def write_header(box, path, mode=None, size=None, **fields):
    if mode is not None:
        fields["mode"] = pb.FileMode(bits=mode)
    if size is not None:
        fields["size"] = pb.ExpectedSize(size_bytes=size)
    return pb.WriteFileRequest(header=pb.WriteFileHeader(sandbox_id=box, **named(path), **fields))


def send(client, method, messages, timeout=TIMEOUT_S):
    try:
        return client.method(method)(iter(messages), timeout=timeout)
    except grpc.RpcError as error:
        raise translate(error) from None


def write(client, box, path, data=b"", chunks=None, **fields):
    """WriteFile of these bytes, or of these messages."""
    def messages():
        yield write_header(box, path, **fields)
        for piece in pieces(data) if chunks is None else chunks:
            yield pb.WriteFileRequest(data=piece)
    return send(client, "WriteFile", messages())


def upload(client, box, path, archive, size=100000, **fields):
    def messages():
        yield pb.UploadTreeRequest(header=pb.UploadTreeHeader(sandbox_id=box, **named(path), **fields))
        for piece in pieces(archive, size):
            yield pb.UploadTreeRequest(data=piece)
    return send(client, "UploadTree", messages())


def download(client, box, path, **fields):
    """The bytes of the stream and its end."""
    data, end = [], None
    for number, message in enumerate(client.stream("DownloadTree", sandbox_id=box, **named(path), **fields), 1):
        assert end is None and message.sequence >= number
        if message.HasField("end"):
            end = message.end
        else:
            assert 1 <= len(message.data) <= CHUNK
            data.append(message.data)
    assert end is not None
    return b"".join(data), end


def tar(*members, mode="w", **options):
    """An archive of (TarInfo or name, bytes)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode, **options) as archive:
        for what, data in members:
            info = what if isinstance(what, tarfile.TarInfo) else tarfile.TarInfo(what)
            info.size = len(data or b"")
            archive.addfile(info, io.BytesIO(data or b""))
    return out.getvalue()


def entry(name, kind, **fields):
    info = tarfile.TarInfo(name)
    info.type = kind
    for key, value in fields.items():
        setattr(info, key, value)
    return info


def untar(data):
    """{name: bytes, or None for what is no regular file}"""
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:*") as archive:
        return {m.name: archive.extractfile(m).read() if m.isreg() else None for m in archive}


def stat(client, box, path, **fields):
    return client.ask("StatFile", sandbox_id=box, **named(path), **fields).info


def listed(client, box, path, **fields):
    """Every page of ListFiles."""
    found, token = [], ""
    while True:
        page = client.ask("ListFiles", sandbox_id=box, page_token=token, **named(path), **fields)
        found += page.entries
        token = page.next_page_token
        if not token:
            return found


def file_events(client, box, after=0):
    return [e for e in client.events(after=after, sandbox_ids=[box]) if e.HasField("file")]


class Watch:
    """A stream of WatchFiles whose first message has come."""

    def __init__(self, client, box, path, **fields):
        self.stream = client.stream("WatchFiles", sandbox_id=box, **named(path), **fields)
        first = next(self.stream)
        assert first.HasField("watching") and first.sequence == 1
        self.info = first.watching

    def __iter__(self):
        return self.stream

    def until(self, wanted):
        """Messages up to the first that is wanted, that included."""
        seen = []
        for message in self.stream:
            seen.append(message)
            if wanted(message):
                return seen
        raise AssertionError(f"the stream ended: {seen}")

    def close(self):
        with contextlib.suppress(Exception):
            self.stream.close()
