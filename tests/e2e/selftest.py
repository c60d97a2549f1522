#!/usr/bin/env python3
"""dsrun selftest passes on every kind of plan; whatever is off, one line names
it: a flipped bit anywhere in the folder, an altered golden id, tokenizer text,
rendered conversation or template, steps that are not the model's.

    selftest.py DSCOMPILE DSRUN DSPLAN
"""
import json
import os
import random
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from golden_case import encodes  # noqa: E402
from harness import CASES, TOP, Checks, Scratch, run  # noqa: E402
from plan_edit import PlanFile, seal  # noqa: E402

MODELS = os.path.join(CASES, 'models')
FLIPS = 40  # of each file


def outcomes(text):
    return {t['test']: t['outcome'] for t in json.loads(text)['tests']}


def golden(name):
    """What becomes of a case's golden sequences: encoders have none."""
    return 'skipped' if encodes(name) else 'passed'


def check_passes(c, dscompile, dsrun):
    for i, name in enumerate(sorted(os.listdir(MODELS))):
        for dtype in ('fp32', ('bf16', 'fp16', 'int8')[i % 3]):
            plan = f'{name}-{dtype}'
            r = run(dscompile, os.path.join(MODELS, name), '--dtype', dtype,
                    '-o', plan, '-q')
            c.check(r.returncode == 0, f'compile {plan}', r.stderr)
            r = run(dsrun, 'selftest', plan, '--json')
            c.check(r.returncode == 0, f'selftest {plan}', r.stdout + r.stderr)
            got = outcomes(r.stdout)
            c.check(got.get('golden sequences') == golden(name)
                    and sum(k.startswith('kernel ') for k in got) >= 5
                    and got.get('manifest.json') == 'passed', plan, got)


def check_two_ranks(c, dscompile, dsrun):
    """Ranks that dsrun starts itself give the ids of the whole model."""
    for name in sorted(os.listdir(MODELS)):
        plan = f'{name}-tp2'
        r = run(dscompile, os.path.join(MODELS, name), '--tp', 2, '-o', plan,
                '-q')
        c.check(r.returncode == 0, f'compile {plan}', r.stderr)
        r = run(dsrun, 'selftest', plan, '--json')
        c.check(r.returncode == 0, f'selftest {plan}', r.stdout + r.stderr)
        got = outcomes(r.stdout)
        c.check(got.get('golden sequences') == golden(name)
                and got.get('rank_0001.weights') == 'passed'
                and got.get('steps') == 'skipped', plan, got)


def check_ranks_and_text(c, dscompile, dsrun):
    r = run(sys.executable, os.path.join(TOP, 'tools',
                                         'make_random_checkpoint.py'), 'source')
    c.check(r.returncode == 0, 'make_random_checkpoint', r.stderr)
    run(dscompile, 'source', '--tp', 3, '--dtype', 'fp32', '-o', 'three')
    r = run(dsrun, 'selftest', 'three')
    c.check(r.returncode == 0 and 'passed   golden sequences' in r.stdout
            and 'rank_0002.weights' in r.stdout and '\033' not in r.stdout,
            'three ranks', r.stdout + r.stderr)
    c.check(' tokenizer ' in r.stdout and 'FAILED' not in r.stdout,
            'tokenizer', r.stdout)
    # The same sequences whatever the cut: they are of the whole model.
    run(dscompile, 'source', '--dtype', 'fp32', '-o', 'one')
    r = run(dsrun, 'selftest', 'one', '--max-step-tokens', 5, '--threads', 2)
    c.check(r.returncode == 0, 'one rank, small steps', r.stdout + r.stderr)
    # Weights that are made up where they are needed.
    r = run(dscompile, 'source', '--random-weights', 3, '-o', 'made')
    c.check(r.returncode == 0, 'compile --random-weights', r.stderr)
    r = run(dsrun, 'selftest', 'made', '--json')
    c.check(r.returncode == 0
            and outcomes(r.stdout)['golden sequences'] == 'passed',
            '--random-weights', r.stdout + r.stderr)
    run(dscompile, 'source', '--selftest', 'none', '-o', 'bare')
    r = run(dsrun, 'selftest', 'bare', '--json')
    c.check(r.returncode == 0
            and outcomes(r.stdout)['golden sequences'] == 'skipped',
            '--selftest none', r.stdout + r.stderr)


def check_wrong_steps(c, dscompile, dsrun):
    """A plan whose steps are not its model's: what the golden ids are for."""
    case = os.path.join(MODELS, 'qwen2')
    run(dscompile, case, '-o', 'right', '--dump-ir', 'dumps')
    dump = 'dumps/05.fuse-epilogues.ir'
    with open(dump) as f:
        text = f.read()
    c.check('kind=silu' in text, 'an activation to change', text)
    with open(dump, 'w') as f:
        f.write(text.replace('kind=silu', 'kind=relu'))
    r = run(dscompile, case, '-o', 'wrong', '--start-from', dump)
    c.check(r.returncode == 0, 'compile an edited dump', r.stderr)
    r = run(dsrun, 'selftest', 'wrong')
    c.check(r.returncode == 1 and 'FAILED   golden sequences' in r.stdout
            and 'the reference has' in r.stderr
            and r.stdout.count('FAILED') == 1, 'wrong steps', r.stdout + r.stderr)


