"""Converts between messages of the API and the values of berm.types."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, cast

from berm import types
from berm._gen.berm.v1 import berm_pb2 as pb
from berm._status import ArgumentError
from berm.errors import BermError

Path = str | bytes | os.PathLike[str]


def word(enum: Any, prefix: str, number: int) -> str:
    """Converts SANDBOX_STATE_READY to "ready", UNSPECIFIED to "", and an unknown number to itself (SKEW-5)."""
    try:
        name: str = enum.Name(number)
    except ValueError:
        return str(int(number))
    return "" if number == 0 else name.removeprefix(prefix).lower()


def number(enum: Any, prefix: str, text: str, what: str) -> Any:
    """Converts "ready" to SANDBOX_STATE_READY, and "" to UNSPECIFIED."""
    try:
        return enum.Value(prefix + (text or "unspecified").upper())
    except (ValueError, AttributeError):
        words = [name.removeprefix(prefix).lower() for name, value in enum.items() if value]
        raise ArgumentError(what, "one of " + ", ".join(words), text) from None


@contextlib.contextmanager
def arguments() -> Iterator[None]:
    """Turns Protobuf's errors about values of a wrong type into ArgumentError, while a request is built."""
    try:
        yield
    except BermError:
        raise
    except (TypeError, ValueError, AttributeError) as error:
        raise ArgumentError("request", "built of values that its fields take", str(error)) from error


def ms(seconds: float) -> int:
    """Converts seconds to milliseconds: at least 1 if above 0, and -1 if below 0."""
    if seconds < 0:
        return -1
    return max(1, round(seconds * 1000)) if seconds else 0


def when(unix_ms: int) -> datetime:
    return datetime.fromtimestamp(unix_ms / 1000, timezone.utc)


def pairs(values: Mapping[str, str] | None, what: str) -> list[pb.KeyValue]:
    if not isinstance(values or {}, Mapping):
        raise ArgumentError(what, "a mapping of str to str", values)
    for key, value in (values or {}).items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise ArgumentError(what, "a mapping of str to str", {key: value})
    return [pb.KeyValue(key=key, value=value) for key, value in (values or {}).items()]


def mapping(values: Iterable[pb.KeyValue]) -> dict[str, str]:
    return {value.key: value.value for value in values}


def path_fields(path: Path, name: str = "path") -> dict[str, Any]:
    """Returns the request field for a path: raw_path if it is not UTF-8."""
    raw = os.fsencode(path)
    try:
        return {name: raw.decode()}
    except UnicodeDecodeError:
        return {f"raw_{name}": raw}


def path_text(path: str, raw: bytes) -> str:
    return os.fsdecode(raw) if raw else path


# --- sandboxes ---


def limits_message(limits: types.Limits | None) -> pb.Limits | None:
    if limits is None:
        return None
    if not isinstance(limits, types.Limits):
        raise ArgumentError("limits", "a berm.Limits", limits)
    return pb.Limits(**vars(limits))


def limits_of(message: pb.Limits) -> types.Limits:
    return types.Limits(**{name: getattr(message, name) for name in types.Limits.__dataclass_fields__})


def lifetime_message(lifetime: types.Lifetime | None) -> pb.Lifetime | None:
    if lifetime is None:
        return None
    if not isinstance(lifetime, types.Lifetime):
        raise ArgumentError("lifetime", "a berm.Lifetime", lifetime)
    return pb.Lifetime(
        idle_ttl_ms=ms(lifetime.idle_ttl),
        idle_action=number(pb.LifetimeAction, "LIFETIME_ACTION_", lifetime.idle_action, "idle_action"),
        ttl_ms=ms(lifetime.ttl),
        ttl_action=number(pb.LifetimeAction, "LIFETIME_ACTION_", lifetime.ttl_action, "ttl_action"),
        wake_on_call=lifetime.wake_on_call,
    )


def lifetime_of(message: pb.Lifetime) -> types.Lifetime:
    def seconds(value: int) -> float:
        return -1 if value < 0 else value / 1000

    return types.Lifetime(
        idle_ttl=seconds(message.idle_ttl_ms),
        idle_action=cast(Any, word(pb.LifetimeAction, "LIFETIME_ACTION_", message.idle_action)),
        ttl=seconds(message.ttl_ms),
        ttl_action=cast(Any, word(pb.LifetimeAction, "LIFETIME_ACTION_", message.ttl_action)),
        wake_on_call=message.wake_on_call,
    )


def network_message(mode: str, egress: Sequence[types.Egress]) -> pb.Network | None:
    if not mode and not egress:
        return None
    rules = [
        pb.EgressRule(
            host=rule.host,
            ports=rule.ports,
            headers=[pb.InjectedHeader(name=name, secret=secret) for name, secret in rule.headers.items()],
        )
        for rule in egress
    ]
    return pb.Network(mode=number(pb.NetworkMode, "NETWORK_MODE_", mode, "network"), egress=rules)


