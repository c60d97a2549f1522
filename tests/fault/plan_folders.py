#!/usr/bin/env python3
"""What a damaged, mixed-up or edited plan folder costs: one line.

    plan_folders.py DSCOMPILE DSRUN DSPLAN

One fault at a time in a plan of two ranks, then every command over it: nothing
may crash, hang, go unnoticed where a checksum covers it, or change the folder.
Also the commands with closed and full streams, names with control characters,
and few descriptors.
"""
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from harness import TOP, Checks, Scratch, run  # noqa: E402

MANIFEST = 'bad/manifest.json'
WORK = ['--prompt-ids', '5,6,7', '--greedy', '--ignore-eos', '-n', 4]


def flip(path, at):
    with open(path, 'r+b') as f:
        f.seek(at)
        byte = f.read(1)
        f.seek(at)
        f.write(bytes([byte[0] ^ 1]))


def append(path):
    with open(path, 'ab') as f:
        f.write(b'x')


def write(path, text):
    with open(path, 'w') as f:
        f.write(text)


def edit(change):
    """A fault: the manifest after `change`."""
    def fault():
        with open(MANIFEST) as f:
            m = json.load(f)
        change(m)
        write(MANIFEST, json.dumps(m))
    return fault


def replace(path, make):
    os.unlink(path)
    make(path)


def swap(extension):
    a, b = (f'bad/rank_000{r}.{extension}' for r in (0, 1))
    os.rename(a, 'swap')
    os.rename(b, a)
    os.rename('swap', b)


