#!/usr/bin/env python3
"""SmolLM2-135M from its GGUF gives the greedy tokens that transformers gives.

    smollm2.py DSCOMPILE DSRUN GGUF

Needs the model file, which tools/demo.sh fetches; .ci/run calls it where the
package registry can be reached.
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from harness import Checks, Scratch, run  # noqa: E402


def main():
    dscompile, dsrun, gguf = sys.argv[1:4]
    c = Checks()
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, 'smollm2_greedy.json'), encoding='utf-8') as f:
        cases = json.load(f)['cases']
    with Scratch() as tmp:
        for tp in (1, 2):
            plan = os.path.join(tmp, f'plan{tp}')
            r = run(dscompile, gguf, '--dtype', 'fp32', '--tp', tp, '-o', plan,
                    timeout=300)
            if not c.check(r.returncode == 0, f'compile tp {tp}', r.stderr):
                continue
            for i, case in enumerate(cases):
                r = run(dsrun, plan, '--prompt-ids',
                        ','.join(map(str, case['prompt'])), '-n',
                        len(case['greedy']), '--greedy', '--ignore-eos',
                        '--print-ids', timeout=300)
                got = [int(x) for x in r.stdout.split(',') if x.strip()]
                c.check(got == case['greedy'], f'tp {tp}, prompt {i}',
                        f'{got} {r.stderr}')
        plan = os.path.join(tmp, 'int8')
        run(dscompile, gguf, '--dtype', 'int8', '--tp', 2, '-o', plan, timeout=300)
        r = run(dsrun, plan, '--chat', '--greedy', '-n', 32, '-p',
                'What is the capital of France?', timeout=300)
        c.check('Paris' in r.stdout, 'the answer names Paris',
                r.stdout + r.stderr)
    c.finish()


main()