def root_message(image: types.Image | None, layer: str) -> pb.RootFilesystem | None:
    if image is None and not layer:
        return None
    root = pb.RootFilesystem(layer=number(pb.WritableLayer, "WRITABLE_LAYER_", layer, "layer"))
    if image is not None:
        root.image.kind = number(pb.ImageKind, "IMAGE_KIND_", image.kind, "image.kind")
        root.image.reference = image.reference
    return root


def tool_messages(tools: Sequence[str | types.Tool]) -> list[pb.Tool]:
    if isinstance(tools, str):
        raise ArgumentError("tools", "a sequence of names or berm.Tool", tools)
    rows = [types.Tool(tool) if isinstance(tool, str) else tool for tool in tools]
    return [pb.Tool(name=row.name, credentials=row.credentials, cache=row.cache) for row in rows]


def sandbox_of(message: pb.Sandbox) -> types.SandboxInfo:
    spec = message.spec
    return types.SandboxInfo(
        id=message.sandbox_id,
        state=word(pb.SandboxState, "SANDBOX_STATE_", message.state),
        incarnation=message.incarnation,
        owner=message.owner,
        cause=word(pb.StateCause, "STATE_CAUSE_", message.reason.cause),
        code=message.reason.code,
        message=message.reason.message,
        labels=mapping(spec.labels),
        env=mapping(spec.env),
        limits=limits_of(spec.limits),
        lifetime=lifetime_of(spec.lifetime),
        driver=spec.driver,
        profile=word(pb.SandboxProfile, "SANDBOX_PROFILE_", spec.profile),
        network=word(pb.NetworkMode, "NETWORK_MODE_", spec.network.mode),
        workspace=spec.workspace,
        created=when(message.created_unix_ms),
        expires=when(message.expires_unix_ms) if message.expires_unix_ms else None,
        running_execs=message.running_execs,
        sequence=message.changed_sequence,
    )


def usage_of(message: pb.UsageSample) -> types.Usage:
    same = set(types.Usage.__dataclass_fields__) - {"time", "limits"}
    return types.Usage(
        time=when(message.time_unix_ms),
        limits=limits_of(message.limits),
        **{name: getattr(message, name) for name in same},
    )


# --- programs ---


def exit_of(message: pb.ExitStatus) -> types.Exit:
    how = message.WhichOneof("how")
    if how == "code":
        return types.Exit("code", code=message.code)
    if how == "signal":
        return types.Exit("signal", signal=message.signal.signal_number)
    if how == "timed_out":
        after = f"after {message.timed_out.timeout_ms / 1000:g} s"
        return types.Exit("timed_out", signal=message.timed_out.signal_number, message=after)
    if how == "not_started":
        return types.Exit("not_started", reason=message.not_started.code, message=message.not_started.message)
    if how == "lost":
        return types.Exit("lost", reason=message.lost.code, message=message.lost.message)
    return types.Exit(how or "lost")  # out_of_memory, output_limit, or a kind of a newer daemon


def exec_usage_of(message: pb.ExecUsage) -> types.ExecUsage:
    return types.ExecUsage(**{name: getattr(message, name) for name in types.ExecUsage.__dataclass_fields__})


def exec_of(message: pb.Exec) -> types.ExecInfo:
    return types.ExecInfo(
        id=message.exec_id,
        sandbox_id=message.sandbox_id,
        argv=tuple(message.spec.argv),
        state=word(pb.ExecState, "EXEC_STATE_", message.state),
        exit=exit_of(message.exit) if message.HasField("exit") else None,
        usage=exec_usage_of(message.usage),
        cwd=message.spec.cwd,
        user=message.spec.user,
        labels=mapping(message.spec.labels),
        terminal=message.spec.HasField("terminal"),
        output_policy=word(pb.OutputPolicy, "OUTPUT_POLICY_", message.spec.output_policy),
        output_limit=message.spec.output_limit_bytes,
        created=when(message.created_unix_ms),
        stdin_offset=message.input.next_offset,
        stdin_closed=message.input.closed,
    )


def argv_of(command: str | Sequence[str]) -> list[str]:
    """Returns the argument vector. A list is a program with arguments; a string is a shell command."""
    return ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)


def exec_spec(
    command: str | Sequence[str],
    *,
    env: Mapping[str, str] | None,
    cwd: str,
    user: str,
    timeout: float | None,
    grace: float | None,
    merge_stderr: bool,
    labels: Mapping[str, str] | None,
    output_policy: str,
    output_limit: int,
    keep_descendants: bool,
    stdin: bool = False,
    terminal: bool | tuple[int, int] = False,
) -> pb.ExecSpec:
    spec = pb.ExecSpec(
        argv=argv_of(command),
        env=pairs(env, "env"),
        cwd=cwd,
        user=user,
        timeout_ms=ms(timeout) if timeout is not None else 0,
        grace_ms=0 if grace is None else ms(grace) or -1,
        merge_stderr=merge_stderr,
        labels=pairs(labels, "labels"),
        output_policy=number(pb.OutputPolicy, "OUTPUT_POLICY_", output_policy, "output_policy"),
        output_limit_bytes=output_limit,
        keep_descendants=keep_descendants,
        stdin_mode=pb.STDIN_MODE_PIPE if stdin else pb.STDIN_MODE_EMPTY,
    )
    if terminal:
        cols, rows = terminal if isinstance(terminal, tuple) else (80, 24)
        spec.terminal.CopyFrom(pb.Terminal(size=pb.TerminalSize(cols=cols, rows=rows)))
        spec.stdin_mode = pb.STDIN_MODE_PIPE
    return spec


