"""File calls across pauses, ends and restarts; repeats of them; sandboxes that mean harm."""

import concurrent.futures
import contextlib
import os
import pathlib
import signal
import tempfile
import threading
import time

import grpc
import pytest

from control import DELETED, TIMEOUT_S, SLOW, Lost, Refused, at_once, eventually, fresh, pb, refused
from files import (CHUNK, READ, REMOVE, RENAME, WRITE, Read, Watch, download, file_events, listed, named, read,
                   read_all, send, stat, tar, upload, write, write_header)


def everything(client, box):
    """Every method once, as functions."""
    return {
        "ReadFile": lambda: read(client, box, "a"), "WriteFile": lambda: write(client, box, "b", b"1"),
        "StatFile": lambda: stat(client, box, "a"), "ListFiles": lambda: listed(client, box, "."),
        "MakeDir": lambda: client.ask("MakeDir", sandbox_id=box, path="d"),
        "Remove": lambda: client.ask("Remove", sandbox_id=box, path="x"),
        "Rename": lambda: client.ask("Rename", sandbox_id=box, path="a", new_path="z"),
        "WatchFiles": lambda: Watch(client, box, "."), "UploadTree": lambda: upload(client, box, "t", tar()),
        "DownloadTree": lambda: download(client, box, "."),
        "EditFile": lambda: client.ask("EditFile", sandbox_id=box, path="a", edits=[pb.TextEdit(old_text="1")]),
        "Grep": lambda: client.ask("Grep", sandbox_id=box, pattern="1"),
        "Glob": lambda: client.ask("Glob", sandbox_id=box, pattern="*"),
    }


class Upload:
    """A WriteFile or UploadTree that is fed by hand."""

    def __init__(self, client, header, method="WriteFile"):
        self.items, self.more, self.is_over, self.is_asked = [header], threading.Condition(), False, False
        self.type = type(header)
        self.call = client.method(method).future(self.messages(), timeout=TIMEOUT_S)

    def messages(self):
        while True:
            with self.more:
                self.is_asked = not self.items
                self.more.notify_all()
                self.more.wait_for(lambda: self.items or self.is_over)
                if not self.items:
                    return
                item = self.items.pop(0)
            yield item

    def put(self, data):
        with self.more:
            self.items.append(self.type(data=data))
            self.is_asked = False
            self.more.notify_all()

    def wait_sent(self):
        """All that was put is on the connection, before anything that is asked from now on; or the call is over."""
        eventually(lambda: self.is_asked or self.call.done(), "that it was sent")

    def end(self):
        with self.more:
            self.is_over = True
            self.more.notify_all()

    def cancel(self):
        self.call.cancel()
        self.end()

    def result(self):
        from control import translate
        try:
            return self.call.result()
        except grpc.RpcError as error:
            raise translate(error) from None


def open_files(daemon, box):
    """Descriptors the guest has besides its own few: what uploads and reads left there."""
    return len(os.listdir(f"/proc/{daemon.guest_pid(box)}/fd"))


# ---- states

def test_no_call_waits_for_a_sandbox_that_is_not_ready(client, box):
    """covers: SBX-8"""
    write(client, box, "a", b"1")
    client.pause(box)
    for call in everything(client, box).values():
        with refused("SANDBOX_PAUSED", sandbox_id=box):
            call()
    client.resume(box)
    assert read(client, box, "a") == b"1"
    client.stop(box)
    for call in everything(client, box).values():
        with refused("SANDBOX_STOPPED", sandbox_id=box):
            call()
    client.start(box)
    assert read(client, box, "a") == b"1"
    client.delete(box)
    for call in everything(client, box).values():
        with refused("SANDBOX_DELETED", sandbox_id=box):
            call()


