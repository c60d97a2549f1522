#!/usr/bin/env python3
"""What dsrun makes of a GPU that is wrong, absent or lost, without one.

    gpu_faults.py DSCOMPILE DSRUN LIBRARY

LIBRARY stands for libcuda, cuBLASLt and NCCL (fake_gpu_libraries.cc): kernels do
nothing, so every token is 0. Every end is one line in words, with the documented
exit code.
"""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from harness import SKIPPED, TOP, Checks, Scratch, run  # noqa: E402

LIBRARIES = ('libcuda.so.1', 'libcublasLt.so.13', 'libnccl.so.2')
WORK = ['--prompt-ids', '5,6,7', '--greedy', '--ignore-eos', '--print-ids']
# At GRAPH_US a step, longer than a test takes.
ENDLESS = ['--prompt-ids', '5,6,7', '--greedy', '--ignore-eos', '-n', '2000']
GRAPH_US = 5000
TOOLKIT = '/usr/local/cuda/lib64'  # where libraries are looked for, too
DEADLINE_S = 5.0


def children(pid):
    """The processes that `pid` started, oldest first."""
    found = []
    for name in os.listdir('/proc'):
        if name.isdigit():
            try:
                with open(f'/proc/{name}/stat', encoding='utf-8') as f:
                    if int(f.read().rsplit(')', 1)[1].split()[1]) == pid:
                        found.append(int(name))
            except (OSError, IndexError):
                pass
    return sorted(found)


def find_library(name):
    with open('/proc/self/maps', encoding='utf-8') as f:
        for line in f:
            if line.rstrip().endswith('/' + name):
                return line.split()[-1]
    return f'/lib/{os.uname().machine}-linux-gnu/{name}'


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


class FakeMachine:
    """dsrun on a machine whose GPU the environment describes."""

    def __init__(self, dsrun, library, tmp, c):
        self.dsrun, self.library, self.tmp, self.c = dsrun, library, tmp, c
        self.folders = 0

    def env(self, without=(), **fake):
        self.folders += 1
        folder = os.path.join(self.tmp, f'lib{self.folders}')
        os.mkdir(folder)
        for name in LIBRARIES:
            if name not in without:
                os.symlink(self.library, os.path.join(folder, name))
            elif os.path.exists(os.path.join(TOOLKIT, name)):
                # One that lacks what is needed stands before the machine's own.
                os.symlink(find_library('libm.so.6'),
                           os.path.join(folder, name))
        env = {k: v for k, v in os.environ.items()
               if k not in ('RANK', 'WORLD_SIZE', 'LOCAL_RANK')
               and not k.startswith(('FAKE_', 'OMPI_', 'PMI_', 'SLURM_'))}
        env.update(LD_LIBRARY_PATH=folder, XDG_RUNTIME_DIR=self.tmp,
                   XDG_CACHE_HOME=os.path.join(self.tmp, 'cache'),
                   DEEPSLICE_ONE_SHOT_BYTES='0')
        env.update({k: str(v) for k, v in fake.items()})
        return env

    def ends(self, what, code, parts, args, without=(), **fake):
        """dsrun ends with `code` and one line that holds all `parts`."""
        r = run(self.dsrun, *args, env=self.env(without, **fake), timeout=60)
        lines = [x for x in r.stderr.splitlines() if x.startswith('dsrun: ')]
        self.c.check(
            r.returncode == code and len(lines) == 1
            and all(p in lines[0] for p in parts),
            what, f'rc {r.returncode} for {code}, wanted {parts} in: {r.stderr}')
        return r


