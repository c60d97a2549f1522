#!/usr/bin/env python3
"""A reshard or an export that is killed, interrupted or out of disk leaves a
whole folder or none.

    dsplan_faults.py DSCOMPILE DSPLAN FAIL_FILES [ROUNDS]

Kills before every single call that changes the file system; without nameless
files the disk full at every such call (FAIL_FILES, fail_files.cc); then kills
and interruptions at random moments.
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
from harness import TOP, Checks, Scratch, run  # noqa: E402


def contents(folder):
    return {os.path.relpath(os.path.join(at, n), folder):
            open(os.path.join(at, n), 'rb').read()
            for at, _, names in os.walk(folder) for n in names}


class Verb:
    def __init__(self, c, name, command, library):
        self.c, self.name, self.command = c, name, command
        self.preload = {**os.environ, 'LD_PRELOAD': library,
                        'ASAN_OPTIONS': 'verify_asan_link_order=0'}
        r = run(*command, 'whole')
        c.check(r.returncode == 0, name, r.stderr)
        os.rename('whole', f'{name}.whole')
        self.whole = contents(f'{name}.whole')

    def fresh(self):
        shutil.rmtree('round', ignore_errors=True)
        os.mkdir('round')
        return 'round/out'

    def judge(self, what, code, killed):
        what = f'{self.name}, {what}'
        out = 'round/out'
        found = contents(out) if os.path.isdir(out) else None
        self.c.check(found in (self.whole, None)
                     and (killed or (code == 0) == (found is not None)), what,
                     f'exit {code}, {found and sorted(found)}')
        left = [n for n in os.listdir('round') if n != 'out']
        if killed:
            self.c.check(all(n.startswith('.out.tmp-') or n == '.out.lock'
                             for n in left), what, f'left: {left}')
            if found is None:
                r = run(*self.command, out)
                left = [n for n in os.listdir('round') if n != 'out']
                self.c.check(r.returncode == 0 and contents(out) == self.whole,
                             f'{what}, then the next', r.stderr)
            else:
                return
        self.c.check(not left, what, f'left behind: {left}')

    def every_call(self, how, plain):
        env = {**self.preload, 'FAIL_COUNT': os.path.abspath('count')}
        if plain:
            env['FAIL_PLAIN'] = '1'
        r = run(*self.command, self.fresh(), env=env)
        self.c.check(r.returncode == 0, f'{self.name}, counting', r.stderr)
        with open('count', encoding='utf-8') as f:
            calls = int(f.read())
        self.c.check(calls > 10, f'{self.name}: calls', calls)
        env.pop('FAIL_COUNT')
        for n in range(1, calls + 1):
            r = run(*self.command, self.fresh(),
                    env={**env, 'FAIL_AT': str(n), 'FAIL_HOW': how})
            said = 'the plan is made' in r.stderr  # but for the last sync
            self.judge(f'{how} at call {n}{" of named files" if plain else ""}',
                       0 if said else r.returncode, how == 'kill')

    def random_moments(self, rounds):
        begin = time.time()
        run(*self.command, self.fresh())
        duration = time.time() - begin
        rng = random.Random(7)
        for i in range(rounds):
            how = signal.SIGINT if i % 2 else signal.SIGKILL
            p = subprocess.Popen([*self.command, self.fresh()],
                                 stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
            time.sleep(rng.random() * duration * 1.2)
            p.send_signal(how)
            p.wait()
            self.judge(f'random moment {i}, {how.name}', p.returncode,
                       p.returncode < 0)
            self.c.check(p.returncode in (0, 130, -how),
                         f'{self.name}, random moment {i}', p.returncode)


def main():
    dscompile, dsplan, library = (os.path.abspath(p) for p in sys.argv[1:4])
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 20
    c = Checks()
    with Scratch() as tmp:
        os.chdir(tmp)
        run(sys.executable, os.path.join(TOP, 'tools',
                                         'make_random_checkpoint.py'), 'model',
            '--layers', 1, '--hidden', 48)
        # A folder in the folder that is written.
        os.mkdir('model/additional_chat_templates')
        with open('model/additional_chat_templates/brief.jinja', 'w',
                  encoding='utf-8') as f:
            f.write('{{ messages[0].content }}')
        r = run(dscompile, 'model', '--tp', 2, '-o', 'plan')
        c.check(r.returncode == 0, 'compile', r.stderr)
        for verb in (Verb(c, 'reshard', [dsplan, 'reshard', 'plan', '--tp', '3',
                                         '-q', '-o'], library),
                     Verb(c, 'export', [dsplan, 'export', 'plan', '-q',
                                        '--max-shard-size', '40000', '-o'],
                          library)):
            verb.every_call('kill', plain=False)
            verb.every_call('full', plain=True)
            verb.random_moments(rounds)
        c.check('additional_chat_templates/brief.jinja' in contents(
            'export.whole'), 'a folder in the folder')
        os.chdir('/')
    c.finish()


main()
