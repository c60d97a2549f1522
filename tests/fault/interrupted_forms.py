#!/usr/bin/env python3
"""Compiling each container on a terminal: the line of progress has bytes, rate
and time left, and Ctrl-C at any moment leaves a whole plan or nothing.

    interrupted_forms.py DSCOMPILE [ROUNDS]
"""
import os
import pty
import random
import re
import select
import shutil
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, '..', 'support'),
                os.path.join(HERE, '..', '..', 'tools')]
import make_large_checkpoint as large  # noqa: E402
from harness import Checks, Scratch, run  # noqa: E402

large.VOCAB = 512  # a quarter of a gigabyte is enough
LINE = re.compile(r'packed and hashed [0-9.]+ [kMG]?B of ([0-9.]+) ([kMG])B, '
                  r'[0-9.]+ (?:[kMG]B|bytes)/s, [0-9]+ s left')


class Terminal:
    """A process whose stdin and stderr are a terminal of its own."""

    def __init__(self, command):
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM='xterm', COLUMNS='120')
            os.environ.pop('NO_COLOR', None)
            os.execv(command[0], command)
        self.text = ''

    def read(self, seconds):
        """What is written meanwhile. -> False at the end."""
        until = time.monotonic() + seconds
        while True:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.master], [], [], left)[0]:
                return True
            try:
                data = os.read(self.master, 65536)
            except OSError:
                data = b''
            if not data:
                return False
            self.text += data.decode(errors='replace')

    def finish(self):
        """-> the exit status, negative for a signal."""
        while self.read(60):
            pass
        os.close(self.master)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def check_progress(c, form, command, size):
    t = Terminal(command)
    # Stopped now and then, so that a fast machine has time to show it.
    while t.read(0.1):
        try:
            os.kill(t.pid, signal.SIGSTOP)
            time.sleep(0.3)
            os.kill(t.pid, signal.SIGCONT)
        except ProcessLookupError:
            break
    code = t.finish()
    lines = list(LINE.finditer(t.text))
    c.check(code == 0 and lines, f'{form}: a line of progress',
            f'rc {code}: {t.text!r}')
    for m in lines[:1]:
        total = float(m[1]) * {'k': 1e3, 'M': 1e6, 'G': 1e9}[m[2]]
        c.check(size < total < 2.1 * size, f'{form}: total', f'{total} {size}')
    last = t.text[t.text.rfind('packed and hashed'):]
    c.check('\r\x1b[K' in last, f'{form}: the line is taken away', repr(last))


def check_interrupt(c, form, command, plan, seconds):
    t = Terminal(command)
    if t.read(seconds):
        os.write(t.master, b'\x03')
    code = t.finish()
    parent = os.path.dirname(plan)
    left = os.listdir(parent)
    what = f'{form}: Ctrl-C after {seconds:.2f} s'
    c.check(code in (0, 130, -signal.SIGINT), what, f'rc {code}: {t.text!r}')
    if code == 130:
        c.check('interrupted; nothing was written' in t.text, what, t.text)
    if code == 0:
        c.check(left == ['plan'] and 'manifest.json' in os.listdir(plan), what,
                left)
        shutil.rmtree(plan)
    else:
        c.check(left == [], what, left)
    return code == 130


def main():
    dscompile = os.path.abspath(sys.argv[1])
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    rng, c = random.Random(5), Checks()
    for form in large.FORMS:
        with Scratch() as scratch:
            source, out = (os.path.join(scratch, n) for n in ('source', 'out'))
            large.write(source, form, 0.09)
            size = sum(os.path.getsize(os.path.join(at, n))
                       for at, _, names in os.walk(source) for n in names)
            os.mkdir(out)
            plan = os.path.join(out, 'plan')
            command = [dscompile, source, '--tp', '4', '--dtype', 'bf16',
                       '--selftest', 'none', '-o', plan]
            begin = time.monotonic()
            r = run(*command)
            seconds = time.monotonic() - begin
            # A pipe gets a line every ten seconds and no codes of terminals.
            c.check(r.returncode == 0 and '\r' not in r.stderr
                    and '\x1b' not in r.stderr, f'{form}: pipe', r.stderr)
            shutil.rmtree(plan)
            check_progress(c, form, command, size)
            shutil.rmtree(plan, ignore_errors=True)
            hit = 0
            for i in range(20 * rounds):
                if hit == rounds:
                    break
                hit += check_interrupt(c, form, command, plan,
                                       rng.random() * seconds)
            c.check(hit == rounds, f'{form}: moments met', hit)
    c.finish()


main()
