#!/usr/bin/env python3
"""What dsplan shows: text, JSON, a graph that graphviz draws, a page that a
browser could open without a network, and what sets two plans apart.

    dsplan_commands.py DSCOMPILE DSPLAN
"""
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from harness import CASES, Checks, Scratch, run  # noqa: E402

CASE = os.path.join(CASES, 'models', 'qwen2')
EMPTY = {'meta', 'br'}


class Page(html.parser.HTMLParser):
    """Whether tags are closed in order, and what a page refers to."""

    def __init__(self):
        super().__init__()
        self.open, self.wrong, self.tags, self.links = [], [], {}, []

    def handle_starttag(self, tag, attrs):
        self.tags[tag] = self.tags.get(tag, 0) + 1
        for name, value in attrs:
            if name.startswith('on') or name in ('src', 'srcset', 'action'):
                self.wrong.append((tag, name))
            if name in ('href', 'id'):
                self.links.append((name, value))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in EMPTY:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(('end', tag))


def check_page(c, dsplan, plan, ranks):
    r = run(dsplan, 'inspect', plan, '--html', f'{plan}.html')
    c.check(r.returncode == 0 and r.stdout == '', f'page of {plan}', r.stderr)
    with open(f'{plan}.html', encoding='utf-8') as f:
        text = f.read()
    page = Page()
    page.feed(text)
    c.check(not page.wrong and not page.open, 'tags are closed, none acts',
            (page.wrong[:5], page.open[:5]))
    c.check('script' not in page.tags and 'img' not in page.tags
            and 'link' not in page.tags, 'nothing is fetched', page.tags)
    ids = {v for n, v in page.links if n == 'id'}
    c.check(all(v[0] == '#' and v[1:] in ids
                for n, v in page.links if n == 'href'), 'links lead somewhere')
    c.check(text.count('All weights of rank') == ranks, 'weights of each rank')
    c.check('3 times these' in text, 'layers that repeat stand once')
    c.check(run(dsplan, 'inspect', plan, '--html', '-').stdout == text,
            'the same page on stdout')
    return text


def check_inspect(c, dsplan):
    text = check_page(c, dsplan, 'one', 1)
    c.check('None: one rank has all' in text, 'no collectives')
    text = check_page(c, dsplan, 'two', 2)
    c.check('all ranks agree' in text and 'the ranks differ' not in text,
            'collectives agree')
    got = json.loads(run(dsplan, 'inspect', 'two', '--json').stdout)
    c.check(len(got) == 2 and got[0]['schema_version'] == 1
            and got[1]['rank'] == 1, 'JSON of both ranks')
    got = json.loads(run(dsplan, 'inspect', 'two', '--json', '--rank', 1).stdout)
    c.check([g['rank'] for g in got] == [1], 'JSON of one rank', got)
    c.check('golden sequences' in run(dsplan, 'inspect', 'one').stdout,
            'text tells of golden sequences')


def check_reader_gone(c, dsplan, dscompile):
    """`| head` and the like: silence, and the exit code of SIGPIPE."""
    for command in ([dsplan, 'inspect', 'one'], [dsplan, '--help'],
                    [dsplan, 'inspect', 'one', '--html', '-'],
                    [dscompile, 'limits'], [dscompile, '--version']):
        read, write = os.pipe()
        os.close(read)
        r = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=write,
                           stderr=subprocess.PIPE, text=True, check=False,
                           timeout=60)
        os.close(write)
        c.check(r.returncode == 141 and r.stderr == '',
                f'{command[1:]}: a reader that has left',
                (r.returncode, r.stderr))
    with open('/dev/full', 'w') as full:
        r = subprocess.run([dsplan, 'inspect', 'one'], stdout=full,
                           stderr=subprocess.PIPE, text=True, check=False,
                           timeout=60)
    c.check(r.returncode == 1 and 'No space left' in r.stderr, 'a full disk',
            (r.returncode, r.stderr))


