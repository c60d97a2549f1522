#!/usr/bin/env python3
"""Times dscompile against copying and hashing the same bytes.

    bench_compile.py DSCOMPILE [--forms safetensors,torch,megatron,zero3]
                     [--gigabytes 4] [--tp 4] [--rounds 5] [--memory MIB]
                     [--dir DIR]

For each container (make_large_checkpoint.py) makes a checkpoint of that size,
then, in turn: `cp && sync` plus `openssl dgst -sha256` of it, and `dscompile --tp
N --dtype bf16` of it. The page cache is warm. One more run, not timed, begins
with the source out of the page cache: what the disk then gave is what was read,
and the largest anonymous memory is watched. With --memory the mapped source is
driven out of memory in this run whenever so much has come from the disk, as if no
more of it had room: what is then read again is what was under way. Prints a row
for each container.
"""
import argparse
import ctypes
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import make_large_checkpoint


def files_of(folder):
    return [os.path.join(at, n) for at, _, names in os.walk(folder)
            for n in names]


def timed(*command):
    begin = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begin


def forget(paths):
    """Takes files out of the page cache."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


class IoVector(ctypes.Structure):
    _fields_ = [('base', ctypes.c_void_p), ('size', ctypes.c_size_t)]


def drive_out(pid, pidfd, folder):
    """process_madvise(MADV_PAGEOUT) of a process's mappings of a folder's
    files."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f'/proc/{pid}/maps', encoding='utf-8') as f:
        rows = [line.split(None, 5) for line in f]
    for row in rows:
        if len(row) < 6 or not row[5].startswith(folder + os.sep):
            continue
        begin, end = (int(x, 16) for x in row[0].split('-'))
        vector = IoVector(begin, end - begin)
        if libc.syscall(440, pidfd, ctypes.byref(vector), 1, 21, 0) < 0:
            sys.exit(f'process_madvise: {os.strerror(ctypes.get_errno())}')


def from_disk(pid):
    with open(f'/proc/{pid}/io', encoding='ascii') as f:
        return next(int(line.split()[1]) for line in f
                    if line.startswith('read_bytes:'))


def watched(command, source, memory):
    """Runs a command. -> its largest RssAnon in bytes, looked at every 2 ms,
    and the bytes that it had from the disk."""
    run = subprocess.Popen(command)
    pidfd = os.pidfd_open(run.pid)
    anonymous = had = 0
    while True:
        if memory and from_disk(run.pid) - had > memory:
            run.send_signal(signal.SIGSTOP)
            drive_out(run.pid, pidfd, source)
            had = from_disk(run.pid)
            run.send_signal(signal.SIGCONT)
        pid, status, usage = os.wait4(run.pid, os.WNOHANG)
        if pid:
            break
        with open(f'/proc/{run.pid}/status', encoding='ascii') as f:
            for line in f:
                if line.startswith('RssAnon:'):
                    anonymous = max(anonymous, 1024 * int(line.split()[1]))
        time.sleep(0.002)
    os.close(pidfd)
    run.returncode = os.waitstatus_to_exitcode(status)
    if run.returncode:
        sys.exit('dscompile failed')
    return anonymous, 512 * usage.ru_inblock


def bench(a, form, tmp):
    source, to, plan = (os.path.join(tmp, n) for n in ('source', 'copy', 'plan'))
    largest = make_large_checkpoint.write(source, form, a.gigabytes)
    paths = files_of(source)
    size = sum(map(os.path.getsize, paths))
    command = [a.dscompile, source, '--tp', str(a.tp), '--dtype', 'bf16', '-o',
               plan, '-q']
    os.sync()
    copied, compiled = [], []
    for i in range(a.rounds):
        copied.append(timed('sh', '-c', 'cp -r "$0" "$1" && sync', source, to)
                      + timed('openssl', 'dgst', '-sha256', *paths))
        shutil.rmtree(to)
        os.sync()
        compiled.append(timed(*command))
        shutil.rmtree(plan)
        os.sync()
        print(f'{form} {i}: copy and hash {copied[-1]:.2f} s, dscompile '
              f'{compiled[-1]:.2f} s', file=sys.stderr, flush=True)
    forget(paths)
    anonymous, read = watched(command, source, a.memory * 2**20)
    times = '- | - | -'
    if copied:
        c, d = statistics.median(copied), statistics.median(compiled)
        times = f'{c:.2f} | {d:.2f} | {d / c:.2f}'
    print(f'| {form} | {size / 2**30:.2f} | {times} | '
          f'{anonymous / 2**20:.0f} | {200 + 3 * largest / 2**20:.0f} | '
          f'{read / size:.3f} |', flush=True)
    shutil.rmtree(tmp)


def main():
    p = argparse.ArgumentParser()
    p.add_argument('dscompile', type=os.path.abspath)
    p.add_argument('--forms', default=','.join(make_large_checkpoint.FORMS))
    p.add_argument('--gigabytes', type=float, default=4)
    p.add_argument('--tp', type=int, default=4)
    p.add_argument('--rounds', type=int, default=5)
    p.add_argument('--memory', type=int, default=0)
    p.add_argument('--dir', default=None)
    a = p.parse_args()
    print('| container | GiB | copy, sync, hash s | dscompile s | ratio | '
          'anonymous MiB | bound MiB | disk reads / size |\n'
          '|---|---|---|---|---|---|---|---|', flush=True)
    for form in a.forms.split(','):
        tmp = tempfile.mkdtemp(prefix='bench-compile-', dir=a.dir)
        try:
            bench(a, form, tmp)
        finally:
            shutil.rmtree(tmp, ignore_errors=True)


main()
