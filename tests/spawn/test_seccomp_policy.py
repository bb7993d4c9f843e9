#!/usr/bin/env python3
"""Runs the generated filters in a simulator and compares every result with the policy, which a second, simple parser
reads here: for each number up to 1100, on both architectures, in both variants."""
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from tap import ROOT, check, main, same, test  # noqa: E402

POLICY = ROOT / "src/spawn/seccomp.policy"
ALLOW, KILL = 0x7FFF0000, 0x80000000
OVERLAYS = ("marks", "attrs")
ARCHS = {"x86_64": (0xC000003E, 1), "aarch64": (0xC00000B7, 2)}


def filters():
    """Maps (arch, variant) to instructions, parsed from the C text."""
    with tempfile.NamedTemporaryFile(suffix=".c") as out:
        subprocess.run([sys.executable, ROOT / "scripts/gen-seccomp.py", POLICY, out.name], check=True)
        text = pathlib.Path(out.name).read_text()
    found, arch = {}, None
    for block in re.split(r"#ifdef ", text)[1:]:
        arch = re.match(r"__(\w+)__", block)[1]
        for variant, body in re.findall(r"sock_filter (\w+)_code\[\] = \{(.*?)\};", block, re.S):
            found[arch, variant] = [tuple(int(v, 0) for v in row.split(","))
                                    for row in re.findall(r"\{([^{}]+)\}", body)]
    return found


def whole_filters():
    return [item for item in filters().items() if item[0][1] not in OVERLAYS]