def test_a_pause_in_the_middle(client, box):
    """Calls under way fail at once; none hangs on a frozen guest. covers: SBX-8, FILE-4"""
    client.output_of(box, "truncate -s 1G sparse; echo old > f")
    reading = client.stream("ReadFile", sandbox_id=box, path="sparse")
    assert next(reading).HasField("info")
    writing = Upload(client, write_header(box, "f"))
    writing.put(b"new")
    writing.wait_sent()
    watch = Watch(client, box, ".")
    client.pause(box)
    with refused("SANDBOX_PAUSED", sandbox_id=box):
        list(reading)
    with refused("SANDBOX_PAUSED", sandbox_id=box):
        writing.result()
    with refused("SANDBOX_PAUSED", sandbox_id=box):
        list(watch)
    writing.end()
    client.resume(box)
    assert read(client, box, "f") == b"old\n"
    assert {os.path.basename(e.path) for e in listed(client, box, ".")} == {"sparse", "f"}


def test_the_guest_dies_in_the_middle(daemon, client, box):
    """covers: FILE-4, SKEW-1"""
    client.output_of(box, "truncate -s 1G sparse; echo old > f")
    reading = client.stream("ReadFile", sandbox_id=box, path="sparse")
    next(reading)
    writing = Upload(client, write_header(box, "f"))
    writing.put(b"new")
    writing.wait_sent()
    stat(client, box, "f")
    daemon.kill_guest(box)
    for call in (lambda: list(reading), writing.result):
        with pytest.raises(Refused) as caught:
            call()
        assert caught.value.reason in ("GUEST_LOST", "SANDBOX_STOPPED"), caught.value
    writing.end()
    client.wait_state(box, 5)
    client.start(box)
    assert read(client, box, "f") == b"old\n"


# ---- uploads that break off

@pytest.mark.parametrize("how", ["cancel", "deadline", "connection"])
def test_an_upload_that_breaks_off_leaves_nothing(daemon, client, box, how):
    """covers: FILE-4, IDEMP-7"""
    write(client, box, "f", b"old", mode=0o600)
    before = open_files(daemon, box)
    for number in range(80):             # more than there can be open
        other = daemon.client() if how == "connection" else client
        if how == "deadline":
            is_over = threading.Event()

            def slowly():
                yield write_header(box, "f")
                yield pb.WriteFileRequest(data=b"new")
                is_over.wait(TIMEOUT_S)
            with pytest.raises((Lost, Refused)):
                send(client, "WriteFile", slowly(), timeout=0.2)
            is_over.set()
            if number == 5:
                break
            continue
        upload_ = Upload(other, write_header(box, "f", request_id="broken"))
        upload_.put(b"x" * 300000)
        if number % 2:
            upload_.wait_sent()
            stat(client, box, "f")       # the guest has been asked by now
        if how == "cancel":
            upload_.cancel()
        else:
            other.close()
            upload_.end()
    eventually(lambda: open_files(daemon, box) <= before, lambda: f"{open_files(daemon, box)} files, not {before}")
    assert read(client, box, "f") == b"old"
    assert len(listed(client, box, ".")) == 1
    assert len([e for e in file_events(client, box) if e.file.operation == WRITE]) == 1
    write(client, box, "f", b"new", request_id="broken")
    assert read(client, box, "f") == b"new"


def test_readers_that_go_leave_nothing(daemon, client, box):
    """covers: FILE-6, AUDIT-2"""
    client.output_of(box, "truncate -s 1G sparse")
    before = open_files(daemon, box)
    for number in range(100):
        call = client.method("ReadFile")(pb.ReadFileRequest(sandbox_id=box, path="sparse"))
        if number % 3:
            next(call)
        call.cancel()
    eventually(lambda: open_files(daemon, box) <= before, "as many open files as before")
    def reads():       # recorded without anybody waiting for it
        return len([e for e in file_events(client, box) if e.file.operation == READ])
    eventually(lambda: reads() >= 60, lambda: f"60 events, not {reads()}")
    assert reads() <= 100


def test_files_open_at_once_are_bounded(daemon, client, box):
    """covers: FILE-6"""
    before = open_files(daemon, box)
    uploads = [Upload(client, write_header(box, f"f{i}")) for i in range(64)]
    for number, upload_ in enumerate(uploads):
        upload_.put(b"%d" % number)
    eventually(lambda: open_files(daemon, box) >= before + 64, "64 open files")
    eventually(lambda: is_full(client, box), "no place for another")
    assert stat(client, box, ".").type         # what needs none goes on
    for upload_ in uploads:
        upload_.end()
    for upload_ in uploads:
        upload_.result()
    assert [read(client, box, f"f{i}") for i in (0, 33, 63)] == [b"0", b"33", b"63"]


