"""scripts/conformance-md.py --check fails for every rule that has neither a test nor a listed reason."""

import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPEC = "## EVT: events\n\n- **EVT-1** Events MUST be ordered.\n- **EVT-2** An event MUST be durable.\n"
RULE = "EVT-1"    # apart from the claim, which would otherwise count as one of this file
TEST = f"def test_order():\n    pass  # covers: {RULE}\n"


def check(folder, spec=SPEC, test=TEST, holes="EVT-2 not built yet\n"):
    """Runs the script in a copy of the repository that holds only these three texts; returns its exit status and output."""
    for path, text in {"spec/behavior.md": spec, "tests/test_x.py": test, "tests/conformance/holes.txt": holes}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    (folder / "scripts").mkdir(exist_ok=True)
    shutil.copy(ROOT / "scripts/conformance-md.py", folder / "scripts")

    def run(*options):
        done = subprocess.run([folder / "scripts/conformance-md.py", *options], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    status, text = run()
    return run("--check") if status == 0 else (status, text)


def test_page_counts_rules_and_lists_holes(tmp_path):
    assert check(tmp_path) == (0, "")
    page = (tmp_path / "CONFORMANCE.md").read_text()
    assert "1 of 2 rules" in page and "| EVT-2 | An event MUST be durable. | not built yet |" in page
    assert "tests/test_x.py test_order" in (tmp_path / "build/conformance.md").read_text()


@pytest.mark.parametrize("change, message", [
    ({"holes": ""}, "EVT-2: no test claims it"),
    ({"holes": "EVT-1 owed\nEVT-2 owed\n"}, "EVT-1 has a test"),
    ({"test": TEST.replace(RULE, f"{RULE}, EVT-9")}, "EVT-9 is not a rule"),
    ({"spec": SPEC + "- **EVT-1** Again.\n"}, "EVT-1 is used twice"),
])
def test_check_fails_for_each_fault(tmp_path, change, message):
    status, text = check(tmp_path, **change)
    assert status == 1 and message in text, text


def test_check_fails_for_a_stale_page(tmp_path):
    check(tmp_path)
    (tmp_path / "CONFORMANCE.md").write_text("old")
    done = subprocess.run([tmp_path / "scripts/conformance-md.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 1 and "stale" in done.stderr
