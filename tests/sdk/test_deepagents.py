"""The judge of deepagents' own makers, whole. A case may be declared here only where it contradicts the
protocol that the pinned deepagents itself documents."""

import berm
import pytest
from langchain_tests.integration_tests import SandboxIntegrationTests

from berm.integrations.deepagents import BermBackend

RELATIVE = "BackendProtocol.glob's results are absolute since deepagents 0.7; the case wants relative paths"
DECLARED = {
    "test_glob": RELATIVE,
    "test_glob_basic_pattern": RELATIVE,
    "test_glob_hidden_files_explicitly": RELATIVE,
    "test_glob_with_character_class": RELATIVE,
    "test_glob_with_question_mark": RELATIVE,
    "test_glob_with_directories": "BackendProtocol.glob: only regular files are returned, never directories",
    "test_write_existing_file_fails": "BackendProtocol.write: creates the file or overwrites it",
}


# The suite runs `python`; Debian's is called python3.
PYTHON = "mkdir -p /workspace/bin && ln -s /usr/bin/python3 /workspace/bin/python"


class TestStandard(SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self, daemon):
        path = {"PATH": "/workspace/bin:/usr/local/bin:/usr/bin:/bin"}
        with berm.Client(socket=daemon.socket) as client, berm.Sandbox.create(client=client, env=path) as sandbox:
            sandbox.run(PYTHON, check=True)
            yield BermBackend(sandbox)


def _declare(name, reason):
    """Still run, and must fail: a suite that is mended shows at once."""
    standard = getattr(SandboxIntegrationTests, name)

    def case(self, sandbox_backend, sandbox_test_root):
        standard(self, sandbox_backend, sandbox_test_root)

    case.__name__, case.__doc__ = name, standard.__doc__
    setattr(TestStandard, name, pytest.mark.xfail(reason=reason, strict=True)(case))


for _name, _reason in DECLARED.items():
    _declare(_name, _reason)


def test_few_cases_are_declared():
    cases = [name for name in dir(SandboxIntegrationTests) if name.startswith("test_")]
    assert len(cases) == 86, "another suite than the one these declarations were made for"
    assert len(DECLARED) <= 8


# What the suite leaves out.

@pytest.fixture(scope="module")
def backend(daemon):
    with berm.Client(socket=daemon.socket) as client, berm.Sandbox.create(client=client) as sandbox:
        yield BermBackend(sandbox)


def test_results_of_commands(backend):
    both = backend.execute("echo out; echo err >&2; exit 3")
    assert (both.output, both.exit_code, both.truncated) == ("out\nerr\n", 3, False)
    late = backend.execute("echo begun; sleep 1000", timeout=4)     # long enough to begin, on any machine
    assert late.exit_code == 124 and late.output == "begun\n[command timed out: after 4 s]"
    assert backend.execute("kill -9 $$").exit_code == 137
    assert backend.execute("echo fine", timeout=0).output == "fine\n"
    much = backend.execute("yes | head -c 11000000")
    assert much.truncated and len(much.output) == 10 * 1024 * 1024


def test_windows_of_a_file(backend):
    backend.write("/workspace/five", "1\r\n2\r\n3\n4\n5")
    page = backend.read("/workspace/five", offset=1, limit=2)
    assert page.file_data["content"] == "2\n3"
    assert (page.start_line, page.end_line, page.next_offset, page.total_lines) == (2, 3, 3, 5)
    last = backend.read("/workspace/five", offset=3, limit=100)
    assert (last.file_data["content"], last.next_offset, last.end_line) == ("4\n5", None, 5)
    assert backend.read("/workspace/five", offset=-3, limit=1).file_data["content"] == "1"
    assert backend.read("/workspace/five", limit=-1).no_lines_requested
    assert backend.read("/workspace/five", offset=5).error.endswith("Line offset 5 exceeds file length (5 lines)")
    assert backend.read("/workspace").error == "File '/workspace': not_a_file"
    backend.upload_files([("/workspace/bytes", b"\xff\xfe" * 300_000)])
    assert "maximum preview size" in backend.read("/workspace/bytes").error


def test_searches_are_capped_and_say_so(backend):
    backend.write("/workspace/many/file.txt", "needle\n" * 10)
    capped = backend.grep("needle", "/workspace/many", max_count=3)
    assert len(capped.matches) == 3 and capped.truncated
    exact = backend.grep("needle", "/workspace/many", max_count=10)
    assert len(exact.matches) == 10 and not exact.truncated
    assert backend.grep("needle", "/nonesuch").error == "Path '/nonesuch': file_not_found"
    assert [m["path"] for m in backend.glob("many/**/*.txt").matches] == ["/workspace/many/file.txt"]
    assert backend.glob("*", "/nonesuch").error == "Path '/nonesuch': file_not_found"


def test_delete(backend):
    backend.write("/workspace/gone/file", "x")
    assert backend.delete("/workspace/gone").path == "/workspace/gone"
    assert "not found" in backend.delete("/workspace/gone").error
    assert "invalid_path" in backend.delete("relative").error


def test_what_no_model_can_mend_is_raised(daemon):
    with berm.Client(socket=daemon.socket) as client, berm.Sandbox.create(client=client) as sandbox:
        backend = BermBackend(sandbox)
        sandbox.delete()
        for call in (lambda: backend.execute("true"), lambda: backend.read("/workspace/x"), lambda: backend.ls("/")):
            with pytest.raises(berm.SandboxDeletedError):
                call()
