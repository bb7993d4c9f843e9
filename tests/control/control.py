"""What the tests of the control plane share: a real bermd that can be killed and started again, a
client of it on the official grpcio, and a look at what is left on the host."""

import atexit
import contextlib
import fnmatch
import json
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import uuid

import grpc
from google.protobuf import json_format
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from berm._gen.berm.v1 import berm_pb2 as pb, berm_pb2_grpc

ROOT = pathlib.Path(__file__).resolve().parents[2]
BERMD = ROOT / os.environ.get("BERMD", "build/bin/bermd")
TIMEOUT_S = int(os.environ.get("BERM_TEST_TIMEOUT", "60"))  # before a test says that something never came
SLOW = max(1, TIMEOUT_S // 60)   # times that end something, so that it has begun before
WAIT_MS = 60000   # the largest wait_ms: only ever waited for in a failure
OTHER_UIDS = (61234, 61235)
MARK = "BERM_TEST_DAEMON"   # in the environment of a daemon: whose it is

PENDING, READY, PAUSED, STOPPING, STOPPED, FAILED, DELETING, DELETED = range(1, 9)
STARTING, RUNNING, EXITED, LOST = range(1, 5)
STDOUT, STDERR = 1, 2
STUBS = (berm_pb2_grpc.SandboxServiceStub, berm_pb2_grpc.ExecServiceStub, berm_pb2_grpc.FileServiceStub,
         berm_pb2_grpc.SystemServiceStub)
# Each client has connections of its own and comes back at once when a daemon does. The least backoff is the time
# that one attempt has: on a busy machine a daemon may need a while for its first words.
CHANNEL = [("grpc.use_local_subchannel_pool", 1), ("grpc.initial_reconnect_backoff_ms", 50),
           ("grpc.min_reconnect_backoff_ms", 5000), ("grpc.max_reconnect_backoff_ms", 100),
           ("grpc.max_receive_message_length", 8 << 20)]


# ---- errors

class Refused(Exception):
    """An error of the daemon: a row of errors.def, with its details."""

    def __init__(self, code, text, reason, metadata, fields):
        super().__init__(f"{reason}: {text} {metadata} {fields}")
        self.code, self.text, self.reason = code, text, reason
        self.metadata, self.fields = metadata, fields


class Lost(Exception):
    """The connection broke before an answer came, or the call's own deadline passed."""


def translate(error):
    """The daemon's error in an RpcError, or what grpc itself made of a lost connection."""
    status = rpc_status.from_call(error)
    info, fields = error_details_pb2.ErrorInfo(), []
    for detail in status.details if status else ():
        bad = error_details_pb2.BadRequest()
        if detail.Unpack(info) or not detail.Unpack(bad):
            continue
        fields = [v.field for v in bad.field_violations]
    if not info.reason:
        return Lost(f"{error.code()}: {error.details()}")
    return Refused(error.code(), error.details(), info.reason, dict(info.metadata), fields)


class Caught:
    error = None

    def __getattr__(self, name):
        return getattr(self.error, name)


@contextlib.contextmanager
def refused(reason, field=None, **metadata):
    """The block must be refused with this row of errors.def."""
    caught = Caught()
    try:
        yield caught
    except Refused as error:
        assert error.reason == reason, error
        if field is not None:
            assert field in error.fields, error
        for key, value in metadata.items():
            assert error.metadata.get(key) == str(value), error
        caught.error = error
        return
    raise AssertionError(f"not refused, {reason} was expected")


def labels_of(message):
    return {entry.key: entry.value for entry in message}


def pairs(entries):
    return [pb.KeyValue(key=k, value=v) for k, v in entries.items()]


# ---- the client

class Calls:
    """The methods under short names; how a call travels is the subclass's."""

    def create(self, sandbox_id="", wait_ms=WAIT_MS, request_id="", labels=None, env=None, **spec):
        spec = pb.SandboxSpec(labels=pairs(labels or {}), env=pairs(env or {}), **spec)
        return self.ask("CreateSandbox", sandbox_id=sandbox_id, spec=spec, wait_ms=wait_ms,
                        request_id=request_id).sandbox

    def get(self, sandbox_id):
        return self.ask("GetSandbox", sandbox_id=sandbox_id).sandbox

    def list(self, **fields):
        """Every page of ListSandboxes."""
        return self._pages("ListSandboxes", "sandboxes", fields)

    def list_execs(self, **fields):
        return self._pages("ListExecs", "execs", fields)

    def _pages(self, method, member, fields):
        found, token = [], ""
        while True:
            page = self.ask(method, page_token=token, **fields)
            found += getattr(page, member)
            token = page.next_page_token
            if not token:
                return found

    def change(self, what, sandbox_id, wait_ms=WAIT_MS, **fields):
        """Stop, Start, Pause, Resume or Delete."""
        return self.ask(f"{what}Sandbox", sandbox_id=sandbox_id, wait_ms=wait_ms, **fields).sandbox

    def stop(self, sandbox_id, **fields):
        return self.change("Stop", sandbox_id, **fields)

    def start(self, sandbox_id, **fields):
        return self.change("Start", sandbox_id, **fields)

    def pause(self, sandbox_id, **fields):
        return self.change("Pause", sandbox_id, **fields)

    def resume(self, sandbox_id, **fields):
        return self.change("Resume", sandbox_id, **fields)

    def delete(self, sandbox_id, **fields):
        return self.change("Delete", sandbox_id, **fields)

    def update(self, sandbox_id, **fields):
        return self.ask("UpdateSandbox", sandbox_id=sandbox_id, **fields).sandbox

    def exec(self, sandbox_id, *argv, exec_id="", request_id="", incarnation=0, env=None, labels=None, **spec):
        """Starts a program; the keywords are ExecSpec's."""
        spec = pb.ExecSpec(argv=argv, env=pairs(env or {}), labels=pairs(labels or {}), **spec)
        return self.ask("StartExec", sandbox_id=sandbox_id, exec_id=exec_id, spec=spec,
                        request_id=request_id, incarnation=incarnation).exec

    def sh(self, sandbox_id, script, **fields):
        return self.exec(sandbox_id, "sh", "-c", script, **fields)

    def run(self, sandbox_id, *argv, exec_id="", request_id="", stdin=b"", most=0, timeout=TIMEOUT_S, env=None,
            **spec):
        """Runs a program to its end."""
        spec = pb.ExecSpec(argv=argv, env=pairs(env or {}), **spec)
        return self.ask("RunExec", sandbox_id=sandbox_id, exec_id=exec_id, spec=spec, stdin_data=stdin,
                        max_output_bytes=most, request_id=request_id, timeout=timeout)

    def output_of(self, sandbox_id, script, **fields):
        """What a shell script prints; it must succeed."""
        done = self.run(sandbox_id, "sh", "-c", script, **fields)
        assert done.exec.exit.code == 0 and done.exec.exit.WhichOneof("how") == "code", done
        return done.stdout_data.decode()

    def get_exec(self, exec_id):
        return self.ask("GetExec", exec_id=exec_id).exec

    def signal(self, exec_id, number, **fields):
        return self.ask("SignalExec", exec_id=exec_id, signal_number=number, **fields)

    def info(self):
        return self.ask("GetInfo")


class Client(Calls):
    """A grpcio channel to one daemon."""

    def __init__(self, target, *options):
        self.channel = grpc.insecure_channel(target, options=[*CHANNEL, *options])
        self.stubs = [stub(self.channel) for stub in STUBS]

    def close(self):
        self.channel.close()

    def method(self, name):
        return next(getattr(stub, name) for stub in self.stubs if hasattr(stub, name))

    def ask(self, method, timeout=TIMEOUT_S, wait_for_ready=None, **fields):
        try:
            request = getattr(pb, f"{method}Request")(**fields)
            return self.method(method)(request, timeout=timeout, wait_for_ready=wait_for_ready)
        except grpc.RpcError as error:
            raise translate(error) from None

    def stream(self, method, timeout=TIMEOUT_S, **fields):
        """Messages of a server stream, heartbeats left out. Closing the generator cancels the call."""
        call = self.method(method)(getattr(pb, f"{method}Request")(**fields), timeout=timeout)
        return self.messages(call)

    @staticmethod
    def messages(call):
        try:
            for message in call:
                if not message.HasField("heartbeat"):
                    yield message
        except grpc.RpcError as error:
            raise translate(error) from None
        finally:
            call.cancel()

    def write(self, sandbox_id, path, data, **header):
        """Writes a file, in one message of bytes."""
        header = pb.WriteFileHeader(sandbox_id=sandbox_id, path=path, **header)
        parts = [pb.WriteFileRequest(header=header), pb.WriteFileRequest(data=data)]
        try:
            return self.method("WriteFile")(iter(parts), timeout=TIMEOUT_S)
        except grpc.RpcError as error:
            raise translate(error) from None

    def attach(self, exec_id, **fields):
        return self.stream("AttachExec", exec_id=exec_id, **fields)

    def read(self, exec_id, **fields):
        """All output of a program up to its end."""
        reader = Reader(stdout=fields.get("stdout_offset", 0), stderr=fields.get("stderr_offset", 0))
        for message in self.attach(exec_id, **fields):
            reader.take(message)
        assert reader.ended, "the stream ended without exited"
        return reader

    def wait(self, exec_id):
        """How a program ended, once it has."""
        for message in self.attach(exec_id, tail_bytes=1):
            if message.HasField("exited"):
                return message.exited
        raise AssertionError(f"{exec_id}: the stream ended without exited")

    def watch(self, **fields):
        return self.stream("WatchEvents", **fields)

    def events(self, after=0, **fields):
        """All events after a cursor up to now."""
        return [m.event for m in self.watch(after_sequence=after, until_now=True, **fields) if m.HasField("event")]

    def found(self, exec_id):
        """A program that is taken over from the daemon before, once its guest has told of it: a daemon listens
        without those that are slow."""
        eventually(lambda: self.get_exec(exec_id).state != STARTING, f"what became of {exec_id}")
        return self.get_exec(exec_id)

    def wait_state(self, sandbox_id, *states):
        """The event that brought a sandbox into one of these states, once there is one. It begins with
        the sandbox as it stands, so nothing is missed; one that is DELETED is not shown and is asked for."""
        for m in self.watch(now=pb.StartNow(), include_snapshot=True, sandbox_ids=[sandbox_id]):
            if m.HasField("sandbox") and m.sandbox.state in states:
                return m.sandbox
            if m.HasField("caught_up") and DELETED in states and self.get(sandbox_id).state == DELETED:
                return self.get(sandbox_id)
            if m.HasField("event") and m.event.sandbox_state.state in states:
                return self.get(sandbox_id)
        raise AssertionError(f"{sandbox_id} never was in {states}")


class Reader:
    """Output as it comes in, held to OUT-3: numbered messages, offsets without a hole, one end."""

    def __init__(self, stdout=0, stderr=0):
        self.data = {STDOUT: b"", STDERR: b""}
        self.next = {STDOUT: stdout, STDERR: stderr}
        self.from_tail = False
        self.gaps, self.number, self.attached, self.ended, self.end = [], 0, None, None, None

    def take(self, message):
        assert self.ended is None and self.end is None, "something came after the end"
        self.number += 1
        what = message.WhichOneof("event")
        if self.number == 1:
            assert what == "attached", what
            self.attached = message.attached
        elif what == "output":
            chunk = message.output
            assert 1 <= len(chunk.data) <= 65536
            assert chunk.offset == self.next[chunk.stream], (chunk.offset, self.next)
            self.data[chunk.stream] += chunk.data
            self.next[chunk.stream] += len(chunk.data)
        elif what == "gap":
            gap = message.gap
            assert gap.offset == self.next[gap.stream] < gap.next_offset
            self.gaps.append(gap)
            self.next[gap.stream] = gap.next_offset
        elif what == "exited":
            self.ended = message.exited
        elif what == "end":
            self.end = message.end
        else:
            raise AssertionError(f"a second {what}")

    @property
    def stdout(self):
        return self.data[STDOUT]

    @property
    def stderr(self):
        return self.data[STDERR]


class OtherUser(Calls):
    """A client in a process of another uid."""

    def __init__(self, target, uid):
        self.uid = uid
        self.process = subprocess.Popen([sys.executable, __file__, target, str(uid)], text=True, cwd="/",
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env={"PYTHONPATH": str(ROOT / "clients/python")})

    def ask(self, method, timeout=TIMEOUT_S, **fields):
        request = getattr(pb, f"{method}Request")(**fields)
        print(json.dumps({"method": method, "request": json_format.MessageToDict(request), "timeout": timeout}),
              file=self.process.stdin, flush=True)
        answer = json.loads(self.process.stdout.readline())
        if "lost" in answer:
            raise Lost(answer["lost"])
        if "refused" in answer:
            raise Refused(None, *answer["refused"])
        messages = [json_format.ParseDict(m, getattr(pb, f"{method}Response")()) for m in answer["messages"]]
        return messages if answer["streams"] else messages[0]

    def close(self):
        self.process.stdin.close()
        self.process.wait(TIMEOUT_S)
        self.process.stdout.close()


def serve_other_user(target, uid):
    """The other side of OtherUser: everything is imported as root, then root is given up."""
    Client(target).close()      # grpc imports more for its first channel, and the clone may be root's alone
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    client = Client(target)
    for line in sys.stdin:
        asked = json.loads(line)
        request = json_format.ParseDict(asked["request"], getattr(pb, f"{asked['method']}Request")())
        fields = {d.name: v for d, v in request.ListFields()}
        streams = asked["method"] in ("WatchEvents", "AttachExec", "WatchUsage")
        try:
            answer = client.stream(asked["method"], timeout=asked["timeout"], **fields) if streams else [
                client.ask(asked["method"], timeout=asked["timeout"], **fields)]
            out = {"streams": streams, "messages": [json_format.MessageToDict(m) for m in answer]}
        except Refused as e:
            out = {"refused": [e.text, e.reason, e.metadata, e.fields]}
        except Lost as e:
            out = {"lost": str(e)}
        print(json.dumps(out), flush=True)


# ---- the daemon

ROOTS = []   # of daemons that have ended


@atexit.register
def remove_roots():
    for path in ROOTS:
        shutil.rmtree(path, ignore_errors=True)


class Daemon:
    """bermd with a directory of its own; it may be killed and started again."""

    def __init__(self, *arguments, directory=None, env=None):
        self.directory = pathlib.Path(directory or tempfile.mkdtemp(prefix="berm-control-"))
        self.directory.chmod(0o755)
        self.state = self.directory / "state"
        self.socket = self.directory / "bermd.sock"
        self.arguments, self.env = arguments, env or {}
        self.process, self.runs, self.clients = None, 0, []

    @property
    def target(self):
        return f"unix:{self.socket}"

    @property
    def log(self):
        return self.directory / f"bermd.{self.runs}.log"

    def text(self):
        return self.log.read_text(errors="replace")

    def launch(self, *arguments, prefix=(), **env):
        """Starts it, without waiting for anything."""
        self.runs += 1
        if self.runs == 1 and ROOTS and not self.state.exists():
            (self.state / "spawn").mkdir(parents=True, mode=0o700)
            self.state.chmod(0o700)
            ROOTS.pop().rename(self.state / "spawn/roots")
        command = [*prefix, BERMD, "--state", self.state, "--socket", self.socket, *self.arguments, *arguments]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env={**os.environ, **self.env, **env, MARK: str(self.directory)},
                                            start_new_session=True)
        return self

    def start(self, *arguments, prefix=(), **env):
        """Starts it and waits until it listens."""
        self.launch(*arguments, prefix=prefix, **env)
        self.wait_for_log("msg=listening")
        return self

    def wait_for_log(self, pattern, timeout_s=TIMEOUT_S):
        def found():
            assert self.process.poll() is None, (
                f"bermd ended with {self.process.returncode}: {self.text()}\nstill there: {self.describe_processes()}")
            return re.search(pattern, self.text())
        return eventually(found, f"{pattern!r} in the log", timeout_s)

    def client(self, *options):
        self.clients.append(Client(self.target, *options))
        return self.clients[-1]

    def other_user(self, uid=OTHER_UIDS[0]):
        self.clients.append(OtherUser(self.target, uid))
        return self.clients[-1]

    def kill(self):
        """As a crash would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(TIMEOUT_S)

    def stop(self, *, status=0):
        """Asks it to end; it must do so cleanly."""
        self.process.send_signal(signal.SIGTERM)
        self.ended(status)

    def ended(self, status=0):
        try:
            assert self.process.wait(TIMEOUT_S) == status, self.text()
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
        assert "Sanitizer" not in self.text() and "runtime error:" not in self.text(), self.text()

    def is_alive(self):
        return self.process is not None and self.process.poll() is None

    # what it made on the host

    @property
    def cgroup_name(self):
        status = (self.state / "spawn").stat()
        return f"s-{status.st_dev:x}-{status.st_ino:x}"

    def instances(self):
        """Sandboxes that live in an instance made ahead, as {name of the instance: id}."""
        try:
            with contextlib.closing(sqlite3.connect(f"file:{self.state}/berm.db?mode=ro", uri=True)) as db:
                return dict(db.execute("SELECT instance, id FROM sandboxes WHERE instance <> ''"))
        except sqlite3.OperationalError:    # there is none, or it is of an older version
            return {}

    def all_cgroups(self):
        """Everything that has a cgroup anywhere, as {name of the instance: [directories]}."""
        found = {}
        for root in cgroup_roots():
            for path in children(root / "berm" / self.cgroup_name, "[!.]*/"):      # not those kept for the next one
                found.setdefault(path.name, []).append(path)
        return found

    def cgroups(self):
        """Sandboxes that have a cgroup anywhere, as {id: [directories]}; parked ones are nobody's."""
        found, instances = self.all_cgroups(), self.instances()
        return {instances.get(name, name): paths for name, paths in found.items() if name in instances or not is_parked(name)}

    def parked(self):
        """Names of the instances that are nobody's yet."""
        found, instances = self.all_cgroups(), self.instances()
        return {name for name in found if is_parked(name) and name not in instances}

    def wait_parked(self, size):
        """Until so many can be claimed, and no other is being made. Needs log_level=debug."""
        def is_full():
            parked = self.parked()
            return len(parked) == size and parked <= set(re.findall(r"msg=parked .*?(p-\w+-)", self.text()))
        eventually(is_full, lambda: f"{size} parked, not {self.parked()}")

    def pids(self, sandbox_id, cgroup="*"):
        """Host pids of a sandbox; cgroup "guest" is PID 1 alone, "x-*" all programs."""
        found = set()
        for path in self.cgroups().get(sandbox_id, []):
            for instance in [path, *children(path, "*/")]:
                with contextlib.suppress(OSError):
                    if cgroup == "*" or (instance != path and fnmatch.fnmatch(instance.name, cgroup)):
                        found |= {int(pid) for pid in (instance / "cgroup.procs").read_text().split()}
        return found

    def guest_pid(self, sandbox_id):
        pids = self.pids(sandbox_id, "guest")
        # The guest's own helpers sit in the cgroup too, and come and go; PID 1 is the one whose parent is not among them.
        return next(pid for pid in sorted(pids) if parent_of(pid) not in pids | {None})

    def kill_guest(self, sandbox_id):
        os.kill(self.guest_pid(sandbox_id), signal.SIGKILL)

    @contextlib.contextmanager
    def driver_held(self):
        """berm-spawn answers nobody meanwhile, so that what is being made stays so."""
        (spawn,) = [pid for pid in self.processes() if parent_of(pid) == self.process.pid
                    and program_of(pid).endswith("/berm-spawn")]
        os.kill(spawn, signal.SIGSTOP)
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):   # who stands still when its parent is killed gets a SIGHUP
                os.kill(spawn, signal.SIGCONT)

    def processes(self):
        """Pids of programs that were started for this state directory, berm-spawn among them."""
        return set(pids_with(f"{MARK}={self.directory}"))

    def describe_processes(self):
        """What each is waiting for, for the reader of a failure."""
        found = []
        for pid in self.processes():
            with contextlib.suppress(OSError):
                read = pathlib.Path(f"/proc/{pid}").joinpath
                found.append((pid, read("cmdline").read_bytes().split(b"\0")[0], read("wchan").read_text(),
                              read("syscall").read_text().strip(), read("stack").read_text().split("\n")[:6]))
        return found

    def kept(self):
        """What it has written down, as {path in the state directory: bytes}; not the sandboxes' own files, which are
        the driver's and come and go."""
        found = {}
        for top, names, files in os.walk(self.state):
            if pathlib.Path(top) == self.state:
                names[:] = set(names) - {"spawn", "plain"}
            for path in (pathlib.Path(top, name) for name in files):
                with contextlib.suppress(OSError):      # sockets, and what goes meanwhile
                    found[str(path.relative_to(self.state))] = path.read_bytes()
        return found

    def leftovers(self):
        """What of it is on the host besides itself: cgroups, processes, mounts, loops, directories. While it
        lives, what it has made ahead is none."""
        parked = self.parked() if self.is_alive() else set()
        found = [str(path) for paths in self.cgroups().values() for path in paths]
        found += [] if self.is_alive() else self.parked()
        found += [f"process {pid} in {self.cgroup_name}" for pid in pids_in_cgroup(self.cgroup_name, parked)]
        found += [line for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
                  if f"{self.state}/" in line]
        for loop in pathlib.Path("/sys/block").glob("loop*/loop/backing_file"):
            with contextlib.suppress(OSError):
                if str(self.state) in loop.read_text():
                    found.append(f"{loop.parent.parent.name} {loop.read_text().strip()}")
        for name in ("sandboxes", "layers", "trash", "run"):
            try:
                found += [str(path) for path in self.state.glob(f"**/{name}/*")
                          if (name != "run" or path.is_socket()) and path.name not in parked]
            except FileNotFoundError as gone:   # it goes while we look
                found.append(str(gone))
        return found

    def expect_nothing_left(self):
        eventually(lambda: not self.leftovers(), lambda: f"nothing left of it: {self.leftovers()}")

    def empty(self):
        """Deletes every sandbox; nothing of them may be left."""
        client = self.client()
        for sandbox in client.list():
            client.delete(sandbox.sandbox_id, wait_ms=0)
        for sandbox in client.list():
            assert client.delete(sandbox.sandbox_id).state == DELETED
        self.expect_nothing_left()

    def close(self):
        """Deletes everything, holds the events to the model, ends the daemon, looks at the host."""
        from model import audit
        try:
            if not self.is_alive():
                if self.process is None:
                    return
                self.start()
            self.empty()
            audit(self.client())
            self.stop()
            eventually(lambda: not self.processes(), lambda: f"no process of it: {self.processes()}")
            self.expect_nothing_left()
        finally:
            self.dispose()

    def dispose(self):
        """The end of a daemon whose state is not to be looked at any more."""
        for client in self.clients:
            client.close()
        if self.is_alive():
            self.process.kill()
            self.process.wait()
        if (self.state / "spawn").exists():
            self.sweep()
        self.keep_roots()
        shutil.rmtree(self.directory, ignore_errors=True)

    def keep_roots(self):
        """The generated part of a sandbox's root takes berm-spawn most of a second: the next one gets it."""
        kept = self.directory.with_suffix(".roots")
        with contextlib.suppress(OSError):
            (self.state / "spawn/roots").rename(kept)
            ROOTS.append(kept)

    def sweep(self):
        """After a failure: ends what this daemon made, so that it does not outlive the tests."""
        left = [*self.processes(), *pids_in_cgroup(self.cgroup_name)]
        if not left and not self.cgroups():
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        eventually(lambda: not list(pids_in_cgroup(self.cgroup_name)), "the end of what was killed")
        for root in cgroup_roots():
            top = root / "berm" / self.cgroup_name
            for path in [*children(top, "*/*/"), *children(top, "*/"), top]:
                with contextlib.suppress(OSError):
                    path.rmdir()