def is_full(client, box):
    try:
        read(client, box, "/etc/passwd")
    except Refused as error:
        assert error.reason == "LIMIT_REACHED", error
        return True
    return False


# ---- repeats

def test_a_call_cancelled_before_the_guest_was_asked_leaves_its_request_id_free(daemon, client, box):
    """The daemon finds the call and its cancellation at once; the guest is never asked, so a repeat acts."""
    write(client, box, "f", b"one")
    request = pb.EditFileRequest(sandbox_id=box, path="f", request_id="edit",
                                 edits=[pb.TextEdit(old_text="one", new_text="two")])
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        under_way = client.method("EditFile").future(request, timeout=TIMEOUT_S)
        time.sleep(.2)      # until it is sent
        under_way.cancel()
        time.sleep(.2)
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    assert client.ask("EditFile", sandbox_id=box, path="f", request_id="edit", edits=request.edits).replacements == 1
    assert read(client, box, "f") == b"two"


def test_repeats_are_answered_as_the_first(client, box):
    """covers: IDEMP-1, IDEMP-3, IDEMP-6"""
    calls = {
        "MakeDir": {"path": "d"}, "Rename": {"path": "d", "new_path": "e"},
        "Remove": {"path": "e"},
    }
    after = client.events()[-1].sequence
    for method, fields in calls.items():
        first = client.ask(method, sandbox_id=box, request_id=method, **fields)
        assert client.ask(method, sandbox_id=box, request_id=method, **fields) == first
        with refused("REQUEST_ID_REUSED"):
            client.ask(method, **{"sandbox_id": box, "request_id": method, **fields, "path": "other"})
    write(client, box, "f", b"aXb")
    edit = {"path": "f", "edits": [pb.TextEdit(old_text="X", new_text="XX")]}
    first = client.ask("EditFile", sandbox_id=box, request_id="edit", **edit)
    assert client.ask("EditFile", sandbox_id=box, request_id="edit", **edit) == first
    assert read(client, box, "f") == b"aXXb"
    assert len([e for e in file_events(client, box, after) if e.file.operation != READ]) == 5
    client.delete(box)
    assert client.ask("EditFile", sandbox_id=box, request_id="edit", **edit) == first


def test_repeats_of_uploads(daemon, client, box):
    """covers: IDEMP-7"""
    first = write(client, box, "f", b"one", request_id="w")
    assert write(client, box, "f", b"two, which is not looked at", request_id="w") == first
    with refused("REQUEST_ID_REUSED"):
        write(client, box, "g", b"one", request_id="w")
    trees = upload(client, box, "t", tar(("a", b"1")), request_id="t")
    assert upload(client, box, "t", b"", request_id="t") == trees
    daemon.kill()
    daemon.start()
    assert write(client, box, "f", b"three", request_id="w") == first
    assert upload(client, box, "t", b"", request_id="t") == trees
    assert read(client, box, "f") == b"one"


def test_a_repeat_waits_for_the_first(client, box):
    """covers: IDEMP-2, IDEMP-7"""
    first = Upload(client, write_header(box, "f", request_id="same"))
    first.put(b"first")
    first.wait_sent()
    stat(client, box, ".")
    second = Upload(client, write_header(box, "f", request_id="same"))
    second.put(b"second")
    second.end()
    time.sleep(0.2)
    assert not second.call.done()
    first.end()
    assert second.result() == first.result()
    assert read(client, box, "f") == b"first"
    third = Upload(client, write_header(box, "g", request_id="other"))
    third.put(b"third")
    third.wait_sent()
    stat(client, box, ".")
    fourth = Upload(client, write_header(box, "g", request_id="other"))
    fourth.put(b"fourth")
    fourth.end()
    third.cancel()                       # it broke off: the repeat is carried out
    fourth.result()
    assert read(client, box, "g") == b"fourth"


