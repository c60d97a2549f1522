#!/usr/bin/env python3
"""How long the golden cases take: a new family must not make them slow.

    bench_cases.py DSCOMPILE DSRUN [FOLDER...] [--tp N] [--repeat N] [--limit S]

Each folder below tests/golden_cases/models (or those given): compiling in fp32,
and one forward pass of its first prompt with the start of dsrun, medians of
--repeat. Prints a table; exits 1 when a case takes more than --limit seconds
(1) in all.
"""
import argparse
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'tests', 'support'))
from harness import CASES, Scratch, read_tensors, run, write_tensors  # noqa: E402


def feed_of(case):
    """The inputs of the case's first prompt, under the names of dsrun --feed."""
    gold = read_tensors(os.path.join(case, 'golden.safetensors'))
    feed = {}
    for name in ('input_ids', 'attention_mask', 'token_type_ids',
                 'decoder_input_ids', 'pixel_values'):
        found = gold.get(name) or gold.get('0.' + name)
        if found is None:
            continue
        shape, values = found
        kind = 'F32' if name == 'pixel_values' else 'I64'
        feed[name] = (kind, shape if len(shape) > 1 else [1] + shape, values)
    return feed


def seconds(command):
    begin = time.perf_counter()
    r = run(*command)
    taken = time.perf_counter() - begin
    if r.returncode != 0:
        sys.exit(f'{command[0]}: {r.stderr.strip()}')
    return taken


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument('dscompile')
    parser.add_argument('dsrun')
    parser.add_argument('folders', nargs='*')
    parser.add_argument('--tp', type=int, default=1)
    parser.add_argument('--repeat', type=int, default=3)
    parser.add_argument('--limit', type=float, default=1.0)
    a = parser.parse_args()
    models = os.path.join(CASES, 'models')
    folders = a.folders or sorted(
        os.path.join(models, n) for n in os.listdir(models)
        if os.path.exists(os.path.join(models, n, 'golden.safetensors')))
    worst = 0.0
    print('| case | compile, s | run, s |\n|---|---|---|')
    with Scratch() as tmp:
        plan, feed, fetch = (os.path.join(tmp, n)
                             for n in ('plan', 'in.st', 'out.st'))
        for case in folders:
            write_tensors(feed, feed_of(case))
            compiling = statistics.median(
                seconds([a.dscompile, case, '--dtype', 'fp32', '--tp', a.tp,
                         '--force', '-o', plan]) for _ in range(a.repeat))
            running = statistics.median(
                seconds([a.dsrun, plan, '--feed', feed, '--fetch', fetch])
                for _ in range(a.repeat))
            worst = max(worst, compiling + running)
            print(f'| {os.path.basename(case)} | {compiling:.2f} '
                  f'| {running:.2f} |', flush=True)
    print(f'\nslowest: {worst:.2f} s, allowed {a.limit:.2f} s')
    sys.exit(worst > a.limit)


if __name__ == '__main__':
    main()