def check_machine(m, plan):
    """One rank: what the machine lacks is said before anything is done."""
    r = run(m.dsrun, plan, *WORK, '-n', 6, env=m.env(), timeout=60)
    m.c.check(r.returncode == 0 and r.stdout == '0,0,0,0,0,0\n', 'a good run',
              f'rc {r.returncode} {r.stdout} {r.stderr}')
    args = [plan, *WORK, '-n', 4, '--device', 'cuda']
    m.ends('another architecture', 4, ['sm_90a', 'sm_80', '--target'], args,
           FAKE_CUDA_CC='8.0')
    m.ends('driver too old', 4, ['CUDA 12.0', 'CUDA 13.0'], args,
           FAKE_CUDA_DRIVER=12000)
    m.ends('no device', 4, ['GPU'], args, FAKE_CUDA_DEVICES=0)
    m.ends('no such device', 4, ['device 3', '1 GPU'],
           [plan, *WORK, '-n', 4, '--device', 'cuda:3'])
    m.ends('libcuda missing', 4, ['libcuda.so.1', 'driver'], args,
           without=('libcuda.so.1',))
    m.ends('cuBLASLt missing', 4, ['libcublasLt', 'LD_LIBRARY_PATH'], args,
           without=('libcublasLt.so.13',))
    r = m.ends('too little memory', 4, ['MiB are free', 'Fake H200'], args,
               FAKE_CUDA_MEMORY=300000)
    m.c.check(len(re.findall(r'\d+\.\d MiB', r.stderr)) >= 5,
              'too little memory, with numbers', r.stderr)
    # Room for the weights and some sequences, not for all that were asked for.
    r = run(m.dsrun, 'bench', plan, '-p', 8, '-n', 8, '-b', 2,
            '--report-memory', env=m.env(), timeout=60)
    m.c.check(r.returncode == 0 and 'ratio' in r.stderr, 'memory report',
              r.stderr)
    taken = sum(int(x) for x in re.findall(
        r'^(?:of the plan|workspace) .*?(\d+)(?:  ratio.*)?$', r.stderr,
        re.MULTILINE))
    m.ends('the batch that fits', 4, ['--max-batch'],
           ['bench', plan, '-p', 8, '-n', 8, '-b', 2, '--device', 'cuda'],
           FAKE_CUDA_MEMORY=taken - 1)


def check_fallback(m, plan):
    """A plan for both: where the GPU can't be had, the CPU runs it."""
    args = [plan, *WORK, '-n', 4]
    for what, note, without, fake in (
            ('an old driver', 'CUDA 12.0', (), {'FAKE_CUDA_DRIVER': 12000}),
            ('another card', 'sm_80', (), {'FAKE_CUDA_CC': '8.0'}),
            ('no driver', '', ('libcuda.so.1',), {})):
        r = run(m.dsrun, *args, env=m.env(without, **fake), timeout=60)
        notes = [x for x in r.stderr.splitlines() if x.startswith('note: ')]
        m.c.check(r.returncode == 0 and r.stdout.count(',') == 3
                  and len(notes) == (1 if note else 0)
                  and all('running on the CPU' in x and note in x
                          for x in notes),
                  f'the CPU instead, {what}', f'rc {r.returncode} {r.stderr}')


def check_images(m, plan):
    """Kernels that were damaged, and ones that the driver refuses."""
    bad = os.path.join(m.tmp, 'bad')
    shutil.copytree(plan, bad)
    kernels = os.path.join(bad, 'kernels.bin')
    with open(kernels, 'r+b') as f:
        # In every kernel, for only those that a run needs are looked at.
        for at in range(1000, os.path.getsize(kernels), 2000):
            f.seek(at)
            byte = f.read(1)[0]
            f.seek(at)
            f.write(bytes([byte ^ 0x10]))
    m.ends('flipped bits of cubins', 3, ['kernels.bin'],
           [bad, *WORK, '-n', 4, '--device', 'cuda'])
    for error, code, what in ((200, 3, 'a damaged cubin'),
                              (209, 4, 'of another card'),
                              (218, 3, 'PTX that is none'),
                              (222, 4, 'PTX too new')):
        m.ends(f'an image that the driver refuses: {what}', code, ['kernel'],
               [plan, *WORK, '-n', 4, '--device', 'cuda'],
               FAKE_CUDA_FAIL=f'ModuleLoadData:{error}:2')
    with open(kernels, 'r+b') as f:
        f.truncate(os.path.getsize(kernels) - 4096)
    m.ends('kernels.bin cut', 3, ['kernels.bin'],
           [bad, *WORK, '-n', 4, '--device', 'cuda'])


def check_errors(m, plan):
    """Errors of the driver in the middle of a run."""
    r = run(m.dsrun, plan, *WORK, '-n', 40, '--device', 'cuda',
            env=m.env(FAKE_CUDA_FAIL='EventQuery:700:60'), timeout=60)
    m.c.check(r.returncode == 1 and 'CUDA_ERROR_ILLEGAL_ADDRESS' in r.stderr
              and r.stderr.count('dsrun: ') == 1, 'a late error',
              f'rc {r.returncode} {r.stderr}')
    m.ends('a launch that fails names its step', 1,
           ['CUDA_ERROR_ILLEGAL_ADDRESS'],
           [plan, *WORK, '-n', 40, '--device', 'cuda'],
           FAKE_CUDA_FAIL='LaunchKernelEx:700:9')


