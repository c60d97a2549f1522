#!/usr/bin/env python3
"""kill -9 of any process of a launch at any moment leaves nothing behind.

    kill_anytime.py DSCOMPILE DSRUN [--rounds N] [--seed S]

Launches by dsrun itself, by a small launcher that ends all ranks when one fails
(as torchrun and deepspeed do) and by Debian's mpirun. A moment is anything from
the first process's start to well into the answer; but a launcher is not killed
between its last rank's start and the first words of rank 0, for a process whose
parent ended before its first instruction can't know it. Checked: all processes are
gone in time, the launch does not end well, no file is left in /dev/shm, and no
socket but one whose rank 0 was killed before another rank had come to it, which
the next launch takes away.
"""
import argparse
import os
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from harness import Checks, Scratch  # noqa: E402
from launching import (WORK, Starter, files_below, free_port, kill_all,  # noqa: E402
                       make_plans, processes, shm_files, torch_variables,
                       wait_until)

DEADLINE_S = 2.5
# A launcher that is killed while it still starts ranks leaves some that wait
# for the others: --init-timeout, and 2 s to hear why.
JOIN_S = 2
WORLD = 3
LONG = ['three', *WORK, '-n', '50000', '--init-timeout', str(JOIN_S)]


def small_launcher(dsrun):
    """Runs as a process of its own: starts the ranks; when one fails, ends the
    others; the exit code is that one's."""
    port = free_port()
    ranks = []
    for r in range(WORLD):
        env = {**os.environ, **torch_variables(r, WORLD, port),
               'TORCHELASTIC_RUN_ID': 'x'}
        ranks.append(subprocess.Popen([dsrun, *LONG], env=env))
    while all(p.poll() is None for p in ranks):
        time.sleep(0.01)
    code = next(p.returncode for p in ranks if p.returncode is not None)
    for p in ranks:
        p.terminate()
    for p in ranks:
        p.wait()
    sys.exit(code if code >= 0 else 128 - code)


def start(t, how, mark):
    command = {
        'dsrun': [t.dsrun, *LONG],
        'launcher': [sys.executable, os.path.abspath(__file__), '--launch',
                     t.dsrun, ''],
        'mpirun': ['mpirun', '--allow-run-as-root', '--oversubscribe', '-n',
                   str(WORLD), t.dsrun, *LONG],
    }[how]
    with open('stderr', 'w') as stderr:
        return subprocess.Popen(command, env={**t.env, 'KILL_ANYTIME': mark},
                                stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=stderr)


def marked(dsrun, mark):
    """The processes of one launch; those of another may be on their way."""
    out = []
    for pid in processes(dsrun):
        try:
            with open(f'/proc/{pid}/environ', 'rb') as f:
                if f'KILL_ANYTIME={mark}'.encode() in f.read().split(b'\0'):
                    out.append(pid)
        except OSError:
            pass
    return out


def stderr():
    with open('stderr') as f:
        return f.read()


def check(t, c, how, mark, rng):
    launch = start(t, how, mark)
    # Half of them while the ranks start and meet.
    time.sleep(rng.uniform(0, rng.choice((0.03, 0.5))))
    everyone = sorted({launch.pid, *marked(t.dsrun, mark)})
    victim = rng.choice(everyone)
    if how != 'dsrun' and victim == launch.pid and len(everyone) > 1:
        wait_until(lambda: 'world ' in stderr(), 10)
        everyone = sorted({launch.pid, *marked(t.dsrun, mark)})
    try:
        os.kill(victim, signal.SIGKILL)
    except ProcessLookupError:
        pass
    begin = time.monotonic()
    early = how != 'dsrun' and len(everyone) < 1 + WORLD
    gone = wait_until(lambda: launch.poll() is not None
                      and not marked(t.dsrun, mark),
                      DEADLINE_S + (JOIN_S + 2 if early else 0))
    took = time.monotonic() - begin
    what = f'{how}: process {everyone.index(victim)} of {len(everyone)}'
    left = marked(t.dsrun, mark)
    c.check(gone and launch.returncode != 0, what,
            (took, launch.returncode, left, stderr()))
    kill_all(left)
    launch.kill()
    launch.wait()
    if how == 'dsrun':
        c.check(not files_below(t.runtime_dir), f'{what}: no file',
                files_below(t.runtime_dir))
    return took


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--launch', action='store_true')
    parser.add_argument('dscompile')
    parser.add_argument('dsrun')
    parser.add_argument('--rounds', type=int, default=20)
    parser.add_argument('--seed', type=int, default=1)
    args = parser.parse_args()
    if args.launch:
        small_launcher(args.dscompile)
    dscompile, dsrun = map(os.path.realpath, (args.dscompile, args.dsrun))
    c = Checks()
    shm = shm_files()
    with Scratch() as tmp:
        tmp = os.path.realpath(tmp)
        os.chdir(tmp)
        make_plans(dscompile, c, {'three': ['--tp', WORLD]})
        t = Starter(dsrun, tmp)
        rng = random.Random(args.seed)
        for how, rounds in (('dsrun', args.rounds), ('launcher', args.rounds),
                            ('mpirun', args.rounds // 3)):
            longest = max(check(t, c, how, f'{how}{i}', rng)
                          for i in range(rounds))
            print(f'{how}: {rounds} launches, the longest end took '
                  f'{longest:.2f} s')
        c.check(wait_until(lambda: not t.ranks(), JOIN_S + 4),
                'no process is left', t.ranks())
        port = free_port()
        got = t.finish(*(t.start('three', *WORK, '-n', 4,
                                 env=torch_variables(r, WORLD, port))
                         for r in range(WORLD)))
        c.check(shm_files() <= shm, '/dev/shm', shm_files() - shm)
        c.check([g[0] for g in got] == [0] * WORLD
                and not files_below(t.runtime_dir), 'sockets of the killed',
                files_below(t.runtime_dir))
    c.finish()


main()
