"""Shared by the benchmarks: the load of the machine, the budgets, tables."""

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
QUIET_CPUS = 0.15           # CPUs that other programs may use before a round counts as noisy
NO_JOURNAL = "ext4 without a journal"


def progress(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def die(text):
    sys.exit(f"bench: {text}")


def copy_programs(*others):
    """Copies bermd, its helpers and others, so that a build meanwhile does not change what is measured."""
    OUT.mkdir(parents=True, exist_ok=True)
    for program in ("bermd", "berm-spawn", "berm-guest", *others):
        shutil.copy2(BIN / program, OUT / program)


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def busy_seconds():
    """Returns the busy time of all CPUs, including time that the hypervisor took."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(
        int, pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


def busy_cpus(seconds=0.2):
    """Returns how many CPUs are busy while we wait."""
    busy, start = busy_seconds(), time.monotonic()
    time.sleep(seconds)
    return (busy_seconds() - busy) / (time.monotonic() - start)


class Quiet:
    """Waits for a quiet machine, up to a limit, and records the load."""

    def __init__(self, quiet_wait):
        self.wait_left = quiet_wait
        self.seen = []

    def wait(self):
        while True:
            start = time.monotonic()
            cpus = busy_cpus()
            if cpus <= QUIET_CPUS or self.wait_left <= 0:
                self.seen.append(cpus)
                return
            self.wait_left -= time.monotonic() - start


def private_bytes(pid):
    """Returns the memory that would be freed if the process ended, and the written part of it."""
    rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    kb = {key: int(value) for key, value in re.findall(r"^(\w+): +(\d+) kB$", rollup, re.M)}
    return {"private": (kb["Private_Clean"] + kb["Private_Dirty"]) * 1024, "dirty": kb["Private_Dirty"] * 1024}


def file_system(folder):
    source, kind = output_of("df", "--output=source,fstype", str(folder)).split("\n")[1].split()
    journals = pathlib.Path("/proc/fs/jbd2").glob(f"{pathlib.Path(source).name}-*")
    return NO_JOURNAL if kind == "ext4" and not any(journals) else kind


def budgets(section, value_of):
    """Returns the promises of one section of spec/budgets.md. A row there starts with the name of a measurement;
    value_of returns its value, or None if this run could not measure it."""
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
