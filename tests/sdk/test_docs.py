"""Every example of docs/python.md runs as it stands and prints what the page says."""

import re

import pytest

from daemon import ROOT

PAGE = (ROOT / "docs/python.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```\n(?:```text\n(.*?)^```\n)?", PAGE, re.M | re.S)


def test_the_page_has_examples():
    assert len(EXAMPLES) == PAGE.count("```python") >= 10
    assert all(expected for _, expected in EXAMPLES), "an example that shows nothing proves nothing"


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_example(number, daemon, monkeypatch, capsys):
    source, expected = EXAMPLES[number]
    monkeypatch.setenv("BERM_SOCKET", str(daemon.socket))
    exec(compile(source, f"docs/python.md, example {number + 1}", "exec"), {"__name__": "__main__"})
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert printed == expected.splitlines()
