#!/usr/bin/env python3
"""Plans that are replaced or cut while they run, and plans in odd places.

    plan_places.py DSCOMPILE DSRUN DSPLAN FAIL_FILES

Read-only folders, files that may not be read, paths at and beyond the system's
limit, disks that give a few bytes at a time or fail (FAIL_FILES, fail_files.cc),
and rank numbers that a plan does not have.
"""
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from harness import TOP, Checks, Scratch, run  # noqa: E402

WORK = ['--prompt-ids', '5,6,7', '--greedy', '--ignore-eos', '--print-ids']
PATH_MAX = 4096


class Tools:
    def __init__(self, c, dscompile, dsrun, dsplan):
        self.c, self.dscompile, self.dsrun = c, dscompile, dsrun
        self.dsplan = dsplan

    def ends(self, what, code, parts, *command, **kw):
        """`code`, and one line on stderr that holds all `parts`."""
        r = run(*command, **kw)
        lines = [x for x in r.stderr.splitlines()
                 if not x.startswith(('world ', 'note: '))]
        self.c.check(r.returncode == code and len(lines) == 1
                     and all(p in lines[0] for p in parts), what,
                     f'rc {r.returncode} for {code}, wanted {parts} in: '
                     f'{r.stderr}')


def check_running(t):
    """A plan replaced or cut in the middle of a run."""
    # Without --print-ids: text comes as it is made.
    args = [t.dsrun, 'running', *WORK[:-1], '-n', '1900']
    shutil.copytree('long', 'running')
    want = subprocess.run(args, stdout=subprocess.PIPE, check=False,
                          stderr=subprocess.DEVNULL, timeout=60).stdout
    for what, change in (
            ('renamed over', lambda: (
                shutil.copytree('other', 'next'),
                [os.replace(f'next/{n}', f'running/{n}')
                 for n in os.listdir('next')])),
            ('removed', lambda: shutil.rmtree('running')),
            ('cut', lambda: [os.truncate(f'running/{n}', 0)
                             for n in os.listdir('running')])):
        shutil.rmtree('running')
        shutil.rmtree('next', ignore_errors=True)
        shutil.copytree('long', 'running')
        p = subprocess.Popen(args, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        begun = os.read(p.stdout.fileno(), 10)
        change()
        rest, stderr = p.communicate(timeout=60)
        stderr = stderr.decode()
        same = p.returncode == 0 and begun + rest == want
        cut = (p.returncode == 3 and len(stderr.splitlines()) == 1
               and 'running/rank_0000.weights: was cut while it was in use'
               in stderr)
        t.c.check(cut if what == 'cut' else same, f'{what} while running',
                  f'rc {p.returncode} {stderr}')
        os.makedirs('running', exist_ok=True)


def check_source_cut(t):
    """A checkpoint that is cut while it is compiled."""
    shutil.copytree('source', 'cut')
    weights = 'cut/model.safetensors'
    p = subprocess.Popen([t.dscompile, 'cut', '-o', 'cut-plan', '-q'],
                         stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                         text=True)
    os.truncate(weights, 3000)
    stderr = p.communicate(timeout=60)[1]
    t.c.check(p.returncode in (0, 3) and len(stderr.splitlines()) == (
        1 if p.returncode else 0), 'a checkpoint cut while it is read',
              f'rc {p.returncode} {stderr}')
    t.c.check(p.returncode == 0 or not os.path.exists('cut-plan'),
              'nothing is left of it')


def as_nobody():
    """Gives up root, which may read everything."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)


def check_permissions(t, tmp):
    os.chmod(tmp, 0o755)
    for name in os.listdir('one'):
        os.chmod(f'one/{name}', 0o444)
    os.chmod('one', 0o555)
    for command in ([t.dsrun, 'one', *WORK, '-n', 4], [t.dsplan, 'verify', 'one'],
                    [t.dsplan, 'inspect', 'one']):
        r = run(*command, preexec_fn=as_nobody, env={'PATH': os.environ['PATH']})
        t.c.check(r.returncode == 0, 'a read-only folder, read-only files',
                  r.stderr)
    os.chmod('one', 0o755)
    for name in sorted(os.listdir('one')):
        if name.endswith('.json') and name != 'manifest.json':
            continue
        os.chmod(f'one/{name}', 0)
        t.ends(f'{name} may not be read', 3, [name, 'Permission denied'],
               t.dsrun, 'one', *WORK, '-n', 4, preexec_fn=as_nobody)
        os.chmod(f'one/{name}', 0o644)
    os.chmod('one', 0)
    t.ends('a folder that may not be read', 3, ['one', 'Permission denied'],
           t.dsrun, 'one', *WORK, '-n', 4, preexec_fn=as_nobody)
    os.chmod('one', 0o755)
    os.mkdir('closed', 0o555)
    t.ends('a folder where nothing may be made', 1, ['closed', 'write here'],
           t.dscompile, 'source', '-o', 'closed/plan', preexec_fn=as_nobody)
    t.c.check(os.listdir('closed') == [], 'and nothing is')


def check_long_paths(t, tmp):
    plan = run(t.dsrun, 'one', *WORK, '-n', 4).stdout
    here = os.getcwd()
    deep = os.path.join(tmp, 'deep')
    os.mkdir(deep)
    os.chdir(deep)
    path = deep
    while len(path) + 201 < PATH_MAX - 30:
        os.mkdir('d' * 200)
        os.chdir('d' * 200)
        path += '/' + 'd' * 200
    longest = max(map(len, os.listdir(os.path.join(here, 'one'))))
    last = 'p' * (PATH_MAX - len(path) - len('//') - longest - 1)
    shutil.copytree(os.path.join(here, 'one'), last)
    path += '/' + last
    r = run(t.dsrun, path, *WORK, '-n', 4)
    t.c.check(r.returncode == 0 and r.stdout == plan,
              f'a path of {len(path)} bytes', r.stderr)
    os.rename(last, last + 'pp')
    t.ends('a path whose files are too long', 3, [],
           t.dsrun, path + 'pp', *WORK, '-n', 4)
    os.chdir(here)
    for name in ('x' * 256, 'x/' * 3000):
        t.ends('a name beyond the limit', 3, ['no such folder'],
               t.dsrun, name, *WORK, '-n', 4)
    t.ends('a plan in such a folder', 3, ['does not exist'], t.dscompile,
           'source', '-o', '/'.join([path, 'y' * 200]))
    shutil.rmtree(deep)


def check_disks(t, library):
    env = {**os.environ, 'LD_PRELOAD': library,
           'ASAN_OPTIONS': 'verify_asan_link_order=0'}
    want = run(t.dsrun, 'one', *WORK, '-n', 4).stdout
    r = run(t.dsrun, 'one', *WORK, '-n', 4, env={**env, 'READ_SHORT': '13'})
    t.c.check(r.returncode == 0 and r.stdout == want,
              '13 bytes at a time, and EINTR', r.stderr)
    r = run(t.dscompile, 'source', '-q', '-o', 'slow',
            env={**env, 'READ_SHORT': '7'})
    t.c.check(r.returncode == 0 and all(
        open(f'slow/{n}', 'rb').read() == open(f'one/{n}', 'rb').read()
        for n in os.listdir('one')), 'compiled 7 bytes at a time', r.stderr)
    failed = 0
    for n in range(1, 30):
        r = run(t.dsrun, 'one', *WORK, '-n', 4,
                env={**env, 'READ_FAILS': str(n)})
        lines = [x for x in r.stderr.splitlines()
                 if not x.startswith('note: ')]
        failed += r.returncode != 0
        t.c.check((r.returncode, lines) == (0, []) and r.stdout == want
                  or r.returncode in (1, 3) and len(lines) == 1,
                  f'read {n} fails', f'rc {r.returncode} {r.stderr}')
    t.c.check(failed >= 2, 'reads that fail are said', failed)


def check_ranks(t):
    for world, rank, parts in ((2, 0, ['2', '4']), (8, 0, ['8', '4']),
                               (4, 4, ['4']), (4, -1, ['rank'])):
        r = run(t.dsrun, 'four', *WORK, '-n', 4, '--rank', rank, '--world-size',
                world, timeout=20)
        lines = [x for x in r.stderr.splitlines() if x.startswith('dsrun: ')]
        t.c.check(r.returncode in (2, 4) and len(lines) == 1
                  and all(p in lines[0] for p in parts),
                  f'rank {rank} of {world} of a plan for 4',
                  f'rc {r.returncode} {r.stderr}')
    t.ends('inspecting a rank it lacks', 3, ['--rank 4', '0 to 3'], t.dsplan,
           'inspect', 'four', '--rank', 4)


def main():
    dscompile, dsrun, dsplan, library = (os.path.realpath(p)
                                         for p in sys.argv[1:])
    c = Checks()
    with Scratch() as tmp:
        os.chdir(tmp)
        maker = os.path.join(TOP, 'tools', 'make_random_checkpoint.py')
        c.check(run(sys.executable, maker, 'source').returncode == 0, 'source')
        for plan, flags in (('one', []), ('other', ['--dtype', 'fp16']),
                            ('four', ['--tp', 4]),
                            ('long', ['--max-seq-len', 2000])):
            r = run(dscompile, 'source', '-q', '-o', plan, *flags)
            c.check(r.returncode == 0, f'dscompile {plan}', r.stderr)
        t = Tools(c, dscompile, dsrun, dsplan)
        check_running(t)
        check_source_cut(t)
        check_disks(t, library)
        check_ranks(t)
        check_long_paths(t, tmp)
        check_permissions(t, tmp)
    c.finish()


main()
