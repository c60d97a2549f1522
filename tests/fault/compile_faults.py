#!/usr/bin/env python3
"""A compile that is killed, interrupted or out of disk leaves nothing.

    compile_faults.py DSCOMPILE [ROUNDS]

Kills at random moments, with and without a plan of that name already there;
fills a small file system where one can be mounted.
"""
import os
import random
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from harness import CASES, TOP, Checks, Scratch, run  # noqa: E402

SOURCE = os.path.join(CASES, 'models', 'gpt2')


def contents(folder):
    return {n: open(os.path.join(folder, n), 'rb').read()
            for n in sorted(os.listdir(folder))}


def main():
    dscompile = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    c = Checks()
    with Scratch() as tmp:
        whole = os.path.join(tmp, 'whole')
        begin = time.time()
        r = run(dscompile, SOURCE, '--tp', 2, '-o', whole)
        duration = time.time() - begin
        c.check(r.returncode == 0, 'compile', r.stderr)
        want = contents(whole)
        rng = random.Random(7)
        for i in range(rounds):
            out_dir = os.path.join(tmp, f'round{i}')
            os.mkdir(out_dir)
            plan = os.path.join(out_dir, 'plan')
            replace = i % 4 == 3
            if replace:
                shutil.copytree(whole, plan)
            how = signal.SIGINT if i % 2 else signal.SIGKILL
            p = subprocess.Popen(
                [dscompile, SOURCE, '--tp', '2', '-o', plan, '--force', '-q'],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL)
            time.sleep(rng.random() * duration * 1.2)
            p.send_signal(how)
            p.wait()
            left = os.listdir(out_dir)
            what = f'round {i}, {how.name}, rc {p.returncode}'
            if os.path.isdir(plan):
                c.check(contents(plan) == want, what, 'a plan that is not whole')
                left.remove('plan')
            else:
                c.check(not replace, what, 'the old plan is gone')
            # A kill between linking and renaming may leave the finished
            # folder under its temporary name: never a part of it in the plan's.
            if how == signal.SIGKILL:
                left = [n for n in left if not n.startswith('.plan.tmp-')]
            c.check(not left, what, f'left behind: {left}')
            if how == signal.SIGINT and not os.path.isdir(plan):
                c.check(p.returncode in (130, -signal.SIGINT), what,
                        'exit status')
            shutil.rmtree(out_dir)

        # What a kill in between left goes with the next run; another plan's
        # temporary folder, and one in use, stay.
        import fcntl
        stale = os.path.join(tmp, '.next.tmp-1')
        used = os.path.join(tmp, '.next.tmp-2')
        other = os.path.join(tmp, '.other.tmp-1')
        for folder in (stale, used, other):
            os.mkdir(folder)
            with open(os.path.join(folder, 'rank_0000.plan'), 'w',
                      encoding='utf-8') as f:
                f.write('part')
        fd = os.open(used, os.O_RDONLY)
        fcntl.flock(fd, fcntl.LOCK_EX)
        r = run(dscompile, SOURCE, '-o', os.path.join(tmp, 'next'))
        c.check(r.returncode == 0, 'compile beside leftovers', r.stderr)
        c.check([os.path.exists(p) for p in (stale, used, other)] ==
                [False, True, True], 'leftovers', os.listdir(tmp))
        os.close(fd)

        full = os.path.join(tmp, 'full')
        os.mkdir(full)
        mounted = subprocess.run(
            ['mount', '-t', 'tmpfs', '-o', 'size=256k', 'tmpfs', full],
            stderr=subprocess.DEVNULL, check=False).returncode == 0
        try:
            limits = {}
            if not mounted:  # a limit on file size is the next best thing
                import resource
                limits['preexec_fn'] = lambda: (
                    signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
                    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536)))
            r = run(dscompile, SOURCE, '-o', os.path.join(full, 'plan'),
                    **limits)
            c.check(r.returncode == 1 and 'needs' in r.stderr,
                    'a full disk is said', f'rc {r.returncode}: {r.stderr}')
            c.check(os.listdir(full) == [], 'a full disk', os.listdir(full))
        finally:
            if mounted:
                subprocess.run(['umount', full], check=False)

        for args, says in (
                ([SOURCE, '-o', os.path.join(SOURCE, 'plan')], 'in the source'),
                ([SOURCE, '-o', whole], 'exists'),
                ([SOURCE, '-o', os.path.join(tmp, 'no', 'plan')],
                 'does not exist'),
                ([SOURCE, '-o', tmp, '--force'], 'no manifest.json')):
            r = run(dscompile, *args)
            c.check(r.returncode in (3, 4) and says in r.stderr and
                    len(r.stderr.splitlines()) == 1, f'refused: {says}',
                    f'rc {r.returncode}: {r.stderr}')
        c.check(contents(whole) == want, 'the old plan is untouched')

        # What GPU targets refuse, they refuse before a kernel is compiled.
        large = os.path.join(TOP, 'tests', 'kernels', 'configs',
                             'llama-3.1-8b.json')
        no = os.path.join(tmp, 'refused')
        for args, code, says in (
                ([SOURCE, '--target', 'cpu,CPU'], 4, 'each architecture once'),
                ([SOURCE, '--target', 'h200,sm_90a'], 4, 'is sm_90a, as h200'),
                ([SOURCE, '--target', 'sm_90b'], 2, 'the nearest is sm_90a'),
                ([SOURCE, '--target', 'sm_75'], 4, 'before 8.0'),
                ([SOURCE, '--target', 'cpu,sm_90a', '--dtype', 'int8'], 4,
                 'use --dtype fp32, fp16 or bf16'),
                ([SOURCE, '--target', 'sm_80', '--max-step-tokens', 65536], 4,
                 'take up to 65535'),
                ([large, '--random-weights', 1, '--target', 'l4', '--max-batch',
                  64], 4, 'the card that --target names has 24.15; use more'),
                ([large, '--random-weights', -1], 2, 'found "-1"'),
                ([large, '--random-weights', 1 << 64], 2,
                 'found "18446744073709551616"')):
            r = run(dscompile, *args, '-o', no, '-q')
            c.check(r.returncode == code and says in r.stderr and
                    len(r.stderr.splitlines()) == 1 and not os.path.exists(no),
                    f'refused: {says}', f'rc {r.returncode}: {r.stderr}')

        os.symlink('whole', os.path.join(tmp, 'link'))
        shutil.copytree(whole, os.path.join(tmp, 'more', 'own'))
        shutil.copy(os.path.join(whole, 'manifest.json'),
                    os.path.join(tmp, 'more'))
        for name, says in (('link', 'symbolic link'), ('more', 'no plan alone'),
                           ('x' * 256, '256 bytes')):
            r = run(dscompile, SOURCE, '-o', os.path.join(tmp, name), '--force')
            c.check(r.returncode in (3, 4) and says in r.stderr and
                    len(r.stderr.splitlines()) == 1, f'refused: {says}',
                    f'rc {r.returncode}: {r.stderr}')
        r = run(dscompile, SOURCE, '-o', os.path.join(tmp, 'x' * 255))
        c.check(r.returncode == 0, 'the longest name', r.stderr)
        # What a killed process of the same number may have left: the shell's
        # number is dscompile's after exec.
        r = run('sh', '-c', 'mkdir "$2/.same.tmp-$$" && exec "$0" "$1" -o '
                '"$2/same" --tp 2', dscompile, SOURCE, tmp)
        c.check(r.returncode == 0
                and contents(os.path.join(tmp, 'same')) == want,
                'a leftover of the same process number', r.stderr)
    c.finish()


main()
