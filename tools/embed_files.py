#!/usr/bin/env python3
"""Writes a C++ file that holds the given files as a table of name and text.

    embed_files.py OUT.cc SYMBOL HEADER FILE... [--struct=NAME]

The table is `const EmbeddedFile deepslice::SYMBOL[]` (or of the struct NAME),
sorted by name, and `const int deepslice::SYMBOLCount`; HEADER declares both.
"""

import os
import sys


def literal(text):
    """The text as adjacent C++ string literals, one a line."""
    lines = text.splitlines(keepends=True) or [""]
    escape = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "?": "\\?"}
    out = []
    for line in lines:
        body = "".join(
            escape.get(c) or (c if " " <= c <= "~" else
                              "".join(f"\\{b:03o}" for b in c.encode()))
            for c in line)
        out.append(f'     "{body}"')
    return "\n".join(out)


def main():
    struct = "EmbeddedFile"
    args = sys.argv[1:]
    if args[-1].startswith("--struct="):
        struct = args.pop().removeprefix("--struct=")
    out, symbol, header, *files = args
    rows = []
    for path in sorted(files, key=os.path.basename):
        with open(path, encoding="utf-8", newline="") as f:
            name = os.path.basename(path)
            rows.append(f'    {{"{name}",\n{literal(f.read())}}},\n')
    with open(out, "w", encoding="utf-8") as f:
        f.write("// Made by tools/embed_files.py.\n"
                f'#include "{header}"\n\n'
                "namespace deepslice {\n\n"
                f"const {struct} {symbol}[] = {{\n{''.join(rows)}}};\n"
                f"const int {symbol}Count = {len(rows)};\n\n"
                "}  // namespace deepslice\n")


if __name__ == "__main__":
    main()
