# Derived from berm/_async/sandbox.py by scripts/gen-python-sync.py; do not edit.
"""A sandbox: create or find it, use it, delete it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, cast

from berm import _convert as convert
from berm import _methods as methods
from berm import _runtime_sync as runtime
from berm import errors, types
from berm._sync.client import Client
from berm._sync.exec import Exec
from berm._sync.files import Files
from berm._gen.berm.v1 import berm_pb2 as pb
from berm._methods import Method
from berm._status import ArgumentError, ProgramFailedError

_WAIT = 60.0  # seconds that wait=True means, and the longest wait that one request may ask for
_RUN_INPUT = _RUN_OUTPUT = 1024 * 1024  # maximum bytes of input and of each output stream of RunExec
_GONE = ("deleting", "deleted")


class Sandbox:
    """An isolated computer for an agent.

    At its end, a `with` block deletes a sandbox that `create` returned, and keeps a sandbox that `connect` returned.
    `wait` of slow calls is how many seconds to wait for the outcome: True means 60; with False, the call returns as
    soon as the daemon has accepted the request.
    """

    def __init__(self, client: Client, info: types.SandboxInfo, sequence: int):
        self._client = client
        self._owns_client = False
        self._owns_sandbox = False
        self._info = info
        self._sequence = sequence
        self.files = Files(client, info.id)

    # --- creating and finding ---

    @classmethod
    @runtime.opening
    def create(
        cls,
        id: str = "",
        *,
        labels: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        limits: types.Limits | None = None,
        lifetime: types.Lifetime | None = None,
        network: types.NetworkMode = "",
        egress: Sequence[types.Egress] = (),
        image: types.Image | None = None,
        layer: types.Layer = "",
        mounts: Sequence[types.Mount] = (),
        copies: Sequence[types.Copy] = (),
        tools: Sequence[str | types.Tool] = (),
        profile: types.Profile = "",
        driver: str = "",
        workspace: str = "",
        wait: float | bool = True,
        client: Client | None = None,
    ) -> Sandbox:
        """Creates a sandbox and waits until it is ready. If the sandbox fails or is not ready in time, deletes it and
        raises the reason. With layer="memory", files are in memory and are lost on stop."""
        with convert.arguments():
            spec = pb.SandboxSpec(
                labels=convert.pairs(labels, "labels"),
                env=convert.pairs(env, "env"),
                limits=convert.limits_message(limits),
                lifetime=convert.lifetime_message(lifetime),
                network=convert.network_message(network, egress),
                root=convert.root_message(image, layer),
                mounts=[pb.Mount(source=m.source, target=m.target, writable=m.writable) for m in mounts],
                copies=[pb.Copy(source=c.source, target=c.target, excludes=c.excludes) for c in copies],
                tools=convert.tool_messages(tools),
                profile=convert.number(pb.SandboxProfile, "SANDBOX_PROFILE_", profile, "profile"),
                driver=driver,
                workspace=workspace,
            )
            seconds = _seconds(wait)
            request = pb.CreateSandboxRequest(sandbox_id=id, spec=spec, wait_ms=_wait_ms(seconds))
        used = client or Client()
        try:
            until = time.monotonic() + seconds
            answer = used.call(methods.CREATE_SANDBOX, request, wait=min(seconds, _WAIT))
            made = cls(used, convert.sandbox_of(answer.sandbox), answer.sequence)
            made._owns_client, made._owns_sandbox = client is None, True
            if seconds > 0:
                made._become_ready(until)
        except BaseException:
            if client is None:
                used.close()
            raise
        return made

    def _become_ready(self, until: float) -> None:
        """Waits until a new sandbox is ready. Deletes it on failure, because the caller of create has no handle yet."""
        try:
            self._settle(["ready"], until)
        except errors.BermError:
            self.delete(wait=False)
            raise

    @classmethod
    @runtime.opening
    def connect(cls, id: str, *, client: Client | None = None) -> Sandbox:
        """Returns an existing sandbox."""
        used = client or Client()
        try:
            answer = used.call(methods.GET_SANDBOX, pb.GetSandboxRequest(sandbox_id=id))
        except BaseException:
            if client is None:
                used.close()
            raise
        found = cls(used, convert.sandbox_of(answer.sandbox), answer.sequence)
        found._owns_client = client is None
        return found

    @classmethod
    def list(
        cls,
        *,
        labels: Mapping[str, str] | None = None,
        states: Sequence[str] = (),
        owner: str = "",
        client: Client | None = None,
    ) -> runtime.Stream[types.SandboxInfo]:
        """Yields the caller's sandboxes, newest first. Omits deleted sandboxes unless `states` includes "deleted"."""
        with convert.arguments():
            request = pb.ListSandboxesRequest(
                label_selector=convert.pairs(labels, "labels"),
                states=[convert.number(pb.SandboxState, "SANDBOX_STATE_", state, "states") for state in states],
                owner=owner,
            )
        used = client or Client()
        try:
            while True:
                page = used.call(methods.LIST_SANDBOXES, request)
                for sandbox in page.sandboxes:
                    yield convert.sandbox_of(sandbox)
                if not page.next_page_token:
                    return
                request.page_token = page.next_page_token
        finally:
            if client is None:
                used.close()

    @classmethod
    def delete_all(
        cls,
        *,
        labels: Mapping[str, str],
        wait: float | bool = True,
        client: Client | None = None,
    ) -> Sequence[str]:
        """Deletes every sandbox of the caller that has all of these labels (at least one). Returns their ids."""
        seconds = _seconds(wait)
        with convert.arguments():
            selector = convert.pairs(labels, "labels")
        used = client or Client()
        removed: dict[str, None] = {}
        try:
            more = True
            while more:
                request = pb.DeleteSandboxesRequest(label_selector=selector, wait_ms=_wait_ms(seconds))
                answer = used.call(methods.DELETE_SANDBOXES, request, wait=min(seconds, _WAIT))
                removed.update(dict.fromkeys(answer.sandbox_ids))
                more = answer.more
        finally:
            if client is None:
                used.close()
        return tuple(removed)

    @property
    def id(self) -> str:
        return self._info.id

    @property
    def info(self) -> types.SandboxInfo:
        """The sandbox's record from the last reply; refresh() updates it."""
        return self._info

    @property
    def state(self) -> str:
        return self._info.state

    @property
    def sequence(self) -> int:
        """The event sequence of the last reply about this sandbox: events(since=sb.sequence) starts right after it."""
        return self._sequence

    def refresh(self) -> types.SandboxInfo:
        answer = self._client.call(methods.GET_SANDBOX, pb.GetSandboxRequest(sandbox_id=self.id))
        self._heard(answer.sandbox, answer.sequence)
        return self._info

    # --- programs ---

    def run(
        self,
        command: str | Sequence[str],
        *,
        input: bytes | str = b"",
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        user: str = "",
        timeout: float | None = None,
        grace: float | None = None,
        merge_stderr: bool = False,
        labels: Mapping[str, str] | None = None,
        output_policy: types.OutputPolicy = "",
        output_limit: int = 0,
        keep_descendants: bool = False,
        max_output: int | None = None,
        check: bool = False,
    ) -> types.Completed:
        """Runs a program and waits until it exits. A list is a program with arguments; a string is a command for
        /bin/sh. After `timeout` seconds the daemon kills the program and its descendants; the result reports the
        timeout. Returns all stored output, or the first `max_output` bytes of each stream. The result tells how the
        program ended. With `check`, raises ProgramFailedError unless the exit code is 0."""
        if output_policy == "block":
            raise ArgumentError(
                "output_policy", "drop_oldest or kill: run reads nothing before the end; use exec", output_policy
            )
        with convert.arguments():
            spec = convert.exec_spec(
                command,
                env=env,
                cwd=cwd,
                user=user,
                timeout=timeout,
                grace=grace,
                merge_stderr=merge_stderr,
                labels=labels,
                output_policy=output_policy,
                output_limit=output_limit,
                keep_descendants=keep_descendants,
            )
        data = input.encode() if isinstance(input, str) else input
        if len(data) > _RUN_INPUT:
            completed = self._run_with_much_input(spec, data, max_output)
        else:
            completed = self._run(spec, data, max_output)
        if check and not completed.ok:
            raise ProgramFailedError(completed)
        return completed

    def _run(self, spec: pb.ExecSpec, data: bytes, max_output: int | None) -> types.Completed:
        first = 0 if max_output is None else min(max_output, _RUN_OUTPUT)
        request = pb.RunExecRequest(sandbox_id=self.id, spec=spec, stdin_data=data, max_output_bytes=first)
        answer = self._client.call(methods.RUN_EXEC, request, timeout=-1)
        output = {"stdout": answer.stdout_data, "stderr": answer.stderr_data}
        cut = {"stdout": answer.stdout_truncated, "stderr": answer.stderr_truncated}
        job = Exec(self._client, convert.exec_of(answer.exec), answer.sequence)
        return self._completed(job, answer.exec, output, [name for name in cut if cut[name]], max_output)

    def _run_with_much_input(
        self, spec: pb.ExecSpec, data: bytes, max_output: int | None
    ) -> types.Completed:
        """Writes all input, then reads the output. One thread suffices, because the daemon stores unread output."""
        spec.stdin_mode = pb.STDIN_MODE_PIPE
        job = self._start(spec, "")
        try:
            job.stdin.write(data)
            job.stdin.close()
        except (errors.StdinClosedError, errors.ExecEndedError):
            pass  # the program closed its input or ended before it read everything
        job.wait()
        answer = self._client.call(methods.GET_EXEC, pb.GetExecRequest(exec_id=job.id))
        output = {"stdout": b"", "stderr": b""}
        return self._completed(job, answer.exec, output, ["stdout", "stderr"], max_output)

    def _completed(
        self,
        job: Exec,
        record: pb.Exec,
        output: dict[str, bytes],
        cut: Sequence[str],
        max_output: int | None,
    ) -> types.Completed:
        """Completes the result: reads the rest of the streams in `cut`, which the reply truncated."""
        most = float("inf") if max_output is None else max_output
        truncated = False
        for state in record.output:
            name = convert.word(pb.OutputStream, "OUTPUT_STREAM_", state.stream)
            if name not in cut:
                continue
            data, at = bytearray(output[name]), state.first_offset + len(output[name])
            truncated = truncated or state.first_offset > 0
            rest = job.output(at, since_stderr=at, streams=[cast(Any, name)], follow=False)
            with runtime.closing(rest) as chunks:
                while len(data) < min(most, state.end_offset - state.first_offset):
                    chunk = next(chunks, None)
                    if chunk is None:
                        break
                    data += chunk
                    truncated = truncated or chunk.missing > 0
            truncated = truncated or state.end_offset - state.first_offset > most
            output[name] = bytes(data if max_output is None else data[:max_output])
        return types.Completed(
            exec_id=record.exec_id,
            argv=tuple(record.spec.argv),
            exit=convert.exit_of(record.exit),
            stdout_bytes=output["stdout"],
            stderr_bytes=output["stderr"],
            usage=convert.exec_usage_of(record.usage),
            truncated=truncated,
        )

    @runtime.opening
    def exec(
        self,
        command: str | Sequence[str],
        *,
        id: str = "",
        stdin: bool = False,
        terminal: bool | tuple[int, int] = False,
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        user: str = "",
        timeout: float | None = None,
        grace: float | None = None,
        merge_stderr: bool = False,
        labels: Mapping[str, str] | None = None,
        output_policy: types.OutputPolicy = "",
        output_limit: int = 0,
        keep_descendants: bool = False,
    ) -> Exec:
        """Starts a program and returns a handle to it. The program keeps running when the client disconnects. `stdin`
        opens its standard input; `terminal` gives it a terminal of (cols, rows)."""
        with convert.arguments():
            spec = convert.exec_spec(
                command,
                env=env,
                cwd=cwd,
                user=user,
                timeout=timeout,
                grace=grace,
                merge_stderr=merge_stderr,
                labels=labels,
                output_policy=output_policy,
                output_limit=output_limit,
                keep_descendants=keep_descendants,
                stdin=stdin,
                terminal=terminal,
            )
        return self._start(spec, id)

    def _start(self, spec: pb.ExecSpec, id: str) -> Exec:
        request = pb.StartExecRequest(sandbox_id=self.id, exec_id=id, spec=spec)
        answer = self._client.call(methods.START_EXEC, request)
        return Exec(self._client, convert.exec_of(answer.exec), answer.sequence)

    @runtime.opening
    def get_exec(self, id: str) -> Exec:
        """Returns a handle to a running or ended program."""
        answer = self._client.call(methods.GET_EXEC, pb.GetExecRequest(exec_id=id))
        return Exec(self._client, convert.exec_of(answer.exec), answer.sequence)

    def execs(
        self, *, states: Sequence[str] = (), labels: Mapping[str, str] | None = None
    ) -> runtime.Stream[types.ExecInfo]:
        """Yields the programs of this sandbox, newest first."""
        with convert.arguments():
            request = pb.ListExecsRequest(
                sandbox_id=self.id,
                states=[convert.number(pb.ExecState, "EXEC_STATE_", state, "states") for state in states],
                label_selector=convert.pairs(labels, "labels"),
            )
        while True:
            page = self._client.call(methods.LIST_EXECS, request)
            for program in page.execs:
                yield convert.exec_of(program)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    # --- events and usage ---

    def events(
        self, *, since: int | None = None, follow: bool = True, kinds: Sequence[str] = ()
    ) -> runtime.Stream[types.Event]:
        """Yields the sandbox's past events after a sequence (None: from its creation), then new events as they happen.
        With follow=False, yields only past events."""
        return self._client.events(since=since, follow=follow, kinds=kinds, sandbox_ids=[self.id])

    def usage(self) -> types.Usage:
        """Returns the current resource usage."""
        with runtime.closing(self.watch_usage()) as samples:
            for sample in samples:
                return sample
        raise errors.SandboxStoppedError("the sandbox ended before it was measured")

    def watch_usage(self, interval: float = 1.0) -> runtime.Stream[types.Usage]:
        """Yields the resource usage repeatedly until the sandbox stops."""
        request = pb.WatchUsageRequest(sandbox_id=self.id, interval_ms=convert.ms(interval))
        with runtime.closing(self._client.follow(methods.WATCH_USAGE, lambda: request)) as messages:
            for message in messages:
                if message.HasField("sample"):
                    yield convert.usage_of(message.sample)

    # --- lifecycle ---

    def update(
        self,
        *,
        labels: Mapping[str, str | None] | None = None,
        limits: types.Limits | None = None,
        lifetime: types.Lifetime | None = None,
        network: types.NetworkMode = "",
        egress: Sequence[types.Egress] = (),
    ) -> types.SandboxInfo:
        """Changes the given settings and keeps the others. Removes labels whose value is None."""
        with convert.arguments():
            request = pb.UpdateSandboxRequest(
                sandbox_id=self.id,
                limits=convert.limits_message(limits),
                lifetime=convert.lifetime_message(lifetime),
                network=convert.network_message(network, egress),
            )
        if labels is not None:
            request.labels.SetInParent()
            request.labels.set.extend(convert.pairs({k: v for k, v in labels.items() if v is not None}, "labels"))
            request.labels.remove.extend(key for key, value in labels.items() if value is None)
        answer = self._client.call(methods.UPDATE_SANDBOX, request)
        self._heard(answer.sandbox, answer.sequence)
        return self._info

    def stop(self, *, grace: float | None = None, wait: float | bool = True) -> None:
        """Ends every program and keeps the files."""
        grace_ms = 0 if grace is None else convert.ms(grace) or -1
        request = pb.StopSandboxRequest(sandbox_id=self.id, grace_ms=grace_ms)
        self._change(methods.STOP_SANDBOX, request, "stopped", wait)

    def start(self, *, wait: float | bool = True) -> None:
        """Starts a stopped sandbox with its files."""
        self._change(methods.START_SANDBOX, pb.StartSandboxRequest(sandbox_id=self.id), "ready", wait)

    def pause(self, *, wait: float | bool = True) -> None:
        """Freezes every program."""
        self._change(methods.PAUSE_SANDBOX, pb.PauseSandboxRequest(sandbox_id=self.id), "paused", wait)

    def resume(self, *, wait: float | bool = True) -> None:
        """Resumes a paused sandbox."""
        self._change(methods.RESUME_SANDBOX, pb.ResumeSandboxRequest(sandbox_id=self.id), "ready", wait)

    def delete(self, *, wait: float | bool = True) -> None:
        """Deletes the sandbox with its files and output. Succeeds if it is already deleted."""
        request = pb.DeleteSandboxRequest(sandbox_id=self.id)
        try:
            self._change(methods.DELETE_SANDBOX, request, "deleted", wait)
        except (errors.SandboxDeletedError, errors.SandboxNotFoundError):
            pass

    def _change(self, method: Method[Any, Any], request: Any, goal: str, wait: float | bool) -> None:
        """Requests a state change and waits for it."""
        seconds = _seconds(wait)
        until = time.monotonic() + seconds
        request.wait_ms = _wait_ms(seconds)
        answer = self._client.call(method, request, wait=min(seconds, _WAIT))
        self._heard(answer.sandbox, answer.sequence)
        if seconds > 0:
            self._settle([goal], until)

    def wait_for(self, *states: str, timeout: float | None = None) -> types.SandboxInfo:
        """Waits until the sandbox is in one of the states. Raises DeadlineExceededError after `timeout` seconds, or
        the reason if the sandbox can no longer reach the state."""
        self.refresh()
        self._settle(states, None if timeout is None else time.monotonic() + timeout)
        return self._info

    def _settle(self, goals: Sequence[str], until: float | None) -> None:
        """Follows the events after the last reply until the state is one of the goals."""
        if self._is_there(goals):
            return
        events = self._client.events(
            since=self._sequence, kinds=["sandbox_state"], sandbox_ids=[self.id], deadline=until
        )
        with runtime.closing(events) as stream:
            for event in stream:
                if event.state in goals or event.state in ("failed", *_GONE):
                    self.refresh()
                    if self._is_there(goals):
                        return

    def _is_there(self, goals: Sequence[str]) -> bool:
        info = self._info
        if info.state in goals:
            return True
        if info.state == "failed" and "deleted" not in goals:
            raise errors.class_of(info.code or "SANDBOX_FAILED")(
                info.message, reason=info.code, metadata={"sandbox_id": info.id}
            )
        if info.state == "deleted":
            raise errors.SandboxDeletedError(f"{info.id} was deleted", metadata={"sandbox_id": info.id})
        return False

    def _heard(self, sandbox: pb.Sandbox, sequence: int) -> None:
        self._info, self._sequence = convert.sandbox_of(sandbox), sequence

    def close(self) -> None:
        """Closes the connection if this handle owns it. The sandbox keeps running."""
        if self._owns_client:
            self._client.close()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._owns_sandbox:
                self.delete()
        finally:
            self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self._info.state}>"


def _seconds(wait: float | bool) -> float:
    return _WAIT if wait is True else float(wait)


def _wait_ms(seconds: float) -> int:
    return convert.ms(min(max(seconds, 0.0), _WAIT))
