"""scripts/test must not be fooled: each way a suite can go wrong turns it red."""

import importlib.machinery
import importlib.util
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import suites  # noqa: E402


@pytest.fixture(autouse=True)
def signals():
    """The runner installs handlers."""
    numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGCHLD)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before):
        signal.signal(number, handler)


@pytest.fixture
def runner(tmp_path, monkeypatch):
    loader = importlib.machinery.SourceFileLoader("runner", str(ROOT / "scripts/test"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("runner", loader))
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    loader.exec_module(module)
    monkeypatch.setattr(module, "LOGS", tmp_path)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.delenv("CI", raising=False)
    return module


def outcome(runner, command, form="tap", budget=10):
    return runner.summary(runner.run_suite(runner.Suite("x", command, form, budget)).results)


def run_all(runner, monkeypatch, capsys, *suites):
    """The exit status and the lines of a run of these suites."""
    monkeypatch.setattr(runner, "SUITES", suites)
    monkeypatch.setattr("sys.argv", ["test"])
    for name in ("BERM_TEST_TIMEOUT", "HOME", "TMPDIR"):
        monkeypatch.setenv(name, os.environ.get(name, "1"))    # main sets them
    return runner.main(), capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    "command, expected",
    [
        ("echo 1..2; echo ok 1 - a; echo ok 2 - b", "2 passed, 0 failed, 0 skipped"),
        ("echo 1..1; echo ok 1 - a '# SKIP no cgroup'", "0 passed, 0 failed, 1 skipped"),
        ("echo '1..0 # SKIP no Go'", "0 passed, 0 failed, 1 skipped"),
        ("echo 1..2; echo ok 1 - a; echo not ok 2 - b", "1 passed, 1 failed, 0 skipped"),
        ("echo 1..2; echo ok 1 - a", "1 passed, 1 failed, 0 skipped"),
        ("echo ok 1 - a", "1 passed, 1 failed, 0 skipped"),
        ("echo 1..0", "0 passed, 1 failed, 0 skipped"),
        ("true", "0 passed, 1 failed, 0 skipped"),
        ("echo 1..1; echo ok 1 - a; exit 3", "1 passed, 1 failed, 0 skipped"),
        ("echo 1..1; echo ok 1 - a; kill -SEGV $$", "1 passed, 1 failed, 0 skipped"),
        ("echo 1..1; echo '    not ok 1 - inner'; echo ok 1 - outer", "1 passed, 0 failed, 0 skipped"),
        ("no-such-program", "0 passed, 1 failed, 0 skipped"),
    ],
)
def test_tap(runner, command, expected):
    assert outcome(runner, command) == expected


def test_exit(runner):
    assert outcome(runner, "true", "exit") == "1 passed, 0 failed, 0 skipped"
    assert outcome(runner, "false", "exit") == "0 passed, 1 failed, 0 skipped"


def test_junit(runner):
    report = "<testsuite><testcase classname='a' name='b'/><testcase classname='a' name='c'>{}</testcase></testsuite>"
    write = "echo \"" + report + "\" > {junit}"
    assert outcome(runner, write.format("", junit="{junit}"), "junit") == "2 passed, 0 failed, 0 skipped"
    for tag in ("<failure message='x'/>", "<error message='x'/>"):
        assert outcome(runner, write.format(tag, junit="{junit}"), "junit") == "1 passed, 1 failed, 0 skipped"
    assert outcome(runner, "true", "junit") == "0 passed, 1 failed, 0 skipped"


def test_go(runner):
    event = """echo '{"Action":"%s","Package":"p","Test":"T"}';"""
    assert outcome(runner, event % "pass", "go") == "1 passed, 0 failed, 0 skipped"
    assert outcome(runner, event % "fail", "go") == "0 passed, 1 failed, 0 skipped"
    assert outcome(runner, event % "pass" + "exit 1", "go") == "1 passed, 1 failed, 0 skipped"
    assert outcome(runner, "echo no packages", "go") == "0 passed, 1 failed, 0 skipped"


