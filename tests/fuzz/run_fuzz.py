#!/usr/bin/env python3
"""Runs fuzz targets and adds up their executions.

    run_fuzz.py BUILD [TARGET...] --runs N --work FOLDER
    run_fuzz.py BUILD [TARGET...] --pack --work FOLDER
    run_fuzz.py --table --work FOLDER

BUILD is a folder set up with tools/meson/fuzz.ini, after `ninja fuzz`. FOLDER
keeps what was found between calls: corpora, logs, and counts.tsv with a line
for each run. --runs is the sum that a target shall reach, over all lines of
counts.tsv: what is there already is not run again. A finding ends the target's
run; its input is in FOLDER/TARGET/findings. --pack writes the smallest set of
inputs with the same coverage to the tree's corpus, to be committed. --table
prints the sums as the table of tests/RESULTS.md.
"""
import argparse
import datetime
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys

import seeds

HERE = pathlib.Path(__file__).resolve().parent
# An input may take so many seconds of a processor. libFuzzer has a clock on the
# wall: it ends a run late and writes down inputs that may have been slow.
TIMEOUT = 5
LIMITS = ['-rss_limit_mb=512', '-malloc_limit_mb=256', '-timeout=120',
          f'-report_slow_units={TIMEOUT}']
# Longest input, where it is not 1024 bytes.
LENGTHS = {'plan': 16384, 'selftest': 16384, 'gguf': 4096, 'jinja': 2048,
           'json': 4096, 'chat_encode': 512, 'cli_args': 384, 'pickle': 2048,
           'sentencepiece_model': 4096, 'tokenizer_json': 3072,
           'torch_file': 4096, 'deepspeed_step': 16384,
           'tokenizer_tables': 2048, 'utf8_stream': 64, 'split_scanner': 96,
           'stop_strings': 128, 'regex_pretok': 256, 'passes': 2048,
           'ir_text': 1536, 'config': 1536, 'picture': 4608}
# Inputs of these have so many features that counting how rare each is takes
# longer than running them.
MANY_FEATURES = ('chat_encode', 'config', 'ir_text', 'jinja', 'passes', 'plan',
                 'tokenizer_json')
# A small quarantine stays in the processor's cache, and one input frees little.
OPTIONS = ('detect_leaks=0:quarantine_size_mb=1:'
           'thread_local_quarantine_size_kb=64:malloc_context_size=1:'
           'max_malloc_fill_size=0:abort_on_error=0:allocator_may_return_null=0')


def unpack(path):
    data, at = path.read_bytes(), 0
    while at < len(data):
        line = data.index(b'\n', at)
        size = int(data[at:line])
        yield data[line + 1:line + 1 + size]
        at = line + 1 + size + 1


def prepare(build, target, folder):
    """The seeds and the tree's corpus as files of one input each."""
    start = folder / 'start'
    shutil.rmtree(start, ignore_errors=True)
    start.mkdir(parents=True)
    for path in sorted((HERE / 'corpus' / target).glob('*')):
        if path.suffix == '.pack':
            for i, data in enumerate(unpack(path)):
                (start / f'{path.stem}_{i}').write_bytes(data)
        else:
            shutil.copy(path, start)
    if target in seeds.SEEDS:
        seeds.write(target, start)
    makes = {'plan': 'plan', 'selftest': 'plan',
             'tokenizer_tables': 'tokenizer_tables'}
    if target in makes:
        line = [build / 'tests/fuzz/make_seeds', makes[target], start]
        if target == 'tokenizer_tables':
            json = folder / 'json'
            seeds.write('tokenizer_json', json)
            line.append(json)
        subprocess.run(line, check=True)
    return start


def command(build, target, *more):
    out = [build / 'tests/fuzz' / ('fuzz_' + target), *LIMITS,
           f'-max_len={LENGTHS.get(target, 1024)}',
           f'-entropic={int(target not in MANY_FEATURES)}', *more]
    dictionary = HERE / 'dict' / (target + '.dict')
    if dictionary.exists():
        out.append(f'-dict={dictionary}')
    return [str(x) for x in out]


def counted(work):
    """Executions so far, by target."""
    out = {}
    log = work / 'counts.tsv'
    for line in log.read_text().splitlines() if log.exists() else []:
        target, runs = line.split('\t')[:2]
        out[target] = out.get(target, 0) + int(runs)
    return out


