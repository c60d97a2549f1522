#!/usr/bin/env python3
"""How a launch ends by signals, and what its ranks do on one terminal.

    launch_signals.py DSCOMPILE DSRUN

A terminal's Ctrl-C, Ctrl-Z and hang-up reach the whole process group; kill
reaches one process. Ranks started by dsrun, and by variables as a launcher's.
"""
import fcntl
import os
import pty
import select
import signal
import sys
import termios
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from harness import Checks, Scratch  # noqa: E402
from launching import (WORK, Starter, files_below, free_port, kill_all,  # noqa: E402
                       make_plans, shm_files, state, torch_variables, wait_until)

LONG = [*WORK, '-n', '50000']


class Terminal:
    """A terminal of its own, a shell of sorts, and the process group that it
    put into the foreground."""

    def __init__(self, t, commands):
        """commands: [(arguments, variables)], all in one process group."""
        self.master, slave = pty.openpty()
        self.text = b''
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            for fd in (0, 1, 2):
                os.dup2(slave, fd)
            os.closerange(3, 64)
            pids = []
            for args, env in commands:
                pid = os.fork()
                if pid == 0:
                    os.setpgid(0, pids[0] if pids else 0)
                    # Not before it is in the foreground.
                    wait_until(lambda: os.tcgetpgrp(0) == os.getpgid(0), 5)
                    os.execve(t.dsrun, [t.dsrun, *map(str, args)],
                              {**t.env, **env})
                pids.append(pid)
                os.setpgid(pid, pids[0])
            os.tcsetpgrp(0, pids[0])
            # A shell tells its jobs that the terminal is gone.
            signal.signal(signal.SIGHUP,
                          lambda *_: os.killpg(pids[0], signal.SIGHUP))
            with open('group', 'w') as f:
                f.write(str(pids[0]))
            codes = [os.waitstatus_to_exitcode(os.waitpid(p, 0)[1])
                     for p in pids]
            with open('codes.part', 'w') as f:
                f.write(' '.join(map(str, codes)))
            os.rename('codes.part', 'codes')
            os._exit(0)
        os.close(slave)
        if os.path.exists('codes'):
            os.remove('codes')

    def read(self, seconds, until=None):
        """Reads what comes, until `until(text)`; -> whether it did."""
        end = time.monotonic() + seconds
        while until is None or not until(self.text):
            left = end - time.monotonic()
            if left <= 0:
                return False
            if select.select([self.master], [], [], min(left, 0.05))[0]:
                try:
                    block = os.read(self.master, 65536)
                except OSError:  # all have closed it
                    return until is None
                if not block:
                    return until is None
                self.text += block
        return True

    def type(self, keys):
        os.write(self.master, keys)

    def codes(self, seconds=3):
        """The exit codes once all have ended, as a string; else None."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not os.path.exists('codes'):
            self.read(0.02)
        if not os.path.exists('codes'):
            return None
        with open('codes') as f:
            return f.read()

    def close(self):
        kill_all([self.pid])
        os.waitpid(self.pid, 0)
        os.close(self.master)


def both_ways(t, plan, args):
    """[(how, commands)]: ranks that dsrun starts, and ranks by variables."""
    port = free_port()
    return [('started here', [([plan, *args], {})]),
            ('by variables', [([plan, *args], torch_variables(r, 2, port))
                              for r in (0, 1)])]


def at_work(terminal):
    """Whether the answer has begun, behind the line of the launch."""
    return terminal.read(30, lambda x: b'plan set' in x
                         and len(x.split(b'plan set', 1)[1]) > 200)


def check_terminal(t, c):
    for how, commands in both_ways(t, 'two', LONG):
        x = Terminal(t, commands)
        c.check(at_work(x), f'{how}: at work', x.text)
        x.type(b'\x03')
        codes = x.codes()
        # Rank 1 of a launcher's is ended by the signal itself.
        c.check(codes in ('130', '130 -2') and b'dsrun: ' not in x.text
                and not t.ranks(), f'{how}: Ctrl-C', (codes, x.text[-300:]))
        x.close()

        x = Terminal(t, commands)
        c.check(at_work(x), f'{how}: at work again', x.text)
        ranks = t.ranks()
        x.type(b'\x1a')
        c.check(wait_until(lambda: all(state(p) == 'T' for p in ranks), 2),
                f'{how}: Ctrl-Z stops all', [state(p) for p in ranks])
        time.sleep(6)  # longer than a stopped rank is waited for
        with open('group') as f:
            os.killpg(int(f.read()), signal.SIGCONT)
        had = len(x.text)
        c.check(x.read(5, lambda text: len(text) > had + 2000)
                and b'lost' not in x.text, f'{how}: and fg goes on',
                x.text[had:had + 300])
        os.close(x.master)
        c.check(wait_until(lambda: not t.ranks(), 3), f'{how}: hang-up',
                t.ranks())
        x.master = os.open('/dev/null', os.O_RDONLY)
        x.close()

    # Two ranks write to one terminal: each line says whose it is.
    for how, commands in both_ways(t, 'two', [*WORK, '-n', '8',
                                              '--report-memory']):
        x = Terminal(t, commands)
        codes = x.codes(20)
        lines = x.text.replace(b'\r', b'').decode().splitlines()
        tables = [i for i in lines if 'memory ' in i and 'planned' in i]
        c.check(set((codes or '-').split()) == {'0'} and sorted(tables)[0].startswith(
            '[rank 1] rank 1 memory') and any(
                i.startswith('rank 0 memory') for i in tables),
                f'{how}: prefixes', (codes, lines))
        ours = sum(i.startswith('[rank 1] ') for i in lines)
        c.check(ours >= 5, f'{how}: on every line', lines)
        x.close()
    # Not where each has a place of its own.
    port = free_port()
    got = t.finish(*(t.start('two', *WORK, '-n', 8, '--report-memory',
                             env=torch_variables(r, 2, port)) for r in (0, 1)))
    c.check('[rank' not in got[0][2] + got[1][2], 'no prefix in a pipe', got)


def check_chat(t, c):
    for how, commands in both_ways(t, 'two', ['--chat', '-n', '40000',
                                              '--ignore-eos', '--greedy']):
        x = Terminal(t, commands)
        c.check(x.read(20, lambda text: text.endswith(b'> ')), f'{how}: prompt',
                x.text)
        x.type(b'hello\n')
        had = len(x.text)
        c.check(x.read(20, lambda text: len(text) > had + 100),
                f'{how}: answers', x.text)
        x.type(b'\x03')
        c.check(x.read(5, lambda text: b'stopped]' in text
                       and text.endswith(b'> ')),
                f'{how}: Ctrl-C stops the answer', x.text[-300:])
        x.type(b'\x03')
        codes = x.codes()
        c.check(codes in ('130', '130 0') and b'dsrun: ' not in x.text
                and not t.ranks(), f'{how}: and at the prompt the program',
                (codes, x.text[-300:]))
        x.close()


def check_kill(t, c):
    for plan in ('one', 'two'):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            p = t.start(plan, *LONG)
            p.stdout.read(4)
            begin = time.monotonic()
            p.send_signal(number)
            code, _, stderr = t.finish(p)[0]
            c.check(code == 128 + number and 'dsrun: ' not in stderr
                    and time.monotonic() - begin < 2 and not t.ranks(),
                    f'{plan}: {number.name}', (code, stderr))
        p = t.start(plan, *LONG, before=['nohup'])
        p.stdout.read(4)
        p.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        c.check(p.poll() is None, f'{plan}: nohup', p.poll())
        p.kill()
        c.check(wait_until(lambda: not t.ranks(), 2), f'{plan}: kill -9',
                t.ranks())
        t.finish(p)
        p = t.start(plan, *LONG)
        p.stdout.read(4)
        p.stdout.close()
        p.wait(timeout=30)
        stderr = p.stderr.read()
        p.stderr.close()
        c.check(p.returncode == 141 and 'dsrun: ' not in stderr
                and not t.ranks(), f'{plan}: a reader that goes away',
                (p.returncode, stderr))
    # A launcher that tells rank 0 first: the others end in silence, too.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        port = free_port()
        zero, one = (t.start('two', *LONG, env=torch_variables(r, 2, port))
                     for r in (0, 1))
        zero.stdout.read(4)
        zero.send_signal(number)
        got = t.finish(zero, one)
        c.check([g[0] for g in got] == [128 + number, 130]
                and 'dsrun: ' not in got[0][2] + got[1][2],
                f'rank 0 of a launcher: {number.name}', got)
    # A signal to another rank alone is a failure of all.
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        p = t.start('two', *LONG)
        p.stdout.read(4)
        victim = [r for r in t.ranks() if r != p.pid][1]
        os.kill(victim, number)
        code, _, stderr = t.finish(p)[0]
        c.check(code == 5 and f'rank 1 (pid {victim})' in stderr
                and f'signal {number.value} ' in stderr and not t.ranks(),
                f'rank 1 alone: {number.name}', (code, stderr))


def main():
    dscompile, dsrun = (os.path.realpath(p) for p in sys.argv[1:])
    c = Checks()
    shm = shm_files()
    with Scratch() as tmp:
        tmp = os.path.realpath(tmp)
        os.chdir(tmp)
        make_plans(dscompile, c, {'one': [], 'two': ['--tp', 2]})
        t = Starter(dsrun, tmp)
        check_terminal(t, c)
        check_chat(t, c)
        check_kill(t, c)
        c.check(not files_below(t.runtime_dir)
                and shm_files() <= shm, 'nothing is left',
                files_below(t.runtime_dir))
    c.finish()


main()
