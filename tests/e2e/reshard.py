#!/usr/bin/env python3
"""dsplan reshard gives, byte for byte, what compiling at that tp gives.

    reshard.py DSCOMPILE DSPLAN

Then what it refuses, each in one line.
"""
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, '..', 'support'),
                os.path.join(HERE, '..', 'bad_files')]
from harness import CASES, Checks, Scratch, run  # noqa: E402
from plan_edit import PlanFile, seal  # noqa: E402
import make_bad_ggufs as ggufs  # noqa: E402

# Six heads and two for keys and values, a vocabulary of 131, an MLP of 76, so
# that no number of ranks divides all: case, tp before and after, flags.
PAIRS = [
    ('cohere', 1, 3, ['--dtype', 'int8']),
    ('cohere', 5, 2, []),
    ('falcon-new', 4, 3, ['--dtype', 'int8']),
    ('falcon-mqa', 3, 7, []),
    ('gemma2', 8, 1, ['--dtype', 'bf16']),
    ('gemma', 2, 5, ['--dtype', 'int8']),
    ('gpt2', 3, 4, ['--dtype', 'int8']),
    ('gpt-j', 6, 4, []),
    ('gpt-neo', 2, 3, ['--dtype', 'fp16']),
    ('gpt-neox', 7, 2, ['--dtype', 'int8']),
    ('bloom', 4, 6, ['--dtype', 'int8']),
    ('opt', 1, 8, []),
    ('phi3', 3, 2, ['--dtype', 'int8']),
    ('phi3-longrope', 2, 1, []),
    ('qwen', 2, 5, []),
    ('qwen3', 8, 3, ['--dtype', 'int8']),
    ('olmo2', 2, 4, ['--dtype', 'bf16']),
    ('internlm2', 3, 5, ['--dtype', 'int8']),
    ('starcoder2', 1, 2, ['--max-batch', '3', '--kv-block', '16']),
    ('stablelm', 6, 5, []),
    ('llama-gqa-tied', 2, 3, ['--dtype', 'int8', '--max-seq-len', '50']),
    ('megatron-gpt-grouped', 2, 3, []),
    ('t5-gated', 2, 3, ['--dtype', 'int8']),
    ('clip', 3, 2, ['--dtype', 'int8']),
    ('bert-qa', 2, 5, ['--dtype', 'int8']),
    ('gemma2', 3, 2, ['--random-weights', '7', '--dtype', 'bf16']),
    ('qwen3', 2, 3, ['--random-weights', '5', '--dtype', 'int8']),
    ('bloom', 2, 3, ['--target', 'cpu,sm_90a', '--max-batch', '1']),
    ('qwen2', 3, 1, ['--target', 'sm_90a', '--max-batch', '1', '--dtype',
                     'bf16', '--device-memory', '40GiB']),
]


def contents(folder):
    return {n: open(os.path.join(folder, n), 'rb').read()
            for n in sorted(os.listdir(folder))}


def check_pair(c, dscompile, dsplan, source, old, new, flags):
    """Compiles at both tps, reshards from one to the other and compares."""
    what = f'{os.path.basename(source)} {old} to {new} {" ".join(flags)}'
    for tp, folder in ((old, 'old'), (new, 'want')):
        shutil.rmtree(folder, ignore_errors=True)
        r = run(dscompile, source, '--tp', tp, *flags, '-o', folder)
        if c.left_out(r, what) or not c.check(r.returncode == 0, what,
                                              r.stderr):
            return
    shutil.rmtree('got', ignore_errors=True)
    r = run(dsplan, 'reshard', 'old', '--tp', new, '-o', 'got', '-j',
            1 + old % 3)
    if not c.check(r.returncode == 0 and r.stdout == '', what, r.stderr):
        return
    want, got = contents('want'), contents('got')
    differ = [n for n in sorted(set(want) | set(got))
              if want.get(n) != got.get(n)]
    c.check(not differ, what, f'{differ} differ')


def check_gguf(c, dscompile, dsplan):
    """Rotary pairs apart, blocks of four bits."""
    with open('model.gguf', 'wb') as f:
        f.write(ggufs.model().build())
    check_pair(c, dscompile, dsplan, 'model.gguf', 2, 3, [])
    check_pair(c, dscompile, dsplan, 'model.gguf', 1, 2, ['--dtype', 'int8'])


