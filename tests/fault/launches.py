#!/usr/bin/env python3
"""How a launch ends when its ranks do not belong together.

    launches.py DSCOMPILE DSRUN

Ranks of other plans, flags, numbers or worlds, missing and doubled ones, files
that differ, strangers at the socket. Each end is within 2 s (or --init-timeout),
in one line that names the odd rank, with the documented exit code, and leaves no
process, no socket and no file. Killed ranks are kill_rank.py's and
kill_anytime.py's, stopped ones stopped_rank.py's, signals launch_signals.py's.
"""
import os
import shutil
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from harness import Checks, Scratch  # noqa: E402
from launching import (WORK, Starter, files_below, free_port, make_plans,  # noqa: E402
                       shm_files, torch_variables, wait_until)

SHORT = [*WORK, '-n', '8']


def errors(stderr):
    return [x for x in stderr.splitlines() if x.startswith('dsrun: ')]


class Ranks(Starter):
    def torchrun(self, ranks, numbers=None, world=None):
        """Starts [plan, more flags] for each rank, by default 0, 1, ...; ->
        [(exit code, stdout, lines of stderr that begin with dsrun:)], and how
        long it took."""
        port = free_port()
        numbers = numbers or range(len(ranks))
        begin = time.monotonic()
        started = []
        for r, (plan, *more) in zip(numbers, ranks):
            env = torch_variables(r, world or len(ranks), port)
            started.append(self.start(plan, *SHORT, *more, env=env))
        got = [(code, out, errors(err))
               for code, out, err in self.finish(*started)]
        return got, time.monotonic() - begin


def check_good(t, c):
    good, _ = t.torchrun([['two'], ['two', '--local_rank=1']])
    c.check([g[0] for g in good] == [0, 0] and good[0][1] and not good[1][1],
            'two good ranks: only rank 0 prints', good)
    c.check(good[0][1] == t.run('two', *SHORT)[1],
            'as when dsrun starts them', good)


def check_damage(t, c):
    # A damaged weights file of rank 1: its own exit code, one line in all.
    shutil.copytree('two', 'damaged')
    with open('damaged/rank_0001.weights', 'r+b') as f:
        f.seek(1000)
        byte = f.read(1)
        f.seek(1000)
        f.write(bytes([byte[0] ^ 1]))
    code, out, stderr = t.run('damaged', *SHORT)
    lines = errors(stderr)
    c.check(code == 3 and not out and len(lines) == 1
            and 'rank_0001.weights' in lines[0], 'damaged weights', (code, lines))
    got, _ = t.torchrun([['damaged'], ['damaged']])
    c.check([g[0] for g in got] == [5, 3] and not got[1][2]
            and len(got[0][2]) == 1 and 'rank_0001.weights' in got[0][2][0],
            'damaged weights under torchrun', got)


def check_differing(t, c):
    got, s = t.torchrun([['two'], ['other']])
    c.check([g[0] for g in got] == [4, 4] and 'plan' in got[0][2][0]
            and 'rank 1' in got[0][2][0] and s < 2, 'ranks of two plan sets', got)
    got, s = t.torchrun([['two', '--max-seq-len', 60],
                         ['two', '--max-seq-len', 50]])
    c.check(got[0][0] == 5 and got[1][0] == 4
            and '--max-seq-len 50, rank 0 runs with 60' in got[0][2][0]
            and s < 2, 'ranks with other flags', got)
    # What rank 0 alone decides may differ.
    want = t.run('two', *WORK, '-n', 8)[1]
    port = free_port()
    flags = (['--greedy', '-n', 8], ['--temperature', 2, '--seed', 7, '-n', 99])
    got = t.finish(*(t.start('two', '--prompt-ids', '5,6,7', '--ignore-eos',
                             *flags[r], env=torch_variables(r, 2, port))
                     for r in (0, 1)))
    c.check([g[0] for g in got] == [0, 0] and got[0][1] == want,
            "rank 0's sampling is everyone's", got)


def check_missing_and_doubled(t, c):
    wait = ['--init-timeout', 1]
    got, s = t.torchrun([['four', *wait]] * 3, numbers=[0, 1, 3], world=4)
    c.check([g[0] for g in got] == [5] * 3 and s < 3
            and all('waited 1 s for rank 2 of 4 at ' in g[2][0]
                    and 'ranks present 0,1,3' in g[2][0] for g in got),
            'a rank that never starts', (s, got))
    got, s = t.torchrun([['four', *wait]] * 2, numbers=[1, 2], world=4)
    c.check([g[0] for g in got] == [5] * 2 and s < 5
            and all('waited 1 s for rank 0 of 4' in g[2][0] for g in got),
            'rank 0 never starts', (s, got))
    got, s = t.torchrun([['four']] * 3, numbers=[0, 2, 2], world=4)
    c.check([g[0] for g in got] == [5] * 3 and s < 2
            and all('two processes, pid ' in g[2][0] and 'are rank 2' in g[2][0]
                    for g in got), 'two processes of one rank', (s, got))
    got, s = t.torchrun([['four']] * 2, numbers=[0, 0], world=4)
    c.check([g[0] for g in got] == [5] * 2 and s < 2
            and any('another process is rank 0' in g[2][0] for g in got)
            and any('are rank 0' in g[2][0] for g in got),
            'two processes of rank 0', (s, got))


def check_stranger(t, c):
    """One that connects and sends junk is dropped."""
    port = free_port()
    first = t.start('two', *SHORT, env=torch_variables(0, 2, port))

    def sockets():
        return [x for x in files_below(t.runtime_dir) if x.endswith('.sock')]
    c.check(wait_until(lambda: len(sockets()) == 1, 10), 'rank 0 listens')
    c.check(os.stat(sockets()[0]).st_mode & 0o077 == 0
            and os.stat(os.path.dirname(sockets()[0])).st_mode & 0o077 == 0,
            'at a path of its own')
    for junk in (b'', b'x', b'GET / HTTP/1.1\r\n\r\n', b'DSHELLO\0' + b'\xff' * 150,
                 b'\0' * 100000):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.connect(sockets()[0])
            try:
                s.send(junk)
            except OSError:
                pass  # too long for a packet
    silent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    silent.connect(sockets()[0])
    got = t.finish(first, t.start('two', *SHORT,
                                  env=torch_variables(1, 2, port)))
    silent.close()
    c.check([g[0] for g in got] == [0, 0] and got[0][1], 'strangers', got)


def main():
    dscompile, dsrun = (os.path.realpath(p) for p in sys.argv[1:])
    c = Checks()
    shm = shm_files()
    with Scratch() as tmp:
        tmp = os.path.realpath(tmp)
        os.chdir(tmp)
        make_plans(dscompile, c, {
            'two': ['--tp', 2], 'four': ['--tp', 4],
            'other': ['--tp', 2, '--dtype', 'fp16']})
        t = Ranks(dsrun, tmp)
        check_good(t, c)
        check_damage(t, c)
        check_differing(t, c)
        check_missing_and_doubled(t, c)
        check_stranger(t, c)
        c.check(not files_below(t.runtime_dir) and not t.ranks()
                and shm_files() <= shm,
                'nothing is left behind', files_below(t.runtime_dir))
    c.finish()


main()