def check_dot(c, dsplan):
    for plan in ('one', 'two'):
        dot = run(dsplan, 'inspect', plan, '--dot').stdout
        c.check('layers 0 to 2, 3 times' in dot and '%layers.1.' not in dot,
                'layers that repeat are drawn once', dot)
        if shutil.which('dot') is None:
            print('left out: no graphviz here; tools/setup.sh installs it')
            continue
        svg = subprocess.run(['dot', '-Tsvg'], input=dot, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             check=False, timeout=60)
        c.check(svg.returncode == 0 and not svg.stderr
                and svg.stdout.count('class="node"') >= 10
                and svg.stdout.count('class="edge"') >= 10, 'graphviz draws it',
                svg.stderr)
    r = run(dsplan, 'inspect', 'one', '--dot', '--program', 'cpu/stpe')
    c.check(r.returncode == 3 and 'did you mean cpu/step?' in r.stderr,
            'a program that is not there', r.stderr)


def areas(text):
    return {d['area'] for d in json.loads(text)['differences']}


def check_diff(c, dscompile, dsplan):
    def diff(a, b, *flags):
        return run(dsplan, 'diff', a, b, *flags)

    run(dscompile, CASE, '-o', 'again')
    r = diff('one', 'again')
    c.check(r.returncode == 0 and r.stdout == 'the plans are the same\n',
            'a plan made twice', r.stdout + r.stderr)
    r = diff('one', 'again', '--json')
    c.check(r.returncode == 0 and json.loads(r.stdout)['same'] is True,
            'the same as JSON', r.stdout)

    r = diff('one', 'eight', '--json')
    got = json.loads(r.stdout)
    weights = [d for d in got['differences'] if d['area'] == 'weights']
    c.check(r.returncode == 1 and got['schema_version'] == 1
            and areas(r.stdout) >= {'options', 'passes', 'weights', 'memory'},
            'fp32 and int8', r.stdout)
    c.check(all(0 < d['relative_l2'] < 0.02 and d['b'].startswith('i8_row')
                for d in weights), 'by how much int8 is off', weights)
    r = diff('one', 'eight', '--lines', 1)
    c.check(r.returncode == 1 and 'relative L2' in r.stdout
            and 'and 12 more' in r.stdout, 'the first of each kind', r.stdout)

    r = diff('one', 'two', '--json')
    c.check(r.returncode == 1 and {'mesh', 'options', 'memory'} <= areas(r.stdout)
            and 'weights' not in areas(r.stdout), 'other ranks', areas(r.stdout))

    # One edited step.
    with open('dumps/05.fuse-epilogues.ir') as f:
        text = f.read()
    edited, n = re.subn('eps=1e-06', 'eps=2e-06', text, count=1)
    c.check(n == 1, 'a norm to change')
    with open('edited.ir', 'w') as f:
        f.write(edited)
    run(dscompile, CASE, '-o', 'edited', '--start-from', 'edited.ir')
    r = diff('one', 'edited', '--json')
    steps = [d for d in json.loads(r.stdout)['differences']
             if d['area'] == 'steps']
    c.check(r.returncode == 1 and len(steps) == 2
            and {'eps=1e-06' in s['a'] + s['b'] for s in steps} == {True, False},
            'one changed step', r.stdout)
    c.check('weights' not in areas(r.stdout), 'weights are the same')

    r = diff('one', 'nowhere')
    c.check(r.returncode == 3 and 'no such folder' in r.stderr,
            'a plan that is not there', r.stderr)


def main():
    dscompile, dsplan = (os.path.abspath(p) for p in sys.argv[1:])
    c = Checks()
    with Scratch() as tmp:
        os.chdir(tmp)
        for plan, flags in (('one', ['--dump-ir', 'dumps']),
                            ('two', ['--tp', 2]), ('eight', ['--dtype', 'int8'])):
            r = run(dscompile, CASE, '-o', plan, *flags)
            c.check(r.returncode == 0, f'compile {plan}', r.stderr)
        check_inspect(c, dsplan)
        check_reader_gone(c, dsplan, dscompile)
        check_dot(c, dsplan)
        check_diff(c, dscompile, dsplan)
    c.finish()


main()
