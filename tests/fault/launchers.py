#!/usr/bin/env python3
"""Each launcher's way to say which rank a process is, and what is refused.

    launchers.py DSCOMPILE DSRUN

The variables of all launchers, as each sets them for two ranks; then Debian's
Open MPI itself.
"""
import os
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from harness import Checks, Scratch  # noqa: E402
from launching import (WORK, Starter, files_below, free_port, make_plans,  # noqa: E402
                       shm_files, torch_variables, wait_until)

SHORT = [*WORK, '-n', '8', '--print-ids']
MPIRUN = ['mpirun', '--allow-run-as-root', '--oversubscribe', '-n']


def launchers(rank, world):
    """name -> the variables of that rank, with what else is set around it."""
    port = str(29000 + os.getpid() % 1000)
    r, w = str(rank), str(world)
    sbatch = {'SLURM_JOB_ID': '7', 'SLURM_PROCID': '0', 'SLURM_LOCALID': '0',
              'SLURM_NTASKS': '1', 'ENVIRONMENT': 'BATCH'}
    torch = {**torch_variables(rank, world, port), 'GROUP_RANK': '0',
             'GROUP_WORLD_SIZE': '1', 'ROLE_RANK': r, 'ROLE_WORLD_SIZE': w,
             'TORCHELASTIC_RUN_ID': 'x', 'TORCHELASTIC_RESTART_COUNT': '0'}
    ompi = {'OMPI_COMM_WORLD_RANK': r, 'OMPI_COMM_WORLD_SIZE': w,
            'OMPI_COMM_WORLD_LOCAL_RANK': r, 'OMPI_COMM_WORLD_LOCAL_SIZE': w,
            'PMIX_RANK': r, 'PMIX_NAMESPACE': port}
    return {
        'torchrun': torch,
        'deepspeed': {'RANK': r, 'WORLD_SIZE': w, 'LOCAL_RANK': r,
                      'LOCAL_SIZE': w, 'CROSS_RANK': '0', 'CROSS_SIZE': '1',
                      'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': port,
                      'CUDA_VISIBLE_DEVICES': '0,1'},
        'OpenMPI': ompi,
        'PMI': {'PMI_RANK': r, 'PMI_SIZE': w, 'MPI_LOCALRANKID': r,
                'MPI_LOCALNRANKS': w, 'PMI_FD': '6'},
        'MVAPICH2': {'MV2_COMM_WORLD_RANK': r, 'MV2_COMM_WORLD_SIZE': w,
                     'MV2_COMM_WORLD_LOCAL_RANK': r,
                     'MV2_COMM_WORLD_LOCAL_SIZE': w},
        'Slurm': {**sbatch, 'SLURM_PROCID': r, 'SLURM_NTASKS': w,
                  'SLURM_LOCALID': r, 'SLURM_NODELIST': 'box',
                  'SLURM_STEP_ID': '0', 'SLURM_STEP_NUM_NODES': '1'},
        'flux': {'FLUX_TASK_RANK': r, 'FLUX_TASK_LOCAL_ID': r,
                 'FLUX_JOB_SIZE': w, 'FLUX_JOB_NNODES': '1',
                 'FLUX_JOB_ID': 'f1'},
        # The inner launcher's set is the one that counts.
        'torchrun in mpirun in sbatch':
            {**sbatch, **ompi, 'OMPI_COMM_WORLD_RANK': '0',
             'OMPI_COMM_WORLD_SIZE': '1', 'OMPI_COMM_WORLD_LOCAL_RANK': '0',
             'OMPI_COMM_WORLD_LOCAL_SIZE': '1', **torch},
        'OpenMPI in sbatch': {**sbatch, **ompi},
        'OpenMPI by a script that sets LOCAL_RANK': {**ompi, 'LOCAL_RANK': r},
        'Slurm by a script that sets WORLD_SIZE':
            {'SLURM_PROCID': r, 'SLURM_NTASKS': w, 'WORLD_SIZE': w},
    }


def errors(stderr):
    return [x for x in stderr.splitlines() if x.startswith('dsrun: ')]


