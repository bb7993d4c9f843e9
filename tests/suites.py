"""The suites that scripts/test runs.

budget: a suite that takes longer is killed; about four times what it takes alone. Suites with a larger budget start first.
format: how results are read. tap: TAP on stdout; junit: XML at {junit}; go: `go test -json` on stdout; exit: the exit
status is the one test.
tests: what replaces {tests} in the command: paths and options of pytest. When failed tests are repeated, their names
replace it. A tap command with {tests} takes one name; without it, the whole suite is repeated.
needs: programs without which the suite is skipped.
alone: the suite looks at the whole host or measures time, so it runs when no other does.
"""

import collections

Suite = collections.namedtuple("Suite", "name command format budget tests needs quick alone",
                               defaults=["", (), False, False])

# xunit1 is the report that names the file of a test, relative to --rootdir.
PYTEST = "-m pytest -q --rootdir=. -o junit_family=xunit1 --junitxml={junit} {tests}"
VENV = ".deps/venv/bin/python3 "
VENV_SDK = ".deps/venv-sdk/bin/python3 "    # with mypy, OpenTelemetry and deepagents


def pytest(name, tests, budget, env="", python=VENV, **more):
    return Suite(name, env + python + PYTEST, "junit", budget, tests, **more)


# Files that have a suite of their own below; `control`, `guest-exec` and `hostile` run the other ones of their folder.
CONTROL_APART = """caches escape events exec exec_cgroups failpoints files files_chunks files_life files_trees imports kills lifecycle
    limits model neighbours output pool restart store tools usage"""
GUEST_FILES = "edit files sandbox_files search trees watch"
HOSTILE_APART = "bytes process"


def files(folder, names):
    return " ".join(f"tests/{folder}/test_{name}.py" for name in names.split())


def all_but(folder, names):
    return " ".join([f"tests/{folder}", *(f"--ignore=tests/{folder}/test_{name}.py" for name in names.split())])


def control(name, names, budget, env="", options="", **more):
    return pytest(f"control-{name}", files("control", names) + options, budget, env, **more)


def spawn(name, budget, env="", file=None, **more):
    return Suite(f"spawn-{name}", f"{env}python3 tests/spawn/test_{file or name}.py {{tests}}", "tap", budget, **more)


SANITIZED_GUEST = "BERM_GUEST=build-asan/bin/berm-guest BERM_GUEST_EXECS=500 "

SUITES = [
    Suite("repo", "scripts/check", "tap", 120, quick=True),
    Suite("unit-asan", "build-asan/bin/unit-tests {tests}", "tap", 120, quick=True),
    Suite("unit-gcc", "build/bin/unit-tests {tests}", "tap", 120, quick=True),
    Suite("client-c", "build/bin/client-tests {tests}", "tap", 120, quick=True),
    Suite("client-c-asan", "build-asan/bin/client-tests {tests}", "tap", 120, quick=True),
    pytest("tools", "tests/tools", 120),
    Suite("clang", "scripts/build clang", "exit", 500, needs=["clang"]),
    Suite("fuzz-replay", "build-asan/bin/fuzz-replay tests/fuzz/corpus", "tap", 120),
    pytest("spec", "tests/spec", 120),
    Suite("conformance-wire", "scripts/conformance-wire", "tap", 240),
    Suite("conformance-wire-asan", "scripts/conformance-wire build-asan/bin/conformance-server", "tap", 400),

    pytest("sdk-python", "clients/python/tests", 120, python=VENV_SDK),
    pytest("sdk-python-daemon", "tests/sdk", 500, python=VENV_SDK),
    Suite("sdk-go", "cd clients/go && go vet ./... && go test -json {tests} ./...", "go", 300, needs=["go"]),
    Suite("clients-go", "cd tests/clients/go && go vet ./... && go test -count=1 -json {tests} ./...", "go", 300, needs=["go"]),
    # Both tests of clients/typescript use what its one build wrote.
    Suite("typescript", "npm --silent --prefix clients/typescript run build && node --test --test-reporter=tap "
          "clients/typescript/test/*.test.mjs tests/node/*.test.mjs", "tap", 200, needs=["node", "npm"]),
    pytest("clients-python", "tests/clients", 180),
    pytest("clients-python-asan", "tests/clients", 240, "BERMD=build-asan/bin/bermd "),
    pytest("cli", "tests/cli", 480),
    pytest("cli-asan", files("cli", "commands sandboxes files terminal") + " -k 'not bulk'", 400, "BERM=build-asan/bin/berm "),
    pytest("readme", "tests/readme", 200, python=VENV_SDK),
    Suite("demo", "scripts/demo", "exit", 120),

    pytest("hostile", all_but("hostile", HOSTILE_APART), 400),
    pytest("hostile-bytes", files("hostile", HOSTILE_APART), 400),
    spawn("filter", 120, file="seccomp_policy"),
    spawn("requests", 120),
    spawn("claim", 120),
    spawn("walls", 120),
    spawn("programs", 180),
    spawn("terminal", 120),
    spawn("limits", 240),
    spawn("quota", 120),
    spawn("teardown", 400, "BERM_CYCLES=${BERM_CYCLES:-300} "),
    Suite("escape", "tests/escape/run", "tap", 300, alone=True),      # its controls use up what the host has
    Suite("driver-native", "build/bin/driver-tests {tests}", "tap", 120),
    Suite("driver-native-asan", "build-asan/bin/driver-tests {tests}", "tap", 120),
    pytest("guest-exec", all_but("guest", GUEST_FILES), 500),
    pytest("guest-files", files("guest", GUEST_FILES), 450),
    pytest("guest-exec-asan", all_but("guest", GUEST_FILES), 500, SANITIZED_GUEST),
    pytest("guest-files-asan", files("guest", GUEST_FILES), 500, SANITIZED_GUEST),

    pytest("plain-asan", "tests/plain", 300, "BERMD=build-asan/bin/bermd-plain "),
    pytest("plain-nofd-asan", "tests/plain", 300, "BERM_PLAIN_LINK=bytes BERMD=build-asan/bin/bermd-plain "),

    pytest("control", all_but("control", CONTROL_APART), 300),
    control("events", "events", 500),
    control("output", "output", 300),
    control("imports", "imports tools", 400),
    control("caches", "caches", 300),
    control("lifecycle", "lifecycle", 300),
    control("pool", "pool", 300),
    control("escape", "escape neighbours", 300),
    control("exec", "exec exec_cgroups", 300),
    control("usage", "usage limits", 300),
    control("files", "files files_trees", 400),
    control("files-chunks", "files files_trees files_chunks", 400, "BERM_FILE_CHUNKS=1 "),
    control("copies-chunks", "imports", 300, "BERM_FILE_CHUNKS=1 ", " -k 'cop or credential'"),
    control("files-life", "files_life", 500),
    control("store", "store", 300),
    control("model", "model", 240),
    control("restart", "restart", 400),
    control("failpoints", "failpoints", 600),
    control("kills", "kills", 300, "BERM_KILL_ROUNDS=40 "),
]
