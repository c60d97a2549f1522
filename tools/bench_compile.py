#!/usr/bin/env python3
"""Times dscompile against copying and hashing the same bytes.

    bench_compile.py DSCOMPILE [--gigabytes 2] [--tp 4] [--rounds 5] [--dir DIR]

Makes a synthetic bf16 checkpoint, then, in turn: `cp && sync` plus
`openssl dgst -sha256` of it, and `dscompile --tp N` of it (bf16 kept). The page
cache is warm. Prints both medians, their ratio, and the largest anonymous memory
of dscompile beside 200 MiB plus three times the largest tensor.
"""
import argparse
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import json

HERE = os.path.dirname(os.path.abspath(__file__))


def timed(command):
    begin = time.monotonic()
    subprocess.run(command, check=True, shell=isinstance(command, str),
                   stdout=subprocess.DEVNULL)
    return time.monotonic() - begin


def watch_memory(pid, peak):
    """Largest RssAnon of the process in KiB, looked at every 2 ms."""
    while True:
        try:
            with open(f'/proc/{pid}/status', encoding='ascii') as f:
                for line in f:
                    if line.startswith('RssAnon:'):
                        peak[0] = max(peak[0], int(line.split()[1]))
        except (OSError, IndexError):
            return
        time.sleep(0.002)


def largest_tensor(folder):
    most = 0
    for name in os.listdir(folder):
        if name.endswith('.safetensors'):
            with open(os.path.join(folder, name), 'rb') as f:
                head = json.loads(f.read(struct.unpack('<Q', f.read(8))[0]))
            most = max([most] + [t['data_offsets'][1] - t['data_offsets'][0]
                                 for t in head.values()])
    return most


def main():
    p = argparse.ArgumentParser()
    p.add_argument('dscompile')
    p.add_argument('--gigabytes', type=float, default=2)
    p.add_argument('--tp', type=int, default=4)
    p.add_argument('--rounds', type=int, default=5)
    p.add_argument('--dir', default=None)
    a = p.parse_args()
    tmp = tempfile.mkdtemp(prefix='bench-compile-', dir=a.dir)
    try:
        source = os.path.join(tmp, 'source')
        subprocess.run([sys.executable,
                        os.path.join(HERE, 'make_random_checkpoint.py'), source,
                        '--hidden', '2304', '--gigabytes', str(a.gigabytes),
                        '--shards', '4'], check=True)
        size = sum(os.path.getsize(os.path.join(source, n))
                   for n in os.listdir(source))
        copy, compiled, peak = [], [], [0]
        os.sync()
        for i in range(a.rounds):
            to = os.path.join(tmp, 'copy')
            copy.append(
                timed(f'cp -r {source} {to} && sync') +
                timed(f'openssl dgst -sha256 {source}/*.safetensors'))
            shutil.rmtree(to)
            os.sync()
            plan = os.path.join(tmp, 'plan')
            begin = time.monotonic()
            run = subprocess.Popen([a.dscompile, source, '--tp', str(a.tp),
                                    '-o', plan, '-q'])
            watcher = threading.Thread(target=watch_memory,
                                       args=(run.pid, peak))
            watcher.start()
            if run.wait():
                sys.exit('dscompile failed')
            compiled.append(time.monotonic() - begin)
            watcher.join()
            shutil.rmtree(plan)
            os.sync()
            print(f'round {i}: copy and hash {copy[-1]:.2f} s, '
                  f'dscompile {compiled[-1]:.2f} s', flush=True)
        c, d = statistics.median(copy), statistics.median(compiled)
        bound = 200 + 3 * largest_tensor(source) / 2**20
        print(f'{size / 2**30:.2f} GiB to tp {a.tp}: copy, sync and hash '
              f'{c:.2f} s, dscompile {d:.2f} s, ratio {d / c:.2f}')
        print(f'anonymous memory of dscompile: {peak[0] / 1024:.0f} MiB '
              f'(bound {bound:.0f} MiB)')
    finally:
        shutil.rmtree(tmp, ignore_errors=True)


main()
