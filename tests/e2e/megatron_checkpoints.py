#!/usr/bin/env python3
"""A Megatron checkpoint gives the plan of the whole model, whatever its version
and however many ranks and stages saved it.

    megatron_checkpoints.py DSCOMPILE DSPLAN
"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, '..', 'support')]
import megatron_writer as m  # noqa: E402
from harness import Checks, Scratch, run  # noqa: E402
from plan_weights import Compiler, weights  # noqa: E402


def write_tokenizer(folder, size):
    """A vocabulary of `size` words, as tokenizer.json."""
    vocab = {chr(ord('!') + i): i for i in range(size)}
    with open(os.path.join(folder, 'tokenizer.json'), 'w') as f:
        json.dump({'version': '1.0', 'added_tokens': [], 'normalizer': None,
                   'pre_tokenizer': None, 'post_processor': None,
                   'decoder': None,
                   'model': {'type': 'BPE', 'vocab': vocab, 'merges': []}}, f)


class Test(Compiler):
    def compile(self, source, *options):
        r, plan = self.run(source, *options)
        self.c.check(r.returncode == 0, f'{source} {options}', r.stderr)
        return weights(plan), r.stderr, plan

    def equal(self, what, model, want, options, **cut):
        folder = self.folder()
        m.write(folder, model, **cut)
        got, _, _ = self.compile(folder, *options)
        self.c.check(got == want != b'', f'{what} {cut} {options}', 'differs')


def check_cuts(t):
    """All versions, degrees and stages: the same weights."""
    for grouped in (False, True):
        groups = 4 if grouped else m.HEADS
        for core, gated in ((False, False), (True, True), (False, True)):
            whole = t.folder()
            kind = dict(groups=groups, core=core, gated=gated, untied=core)
            m.write_whole(whole, m.Model(version=2, **kind))
            for options in ([], ['--tp', '4']):
                want, _, _ = t.compile(whole, *options)
                cuts = [(v, {'tensor_ranks': 2 if options else 4})
                        for v in (0, 1, 2, 3) if v != 1 or not grouped]
                if not options:
                    cuts += [(2, {'tensor_ranks': 1}), (0, {}),
                             (0, {'tensor_ranks': 2, 'stages': 2}),
                             (3, {'tensor_ranks': 2, 'stages': 2,
                                  'virtual': 2}),
                             (2, {'stages': 4})]
                for version, cut in cuts:
                    t.equal(f'version {version} {kind}',
                            m.Model(version=version, **kind), want, options,
                            **cut)


def check_lists(t):
    """checkpoint.json, the tracker, and what counts where two things differ."""
    c = t.c
    model = m.Model(version=0)
    whole = t.folder()
    m.write_whole(whole, model)
    want, _, _ = t.compile(whole)
    folder = t.folder()
    m.write(os.path.join(folder, 'iter_0000100'), model, tensor_ranks=2)
    tracker = os.path.join(folder, 'latest_checkpointed_iteration.txt')
    with open(tracker, 'w') as f:
        f.write('100\n')
    c.check(t.compile(folder)[0] == want, 'tracker', 'differs')
    # The tracker and a rank's folder stand for the whole.
    c.check(t.compile(tracker)[0] == want, 'the tracker itself', 'differs')
    for rank in ('mp_rank_00', 'mp_rank_01'):
        got = t.compile(os.path.join(folder, 'iter_0000100', rank))[0]
        c.check(got == want, rank, 'differs')
    names = [f'mp_rank_{r:02}/model_optim_rng.pt' for r in (0, 1)]
    list_path = os.path.join(folder, 'list.json')

    def write(text=None, **keys):
        with open(list_path, 'w') as f:
            f.write(text or json.dumps({
                'type': 'Megatron', 'version': 0.0, 'checkpoints': names,
                'base_dir': 'iter_0000100', **keys}))

    write()
    got, err, _ = t.compile(list_path)
    c.check(got == want, 'list', 'differs')
    c.check('version' not in err, 'list: no note of a version', err)
    write('{"type": "megatron", "version": 0, "base_dir": "iter_0000100", '
          f'"checkpoints": ["{names[0]}", "{names[1]}",],}}')
    got, err, _ = t.compile(list_path)
    c.check(got == want and 'trailing commas' in err, 'commas', err)
    write(checkpoints=names[::-1], parallelization='tp', mp_size=2)
    got, err, _ = t.compile(list_path)
    c.check(got == want and 'order of their ranks' in err, 'order', err)
    # The list's version counts more than the files', the flag more than both.
    write(version=2)
    got, err, _ = t.compile(list_path)
    c.check(got != want and 'version 2 counts' in err, 'version', err)
    got, err, _ = t.compile(list_path, '--qkv-layout', 'thirds')
    c.check(got == want and '--qkv-layout thirds counts' in err, 'layout', err)


def check_vocabulary(t, dsplan):
    c = t.c
    for untied in (False, True):
        model = m.Model(untied=untied)
        folder = t.folder()
        m.write(folder, model, tensor_ranks=4)
        got, err, _ = t.compile(folder)
        c.check('keeps its 40 rows' in err, 'padding kept', err)
        short, err, plan = t.compile(folder, '--vocab-size', '33')
        c.check('keeps its' not in err, 'padding cut', err)
        c.check(short != got, 'cut', 'the same weights')
        r = run(dsplan, 'verify', plan, '--against', folder)
        c.check(r.returncode == 0, 'verify', r.stdout + r.stderr)
        # A tokenizer beside the ranks says how many rows are no padding.
        write_tokenizer(folder, 33)
        cut, err, plan = t.compile(folder)
        c.check('cut from 40 rows to the 33' in err, "tokenizer's", err)
        c.check(cut == short, "tokenizer's", 'other weights')
        r = run(dsplan, 'verify', plan, '--against', folder)
        c.check(r.returncode == 0, 'verify', r.stdout + r.stderr)
        longer, err, _ = t.compile(folder, '--vocab-size', '36')
        c.check('cut from' not in err and longer not in (cut, got),
                'the flag counts more', err)
        # One of more tokens than there are rows pads nothing.
        write_tokenizer(folder, 40)
        c.check(t.compile(folder)[0] == got, 'no padding', 'other weights')
    r = run(t.dscompile, folder, '--vocab-size', '41', '-o', t.folder())
    c.check(r.returncode == 3 and 'allowed: 1 to 40' in r.stderr, 'too many',
            r.stderr)


def main():
    dscompile, dsplan = map(os.path.abspath, sys.argv[1:3])
    c = Checks()
    with Scratch() as scratch:
        t = Test(c, dscompile, scratch)
        check_lists(t)
        check_vocabulary(t, dsplan)
        check_cuts(t)
    c.finish()


main()