def test_many_at_once_act_once(client, box):
    """covers: IDEMP-2"""
    write(client, box, "f", b"x")
    edits = [pb.TextEdit(old_text="x", new_text="xx")]
    answers = at_once([lambda: client.ask("EditFile", sandbox_id=box, path="f", edits=edits, request_id="e",
                                          )] * 12)
    assert all(a == answers[0] for a in answers), answers
    assert read(client, box, "f") == b"xx"


@pytest.mark.parametrize("point", ["file.send", "file.ack", "file.reply"])
@pytest.mark.parametrize("what", ["write", "remove", "rename", "edit"])
def test_killed_in_the_middle(make, point, what):
    """A daemon that is killed around a change, and the repeat that follows. covers: IDEMP-1, IDEMP-4, IDEMP-7"""
    daemon = make().start()
    client = daemon.client()
    box = client.create().sandbox_id
    write(client, box, "f", b"one two")
    ask = {
        "write": lambda: write(client, box, "f", b"new", request_id="r"),
        "remove": lambda: client.ask("Remove", sandbox_id=box, path="f", request_id="r"),
        "rename": lambda: client.ask("Rename", sandbox_id=box, path="f", new_path="g", request_id="r"),
        "edit": lambda: client.ask("EditFile", sandbox_id=box, path="f", request_id="r",
                                   edits=[pb.TextEdit(old_text="one", new_text="one one")]),
    }[what]
    daemon.stop()
    daemon.start(BERM_FAILPOINT=point)
    with pytest.raises(Lost):
        ask()
    daemon.process.wait(60)
    daemon.start()
    try:
        ask()
    except Refused as error:             # it may have happened, and says so
        assert what == "edit" and error.reason == "GUEST_LOST", error
    names = [os.path.basename(e.path) for e in listed(client, box, ".")]
    if what == "write":
        assert read(client, box, "f") == b"new"
    elif what == "edit":
        assert read(client, box, "f") in (b"one one two", b"one two")
    else:
        assert names == {"remove": [], "rename": ["g"]}[what]
    assert not any(name.startswith(".berm") for name in names)


# ---- restarts

def test_a_restart_in_the_middle(daemon, client, box):
    """covers: FILE-4"""
    client.output_of(box, "truncate -s 1G sparse; echo old > f")
    reading = client.stream("ReadFile", sandbox_id=box, path="sparse")
    next(reading)
    writing = Upload(client, write_header(box, "f"))
    writing.put(b"new")
    tree = Upload(client, pb.UploadTreeRequest(header=pb.UploadTreeHeader(sandbox_id=box, path="t")), "UploadTree")
    tree.put(tar(("a", b"1"), ("b", bytes(100000)))[:9000])
    writing.wait_sent(), tree.wait_sent()
    stat(client, box, "f")
    daemon.kill()
    for call in (lambda: list(reading), writing.result, tree.result):
        with pytest.raises(Lost):
            call()
    writing.end(), tree.end()
    daemon.start()
    assert read(client, box, "f") == b"old\n"
    assert not [e.path for e in listed(client, box, ".") if "berm-" in e.path]
    write(client, box, "f", b"new")


def test_a_daemon_that_stops(daemon, client, box):
    """covers: FILE-11, RPC-25"""
    watch = Watch(client, box, ".")
    daemon.stop()
    assert list(watch)[-1].end.reason == pb.STREAM_END_REASON_DRAINING
    daemon.start()


# ---- sandboxes that mean harm

def test_files_that_grow_and_shrink(client, box):
    """covers: FILE-2, FILE-6"""
    client.output_of(box, "head -c 3000000 /dev/zero > f")
    stream = client.stream("ReadFile", sandbox_id=box, path="f")
    first = [next(stream)]
    client.output_of(box, "head -c 3000000 /dev/urandom >> f")
    got = Read([*first, *stream])
    assert got.data == bytes(3000000) and not got.end.shrunk     # as large as it was when opened
    assert len(read(client, box, "f", offset=1, max_bytes=1 << 40)) == 5999999
    client.output_of(box, "truncate -s 64M f")
    stream = client.stream("ReadFile", sandbox_id=box, path="f")
    first = [next(stream)]
    client.output_of(box, "truncate -s 1000 f")
    got = Read([*first, *stream])
    assert got.end.shrunk and len(got.data) < 64 << 20 and got.info.size_bytes == 64 << 20


