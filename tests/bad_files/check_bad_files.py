#!/usr/bin/env python3
"""Runs a command over every case of a generator and compares exit code, message
and notes with a golden file.

    check_bad_files.py [--update] [--only TEXT] GENERATOR.py GOLDEN -- COMMAND...

COMMAND may hold {dir} (the case's folder), {source} (the generator's source(dir,
name), a file in it), {out} (a path that does not exist, and must not after a
failure) and, as a word of its own, {flags} (the case's flags). The generator
gives CASES and write_case(folder, name). A golden block:

    case ST-01-empty
    exit 3
    message $DIR/model.safetensors: header length: ...
    note ...

The message must end the last line on stderr; each note must end some line.
--update writes what came out: the diff is the review.
"""
import argparse
import concurrent.futures
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

TIMEOUT_S = 60
# What one bad file may cost beyond the cheapest case of the run, and in all.
MEMORY_KIB = 64 * 1024
CPU_S = 2.0
STATUS = re.compile(r"^(?:\w+: )?[A-Z_]+: ")


def load_generator(path):
    sys.dont_write_bytecode = True
    spec = importlib.util.spec_from_file_location("generator", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read_golden(path):
    golden, block = {}, None
    if not path.exists():
        return golden
    for line in path.read_text().splitlines():
        word, _, rest = line.partition(" ")
        if word == "case":
            block = golden[rest] = {"exit": 0, "message": "", "notes": []}
        elif word == "exit":
            block["exit"] = int(rest)
        elif word == "message":
            block["message"] = rest
        elif word == "note":
            block["notes"].append(rest)
        elif line:
            sys.exit(f"{path}: unknown line: {line}")
    return golden


def write_golden(path, results):
    lines = []
    for name, r in results.items():
        lines += [f"case {name}", f"exit {r['exit']}"]
        lines += [f"message {r['message']}"] if r["message"] else []
        lines += [f"note {n}" for n in r["notes"]] + [""]
    path.write_text("\n".join(lines))


def run_case(generator, command, folder, name):
    d = generator.write_case(folder, name)
    out = pathlib.Path(folder) / (name + ".out")
    words = []
    for word in command:
        if word == "{flags}":
            words += generator.CASES[name].flags
        else:
            if "{source}" in word:
                word = word.replace("{source}", str(generator.source(d, name)))
            words.append(word.replace("{dir}", str(d))
                         .replace("{out}", str(out)))
    errors = pathlib.Path(folder) / (name + ".stderr")
    start = time.monotonic()
    with open(errors, "wb") as stderr:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=stderr)
        # wait4 alone gives this child's memory; a child over time is killed.
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() - start > TIMEOUT_S:
                process.kill()
            time.sleep(0.002)
    process.returncode = os.waitstatus_to_exitcode(status)
    text = errors.read_text(errors="replace").replace(str(d), "$DIR")
    lines = text.splitlines()
    failed = process.returncode != 0
    return {
        "exit": process.returncode,
        "lines": lines,
        "message": STATUS.sub("", lines[-1]) if failed and lines else "",
        "notes": [line[6:] for line in lines if line.startswith("note: ")],
        "memory": usage.ru_maxrss,
        "cpu": usage.ru_utime + usage.ru_stime,
        "left": failed and out.exists(),
    }


def complaints(got, want, baseline):
    lines = got["lines"]
    if got["exit"] != want["exit"]:
        yield f"exit {got['exit']}, expected {want['exit']}"
    if want["message"] and not (lines and lines[-1].endswith(want["message"])):
        yield f"expected the message: {want['message']}"
    for note in want["notes"]:
        if not any(line.endswith(note) for line in lines):
            yield f"expected the note: {note}"
    if got["exit"] != 0:
        if got["memory"] > baseline + MEMORY_KIB:
            yield f"took {got['memory'] - baseline} KiB above the cheapest case"
        if got["cpu"] > CPU_S:
            yield f"took {got['cpu']:.1f} s of a processor"
        if got["left"]:
            yield "left its output folder behind"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--only", default="", help="cases whose name holds it")
    parser.add_argument("generator", type=pathlib.Path)
    parser.add_argument("golden", type=pathlib.Path)
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    generator = load_generator(args.generator)
    golden = read_golden(args.golden)
    names = [n for n in generator.CASES if args.only in n]
    with tempfile.TemporaryDirectory(prefix="bad_files_") as folder:
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = dict(zip(names, pool.map(
                lambda n: run_case(generator, args.command, folder, n), names)))
    if args.update:
        merged = {**golden, **results}
        write_golden(args.golden, {n: merged[n] for n in generator.CASES
                                   if n in merged})
        return
    baseline = min(r["memory"] for r in results.values())
    bad = 0
    if not args.only and set(golden) != set(names):
        bad += 1
        print("cases without a golden, or goldens without a case:",
              *sorted(set(golden) ^ set(names)))
    for name in names:
        wrong = list(complaints(results[name], golden[name], baseline)
                     if name in golden else ["no golden"])
        if wrong:
            bad += 1
            print(f"{name}:", *wrong, "stderr was:", *results[name]["lines"],
                  sep="\n  ")
    print(f"{len(names)} cases, {bad} wrong")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
