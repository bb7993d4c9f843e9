#!/usr/bin/env python3
"""Checks that every path of this repository that the documents name exists."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCS = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs/**/*.md", "spec/**/*.md", "clients/*/README.md"]
FOLDERS = {"src", "proto", "spec", "docs", "tests", "scripts", "bench", "clients", "bin", "examples", ".ci"}
WORD = re.compile(r"`([^`\s]+)`")
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")


def expand(path):
    """Expands a/{b,c}.h into two paths."""
    match = re.search(r"\{([^{}]*,[^{}]*)\}", path)
    if not match:
        return [path]
    return [p for part in match[1].split(",") for p in expand(path[: match.start()] + part + path[match.end():])]


def exists(base, path):
    return any(base.glob(path)) if "*" in path else (base / path).exists()


def main():
    bad = seen = 0
    for doc in sorted({file for pattern in DOCS for file in ROOT.glob(pattern)}):
        for number, line in enumerate(doc.read_text().splitlines(), 1):
            named = [((ROOT, doc.parent), word) for word in WORD.findall(line)
                     if word.split("/")[0] in FOLDERS and "/" in word and not re.search(r"[<>$:()…]|NN", word)]
            named += [((doc.parent,), link) for link in LINK.findall(line) if "://" not in link and not link.startswith("mailto:")]
            for bases, word in named:
                for path in expand(word.rstrip("/.,")):
                    seen += 1
                    if not any(exists(base, path) for base in bases):
                        print(f"{doc.relative_to(ROOT)}:{number}: {path} is not there")
                        bad += 1
    if not seen:
        print("the documents name no path at all: the check sees nothing")
    return 1 if bad or not seen else 0


sys.exit(main())
