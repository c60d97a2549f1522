#!/usr/bin/env python3
"""SmolLM2-135M on this CPU: dsrun beside transformers on PyTorch.

    bench_smollm2.py BUILD_DIR GGUF [--python PYTHON] [--rounds 3]

PYTHON has torch, transformers and gguf (default: this one). Peer and product run
in turn, each on all cores at 256 prompt and 32 new tokens. Of the product the
best median of three counts, of the peer the best single run. Prints a table with ratios, and the time from start to the first
token with warm files.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    p = argparse.ArgumentParser()
    p.add_argument('build')
    p.add_argument('gguf')
    p.add_argument('--python', default=sys.executable)
    p.add_argument('--rounds', type=int, default=3)
    p.add_argument('--no-compile', action='store_true')
    a = p.parse_args()
    tools = os.path.join(a.build, 'tools')
    tmp = tempfile.mkdtemp(prefix='bench-smollm2-')
    try:
        ours = {}
        for dtype in ('int8', 'bf16', 'fp32'):
            subprocess.run([os.path.join(tools, 'dscompile'), a.gguf, '-q',
                            '--dtype', dtype, '-o', os.path.join(tmp, dtype)],
                           check=True)
            ours[dtype] = {'prefill': 0.0, 'decode': 0.0}
        peer = {}
        for _ in range(a.rounds):
            for dtype, best in ours.items():
                out = json.loads(subprocess.run(
                    [os.path.join(tools, 'dsrun'), 'bench',
                     os.path.join(tmp, dtype), '-p', '256', '-n', '32', '-r', '3',
                     '-o', 'json'], check=True, stdout=subprocess.PIPE).stdout)
                for kind in best:
                    best[kind] = max(
                        best[kind],
                        out[f'{kind}_tokens_per_second']['median'])
            command = [a.python, os.path.join(HERE, 'peer_torch_cpu.py'), a.gguf]
            if a.no_compile:
                command.append('--no-compile')
            text = subprocess.run(command, check=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True).stdout
            for line in text.splitlines():
                row = json.loads(line)
                name = f'{row["dtype"]} {row["how"]}'
                if 'error' in row:
                    print(f'peer {name} does not run: {row["error"]}')
                    continue
                old = peer.setdefault(name, {'prefill': 0.0, 'decode': 0.0})
                for kind in old:
                    old[kind] = max(old[kind], row[kind])
        best = {k: max(r[k] for r in peer.values()) for k in ('prefill', 'decode')}
        print(f'{"":24}{"prefill tok/s":>16}{"decode tok/s":>16}')
        for name, row in peer.items():
            print(f'torch {name:18}{row["prefill"]:16.1f}{row["decode"]:16.2f}')
        for dtype, row in ours.items():
            print(f'dsrun {dtype:18}{row["prefill"]:16.1f}{row["decode"]:16.2f}'
                  f'   ratio to the best peer: prefill '
                  f'{row["prefill"] / best["prefill"]:.2f}, decode '
                  f'{row["decode"] / best["decode"]:.2f}')
        first = []
        for _ in range(5):
            begin = time.monotonic()
            run = subprocess.Popen(
                [os.path.join(tools, 'dsrun'), os.path.join(tmp, 'int8'), '-p',
                 'Once upon a time', '-n', '4', '--greedy'],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            run.stdout.read(1)
            first.append(time.monotonic() - begin)
            run.communicate()
        print(f'start to first token, warm files: {min(first):.2f} s best, '
              f'{sorted(first)[2]:.2f} s median of 5')
    finally:
        shutil.rmtree(tmp, ignore_errors=True)


main()