def check_variables(t, c):
    code, ids, stderr = t.run('two', *SHORT)
    c.check(code == 0 and ids.count(',') == 7, 'started here', (code, stderr))
    c.check(stderr.count('\n') == 1
            and stderr.startswith('world 2 (started here), rank map 0-1 on '),
            'the line of the launch', stderr)
    plan_set = stderr.split()[-1]
    for name in launchers(0, 2):
        env = [launchers(r, 2)[name] for r in (0, 1)]
        # Rank 1 first: ranks come in any order.
        one, zero = (t.start('two', *SHORT, env=env[r]) for r in (1, 0))
        got = t.finish(zero, one)
        c.check([g[0] for g in got] == [0, 0] and got[0][1] == ids
                and not got[1][1], f'{name}: rank 0 alone prints', got)
        master = (f'127.0.0.1:{env[0]["MASTER_PORT"]}'
                  if 'MASTER_PORT' in env[0] else 'a Unix socket')
        c.check(got[0][2] == f'world 2 ({name.split()[0]}), rank map 0-1 on '
                f'{socket.gethostname()}, master {master}, plan set '
                f'{plan_set}\n' and not got[1][2],
                f'{name}: the line of the launch', got)
        # All of one launch and another number than the plan's.
        begin = time.monotonic()
        code, out, stderr = t.run('three', *SHORT, env=env[1])
        c.check(code == 4 and not out and len(errors(stderr)) == 1
                and 'has 2 rank(s) (' in stderr and 'plan has 3; start 3 (' in stderr
                and time.monotonic() - begin < 2, f'{name}: 2 ranks for 3', stderr)
        one_rank = launchers(0, 1)[name]
        code, out, stderr = t.run('one', *SHORT, env=one_rank)
        c.check(code == 0 and out == ids
                and stderr.startswith(f'world 1 ({name.split()[0]}), rank map 0 on'),
                f'{name}: a world of one', stderr)
    return ids


def check_local_rank(t, c, ids):
    """deepspeed puts --local_rank=N in front; users put it anywhere."""
    port = free_port()
    for spelling in (['--local_rank=%d'], ['--local_rank', '%d'],
                     ['--local-rank=%d']):
        for at in (0, 1, 3, 1 + len(SHORT)):
            started = []
            for r in (0, 1):
                args = ['two', *SHORT]
                args[at:at] = [x.replace('%d', str(r)) for x in spelling]
                started.append(t.start(*args, env=torch_variables(r, 2, port)))
            got = t.finish(*started)
            c.check([g[0] for g in got] == [0, 0] and got[0][1] == ids,
                    f'{spelling} at {at}', got)
    code, out, stderr = t.run('--local_rank=0', 'bench', 'one', '-p', '4', '-n',
                              '4', '-r', '1', '-o', 'json')
    c.check(code == 0 and out.startswith('{'), 'before a verb', stderr)
    code, out, _ = t.run('--local_rank=0', 'one', *SHORT)
    c.check(code == 0 and out == ids, 'alone it names no rank')


