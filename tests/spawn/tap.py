"""TAP for the spawn tests: @test registers, check() counts, a test without a check fails."""
import os
import pathlib
import sys
import tempfile
import traceback

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
_tests = []
_checks = 0
_failures = []


class Skip(Exception):
    pass


def test(function):
    _tests.append(function)
    return function


def check(ok, text):
    global _checks
    _checks += 1
    if not ok:
        _failures.append(text)
    return ok


def same(got, want, text):
    return check(got == want, f"{text}: got {got!r}, want {want!r}")


def program(name):
    """Returns the path of a built program in $BERM_BUILD (default: build)."""
    build = pathlib.Path(os.environ.get("BERM_BUILD", ROOT / "build"))
    for folder in (build / "bin", build / "src/spawn", build / "src/jail",
                  build / "tests/spawn", build):
        if (folder / name).is_file():
            return str(folder / name)
    raise SystemExit(f"Bail out! {name} is not built in {build}")


def state_dir():
    """Creates one state directory per run, beneath $BERM_TEST_STATE or the temporary directory."""
    base = os.environ.get("BERM_TEST_STATE", tempfile.gettempdir())
    return tempfile.mkdtemp(prefix="berm-spawn-test-", dir=base)


def main():
    global _checks
    wanted = sys.argv[1:]
    tests = [t for t in _tests if not wanted or any(w.replace(" ", "_") in t.__name__ for w in wanted)]
    bad = 0
    root = os.geteuid() == 0
    for number, function in enumerate(tests, 1):
        _checks = 0
        _failures.clear()
        skip = None if root else "needs root"
        try:
            if root:
                function()
        except Skip as why:
            skip = str(why)
        except Exception:
            _failures.append(traceback.format_exc())
        if not skip and _checks == 0 and not _failures:
            _failures.append("checks nothing")
        for text in _failures:
            print("\n".join("# " + line for line in text.rstrip().splitlines()))
        bad += bool(_failures)
        name = function.__name__.replace("_", " ")
        print(f"{'not ' if _failures else ''}ok {number} - {name}" + (f" # SKIP {skip}" if skip else ""),
              flush=True)
    print(f"1..{len(tests)}")
    sys.exit(1 if bad or not tests else 0)
