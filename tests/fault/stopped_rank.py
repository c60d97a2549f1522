#!/usr/bin/env python3
"""A rank that is stopped is lost after 5 s; one that is slow is waited for.

    stopped_rank.py DSCOMPILE DSRUN

SIGSTOP keeps the sockets open, so only the missing heartbeat tells. Ranks
started by dsrun, and by variables. All launches of a kind run side by side,
since they spend their time waiting.
"""
import filecmp
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from harness import Checks, Scratch  # noqa: E402
from launching import (WORK, Starter, files_below, free_port, make_plans,  # noqa: E402
                       state, torch_variables, wait_until)

DEADLINE_S = 7.0


class Launch:
    """Two ranks at work: processes started here, and the ranks' pids. The
    answer goes to a file."""

    count = 0

    def __init__(self, t, how, new_tokens):
        self.how = how
        Launch.count += 1
        self.answer = f'answer{Launch.count}'
        before = set(t.ranks())
        args = ['two', *WORK, '-n', new_tokens]
        with open(self.answer, 'wb') as out:
            if how == 'started here':
                self.started = [t.start(*args, stdout=out)]
            else:
                port = free_port()
                self.started = [
                    t.start(*args, env=torch_variables(r, 2, port), stdout=out)
                    for r in (0, 1)]
        if not wait_until(lambda: os.path.getsize(self.answer) > 4, 30):
            sys.exit(f'{how}: no answer')
        self.ranks = [p for p in t.ranks() if p not in before]
        if how == 'started here':
            self.ranks.remove(self.started[0].pid)
        else:
            self.ranks = [p.pid for p in self.started]

    def ended(self):
        return all(p.poll() is not None for p in self.started)


def errors(launch, got):
    return [x for g in got for x in g[2].splitlines()
            if x.startswith('dsrun: ')]


def check_stopped(t, c):
    launches = [(Launch(t, how, 50000), victim)
                for how in ('started here', 'by variables')
                for victim in (0, 1)]
    begin = time.monotonic()
    for x, victim in launches:
        os.kill(x.ranks[victim], signal.SIGSTOP)
    took = {}
    wait_until(lambda: all([x.ended() and took.setdefault(
        id(x), time.monotonic() - begin) for x, _ in launches]), 20)
    for x, victim in launches:
        what = f'{x.how}: rank {victim} is stopped'
        pid = x.ranks[victim]
        s = took.get(id(x))
        if not c.check(s is not None and 4 < s < DEADLINE_S, what, s):
            continue
        got = t.finish(*x.started)
        lines = errors(x, got)
        c.check(len(lines) == 1 and f'rank {victim} (pid {pid}) was lost at step '
                in lines[0] and 'no heartbeat for 5.0 s' in lines[0],
                f'{what}: one line', got)
        codes = [p.returncode for p in x.started]
        want = [5] if x.how == 'started here' else [5, 5]
        if len(want) == 2:
            want[victim] = -signal.SIGKILL  # or it would stay for ever
        c.check(codes == want and state(pid) == 'Z', f'{what}: exit codes', codes)


def check_slow(t, c):
    """A step of 3 s: one warning that names rank and op, and the same answer."""
    n = 4000
    with open('want', 'wb') as out:
        t.run('two', *WORK, '-n', n, stdout=out)
    launches = [Launch(t, how, n) for how in ('started here', 'by variables')]
    for x in launches:
        os.kill(x.ranks[1], signal.SIGSTOP)
    time.sleep(3)
    for x in launches:
        os.kill(x.ranks[1], signal.SIGCONT)
    for x in launches:
        got = t.finish(*x.started)
        warnings = [line for g in got for line in g[2].splitlines()
                    if line.startswith('warning: ')]
        c.check([p.returncode for p in x.started] == [0] * len(got)
                and filecmp.cmp(x.answer, 'want', shallow=False),
                f'{x.how}: a slow rank changes nothing', got[0][2])
        c.check(len(warnings) == 1
                and f'rank 1 (pid {x.ranks[1]}) is slow' in warnings[0]
                and 'at step ' in warnings[0] and ' of ' in warnings[0],
                f'{x.how}: one warning', got)


def main():
    dscompile, dsrun = (os.path.realpath(p) for p in sys.argv[1:])
    c = Checks()
    with Scratch() as tmp:
        tmp = os.path.realpath(tmp)
        os.chdir(tmp)
        make_plans(dscompile, c, {'two': ['--tp', 2]})
        t = Starter(dsrun, tmp)
        check_stopped(t, c)
        check_slow(t, c)
        c.check(not files_below(t.runtime_dir) and not t.ranks(),
                'nothing is left', files_below(t.runtime_dir))
    c.finish()


main()
