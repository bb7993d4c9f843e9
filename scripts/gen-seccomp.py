#!/usr/bin/env python3
"""Turns src/spawn/seccomp.policy into a C table of classic BPF, one filter per architecture and variant,
and one per architecture for each of its `marks` and `attrs`.

The system call number is found by binary search over ranges of equal answer, so the filter stays short
(installing it costs time per instruction) and every call costs about seven comparisons.

    gen-seccomp.py POLICY OUTPUT.c
"""
import re
import sys

# `ignore` returns 0 without making the call.
ERRNO = {"ignore": 0, "EPERM": 1, "E2BIG": 7, "ENOSYS": 38, "ENOPROTOOPT": 92, "EOPNOTSUPP": 95, "EAFNOSUPPORT": 97}
OVERLAYS = ("marks", "attrs")    # small additional filters for sandboxes that need them
LD, JEQ, JGE, JSET, RET = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, KILL, ERR = 0x7FFF0000, 0x80000000, 0x00050000
OFF_NR, OFF_ARCH, OFF_ARGS = 0, 4, 16


def answer(word):
    return ALLOW if word == "allow" else ERR | ERRNO[word]


def parse_test(text):
    """Parses argN == A|B, argN & M == 0 or argN == null, joined by `and`, into a list of (word, mask or None,
    values). Word 2N is the low half of argument N and 2N + 1 the high half."""
    tests = []
    for part in text.split(" and "):
        if m := re.fullmatch(r"arg(\d) == null", part.strip()):
            tests += [(2 * int(m[1]), None, [0]), (2 * int(m[1]) + 1, None, [0])]
            continue
        m = re.fullmatch(r"arg(\d)(?: & (\w+))? == ([\w|]+)", part.strip())
        if not m:
            raise SystemExit(f"bad test: {part}")
        values = [int(v, 0) for v in m[3].split("|")]
        if m[2] and values != [0]:
            raise SystemExit(f"a mask is compared with 0 only: {part}")
        tests.append((2 * int(m[1]), int(m[2], 0) if m[2] else None, values))
    return tests


def parse_rule(text):
    clauses, other = [], None
    for clause in (c.strip() for c in text.split(";")):
        if clause.startswith("else "):
            other = clause[5:].strip()
        else:
            test, _, result = clause.partition("->")
            clauses.append((parse_test(test), result.strip()))
    if other is None:
        raise SystemExit(f"rule without else: {text}")
    return clauses, other


def parse(path):
    policy = {"last": None, "archs": [], "rule": {}, "calls": [], **{name: {} for name in OVERLAYS}}
    for line in open(path):
        line = line.split("#")[0].strip()
        if not line:
            continue
        word, _, rest = line.partition(" ")
        if word == "last":
            policy["last"] = int(rest)
        elif word == "arch":
            name, audit = rest.split()
            policy["archs"].append((name, int(audit, 0)))
        elif word in ("rule", *OVERLAYS) and ":" in rest:
            name, _, body = rest.partition(":")
            policy[word][name.strip()] = parse_rule(body)
        else:
            policy["calls"].append((word, rest.split()))
    return policy


def first_alike(rules, name):
    """Returns the first call with the same rule, whose code is shared."""
    return next(other for other in rules if rules[other] == rules[name])


def actions(policy, column, variant):
    """Maps each number to a result word or the name of a rule."""
    table = ["ENOSYS"] * (policy["last"] + 1)
    words = {"allow": "allow", "guest": "allow", "deny": "EPERM", "nosys": "ENOSYS",
             "debug": "allow" if variant == "dev" else "EPERM"}
    for action, fields in policy["calls"]:
        number = fields[1 + column]
        if number != "-":
            table[int(number)] = first_alike(policy["rule"], fields[0]) if action == "rule" else words[action]
    return table


def ranges(table):
    out = [(0, table[0])]
    for nr, what in enumerate(table):
        if what != out[-1][1]:
            out.append((nr, what))
    out.append((len(table), "ENOSYS"))
    out.append((0x40000000, "kill"))  # the x32 bit; no other numbers are that high
    return [r for i, r in enumerate(out) if i == 0 or r[1] != out[i - 1][1]]


