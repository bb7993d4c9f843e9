"""The package as a user meets it: imported, and complete."""

import pathlib
import re

import berm
from berm import errors
from berm._gen.berm.v1 import berm_pb2, berm_pb2_grpc

DEF = pathlib.Path(__file__).parents[3] / "src/base/errors.def"
ROWS = re.findall(r"^ERR\((\w+), *(\d+)", DEF.read_text(), re.M)


def test_every_failure_has_a_class():
    assert ROWS
    for name, number in ROWS:
        kind = errors.class_of(name)
        assert issubclass(kind, berm.BermError) and kind is not berm.BermError
        assert (kind.reason, kind.number) == (name, int(number))
        assert str(kind("text")) == "text"


def test_an_unknown_reason_is_a_berm_error_that_keeps_its_name():
    assert errors.class_of("NO_SUCH_REASON") is berm.BermError
    assert berm.BermError(reason="NO_SUCH_REASON").reason == "NO_SUCH_REASON"


def test_exported_names():
    classes = ["".join(w.capitalize() for w in name.split("_")) + "Error" for name, _ in ROWS]
    assert sorted(berm.__all__) == sorted([*classes, "BermError", "class_of"])
    for name in berm.__all__:
        assert getattr(berm, name) is getattr(errors, name)


def test_services():
    services = berm_pb2.DESCRIPTOR.services_by_name
    assert sorted(services) == ["ExecService", "FileService", "SandboxService", "SystemService"]
    for name in services:
        assert hasattr(berm_pb2_grpc, f"{name}Stub")
