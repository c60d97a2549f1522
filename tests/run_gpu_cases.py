#!/usr/bin/env python3
"""Golden cases on a GPU: compiles and runs them here, and compares.

    run_gpu_cases.py --bin DIR --cases DIR [--runs fp32:1,bf16:1,...]
                     [--only NAME,...] [--target sm_90a] [--device cuda] [-j N]

DIR of --bin holds dscompile and dsrun, that of --cases a folder a case (as
tests/golden_cases/models). A run is DTYPE:TP; above one rank all share the GPU.
Each case takes one process for the logits of all positions of all prompts, as a
padded batch, and in fp32 two for greedy tokens: each prompt alone and all as one
batch. Bounds are those of the conformance suite. Standard library only; the last
lines are a table and 'N passed, N failed'.
"""
import argparse
import concurrent.futures as cf
import math
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                'support'))
from golden_case import Case, claimed, compare, find_cases  # noqa: E402
from harness import read_tensors, run  # noqa: E402

# Below this gap between the best logit and the next a token is open.
SURE_MARGIN = 2e-3
# Structurally different decoders of other families: slopes of both kinds, norms
# of heads, softcaps, factors, sums of squares over ranks, a narrow embedding,
# two rotary tables, parallel branches.
FAMILIES = ['bloom', 'cohere-qk-norm', 'falcon-new', 'falcon-rw', 'gemma2',
            'gemma3-text', 'gpt-neo', 'granite', 'llama-dynamic', 'olmo2',
            'opt-350m-style', 'phi-qk-layernorm', 'phi3-longrope', 'qwen3',
            'stablelm-parallel']
# Structurally different: grouped heads, tied or biased layers, padded batches,
# scaled positions, windows, GPT-2's norms and positions.
EIGHT = ['llama', 'llama-gqa-tied', 'llama-internlm-bias', 'llama-leftpad',
         'llama-yarn', 'mistral-window', 'qwen2', 'gpt2']
THREE = ['llama-gqa-tied', 'qwen2', 'gpt2']
RUNS = [('fp32', 1, None), ('bf16', 1, None), ('fp16', 1, EIGHT + FAMILIES),
        ('fp32', 2, EIGHT + FAMILIES), ('bf16', 2, EIGHT + FAMILIES),
        ('fp32', 4, THREE + ['olmo2'])]


