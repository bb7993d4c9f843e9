#!/usr/bin/env python3
"""Writes a file's bytes as a C array: embed.py NAME INPUT OUTPUT.c"""
import sys

name, source, target = sys.argv[1:]
data = open(source, "rb").read()
with open(target, "w") as out:
    out.write("#include <stddef.h>\n")
    out.write(f"extern const unsigned char {name}[];\nextern const size_t {name}_bytes;\n")
    out.write(f"const unsigned char {name}[] = {{\n")
    for at in range(0, len(data), 16):
        out.write("    " + "".join(f"{byte}," for byte in data[at:at + 16]) + "\n")
    out.write(f"}};\nconst size_t {name}_bytes = {len(data)};\n")
