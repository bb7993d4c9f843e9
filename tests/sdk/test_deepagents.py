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
