#!/usr/bin/env python3
"""dsplan verify finds a fault planted in each pass, and names its layer.

    planted_faults.py DSCOMPILE DSPLAN

A fault is an edit of the graph after one pass (--dump-ir), from which the
compilation goes on (--start-from).
"""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from harness import CASES, Checks, Scratch, run  # noqa: E402

CASE = os.path.join(CASES, 'models', 'qwen2')
# The rest of a node: its line and the ones that continue it.
REST = r'[^\n]*(?:\n      [^\n]*)*'


def substitute(pattern, to):
    def edit(text):
        new, n = re.subn(pattern, to, text, flags=re.S)
        assert n == 1, f'{pattern}: {n} places'
        return new
    return edit


def drop_qkv_bias(text):
    """Layer 1's fused bias is never added."""
    text = substitute(r'\n  weight @layers\.1\.attn_qkv\.bias +:.*?\)(?=\n  \w)',
                      '')(text)
    text = substitute(r'\n  %layers\.1\.qkv = add_bias\(' + REST, '')(text)
    return substitute(r'qkv_attention\(%layers\.1\.qkv,',
                      'qkv_attention(%layers.1.qkv.nobias,')(text)


def swap_gate_and_up(text):
    return substitute(
        r'interleave\(("[^"]*layers\.1\.mlp\.gate_proj[^,]*, [^,]*),\s*'
        r'("[^"]*layers\.1\.mlp\.up_proj[^,]*, [^)]*)\)',
        r'interleave(\2, \1)')(text)


# name: (flags, dump to edit, edit, extra flags, what verify must say)
FAULTS = {
    'dropped bias': (
        [], '01.fuse.fuse-qkv.ir', drop_qkv_bias, [], 'layer 1'),
    'swapped gate and up': (
        [], '02.fuse.fuse-gate-up.ir', swap_gate_and_up, [], 'layer 1'),
    'wrong rope base': (
        [], '01.fuse.fuse-qkv.ir',
        substitute(r'rope_freqs\(base=10000', 'rope_freqs(base=5000'), [],
        'layer 0'),
    'wrong tensor under a quantised weight': (
        ['--dtype', 'int8'], '03.quantize.quantize-weights.ir',
        substitute(r'layers\.1\.mlp\.down_proj', 'layers.2.mlp.down_proj'), [],
        'layer 1'),
    'slice off by one': (
        ['--tp', '2'], 'rank1/04.slice.tensor-slice.ir',
        substitute(r'(layers\.1\.mlp\.down_proj\.weight"\[0:64, )80:176',
                   r'\g<1>79:175'), [], 'layer 1'),
    'one rank\'s all-reduce removed': (
        ['--tp', '2'], 'rank1/04.slice.tensor-slice.ir',
        lambda t: substitute(r'%layers\.1\.mlp_out\.partial = ',
                             '%layers.1.mlp_out = ')(
            substitute(r'\n  %layers\.1\.mlp_out = all_reduce' + REST, '')(t)),
        ['--unchecked'], 'collective'),
    'dropped residual': (
        [], '05.fuse-epilogues.ir',
        substitute(r'(%layers\.1\.out = linear\([^)]*?),\s*residual=%[\w.]+\)',
                   r'\1)'), [], 'layer 1'),
}


def main():
    dscompile, dsplan = sys.argv[1:3]
    c = Checks()
    with Scratch() as tmp:
        for flags in ([], ['--tp', '2'], ['--dtype', 'int8'],
                      ['--dtype', 'bf16', '--tp', '3'],
                      # The probe in chunks.
                      ['--max-step-tokens', '3', '--max-batch', '2']):
            plan = os.path.join(tmp, 'plan' + '_'.join(flags))
            run(dscompile, CASE, *flags, '-o', plan)
            r = run(dsplan, 'verify', plan, '--against', CASE)
            c.check(r.returncode == 0, f'a sound plan verifies {flags}',
                    r.stderr + r.stdout)
        plan = os.path.join(tmp, 'short')
        run(dscompile, CASE, '--max-seq-len', 5, '--kv-block', 1, '-o', plan)
        r = run(dsplan, 'verify', plan, '--against', CASE)
        c.check(r.returncode == 4 and '--tokens 5' in r.stderr,
                'a probe that is too long', f'rc {r.returncode}: {r.stderr}')
        r = run(dsplan, 'verify', plan, '--against', CASE, '--tokens', 5)
        c.check(r.returncode == 0, 'a short probe', r.stderr + r.stdout)
        for i, (what, (flags, dump, edit, extra, says)) in enumerate(
                FAULTS.items()):
            d = os.path.join(tmp, f'dump{i}')
            r = run(dscompile, CASE, *flags, '-o', os.path.join(tmp, f'a{i}'),
                    '--dump-ir', d)
            path = os.path.join(d, dump)
            if not c.check(os.path.exists(path), f'{what}: {dump} is written',
                           r.stderr):
                continue
            with open(path, encoding='utf-8') as f:
                text = f.read()
            try:
                text = edit(text)
            except AssertionError as e:
                c.check(False, what, f'the dump reads otherwise: {e}')
                continue
            with open(path, 'w', encoding='utf-8') as f:
                f.write(text)
            plan = os.path.join(tmp, f'b{i}')
            r = run(dscompile, CASE, *flags, *extra, '-o', plan, '--start-from',
                    path)
            if not c.check(r.returncode == 0, f'{what}: compiles', r.stderr):
                continue
            r = run(dsplan, 'verify', plan, '--against', CASE)
            c.check(r.returncode == 1 and says in r.stderr,
                    f'{what}: found as "{says}"',
                    f'rc {r.returncode}: {r.stderr}{r.stdout}')
            if extra:  # without the switch the compiler itself refuses
                r = run(dscompile, CASE, *flags, '-o', plan + 'c',
                        '--start-from', path)
                c.check(r.returncode == 1 and says in r.stderr,
                        f'{what}: refused by dscompile', r.stderr)
    c.finish()


main()
