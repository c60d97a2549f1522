#!/usr/bin/env python3
"""dsrun bench beside a compiled torch decoder, at real shapes with made-up
weights: a part of tools/gpu_check.sh.

    gpu_speed.py speed-1b|speed-8b --bin DIR --stage DIR --work DIR --out DIR
                 [--rows b32@512,b1@16384,prefill]

All rows are measured by us (after dsrun tune), by the peer, and by us again, in
that order; our figure is the mean. Prints a table with ratios; exits 1 when one
is below what is wanted of it.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
LLAMA_1B = os.path.join(TOP, 'tests/kernels/configs/llama-3.2-1b.json')
LLAMA_8B = os.path.join(TOP, 'tests/kernels/configs/llama-3.1-8b.json')
SMOLLM2 = os.path.join(TOP, 'tests/gpu/smollm2-135m.json')
NEW = 80           # tokens that a decode row generates


class Row:
    """batch and context of a decode row; context alone of a prefill."""

    def __init__(self, name, config, peer, batch, context, wanted,
                 prefill=False):
        self.name, self.config, self.peer = name, config, peer
        self.batch, self.context, self.wanted = batch, context, wanted
        self.prefill = prefill
        self.ours, self.theirs, self.failed = [], None, None
        self.key = 'prefill' if prefill else f'b{batch}@{context}'

    def plan_key(self):
        # Kernels of long contexts are others: they have a plan of their own.
        return (self.config, self.context if self.context > 4000 else 4096)


def rows_of(part):
    if part == 'speed-1b':
        shapes = [('Llama-3.2-1B', LLAMA_1B, 'l1b')]
    else:
        shapes = [('Llama-3.1-8B', LLAMA_8B, 'l8b')]
    rows = []
    for name, config, peer in shapes:
        rows += [Row(name, config, peer, 1, 512, 1.1),
                 Row(name, config, peer, 1, 2048, 1.0, prefill=True),
                 Row(name, config, peer, 8, 512, 1.1),
                 Row(name, config, peer, 32, 512, 1.1),
                 Row(name, config, peer, 1, 16384, 1.1)]
    if part == 'speed-1b':
        rows.insert(2, Row('SmolLM2-135M', SMOLLM2, 's135', 1, 512, 2.0))
    return rows


class Bench:
    def __init__(self, a):
        self.a, self.plans = a, {}
        self.begin = time.monotonic()
        self.lines = open(os.path.join(a.out, a.part + '.jsonl'), 'w',
                          encoding='utf-8')

    def plan(self, row):
        key = row.plan_key()
        if key not in self.plans:
            path = os.path.join(self.a.work, f'plan{len(self.plans)}')
            shutil.rmtree(path, ignore_errors=True)
            seq = key[1] if key[1] == 4096 else key[1] + NEW + 48
            begin = time.monotonic()
            subprocess.run(
                [os.path.join(self.a.bin, 'dscompile'), row.config,
                 '--random-weights', '1', '--target', 'h200', '--dtype', 'bf16',
                 '--max-seq-len', str(seq), '--max-batch',
                 '32' if key[1] == 4096 else '1', '-q', '-o', path], check=True)
            print(f'{row.name}, {seq} tokens: compiled in '
                  f'{time.monotonic() - begin:.1f} s', flush=True)
            self.plans[key] = path
            subprocess.run([os.path.join(self.a.bin, 'dsrun'), 'tune', path,
                            '--device', 'cuda'], stdout=subprocess.DEVNULL,
                           check=True)
        return self.plans[key]

    def ours(self, row):
        """Milliseconds of a step, or of the prefill."""
        r = subprocess.run(
            [os.path.join(self.a.bin, 'dsrun'), 'bench', self.plan(row), '-p',
             str(row.context), '-n', '2' if row.prefill else str(NEW), '-b',
             str(row.batch), '-r', '5', '-o', 'json', '--device', 'cuda'],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            check=False)
        if r.returncode != 0:
            raise RuntimeError(f'dsrun bench: {r.stderr.strip()[-300:]}')
        got = json.loads(r.stdout)
        got['row'] = row.name
        self.lines.write(json.dumps(got) + '\n')
        self.lines.flush()
        row.last = got
        return got['prefill_ms' if row.prefill
                   else 'decode_ms_per_step']['median']

    def theirs(self, rows):
        """Fills in the peer's milliseconds of all rows, out of one process:
        what it compiles takes most of its time."""
        specs, prefill = [], [r for r in rows if r.prefill]
        for row in rows:
            if row.prefill:
                continue
            spec = f'b:{row.peer}:{row.batch}:{row.context}:n'
            mine = [r for r in prefill if r.peer == row.peer]
            if mine:
                prefill.remove(mine[0])
                spec += f':{mine[0].context}'
            specs.append(spec)
        limit = max(30, self.a.seconds - (time.monotonic() - self.begin) - 60)
        try:
            text = subprocess.run(
                [sys.executable, os.path.join(self.a.stage, 'peer_torch.py'),
                 *specs], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, timeout=limit, check=False).stdout
        except subprocess.TimeoutExpired as e:
            text = (e.stdout or b'').decode()
        print(''.join(l + '\n' for l in text.splitlines()
                      if l.startswith(('torch.compile', 'b:'))), end='',
              flush=True)
        for row in rows:
            pattern = (rf'compile {row.peer} prefill {row.context}: ([\d.]+) ms'
                       if row.prefill else
                       rf'compile {row.peer} B{row.batch} ctx{row.context} '
                       r'\w+: ([\d.]+) ms/step')
            m = re.search(pattern, text)
            row.theirs = None if m is None else float(m[1])


def main():
    p = argparse.ArgumentParser()
    p.add_argument('part', choices=('speed-1b', 'speed-8b'))
    for flag in ('--bin', '--stage', '--work', '--out'):
        p.add_argument(flag, required=True)
    p.add_argument('--rows', help='of these keys alone')
    p.add_argument('--no-peer', action='store_true')
    p.add_argument('--seconds', type=float, default=440,
                   help='the peer is cut when this is nearly over')
    a = p.parse_args()
    bench, bad, table = Bench(a), 0, []
    rows = rows_of(a.part)
    if a.rows:
        rows = [r for r in rows if r.key in a.rows.split(',')]
    for turn in range(1 if a.no_peer else 2):
        if turn == 1:
            bench.theirs(rows)
        for row in rows:
            if row.failed:
                continue
            try:
                row.ours.append(bench.ours(row))
            except (RuntimeError, subprocess.CalledProcessError) as e:
                row.failed = str(e)
    for row in rows:
        what = (f'{row.name:13} prefill {row.context}' if row.prefill else
                f'{row.name:13} b {row.batch:2} at {row.context}')
        if row.failed:
            table.append(f'{what:32} FAILED: {row.failed}')
            bad += 1
            continue
        ours = sum(row.ours) / len(row.ours)
        text = f'{what:32} {ours:9.4f} ms'
        if row.theirs is not None:
            ratio = row.theirs / ours
            text += (f'  torch.compile {row.theirs:9.4f} ms  ratio {ratio:5.2f}'
                     f' (wanted {row.wanted})')
            bad += ratio < row.wanted
        elif not a.no_peer:
            text += '  the peer had no time'
            bad += 1
        if not row.prefill and 'share_of_read_bandwidth' in row.last:
            text += (f'  {100 * row.last["share_of_read_bandwidth"]:5.1f} % of '
                     f'{row.last["read_bandwidth"] * 1e-12:.2f} TB/s')
        table.append(text)
        for kind in row.last.get('kinds', []):
            print(f'   {what}: {kind["kind"]:20} {kind["us_per_step"]:9.1f} us, '
                  f'{kind["launches_per_step"]:.0f} launches')
    first = rows[0]
    if first.plan_key() in bench.plans:
        subprocess.run(
            [os.path.join(a.bin, 'dsrun'), bench.plans[first.plan_key()],
             '--prompt-ids', ','.join(str(i) for i in range(1, 65)), '-n', '12',
             '--greedy', '--ignore-eos', '--print-ids', '--device', 'cuda',
             '--report-memory', '--profile',
             os.path.join(a.out, a.part + '.profile.json')],
            stdout=subprocess.DEVNULL, check=False)
    for path in bench.plans.values():
        shutil.rmtree(path, ignore_errors=True)
    print('\n'.join(table))
    print(f'{len(table) - bad} rows as wanted, {bad} not')
    sys.exit(1 if bad else 0)


main()