def processor_seconds():
    """That ended child processes took."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def seconds(build, target, path):
    """Processor time that one input takes; above TIMEOUT where it fails."""
    before = processor_seconds()
    code = subprocess.run(command(build, target, '-timeout=600', path),
                          stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode
    took = processor_seconds() - before
    return took if code == 0 else TIMEOUT + took


def executions(log):
    """How many the log of a run tells of."""
    done = re.search(r'number_of_executed_units:\s*(\d+)', log)
    # One that died says how far it was in its last lines of progress.
    marks = re.findall(r'^#(\d+)\s', log, re.M)
    return int(done[1]) if done else int(marks[-1]) if marks else 0


def all_programs(build):
    """The targets that are linked."""
    return sorted(p.name[len('fuzz_'):] for p in (
        build / 'tests/fuzz').glob('fuzz_*')
        if p.is_file() and p.name != 'fuzz_replay')


def fuzz(build, target, runs, work, extra):
    folder = work / target
    start = prepare(build, target, folder)
    corpus, findings = folder / 'corpus', folder / 'findings'
    corpus.mkdir(exist_ok=True)
    findings.mkdir(exist_ok=True)
    log = folder / 'log'
    line = command(build, target, f'-runs={runs}', '-print_final_stats=1',
                   f'-artifact_prefix={findings}/', *extra, corpus, start)
    before = processor_seconds()
    with open(log, 'wb') as out:
        code = subprocess.run(
            line, stdout=subprocess.DEVNULL, stderr=out,
            env={**os.environ, 'ASAN_OPTIONS': OPTIONS,
                 'UBSAN_OPTIONS': 'print_stacktrace=1'}).returncode
    busy = processor_seconds() - before
    text = log.read_text(errors='replace')
    if re.search(r'Test unit written to \S*/timeout-', text):
        code = 0
    for kind in ('timeout-*', 'slow-unit-*'):
        for path in findings.glob(kind):
            if seconds(build, target, path) < TIMEOUT:
                path.unlink()  # the machine stood still, not the reader
            else:
                code = 70  # as libFuzzer has it
    count = executions(text)
    took = re.search(r'in (\d+) second', text)
    with open(work / 'counts.tsv', 'a') as out:
        out.write(f'{target}\t{count}\t{took[1] if took else "-"}\t'
                  f'{datetime.datetime.now():%Y-%m-%d %H:%M}\t'
                  f'{"clean" if code == 0 else f"finding ({code})"}\t'
                  f'{busy:.0f}\n')
    print(f'{target}: {count} executions, '
          f'{"no finding" if code == 0 else f"a finding: see {log}"}',
          flush=True)
    return code == 0


def table(work):
    """Sums by target: executions, how many a processor's second, last run."""
    sums = {}
    for line in (work / 'counts.tsv').read_text().splitlines():
        target, runs, _, date, how, *busy = line.split('\t')
        s = sums.setdefault(target, {'runs': 0, 'timed': 0, 'busy': 0,
                                     'findings': 0})
        s['runs'] += int(runs)
        s['findings'] += how != 'clean'
        s['date'] = date[:10]
        if busy and int(busy[0]) >= 10:
            s['timed'] += int(runs)
            s['busy'] += int(busy[0])
    print('| target | executions | a processor second | findings, mended '
          '| last run |\n|---|---|---|---|---|')
    for target, s in sorted(sums.items()):
        rate = f'{s["timed"] / s["busy"]:,.0f}' if s['busy'] else ''
        print(f'| {target} | {s["runs"]:,} | {rate} | {s["findings"]} '
              f'| {s["date"]} |')


def pack(build, target, work):
    folder = work / target
    start = prepare(build, target, folder)
    merged = folder / 'merged'
    shutil.rmtree(merged, ignore_errors=True)
    merged.mkdir()
    subprocess.run(command(build, target, '-merge=1', merged, start,
                           folder / 'corpus'),
                   check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL,
                   env={**os.environ, 'ASAN_OPTIONS': OPTIONS})
    inputs = sorted((p.read_bytes() for p in merged.iterdir()),
                    key=lambda b: (len(b), b))
    to = HERE / 'corpus' / target
    to.mkdir(parents=True, exist_ok=True)
    (to / 'merged.pack').write_bytes(
        b''.join(b'%d\n%s\n' % (len(b), b) for b in inputs))
    print(f'{target}: {len(inputs)} inputs', flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('build', type=pathlib.Path, nargs='?')
    parser.add_argument('targets', nargs='*')
    parser.add_argument('--work', type=pathlib.Path, required=True)
    parser.add_argument('--runs', type=int, default=100_000)
    parser.add_argument('--slice', type=int, default=0,
                        help='at most so many executions in this call')
    parser.add_argument('--pack', action='store_true')
    parser.add_argument('--table', action='store_true')
    args, extra = parser.parse_known_args()
    if args.table:
        return table(args.work)
    if args.build is None:
        parser.error('needs the build folder')
    build = args.build.resolve()
    args.work.mkdir(parents=True, exist_ok=True)
    good = True
    for target in args.targets or all_programs(build):
        if args.pack:
            pack(build, target, args.work)
            continue
        left = args.runs - counted(args.work).get(target, 0)
        if args.slice:
            left = min(left, args.slice)
        if left > 0:
            good &= fuzz(build, target, left, args.work, extra)
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main())
