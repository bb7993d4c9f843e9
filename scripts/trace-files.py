#!/usr/bin/env python3
"""trace-files.py create|exec   prints the source files of bermd that one CreateSandbox or one RunExec runs through

Starts a temporary daemon, attaches gdb to it, sets a breakpoint on every function of src/ and removes each at its first hit.
docs/paths.md contains the result. Work that the daemon does in the background meanwhile shows up too. Functions that the
compiler inlined do not. Needs root, gdb and a build in build/.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
OPERATIONS = {"create": ["create"], "exec": ["exec", "--json", "warm", "--", "echo", "hi"]}


def run_in_gdb(gdb):
    """The part that gdb runs, with HITS as the file for its results."""
    hits = set()

    class FirstCall(gdb.Breakpoint):
        def __init__(self, file, name):
            super().__init__(function=name, source=file, internal=True)
            self.file = file

        def stop(self):
            hits.add(self.file)
            self.enabled = False
            return False

    for setting in ("pagination off", "confirm off", "breakpoint pending off"):
        gdb.execute(f"set {setting}")
    for name in ("SIGPIPE", "SIGCHLD"):
        gdb.execute(f"handle {name} nostop noprint pass")
    file = ""
    for line in gdb.execute("info functions -q -n .", to_string=True).splitlines():
        if match := re.match(r"File (.*):$", line):
            file = match[1]
        elif "src/" in file and file.endswith(".c") and (match := re.match(r"\d+:\s.*?(\w+)\(", line)):
            try:
                FirstCall(file, match[1])
            except (gdb.error, RuntimeError):
                pass    # inlined everywhere
    result = pathlib.Path(os.environ["HITS"])
    result.with_suffix(".ready").touch()
    try:
        gdb.execute("continue")    # until trace() sends SIGINT
    except (gdb.error, KeyboardInterrupt):
        pass
    result.write_text("\n".join(sorted(re.sub(r".*src/", "src/", hit) for hit in hits)))
    gdb.execute("detach")
    gdb.execute("quit")


def wait_for(path, seconds=60):
    for _ in range(seconds * 10):
        if path.exists():
            return
        time.sleep(0.1)
    sys.exit(f"trace-files.py: {path.name} did not appear")


def trace(operation):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="berm-trace-"))
    hits = folder / "hits"
    environment = {**os.environ, "PATH": f"{ROOT}/build/bin:{os.environ['PATH']}", "BERM_SOCKET": str(folder / "bermd.sock"),
                   "BERM_NO_START": "1", "HITS": str(hits)}

    def berm(*arguments):
        return subprocess.run(["berm", *arguments], env=environment, capture_output=True, text=True, check=True, timeout=120).stdout

    berm("daemon", "start", "--state", str(folder / "state"))
    try:
        pid = re.search(r"pid (\d+)", berm("daemon", "status"))[1]
        berm("create", "--id", "warm")
        berm("exec", "warm", "--", "true")
        gdb = subprocess.Popen(["gdb", "-q", "-nx", "-batch", "-p", pid, "-x", __file__], env=environment,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(hits.with_suffix(".ready"))
        time.sleep(1)
        berm(*OPERATIONS[operation])
        time.sleep(1)
        gdb.send_signal(signal.SIGINT)
        wait_for(hits)
        gdb.wait(60)
        print(hits.read_text())
    finally:
        for sandbox in berm("ls", "--quiet").split():
            berm("rm", sandbox)
        berm("daemon", "stop")
        shutil.rmtree(folder, ignore_errors=True)


try:
    import gdb as inside
except ImportError:
    if sys.argv[1:] not in [[name] for name in OPERATIONS]:
        sys.exit(__doc__)
    trace(sys.argv[1])
else:
    run_in_gdb(inside)
