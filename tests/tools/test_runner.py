"""scripts/test must not be fooled: each way a suite can go wrong turns it red."""

import importlib.machinery
import importlib.util
import pathlib
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


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


def outcome(runner, command, form="tap", budget=10, needs=()):
    return runner.summary(runner.run_suite(runner.Suite("x", command, form, budget, needs)))


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


def test_a_suite_over_its_budget_is_killed_with_its_children(runner, tmp_path):
    command = f"sleep 1000 & echo $! > {tmp_path}/child; echo 1..1; echo ok 1 - a; wait"
    assert outcome(runner, command, budget=3) == "1 passed, 1 failed, 0 skipped"
    child, deadline = int((tmp_path / "child").read_text()), time.monotonic() + 60
    while is_alive(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_alive(child)


def test_a_missing_program_is_a_skip_with_its_name(runner):
    (result,) = runner.run_suite(runner.Suite("x", "true", "exit", 10, ["no-such-program"]))
    assert (result.outcome, result.detail) == ("skipped", "no-such-program is not installed")


def test_ci_accepts_only_listed_skips(runner, tmp_path, monkeypatch):
    (tmp_path / "accepted").write_text("# comment\nx: known reason\n")
    monkeypatch.setattr(runner, "ACCEPTED", tmp_path / "accepted")
    suite = runner.Suite("x", "", "tap", 1)
    results = [runner.Result("a", "skipped", "known reason"), runner.Result("b", "skipped", "other")]
    assert [r.outcome for r in runner.refuse(suite, results)] == ["skipped", "failed"]


def test_the_last_line_and_the_exit_status(runner, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["test"])
    for command, status, last in [("true", 0, "1 passed, 0 failed, 0 skipped"), ("false", 1, "0 passed, 1 failed, 0 skipped")]:
        monkeypatch.setattr(runner, "SUITES", [runner.Suite("x", command, "exit", 10)])
        assert runner.main() == status
        assert capsys.readouterr().out.splitlines()[-1] == last
