#!/usr/bin/env python3
"""How a launch ends when a rank can't start, differs, or is told to stop.

    launches.py DSCOMPILE DSRUN

Ranks started by dsrun and by torchrun's variables; killed ranks are
kill_rank.py's. Each end is within 2 s, in words, with the documented exit code,
and leaves no process, no socket and no file.
"""
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from harness import TOP, Checks, Scratch, run  # noqa: E402

WORK = ['--prompt-ids', '5,6,7', '--greedy', '--ignore-eos']


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


class Launches:
    def __init__(self, dsrun, tmp):
        self.dsrun = dsrun
        os.mkdir('run')
        self.env = {k: v for k, v in os.environ.items()
                    if not k.startswith(('RANK', 'WORLD_SIZE', 'LOCAL_RANK',
                                         'MASTER_', 'OMPI_', 'PMI_', 'SLURM_'))}
        self.env['XDG_RUNTIME_DIR'] = os.path.join(tmp, 'run')

    def start(self, *args, env=None):
        return subprocess.Popen(
            [self.dsrun, *map(str, args)], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**self.env, **(env or {})})

    def torchrun(self, ranks):
        """Starts [plan, more flags] for each rank; -> [(exit code, stdout,
        lines of stderr that begin with dsrun:)]."""
        port = str(free_port())
        started = [
            self.start(plan, *WORK, '-n', 8, *more, env={
                'RANK': str(r), 'WORLD_SIZE': str(len(ranks)),
                'LOCAL_RANK': str(r), 'MASTER_ADDR': '127.0.0.1',
                'MASTER_PORT': port})
            for r, (plan, *more) in enumerate(ranks)]
        out = []
        for p in started:
            stdout, stderr = p.communicate(timeout=30)
            out.append((p.returncode, stdout,
                        [x for x in stderr.splitlines()
                         if x.startswith('dsrun: ')]))
        return out

    def spawned(self, plan, *more):
        p = self.start(plan, *WORK, '-n', 8, *more)
        stdout, stderr = p.communicate(timeout=30)
        return p.returncode, stdout, [x for x in stderr.splitlines()
                                      if x.startswith('dsrun: ')]

    def processes(self):
        """How many of our program run."""
        n = 0
        for name in os.listdir('/proc'):
            try:
                # Of this test's folder: other tests run beside it.
                n += (name.isdigit()
                      and os.readlink(f'/proc/{name}/exe') == self.dsrun
                      and os.readlink(f'/proc/{name}/cwd') == os.getcwd())
            except OSError:
                pass
        return n


def check_differing_ranks(t, c):
    good = t.torchrun([['two'], ['two', '--local_rank=1']])
    c.check([g[0] for g in good] == [0, 0] and good[0][1] and not good[1][1],
            'two good ranks: only rank 0 prints', good)
    c.check(good[0][1] == t.spawned('two')[1], 'as when dsrun starts them', good)

    # A damaged weights file of rank 1: its own exit code, one line in all.
    shutil.copytree('two', 'damaged')
    with open('damaged/rank_0001.weights', 'r+b') as f:
        f.seek(1000)
        byte = f.read(1)
        f.seek(1000)
        f.write(bytes([byte[0] ^ 1]))
    code, out, lines = t.spawned('damaged')
    c.check(code == 3 and not out and len(lines) == 1
            and 'rank_0001.weights' in lines[0], 'damaged weights', (code, lines))
    got = t.torchrun([['damaged'], ['damaged']])
    c.check([g[0] for g in got] == [5, 3] and not got[1][2]
            and len(got[0][2]) == 1 and 'rank_0001.weights' in got[0][2][0],
            'damaged weights under torchrun', got)

    got = t.torchrun([['two'], ['other']])
    c.check([g[0] for g in got] == [4, 4] and 'plan' in got[0][2][0]
            and 'rank 1' in got[0][2][0], 'ranks of two plan sets', got)
    got = t.torchrun([['two', '--max-seq-len', 60],
                      ['two', '--max-seq-len', 50]])
    c.check(got[0][0] != 0 and got[1][0] == 4
            and '--max-seq-len 50, rank 0 runs with 60' in got[0][2][0],
            'ranks with other flags', got)


def check_stops(t, c):
    for plan in ('one', 'two'):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            p = t.start(plan, *WORK, '-n', 1900)
            p.stdout.read(4)
            begin = time.monotonic()
            p.send_signal(number)
            stderr = p.communicate(timeout=30)[1]
            c.check(p.returncode == code and 'dsrun: ' not in stderr
                    and time.monotonic() - begin < 2,
                    f'{plan}: {number.name}', (p.returncode, stderr))
        p = t.start(plan, *WORK, '-n', 1900)
        p.stdout.read(4)
        p.stdout.close()
        p.wait(timeout=30)
        stderr = p.stderr.read()
        p.stderr.close()
        c.check(p.returncode == 1 and 'stdout: Broken pipe' in stderr,
                f'{plan}: a reader that goes away', (p.returncode, stderr))
        p = t.start(plan, *WORK, '-n', 1900)
        p.stdout.read(4)
        p.kill()
        p.communicate(timeout=30)
        until = time.monotonic() + 2
        while t.processes() and time.monotonic() < until:
            time.sleep(0.01)
        c.check(t.processes() == 0, f'{plan}: no rank outlives kill -9')


def main():
    dscompile, dsrun = (os.path.realpath(p) for p in sys.argv[1:])
    c = Checks()
    shm = set(os.listdir('/dev/shm'))
    with Scratch() as tmp:
        os.chdir(tmp)
        maker = os.path.join(TOP, 'tools', 'make_random_checkpoint.py')
        c.check(run(sys.executable, maker, 'source').returncode == 0, 'source')
        for plan, flags in (('one', []), ('two', ['--tp', 2]),
                            ('other', ['--tp', 2, '--dtype', 'fp16'])):
            r = run(dscompile, 'source', '--max-seq-len', 2000, '-o', plan,
                    *flags)
            c.check(r.returncode == 0, f'dscompile {flags}', r.stderr)
        t = Launches(dsrun, tmp)
        check_differing_ranks(t, c)
        check_stops(t, c)
        left = [os.path.join(at, n) for at, _, ns in os.walk('run') for n in ns]
        c.check(not left and set(os.listdir('/dev/shm')) <= shm,
                'nothing is left behind', left)
    c.finish()


main()