def is_alive(pid):
    """One that has ended may stay until somebody waits for it."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("start", ["", "setsid "])
def test_a_suite_over_its_budget_is_killed_with_its_children(runner, tmp_path, start):
    """Those in a session of their own too, as daemons are."""
    command = f"{start}sh -c 'echo $$ > {tmp_path}/child; exec sleep 1000' & echo 1..1; echo ok 1 - a; wait"
    assert outcome(runner, command, budget=3) == "1 passed, 1 failed, 0 skipped"
    child, deadline = int((tmp_path / "child").read_text()), time.monotonic() + 60
    while is_alive(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_alive(child)


def test_a_missing_program_is_a_skip_with_its_name(runner):
    (result,) = runner.run_suite(runner.Suite("x", "true", "exit", 10, needs=["no-such-program"])).results
    assert (result.outcome, result.detail) == ("skipped", "no-such-program is not installed")


def test_ci_accepts_only_listed_skips(runner, tmp_path, monkeypatch):
    (tmp_path / "accepted").write_text("# comment\nx: known reason\n")
    monkeypatch.setattr(runner, "ACCEPTED", tmp_path / "accepted")
    suite = runner.Suite("x", "", "tap", 1)
    results = [runner.Result("a", "skipped", "known reason"), runner.Result("b", "skipped", "other")]
    assert [r.outcome for r in runner.refuse(suite, results)] == ["skipped", "failed"]


def test_the_last_line_and_the_exit_status(runner, monkeypatch, capsys):
    for command, status, last in [("true", 0, "1 passed, 0 failed, 0 skipped"), ("false", 1, "0 passed, 1 failed, 0 skipped")]:
        ended, lines = run_all(runner, monkeypatch, capsys, runner.Suite("x", command, "exit", 10))
        assert (ended, lines[-1]) == (status, last)


# --- what a suite finds around it ---

@pytest.mark.parametrize("name", ["SIGINT", "SIGQUIT", "SIGHUP"])
def test_a_suite_of_a_background_run_can_be_interrupted(runner, monkeypatch, name):
    """A shell starts background jobs with SIGINT and SIGQUIT ignored, nohup with SIGHUP."""
    number = getattr(signal, name)
    monkeypatch.setenv("TMPDIR", "/tmp")
    signal.signal(number, signal.SIG_IGN)
    ignores = f"(( (0x$(sed -n 's/^SigIgn:\\t//p' /proc/self/status) >> {number - 1}) & 1 ))"
    assert outcome(runner, ignores, "exit").startswith("1 passed"), "this test can fail"
    runner.prepare(1)
    assert outcome(runner, f"! {ignores}", "exit").startswith("1 passed")
    signal.raise_signal(number)
    assert not runner.ENDING, "the run itself goes on ignoring it"


@pytest.mark.parametrize("unusual", ["/tmp/" + 100 * "x", "/tmp/a b"])
def test_a_suite_has_a_home_and_a_plain_temporary_directory(runner, monkeypatch, unusual):
    monkeypatch.delenv("HOME")
    monkeypatch.setenv("TMPDIR", unusual)
    monkeypatch.setattr("tempfile.tempdir", unusual)
    runner.prepare(1)
    assert outcome(runner, 'test -d "$HOME" && test "$TMPDIR" = /tmp', "exit").startswith("1 passed")


def test_a_suite_makes_files_that_others_may_read(runner, tmp_path):
    before = os.umask(0o077)
    try:
        runner.prepare(1)
        assert outcome(runner, f"touch {tmp_path}/file", "exit").startswith("1 passed")
        assert (tmp_path / "file").stat().st_mode & 0o777 == 0o644
    finally:
        os.umask(before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_ended_takes_its_suites_along(tmp_path, number):
    """Its suites are in sessions of their own, so nobody else would."""
    script = f"""
import runpy, sys
sys.path.insert(0, {str(ROOT / "tests")!r})
import suites
suites.SUITES[:] = [suites.Suite(name, f"echo $$ > {tmp_path}/{{name}}; sleep 1000", "exit", 1000) for name in "ab"]
sys.argv = ["test", "--jobs", "1"]
runpy.run_path({str(ROOT / "scripts/test")!r}, run_name="__main__")
"""
    process = subprocess.Popen([sys.executable, "-B", "-c", script], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not ((tmp_path / "a").exists() and (tmp_path / "a").read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(number)
    assert f"interrupted by {number.name}" in process.communicate(timeout=60)[1] and process.returncode == 1
    assert not is_alive(int((tmp_path / "a").read_text())) and not (tmp_path / "b").exists()


# --- the table ---

def test_every_test_file_is_in_a_suite():
    """A file that only some suite's list could name would be forgotten."""
    commands = [f"{s.command.replace('{tests}', s.tests)} " for s in suites.SUITES]
    for path in [*ROOT.glob("tests/*/test_*.py"), *ROOT.glob("clients/python/tests/test_*.py")]:
        file = str(path.relative_to(ROOT))
        assert any(f" {file} " in c or f" {path.parent.relative_to(ROOT)} " in c and f"--ignore={file} " not in c
                   for c in commands), file


