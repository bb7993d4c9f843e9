"""What the benches share: what the machine does besides, the budgets, tables."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = ROOT / "build/bin"
OUT = ROOT / "build/bench"
RESULTS = ROOT / "bench/results"
TICKS = os.sysconf("SC_CLK_TCK")
QUIET_CPUS = 0.15           # what other programs may take before a turn is noisy
NO_JOURNAL = "ext4 without a journal"


def progress(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def die(text):
    sys.exit(f"bench: {text}")


def copy_programs(*others):
    """bermd with what it starts, and others: a build meanwhile must not change what is measured."""
    OUT.mkdir(parents=True, exist_ok=True)
    for program in ("bermd", "berm-spawn", "berm-guest", *others):
        shutil.copy2(BIN / program, OUT / program)


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def busy_seconds():
    """Of all CPUs together, what the hypervisor took away included."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(
        int, pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


def busy_cpus(seconds=0.2):
    """How many CPUs are at work while we wait."""
    busy, start = busy_seconds(), time.monotonic()
    time.sleep(seconds)
    return (busy_seconds() - busy) / (time.monotonic() - start)


class Quiet:
    """Waits for a quiet machine while there is patience, and remembers how it was."""

    def __init__(self, patience):
        self.patience = patience
        self.seen = []

    def wait(self):
        while True:
            start = time.monotonic()
            cpus = busy_cpus()
            if cpus <= QUIET_CPUS or self.patience <= 0:
                self.seen.append(cpus)
                return
            self.patience -= time.monotonic() - start


def private_bytes(pid):
    """All memory that would come back if the process ended, and the part of it that was written."""
    rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    kb = {key: int(value) for key, value in re.findall(r"^(\w+): +(\d+) kB$", rollup, re.M)}
    return {"private": (kb["Private_Clean"] + kb["Private_Dirty"]) * 1024, "dirty": kb["Private_Dirty"] * 1024}


def file_system(folder):
    source, kind = output_of("df", "--output=source,fstype", str(folder)).split("\n")[1].split()
    journals = pathlib.Path("/proc/fs/jbd2").glob(f"{pathlib.Path(source).name}-*")
    return NO_JOURNAL if kind == "ext4" and not any(journals) else kind


def budgets(section, value_of):
    """The promises of one section of spec/budgets.md. A row there begins with the name of what is measured;
    value_of gives its value, or None where this run could not measure it."""
    text = (ROOT / "spec/budgets.md").read_text()
    part = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    rows = re.findall(r"^\| `([\w.]+)` \| ([≤≥]) ([\d.]+)", part[1] if part else "", re.M)
    if not rows:
        die(f"spec/budgets.md promises nothing under {section}")
    for name, sign, bound in rows:
        value, bound = value_of(name), float(bound)
        holds = value is not None and (value >= bound if sign == "≥" else value <= bound)
        yield {"name": name, "sign": sign, "bound": bound, "value": value, "holds": holds}


def budget_table(rows):
    yield ["budget", "promised", "measured", ""]
    for b in rows:
        measured = ("–", "not measured") if b["value"] is None else (
            f"{b['value']:.3g}", "holds" if b["holds"] else "misses")
        yield [f"`{b['name']}`", f"{b['sign']} {b['bound']:g}", *measured]


def markdown(rows):
    rows = list(rows)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    rows.insert(1, ["-" * width for width in widths])
    return "\n".join("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |"
                     for row in rows)
