"""Tests the package as users install it: mypy accepts its types, and the wheel works."""

import os
import pathlib
import subprocess
import sys
import zipfile

PACKAGE = pathlib.Path(__file__).parents[1]
MYPY = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", PACKAGE.parents[1] / "build/mypy-cache"]


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_types_hold():
    assert "no issues" in run(*MYPY, cwd=PACKAGE)


def test_types_can_fail(tmp_path):
    """A control for the test above: mypy reports wrong types."""
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import berm\nsb = berm.Sandbox.create()\nsb.run(7)\nsb.run(['true']).stdout.fileno()\n"
                     "berm.Sandbox.create(profile='rooot')\n")
    done = subprocess.run(
        [*MYPY, "--config-file", PACKAGE / "pyproject.toml", wrong], capture_output=True, text=True, timeout=300,
        env={**os.environ, "MYPYPATH": str(PACKAGE)})
    assert done.stdout.count("error:") == 3, done.stdout


def test_the_wheel(tmp_path):
    """The wheel builds without a network and works with only its declared dependencies installed."""
    source = tmp_path / "source"
    run("cp", "-r", str(PACKAGE), str(source))
    run(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index", "-q",
        "-w", str(tmp_path), str(source))
    [wheel] = tmp_path.glob("berm-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    have = {name for name in names if name.startswith("berm/")}
    want = {str(path.relative_to(PACKAGE)) for path in PACKAGE.glob("berm/**/*")
            if path.suffix in (".py", ".pyi", ".typed") or path.name == "py.typed"}
    assert have == want and "berm/py.typed" in have and "berm/_sync/sandbox.py" in have
    assert not any(name.startswith("tests") for name in names)
    script = "import berm, sys; assert '.whl' in berm.__file__; print(berm.Sandbox.create.__name__, berm.__version__)"
    assert run(sys.executable, "-c", script, cwd=tmp_path, env={"PYTHONPATH": str(wheel)}) == "create 0.1.0\n"
    metadata = zipfile.ZipFile(wheel).read(next(n for n in names if n.endswith("METADATA"))).decode()
    assert "Requires-Dist: grpcio" in metadata and "Version: 0.1.0" in metadata
