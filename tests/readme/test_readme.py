"""Every block of README.md does what the page says, in a throw-away place; a block that nothing here can run fails.

bash runs a `sh` block from the top of the repository, Python a `python` block, and gcc compiles a `c` block; each uses a
daemon of its own. A `text` block is what the one before it prints, line by line; `...` stands for anything. What would install, build
or test everything anew (make, pip) is looked at, not run."""

import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

from daemon import ROOT, SECONDS, Daemon

PAGE = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.M | re.S)
RUN = [(n, language, source) for n, (language, source) in enumerate(BLOCKS) if language != "text"]

# A /tmp of its own for a block that names one, so that paths of the page meet nothing of this machine.
APART = [str(ROOT / "tests/apart"), "/tmp", "--"]


def expected_after(number):
    """The text that follows a block, or None."""
    language, text = BLOCKS[number + 1] if number + 1 < len(BLOCKS) else ("", "")
    return text.splitlines() if language == "text" else None


def agrees(printed, expected):
    pattern = "\n".join(re.escape(line).replace(r"\.\.\.", ".*") for line in expected)
    return re.fullmatch(pattern, "\n".join(printed)) is not None


def looked_at(line):
    """What stands in for a line that would build or install; None for any other."""
    words = shlex.split(line, comments=True)
    if words[:1] == ["make"]:
        target = " ".join(words[1:])
        assert re.search(rf"^{target or 'all'}:.*##", (ROOT / "Makefile").read_text(), re.M), f"no target {target}"
        return f"make -n {target} > /dev/null && test -x build/bin/berm"
    if words[:2] == ["pip", "install"]:
        folder, extra = re.fullmatch(r"(\./[\w/]+)\[(\w+)\]", words[2]).groups()
        assert re.search(rf"^{extra} = \[", (ROOT / folder / "pyproject.toml").read_text(), re.M), words
        return ":"
    return None


def run_sh(source, environment):
    script = "\n".join(looked_at(line) or line for line in source.splitlines())
    return subprocess.run([*(APART if "/tmp/" in source else []), "bash", "-euo", "pipefail", "-c", script], cwd=ROOT,
                          env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=3 * SECONDS)


def run_python(source, environment):
    return subprocess.run([sys.executable, "-c", source], cwd="/", env=environment, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=3 * SECONDS)


def run_c(source, environment):
    """Compiles against the headers and the library of the build, with warnings as errors."""
    program = pathlib.Path(environment["PATH"].split(":")[0]) / "program"
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "libprotobuf-c"], capture_output=True, text=True, check=True)
    built = subprocess.run(["gcc", "-Wall", "-Werror", "-x", "c", "-", f"-I{ROOT}/clients/c/include", f"-I{ROOT}/build/proto",
                            "-x", "none", f"{ROOT}/build/clients/c/libberm.so", f"-Wl,-rpath,{ROOT}/build/clients/c",
                            *flags.stdout.split(), "-o", program], input=source, text=True, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT)
    return built if built.returncode else subprocess.run([program], env=environment, text=True, stdout=subprocess.PIPE,
                                                         stderr=subprocess.STDOUT, timeout=3 * SECONDS)


WAYS = {"sh": run_sh, "python": run_python, "c": run_c}


@pytest.fixture
def environment():
    """A daemon of its own; berm, and a python3 that has what pip would install, in the PATH."""
    if os.geteuid() != 0:
        pytest.skip("the native driver's privileged half needs root")
    daemon = Daemon().start()
    (daemon.directory / "python3").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    (daemon.directory / "python3").chmod(0o755)
    clean = {k: v for k, v in os.environ.items() if not k.startswith("BERM_")}
    yield {**clean, "BERM_SOCKET": str(daemon.socket), "PYTHONPATH": str(ROOT / "clients/python"),
           "PATH": f"{daemon.directory}:{ROOT}/build/bin:{os.environ['PATH']}"}
    daemon.close()


def test_the_page_has_blocks():
    assert PAGE.count("```") == 2 * len(BLOCKS), "a block that is not closed, or indented"
    assert [language for _, language, _ in RUN].count("sh") >= 3 and "python" in [language for _, language, _ in RUN]
    for before, after in zip([("", ""), *BLOCKS], BLOCKS):
        assert after[0] != "text" or before[0] in WAYS, "a text that nothing printed"


@pytest.mark.parametrize("number, language, source", RUN, ids=[f"block-{n + 1}-{language}" for n, language, _ in RUN])
def test_block(number, language, source, environment):
    assert language in WAYS, f"nothing here knows how to run a block of {language or 'no language'}"
    done = WAYS[language](source, environment)
    assert done.returncode == 0, done.stdout
    printed = [line.rstrip() for line in done.stdout.splitlines() if line.strip()]
    if (expected := expected_after(number)) is not None:
        assert agrees(printed, expected), done.stdout


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)(?:#[\w-]+)?\)", PAGE):
        assert (ROOT / target).exists(), target


def test_this_can_fail(environment):
    """Or the tests above show nothing."""
    assert run_sh("true\nfalse\ntrue", environment).returncode != 0
    assert run_sh("berm get nonesuch", environment).returncode == 125
    assert run_python("import berm; berm.Sandbox.connect('nonesuch')", environment).returncode == 1
    assert run_c("int main(void) { return 3; }", environment).returncode == 3
    assert not agrees(["a", "b"], ["a"]) and not agrees(["ax"], ["a"]) and agrees(["pid 7, x"], ["pid ..., x"])
    with pytest.raises(AssertionError, match="no target"):
        looked_at("make everything")