def check_twice(c, dscompile, dsplan):
    """Over several plans and back; --force replaces one."""
    source = os.path.join(CASES, 'models', 'qwen3')
    run(dscompile, source, '--dtype', 'int8', '--tp', 2, '-o', 'first')
    for before, after, tp in (('first', 'second', 5), ('second', 'third', 3),
                              ('third', 'last', 2)):
        r = run(dsplan, 'reshard', before, '--tp', tp, '-o', after)
        c.check(r.returncode == 0, f'{before} to {after}', r.stderr)
    c.check(contents('first') == contents('last'), 'there and back')
    r = run(dsplan, 'reshard', 'second', '--tp', 2, '-o', 'last', '--force')
    c.check(r.returncode == 0 and contents('first') == contents('last'),
            '--force', r.stderr)


def edited(old, new, rank=0, whole=True):
    """Puts `new` in the place of the first `old` of ranks' plans."""
    def fault():
        for r in (0, 1) if whole else (rank,):
            plan = PlanFile(f'bad/rank_000{r}.plan')
            plan.put(plan.find(old, 0), new)
            plan.write()
        seal('bad')
    return fault


def manifest(old, new):
    def fault():
        with open('bad/manifest.json', encoding='utf-8') as f:
            text = f.read()
        assert old in text
        with open('bad/manifest.json', 'w', encoding='utf-8') as f:
            f.write(text.replace(old, new))
        seal('bad')
    return fault


def flip():
    with open('bad/rank_0001.plan', 'r+b') as f:
        f.seek(-9, os.SEEK_END)
        byte = f.read(1)
        f.seek(-9, os.SEEK_END)
        f.write(bytes([byte[0] ^ 1]))


AGAIN = '; copy the plan again or compile it anew'
# What is wrong: how, exit code, the line; "..." is any text.
REFUSED = {
    'a plan of an older dscompile': (
        edited(b'"format":2', b'"format":1'), 4,
        'bad/rank_0000.plan: was made by a dscompile that did not yet write '
        'down what this takes; compile the source again'),
    'of a newer one': (
        edited(b'"format":2', b'"format":3'), 4,
        'bad/rank_0000.plan: source: was written in format 3; this build reads '
        '2; update'),
    'a source that is no JSON': (
        edited(b'"format":2', b'"format":,'), 3,
        'bad/rank_0000.plan: source: line 1, column 11: ...' + AGAIN),
    'options of other ranks': (
        edited(b'"tp":2', b'"tp":3'), 3,
        'bad/rank_0000.plan: source: says 3 ranks, the plan has 2; copy the '
        'plan again'),
    'ranks from different sources': (
        edited(b'"kv_block":64', b'"kv_block":32', rank=1, whole=False), 3,
        'bad: rank 1 was made from another source than rank 0; copy the plan '
        'again'),
    'a member that is missing': (
        edited(b'"ceilings"', b'"ceilingz"'), 3,
        'bad/rank_0000.plan: source: ceilings: is not an object' + AGAIN),
    'a graph that does not parse': (
        edited(b'graph @', b'grapf @'), 3,
        'bad/rank_0000.plan: source: ir:1:1: ...' + AGAIN),
    'a graph that is none': (
        edited(b'k_proj.bias\\"[0:20]', b'k_proj.bias\\"[0:19]'), 3,
        'bad/rank_0000.plan: source: graph @qwen3: ...' + AGAIN),
    'a graph of other weights': (
        edited(b'k_proj.bias\\"[0:20]', b'k_proj.bias\\"[1:21]'), 3,
        'bad: rank 0: weight ... compile the source again'),
    'a byte that changed': (
        flip, 3,
        'bad/rank_0001.plan: sha256 ..., the manifest says ...; recopy it'),
    'an edited manifest': (
        lambda: os.truncate('bad/manifest.json',
                            os.path.getsize('bad/manifest.json') - 2), 3,
        'bad/manifest.json: ...'),
    'a rank that is missing': (
        lambda: os.unlink('bad/rank_0001.weights'), 3,
        'bad/rank_0001.weights: no such file; manifest.json lists it with '
        '... bytes; copy the plan again'),
    'weights that changed': (
        lambda: flip_weights('bad/rank_0000.weights'), 3,
        'bad/rank_0000.weights: ...'),
}


def flip_weights(path):
    with open(path, 'r+b') as f:
        f.write(b'\x5a')


def matches(line, wanted):
    at = 0
    parts = wanted.split('...')
    if not line.startswith(parts[0]) or not line.endswith(parts[-1]):
        return False
    for part in parts:
        at = line.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