def test_a_giant_file(daemon, client, box):
    """covers: FILE-6, FILE-1"""
    client.output_of(box, "truncate -s 900G giant 2>/dev/null || truncate -s 15G giant; printf end >> giant")
    size = stat(client, box, "giant").size_bytes
    assert size > 15 << 30
    assert read(client, box, "giant", offset=size - 10) == bytes(7) + b"end"
    before = resident(daemon)
    stream = client.stream("ReadFile", sandbox_id=box, path="giant")
    total = 0
    for message in stream:
        total += len(message.chunk.data)
        if total > 256 << 20:
            break
    stream.close()
    assert resident(daemon) - before < 32 << 20


def resident(daemon):
    with open(f"/proc/{daemon.process.pid}/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_files_that_report_no_size(client, box):
    """covers: FILE-2"""
    got = read_all(client, box, "/proc/cpuinfo")
    assert got.info.size_bytes == 0 and b"processor" in got.data and not got.end.shrunk
    assert read(client, box, "/proc/cpuinfo", max_bytes=9) == b"processor"
    assert read(client, box, "/proc/version", offset=6) == read(client, box, "/proc/version")[6:]
    with refused("OFFSET_BEYOND_END"):
        read(client, box, "/proc/version", offset=1 << 20)


def test_a_file_of_a_process_that_ends(client, box):
    """/proc/self is whoever opened it, and that one is on its way out: its file, or none, and no fault of ours.
    covers: FILE-2"""
    outcomes = set()
    for _ in range(500):
        try:
            assert read(client, box, "/proc/self/stat").endswith(b"\n")
        except Refused as error:
            outcomes.add(error.reason)
        if "FILE_NOT_FOUND" in outcomes:
            break
    assert outcomes == {"FILE_NOT_FOUND"}


def test_a_race_of_links(client, box):
    """A name that is a file and a link out in turns is one or the other, and never anything outside.
    covers: PATH-6, PATH-7"""
    client.output_of(box, "echo inside > real; mkfifo pipe; ln -s /etc/shadow out; ln -s real in; mkdir dir")
    racer = client.sh(box, "while :; do ln -sf real name; mv -T name x 2>/dev/null; ln -sf pipe name; "
                           "mv -T name x 2>/dev/null; ln -sf /dev/zero name; mv -T name x 2>/dev/null; rm -f x; done")
    outcomes = set()
    for _ in range(300):
        try:
            outcomes.add(read(client, box, "x"))
        except Refused as error:
            outcomes.add(error.reason)
    client.signal(racer.exec_id, 9)
    assert outcomes <= {b"inside\n", "FILE_NOT_FOUND", "NOT_A_REGULAR_FILE", "SYMLINK_LOOP", b""}, outcomes
    with refused("FILE_DENIED"):
        read(client, box, "out")


SWAP = """import ctypes
libc = ctypes.CDLL(None)
while True: libc.renameat2(-100, b"d", -100, b"out", 2)"""     # RENAME_EXCHANGE


def test_a_race_of_links_in_the_middle_of_a_path(client, box, tmp_path):
    """A directory and a link to one of the host's in turns: every method finds the first, or nothing.
    covers: PATH-6, PATH-7"""
    (tmp_path / "f").write_text("canary")
    before = sorted(tmp_path.rglob("*")), (tmp_path / "f").stat().st_mtime_ns
    client.output_of(box, f"mkdir d && echo inside > d/f && ln -s {tmp_path} out")
    racer = client.exec(box, "python3", "-c", SWAP)
    ways = {
        "read": lambda: read(client, box, "d/f"),
        "write": lambda: write(client, box, "d/w", b"1", make_parents=True) and None,
        "edit": lambda: client.ask("EditFile", sandbox_id=box, path="d/f", edits=[pb.TextEdit(old_text="side", new_text="side")]) and None,
        "stat": lambda: stat(client, box, "d/f").size_bytes,
        "list": lambda: len(listed(client, box, "d")) and None,
        "mkdir": lambda: client.ask("MakeDir", sandbox_id=box, path="d/m") and None,
        "rename": lambda: client.ask("Rename", sandbox_id=box, path="d/w", new_path="d/v") and None,
        "grep": lambda: [m.line_text for m in client.ask("Grep", sandbox_id=box, path="d", pattern="canary").matches],
        "download": lambda: b"canary" in download(client, box, "d")[0],
        "upload": lambda: upload(client, box, "d", tar(("u", b"1"))) and None,
        "remove": lambda: client.ask("Remove", sandbox_id=box, path="d/m", recursive=True) and None,
    }
    good = {"None", "7", "[]", "False", str(b"inside\n")}
    outcomes = {name: set() for name in ways}
    for turn in range(1000):
        if turn >= 40 and all(seen & good for seen in outcomes.values()):
            break
        for name, way in ways.items():
            try:
                outcomes[name].add(str(way()))
            except Refused as error:
                outcomes[name].add(error.reason)
    client.signal(racer.exec_id, 9)
    assert outcomes["read"] <= {str(b"inside\n"), "FILE_NOT_FOUND", "SYMLINK_LOOP"}, outcomes
    assert outcomes["stat"] <= {"7", "FILE_NOT_FOUND", "SYMLINK_LOOP"}, outcomes
    assert not {"INTERNAL", "True", "canary"} & set().union(*outcomes.values()), outcomes
    assert all(seen & good for seen in outcomes.values()), str(outcomes)
    assert (sorted(tmp_path.rglob("*")), (tmp_path / "f").stat().st_mtime_ns) == before


def test_writers_and_readers_at_once(client, box):
    """Readers see one file or the other, whole. covers: FILE-4"""
    bodies = [bytes([65 + i]) * (200000 + i) for i in range(4)]
    write(client, box, "f", bodies[0])
    begin = time.monotonic()
    seen = set()

    def is_on():       # a while, and until there was something to see
        return time.monotonic() < begin + (3 if len(seen) > 1 else TIMEOUT_S)

    def writer(body):
        while is_on():
            write(client, box, "f", body)

    def reader():
        while is_on():
            data = read(client, box, "f")
            assert data in bodies, (len(data), set(data))
            seen.add(len(data))

    results = at_once([lambda b=b: writer(b) for b in bodies] + [reader] * 3)
    assert results == [None] * 7, results
    assert len(seen) > 1
    assert len(listed(client, box, ".")) == 1


def test_slow_readers_cost_one_chunk(daemon, client, box):
    """covers: FILE-6, RPC-16"""
    client.output_of(box, "truncate -s 1G sparse")
    before = resident(daemon)
    streams = [client.stream("ReadFile", sandbox_id=box, path="sparse") for _ in range(40)]
    for stream in streams:
        next(stream), next(stream)
    assert read(client, box, "sparse", offset=(1 << 30) - 5) == bytes(5)
    assert resident(daemon) - before < 40 * 4 * CHUNK
    for stream in streams:
        stream.close()


@pytest.fixture
def slow(make):
    """A daemon whose threads wait for the disk within `waiting`."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="berm-control-"))
    return make(directory=directory, env={"BERM_FILE_HOLD": str(directory / "hold")}).start()


@contextlib.contextmanager
def waiting(daemon):
    (daemon.directory / "hold").touch()
    try:
        yield
    finally:
        (daemon.directory / "hold").unlink()


def our_files(daemon):
    """Descriptors of files in sandboxes that the daemon has."""
    links = []
    for entry in pathlib.Path(f"/proc/{daemon.process.pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            links.append(os.readlink(entry))
    return [link for link in links if "large" in link]


def expect_all_else_goes_on(client, box, other):
    assert client.output_of(other, "echo here") == "here\n"
    assert client.output_of(box, "echo there") == "there\n"
    assert stat(client, box, "large").size_bytes and client.info()
    write(client, other, "small", b"1")
    assert read(client, other, "small") == b"1"


def test_a_disk_that_is_waited_for_holds_up_nobody(slow):
    """covers: FILE-19"""
    client = slow.client()
    box, other = client.create().sandbox_id, client.create().sandbox_id
    data = os.urandom(3 * CHUNK + 5)
    write(client, box, "large", data)
    parts = []

    def keep():
        for message in client.stream("ReadFile", sandbox_id=box, path="large"):
            parts.append(message)
            yield message

    with concurrent.futures.ThreadPoolExecutor() as pool:
        with waiting(slow):
            reading = pool.submit(lambda: Read(keep()))
            writing = pool.submit(write, client, other, "large", data)
            eventually(lambda: parts, "the info")
            for _ in range(3):
                expect_all_else_goes_on(client, box, other)
            assert [m.WhichOneof("part") for m in parts] == ["info"] and not writing.done()
        assert reading.result(TIMEOUT_S).data == data and writing.result(TIMEOUT_S).info.size_bytes == len(data)
    assert read(client, other, "large") == data


def test_many_who_wait_for_a_disk(slow):
    """Neither what they hold nor the threads they have are missed by others. covers: FILE-19"""
    client = slow.client()
    box, other = client.create().sandbox_id, client.create().sandbox_id
    client.output_of(box, "truncate -s 1G large; : >empty; echo hello >small")
    with waiting(slow):
        def begin():
            call = client.method("ReadFile")(pb.ReadFileRequest(sandbox_id=box, path="large"), timeout=TIMEOUT_S)
            assert next(call).HasField("info")
            return call
        held = [begin() for _ in range(8)]
        for _ in range(100):
            begin().cancel()
        eventually(lambda: len(our_files(slow)) <= 16, lambda: f"{len(our_files(slow))} files are held")
        assert read(client, box, "empty") == b"" and read(client, box, "small", max_bytes=1 << 20) == b"hello\n"
        client.delete(other)
        client.wait_state(other, DELETED)
        for call in held:
            call.cancel()
    eventually(lambda: not our_files(slow), "all are let go")


def test_a_daemon_that_ends_while_a_disk_is_waited_for(slow):
    """covers: FILE-19"""
    client = slow.client()
    box = client.create().sandbox_id
    client.output_of(box, "truncate -s 1G large")
    with waiting(slow):
        calls = [client.method("ReadFile")(pb.ReadFileRequest(sandbox_id=box, path="large"), timeout=TIMEOUT_S)
                 for _ in range(14)]                    # two of them wait for their turn
        assert all(next(call).HasField("info") for call in calls)
        slow.process.terminate()
        for call in calls:
            assert call.code() != grpc.StatusCode.OK
    assert slow.process.wait(TIMEOUT_S) == 0, slow.text()
    slow.start()
    assert slow.client().run(box, "true").exec.exit.code == 0


@pytest.mark.parametrize("how, code", [("cancel", "CANCELLED"), ("deadline", "DEADLINE_EXCEEDED"), ("connection", "CANCELLED"),
                                       ("stop", "FAILED_PRECONDITION"), ("guest", "UNAVAILABLE")])
def test_readers_that_go_while_the_disk_is_waited_for(slow, how, code):
    """covers: FILE-19"""
    client, reader = slow.client(), slow.client()
    box, other = client.create().sandbox_id, client.create().sandbox_id
    client.output_of(box, "truncate -s 1G large")
    with waiting(slow):
        call = reader.method("ReadFile")(pb.ReadFileRequest(sandbox_id=box, path="large"),
                                         timeout=4 * SLOW if how == "deadline" else TIMEOUT_S)
        assert next(call).HasField("info") and our_files(slow)
        if how == "cancel":
            call.cancel()
        elif how == "connection":
            reader.close()
        elif how == "stop":
            client.stop(box)
        elif how == "guest":
            slow.kill_guest(box)
        with pytest.raises(grpc.RpcError) as failed:
            next(call)
        assert failed.value.code().name == code
        assert client.output_of(other, "echo here") == "here\n"
        assert our_files(slow)              # the thread's, for as long as it waits
    eventually(lambda: not our_files(slow), "that the daemon lets go of the file")
    if how in ("cancel", "deadline", "connection"):
        assert read(client, box, "large", offset=(1 << 30) - 5) == bytes(5)


def test_renames_and_removals_at_once(client, box):
    """covers: FILE-9, FILE-10"""
    client.output_of(box, "for i in $(seq 1 50); do mkdir -p t/$i; touch t/$i/a t/$i/b; done")
    results = at_once([lambda: client.ask("Remove", sandbox_id=box, path="t", recursive=True, missing_ok=True)] * 4)
    reasons = {getattr(r, "reason", "ok") for r in results}
    assert "ok" in reasons and reasons <= {"ok", "FILE_NOT_FOUND", "DIRECTORY_NOT_EMPTY"}, results
    client.ask("Remove", sandbox_id=box, path="t", recursive=True, missing_ok=True)
    assert listed(client, box, ".") == []
    for number in range(20):
        write(client, box, f"f{number}", b"%d" % number)
    results = at_once([lambda n=n: client.ask("Rename", sandbox_id=box, path=f"f{n}", new_path="one") for n in range(20)])
    assert len([r for r in results if not isinstance(r, Refused)]) == 1
    assert {r.reason for r in results if isinstance(r, Refused)} == {"FILE_EXISTS"}
    operations = [e.file.operation for e in file_events(client, box)]
    assert operations.count(RENAME) == 1 and operations.count(REMOVE) >= 1


def test_a_removed_root_is_refused(client, box):
    """covers: FILE-9"""
    for path in ("/", "/workspace", "."):
        with pytest.raises(Refused):
            client.ask("Remove", sandbox_id=box, **named(path), recursive=True)
    assert stat(client, box, "/workspace").type == 2


def test_file_calls_are_use_of_a_sandbox(client):
    """covers: SBX-15"""
    box = client.create(lifetime=pb.Lifetime(idle_ttl_ms=5000)).sandbox_id
    writing = Upload(client, write_header(box, "f"))
    for _ in range(6):                   # longer than its idle time, all in all
        writing.put(b"x")
        time.sleep(1)
    writing.end()
    before = client.get(box).last_activity_unix_ms
    assert writing.result().info.size_bytes == 6
    stat(client, box, "f")
    assert client.get(box).last_activity_unix_ms >= before
    client.wait_state(box, 5)


def test_quiet_streams_have_heartbeats(client, box):
    """covers: BEAT-1, BEAT-2"""
    call = client.method("WatchFiles")(pb.WatchFilesRequest(sandbox_id=box, path="."), timeout=60)
    assert next(call).HasField("watching")
    beat = next(call)
    assert beat.HasField("heartbeat") and beat.sequence == 2 and beat.heartbeat.server_unix_ms
    write(client, box, "f", b"")
    assert next(call).HasField("change")
    call.cancel()


def test_names_are_the_sandboxs_own(daemon, client, box):
    """A path that leads somewhere on the host leads nowhere, or to the sandbox's own. covers: PATH-5, PATH-6"""
    secret = daemon.directory / "secret"
    secret.write_text("of the host")
    secret.chmod(0o644)
    client.output_of(box, f"ln -s {secret} a; ln -s /proc/1/root{secret} b; ln -s /proc/self/cwd c; ln -s / d")
    for path in (str(secret), "a", f"d{secret}"):
        with refused("FILE_NOT_FOUND", sandbox_id=box):
            read(client, box, path)
    for path in ("b", f"c{secret}", f"/proc/1/root{secret}"):     # magic links are not followed at all
        with pytest.raises(Refused):
            read(client, box, path)
    assert secret.read_text() == "of the host"
    with refused("FILE_NOT_FOUND"):
        write(client, box, "a", b"overwritten")
    assert secret.read_text() == "of the host"
