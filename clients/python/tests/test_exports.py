"""Tests that the package exports every public name and covers every method of the contract."""

import builtins
import inspect
import pathlib
import re

import berm
from berm import _methods, errors
from berm._gen.berm.v1 import berm_pb2, berm_pb2_grpc

DEF = pathlib.Path(__file__).parents[3] / "src/base/errors.def"
ROWS = re.findall(r"^ERR\((\w+), *(\d+)", DEF.read_text(), re.M)


def test_every_failure_has_a_class():
    # covers: RETRY-5
    assert ROWS
    for name, number in ROWS:
        kind = errors.class_of(name)
        assert issubclass(kind, berm.BermError) and kind is not berm.BermError
        assert (kind.reason, kind.number) == (name, int(number))
        assert str(kind("text")) == "text"


def test_an_unknown_reason_is_a_berm_error_that_keeps_its_name():
    assert errors.class_of("NO_SUCH_REASON") is berm.BermError
    assert berm.BermError(reason="NO_SUCH_REASON").reason == "NO_SUCH_REASON"


CLIENT = ["Client", "Exec", "Files", "Sandbox", "Session", "Stdin"]
LOCAL = ["ArgumentError", "ClosedError", "DisconnectedError", "ProgramFailedError", "UnreachableError"]
VALUES = [
    "Chunk", "Completed", "Copy", "DaemonInfo", "Egress", "Event", "ExecInfo", "ExecUsage", "Exit", "FileChange",
    "FileInfo", "Found", "Globbed", "GrepMatch", "Image", "ImageKind", "Layer", "Lifetime", "LifetimeAction", "Limits", "Lines",
    "Mount", "NetworkMode", "OutputPolicy", "Profile", "SandboxInfo", "StreamName", "Text", "Tool", "Usage",
]


def test_exported_names():
    classes = ["".join(w.capitalize() for w in name.split("_")) + "Error" for name, _ in ROWS]
    both = [*CLIENT, *("Async" + name for name in CLIENT)]
    exported = [*classes, "BermError", "class_of", *both, *LOCAL, *VALUES]
    assert sorted(berm.__all__) == sorted(name for name in exported if not hasattr(builtins, name))
    for name in berm.__all__:
        assert getattr(berm, name)
    for name in [*classes, "BermError", "class_of"]:
        assert getattr(berm, name) is getattr(errors, name)
    for name in LOCAL:
        assert issubclass(getattr(berm, name), berm.BermError)


def public(kind):
    return {
        name: inspect.signature(value)
        for name, value in vars(kind).items()
        if not name.startswith("_") and callable(getattr(kind, name))
        for value in [getattr(kind, name)]
    }


def test_both_halves_offer_the_same():
    for name in CLIENT:
        sync, asynchronous = public(getattr(berm, name)), public(getattr(berm, "Async" + name))
        assert list(sync) == list(asynchronous) and sync
        for method in sync:
            assert list(sync[method].parameters) == list(asynchronous[method].parameters), (name, method)


def test_every_method_of_the_contract_is_called_right():
    """Each row of _methods has the message types of berm.proto. MISSING lists the methods that the client lacks."""
    rows = {m.name: m for m in vars(_methods).values() if isinstance(m, _methods.Method)}
    for service in berm_pb2.DESCRIPTOR.services_by_name.values():
        for method in service.methods:
            row = rows.pop(f"{service.name}/{method.name}", None)
            if row is None:
                assert method.name in MISSING, method.name
                continue
            assert row.request.DESCRIPTOR is method.input_type and row.response.DESCRIPTOR is method.output_type
    assert not rows


# bermd does not implement snapshots yet.
MISSING = ["SnapshotSandbox", "ForkSandbox", "ListSnapshots", "DeleteSnapshot"]


def test_services():
    services = berm_pb2.DESCRIPTOR.services_by_name
    assert sorted(services) == ["ExecService", "FileService", "SandboxService", "SystemService"]
    for name in services:
        assert hasattr(berm_pb2_grpc, f"{name}Stub")
