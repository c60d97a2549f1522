#!/usr/bin/env python3
"""Writes the table of DeepSpeed's keys in compiler/DEEPSPEED.md from the
compiler's own.

    deepspeed_table.py [--check] DSCOMPILE [DEEPSPEED.md]

--check changes nothing and fails when the table is not what dscompile reads.
"""
import difflib
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGIN = "<!-- deepspeed_table.py: from dscompile deepspeed-keys -->\n"
END = "<!-- end of deepspeed_table.py -->\n"


def main():
    args = [a for a in sys.argv[1:] if a != "--check"]
    if not args:
        sys.exit(__doc__)
    path = pathlib.Path(args[1]) if args[1:] else ROOT / "compiler/DEEPSPEED.md"
    text = path.read_text()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        sys.exit(f"{path}: the table's two marks are not there once each")
    table = subprocess.run([args[0], "deepspeed-keys", "--markdown"],
                           check=True, text=True,
                           stdout=subprocess.PIPE).stdout
    head, rest = text.split(BEGIN)
    new = head + BEGIN + table + END + rest.split(END)[1]
    if "--check" not in sys.argv:
        path.write_text(new)
    elif new != text:
        sys.stdout.writelines(difflib.unified_diff(
            text.splitlines(True), new.splitlines(True), str(path),
            "as dscompile has it", n=0))
        sys.exit(f"{path}: run tools/deepspeed_table.py")


if __name__ == "__main__":
    main()