# --- events ---


def event_of(message: pb.Event) -> types.Event:
    body = message.WhichOneof("body") or ""
    return types.Event(
        sequence=message.sequence,
        time=when(message.time_unix_ms),
        kind=body or word(pb.EventKind, "EVENT_KIND_", message.kind),
        sandbox_id=message.sandbox_id,
        incarnation=message.incarnation,
        owner=message.owner,
        actor=word(pb.ActorKind, "ACTOR_KIND_", message.actor.kind),
        identity=message.actor.identity,
        request_id=message.request_id,
        replayed=message.replayed,
        **_body_of(message, body),
    )


def _body_of(message: pb.Event, body: str) -> dict[str, Any]:
    """Returns the fields of an event of this kind."""
    if body == "sandbox_state":
        state = message.sandbox_state
        return {
            "state": word(pb.SandboxState, "SANDBOX_STATE_", state.state),
            "previous": word(pb.SandboxState, "SANDBOX_STATE_", state.previous),
            "labels": mapping(state.labels),
            **_reason_of(state.reason),
        }
    if body == "sandbox_update":
        update = message.sandbox_update
        return {"parts": tuple(update.parts), "labels": mapping(update.labels)}
    if body == "exec_start":
        return {"exec_id": message.exec_start.exec_id, "argv": tuple(message.exec_start.argv)}
    if body == "exec_exit":
        end = message.exec_exit
        return {"exec_id": end.exec_id, "exit": exit_of(end.exit), "usage": exec_usage_of(end.usage)}
    if body == "exec_signal":
        return {"exec_id": message.exec_signal.exec_id, "signal": message.exec_signal.signal_number}
    if body == "output_cap":
        return {"exec_id": message.output_cap.exec_id}
    if body == "file":
        file = message.file
        return {
            "operation": word(pb.FileOperation, "FILE_OPERATION_", file.operation),
            "path": path_text(file.path, file.raw_path),
            "new_path": path_text(file.new_path, file.raw_new_path),
            "bytes_moved": file.bytes_moved,
        }
    if body == "snapshot":
        state_word = word(pb.SnapshotState, "SNAPSHOT_STATE_", message.snapshot.state)
        return {"state": state_word, **_reason_of(message.snapshot.reason)}
    if body == "daemon":
        return {"state": word(pb.DaemonState, "DAEMON_STATE_", message.daemon.state)}
    return {}


def _reason_of(reason: pb.StateReason) -> dict[str, str]:
    cause = word(pb.StateCause, "STATE_CAUSE_", reason.cause)
    return {"cause": cause, "code": reason.code, "message": reason.message}


# --- files ---


def file_of(message: pb.FileInfo) -> types.FileInfo:
    return types.FileInfo(
        path=path_text(message.path, message.raw_path),
        type=word(pb.FileType, "FILE_TYPE_", message.type),
        size=message.size_bytes,
        mode=message.mode,
        uid=message.uid,
        gid=message.gid,
        user=message.user,
        group=message.group,
        modified_ns=message.modified_unix_ns,
        symlink_target=path_text(message.symlink_target, message.raw_symlink_target),
    )


def truncated_of(value: int) -> str:
    return word(pb.TruncatedReason, "TRUNCATED_REASON_", value)


def grep_match_of(message: pb.GrepMatch) -> types.GrepMatch:
    return types.GrepMatch(
        path=path_text(message.path, message.raw_path),
        line=message.line,
        text=message.text,
        before=tuple(message.before),
        after=tuple(message.after),
    )


def change_of(message: pb.FileChange) -> types.FileChange:
    return types.FileChange(
        kind=word(pb.FileChangeKind, "FILE_CHANGE_KIND_", message.kind),
        path=path_text(message.path, message.raw_path),
        old_path=path_text(message.old_path, message.raw_old_path),
        info=file_of(message.info) if message.HasField("info") else None,
    )


def info_of(message: pb.GetInfoResponse) -> types.DaemonInfo:
    return types.DaemonInfo(
        version=message.version,
        spec_version=message.spec_version,
        instance_id=message.instance_id,
        run_id=message.run_id,
        identity=message.identity,
        admin=message.admin,
        drivers=tuple(driver.name for driver in message.drivers if driver.available),
        capabilities=frozenset(message.capabilities).union(*(d.capabilities for d in message.drivers)),
        limits={limit.name: limit.value for limit in message.limits},
        head_sequence=message.head_sequence,
        oldest_sequence=message.oldest_sequence,
    )
