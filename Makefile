# A front end to Meson, Ninja and the scripts. Every target first installs what it needs.
.DEFAULT_GOAL := all
.PHONY: all install check test demo bench gen fmt conformance-wire escape vm fuzz soak nightly clean help

# Go and npm keep their caches below it, and a service or a bare container has none.
export HOME := $(or $(HOME),$(shell getent passwd "$$(id -u)" | cut -d: -f6),/root)

SOURCES = $(shell git ls-files -co --exclude-standard -- 'src/*.[ch]' 'tests/*.[ch]' 'bench/*.[ch]' 'clients/c/*.[ch]')

all: ## build everything; the programs are in build/bin
	@scripts/setup build
	@scripts/build gcc

install: all ## install programs, libberm, manual and completions into /usr/local, below DESTDIR if it is set
	@meson install -C build --no-rebuild

check: ## run what every commit must pass, in about a minute: format, layers, generated code, contract, unit tests
	@scripts/setup test
	@scripts/build gcc
	@scripts/build asan
	@scripts/check-sizes.py
	@scripts/test --quick

test: ## run every test that this machine supports, and list the tests that it does not
	@scripts/setup test
	@scripts/build gcc
	@scripts/build asan
	@scripts/test

demo: all ## run berm's commands against a temporary daemon, with a kill -9 while a program runs
	@scripts/setup gen
	@scripts/demo

bench: ## compare bermd with gRPC C++, sandboxes with bubblewrap, crun and Docker, files with cp and tar, in interleaved runs
	@scripts/setup bench
	@scripts/build gcc
	@bench/run
	@bench/sandbox
	@bench/files

gen: ## generate client code and documents from proto/, the .def tables and berm's commands
	@scripts/setup gen
	@scripts/gen
	@scripts/conformance-md.py

fmt: ## format the C code with clang-format
	@scripts/setup test
	@clang-format -i $(SOURCES)

conformance-wire: ## run only the Connect conformance suite
	@scripts/setup test
	@scripts/build gcc
	@scripts/conformance-wire

escape: ## attempt to leave a sandbox, each attempt with a control; needs root
	@scripts/setup test
	@scripts/build gcc
	@tests/escape/run

# An emulated CPU is about ten times slower than a real one. Each line boots a machine; tests/vm/run limits its time.
VM_TEST = scripts/test --slow 10 --jobs 1

vm: ## run the tests that depend on the kernel in QEMU, on Debian's kernel with unified cgroups and project quota
	@scripts/setup test vm
	@scripts/build gcc
	@tests/vm/run --state ext4 env BERM_CYCLES=60 BERM_FILES=2000 $(VM_TEST) --only unit-gcc --only driver-native \
		$(addprefix --only spawn-,filter requests claim walls programs limits teardown)
	@tests/vm/run --state ext4-quota $(VM_TEST) --only spawn-quota --only spawn-limits
	@tests/vm/run --state xfs-quota $(VM_TEST) --only spawn-quota --only spawn-limits
	@tests/vm/run --state ext4 $(VM_TEST) $(addprefix --only control-,lifecycle pool exec usage)
	@tests/vm/run --state ext4 $(VM_TEST) --only control-restart
	@tests/vm/run --state ext4 $(VM_TEST) --only escape --only control-escape

fuzz: ## run every fuzzer for FUZZ_SECONDS (60)
	@scripts/setup test
	@scripts/build fuzz
	@scripts/fuzz

soak: ## the long counts: 10,000 sandboxes made and destroyed, a million files listed and deleted, 1,000 kills, 10 GiB of output
	@scripts/setup test
	@scripts/build gcc
	@scripts/build asan
	@BERM_KILL_ROUNDS=1000 .deps/venv/bin/pytest -q -s tests/control/test_kills.py
	@BERM_ENTRIES=1000000 .deps/venv/bin/pytest -q tests/control/test_files.py -k directory_of_many
	@BERM_GUEST_EXECS=10000 .deps/venv/bin/pytest -q tests/guest/test_link.py -k thousands_of_programs
	@BERM_GUEST=build-asan/bin/berm-guest BERM_GUEST_EXECS=2000 .deps/venv/bin/pytest -q tests/guest/test_link.py -k thousands_of_programs
	@BERM_BULK_MIB=6144 .deps/venv/bin/pytest -q tests/cli/test_sandboxes.py -k bulk
	@BERM_FLOOD_GIB=10 .deps/venv/bin/pytest -q tests/control/test_neighbours.py -k gigabytes
	@BERM_CYCLES=10000 BERM_FILES=1000000 python3 tests/spawn/test_teardown.py

nightly: test ## run what takes too long for every change: vm, fuzzers for ten minutes each, bench, soak
	@$(MAKE) vm
	@$(MAKE) fuzz FUZZ_SECONDS=600
	@$(MAKE) bench
	@$(MAKE) soak

clean: ## remove the build directories; .deps stays
	rm -rf build build-asan build-clang build-fuzz

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-17s %s\n", $$1, $$2 }' Makefile
