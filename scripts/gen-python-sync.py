#!/usr/bin/env python3
"""gen-python-sync.py OUT: derives the sync half of the Python client from its async half.

Writes every file of clients/python/berm/_async to OUT/clients/python/berm/_sync, without `async` and `await` and with
translated names. Two hand-written files with the same names and signatures contain what cannot be derived:
berm/_runtime_async.py and berm/_runtime_sync.py. docs/decisions/0040-python-sync.md explains why.
"""

import io
import pathlib
import re
import sys
import tokenize

FROM = pathlib.Path("clients/python/berm/_async")
TO = pathlib.Path("clients/python/berm/_sync")
NAMES = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "anext": "next",
    "_runtime_async": "_runtime_sync",
    "_async": "_sync",
}
BY = "# Derived from {} by scripts/gen-python-sync.py; do not edit.\n"


def name_of(name):
    """Translates AsyncSandbox to Sandbox, and the names of the table."""
    if name in NAMES:
        return NAMES[name]
    return name[len("Async"):] if re.match(r"Async[A-Z]", name) else name


def text_of(text):
    """Translates the words of comments and strings."""
    return re.sub(r"`async with`", "`with`", re.sub(r"\bAsync(?=[A-Z])", "", text))


def derive(source):
    """Replaces tokens in place, so that everything else stays unchanged, including line ends."""
    lines = source.splitlines(keepends=True)
    edits = []                                          # (row, from column, to column, new text)
    awaitable = None                                    # depth of the bracket that Awaitable[ opened
    depth = 0
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    for token, after in zip(tokens, tokens[1:] + tokens[-1:]):
        (row, column), end = token.start, token.end[1]
        if token.type == tokenize.OP and token.string in "([{":
            depth += 1
        if token.type == tokenize.OP and token.string in ")]}":
            if depth == awaitable:                      # Awaitable[T] is T
                edits.append((row, column, end, ""))
                awaitable = None
            depth -= 1
        if token.type == tokenize.NAME and token.string in ("async", "await"):
            edits.append((row, column, after.start[1], ""))
        elif token.type == tokenize.NAME and token.string == "Awaitable" and after.string == "[":
            edits.append((row, column, after.end[1], ""))
            awaitable = depth + 1
        elif token.type == tokenize.NAME and name_of(token.string) != token.string:
            edits.append((row, column, end, name_of(token.string)))
        elif token.type in (tokenize.STRING, tokenize.COMMENT) and token.start[0] == token.end[0]:
            edits.append((row, column, end, text_of(token.string)))
    for row, start, end, new in sorted(edits, reverse=True):
        line = lines[row - 1]
        lines[row - 1] = line[:start] + new + line[end:]
    text = "".join(lines)
    # Docstrings of several lines, and an import that names something twice after translation.
    text = re.sub(r'"""[^"]*"""', lambda match: text_of(match[0]), text)
    text = re.sub(r"^(from collections\.abc import )(.*)$", imports, text, flags=re.M)
    return text


def imports(match):
    names = sorted({name.strip() for name in match[2].split(",")} - {"Awaitable"})
    return match[1] + ", ".join(names)


def main():
    out = pathlib.Path(sys.argv[1]) / TO
    out.mkdir(parents=True, exist_ok=True)
    files = sorted(FROM.glob("*.py"))
    if not files:
        sys.exit(f"nothing in {FROM}")
    for file in files:
        text = derive(file.read_text())
        if file.name == "__init__.py":
            text = '"""The half of the package for threads; derived from berm/_async."""\n'
        (out / file.name).write_text(BY.format(f"berm/_async/{file.name}") + text)


main()