class Runner:
    def __init__(self, args, scratch):
        self.args, self.scratch = args, scratch

    def tool(self, name):
        return os.path.join(self.args.bin, name)

    def greedy(self, plan, prompts, new, more):
        """-> the new ids of each prompt, or the error."""
        text = ';'.join(','.join(map(str, p)) for p in prompts)
        r = run(self.tool('dsrun'), plan, '--prompt-ids', text, '-n', new,
                '--greedy', '--ignore-eos', '--print-ids', *more, timeout=170)
        if r.returncode != 0:
            return f'rc {r.returncode}: {r.stderr.strip()[-400:]}'
        return [[int(x) for x in l.split(',') if x] for l in
                r.stdout.splitlines()]

    def check_greedy(self, case, plan, more):
        """-> what is wrong, or None."""
        known = [(p, g) for p, g in zip(case.prompts, case.greedy) if g]
        if not known:
            return None
        sure = case.meta.get('min_greedy_margin', 1) > SURE_MARGIN
        new = max(len(g) for _, g in known)
        # A prompt that goes on from the middle of an answer, so that sequences
        # of a batch have different lengths. Not where cached keys stay at the
        # angles of the length that they were read at: a longer prompt is then
        # another answer.
        batch = known
        if not case.keeps_angles:
            batch = known + [(p + g[:3], g[3:]) for p, g in known]
        for prompts in [known[:1], batch]:
            got = self.greedy(plan, [p for p, _ in prompts], new, more)
            if isinstance(got, str):
                return got
            for have, (_, want) in zip(got, prompts):
                if sure and have[:len(want)] != want:
                    return f'{have} for {want} in a batch of {len(prompts)}'
        return None

    def check(self, job):
        """-> (agrees, relative L2, what happened, seconds to compile)."""
        case, dtype, tp = job
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(dir=self.scratch) as tmp:
            plan = os.path.join(tmp, 'plan')
            r = run(self.tool('dscompile'), case.folder, '--target',
                    self.args.target, '--dtype', dtype, '--tp', tp, '-q', '-j',
                    2, *(['--kernel-cache', self.args.kernel_cache]
                         if self.args.kernel_cache else []),
                    '-o', plan, timeout=400)
            seconds = time.monotonic() - begin
            if r.returncode != 0:
                return (False, math.inf, f'dscompile rc {r.returncode}: '
                        f'{r.stderr.strip()[-400:]}', seconds)
            more = ['--device', self.args.device]
            if tp > 1:
                more.append('--share-gpu')
            feed = os.path.join(tmp, 'in.safetensors')
            fetch = os.path.join(tmp, 'out.safetensors')
            case.write_feed(feed)
            r = run(self.tool('dsrun'), plan, '--feed', feed, '--fetch', fetch,
                    *more, timeout=170)
            if r.returncode != 0:
                return (False, math.inf, f'dsrun --feed rc {r.returncode}: '
                        f'{r.stderr.strip()[-400:]}', seconds)
            got = read_tensors(fetch)['logits'][1]
            good, worst, notes = True, 0.0, []
            for i, (have, want) in enumerate(zip(case.rows(got), case.logits)):
                ok, l2, most = compare(have, want, dtype,
                                       case.meta.get('error', {}).get(dtype))
                good, worst = good and ok, max(worst, l2)
                notes.append(f'prompt {i} rel-L2 {l2:.1e} max {most:.1e}')
            if dtype == 'fp32':
                wrong = self.check_greedy(case, plan, more)
                good = good and wrong is None
                notes.append('greedy ok' if wrong is None
                             else f'greedy {wrong}')
            return good, worst, '; '.join(notes), seconds


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--bin', required=True)
    p.add_argument('--cases', required=True, action='append')
    p.add_argument('--runs', default='')
    p.add_argument('--only', default='')
    p.add_argument('--target', default='sm_90a')
    p.add_argument('--device', default='cuda')
    p.add_argument('--kernel-cache', default='')
    p.add_argument('-j', type=int, default=6)
    a = p.parse_args()
    folders = find_cases(a.cases)
    only = a.only.split(',') if a.only else None
    chosen = [tuple(x.split(':')) for x in a.runs.split(',') if x]
    table, passed, failed = [], 0, 0
    with tempfile.TemporaryDirectory(prefix='gpu-cases-') as scratch:
        runner = Runner(a, scratch)
        for dtype, tp, names in RUNS:
            if chosen and (dtype, str(tp)) not in chosen:
                continue
            begin = time.monotonic()
            jobs, missing = [], []
            for name in names or claimed():
                if only and name not in only:
                    continue
                if name in folders:
                    jobs.append((Case(folders[name]), dtype, tp))
                else:
                    missing.append(name)
            good, worst, compiling = 0, 0.0, 0.0
            # Ranks of several launches on one GPU only wait for each other.
            with cf.ThreadPoolExecutor(a.j if tp == 1 else 2) as pool:
                for job, (ok, l2, text, s) in zip(jobs,
                                                  pool.map(runner.check, jobs)):
                    good += ok
                    worst = max(worst, l2)
                    compiling += s
                    print(f'{"ok  " if ok else "FAIL"} {dtype} tp {tp} '
                          f'{job[0].name}: {text}', flush=True)
            for name in missing:
                print(f'FAIL {dtype} tp {tp} {name}: the case is not here')
            bad = len(jobs) - good + len(missing)
            passed, failed = passed + good, failed + bad
            table.append(f'{dtype:5} tp {tp}: {good:2} of {good + bad:2} agree, '
                         f'worst rel-L2 {worst:.1e}, '
                         f'{time.monotonic() - begin:5.1f} s '
                         f'(compiling {compiling:.1f})')
    print('\n'.join(table))
    print(f'{passed} passed, {failed} failed')
    sys.exit(1 if failed or not passed else 0)


main()
