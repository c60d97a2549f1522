#!/usr/bin/env python3
"""A compile that is killed, interrupted or out of disk leaves a whole plan or
none.

    compile_faults.py DSCOMPILE FAIL_FILES [ROUNDS]

Kills at random moments, and before every single call that changes the file
system (FAIL_FILES, fail_files.cc); the disk full at every such call and at
random sizes; with and without a plan of that name already there. Also two
compilers at the same plan, and outputs that are refused.
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
from harness import CASES, TOP, Checks, Scratch, run  # noqa: E402

SOURCE = os.path.join(CASES, 'models', 'gpt2')
ARGS = [SOURCE, '--tp', '2', '--force', '-q', '-o']


def contents(folder):
    return {n: open(os.path.join(folder, n), 'rb').read()
            for n in sorted(os.listdir(folder))}


def is_leftover(name):
    """What a killed process may leave, and the next one removes."""
    return name.startswith('.plan.tmp-') or name == '.plan.lock'


class Faults:
    def __init__(self, c, dscompile, library, tmp):
        self.c, self.dscompile, self.tmp = c, dscompile, tmp
        self.preload = {**os.environ, 'LD_PRELOAD': library}
        # The sanitizer wants to be the first library; it is the second.
        self.preload['ASAN_OPTIONS'] = 'verify_asan_link_order=0'
        self.old, self.new = (os.path.join(tmp, n) for n in ('old', 'new'))
        for plan, more in ((self.old, ['--dtype', 'fp16']), (self.new, [])):
            r = run(dscompile, SOURCE, '--tp', 2, '-o', plan, *more)
            c.check(r.returncode == 0, 'compile', r.stderr)
        self.old_bytes, self.new_bytes = contents(self.old), contents(self.new)
        c.check(self.old_bytes != self.new_bytes, 'two plans that differ')
        self.moments = {'kill': 0, 'full': 0}

    def folder(self, replace):
        """A fresh folder, with an old plan in it or without."""
        out_dir = os.path.join(self.tmp, 'round')
        shutil.rmtree(out_dir, ignore_errors=True)
        os.mkdir(out_dir)
        if replace:
            shutil.copytree(self.old, os.path.join(out_dir, 'plan'))
        return out_dir

    def judge(self, what, out_dir, replace, code, killed, done=False,
              may_be_absent=False, says=''):
        """One whole plan or none, and nothing else; `code` 0 means the new, and
        so does a message that says so."""
        done = done or 'the plan is made' in says
        aside = 'the old plan is in' in says
        plan = os.path.join(out_dir, 'plan')
        found = contents(plan) if os.path.isdir(plan) else None
        whole = [self.new_bytes] if code == 0 or done else [
            self.new_bytes, self.old_bytes] if replace else [
            self.new_bytes, None]
        if may_be_absent:
            whole.append(None)
        if code not in (0, 130) and not killed and not done:
            whole = [self.old_bytes if replace and not aside else None]
        self.c.check(found in whole, what,
                     f'rc {code}, a plan that is not whole: '
                     f'{sorted(found) if found else found}')
        left = [n for n in os.listdir(out_dir) if n != 'plan']
        if killed or aside:
            if left:
                self.next_run(what, out_dir, replace and found is None)
            left = [n for n in left if not is_leftover(n)]
        self.c.check(not left, what, f'left behind: {left}')

    def next_run(self, what, out_dir, comes_back):
        """The next compile removes what is left, and finds what was there."""
        plan = os.path.join(out_dir, 'plan')
        if comes_back:
            r = run(self.dscompile, SOURCE, '-o', plan)
            self.c.check(r.returncode == 4 and 'exists' in r.stderr
                         and contents(plan) == self.old_bytes, what,
                         f'the old plan does not come back: {r.stderr}')
        r = run(self.dscompile, *ARGS, plan)
        self.c.check(r.returncode == 0 and os.listdir(out_dir) == ['plan']
                     and contents(plan) == self.new_bytes, what,
                     f'the next run: {r.stderr} {os.listdir(out_dir)}')

    def random_moments(self, rounds):
        begin = time.time()
        run(self.dscompile, *ARGS, os.path.join(self.folder(False), 'plan'))
        duration = time.time() - begin
        rng = random.Random(7)
        for i in range(rounds):
            replace, how = i % 4 >= 2, signal.SIGINT if i % 2 else signal.SIGKILL
            out_dir = self.folder(replace)
            p = subprocess.Popen(
                [self.dscompile, *ARGS, os.path.join(out_dir, 'plan')],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL)
            time.sleep(rng.random() * duration * 1.2)
            p.send_signal(how)
            p.wait()
            what = f'random moment {i}, {how.name}'
            self.judge(what, out_dir, replace, p.returncode,
                       how == signal.SIGKILL or p.returncode < 0)
            # Before the handler is there, the signal ends the process itself.
            self.c.check(p.returncode in (0, 130, -how), what,
                         f'exit status {p.returncode}')
            self.moments['kill'] += 1

    def fail(self, out_dir, n, how, stays=False, plain=False):
        env = {**self.preload, 'FAIL_AT': str(n), 'FAIL_HOW': how}
        if stays:
            env['FAIL_STAYS'] = '1'
        if plain:
            env['FAIL_PLAIN'] = '1'
        return run(self.dscompile, *ARGS, os.path.join(out_dir, 'plan'),
                   env=env)

    def count_calls(self, replace, plain):
        out_dir = self.folder(replace)
        path = os.path.join(self.tmp, 'count')
        env = {**self.preload, 'FAIL_COUNT': path}
        if plain:
            env['FAIL_PLAIN'] = '1'
        r = run(self.dscompile, *ARGS, os.path.join(out_dir, 'plan'), env=env)
        self.judge('counting', out_dir, replace, r.returncode, False, done=True)
        with open(path, encoding='utf-8') as f:
            return int(f.read())

    def every_call(self):
        for replace, plain, ways in (
                (False, False, ('kill', 'int', 'full', 'full and stays so')),
                (True, False, ('kill', 'full')),
                (True, True, ('kill', 'full', 'full and stays so'))):
            calls = self.count_calls(replace, plain)
            self.c.check(calls > 15, 'calls seen', calls)
            for n in range(1, calls + 1):
                for way in ways:
                    self.one_call(n, way, replace, plain)

    def one_call(self, n, way, replace, plain):
        what = (f'{way} at call {n}{", replacing" if replace else ""}'
                f'{", plain" if plain else ""}')
        out_dir = self.folder(replace)
        r = self.fail(out_dir, n, way.split()[0], 'stays' in way, plain)
        # A lock's number that can't be written is no failure.
        self.c.check(
            r.returncode == -signal.SIGKILL if way == 'kill' else
            r.returncode in (0, 130) if way == 'int' else
            r.returncode == 0 or r.returncode == 1
            and len(r.stderr.splitlines()) == 1, what,
            f'rc {r.returncode}: {r.stderr}')
        # Without the exchange of names there is a moment without a plan.
        self.judge(what, out_dir, replace, r.returncode, way == 'kill',
                   may_be_absent=plain and way == 'kill', says=r.stderr)
        self.moments['full' if 'full' in way else 'kill'] += 1

    def random_sizes(self, rounds):
        """A small file system, or a limit on file size where none can be
        mounted."""
        full = os.path.join(self.tmp, 'full')
        os.mkdir(full)
        rng = random.Random(9)
        total = sum(map(len, self.new_bytes.values()))
        for i in range(rounds):
            size = rng.randrange(4096, total)
            mounted = subprocess.run(
                ['mount', '-t', 'tmpfs', '-o', f'size={size}', 'tmpfs', full],
                stderr=subprocess.DEVNULL, check=False).returncode == 0
            limits = {}
            if not mounted:
                import resource
                most = rng.randrange(1024, max(map(len,
                                                   self.new_bytes.values())))
                limits['preexec_fn'] = lambda most=most: (
                    signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
                    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)))
            try:
                r = run(self.dscompile, *ARGS, os.path.join(full, 'plan'),
                        **limits)
                self.c.check(r.returncode == 1 and 'needs' in r.stderr,
                             f'a disk of {size} bytes is said',
                             f'rc {r.returncode}: {r.stderr}')
                self.c.check(os.listdir(full) == [], 'a full disk',
                             os.listdir(full))
            finally:
                if mounted:
                    subprocess.run(['umount', full], check=False)
            self.moments['full'] += 1


def check_leftovers(c, dscompile, tmp):
    """What a kill in between left goes with the next run; another plan's
    temporary folder, and one in use, stay."""
    import fcntl
    stale = os.path.join(tmp, '.next.tmp-1')
    used = os.path.join(tmp, '.next.tmp-2')
    other = os.path.join(tmp, '.other.tmp-1')
    for folder in (stale, used, other):
        os.mkdir(folder)
        with open(os.path.join(folder, 'rank_0000.plan'), 'w',
                  encoding='utf-8') as f:
            f.write('part')
    with open(stale + '.rank_0000.plan', 'w', encoding='utf-8') as f:
        f.write('part')
    fd = os.open(used, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    r = run(dscompile, SOURCE, '-o', os.path.join(tmp, 'next'))
    c.check(r.returncode == 0, 'compile beside leftovers', r.stderr)
    c.check([os.path.exists(p) for p in (stale, stale + '.rank_0000.plan', used,
                                         other)] == [False, False, True, True],
            'leftovers', os.listdir(tmp))
    os.close(fd)


def check_two_at_once(c, dscompile, tmp):
    """The second of two compilers at the same plan is refused, and the first is
    not disturbed."""
    import fcntl
    plan = os.path.join(tmp, 'once')
    # Held by this process in the place of a compiler that takes long.
    lock = os.path.join(tmp, '.once.lock')
    fd = os.open(lock, os.O_RDWR | os.O_CREAT)
    os.write(fd, b'4321\n')
    fcntl.flock(fd, fcntl.LOCK_EX)
    for path in (plan, plan + '/'):
        r = run(dscompile, SOURCE, '-o', path)
        c.check(r.returncode == 1 and 'locked by process 4321' in r.stderr
                and len(r.stderr.splitlines()) == 1, 'a plan being made',
                f'rc {r.returncode}: {r.stderr}')
    r = run(dscompile, SOURCE, '-o', os.path.join(tmp, 'twice'))
    c.check(r.returncode == 0, 'another plan beside it', r.stderr)
    os.close(fd)
    together = [subprocess.Popen([dscompile, SOURCE, '-q', '-o', plan],
                                 stderr=subprocess.PIPE, text=True)
                for _ in range(6)]
    ends = [(p.communicate(timeout=60)[1], p.returncode) for p in together]
    done = [e for e in ends if e[1] == 0]
    c.check(len(done) == 1 and all(
        rc == 1 and 'locked by process' in text
        or rc == 4 and ('exists' in text or 'appeared' in text)
        for text, rc in ends if rc), 'six at once', ends)
    r = run(dscompile, SOURCE, '--force', '-q', '-o', plan)
    c.check(r.returncode == 0 and not os.path.exists(lock), 'the lock is gone',
            r.stderr)


def check_refusals(c, dscompile, tmp, new):
    want = contents(new)
    for args, says in (
            ([SOURCE, '-o', os.path.join(SOURCE, 'plan')], 'in the source'),
            ([SOURCE, '-o', new], 'exists'),
            ([SOURCE, '-o', os.path.join(tmp, 'no', 'plan')],
             'does not exist'),
            ([SOURCE, '-o', tmp, '--force'], 'no manifest.json')):
        r = run(dscompile, *args)
        c.check(r.returncode in (3, 4) and says in r.stderr and
                len(r.stderr.splitlines()) == 1, f'refused: {says}',
                f'rc {r.returncode}: {r.stderr}')
    c.check(contents(new) == want, 'the old plan is untouched')

    # What GPU targets refuse, they refuse before a kernel is compiled.
    large = os.path.join(TOP, 'tests', 'kernels', 'configs',
                         'llama-3.1-8b.json')
    no = os.path.join(tmp, 'refused')
    for args, code, says in (
            ([SOURCE, '--target', 'cpu,CPU'], 4, 'each architecture once'),
            ([SOURCE, '--target', 'h200,sm_90a'], 4, 'is sm_90a, as h200'),
            ([SOURCE, '--target', 'sm_90b'], 2, 'the nearest is sm_90a'),
            ([SOURCE, '--target', 'sm_75'], 4, 'before 8.0'),
            ([SOURCE, '--target', 'cpu,sm_90a', '--dtype', 'int8'], 4,
             'use --dtype fp32, fp16 or bf16'),
            ([SOURCE, '--target', 'sm_80', '--max-step-tokens', 65536], 4,
             'take up to 65535'),
            ([large, '--random-weights', 1, '--target', 'l4', '--max-batch',
              64], 4, 'the GPU (--target, --device-memory) has 24.15; use more'),
            ([large, '--random-weights', -1], 2, 'found "-1"'),
            ([large, '--random-weights', 1 << 64], 2,
             'found "18446744073709551616"')):
        r = run(dscompile, *args, '-o', no, '-q')
        c.check(r.returncode == code and says in r.stderr and
                len(r.stderr.splitlines()) == 1 and not os.path.exists(no),
                f'refused: {says}', f'rc {r.returncode}: {r.stderr}')

    os.symlink('new', os.path.join(tmp, 'link'))
    shutil.copytree(new, os.path.join(tmp, 'more', 'own'))
    shutil.copy(os.path.join(new, 'manifest.json'),
                os.path.join(tmp, 'more'))
    for name, says in (('link', 'symbolic link'), ('more', 'no plan alone'),
                       ('x' * 256, '256 bytes')):
        r = run(dscompile, SOURCE, '-o', os.path.join(tmp, name), '--force')
        c.check(r.returncode in (3, 4) and says in r.stderr and
                len(r.stderr.splitlines()) == 1, f'refused: {says}',
                f'rc {r.returncode}: {r.stderr}')
    r = run(dscompile, SOURCE, '-o', os.path.join(tmp, 'x' * 255))
    c.check(r.returncode == 0, 'the longest name', r.stderr)
    # What a killed process of the same number may have left: the shell's
    # number is dscompile's after exec.
    r = run('sh', '-c', 'mkdir "$2/.same.tmp-$$" && exec "$0" "$1" -o '
            '"$2/same" --tp 2', dscompile, SOURCE, tmp)
    c.check(r.returncode == 0
            and contents(os.path.join(tmp, 'same')) == want,
            'a leftover of the same process number', r.stderr)


def main():
    dscompile, library = (os.path.realpath(p) for p in sys.argv[1:3])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 200
    c = Checks()
    with Scratch() as tmp:
        f = Faults(c, dscompile, library, tmp)
        f.random_moments(rounds)
        f.every_call()
        f.random_sizes(20)
        print(f"{f.moments['kill']} kills, {f.moments['full']} full disks")
        c.check(min(f.moments.values()) >= 200, '200 moments', f.moments)
        check_leftovers(c, dscompile, tmp)
        check_two_at_once(c, dscompile, tmp)
        check_refusals(c, dscompile, tmp, f.new)
    c.finish()


main()