class Program:
    """Instructions with symbolic targets. `here` marks a target; None falls through."""

    def __init__(self):
        self.code, self.marks = [], {}

    def here(self, label):
        self.marks[label] = len(self.code)

    def emit(self, op, k, yes=None, no=None):
        self.code.append((op, k, yes, no))

    def resolve(self):
        out = []
        for i, (op, k, yes, no) in enumerate(self.code):
            jumps = [0 if t is None else self.marks[t] - i - 1 for t in (yes, no)]
            if not all(0 <= j <= 255 for j in jumps):
                raise SystemExit("filter too long for its jumps")
            out.append((op, jumps[0], jumps[1], k))
        return out


def tree(prog, spans, fresh):
    """Emits a binary search over spans at the current position."""
    mid = len(spans) // 2
    left, right = spans[:mid], spans[mid:]
    targets = []
    for part in (left, right):
        targets.append(("to", part[0][1]) if len(part) == 1 else ("node", next(fresh)))
    prog.emit(JGE, right[0][0], targets[1], targets[0])
    for part, target in ((left, targets[0]), (right, targets[1])):
        if len(part) > 1:
            prog.here(target)
            tree(prog, part, fresh)


def rule_code(prog, name, rule):
    clauses, other = rule
    prog.here(("to", name))
    loaded = None
    for number, (tests, result) in enumerate(clauses):
        for at, (word, mask, values) in enumerate(tests):
            if loaded != word:
                prog.emit(LD, OFF_ARGS + 4 * word)
                loaded = word
            miss = ("next", name, number)
            hit = ("to", result) if at == len(tests) - 1 else None
            if mask is not None:
                prog.emit(JSET, mask, miss, hit)
                continue
            for value in values[:-1]:
                prog.emit(JEQ, value, hit or ("hit", name, number, at), None)
            prog.emit(JEQ, values[-1], hit, miss)
            if hit is None:
                prog.here(("hit", name, number, at))
        prog.here(("next", name, number))
        if len(tests) > 1:
            loaded = None  # reached from both tests, so the register is unknown
    prog.emit(RET, answer(other))


def build(policy, column, audit, variant):
    prog, fresh = Program(), iter(range(10**6))
    table = actions(policy, column, variant)
    prog.emit(LD, OFF_ARCH)
    prog.emit(JEQ, audit, None, ("to", "kill"))
    prog.emit(LD, OFF_NR)
    tree(prog, ranges(table), fresh)
    for name, rule in policy["rule"].items():
        if name == first_alike(policy["rule"], name):
            rule_code(prog, name, rule)
    for word in ("allow", *ERRNO):
        prog.here(("to", word))
        prog.emit(RET, answer(word))
    prog.here(("to", "kill"))
    prog.emit(RET, KILL)
    return prog.resolve()


def build_overlay(policy, column, rules):
    """Builds a filter that relies on the main one for the architecture and the number."""
    prog = Program()
    numbers = {fields[0]: fields[1 + column] for _, fields in policy["calls"]}
    here = {name: rule for name, rule in rules.items() if numbers[name] != "-"}
    prog.emit(LD, OFF_NR)
    for name in here:
        prog.emit(JEQ, int(numbers[name]), ("to", first_alike(here, name)))
    prog.emit(RET, ALLOW)
    for name, rule in here.items():
        if name == first_alike(here, name):
            rule_code(prog, name, rule)
    prog.here(("to", "allow"))
    prog.emit(RET, ALLOW)
    return prog.resolve()


def write_filter(out, arch, name, code):
    out.write(f"/* {arch} {name}: {len(code)} instructions */\n")
    out.write(f"static const struct sock_filter {name}_code[] = {{\n")
    out.writelines("    {0x%02x, %d, %d, 0x%08x},\n" % c for c in code)
    out.write("};\n")
    out.write(f"const struct sock_fprog seccomp_{name} = "
              f"{{{len(code)}, (struct sock_filter *){name}_code}};\n")


def main():
    policy = parse(sys.argv[1])
    with open(sys.argv[2], "w") as out:
        out.write("/* Generated from src/spawn/seccomp.policy by scripts/gen-seccomp.py. */\n")
        out.write('#include "spawn/seccomp.h"\n')
        for column, (arch, audit) in enumerate(policy["archs"]):
            out.write(f"#ifdef __{arch}__\n")
            for variant in ("dev", "strict"):
                write_filter(out, arch, variant, build(policy, column, audit, variant))
            for name in OVERLAYS:
                write_filter(out, arch, name, build_overlay(policy, column, policy[name]))
            out.write("#endif\n")


if __name__ == "__main__":
    main()
