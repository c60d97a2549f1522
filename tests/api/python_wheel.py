#!/usr/bin/env python3
"""The Python module, from its wheel in a fresh virtual environment.

    python_wheel.py DSCOMPILE DSRUN WHEEL

Compiles small plans, installs the wheel (by pip where there is one, else as
pip would: by unpacking it), and runs python_use.py there.
"""
import os
import sys
import venv
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from harness import TOP, Checks, Scratch, run  # noqa: E402


def install(c, wheel, folder):
    """-> the environment's python."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = os.path.join(folder, 'bin', 'python3')
    pip = [sys.executable, '-m', 'pip', '--python', python]
    if run(*pip, '--version').returncode == 0:
        r = run(*pip, 'install', '--no-index', '--no-deps', '--quiet',
                '--disable-pip-version-check', wheel)
        c.check(r.returncode == 0, 'pip install', r.stderr)
        print('installed by pip')
        return python
    r = run(python, '-c', 'import sysconfig; '
            'print(sysconfig.get_path("platlib"))')
    with zipfile.ZipFile(wheel) as z:
        z.extractall(r.stdout.strip())
    print('unpacked: no pip here')
    return python


def main():
    dscompile, dsrun, wheel = (os.path.abspath(p) for p in sys.argv[1:])
    here = os.path.dirname(os.path.abspath(__file__))
    c = Checks()
    with Scratch() as tmp:
        os.chdir(tmp)
        with zipfile.ZipFile(wheel) as z:
            names = z.namelist()
            c.check(z.testzip() is None, 'the archive is whole')
        for part in ('deepslice/__init__.py', 'deepslice/lib/libdeepslice.so.1',
                     'deepslice/lib/needed.txt'):
            c.check(part in names, f'{part} is in the wheel', names)
        c.check(any(n.endswith('/licenses/LICENSE') for n in names),
                'the licence is in the wheel', names)
        r = run(sys.executable,
                os.path.join(TOP, 'tools', 'make_random_checkpoint.py'),
                'source')
        c.check(r.returncode == 0, 'make_random_checkpoint', r.stderr)
        for plan, tp in (('one', 1), ('two', 2)):
            r = run(dscompile, 'source', '--dtype', 'fp32', '--tp', tp,
                    '--max-batch', 8, '--max-step-tokens', 64,
                    '--max-seq-len', 256, '-o', plan)
            c.check(r.returncode == 0, f'dscompile {plan}', r.stderr)
        python = install(c, wheel, 'env')
        env = {k: v for k, v in os.environ.items()
               if k not in ('PYTHONPATH', 'DEEPSLICE_LIBRARY',
                            'LD_LIBRARY_PATH')}
        r = run(python, '-W', 'error', os.path.join(here, 'python_use.py'),
                dsrun, env=env, timeout=240)
        print(r.stdout, end='')
        c.check(r.returncode == 0, 'python_use.py', r.stdout + r.stderr)
        c.check(r.stderr == '', 'nothing is printed by the library', r.stderr)
    c.finish()


main()
