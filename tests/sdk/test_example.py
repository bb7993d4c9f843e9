"""The example agent does its work, and does it in the sandbox."""

import os
import subprocess
import sys

from daemon import ROOT, SECONDS


def test_deepagents_agent(daemon):
    environment = {**os.environ, "BERM_SOCKET": str(daemon.socket), "PYTHONPATH": str(ROOT / "clients/python")}
    done = subprocess.run([sys.executable, ROOT / "examples/deepagents_agent.py"], env=environment, text=True,
                          capture_output=True, timeout=2 * SECONDS)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split("(")[0] for line in lines if "(" in line and line.split("(")[0].isidentifier()] == [
        "write_file", "execute", "edit_file", "grep", "read_file"]
    tools = [line for line in lines if line.startswith("tool:")]
    assert "5736396" in tools[1]                       # computed inside, not scripted
    assert any("primes.py" in line for line in lines[lines.index(tools[3]):])
    assert lines[-1] == "in the sandbox: ['python3 primes.py | tee answer.txt']"