def check_refusals(t, c, ids):
    for env, missing in (({'RANK': '0'}, 'RANK=0 but not WORLD_SIZE'),
                         ({'WORLD_SIZE': '2'}, 'WORLD_SIZE=2 but not RANK'),
                         ({'PMI_RANK': '1'}, 'PMI_RANK=1 but not PMI_SIZE'),
                         ({'RANK': '0', 'PMI_RANK': '0', 'PMI_SIZE': '2'},
                          'RANK=0 but not WORLD_SIZE'),
                         ({'RANK': '2', 'WORLD_SIZE': '2'},
                          'RANK is "2"; a number from 0 to 1'),
                         ({'RANK': '', 'WORLD_SIZE': '2'}, 'RANK is ""')):
        code, out, stderr = t.run('two', *SHORT, env=env)
        c.check(code == 2 and not out and len(errors(stderr)) == 1
                and missing in stderr, f'{env}', (code, stderr))
    # Refused before anything goes over a network: this host answers nobody.
    away = {'RANK': '0', 'WORLD_SIZE': '4', 'MASTER_ADDR': '203.0.113.9',
            'MASTER_PORT': '29500'}
    begin = time.monotonic()
    code, _, stderr = t.run('two', *SHORT, env=away)
    c.check(code == 4 and 'has 4 rank(s)' in stderr
            and 'torchrun --nproc-per-node 2 --no-python dsrun two' in stderr
            and time.monotonic() - begin < 2, 'a wrong world first', stderr)

    several = {
        'torchrun': {**torch_variables(0, 2, 1), 'LOCAL_WORLD_SIZE': '1'},
        'deepspeed': {'RANK': '0', 'WORLD_SIZE': '2', 'LOCAL_RANK': '0',
                      'LOCAL_SIZE': '1', 'CROSS_SIZE': '2'},
        'Slurm': {'SLURM_PROCID': '0', 'SLURM_NTASKS': '2',
                  'SLURM_STEP_ID': '0', 'SLURM_STEP_NUM_NODES': '2'},
        'flux': {'FLUX_TASK_RANK': '0', 'FLUX_JOB_SIZE': '2',
                 'FLUX_JOB_NNODES': '2'},
        '--rank': {**away, 'WORLD_SIZE': '2'},
    }
    for name, env in several.items():
        begin = time.monotonic()
        code, out, stderr = t.run('two', *SHORT, env=env)
        c.check(code == 4 and not out and len(stderr.splitlines()) == 1
                and "one host's memory" in stderr
                and time.monotonic() - begin < 2,
                f'{name}: several hosts', (code, stderr))
    code, _, stderr = t.run('two', *SHORT, env={
        **away, 'WORLD_SIZE': '2', 'MASTER_ADDR': 'no-such-host.invalid'})
    c.check(code == 5 and 'MASTER_ADDR=no-such-host.invalid does not resolve'
            in stderr and '3 tries' in stderr, 'an unknown host', (code, stderr))
    # This host by any name, without the launcher's word on locality.
    for name in ('localhost', socket.gethostname(), '127.0.0.1'):
        port = str(free_port())
        got = t.finish(*(t.start('two', *SHORT, env={
            'RANK': str(r), 'WORLD_SIZE': '2', 'MASTER_ADDR': name,
            'MASTER_PORT': port}) for r in (0, 1)))
        c.check([g[0] for g in got] == [0, 0] and got[0][1] == ids,
                f'MASTER_ADDR={name}', got)

    code, out, stderr = t.run('two', *SHORT, '--spawn', '2',
                              env=torch_variables(0, 1, 1))
    c.check(code == 0 and out == ids and '(started here)' in stderr,
            '--spawn 2 in spite of a launcher', stderr)
    code, out, stderr = t.run('two', *SHORT, '--spawn', '4')
    c.check(code == 4 and '--spawn starts 4 rank(s), the plan has 2' in stderr,
            '--spawn 4', (code, stderr))
    code, out, stderr = t.run('two', *SHORT, '--spawn')
    c.check(code == 2 and '--spawn is ""' in stderr, '--spawn', (code, stderr))
    # A batch script of Slurm's is no task of srun's.
    code, out, stderr = t.run('two', *SHORT, env={
        'ENVIRONMENT': 'BATCH', 'SLURM_JOB_ID': '7', 'SLURM_PROCID': '0',
        'SLURM_LOCALID': '0', 'SLURM_NTASKS': '2'})
    c.check(code == 0 and out == ids, 'in a batch script', (code, stderr))


