#!/usr/bin/env bash
# scripts/check-globals.sh [BUILD-DIR]   lists writable file-scope data in our objects; none is allowed
# but the log's own state and the armed failpoint. Hidden state cannot be restored after a restart, nor bounded, nor tested.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${1:-build}
# Generated message descriptors are protobuf-c's; tests and bench may keep state.
mapfile -t objects < <(find "$build" -name '*.c.o' | grep -v -E 'pb-c\.c\.o$|[/_](tests|bench)[/_.]' | sort)
[ ${#objects[@]} -gt 0 ] || { echo "no objects in $build: build first"; exit 1; }

# Object symbols in .data, .bss and their thread-local kin. What is const but needs relocation lives
# in .data.rel.ro and is read-only once the program runs.
found=$(objdump -t "${objects[@]}" | awk '
    / file format / { file = $1; sub(/:$/, "", file) }
    {
        for (i = 2; i <= NF; i++)
            if ($i ~ /^\.(data|bss|tdata|tbss)/ && $i !~ /^\.data\.rel\.ro/ && $i != $NF)
                print file ": " $NF
    }
    / \*COM\*/ { print file ": " $NF }' | grep -v -E '[/_]base_(log|failpoint)\.c\.o: ' || true)
[ -z "$found" ] || { echo "$found"; exit 1; }
