#!/usr/bin/env python3
"""sample-prose.py [--seed N] [--comments N] [--sentences N]   draws comments and sentences for a reading test

Prints 70 comments of src/ and clients/ and 30 sentences of docs/, spec/ and README.md, numbered, each with its place. The
same seed draws the same sample from the same tree. Generated files are left out. A reader who does not know the project marks
every item that has to be read twice.
"""

import argparse
import pathlib
import random
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
GENERATED = re.compile(r"/_gen/|/_sync/|/bermv1/|/src/gen/|errors\.(py|go|ts)$|berm_errors\.h$|/dist/|node_modules|package-lock")
CODE = {".c", ".h", ".def", ".py", ".ts", ".mjs", ".go"}
LEAST_WORDS = 4


def tracked(*paths):
    names = subprocess.run(["git", "ls-files", "-z", "--", *paths], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = [ROOT / name for name in names.split("\0") if name and not GENERATED.search(name)]
    return sorted(file for file in files if file.is_file() and "do not edit" not in file.read_text(errors="replace")[:300].lower())


def c_comments(text):
    """Block comments, whole, with their line. A comment behind code comes with that code, which a reader sees too."""
    for match in re.finditer(r"/\*(.*?)\*/", text, re.S):
        code = text[text.rfind("\n", 0, match.start()) + 1:match.start()].strip()
        comment = re.sub(r"[ \t]*\n[ \t]*\*?[ \t]*", " ", match[1]).strip()
        if not comment.startswith("---"):    # the heading of a section
            yield text.count("\n", 0, match.start()) + 1, f"{comment}    [{code}]" if code else comment


def line_comments(text, mark):
    """Comments to the end of a line; consecutive lines are one comment."""
    pattern = re.compile(rf"^\s*{mark}(?!!)\s?(.*)")
    block, start = [], 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if match := pattern.match(line):
            start = start or number
            block.append(match[1])
        elif block:
            yield start, " ".join(block)
            block, start = [], 0


def docstrings(text):
    for match in re.finditer(r'^\s*(?:r?)"""(.*?)"""', text, re.S | re.M):
        yield text.count("\n", 0, match.start()) + 1, re.sub(r"\s+", " ", match[1])


def comments_of(file):
    text = file.read_text(errors="replace")
    if file.suffix in {".c", ".h", ".def"}:
        return c_comments(text)
    if file.suffix == ".py":
        return [*line_comments(text, "#"), *docstrings(text)]
    return [*line_comments(text, "//"), *c_comments(text)]


def sentences_of(file):
    """Sentences of the paragraphs, list items and table cells of a Markdown file; code blocks are left out."""
    inside, paragraph, start = False, [], 0
    for number, line in enumerate([*file.read_text().splitlines(), ""], 1):
        if line.startswith("```"):
            inside = not inside
        ends = inside or line.startswith(("```", "#", "<!--")) or not line.strip()
        begins = bool(re.match(r"\s*(?:[-*|]|\d+\.)\s?", line))
        if (ends or begins) and paragraph:
            for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z`*])", " ".join(paragraph)):
                yield start, sentence
            paragraph, start = [], 0
        if ends:
            continue
        if line.startswith("|"):
            for cell in line.strip().strip("|").split("|"):
                yield number, cell.strip()
            continue
        start = start or number
        paragraph.append(line.strip())


def draw(items, count, seed):
    """A sample without short items; the order of the items does not depend on the machine."""
    items = [item for item in items if len(re.findall(r"[A-Za-z]{2,}", re.sub(r"\]\([^)]*\)|`[^`]*`|    \[.*\]$", "", item[1]))) >= LEAST_WORDS]
    if len(items) < count:
        sys.exit(f"sample-prose.py: only {len(items)} items, {count} wanted")
    return random.Random(seed).sample(items, count)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=12)
    parser.add_argument("--comments", type=int, default=70)
    parser.add_argument("--sentences", type=int, default=30)
    options = parser.parse_args()
    code = [file for file in tracked("src", "clients") if file.suffix in CODE]
    pages = [file for file in tracked("docs", "spec", "README.md") if file.suffix == ".md"]
    comments = [(f"{file.relative_to(ROOT)}:{line}", text.strip()) for file in code for line, text in comments_of(file)]
    sentences = [(f"{file.relative_to(ROOT)}:{line}", text.strip()) for file in pages for line, text in sentences_of(file)]
    sample = draw(comments, options.comments, options.seed) + draw(sentences, options.sentences, options.seed)
    print(f"{len(comments)} comments, {len(sentences)} sentences; seed {options.seed}\n")
    for number, (place, text) in enumerate(sample, 1):
        print(f"{number:3}. {place}\n     {text}\n")


main()
