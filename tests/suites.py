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


def control(name, files, budget, env="", options="", **more):
    return pytest(name, " ".join(f"tests/control/test_{file}.py" for file in files.split()) + options, budget, env, **more)


def spawn(name, budget, env="", **more):
    return Suite(f"spawn-{name.replace('seccomp_policy', 'filter')}", f"{env}python3 tests/spawn/test_{name}.py {{tests}}", "tap",
                 budget, **more)


# Tests of bermd that have a suite of their own below; `control` runs the others.
CONTROL_APART = ("caches lifecycle pool escape neighbours exec exec_cgroups usage limits files files_trees files_chunks "
                 "files_life store model restart failpoints kills").split()

SUITES = [
    Suite("repo", "scripts/check", "tap", 120, quick=True),
    Suite("unit-asan", "build-asan/bin/unit-tests {tests}", "tap", 120, quick=True),
    Suite("unit-gcc", "build/bin/unit-tests {tests}", "tap", 60, quick=True),
    pytest("tools", "tests/tools", 60),
    Suite("clang", "scripts/build clang", "exit", 300, needs=["clang"]),
    Suite("fuzz-replay", "build-asan/bin/fuzz-replay tests/fuzz/corpus", "tap", 120),
    pytest("spec", "tests/spec", 60),
    pytest("sdk-python", "clients/python/tests", 120, python=VENV_SDK),
    pytest("sdk-python-daemon", "tests/sdk", 300, python=VENV_SDK),
    Suite("sdk-go", "cd clients/go && go vet ./... && go test -json {tests} ./...", "go", 300, needs=["go"]),
    Suite("sdk-typescript", "npm --silent --prefix clients/typescript test", "tap", 120, needs=["npm"]),
    pytest("clients-python", "tests/clients", 180),
    pytest("clients-python-asan", "tests/clients", 240, "BERMD=build-asan/bin/bermd "),
    Suite("client-c", "build/bin/client-tests {tests}", "tap", 60, quick=True),
    Suite("client-c-asan", "build-asan/bin/client-tests {tests}", "tap", 60, quick=True),
    pytest("cli", "tests/cli", 600),
    pytest("cli-asan", "tests/cli/test_commands.py tests/cli/test_sandboxes.py tests/cli/test_files.py "
           "tests/cli/test_terminal.py -k 'not bulk'", 400, "BERM=build-asan/bin/berm "),
    pytest("readme", "tests/readme", 300, python=VENV_SDK),
    Suite("demo", "scripts/demo", "exit", 120),
    Suite("clients-go", "cd tests/clients/go && go vet ./... && go test -count=1 -json {tests} ./...", "go", 300, needs=["go"]),
    Suite("clients-node", "npm --silent --prefix clients/typescript run build && "
          "node --test --test-reporter=tap tests/node/*.test.mjs", "tap", 120, needs=["node"]),
    pytest("hostile", "tests/hostile", 400),
    spawn("seccomp_policy", 60),
    spawn("requests", 120),
    spawn("claim", 60),
    spawn("walls", 120),
    spawn("programs", 180),
    spawn("terminal", 120),
    spawn("limits", 240),
    spawn("quota", 120),
    spawn("teardown", 600, "BERM_CYCLES=${BERM_CYCLES:-1000} "),
    pytest("guest", "tests/guest", 500),
    pytest("guest-asan", "tests/guest", 800, "BERM_GUEST=build-asan/bin/berm-guest BERM_GUEST_EXECS=500 "),
    Suite("escape", "tests/escape/run", "tap", 300, alone=True),
    Suite("driver-native", "build/bin/driver-tests {tests}", "tap", 120),
    Suite("driver-native-asan", "build-asan/bin/driver-tests {tests}", "tap", 120),
    pytest("control", "tests/control " + " ".join(f"--ignore=tests/control/test_{name}.py" for name in CONTROL_APART), 600),
    control("control-caches", "caches", 300),
    control("control-lifecycle", "lifecycle", 300),
    control("control-pool", "pool", 300),
    control("control-escape", "escape neighbours", 240),
    control("control-exec", "exec exec_cgroups", 300),
    control("control-usage", "usage limits", 300),
    control("control-files", "files files_trees", 400),
    control("control-files-chunks", "files files_trees files_chunks", 400, "BERM_FILE_CHUNKS=1 "),
    control("control-copies-chunks", "imports", 300, "BERM_FILE_CHUNKS=1 ", " -k 'cop or credential'"),
    control("control-files-life", "files_life", 400),
    control("control-store", "store", 240),
    control("control-model", "model", 240),
    control("control-restart", "restart", 300),
    control("control-failpoints", "failpoints", 600),
    control("control-kills", "kills", 300, "BERM_KILL_ROUNDS=40 "),
    Suite("conformance-wire", "scripts/conformance-wire", "tap", 240),
    Suite("conformance-wire-asan", "scripts/conformance-wire build-asan/bin/conformance-server", "tap", 400),
]