def simulate(code, arch, nr, args=()):
    """Simulates classic BPF like seccomp, with the kernel's bounds."""
    args = list(args) + [0] * (6 - len(args))
    words = [nr & 0xFFFFFFFF, arch, 0, 0]
    for value in args:
        words += [value & 0xFFFFFFFF, value >> 32 & 0xFFFFFFFF]
    at, acc = 0, 0
    for _ in range(len(code)):
        op, yes, no, k = code[at]
        at += 1
        if op == 0x20:
            assert k % 4 == 0 and k < 64
            acc = words[k // 4]
        elif op == 0x06:
            return k
        elif op in (0x15, 0x35, 0x45):
            hit = {0x15: acc == k, 0x35: acc >= k, 0x45: acc & k != 0}[op]
            at += yes if hit else no
        else:
            raise AssertionError(f"unknown instruction {op:#x}")
    raise AssertionError("ran off the end")


def expectations(column, variant):
    """Maps each number to a result or rule name, from the lines."""
    out = {}
    for line in POLICY.read_text().splitlines():
        fields = line.split("#")[0].split()
        if len(fields) == 4 and fields[0] in ("allow", "deny", "nosys", "rule", "debug", "guest"):
            action, name = fields[:2]
            if fields[1 + column] == "-":
                continue
            out[int(fields[1 + column])] = {
                "allow": ALLOW, "guest": ALLOW, "deny": 0x50000 | 1, "nosys": 0x50000 | 38,
                "debug": ALLOW if variant == "dev" else 0x50000 | 1, "rule": name}[action]
    return out


@test
def every_call_number_gets_the_result_of_the_policy():
    for (arch, variant), code in whole_filters():
        audit, column = ARCHS[arch]
        want = expectations(column, variant)
        wrong = [nr for nr in range(1101)
                 if not isinstance(want.get(nr), str)
                 and simulate(code, audit, nr) != want.get(nr, 0x50000 | 38)]
        same(wrong, [], f"{arch} {variant}")
        check(len(want) > 300, f"{arch} {variant}: the policy names {len(want)} calls")
        check(len(code) <= 180, f"{arch} {variant}: {len(code)} instructions")


@test
def foreign_architectures_and_x32_kill():
    for (arch, variant), code in whole_filters():
        audit, _ = ARCHS[arch]
        for other in (0x40000003, 0x40000028, 0, audit ^ 1, 0xC000003E ^ 0xC00000B7 ^ audit):
            same(simulate(code, other, 0), KILL, f"{arch} {variant} under {other:#x}")
        for nr in (0x40000000, 0x40000001, 0x400001D6, 0xFFFFFFFF):
            same(simulate(code, audit, nr), KILL, f"{arch} {variant} number {nr:#x}")
        same(simulate(code, audit, 0x3FFFFFFF), 0x50000 | 38, "just below the x32 bit")


# call, arguments, result; 1 << 40 in an argument shows that the high half is not compared
CASES = [
    ("clone", (0x11,), ALLOW), ("clone", (0x3D0F00,), ALLOW),
    *[("clone", (bit | 0x11,), 0x50001) for bit in
      (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)],
    ("clone", (0x10000000 | 1 << 40,), 0x50001),
    ("socket", (1, 1, 0), ALLOW), ("socket", (2, 2, 17), ALLOW), ("socket", (10, 1, 6), ALLOW),
    ("socket", (2, 1, 262), 0x50000 | 97), ("socket", (2, 2, 136), 0x50000 | 97), ("socket", (10, 1, 132), 0x50000 | 97),
    ("socket", (16, 3, 0), ALLOW), ("socket", (16, 3, 12), 0x50000 | 97),
    ("socket", (16, 3, 6), 0x50000 | 97), ("socket", (16 | 1 << 40, 3, 15), 0x50000 | 97),
    *[("socket", (family, 1, 0), 0x50000 | 97) for family in (0, 3, 15, 17, 21, 29, 30, 31, 33, 38,
                                                              40, 42, 44)],
    ("socketpair", (1, 1, 0), ALLOW), ("socketpair", (2, 1, 0), 0x50000 | 97),
    ("ioctl", (0, 0x5401), ALLOW), ("ioctl", (0, 0x5412), 0x50001), ("ioctl", (0, 0x541C), 0x50001),
    ("ioctl", (0, 0x5423), 0x50001), ("ioctl", (0, 0x5412 | 1 << 40), 0x50001),
    ("ioctl", (0x5412, 0x5413), ALLOW),
    ("fcntl", (3, 2), ALLOW), ("fcntl", (3, 1024), 0x50001), ("fcntl", (3, 1026), 0x50001),
    ("prlimit64", (0, 7), ALLOW), ("prlimit64", (1, 7), 0x50001), ("prlimit64", (0, 7, 4096), ALLOW),
    ("prlimit64", (0, 4), ALLOW), ("prlimit64", (0, 4, 0, 4096), ALLOW), ("prlimit64", (1, 4), 0x50001),
    ("prlimit64", (0, 4, 4096), 0x50000), ("prlimit64", (0, 4, 1 << 32), 0x50000), ("prlimit64", (0, 4 | 1 << 40, 4096), 0x50000),
    ("setrlimit", (7, 4096), ALLOW), ("setrlimit", (4, 4096), 0x50000), ("setrlimit", (4 | 1 << 40, 4096), 0x50000),
    *[("setsockopt", (3, 1, name), 0x50000 | 92) for name in (26, 50, 51, 52, 26 | 1 << 40)],
    ("setsockopt", (3, 1 | 1 << 40, 26), 0x50000 | 92), ("setsockopt", (3, 6, 26), ALLOW), ("setsockopt", (3, 1, 8), ALLOW),
    ("personality", (0,), ALLOW), ("personality", (0xFFFFFFFF,), ALLOW),
    ("personality", (0x40000,), ALLOW), ("personality", (0x400000,), 0x50001),
    ("personality", (0x20009,), 0x50001),
    *[(name, (0, 0, 0, size), want) for name in ("setxattr", "lsetxattr", "fsetxattr")
      for size, want in ((0, ALLOW), (1023, ALLOW), (1024, 0x50007), (65536, 0x50007), (1024 | 1 << 40, 0x50007))],
]


@test
def arguments_decide_as_the_rules_say():
    for (arch, variant), code in whole_filters():
        audit, column = ARCHS[arch]
        numbers = {name: nr for nr, name in expectations(column, variant).items()
                   if isinstance(name, str)}
        same(set(numbers), {case[0] for case in CASES}, "rules with a case")
        for name, args, want in CASES:
            got = simulate(code, audit, numbers[name], args)
            same(hex(got), hex(want), f"{arch} {variant} {name}{args}")


def numbers_of(column):
    lines = [line.split() for line in POLICY.read_text().splitlines()]
    return {f[1]: int(f[1 + column]) for f in lines if len(f) == 4 and f[1 + column].isdigit()}


CREAT, TMPFILE = 0o100, 0o20200000
# call, position of its flags (if any), position of its mode
MARKING = [("chmod", None, 1), ("fchmod", None, 1), ("fchmodat", None, 2), ("fchmodat2", None, 2), ("creat", None, 1),
           ("mknod", None, 1), ("mknodat", None, 2), ("open", 1, 2), ("openat", 2, 3)]


@test
def attrs_filter_refuses_all_attribute_changes():
    for (arch, variant), code in filters().items():
        if variant != "attrs":
            continue
        audit, column = ARCHS[arch]
        changing = {nr for name, nr in numbers_of(column).items() if re.search("(set|remove)xattr", name)}
        same(len(changing), 8, f"{arch}: calls that change attributes")
        refused = {nr for nr in range(1101) if simulate(code, audit, nr) == 0x5005F}
        others = {nr for nr in range(1101) if simulate(code, audit, nr) == ALLOW}
        same(refused, changing - {463}, f"{arch}: EOPNOTSUPP")      # setxattrat is ENOSYS in the whole filter
        same(len(refused | others), 1101, f"{arch}: all other calls")


@test
def marks_filter_refuses_only_set_id_bits():
    for (arch, variant), code in filters().items():
        if variant != "marks":
            continue
        audit, column = ARCHS[arch]
        numbers = numbers_of(column)
        judged = [row for row in MARKING if row[0] in numbers]
        others = set(range(1101)) - {numbers[name] for name, _, _ in judged}
        everything = (0xFFFFFFFF,) * 6
        same([nr for nr in others if simulate(code, audit, nr, everything) != ALLOW], [], f"{arch}: other calls")
        for name, flags_at, mode_at in judged:
            for flags in (0, 2, CREAT, TMPFILE, CREAT | 1 << 40):
                for mode in (0, 0o777, 0o1777, 0o4755, 0o2755, 0o6000, 0o4755 | 1 << 40):
                    args = [0] * 6
                    args[mode_at] = mode
                    if flags_at is not None:
                        args[flags_at] = flags
                    counts = flags_at is None or flags & (CREAT | 0o20000000)
                    want = 0x50001 if mode & 0o6000 and counts else ALLOW
                    same(hex(simulate(code, audit, numbers[name], args)), hex(want), f"{arch} {name} {flags:#x} {mode:#o}")


@test
def the_table_agrees_with_the_kernels_headers():
    """If headers are installed: none of our numbers names another call."""
    header = pathlib.Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
    generic = pathlib.Path("/usr/include/asm-generic/unistd.h")
    for path, column in ((header, 1), (generic, 2)):
        if not path.exists():
            continue
        known = {}
        for line in path.read_text().splitlines():
            m = re.match(r"#define __NR(?:3264)?_(\w+)\s+(\d+)$", line)
            if m and m[1] not in ("syscalls", "arch_specific_syscall"):
                known.setdefault(int(m[2]), set()).add(m[1])
        for line in POLICY.read_text().splitlines():
            fields = line.split("#")[0].split()
            if len(fields) == 4 and fields[1 + column].isdigit() and int(fields[1 + column]) in known:
                names = known[int(fields[1 + column])]
                check(fields[1] in names or "fstatat" in names, f"{fields[1]} is {names}")


main()
