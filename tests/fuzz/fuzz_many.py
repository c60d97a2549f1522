#!/usr/bin/env python3
"""Runs all fuzz targets that lack executions on many cores for some time.

    fuzz_many.py BUILD --work FOLDER --runs N --seconds S --cores C

BUILD, FOLDER and N are run_fuzz.py's; what is counted goes to the same
FOLDER/counts.tsv. Each core takes a target that had no slice yet, else the one
that is nearest to its sum, runs it for a slice, and takes the next; a few
processes of one target share a corpus and have seeds of their own. A target
with three findings rests.
FOLDER/TARGET/start may hold the inputs to begin with (--prepared); otherwise
they are made of the tree.
"""
import argparse
import ctypes
import datetime
import os
import pathlib
import re
import resource
import subprocess
import sys
import threading
import time

import run_fuzz

SLICE = 60  # seconds
MOST_PROCESSES = 4  # of one target, while others lack executions too
MOST_FINDINGS = 3
# Where they run a plan, not only read it.
LOAD_AND_STEP = ('plan', 'selftest')
LOAD_AND_STEP_RUNS = 300_000
LIMITS = ('-rss_limit_mb=2048', '-timeout=25', '-reload=0',
          '-print_final_stats=1')
NO_RANDOM_ADDRESSES = 0x0040000  # personality(2); shadow memory may collide


def before_exec():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.CDLL(None).personality(NO_RANDOM_ADDRESSES)


class Target:
    def __init__(self, name, lacks, rate):
        self.name, self.lacks, self.rate = name, lacks, rate
        self.begun = self.active = self.findings = self.failures = 0

    def need(self):
        """Seconds of a core until the sum is reached, behind what runs."""
        return self.lacks / self.rate - self.active * SLICE / 2

    def order(self):
        return self.begun > 0, self.active >= MOST_PROCESSES, self.need()


class Fuzzing:
    def __init__(self, args):
        self.args, self.lock, self.number = args, threading.Lock(), 0
        self.end = time.monotonic() + args.seconds
        have = run_fuzz.counted(args.work)
        rates = measured_rates(args.work)
        self.targets = []
        for name in args.targets or run_fuzz.all_programs(args.build):
            runs = (min(args.runs, LOAD_AND_STEP_RUNS)
                    if name in LOAD_AND_STEP else args.runs)
            lacks = runs - have.get(name, 0)
            if lacks > 0:
                self.targets.append(Target(name, lacks, rates.get(name, 1500)))

    def next(self):
        """The target to run, or None, and a number for the slice."""
        with self.lock:
            open_ones = [t for t in self.targets if t.need() > 0 and
                         t.findings < MOST_FINDINGS and t.failures < 5]
            if not open_ones or self.end - time.monotonic() < 3:
                return None, 0
            target = min(open_ones, key=Target.order)
            target.begun += 1
            target.active += 1
            self.number += 1
            return target, self.number

    def worker(self):
        while True:
            target, number = self.next()
            if target is None:
                return
            try:
                self.slice(target, number)
            finally:
                with self.lock:
                    target.active -= 1

    def slice(self, target, number):
        folder = self.args.work / target.name
        corpus, findings, logs = (folder / n for n in (
            'corpus', 'findings', 'logs'))
        for made in (corpus, findings, logs):
            made.mkdir(parents=True, exist_ok=True)
        left = self.end - time.monotonic()
        # What is left for one more slice belongs to this one.
        wanted = left if left < 1.6 * SLICE else SLICE
        log = logs / f'{number}.log'
        seed = int(time.time()) % 100_000 * 1000 + number
        line = run_fuzz.command(
            self.args.build, target.name, *LIMITS, f'-seed={seed}',
            f'-max_total_time={max(1, int(wanted))}',
            f'-runs={max(1, target.lacks)}',
            f'-artifact_prefix={findings}/{number}-', corpus, folder / 'start')
        with open(log, 'wb') as out:
            child = subprocess.Popen(
                line, stdout=subprocess.DEVNULL, stderr=out,
                preexec_fn=before_exec, start_new_session=True,
                env={**os.environ, 'ASAN_OPTIONS': run_fuzz.OPTIONS +
                     ':allocator_release_to_os_interval_ms=-1',
                     'UBSAN_OPTIONS': 'print_stacktrace=1'})
        killer = threading.Timer(wanted + 40, child.kill)
        killer.start()
        _, status, usage = os.wait4(child.pid, 0)
        killer.cancel()
        code = os.waitstatus_to_exitcode(status)
        child.returncode = code
        busy = usage.ru_utime + usage.ru_stime
        text = log.read_text(errors='replace')
        found = sorted(findings.glob(f'{number}-*'))
        count = run_fuzz.executions(text)
        with self.lock:
            if code != 0 and not found and count < 100:
                target.failures += 1  # it did not begin
                print(f'{target.name}: ended with {code}: {text[-300:]}',
                      flush=True)
                return
            target.lacks -= count
            if busy > 1:
                target.rate = max(1.0, count / busy)
            # A slow one may have waited for a core; it is kept to be tried.
            bad = code not in (0, -9)
            target.findings += bad
            how = f'finding ({code})' if bad else 'clean'
            with open(self.args.work / 'counts.tsv', 'a') as out:
                out.write(f'{target.name}\t{count}\t{wanted:.0f}\t'
                          f'{datetime.datetime.now():%Y-%m-%d %H:%M}\t{how}\t'
                          f'{busy:.0f}\n')
            if bad:
                print(f'{target.name}: {how}: {[p.name for p in found]}',
                      flush=True)


def measured_rates(work):
    """Executions in a processor's second, by target."""
    sums, log = {}, work / 'counts.tsv'
    for line in log.read_text().splitlines() if log.exists() else []:
        target, runs, _, _, _, *busy = line.split('\t')
        if busy and int(busy[0]) >= 5:
            s = sums.setdefault(target, [0, 0])
            s[0] += int(runs)
            s[1] += int(busy[0])
    return {t: max(1.0, runs / busy) for t, (runs, busy) in sums.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('build', type=pathlib.Path)
    parser.add_argument('targets', nargs='*')
    parser.add_argument('--work', type=pathlib.Path, required=True)
    parser.add_argument('--runs', type=int, default=5_000_000)
    parser.add_argument('--seconds', type=int, default=540)
    parser.add_argument('--cores', type=int, default=os.cpu_count())
    parser.add_argument('--prepared', action='store_true',
                        help='FOLDER/TARGET/start is there')
    args = parser.parse_args()
    args.build = args.build.resolve()
    args.work.mkdir(parents=True, exist_ok=True)
    fuzzing = Fuzzing(args)
    if not args.prepared:
        for target in fuzzing.targets:
            run_fuzz.prepare(args.build, target.name, args.work / target.name)
    workers = [threading.Thread(target=fuzzing.worker)
               for _ in range(args.cores)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for t in fuzzing.targets:
        print(f'{t.name}: {max(0, t.lacks)} lack, {t.rate:.0f} a processor '
              f'second, {t.findings} findings', flush=True)
    return 0 if not any(t.findings for t in fuzzing.targets) else 1


if __name__ == '__main__':
    sys.exit(main())