def check_real_mpirun(t, c, ids):
    code, out, stderr = t.run('two', *SHORT, before=[*MPIRUN, '2'])
    c.check(code == 0 and out == ids and 'world 2 (OpenMPI), ' in stderr,
            'mpirun', (code, out, stderr))
    code, out, stderr = t.run('three', *SHORT, before=[*MPIRUN, '2'])
    c.check(code == 4 and not out and 'start 3 (mpirun -n 3 dsrun three'
            in stderr, 'mpirun: 2 ranks for 3', (code, stderr))
    # The launcher's own shell, which expands its variable late.
    script = f'{t.dsrun} two {" ".join(SHORT)} --rank $OMPI_COMM_WORLD_RANK'
    p = t.start(before=[*MPIRUN, '2', 'sh', '-c', script])
    code, out, stderr = t.finish(p)[0]
    c.check(code == 0 and out == ids and '(--rank)' in stderr,
            'mpirun with --rank', (code, stderr))
    # Two launches of one plan at once.
    got = t.finish(*(t.start('two', *SHORT, before=[*MPIRUN, '2'])
                     for _ in range(2)))
    c.check([g[:2] for g in got] == [(0, ids)] * 2, 'two launches at once', got)
    for kill in (0, 1):
        p = t.start('two', *WORK, '-n', 50000, before=[*MPIRUN, '2'])
        p.stdout.read(4)
        ranks = t.ranks()
        c.check(len(ranks) == 2, 'mpirun: two ranks', ranks)
        os.kill(ranks[kill], 9)
        code, out, stderr = t.finish(p)[0]
        c.check(code != 0 and wait_until(lambda: not t.ranks(), 2),
                f'mpirun: rank {kill} is killed', (code, stderr))
    p = t.start('two', *WORK, '-n', 50000, before=[*MPIRUN, '2'])
    p.stdout.read(4)
    p.kill()
    c.check(wait_until(lambda: not t.ranks(), 2), 'mpirun is killed', t.ranks())
    t.finish(p)


# A launcher's process: starts two ranks and waits.
LAUNCHER = """import os, subprocess, sys
dsrun, *args = sys.argv[1:]
ranks = [subprocess.Popen([dsrun, *args],
                          env={**os.environ, 'RANK': str(r), 'LOCAL_RANK': str(r)})
         for r in (0, 1)]
for p in ranks: p.wait()
"""
# What starts a launcher, as deepspeed does.
RUNNER = """import subprocess, sys
subprocess.run([sys.executable, *sys.argv[1:]])
"""


def check_end_of_launcher(t, c):
    """A launcher's process is killed: its ranks end with one line. deepspeed
    has two, and the first one's end does not end the second."""
    for name, text in (('launch.py', LAUNCHER), ('deepspeed', RUNNER)):
        with open(name, 'w') as f:
            f.write(text)
    work = ['launch.py', t.dsrun, 'two', *WORK, '-n', '50000']
    for what, mark, command in (
            ('torchrun', 'TORCHELASTIC_RUN_ID', work),
            ('deepspeed', 'CROSS_SIZE', ['deepspeed', *work])):
        env = {**t.env, **torch_variables(0, 2, free_port()), mark: '1',
               'LOCAL_SIZE': '2'}
        with open('answer', 'wb') as answer:
            p = subprocess.Popen([sys.executable, *command], env=env, text=True,
                                 stdout=answer, stderr=subprocess.PIPE)
        c.check(wait_until(lambda: os.path.getsize('answer') > 4, 30),
                f'{what}: ranks at work')
        p.kill()
        c.check(wait_until(lambda: not t.ranks(), 2), f'{what} is killed',
                t.ranks())
        stderr = p.communicate()[1]
        c.check(errors(stderr) == [f'dsrun: the launcher (pid {p.pid}, {what}) '
                                   'has ended, and its ranks with it'],
                f'{what} is killed: one line', stderr)


def main():
    dscompile, dsrun = (os.path.realpath(p) for p in sys.argv[1:])
    c = Checks()
    shm = shm_files()
    with Scratch() as tmp:
        tmp = os.path.realpath(tmp)
        os.chdir(tmp)
        make_plans(dscompile, c, {'one': [], 'two': ['--tp', 2],
                                  'three': ['--tp', 3]})
        t = Starter(dsrun, tmp)
        ids = check_variables(t, c)
        check_local_rank(t, c, ids)
        check_refusals(t, c, ids)
        check_real_mpirun(t, c, ids)
        check_end_of_launcher(t, c)
        c.check(not files_below(t.runtime_dir) and not t.ranks()
                and shm_files() <= shm, 'nothing is left',
                files_below(t.runtime_dir))
    c.finish()


main()
