#!/usr/bin/env python3
"""Every golden case of an encoder-decoder gives its reference at every tp.

    seq2seq.py DSCOMPILE DSRUN DSPLAN [TARGET DEVICE [FOLDER [NAME,...]]]

Logits and greedy tokens in fp32 at tp 1, 2, 3, 4 and 8, bf16 and fp16 at tp 2,
int8 at tp 1 and 3 alike; batch mates, beams of one request and sequences that
wait for a slot change nothing; dsplan verify finds the plan equal to its
checkpoint; wrong inputs end in one line. With a target and a device (`... sm_90a
cuda`) there, in the dtypes that those take, with greedy tokens of each text alone
as well; ranks share the device, and FOLDER has more cases; or those named alone.
"""
import concurrent.futures as cf
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from harness import (CASES, Checks, Scratch, read_tensors, relative_l2,  # noqa: E402
                     run, write_tensors)

NAMES = ('mt5-said-tied', 'mt5-silu', 'mt5-tied', 't5', 't5-gated')
BOUND = {'fp32': 2e-5, 'fp16': 6e-3, 'bf16': 4e-2, 'int8': 3e-1}
# Relative L2 of the published model in that dtype, where the case doesn't say.
OWN_ERROR = {'t5': {'bf16': [0.0557], 'fp16': [0.0041]},
             't5-v1_1': {'bf16': [0.129], 'fp16': [0.0116]}}
RUNS = ([('fp32', tp) for tp in (1, 2, 3, 4, 8)] +
        [('bf16', 2), ('fp16', 2), ('int8', 1), ('int8', 3)])
DEVICE_RUNS = [('fp32', 1), ('fp32', 2), ('bf16', 1), ('fp16', 1), ('bf16', 2)]


def tokens(r):
    return [[int(x) for x in line.split(',')] for line in r.stdout.split()]


def generate(dsrun, plan, prompts, count, *args):
    return run(dsrun, plan, '--prompt-ids',
               ';'.join(','.join(map(str, p)) for p in prompts), '-n', count,
               '--ignore-eos', '--print-ids', *args)


def check_case(c, tools, case, dtype, tp, int8_ids, where):
    dscompile, dsrun, dsplan = tools
    compile_flags, run_flags = where
    name = os.path.basename(case)
    with open(os.path.join(case, 'golden.json'), encoding='utf-8') as f:
        meta = json.load(f)
    gold = read_tensors(os.path.join(case, 'golden.safetensors'))
    what = f'{name} {dtype} tp {tp}'
    with Scratch() as tmp:
        plan = os.path.join(tmp, 'plan')
        r = run(dscompile, case, '--dtype', dtype, '--tp', tp, '-o', plan,
                *compile_flags)
        if not c.check(r.returncode == 0, what, r.stderr):
            return
        own = meta.get('error', OWN_ERROR.get(name, {}))
        bound = max(BOUND[dtype], 2 * own.get(dtype, [0])[0])
        prompts, want = [], []
        prefixes = ['']
        if 'prompts' in meta:
            prefixes = [f'{i}.' for i in range(meta['prompts'])]
        for i in prefixes:
            feed = os.path.join(tmp, 'in.safetensors')
            fetch = os.path.join(tmp, 'out.safetensors')
            write_tensors(feed, {
                k: ('I64', *gold[i + k])
                for k in ('input_ids', 'decoder_input_ids')})
            r = run(dsrun, plan, '--feed', feed, '--fetch', fetch, *run_flags)
            if not c.check(r.returncode == 0, what, r.stderr):
                return
            shape, got = read_tensors(fetch)['logits']
            c.check(shape == gold[i + 'logits'][0], what, shape)
            e = relative_l2(got, gold[i + 'logits'][1])
            c.check(e <= bound, what, f'{i}logits: rel. L2 {e:.2e}')
            prompts.append(gold[i + 'input_ids'][1])
            want.append(gold[i + 'greedy'][1])
        sure = dtype == 'fp32' and meta['min_greedy_margin'] > 2e-3
        r = generate(dsrun, plan, prompts, len(want[0]), '--greedy', *run_flags)
        have = tokens(r)
        if sure:
            c.check(have == want, what, f'{have} for {want}: {r.stderr}')
        if sure and run_flags:
            for prompt, ids in zip(prompts, want):
                r = generate(dsrun, plan, [prompt], len(ids), '--greedy',
                             *run_flags)
                c.check(tokens(r) == [ids], f'{what} alone',
                        f'{r.stdout} for {ids}: {r.stderr}')
        if dtype == 'int8':
            int8_ids.append(have)
        if tp in (1, 3) and not run_flags:
            r = run(dsplan, 'verify', plan, '--against', case)
            c.check(r.returncode == 0, f'{what}: verify', r.stdout + r.stderr)


