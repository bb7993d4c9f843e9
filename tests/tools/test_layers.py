"""scripts/check-layers.py finds includes and symbols that cross a layer the wrong way."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
STORE = "int db_open(void) { return 0; }\n"
CORE = "int db_open(void);\nint registry_open(void) { return db_open(); }\n"
API = "int registry_open(void);\nint api_begin(void) { return registry_open(); }\n"


@pytest.fixture
def check(tmp_path):
    """Compiles a small tree as meson would, and returns the exit status and the lines of the check."""
    def run(**layers):
        for layer, text in layers.items():
            source = tmp_path / "src" / layer / "x.c"
            source.parent.mkdir(parents=True)
            source.write_text(text)
            target = tmp_path / "build/src" / f"lib{layer}.a.p"
            target.mkdir(parents=True)
            subprocess.run(["cc", "-c", "-I", tmp_path / "src", source, "-o", target / f"{layer}_x.c.o"], check=True)
        done = subprocess.run([sys.executable, ROOT / "scripts/check-layers.py", tmp_path],
                              capture_output=True, text=True)
        return done.returncode, done.stdout.splitlines()
    return run


def test_layers_that_use_only_what_they_may_pass(check):
    assert check(store=STORE, core=CORE, api=API) == (0, [])


def test_symbol_of_a_forbidden_layer_is_found(check):
    api = "int db_open(void);\nint api_begin(void) { return db_open(); }\n"
    status, lines = check(store=STORE, core=CORE, api=api)
    assert status == 1
    assert len(lines) == 1 and lines[0].startswith("api/x.c: ") and lines[0].endswith("not db_open of store/x.c")


def test_include_of_a_forbidden_layer_is_found(check, tmp_path):
    (tmp_path / "src/store").mkdir(parents=True)
    (tmp_path / "src/store/db.h").write_text("int db_open(void);\n")
    status, lines = check(core=CORE, api='#include "store/db.h"\nint api_begin(void) { return 0; }\n')
    assert status == 1
    assert len(lines) == 1 and lines[0].startswith("src/api/x.c:1: ") and lines[0].endswith("not store/db.h")


def test_tree_that_is_not_built_fails(check, tmp_path):
    (tmp_path / "src/base").mkdir(parents=True)
    (tmp_path / "src/base/x.h").write_text("")
    assert check() == (1, ["no objects in build/: build first"])


def noun_tree(root, noun, name, include):
    """A header core/NOUN/NAME and a file core/exec/x.h that includes it."""
    (root / "src/core" / noun).mkdir(parents=True)
    (root / "src/core" / noun / name).write_text("")
    (root / "src/core/exec").mkdir(exist_ok=True)
    (root / "src/core/exec/x.h").write_text(f'#include "core/{include}"\n')


@pytest.mark.parametrize("noun", ["files", "sandbox", "registry"])
def test_noun_that_includes_one_not_below_it_is_found(check, tmp_path, noun):
    noun_tree(tmp_path, noun, "y.h", f"{noun}/y.h")
    status, lines = check(base="int base_begin(void) { return 0; }\n")
    assert (status, lines) == (1, [f"src/core/exec/x.h:1: core/exec is not above core/{noun}, but includes core/{noun}/y.h"])


def test_noun_that_includes_one_below_it_passes(check, tmp_path):
    noun_tree(tmp_path, "box", "y.h", "box/y.h")
    assert check(base="int base_begin(void) { return 0; }\n") == (0, [])


def test_impl_header_of_another_folder_is_found(check, tmp_path):
    noun_tree(tmp_path, "box", "y_impl.h", "box/y_impl.h")
    status, lines = check(base="int base_begin(void) { return 0; }\n")
    assert (status, lines) == (1, ["src/core/exec/x.h:1: core/box/y_impl.h is for its own folder"])


def test_noun_without_a_row_is_found(check, tmp_path):
    noun_tree(tmp_path, "image", "y.h", "image/y.h")
    status, lines = check(base="int base_begin(void) { return 0; }\n")
    assert (status, lines) == (1, ["src/core/exec/x.h:1: core/image has no row in NOUNS"])