def eventually(condition, what, timeout_s=TIMEOUT_S):
    """Its first true answer. For what the host shows and nobody tells."""
    end = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < end, f"never came: {what() if callable(what) else what}"
        time.sleep(0.02)
    return value


def children(path, pattern):
    """What of a directory fits the pattern; whoever made it may remove it while we look."""
    try:
        return list(path.glob(pattern))
    except OSError:
        return []


def cgroup_roots():
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        if right.split()[0] in ("cgroup", "cgroup2"):
            yield pathlib.Path(left.split()[4])


def pids_with(variable):
    """Processes that were given this variable, as bermd hands it on to berm-spawn."""
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if variable.encode() in (path / "environ").read_bytes().split(b"\0"):
                yield int(path.name)


def is_parked(name):
    """Whether an instance's name is one that no sandbox can have."""
    return name.endswith("-")


def pids_in_cgroup(name, but=()):
    """Processes below a cgroup; not those in its directories `but`."""
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            text = (path / "cgroup").read_text()
            if f"/{name}/" in text and not any(f"/{name}/{other}/" in text for other in but):
                yield int(path.name)


def parent_of(pid):
    """None: it has ended."""
    try:
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def program_of(pid):
    """The path of what it runs; empty: it has ended."""
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def fresh(prefix="rq"):
    """A new request id or a new name."""
    return f"{prefix}-{uuid.uuid4().hex[:16]}"


def at_once(functions):
    """Runs them at the same time; their results, or the daemon's errors, in order."""
    results, gate = [None] * len(functions), threading.Barrier(len(functions))

    def one(number, function):
        gate.wait()
        try:
            results[number] = function()
        except BaseException as error:   # the asker decides what may fail
            results[number] = error

    threads = [threading.Thread(target=one, args=item) for item in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


if __name__ == "__main__":
    serve_other_user(sys.argv[1], int(sys.argv[2]))