def test_suites_have_names_of_their_own_and_skips_name_suites():
    names = [s.name for s in suites.SUITES]
    assert len(names) == len(set(names))
    skips = [line for line in (ROOT / "tests/accepted-skips.txt").read_text().splitlines() if not line.startswith("#")]
    assert {line.split(": ")[0] for line in skips} <= set(names)


# --- side by side ---

def meet(tmp_path, me, other):
    """A suite that ends well only while the other one runs."""
    return (f"touch {tmp_path}/{me}; for i in $(seq 500); do [ -e {tmp_path}/{other} ] && exit 0; sleep 0.02; done; exit 1")


def test_suites_run_side_by_side(runner, monkeypatch, capsys, tmp_path):
    suites = [runner.Suite(a, meet(tmp_path, a, b), "exit", 60) for a, b in ("ab", "ba")]
    assert run_all(runner, monkeypatch, capsys, *suites)[0] == 0


def test_a_suite_that_looks_at_the_whole_host_runs_alone(runner, monkeypatch, capsys, tmp_path):
    """Each of the two would see the other's file."""
    command = f"[ ! -e {tmp_path}/busy ] && touch {tmp_path}/busy && sleep 0.3 && rm {tmp_path}/busy"
    suites = [runner.Suite(name, command, "exit", 60, alone=name != "c") for name in "abc"]
    status, lines = run_all(runner, monkeypatch, capsys, *suites)
    assert status == 0 and [line.split()[0] for line in lines[:3]] == ["c", "a", "b"]


def test_the_longest_suite_starts_first(runner, monkeypatch, capsys, tmp_path):
    suites = [runner.Suite(f"s{budget}", f"echo {budget} >> {tmp_path}/order", "exit", budget) for budget in (20, 40, 30)]
    monkeypatch.setattr("os.cpu_count", lambda: -1)     # one job
    assert run_all(runner, monkeypatch, capsys, *suites)[0] == 0
    assert (tmp_path / "order").read_text().split() == ["40", "30", "20"]


# --- again ---

def once(tmp_path, name):
    """A shell condition that fails the first time."""
    mark = shlex.quote(str(tmp_path / f"mark-{name}"))
    return f"{{ [ -e {mark} ] || {{ touch {mark}; false; }}; }}"


def test_a_test_that_passes_alone_is_flaky_and_keeps_both_outputs(runner, monkeypatch, capsys, tmp_path):
    suite = runner.Suite("x", f"echo run; {once(tmp_path, 'x')} && echo better", "exit", 10)
    status, lines = run_all(runner, monkeypatch, capsys, suite)
    assert status == 0 and lines[-1] == "1 passed, 0 failed, 0 skipped"
    assert re.match(r"flaky: x: exit status: it ended with status 1 \(x.first.log, x.log\)", lines[-2])
    assert (tmp_path / "x.first.log").read_text() == "run\n" and (tmp_path / "x.log").read_text() == "run\nbetter\n"


def test_a_test_that_fails_twice_is_a_failure(runner, monkeypatch, capsys, tmp_path):
    status, lines = run_all(runner, monkeypatch, capsys, runner.Suite("x", "echo why; false", "exit", 10))
    assert status == 1 and "    why" in lines and not [line for line in lines if line.startswith("flaky")]
    assert (tmp_path / "x.first.log").exists()


def test_more_than_two_flaky_tests_fail_the_run(runner, monkeypatch, capsys, tmp_path):
    suites = [runner.Suite(name, once(tmp_path, name), "exit", 10) for name in "abc"]
    status, lines = run_all(runner, monkeypatch, capsys, *suites)
    assert status == 1 and lines[-1] == "3 passed, 1 failed, 0 skipped"
    assert len([line for line in lines if line.startswith("flaky: ")]) == 3