def check_batches(c, tools, where):
    dscompile, dsrun, _ = tools
    compile_flags, run_flags = where
    with Scratch() as tmp:
        plan = os.path.join(tmp, 'plan')
        run(dscompile, os.path.join(CASES, 'models', 't5'), '-o', plan,
            *compile_flags)
        # The ceiling of a sequence is the answer's.
        r = generate(dsrun, plan, [[9, 5] * 20], 8, '--greedy', '-c', 9,
                     *run_flags)
        c.check(len(tokens(r)) == 1 and len(tokens(r)[0]) == 8,
                'a text longer than --max-seq-len', r.stderr)
        prompts = [[i + 2, 9, 60 - i] * (1 + i) for i in range(6)]
        alone = [tokens(generate(dsrun, plan, [p], 12, '--greedy',
                                 *run_flags))[0] for p in prompts]
        c.check(len(set(map(tuple, alone))) > 2, 'answers differ', alone)
        for args in ((), ('--max-batch', 2), ('--max-step-tokens', 20),
                     ('--max-batch', 3, '--max-step-tokens', 19)):
            r = generate(dsrun, plan, prompts, 12, '--greedy', *args,
                         *run_flags)
            c.check(tokens(r) == alone, f'{args}: batch mates', r.stderr)
        beams = [tokens(generate(dsrun, plan, [p], 12, '--num-beams', 3,
                                 *run_flags)) for p in prompts]
        r = generate(dsrun, plan, prompts, 12, '--num-beams', 3, *run_flags)
        c.check(tokens(r) == [b[0] for b in beams], 'beams', r.stdout + r.stderr)
        r = generate(dsrun, plan, prompts[:1], 12, '--temperature', 1, '--seed',
                     3, '--answers', 3, *run_flags)
        c.check(len(tokens(r)) == 3, 'answers', r.stderr)


def check_refusals(c, tools):
    dscompile, dsrun, _ = tools
    with Scratch() as tmp:
        plan = os.path.join(tmp, 'plan')
        run(dscompile, os.path.join(CASES, 'models', 't5'), '-o', plan)

        def refused(code, part, *args):
            r = run(dsrun, *args)
            c.check(r.returncode == code and r.stdout == '' and part in r.stderr
                    and len(r.stderr.splitlines()) == 1,
                    f'{args}: exit {code} and "{part}"', r.stdout + r.stderr)

        def feed(part, **tensors):
            path = os.path.join(tmp, 'in.safetensors')
            write_tensors(path, {k: ('I64', [len(v), len(v[0])], sum(v, []))
                                 for k, v in tensors.items()})
            refused(3, part, plan, '--feed', path, '--fetch',
                    os.path.join(tmp, 'none'))

        feed('there is no tensor "decoder_input_ids"', input_ids=[[5, 6]])
        feed('"decoder_input_ids" has 2 rows', input_ids=[[5, 6]],
             decoder_input_ids=[[0], [0]])
        feed('input id 1 is 71', input_ids=[[5, 71]], decoder_input_ids=[[0]])
        feed('text has 0 tokens', input_ids=[[5, 6]], attention_mask=[[0, 0]],
             decoder_input_ids=[[0]])
        feed('text has 600 tokens; 1 to 512', input_ids=[[5] * 600],
             decoder_input_ids=[[0]])
        feed('holds 3 at', input_ids=[[5, 6]], attention_mask=[[1, 3]],
             decoder_input_ids=[[0]])
        refused(3, "encoder's text has 600 tokens; 1 to 512", plan,
                '--prompt-ids', ','.join(['5'] * 600), '-n', 2, '--greedy',
                '--print-ids')
        refused(3, 'prompt id 0 is 71', plan, '--prompt-ids', '71', '-n', 2,
                '--greedy', '--print-ids')


def main():
    tools = sys.argv[1:4]
    target, device, folder, only = (sys.argv[4:] + [None] * 4)[:4]
    where = (['--target', target] if target else [],
             ['--device', device, '--share-gpu'] if device else [])
    cases = [os.path.join(CASES, 'models', name) for name in NAMES]
    if folder is not None:
        cases += [os.path.join(folder, name)
                  for name in sorted(os.listdir(folder))
                  if name.split('-')[0] in ('t5', 'mt5')]
    if only:
        cases = [c for c in cases if os.path.basename(c) in only.split(',')]
    c = Checks()
    if target is not None:
        with cf.ThreadPoolExecutor(6) as pool:
            jobs = [pool.submit(check_case, c, tools, case, dtype, tp, [], where)
                    for case in cases for dtype, tp in DEVICE_RUNS]
            jobs.append(pool.submit(check_batches, c, tools, where))
            for job in jobs:
                job.result()
        c.finish()
        return
    for case in cases:
        name = os.path.basename(case)
        int8_ids = []
        for dtype, tp in RUNS:
            check_case(c, tools, case, dtype, tp, int8_ids, where)
        c.check(len(int8_ids) == 2 and int8_ids[0] == int8_ids[1],
                f'{name}: int8 tokens are the same at tp 1 and 3', int8_ids)
    check_batches(c, tools, where)
    check_refusals(c, tools)
    c.finish()


main()
