"""spec/store.md: its tables are those that src/store/schema.c makes, column for column."""

import pathlib
import re
import sqlite3

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPEC = (ROOT / "spec/store.md").read_text()
SOURCE = (ROOT / "src/store/schema.c").read_text()


def steps():
    """The SQL of each version, as the compiler joins it."""
    return ["".join(re.findall(r'"([^"]*)"', body))
            for _, body in re.findall(r"static const char version_(\d+)\[\] =(.*?);\n", SOURCE, re.S)]


def made():
    """table: {column: (type, is it part of the key)}, from a database made of all the steps."""
    db = sqlite3.connect(":memory:")
    for step in steps():
        db.executescript(step)
    tables = [name for name, in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    return {table: {name: (kind, key > 0) for _, name, kind, _, _, key in db.execute(f"PRAGMA table_info({table})")}
            for table in tables}


def told():
    """The same as spec/store.md tells it."""
    return {table: {name: (kind, ", key" in rest)
                    for name, kind, rest in re.findall(r"^\| `(\w+)` \| (\w+)([^|]*)\|", section, re.M)}
            for table, section in re.findall(r"^### (\w+)\n(.*?)(?=^##)", SPEC, re.M | re.S)}


def test_tables_are_as_told():
    assert len(made()) == 4
    assert told() == made()


def test_newest_version_is_reported():
    newest = str(len(steps()))
    assert re.search(r"^Version (\d+)\.", SPEC, re.M)[1] == newest
    assert re.findall(r"^\| (\d+) \|", SPEC, re.M)[-1] == newest