def test_many_failures_are_not_repeated(runner, monkeypatch, capsys, tmp_path):
    plan = "; ".join(["echo 1..11", *(f"echo not ok {n} - t{n}" for n in range(1, 12))])
    status, lines = run_all(runner, monkeypatch, capsys, runner.Suite("x", plan, "tap", 10))
    assert status == 1 and lines[-1] == "0 passed, 11 failed, 0 skipped" and not (tmp_path / "x.first.log").exists()


def test_only_the_failed_tests_of_pytest_are_repeated(runner, monkeypatch, capsys, tmp_path):
    """Two that fail once, in a class and with a parameter, one that always does, and one that never does."""
    (tmp_path / "test_it.py").write_text(f"""
import pathlib, pytest
def once(name):
    mark = pathlib.Path({str(tmp_path)!r}, name)
    known = mark.exists()
    mark.touch()
    assert known, "the first time"
class TestClass:
    @pytest.mark.parametrize("what", ["a b", "c"])
    def test_parameter(self, what):
        assert what == "c" or once("one") is None
def test_once():
    once("two")
def test_never():
    assert 0, "never"
def test_always():
    with open({str(tmp_path / "runs")!r}, "a") as runs:
        runs.write("x")
""")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n")
    suite = suites.pytest("x", "test_it.py", 60, python=shlex.quote(sys.executable) + " ")
    status, lines = run_all(runner, monkeypatch, capsys, suite)
    assert status == 1 and lines[-1] == "4 passed, 1 failed, 0 skipped"
    assert {line.split(": ")[2] for line in lines if line.startswith("flaky: ")} == {
        "test_it.py::TestClass::test_parameter[a b]", "test_it.py::test_once"}
    assert "    FAILED test_it.py::test_never: AssertionError: never" in lines
    assert (tmp_path / "runs").read_text() == "x"


def test_a_failed_tap_test_is_repeated_by_its_name(runner, monkeypatch, capsys, tmp_path):
    (tmp_path / "program").write_text(f"""#!/bin/bash
echo "$*" >> {tmp_path}/asked
if [ $# = 0 ]; then echo ok 1 - a; echo not ok 2 - b c; echo 1..2; else echo "ok 1 - $1"; echo 1..1; fi
""")
    (tmp_path / "program").chmod(0o755)
    status, lines = run_all(runner, monkeypatch, capsys, runner.Suite("x", "./program {tests}", "tap", 10))
    assert status == 0 and lines[-1] == "2 passed, 0 failed, 0 skipped" and lines[-2].startswith("flaky: x: b c:")
    assert (tmp_path / "asked").read_text() == "\nb c\n"


def test_a_failed_go_test_is_repeated_by_its_name(runner, monkeypatch, capsys, tmp_path):
    command = """f() { [ $# = 0 ] && how=fail || how=pass; echo "$*" >> asked; for t in TestA TestB/x TestB; do
        echo "{\\"Action\\":\\"$([ $t = TestA ] && echo pass || echo $how)\\",\\"Package\\":\\"p\\",\\"Test\\":\\"$t\\"}"; done; }; f {tests}"""
    status, lines = run_all(runner, monkeypatch, capsys, runner.Suite("x", command, "go", 10))
    assert status == 0 and lines[-1] == "3 passed, 0 failed, 0 skipped"
    assert len([line for line in lines if line.startswith("flaky: ")]) == 2
    assert (tmp_path / "asked").read_text() == "\n-count=1 -run ^(TestB)$\n"


def test_a_suite_that_repeats_worse_is_a_failure(runner, monkeypatch, capsys, tmp_path):
    """When a whole suite is repeated and another test fails, nothing of it counts as flaky."""
    command = f"echo 1..2; if {once(tmp_path, 'x')}; then echo ok 1 - a; echo not ok 2 - b; else echo not ok 1 - a; echo ok 2 - b; fi"
    status, lines = run_all(runner, monkeypatch, capsys, runner.Suite("x", command, "tap", 10))
    assert status == 1 and lines[-1] == "1 passed, 1 failed, 0 skipped"
    assert not [line for line in lines if line.startswith("flaky")]
