#!/usr/bin/env python3
"""The README's programs do what it says.

    readme_examples.py DSCOMPILE DEEPSLICE.H LIBDEEPSLICE.SO WHEEL CC [ARGS...]

Takes the C and the Python program out of README.md and runs them on a plan.
"""
import os
import re
import sys
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from harness import TOP, Checks, Scratch, run  # noqa: E402


def main():
    dscompile, header, so, wheel = (os.path.abspath(p) for p in sys.argv[1:5])
    cc = [a for a in sys.argv[5:] if 'ccache' not in a] or ['cc']
    with open(os.path.join(TOP, 'README.md'), encoding='utf-8') as f:
        text = f.read()
    c = Checks()
    programs = {kind: re.findall(r'```%s\n(.*?)```' % kind, text, re.S)
                for kind in ('c', 'python')}
    c.check(all(len(p) == 1 for p in programs.values()), 'two programs',
            programs)
    with Scratch() as tmp:
        os.chdir(tmp)
        r = run(sys.executable,
                os.path.join(TOP, 'tools', 'make_random_checkpoint.py'),
                'source')
        c.check(r.returncode == 0, 'make_random_checkpoint', r.stderr)
        r = run(dscompile, 'source', '--max-seq-len', 256, '-o', 'plan')
        c.check(r.returncode == 0, 'dscompile', r.stderr)

        with open('hello.c', 'w', encoding='utf-8') as f:
            f.write(programs['c'][0])
        r = run(*cc, '-Wall', '-Wextra', '-Wno-unused-parameter', '-Werror',
                '-I', os.path.dirname(header), 'hello.c', so,
                '-Wl,-rpath,' + os.path.dirname(so), '-o', 'hello')
        c.check(r.returncode == 0, 'the C program compiles', r.stderr)
        r = run('./hello')
        c.check(r.returncode == 0 and r.stderr == '' and len(r.stdout) > 20,
                'the C program answers', r)
        answer = r.stdout

        with zipfile.ZipFile(wheel) as z:
            z.extractall('module')
        r = run(sys.executable, '-c', programs['python'][0],
                env={**os.environ, 'PYTHONPATH': 'module',
                     'PYTHONIOENCODING': 'utf-8'})
        first = r.stdout.split('\n')[0]
        c.check(r.returncode == 0 and r.stderr == ''
                and answer.startswith(first) and len(r.stdout) > 20,
                'the Python program answers', (r, answer))
    c.finish()


main()
