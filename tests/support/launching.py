"""What the tests of launches share: plans, a clean environment, processes.

Standard library only.
"""
import json
import os
import signal
import socket
import subprocess
import sys
import time

from harness import TOP, run

WORK = ['--prompt-ids', '5,6,7', '--greedy', '--ignore-eos']

# The variables by which ranks are told: those of the test's own surroundings
# must not be read.
PREFIXES = ('RANK', 'WORLD_SIZE', 'LOCAL_', 'MASTER_', 'GROUP_', 'CROSS_',
            'TORCHELASTIC_', 'OMPI_', 'PMI', 'MPI_', 'MV2_', 'SLURM_', 'FLUX_',
            'ENVIRONMENT')


def clean_env(runtime_dir, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(PREFIXES)}
    env['XDG_RUNTIME_DIR'] = runtime_dir
    return {**env, **more}


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def make_plans(dscompile, c, plans):
    """Folder source, and for each {name: flags} a plan of 60000 positions,
    which no test lives to fill."""
    maker = os.path.join(TOP, 'tools', 'make_random_checkpoint.py')
    c.check(run(sys.executable, maker, 'source').returncode == 0, 'source')
    with open('source/config.json') as f:
        config = json.load(f)
    config['max_position_embeddings'] = 60000
    with open('source/config.json', 'w') as f:
        json.dump(config, f)
    for name, flags in plans.items():
        r = run(dscompile, 'source', '--max-seq-len', 60000, '-o', name, *flags)
        c.check(r.returncode == 0, f'dscompile {flags}', r.stderr)


def state(pid):
    """One letter, 'Z' for what has ended."""
    try:
        with open(f'/proc/{pid}/stat') as f:
            return f.read().rsplit(')', 1)[1].split()[0]
    except OSError:
        return 'Z'


def processes(program):
    """Those that run `program` in the current folder: other tests run beside
    this one. Oldest first."""
    out = []
    for name in os.listdir('/proc'):
        try:
            if (name.isdigit()
                    and os.readlink(f'/proc/{name}/exe') == program
                    and os.readlink(f'/proc/{name}/cwd') == os.getcwd()
                    and state(name) != 'Z'):
                out.append(int(name))
        except OSError:
            pass
    return sorted(out)


def wait_until(condition, seconds):
    """Whether `condition()` became true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def kill_all(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def files_below(folder):
    return {os.path.join(at, name)
            for at, _, names in os.walk(folder) for name in names}


def shm_files():
    """What lies in /dev/shm, but for Open MPI's own."""
    return {x for x in os.listdir('/dev/shm')
            if not x.startswith(('open_mpi', 'vader_'))}


class Starter:
    """Starts dsrun, alone or as ranks with variables, in the current folder."""

    def __init__(self, dsrun, tmp):
        self.dsrun = dsrun
        self.runtime_dir = os.path.join(tmp, 'run')
        os.makedirs(self.runtime_dir, exist_ok=True)
        self.env = clean_env(self.runtime_dir)

    def start(self, *args, env=None, before=(), **more):
        return subprocess.Popen(
            [*before, self.dsrun, *map(str, args)],
            **{'stdin': subprocess.DEVNULL, 'stdout': subprocess.PIPE,
               'stderr': subprocess.PIPE, 'text': True,
               'errors': 'replace', 'env': {**self.env, **(env or {})}, **more})

    def finish(self, *started, timeout=60):
        """-> [(exit code, stdout, stderr)] of started processes."""
        out = []
        for p in started:
            stdout, stderr = p.communicate(timeout=timeout)
            out.append((p.returncode, stdout, stderr))
        return out

    def run(self, *args, **more):
        return self.finish(self.start(*args, **more))[0]

    def ranks(self):
        return processes(self.dsrun)


def torch_variables(rank, world, port):
    return {'RANK': str(rank), 'WORLD_SIZE': str(world),
            'LOCAL_RANK': str(rank), 'LOCAL_WORLD_SIZE': str(world),
            'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': str(port)}
