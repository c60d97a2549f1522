#!/usr/bin/env python3
"""Kills a rank in the middle of a generation and checks how the launch ends.

    kill_rank.py DSRUN PLAN [--prompt-ids 1,2,3] [--rounds N] [--deadline S]
                 [--flags='--device cuda --share-gpu']

PLAN has at least two ranks and a tokenizer. Each rank is killed in turn, behind
the first words of an answer, in launches where dsrun starts the ranks itself and
in launches with torchrun's variables. Checked: all processes are gone by the
deadline (2 s), exit code 5 (the launch's, or each survivor's), one line that names the killed
rank as the root cause, nothing new in /dev/shm, no socket left. Standard library
only; the last line is 'N passed, N failed'.
"""
import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def children(pid):
    """The processes that `pid` started, oldest first."""
    try:
        with open(f'/proc/{pid}/task/{pid}/children') as f:
            return [int(p) for p in f.read().split()]
    except OSError:
        pass
    found = []
    for name in os.listdir('/proc'):
        if name.isdigit():
            try:
                with open(f'/proc/{name}/stat') as f:
                    if int(f.read().rsplit(')', 1)[1].split()[1]) == pid:
                        found.append(int(name))
            except (OSError, IndexError):
                pass
    return sorted(found)


def alive(pid):
    try:
        with open(f'/proc/{pid}/stat') as f:
            return f.read().rsplit(')', 1)[1].split()[0] != 'Z'
    except OSError:
        return False


def files_below(folder):
    return {os.path.join(at, name)
            for at, _, names in os.walk(folder) for name in names}


class Launch:
    """dsrun at work: its processes by rank, and what they print."""

    def __init__(self, args, world, self_spawned):
        self.tmp = tempfile.TemporaryDirectory(prefix='kill-rank-')
        env = {k: v for k, v in os.environ.items()
               if k not in ('RANK', 'WORLD_SIZE', 'LOCAL_RANK', 'MASTER_ADDR',
                            'MASTER_PORT')
               and not k.startswith(('OMPI_', 'PMI_', 'SLURM_', 'MV2_'))}
        env['XDG_RUNTIME_DIR'] = self.tmp.name
        command = [args.dsrun, args.plan, '--prompt-ids', args.prompt_ids,
                   '--ignore-eos', '--greedy', '-n', str(args.new_tokens),
                   *args.flags.split()]
        self.processes, self.ranks = [], []
        port = free_port()
        for rank in range(1 if self_spawned else world):
            if not self_spawned:
                env.update(RANK=str(rank), WORLD_SIZE=str(world),
                           LOCAL_RANK=str(rank), MASTER_ADDR='127.0.0.1',
                           MASTER_PORT=str(port))
            self.processes.append(subprocess.Popen(
                command, env=env, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
                stderr=open(self.log(rank), 'w')))
        # When rank 0 prints, all ranks are at work.
        self.processes[0].stdout.read(40)
        self.ranks = (children(self.processes[0].pid) if self_spawned
                      else [p.pid for p in self.processes])

    def log(self, rank):
        return os.path.join(self.tmp.name, f'stderr.{rank}')

    def stderr(self):
        text = ''
        for rank in range(len(self.processes)):
            with open(self.log(rank)) as f:
                text += f.read()
        return text

    def close(self):
        for pid in self.ranks + [p.pid for p in self.processes]:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
        for p in self.processes:
            p.wait()
        self.processes[0].stdout.close()
        self.tmp.cleanup()


def check(args, world, self_spawned, victim):
    """None when all is as promised, else what is not."""
    shm_before = files_below('/dev/shm')
    launch = Launch(args, world, self_spawned)
    try:
        if len(launch.ranks) != world:
            return f'{len(launch.ranks)} of {world} ranks started: {launch.stderr()}'
        if not all(alive(p) for p in launch.ranks):
            return ('the generation was over before the kill; raise '
                    f'--new-tokens: {launch.stderr()}')
        killed = launch.ranks[victim]
        os.kill(killed, signal.SIGKILL)
        start = time.monotonic()
        while (any(p.poll() is None for p in launch.processes)
               and time.monotonic() < start + args.deadline):
            time.sleep(0.005)
        took = time.monotonic() - start
        running = [r for r, pid in enumerate(launch.ranks) if alive(pid)]
        if running or any(p.poll() is None for p in launch.processes):
            return f'after {took:.1f} s ranks {running} still run'
        for rank, p in enumerate(launch.processes):
            if not self_spawned and rank == victim:
                continue
            if p.returncode != 5:
                return f'exit code {p.returncode} (process {rank}) for 5: {launch.stderr()}'
        causes = [line for line in launch.stderr().splitlines()
                  if line.startswith('dsrun: ')]
        if len(causes) != 1 or f'rank {victim} (pid {killed})' not in causes[0]:
            return f'no one line that names rank {victim} (pid {killed}): {causes}'
        left = files_below('/dev/shm') - shm_before
        left |= {f for f in files_below(launch.tmp.name)
                 if not os.path.basename(f).startswith('stderr.')}
        if left:
            return f'left behind: {sorted(left)}'
        print(f'ok   {took:.2f} s: {causes[0]}')
        return None
    finally:
        launch.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('dsrun')
    parser.add_argument('plan')
    parser.add_argument('--prompt-ids', default='1,2,3')
    parser.add_argument('--new-tokens', type=int, default=400,
                        help='enough to be still at work at the kill')
    parser.add_argument('--rounds', type=int, default=1)
    parser.add_argument('--deadline', type=float, default=2.0,
                        help='seconds from the kill to the end of all')
    parser.add_argument('--flags', default='', help='more of dsrun\'s flags')
    args = parser.parse_args()
    with open(os.path.join(args.plan, 'manifest.json')) as f:
        world = json.load(f)['world_size']
    if world < 2:
        sys.exit(f'{args.plan} has {world} rank; at least 2 are needed')
    passed = failed = 0
    for _ in range(args.rounds):
        for self_spawned in (True, False):
            for victim in range(world):
                problem = check(args, world, self_spawned, victim)
                if problem is None:
                    passed += 1
                    continue
                failed += 1
                how = 'started by dsrun' if self_spawned else 'torchrun'
                print(f'FAIL tp {world}, {how}, rank {victim} killed: {problem}')
    print(f'{passed} passed, {failed} failed')
    sys.exit(1 if failed or not passed else 0)


main()
