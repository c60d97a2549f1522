#!/usr/bin/env python3
"""Every golden case gives its reference logits and greedy tokens at every tp.

    golden_logits.py DSCOMPILE DSRUN [families]

fp32 at tp 1, 2, 3, 4, 5 and 8 (heads and KV heads that do not divide, ranks that
own nothing), bf16 and fp16 at tp 2, int8 within its rounding at tp 1 and 3, and
the same int8 tokens at both. With "families": the case of every decoder family,
fp32 at tp 1, 2, 3 and 4, bf16 and fp16 at tp 2.
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from harness import (CASES, Checks, Scratch, read_tensors, relative_l2,  # noqa: E402
                     run, write_tensors)

NAMES = ('gpt2', 'llama-gqa-tied', 'llama-internlm-bias', 'llama-yarn',
         'llama3-rope-v4config', 'mistral-window', 'qwen2')
FAMILIES = (
    'bloom', 'cohere', 'cohere-qk-norm', 'falcon-mqa', 'falcon-new',
    'falcon-new-one-norm', 'falcon-rw', 'galactica', 'gemma', 'gemma-bias',
    'gemma2', 'gemma3-text', 'gpt-j', 'gpt-neo', 'gpt-neox',
    'gpt-neox-sequential', 'granite', 'internlm2', 'llama-dynamic',
    'megatron-core', 'megatron-gpt', 'megatron-gpt-grouped',
    'megatron-gpt-rows', 'olmo2', 'opt', 'opt-350m-style', 'opt-no-final-norm', 'phi', 'phi-qk-layernorm',
    'phi3', 'phi3-longrope', 'qwen', 'qwen3', 'stablelm', 'stablelm-parallel',
    'starcoder2', 'starcoder2-no-bias')
BOUND = {'fp32': 2e-5, 'fp16': 6e-3, 'bf16': 4e-2, 'int8': 5e-2}
RUNS = ([('fp32', tp) for tp in (1, 2, 3, 4, 5, 8)] +
        [('bf16', 2), ('fp16', 2), ('int8', 1), ('int8', 3)])
FAMILY_RUNS = ([('fp32', tp) for tp in (1, 2, 3, 4)] +
               [('bf16', 2), ('fp16', 2)])


def main():
    dscompile, dsrun = sys.argv[1:3]
    c = Checks()
    families = sys.argv[3:] == ['families']
    for name in FAMILIES if families else NAMES:
        case = os.path.join(CASES, 'models', name)
        if not c.check(os.path.exists(os.path.join(case, 'golden.json')),
                       name, 'the case is missing'):
            continue
        with open(os.path.join(case, 'golden.json'), encoding='utf-8') as f:
            meta = json.load(f)
        gold = read_tensors(os.path.join(case, 'golden.safetensors'))
        int8_ids = []
        for dtype, tp in FAMILY_RUNS if families else RUNS:
            what = f'{name} {dtype} tp {tp}'
            with Scratch() as tmp:
                plan = os.path.join(tmp, 'plan')
                r = run(dscompile, case, '--dtype', dtype, '--tp', tp, '-o', plan)
                if not c.check(r.returncode == 0, what, r.stderr):
                    continue
                for i in range(meta.get('prompts', 1)):
                    ids = gold[f'{i}.input_ids'][1]
                    feed = os.path.join(tmp, 'in.safetensors')
                    fetch = os.path.join(tmp, 'out.safetensors')
                    write_tensors(feed, {'input_ids': ('I64', [1, len(ids)], ids)})
                    r = run(dsrun, plan, '--feed', feed, '--fetch', fetch)
                    if not c.check(r.returncode == 0, what, r.stderr):
                        continue
                    shape, got = read_tensors(fetch)['logits']
                    c.check(shape == [1, len(ids), meta['vocab']], what, shape)
                    bound = max(BOUND[dtype],
                                2 * meta.get('error', {}).get(dtype, [0])[0])
                    e = relative_l2(got, gold[f'{i}.logits'][1])
                    c.check(e <= bound, what, f'prompt {i}: rel. L2 {e:.2e}')
                    if dtype not in ('fp32', 'int8') or i > 0:
                        continue
                    want = gold[f'{i}.greedy'][1]
                    r = run(dsrun, plan, '--prompt-ids',
                            ','.join(map(str, ids)), '-n', len(want),
                            '--greedy', '--ignore-eos', '--print-ids')
                    have = [int(x) for x in r.stdout.split(',') if x.strip()]
                    if dtype == 'fp32':
                        c.check(have == want, what, f'{have} for {want}')
                    else:
                        int8_ids.append(have)
        c.check(families or len(int8_ids) == 2 and int8_ids[0] == int8_ids[1],
                f'{name}: int8 tokens are the same at tp 1 and 3', int8_ids)
    c.finish()


main()