def check_ranks(m, plan):
    """Two ranks: a library that is missing, another world, a lost rank."""
    args = [plan, *WORK, '-n', 6]
    r = run(m.dsrun, *args, '--share-gpu', env=m.env(), timeout=60)
    m.c.check(r.returncode == 0 and r.stdout == '0,0,0,0,0,0\n', 'two ranks',
              f'rc {r.returncode} {r.stdout} {r.stderr}')
    m.ends('NCCL missing', 4, ['libnccl.so.2'],
           [*args, '--share-gpu', '--device', 'cuda'],
           without=('libnccl.so.2',))
    m.ends('another world size', 4, ['3', '2'],
           [*args, '--rank', 1, '--world-size', 3])
    m.ends('fewer GPUs than ranks', 4, ['--share-gpu'],
           [*args, '--device', 'cuda'])
    for hang in (0, 30):
        for torchrun in (False, True):
            for victim in (0, 1):
                check_lost_rank(m, plan, hang, torchrun, victim)


def check_lost_rank(m, plan, hang, torchrun, victim):
    """kill -9 of a rank, which works or waits for its GPU."""
    what = (f'rank {victim} killed, {"torchrun" if torchrun else "dsrun"}, '
            f'{"waiting for the GPU" if hang else "at work"}')
    env = m.env(FAKE_CUDA_GRAPH_US=GRAPH_US, FAKE_NCCL_HANG=hang)
    command = [m.dsrun, plan, *ENDLESS, '--share-gpu', '--device', 'cuda']
    started, port = [], free_port()
    for rank in range(2 if torchrun else 1):
        if torchrun:
            env = dict(env, RANK=str(rank), WORLD_SIZE='2',
                       LOCAL_RANK=str(rank), MASTER_ADDR='127.0.0.1',
                       MASTER_PORT=str(port))
        started.append(subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    try:
        if hang:
            time.sleep(2.5)  # how much is said before it is unknown
        else:
            started[0].stdout.read(10)
        pids = ([p.pid for p in started] if torchrun
                else children(started[0].pid))
        if not m.c.check(len(pids) == 2, what, f'{len(pids)} ranks'):
            return
        os.kill(pids[victim], signal.SIGKILL)
        begin = time.monotonic()
        texts = [p.communicate(timeout=30)[1] for p in started]
        took = time.monotonic() - begin
        codes = [p.returncode for r, p in enumerate(started)
                 if not torchrun or r != victim]
        lines = [x for t in texts for x in t.splitlines()
                 if x.startswith('dsrun: ')]
        m.c.check(took < DEADLINE_S and set(codes) == {5} and len(lines) == 1
                  and f'rank {victim} (pid {pids[victim]})' in lines[0],
                  what, f'{took:.1f} s, exit {codes}, {texts}')
    finally:
        for p in started:
            if p.poll() is None:
                p.kill()
                p.communicate()


def main():
    dscompile, dsrun, library = sys.argv[1:4]
    library = os.path.abspath(library)
    c = Checks()
    with Scratch() as tmp:
        source = os.path.join(tmp, 'random')
        run(sys.executable, os.path.join(TOP, 'tools/make_random_checkpoint.py'),
            source)
        plans = {}
        for name, flags in ((1, ['--target', 'sm_90a']),
                            (2, ['--target', 'sm_90a', '--tp', 2]),
                            ('both', ['--target', 'cpu,sm_90a'])):
            plans[name] = os.path.join(tmp, f'plan-{name}')
            r = run(dscompile, source, *flags, '-q', '-o', plans[name],
                    timeout=280)
            if c.left_out(r, 'all of it'):
                sys.exit(SKIPPED)
            if not c.check(r.returncode == 0, f'compile {flags}', r.stderr):
                c.finish()
        m = FakeMachine(dsrun, library, tmp, c)
        check_machine(m, plans[1])
        check_fallback(m, plans['both'])
        check_images(m, plans[1])
        check_errors(m, plans[1])
        check_ranks(m, plans[2])
    c.finish()


main()
