#!/usr/bin/env python3
"""A plan's bytes depend on its inputs and options alone.

    determinism.py DSCOMPILE

Compiles the same checkpoint again with other thread counts, folders, locales,
umasks and paths to the source, and compares every file.
"""
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from harness import CASES, Checks, Scratch, run  # noqa: E402


def contents(folder):
    return {n: open(os.path.join(folder, n), 'rb').read()
            for n in sorted(os.listdir(folder))}


def main():
    dscompile = os.path.abspath(sys.argv[1])
    c = Checks()
    with Scratch() as tmp:
        for case, flags in (('llama-gqa-tied', ['--tp', '3', '--dtype', 'int8']),
                            ('gpt2', ['--tp', '2']),
                            # The images, too, whoever compiles which when.
                            ('qwen2', ['--target', 'cpu,sm_90a', '--max-batch',
                                       '1', '--no-kernel-cache'])):
            source = os.path.join(CASES, 'models', case)
            base = os.path.join(tmp, case)
            r = run(dscompile, source, *flags, '-o', base, '-j', 1)
            if (c.left_out(r, f'{case} with GPU targets') or
                    not c.check(r.returncode == 0, f'compile {case}', r.stderr)):
                continue
            want = contents(base)
            elsewhere = os.path.join(tmp, 'a folder é', case)
            shutil.copytree(source, elsewhere)
            env = dict(os.environ, LC_ALL='de_DE.UTF-8', LANG='de_DE.UTF-8',
                       TZ='Asia/Kolkata')
            variants = {
                'the same again': dict(cmd=[source, '-j', 1]),
                'four threads': dict(cmd=[source, '-j', 4]),
                'another source folder': dict(cmd=[elsewhere]),
                'relative path': dict(cmd=[case], cwd=os.path.dirname(elsewhere)),
                'another locale': dict(cmd=[source], env=env),
                'another umask': dict(cmd=[source], umask=0o77),
            }
            for what, v in variants.items():
                out = os.path.join(tmp, 'plan ' + what)
                kw = {k: v[k] for k in ('cwd', 'env', 'umask') if k in v}
                r = run(dscompile, *v['cmd'], *flags, '-o', out, **kw)
                if not c.check(r.returncode == 0, f'{case}: {what}', r.stderr):
                    continue
                got = contents(out)
                differ = [n for n in sorted(set(want) | set(got))
                          if want.get(n) != got.get(n)]
                c.check(not differ, f'{case}: {what}', f'{differ} differ')
                shutil.rmtree(out)
    c.finish()


main()