def refused(c, what, r, code, line):
    c.check(r.returncode == code and r.stdout == ''
            and r.stderr.count('\n') == 1
            and matches(r.stderr.rstrip('\n'), 'dsplan: ' + line), what,
            f'{r.returncode} {r.stderr}')


def check_refusals(c, dscompile, dsplan):
    source = os.path.join(CASES, 'models', 'qwen3')
    run(dscompile, source, '--tp', 2, '--selftest', 'none', '-o', 'good')
    for what, (fault, code, line) in REFUSED.items():
        shutil.rmtree('bad', ignore_errors=True)
        shutil.copytree('good', 'bad')
        fault()
        refused(c, what, run(dsplan, 'reshard', 'bad', '--tp', 3, '-o', 'no'),
                code, line)
        c.check(not os.path.exists('no'), f'{what}: nothing is written')
    refused(c, 'an output that exists',
            run(dsplan, 'reshard', 'good', '--tp', 3, '-o', 'bad'), 4,
            'bad: exists; name another folder, or replace it with --force')
    refused(c, 'an output in the plan',
            run(dsplan, 'reshard', 'good', '--tp', 3, '-o', 'good/more'), 3,
            '-o good/more: lies in the source good; name a folder outside')
    refused(c, 'the plan itself',
            run(dsplan, 'reshard', 'good', '--tp', 3, '-o', 'good', '--force'),
            3, '-o good: lies in the source good; name a folder outside')
    refused(c, 'no plan',
            run(dsplan, 'reshard', source, '--tp', 3, '-o', 'no'), 3,
            f'{source}: a model\'s folder, not a plan; compile it first: '
            f'dscompile {source} -o plan/')
    for n in ('0', '4097', '1000000', 'two'):
        r = run(dsplan, 'reshard', 'good', '--tp', n, '-o', 'no')
        c.check(r.returncode == 2 and r.stderr.startswith('dsplan: --tp')
                and r.stderr.count('\n') == 1, f'--tp {n}', r.stderr)
    c.check([n for n in os.listdir('.') if n.startswith('.')] == [],
            'nothing is left behind', os.listdir('.'))


def check_nvrtc(c, dscompile, dsplan):
    source = os.path.join(CASES, 'models', 'qwen3')
    r = run(dscompile, source, '--target', 'sm_90a', '--max-batch', 1, '--dtype',
            'bf16', '-o', 'gpu')
    if c.left_out(r, 'another NVRTC'):
        return
    shutil.rmtree('bad', ignore_errors=True)
    shutil.copytree('gpu', 'bad')
    with open('bad/manifest.json', encoding='utf-8') as f:
        here = f.read().split('"nvrtc": "')[1].split('"')[0]
    manifest(f'"nvrtc": "{here}"', '"nvrtc": "12.9"')()
    refused(c, 'another NVRTC',
            run(dsplan, 'reshard', 'bad', '--tp', 2, '-o', 'no', '-q'), 4,
            'bad: its kernels were compiled by NVRTC 12.9; found NVRTC '
            f'{here} here, whose kernels differ; use NVRTC 12.9 '
            '(DEEPSLICE_NVRTC), or compile the source again')


def check_edited_ranks(c, dscompile, dsplan):
    source = os.path.join(CASES, 'models', 'qwen3')
    run(dscompile, source, '--tp', 2, '--dump-ir', 'ir', '-o', 'dumped')
    dump = next(n for n in sorted(os.listdir('ir/rank1'))
                if n.endswith('slice.tensor-slice.ir'))
    r = run(dscompile, source, '--tp', 2, '--start-from',
            os.path.join('ir/rank1', dump), '-o', 'edited')
    c.check(r.returncode == 0, 'a plan of edited ranks', r.stderr)
    refused(c, 'edited ranks',
            run(dsplan, 'reshard', 'edited', '--tp', 3, '-o', 'no'), 4,
            'edited: its ranks were edited (dscompile --start-from), so they '
            'are no cuts of one graph, which reshard needs; compile the source '
            'again')


def main():
    dscompile, dsplan = (os.path.abspath(p) for p in sys.argv[1:])
    c = Checks()
    with Scratch() as tmp:
        os.chdir(tmp)
        for case, old, new, flags in PAIRS:
            check_pair(c, dscompile, dsplan,
                       os.path.join(CASES, 'models', case), old, new, flags)
        check_gguf(c, dscompile, dsplan)
        check_twice(c, dscompile, dsplan)
        check_refusals(c, dscompile, dsplan)
        check_nvrtc(c, dscompile, dsplan)
        check_edited_ranks(c, dscompile, dsplan)
        os.chdir('/')
    c.finish()


main()
