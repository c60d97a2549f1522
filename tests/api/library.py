#!/usr/bin/env python3
"""libdeepslice on small plans.

    library.py DSCOMPILE DSRUN LIBRARY_TEST STEPS_TEST EXAMPLE
               EXAMPLE_OVER_ARCHIVE

Compiles the plans, runs the tests in C, and the example beside dsrun.
"""
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from harness import TOP, Checks, Scratch, run  # noqa: E402


def main():
    dscompile, dsrun, test, steps, *examples = (os.path.abspath(p)
                                                for p in sys.argv[1:])
    c = Checks()
    with Scratch() as tmp:
        os.chdir(tmp)
        r = run(sys.executable,
                os.path.join(TOP, 'tools', 'make_random_checkpoint.py'),
                'source')
        c.check(r.returncode == 0, 'make_random_checkpoint', r.stderr)
        shutil.copytree('source', 'without')
        for name in ('tokenizer.json', 'tokenizer_config.json'):
            os.remove(os.path.join('without', name))
        for source, plan, tp in (('source', 'one', 1), ('source', 'two', 2),
                                 ('without', 'bare', 1)):
            r = run(dscompile, source, '--dtype', 'fp32', '--tp', tp,
                    '--max-batch', 8, '--max-step-tokens', 64,
                    '--max-seq-len', 256, '-o', plan)
            c.check(r.returncode == 0, f'dscompile {plan}', r.stderr)
        for command in ([test, 'one', 'bare'], [steps, 'one', 'two']):
            r = run(*command)
            c.check(r.returncode == 0, command, r.stdout + r.stderr)
            c.check(r.stderr == '', 'the library prints nothing', r.stderr)
            print(r.stdout, end='')
        prompt = 'Once upon a time'
        want = run(dsrun, 'one', '-p', prompt, '-n', 24).stdout
        c.check(len(want) > 8, 'dsrun answers', want)
        for example in examples:
            for plan in ('one', 'two'):
                r = run(example, plan, prompt, 24)
                c.check(r.returncode == 0 and r.stdout.rstrip('\n')
                        == want.rstrip('\n'),
                        f'{example} {plan} says what dsrun does',
                        (r.stdout, want, r.stderr))
        # A launcher's variables count for plans of several ranks.
        launched = {**os.environ, 'RANK': '0', 'WORLD_SIZE': '3'}
        r = run(examples[0], 'one', prompt, 24, env=launched)
        c.check(r.returncode == 0 and r.stdout.rstrip('\n')
                == want.rstrip('\n'), 'one rank under a launcher', r)
        r = run(examples[0], 'two', prompt, env=launched)
        c.check(r.returncode == 1 and '3' in r.stderr and '2' in r.stderr
                and r.stderr.count('\n') == 1, 'a launch of other size',
                r.stderr)
        r = run(examples[0], 'nowhere', prompt)
        c.check(r.returncode == 1 and r.stderr.startswith('example: nowhere'),
                'a plan that is not there', r.stderr)
    c.finish()


main()
