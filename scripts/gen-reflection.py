#!/usr/bin/env python3
"""gen-reflection.py DESCRIPTOR_SET OUT.c: writes the API's descriptors as C, for gRPC reflection.

Parses protoc's FileDescriptorSet with a small parser of its own, so that the build needs no Python package. The field
numbers are those of google/protobuf/descriptor.proto.
"""

import sys


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """Yields (number, value); the value is an int or bytes."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        else:
            size = 8 if kind == 1 else 4
            value, at = data[at:at + size], at + size
        yield tag >> 3, value


def all_of(data, number):
    return [value for n, value in fields(data) if n == number]


def text_of(data, number):
    values = all_of(data, number)
    return values[-1].decode() if values else ""


def types_in(message, scope):
    """Yields a message's own name and the nested names."""
    name = f"{scope}.{text_of(message, 1)}"
    yield name
    for nested in all_of(message, 3):
        yield from types_in(nested, name)
    for enum in all_of(message, 4):
        yield f"{name}.{text_of(enum, 1)}"


def main(source, target):
    files, symbols, services, methods = [], [], [], []
    for index, file in enumerate(all_of(open(source, "rb").read(), 1)):
        package = text_of(file, 2)
        files.append((text_of(file, 1), file))
        names = [n for m in all_of(file, 4) for n in types_in(m, package)]
        names += [f"{package}.{text_of(e, 1)}" for e in all_of(file, 5)]
        for service in all_of(file, 6):
            full = f"{package}.{text_of(service, 1)}"
            services.append(full)
            names.append(full)
            for method in all_of(service, 2):
                name = text_of(method, 1)
                names.append(f"{full}.{name}")
                methods.append((f"/{full}/{name}", bool(sum(all_of(method, 5))), bool(sum(all_of(method, 6)))))
        symbols += [(name, index) for name in names]
    with open(target, "w") as out:
        out.write('#include "api/system/reflection_data.h"\n\n')
        for i, (name, data) in enumerate(files):
            rows = ["    " + ", ".join(f"0x{b:02x}" for b in data[at:at + 16]) for at in range(0, len(data), 16)]
            out.write(f"static const uint8_t file_{i}[] = {{\n" + ",\n".join(rows) + "\n};\n\n")
        table(out, "struct reflection_file", "files", [f'{{"{n}", file_{i}, sizeof file_{i}}}' for i, (n, _) in enumerate(files)])
        table(out, "struct reflection_symbol", "symbols", [f'{{"{n}", {i}}}' for n, i in sorted(symbols)])
        table(out, "char *const", "services", [f'"{n}"' for n in services])
        table(out, "struct reflection_method", "methods", [f'{{"{p}", {int(c)}, {int(s)}}}' for p, c, s in methods])


def table(out, kind, name, rows):
    out.write(f"const {kind} reflection_{name}[] = {{\n" + "".join(f"    {row},\n" for row in rows) + "};\n")
    out.write(f"const size_t reflection_n_{name} = {len(rows)};\n\n")


main(*sys.argv[1:])
