#!/usr/bin/python3
"""Compares our templates with Python's jinja2: families, then random ones.

    differential.py TEMPLATE_CHECK [--seed N] [--random N] [--only TEXT]

Every file of families/ is rendered with every context of conversations.py, and
so are templates that random_templates.py makes up. Both sides must write the
same text, raise the same words, or both refuse. TEMPLATE_CHECK renders ours.
"""
import argparse
import collections
import copy
import json
import os
import pathlib
import re
import subprocess
import sys
import warnings

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
# pylint: disable=wrong-import-position
import conversations  # noqa: E402
import random_templates  # noqa: E402
import reference  # noqa: E402


def family_cases(only):
    for path in sorted((HERE / 'families').glob('*.jinja')):
        # As a file is read, and as transformers reads it.
        template = path.read_text(encoding='utf-8')
        for name, context in conversations.contexts():
            if only in f'{path.stem}/{name}':
                yield f'{path.stem}/{name}', template, context


def random_cases(seed, count, only):
    for i in range(count):
        name = f'random/{seed + i}'
        if only in name:
            yield (name, *random_templates.make(seed + i))


def ours(check, cases):
    lines = ''.join(json.dumps({'template': t, 'context': c,
                                'now': reference.NOW}) + '\n'
                    for _, t, c in cases)
    run = subprocess.run([check], input=lines.encode(), capture_output=True,
                         check=False, env={**os.environ, 'TZ': 'UTC'})
    if run.returncode != 0:
        sys.exit(f'{check}: exit {run.returncode}: {run.stderr.decode()}')
    out = [json.loads(line) for line in run.stdout.decode().split('\n')[:-1]]
    assert len(out) == len(cases), (len(out), len(cases))
    return out


def complaint(want, got, may_be_unsupported):
    """What is wrong with our answer, or None."""
    kind, text = want
    if kind == 'text':
        if got.get('text') == text:
            return None
        if may_be_unsupported and got.get('code') == 'UNIMPLEMENTED':
            return None
        return f'jinja2 wrote {text!r}\n  we {got}'
    if kind == 'raised':
        if got.get('code') == 'FAILED_PRECONDITION' and got['message'] == text:
            return None
        return f'jinja2 raised {text!r}\n  we {got}'
    if 'text' in got or got['code'] in ('INTERNAL', 'FAILED_PRECONDITION'):
        return f'jinja2 failed with {text!r}\n  we {got}'
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('check')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--random', type=int, default=4000)
    parser.add_argument('--only', default='')
    parser.add_argument('--show', type=int, default=20)
    args = parser.parse_args()
    warnings.simplefilter('ignore')  # of what random templates compile to
    wrong = passed = texts = 0
    unsupported = collections.Counter()
    for cases, lenient in (
            (list(family_cases(args.only)), False),
            (list(random_cases(args.seed, args.random, args.only)), True)):
        for (name, template, context), got in zip(cases,
                                                  ours(args.check, cases)):
            # What a filter changes in place is not seen by the next case.
            want = reference.render(
                template, copy.deepcopy(context) if lenient else context)
            if re.search(r' at 0x[0-9a-f]{6}', want[1]):
                continue  # the text of an object without one
            texts += want[0] == 'text'
            if want[0] == 'text' and got.get('code') == 'UNIMPLEMENTED':
                unsupported[got['message'].split(': ', 2)[-1]] += 1
            bad = complaint(want, got, lenient)
            if bad is None:
                passed += 1
                continue
            wrong += 1
            if wrong <= args.show:
                print(f'{name}: {bad}')
                if lenient:
                    print(f'  template {template!r}')
    left_out = sum(unsupported.values())
    print(f'jinja2 wrote {texts} texts; {left_out} of them use what we do not '
          'support, by name:')
    for message, count in unsupported.most_common(args.show):
        print(f'  {count} {message}')
    print(f'{passed} passed, {wrong} failed')
    if left_out > texts / 50:
        sys.exit('too much is not supported')
    sys.exit(1 if wrong or not passed else 0)


main()