def change_golden_id(plan):
    test = plan.table(plan.root, 17, 0)
    ids = plan.vector(test, 1)
    plan.put_i32(ids, plan.i32(ids) ^ 1)


def change_tokenizer_text(plan):
    """A text of the tokenizer's own that stands for other ids then."""
    at = plan.find(b'Hello, world!', plan.vector(plan.root, 14))
    plan.put(at, b'J')


def change_rendered_text(plan):
    plan.put(plan.text(plan.table(plan.root, 22, 1), 1), b'>')


def change_rendered_ids(plan):
    ids = plan.vector(plan.table(plan.root, 22, 1), 2)
    plan.put_i32(ids, plan.i32(ids) ^ 1)


def change_template(plan):
    plan.put(plan.find(b'assistant', plan.text(plan.root, 15)), b'A')


# What is changed: how, the row that fails, what the line on stderr says.
ALTERED = {
    'a golden id': (change_golden_id, 'golden sequences',
                    'sequence 0: ', 'the reference has'),
    'a tokenizer text': (change_tokenizer_text, 'tokenizer',
                         'Jello, world!'),
    'a rendered conversation': (change_rendered_text, 'chat template',
                                'conversation 1 is rendered as'),
    'ids of a rendered conversation': (
        change_rendered_ids, 'chat template',
        'conversation 1 is encoded as other ids'),
    'the template': (change_template, 'chat template',
                     'conversation 0 is rendered as'),
}


def check_altered(c, dscompile, dsrun):
    """Plans whose digests hold: only the comparison itself can tell."""
    r = run(dscompile, 'source', '--dtype', 'fp32', '-o', 'whole')
    c.check(r.returncode == 0, 'compile', r.stderr)
    for what, (change, row, *words) in ALTERED.items():
        shutil.copytree('whole', 'altered')
        plan = PlanFile('altered/rank_0000.plan')
        change(plan)
        plan.write()
        seal('altered')
        r = run(dsrun, 'selftest', 'altered', '--json')
        got = outcomes(r.stdout)
        c.check(r.returncode in (1, 3)
                and [k for k, v in got.items() if v == 'failed'] == [row],
                f'{what}: exit code and row', (r.returncode, got))
        line = r.stderr.strip()
        c.check('\n' not in line and all(w in line for w in words)
                and 'selftest: 1 of ' in line, f'{what}: its line', line)
        shutil.rmtree('altered')


def check_flips(c, dsrun, dsplan):
    """Bits at random places of every file, the first and the last byte too."""
    generator = random.Random(7)
    for name in sorted(os.listdir('three')):
        path = os.path.join('three', name)
        with open(path, 'rb') as f:
            data = f.read()
        places = {0, 8 * len(data) - 1}
        places |= {generator.randrange(8 * len(data)) for _ in range(FLIPS)}
        missed, crashed = [], []
        for place in sorted(places):
            flipped = bytearray(data)
            flipped[place // 8] ^= 1 << place % 8
            with open(path, 'wb') as f:
                f.write(flipped)
            r = run(dsrun, 'selftest', 'three', '-q')
            if r.returncode == 0:
                missed.append(place)
            elif (r.returncode not in (1, 3, 4)
                  or r.stderr.count('\n') != 1):
                crashed.append((place, r.returncode, r.stderr))
        with open(path, 'wb') as f:
            f.write(data)
        c.check(not missed, f'{name}: flipped bits are noticed', missed)
        c.check(not crashed, f'{name}: flipped bits end in a line', crashed)
    c.check(run(dsrun, 'selftest', 'three').returncode == 0, 'whole again')
    # dsplan verify notices them, too, and nothing else is in a folder.
    with open('three/manifest.json', 'r+b') as f:
        f.seek(5)
        f.write(b'X')
    c.check(run(dsplan, 'verify', 'three').returncode == 3,
            'dsplan verify of a manifest that was changed')


def main():
    dscompile, dsrun, dsplan = (os.path.abspath(p) for p in sys.argv[1:])
    c = Checks()
    with Scratch() as tmp:
        os.chdir(tmp)
        check_passes(c, dscompile, dsrun)
        check_two_ranks(c, dscompile, dsrun)
        check_ranks_and_text(c, dscompile, dsrun)
        check_altered(c, dscompile, dsrun)
        check_wrong_steps(c, dscompile, dsrun)
        check_flips(c, dsrun, dsplan)
        shutil.rmtree('three')
    c.finish()


main()
