#!/usr/bin/env python3
"""Every golden case of an encoder gives its reference outputs at every tp.

    encoder_outputs.py DSCOMPILE DSRUN DSPLAN [TARGET DEVICE [FOLDER]]

fp32 at tp 1, 2, 3, 4 and 8 (ranks that own no head), bf16 and fp16 at tp 2, int8
within its rounding at tp 1 and 3; dsplan verify finds each plan equal to its
checkpoint. With a target and a device (`... sm_90a cuda`) there, in the dtypes
that those take; ranks share the device, and FOLDER has more cases.
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from golden_case import encodes  # noqa: E402
from harness import (CASES, Checks, Scratch, read_tensors, relative_l2,  # noqa: E402
                     run, write_tensors)

NAMES = ('clip', 'bert-old-names', 'bert-one-class', 'bert-qa', 'bert-relu',
         'bert-tokens', 'bert-untied', 'distilbert-classify', 'distilbert-mlm',
         'distilbert-qa', 'roberta-classify', 'roberta-mlm', 'roberta-tokens')
INPUTS = ('input_ids', 'attention_mask', 'token_type_ids', 'pixel_values')
BOUND = {'fp32': 2e-5, 'fp16': 6e-3, 'bf16': 4e-2, 'int8': 8e-2}
RUNS = ([('fp32', tp) for tp in (1, 2, 3, 4, 8)] +
        [('bf16', 2), ('fp16', 2), ('int8', 1), ('int8', 3)])
DEVICE_RUNS = [(dtype, tp) for dtype in ('fp32', 'bf16', 'fp16')
               for tp in (1, 2)] + [('fp32', 3), ('bf16', 4)]
BESIDE_DECODERS = ('t5', 'mt5')  # seq2seq.py's


def unmasked(values, shape, mask):
    """Rows of tokens that the mask leaves, or all of one row a sequence."""
    if shape[:2] != [len(mask), len(mask[0])]:
        return values
    width = len(values) // (shape[0] * shape[1])
    flat = [bit for row in mask for bit in row]
    return [v for i, bit in enumerate(flat) if bit
            for v in values[i * width:(i + 1) * width]]


def main():
    dscompile, dsrun, dsplan = sys.argv[1:4]
    target, device, folder = (sys.argv[4:] + [None] * 3)[:3]
    cases = [os.path.join(CASES, 'models', name) for name in NAMES]
    if folder is not None:
        cases += [os.path.join(folder, name)
                  for name in sorted(os.listdir(folder))
                  if encodes(name) and
                  name.split('-')[0] not in BESIDE_DECODERS]
    compile_flags = ['--target', target] if target else []
    run_flags = ['--device', device, '--share-gpu'] if device else []
    c = Checks()
    for case in cases:
        name = os.path.basename(case)
        if not c.check(os.path.exists(os.path.join(case, 'golden.json')),
                       name, 'the case is missing'):
            continue
        with open(os.path.join(case, 'golden.json'), encoding='utf-8') as f:
            meta = json.load(f)
        gold = read_tensors(os.path.join(case, 'golden.safetensors'))
        rows, width = gold['input_ids'][0]
        bits = gold.get('attention_mask', (None, [1] * rows * width))[1]
        mask = [bits[r * width:(r + 1) * width] for r in range(rows)]
        for dtype, tp in RUNS if target is None else DEVICE_RUNS:
            what = f'{name} {dtype} tp {tp}'
            with Scratch() as tmp:
                plan = os.path.join(tmp, 'plan')
                r = run(dscompile, case, '--dtype', dtype, '--tp', tp, '-o',
                        plan, *compile_flags)
                if not c.check(r.returncode == 0, what, r.stderr):
                    continue
                feed = os.path.join(tmp, 'in.safetensors')
                fetch = os.path.join(tmp, 'out.safetensors')
                write_tensors(feed, {
                    k: ('F32' if k == 'pixel_values' else 'I64', *gold[k])
                    for k in INPUTS if k in gold})
                r = run(dsrun, plan, '--feed', feed, '--fetch', fetch,
                        *run_flags)
                if not c.check(r.returncode == 0, what, r.stderr):
                    continue
                got = read_tensors(fetch)
                bound = max(BOUND[dtype],
                            2 * meta.get('error', {}).get(dtype, [0])[0])
                for key, (shape, want) in gold.items():
                    if key in INPUTS:
                        continue
                    if not c.check(key in got and got[key][0] == shape, what,
                                   f'{key}: {got.get(key, [None])[0]} for {shape}'):
                        continue
                    e = relative_l2(unmasked(got[key][1], shape, mask),
                                    unmasked(want, shape, mask))
                    c.check(e <= bound, what, f'{key}: rel. L2 {e:.2e}')
                if tp in (1, 3) and target is None:
                    r = run(dsplan, 'verify', plan, '--against', case)
                    c.check(r.returncode == 0, f'{what}: verify',
                            r.stdout + r.stderr)
    c.finish()


main()
