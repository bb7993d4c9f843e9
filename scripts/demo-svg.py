#!/usr/bin/env python3
"""demo-svg.py   runs a short session against a throw-away daemon and draws it as docs/demo.svg

The commands and their output are real; only ids of processes differ from run to run. Needs root and a build in build/.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from html import escape

ROOT = pathlib.Path(__file__).resolve().parent.parent
SVG = ROOT / "docs/demo.svg"
COLUMNS, LINE, MARGIN, TOP = 96, 19, 18, 46
STYLE = """text { font: 14px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: #d7dae0; white-space: pre }
.prompt { fill: #7ee787 } .command { fill: #ffffff; font-weight: bold } .comment { fill: #8b949e } .title { fill: #8b949e }"""

# A line is a comment, or a command that bash runs with its output on the screen.
SESSION = r"""
# One command in a new sandbox: the host's tools, none of its data
berm run -- python3 -c 'import os; print(os.getuid(), os.listdir("/home"))'
berm run -- cat /etc/shadow
# A sandbox that stays, and a program in it
berm create --id box --memory 512M
berm exec -d --exec-id work box -- sh -c 'for i in 1 2 3; do echo $i; sleep 1; done; exit 7'
# Kill the daemon while the program runs, then follow the output
kill -9 $(daemon_pid); berm daemon start --state /var/lib/berm
berm attach work; echo "exit status $?"
berm rm box
"""
PRELUDE = r"""daemon_pid() { berm daemon status | grep -oE 'pid [0-9]+' | grep -oE '[0-9]+'; }"""
SHOWN_STATE = "/var/lib/berm"    # the picture shows this path; the session uses a temporary directory instead


def run_session(environment):
    """Returns the lines of the screen as (class, text)."""
    screen = []
    for line in SESSION.strip().splitlines():
        if line.startswith("#"):
            screen += [("", ""), ("comment", line)]
            continue
        screen.append(("command", line.replace("$(daemon_pid)", "$BERMD_PID")))
        command = line.replace(SHOWN_STATE, environment["BERM_STATE"])
        done = subprocess.run(["bash", "-c", f"{PRELUDE}\n{command}"], env=environment, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=60)
        screen += [("output", re.sub(r"/tmp/\S+?/(bermd\.\w+)", r"/run/berm/\1", text)) for text in done.stdout.splitlines()]
        time.sleep(0.5)
    return screen[1:]


def wrap(kind, text):
    """Breaks a line that is wider than the screen."""
    width = COLUMNS - (2 if kind == "command" else 0)
    return [text[i:i + width] for i in range(0, len(text), width)] or [""]


def draw(screen):
    rows, y = [], TOP
    for kind, text in screen:
        for n, part in enumerate(wrap(kind, text)):
            y += LINE
            prompt = f'<tspan class="prompt">{"$" if n == 0 else " "} </tspan>' if kind == "command" else ""
            rows.append(f'<text x="{MARGIN}" y="{y}" xml:space="preserve">{prompt}<tspan class="{kind}">{escape(part)}</tspan></text>')
    width, height = COLUMNS * 8.5 + 2 * MARGIN, y + MARGIN + 4
    dots = "".join(f'<circle cx="{MARGIN + 4 + 20 * n}" cy="20" r="6" fill="{fill}"/>'
                   for n, fill in enumerate(("#ff5f56", "#ffbd2e", "#27c93f")))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}" '
            f'role="img" aria-label="A session with berm">\n<!-- Written by scripts/demo-svg.py from a real session. -->\n'
            f'<style>{STYLE}</style>\n<rect width="100%" height="100%" rx="8" fill="#0d1117"/>\n{dots}\n'
            f'<text class="title" x="{width / 2:.0f}" y="25" text-anchor="middle">berm</text>\n' + "\n".join(rows) + "\n</svg>\n")


def main():
    if os.geteuid() != 0:
        sys.exit("demo-svg.py: needs root")
    folder = tempfile.mkdtemp(prefix="berm-demo-")
    environment = {"PATH": f"{ROOT}/build/bin:{os.environ['PATH']}", "BERM_SOCKET": f"{folder}/bermd.sock", "HOME": folder,
                   "BERM_STATE": f"{folder}/state", "LC_ALL": "C.UTF-8"}
    start = ["berm", "daemon", "start", "--state", f"{folder}/state"]
    try:
        subprocess.run(start, env=environment, check=True, stdout=subprocess.DEVNULL)
        SVG.write_text(draw(run_session(environment)))
    finally:
        subprocess.run(["berm", "rm", "box"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        subprocess.run(["berm", "daemon", "stop"], env=environment, stdout=subprocess.DEVNULL)
        shutil.rmtree(folder, ignore_errors=True)


main()
