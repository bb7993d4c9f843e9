#!/usr/bin/env python3
"""Prints functions over 60 lines and files over 500 lines, for information. Never fails."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
FUNCTION_LINES, FILE_LINES = 60, 500


def functions(lines):
    """Yields (name, first line, length) of each definition. It starts with ` {` and ends with `}`, both without
    indentation, which clang-format ensures."""
    start = None
    for number, line in enumerate(lines, 1):
        if start is None and line.endswith(") {") and not line.startswith(("}", "#", "/", "*")):
            first = number - 1          # a long parameter list starts above
            while first > 0 and lines[first].startswith(" "):
                first -= 1
            if not lines[first].startswith(" "):
                name = re.search(r"(\w+)\(", lines[first])
                start = (name[1] if name else "?", first + 1)
        elif start and line.startswith("}"):
            yield *start, number - start[1] + 1
            start = None


def main():
    for folder in ("src", "tests", "bench", "clients/c"):
        for file in sorted(p for p in (ROOT / folder).rglob("*.[ch]")):
            lines = file.read_text().splitlines()
            path = file.relative_to(ROOT)
            if len(lines) > FILE_LINES:
                print(f"size: {path} has {len(lines)} lines")
            for name, first, length in functions(lines):
                if length > FUNCTION_LINES:
                    print(f"size: {path}:{first} {name} has {length} lines")


main()
