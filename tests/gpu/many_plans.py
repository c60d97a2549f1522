#!/usr/bin/env python3
"""Many plans in one process, one after the other, through libdeepslice.

    many_plans.py --wheel WHEEL --dscompile FILE --cases DIR [--dtypes fp32,bf16]
                  [--only NAME,...] [--target sm_90a] [--device cuda] [-j N]

Compiles the golden cases, then loads each plan in this process, compares the
logits of all positions of all prompts (as one ragged batch), in fp32 also the
greedy tokens, and closes it: the memory of the device that was free after the
first plan is free after the last. Bounds are those of the conformance suite.
"""
import argparse
import concurrent.futures as cf
import ctypes
import os
import sys
import tempfile
import time
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from golden_case import Case, claimed, compare, find_cases  # noqa: E402
from harness import Checks, run  # noqa: E402

# Below this gap between the best logit and the next a token is open.
SURE_MARGIN = 2e-3
# What a driver may keep of modules and graphs that are gone.
KEPT_BYTES = 64 << 20


def free_bytes(device):
    """Free memory of the device of this process, or None where it has none."""
    if not device.startswith('cuda'):
        return None
    cuda = ctypes.CDLL('libcuda.so.1')
    context, free, total = (ctypes.c_void_p(), ctypes.c_size_t(),
                            ctypes.c_size_t())
    number = int(device.partition(':')[2] or 0)
    for rc in (cuda.cuInit(0),
               cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), number),
               cuda.cuCtxPushCurrent_v2(context),
               cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)),
               cuda.cuCtxPopCurrent_v2(ctypes.byref(context))):
        if rc != 0:
            raise RuntimeError(f'the driver says {rc}')
    return free.value


def check_plan(c, deepslice, case, dtype, plan, device):
    name = f'{case.name} {dtype}'
    try:
        with deepslice.load(plan, device=device) as model:
            for i, (rows, want) in enumerate(
                    zip(model.score(case.prompts), case.logits)):
                ok, l2, most = compare([x for row in rows for x in row], want,
                                       dtype, case.meta.get('error',
                                                            {}).get(dtype))
                c.check(ok, f'{name}: logits of prompt {i}', (l2, most))
            known = [(p, g) for p, g in zip(case.prompts, case.greedy) if g]
            if dtype != 'fp32' or not known or case.meta.get(
                    'min_greedy_margin', 1) <= SURE_MARGIN:
                return
            got = model.generate([p for p, _ in known], do_sample=False,
                                 ignore_eos=True,
                                 max_new_tokens=max(len(g) for _, g in known),
                                 ignore_plan_defaults=True)
            for have, (_, want) in zip(got, known):
                c.check(have.ids[:len(want)] == want, f'{name}: greedy tokens',
                        (have.ids, want))
    except deepslice.DeepsliceError as e:
        c.check(False, name, e)


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--wheel', required=True)
    p.add_argument('--dscompile', required=True)
    p.add_argument('--cases', required=True, action='append')
    p.add_argument('--dtypes', default='fp32,bf16')
    p.add_argument('--only', default='')
    p.add_argument('--target', default='sm_90a')
    p.add_argument('--device', default='cuda')
    p.add_argument('-j', type=int, default=6)
    a = p.parse_args()
    folders = find_cases(a.cases)
    names = (a.only.split(',') if a.only else
             [n for n in claimed() if n in folders])
    c = Checks()
    with tempfile.TemporaryDirectory(prefix='many-plans-') as scratch:
        with zipfile.ZipFile(a.wheel) as wheel:
            wheel.extractall(os.path.join(scratch, 'wheel'))
        sys.path.insert(0, os.path.join(scratch, 'wheel'))
        import deepslice

        def compile_plan(job):
            name, dtype = job
            plan = os.path.join(scratch, f'{name}-{dtype}')
            return job, plan, run(
                a.dscompile, folders[name], '--target', a.target, '--dtype',
                dtype, '-q', '-j', 2, '-o', plan, timeout=400)
        jobs = [(n, d) for n in names for d in a.dtypes.split(',')]
        plans = []
        with cf.ThreadPoolExecutor(a.j) as pool:
            for job, plan, r in pool.map(compile_plan, jobs):
                if c.check(r.returncode == 0, f'dscompile {job}', r.stderr):
                    plans.append((job, plan))
        first, begin = None, time.monotonic()
        for (name, dtype), plan in plans:
            check_plan(c, deepslice, Case(folders[name]), dtype, plan, a.device)
            last = free_bytes(a.device)
            first = last if first is None else first
        if first is not None:
            c.check(last >= first - KEPT_BYTES, 'free memory at the end',
                    (first, last))
        print(f'{len(plans)} plans in one process, '
              f'{time.monotonic() - begin:.1f} s'
              + ('' if first is None else
                 f'; {(first - last) / 2**20:.1f} MiB of the device kept'))
    c.finish()


main()