def file_faults(name):
    """-> {what: fault} of one file; each is seen by every command that reads
    the file."""
    path, size = 'bad/' + name, os.path.getsize('good/' + name)
    return {
        'missing': lambda: os.unlink(path),
        'empty': lambda: os.truncate(path, 0),
        'cut by 1': lambda: os.truncate(path, size - 1),
        'grown by 1': lambda: append(path),
        'all zero': lambda: write(path, '\0' * size),
        'first bit': lambda: flip(path, 0),
        'a bit in the middle': lambda: flip(path, size // 3),
        'last bit': lambda: flip(path, size - 1),
        'a folder': lambda: replace(path, os.mkdir),
        'a FIFO': lambda: replace(path, os.mkfifo),
        'a dangling link': lambda: replace(
            path, lambda p: os.symlink('nowhere', p)),
        'a link to itself': lambda: replace(
            path, lambda p: os.symlink(name, p)),
        '/dev/zero': lambda: replace(path, lambda p: os.symlink('/dev/zero', p)),
    }


def row(**kw):
    return {'name': 'x', 'bytes': 1, 'sha256': '0' * 64, **kw}


# Name: (change of the manifest, exit code; None where some commands may not
# look at it, and are then done).
MANIFESTS = {
    'a newer format': (lambda m: m.update(deepslice_plan=2), 4),
    'format 0': (lambda m: m.update(deepslice_plan=0), 3),
    'format 1e20': (lambda m: m.update(deepslice_plan=10**20), 3),
    'set id x': (lambda m: m.update(plan_set_id='x'), 3),
    'set id of two lines': (lambda m: m.update(plan_set_id='x\ny\x1b[31m'), 3),
    'a long set id': (lambda m: m.update(plan_set_id='x' * 100000), 3),
    'an extra file': (lambda m: m['files'].append(row()), 3),
    'a name of two lines': (lambda m: m['files'].append(row(name='a\nb')), 3),
    'a name outside': (lambda m: m['files'].append(row(name='../good')), 3),
    'a file twice': (lambda m: m['files'].append(m['files'][0]), 3),
    'a digest of lines': (lambda m: m['files'][0].update(sha256='\n' * 64), 3),
    'negative bytes': (lambda m: m['files'][0].update(bytes=-1), 3),
    'no files': (lambda m: m.pop('files'), 3),
    'files that are numbers': (lambda m: m.update(files=[1]), 3),
    'no provenance': (lambda m: m.pop('provenance'), None),
    'provenance is a list': (lambda m: m.update(provenance=[1]), None),
    'provenance without sources': (lambda m: m.update(provenance={}), None),
    'sources are numbers': (lambda m: m['provenance'].update(sources=[3]), None),
}
for world in (0, 1, 3, -1, 4097, '2', None, 2.0):
    MANIFESTS[f'world_size {world!r}'] = (
        lambda m, w=world: m.update(world_size=w), 3)


class Folders:
    def __init__(self, checks, dsrun, dsplan):
        self.c = checks
        self.commands = {
            'inspect': [dsplan, 'inspect', 'bad'],
            'explain': [dsplan, 'explain', 'bad', '@embed'],
            'verify': [dsplan, 'verify', 'bad'],
            'run': [dsrun, 'bad', *WORK],
            'tokenize': [dsrun, 'tokenize', 'bad', '--in', 'texts.json'],
            'reshard': [dsplan, 'reshard', 'bad', '--tp', 3, '-o', 'made', '-q'],
        }

    def try_all(self, what, fault, code, unread=()):
        """Exit `code` and one line from each command, but for those that do
        not read what is wrong."""
        shutil.rmtree('bad', ignore_errors=True)
        shutil.copytree('good', 'bad')
        fault()
        before = sorted(os.listdir('bad'))
        for name, command in self.commands.items():
            try:
                r = run(*command, timeout=30)
            except subprocess.TimeoutExpired:
                self.c.check(False, f'{what}, {name}', 'hangs')
                continue
            lines = [x for x in r.stderr.splitlines()
                     if not x.startswith('world 2 ')]
            done = r.returncode == 0 and not lines
            failed = (len(lines) == 1 and len(lines[0]) < 1000
                      and lines[0].isprintable()
                      and r.returncode == (code or 3))
            shutil.rmtree('made', ignore_errors=True)
            self.c.check(failed or (done and (code is None or name in unread)),
                         f'{what}, {name}',
                         f'exit {r.returncode}, {r.stderr[-500:]!r}')
        self.c.check(sorted(os.listdir('bad')) == before, what, 'folder changed')


def check_folders(f):
    for name in sorted(os.listdir('good')):
        for what, fault in file_faults(name).items():
            unread = ()
            if what.endswith('bit') or what == 'all zero':
                if name == 'report.json' or name.startswith('source.'):
                    unread = ('inspect', 'explain', 'run', 'tokenize')
                elif name.endswith('.weights') or name == 'rank_0001.plan':
                    unread = ('tokenize',)
            if 'middle' in what and not name.startswith('rank_'):
                continue  # which byte it meets is chance
            if name.endswith('.weights') and 'middle' in what:
                unread = ('tokenize',)
            if name == 'rank_0001.plan' and 'middle' in what:
                unread = ('tokenize',)
            if name == 'manifest.json' and what == 'cut by 1':
                continue  # its last byte is a line end
            f.try_all(f'{name} {what}', fault, 3, unread)
    for name in sorted(os.listdir('good')):
        if name.endswith(('.plan', '.weights')) or name == 'manifest.json':
            unread = ('tokenize',) if name != 'manifest.json' else ()
            f.try_all(f'{name} of another set', lambda n=name: shutil.copy(
                'other/' + n, 'bad/' + n), 3, unread)
    f.try_all('plans swapped', lambda: swap('plan'), 3)
    f.try_all('weights swapped', lambda: swap('weights'), 3, ('tokenize',))
    f.try_all('ranks swapped', lambda: (swap('plan'), swap('weights')), 3)
    f.try_all('a third rank', lambda: shutil.copy(
        'good/rank_0000.plan', 'bad/rank_0002.plan'), 3)
    for what, (change, code) in MANIFESTS.items():
        f.try_all(f'manifest: {what}', edit(change), code)


def shell(line, **variables):
    return subprocess.run(['bash', '-c', line], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, errors='replace', timeout=60, check=False,
                          env={**os.environ, **variables})


def check_streams(c, tools):
    tools['work'] = ' '.join(map(str, WORK))
    prints = ['$dsplan inspect two', '$dsplan inspect two --json',
              '$dsplan verify two', '$dsplan explain two @embed',
              '$dsplan --help', '$dsrun --help', '$dscompile --version',
              '$dsrun one $work', '$dsrun two $work',
              '$dsrun tokenize one --in texts.json']
    for line in prints:
        for stream in ('>&-', '<&- >&-', '>/dev/full', '| head -c 0'):
            r = shell(f'set -o pipefail; {line} {stream}', **tools)
            lines = [x for x in r.stderr.splitlines() if ': stdout: ' in x]
            # A reader that left is told by the exit code alone; it may still be
            # there when little is written.
            ends = [(0, 0), (141, 0)] if 'head' in stream else [(1, 1)]
            c.check((r.returncode, len(lines)) in ends,
                    f'{line} {stream}', f'exit {r.returncode}, {r.stderr!r}')
        r = shell(f'{line} <&- >&- 2>&-', **tools)
        c.check(r.returncode == 1, f'{line}, all streams closed', r.returncode)
    # The notes meant for stderr must not land in a file of the plan.
    r = shell('$dscompile source --tp 2 -o closed <&- >&- 2>&-', **tools)
    c.check(r.returncode == 0 and run(
        tools['dsplan'], 'verify', 'closed').returncode == 0,
            'compiled with all streams closed', r.returncode)


def check_names(c, tools):
    for name in ('a b', 'a\nb', '\u00fc\u65e5', '$(x)', 'a\tb\x1b[31m'):
        shutil.copytree('two', name)
        for line in ('$dsplan verify "$name"', '$dsrun "$name" $work'):
            r = shell(line, name=name, **tools)
            c.check(r.returncode == 0, f'{line} {name!r}', r.stderr)
        shutil.rmtree(name)
        for line in ('$dsplan verify "$name"', '$dsrun "$name" $work',
                     '$dscompile "$name" -o out', '$dsrun one --feed "$name" '
                     '--fetch out', '$dsplan explain one "$name"'):
            r = shell(line, name=name, **tools)
            lines = r.stderr.splitlines()
            c.check(r.returncode == 3 and len(lines) == 1
                    and lines[0].isprintable(), f'{line} {name!r}',
                    f'exit {r.returncode}, {r.stderr!r}')
    c.check(not os.path.exists('out'), 'nothing was written')


def check_scarcity(c, tools):
    for limit in ('-n 3', '-n 8', '-n 12', '-v 60000'):
        for line in ('$dscompile source --tp 8 -o out', '$dsrun eight $work',
                     '$dsrun one $work', '$dsplan verify eight'):
            r = shell(f'ulimit {limit}; {line}', **tools)
            lines = [x for x in r.stderr.splitlines()
                     if not x.startswith('world 8 ')]
            c.check(r.returncode == 0 or (r.returncode in (1, 3, 4, 5, 127)
                                          and len(lines) == 1),
                    f'ulimit {limit}; {line}',
                    f'exit {r.returncode}, {r.stderr[-500:]!r}')
            c.check(r.returncode == 0 or not [
                x for x in os.listdir('.') if x.startswith(('out', '.out'))],
                    f'ulimit {limit}; {line}', 'left behind')
            shutil.rmtree('out', ignore_errors=True)


def main():
    dscompile, dsrun, dsplan = (os.path.realpath(p) for p in sys.argv[1:])
    tools = {'dscompile': dscompile, 'dsrun': dsrun, 'dsplan': dsplan}
    c = Checks()
    shm = set(os.listdir('/dev/shm'))
    with Scratch() as tmp:
        os.chdir(tmp)
        maker = os.path.join(TOP, 'tools', 'make_random_checkpoint.py')
        c.check(run(sys.executable, maker, 'source').returncode == 0, 'source')
        write('texts.json', '["a"]')
        for plan, tp, dtype in (('good', 2, 'auto'), ('other', 2, 'fp16'),
                                ('one', 1, 'auto'), ('eight', 8, 'auto')):
            r = run(dscompile, 'source', '--tp', tp, '--dtype', dtype, '-o', plan)
            c.check(r.returncode == 0, f'dscompile {plan}', r.stderr)
        shutil.copytree('good', 'two')
        check_folders(Folders(c, dsrun, dsplan))
        check_streams(c, tools)
        check_names(c, tools)
        check_scarcity(c, tools)
    c.check(set(os.listdir('/dev/shm')) <= shm, '/dev/shm')
    c.finish()


main()
