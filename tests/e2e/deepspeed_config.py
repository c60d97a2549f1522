#!/usr/bin/env python3
"""DeepSpeed's inference configuration gives the plan that flags give, and says
no where both differ.

    deepspeed_config.py DSCOMPILE
"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, '..', 'support')]
import megatron_writer as m  # noqa: E402
from harness import CASES, Checks, Scratch, run  # noqa: E402

MODEL = os.path.join(CASES, 'models', 'gpt-neox')


def contents(plan):
    out = {}
    for name in sorted(os.listdir(plan)):
        with open(os.path.join(plan, name), 'rb') as f:
            out[name] = f.read()
    return out


class Test:
    def __init__(self, c, dscompile, scratch):
        self.c, self.dscompile, self.scratch = c, dscompile, scratch
        self.count = 0

    def path(self, name=''):
        self.count += 1
        return os.path.join(self.scratch, f'{self.count}{name}')

    def config(self, folder=None, **keys):
        path = self.path('.json')
        if folder:
            path = os.path.join(folder, os.path.basename(path))
        with open(path, 'w') as f:
            json.dump(keys, f)
        return path

    def run(self, *words, **more):
        return run(self.dscompile, *words, '--selftest', 'none', **more)

    def plan(self, *words, **more):
        """The plan's files, and what was said."""
        plan = self.path()
        r = self.run(*words, '-o', plan, **more)
        self.c.check(r.returncode == 0, f'compiles {words}', r.stderr)
        return (contents(plan) if r.returncode == 0 else {}), r.stderr

    def refused(self, code, text, *words):
        plan = self.path()
        r = self.run(*words, '-o', plan)
        self.c.check(r.returncode == code and text in r.stderr
                     and not os.path.exists(plan), f'{words}: {text}',
                     f'{r.returncode} {r.stderr}')


def check_equal(t):
    """Every spelling gives the bytes that flags give."""
    c = t.c
    want, _ = t.plan(MODEL, '--tp', '2', '--dtype', 'fp16', '-c', '24')
    other, _ = t.plan(MODEL, '--tp', '2', '--dtype', 'fp16', '-c', '23')
    c.check(want != other, 'ceilings', 'are not in the plan')
    for keys in (
            {'dtype': 'torch.float16', 'tensor_parallel': {'tp_size': 2},
             'max_out_tokens': 24, 'replace_with_kernel_inject': True},
            {'dtype': 'half', 'tp': {'tp_size': '2', 'mpu': None},
             'max_tokens': 24, 'kernel_inject': False, 'quant': {},
             'moe': False, 'zero': {}, 'enable_cuda_graph': True},
            {'dtype': 'fp16', 'mp_size': 2, 'max_out_tokens': 24,
             'max_tokens': 24, 'checkpoint': MODEL}):
        source = [] if 'checkpoint' in keys else [MODEL]
        got, err = t.plan(*source, '--config', t.config(**keys))
        c.check(got == want, f'{keys}', 'another plan')
        c.check(('deprecated: mp_size, use tensor_parallel.tp_size' in err)
                == ('mp_size' in keys) and ': ignored:' not in err, 'notes', err)
    # From the environment, and beside flags that say the same.
    got, _ = t.plan(MODEL, '--config', t.config(
        dtype='fp16', max_out_tokens=24), '--mp_size', '2', '--dtype',
        'torch.half')
    c.check(got == want, 'flags that agree', 'another plan')
    env = {**os.environ, 'DSCOMPILE_CONFIG': t.config(
        dtype='fp16', tp={'tp_size': 2}, max_out_tokens=24)}
    got, _ = t.plan(MODEL, env=env)
    c.check(got == want, 'DSCOMPILE_CONFIG', 'another plan')
    # A ceiling above the model's positions is one that they fill.
    want, _ = t.plan(MODEL, '--dtype', 'fp32')
    got, err = t.plan(MODEL, '--config', t.config(dtype='float',
                                                  max_out_tokens=1 << 20))
    c.check(got == want, 'more than the positions', 'another plan')
    want, _ = t.plan(MODEL)
    got, err = t.plan(MODEL, '--config', t.config())
    c.check(got == want, 'no keys', 'another plan')
    c.check("DeepSpeed's default is fp16" in err, 'no dtype', err)


def check_paths(t):
    """SRC, -o and lists that stand in the configuration."""
    c = t.c
    folder = t.path()
    model = m.Model(version=0)
    m.write(folder, model, tensor_ranks=2)
    want, _ = t.plan(folder)
    names = [f'mp_rank_{r:02}/model_optim_rng.pt' for r in (0, 1)]
    items = {'type': 'Megatron', 'version': 0, 'checkpoints': names}
    with open(os.path.join(folder, 'list.json'), 'w') as f:
        json.dump(items, f)

    def same(what, got):
        c.check({n: b for n, b in got.items() if n.endswith('.weights')} ==
                {n: b for n, b in want.items() if n.endswith('.weights')},
                what, 'other weights')

    # Beside the configuration, then from where the command runs.
    beside = t.config(folder, checkpoint='list.json', training_mp_size=2)
    same('beside', t.plan('--config', beside)[0])
    away = t.config(checkpoint='list.json')
    same('from here', t.plan('--config', away, cwd=folder)[0])
    inside = t.config(folder, checkpoint=items)
    same('inside', t.plan('--config', inside)[0])
    same('given twice', t.plan(os.path.join(folder, 'list.json'), '--config',
                               beside)[0])
    away = t.config(checkpoint=items, base_dir=folder)
    same('base_dir', t.plan('--config', away)[0])
    away = t.config(checkpoint={**items, 'base_dir': folder}, base_dir='/none')
    same('the list has a base_dir', t.plan('--config', away)[0])
    lists = t.config(**items)
    same('--base-dir', t.plan(lists, '--base-dir', folder)[0])
    # -o in the configuration.
    out = t.path()
    r = t.run('--config', t.config(checkpoint=folder,
                                   save_mp_checkpoint_path=out + '/'))
    c.check(r.returncode == 0 and contents(out) == want,
            'save_mp_checkpoint_path', r.stderr)
    r = t.run('-o', out, '--force', '--config', t.config(
        checkpoint=folder, save_mp_checkpoint_path=out + '/.'))
    c.check(r.returncode == 0, 'the same -o', r.stderr)
    t.refused(2, 'conflicting argument: --output is', folder, '--config',
              t.config(save_mp_checkpoint_path=out))
    t.refused(2, 'conflicting argument: SRC is', MODEL, '--config', inside)
    t.refused(2, 'conflicting argument: --tp is 4, and tp.tp_size in', MODEL,
              '--tp', '4', '--config', t.config(tp={'tp_size': 2}))
    t.refused(2, 'SRC is required', '--config', t.config(dtype='fp16'))
    t.refused(3, '--training-mp-size 4: ', folder, '--config',
              t.config(training_mp_size=4))
    t.refused(3, 'give it behind --config', beside)
    t.refused(3, 'give it behind --config', t.config(dtype='fp16',
                                                     max_out_tokens=4))
    t.refused(3, 'give it as the source: dscompile', '--config', lists)
    t.refused(3, '--base-dir: ', MODEL, '--base-dir', folder)


def main():
    dscompile = os.path.abspath(sys.argv[1])
    c = Checks()
    with Scratch() as scratch:
        t = Test(c, dscompile, scratch)
        check_equal(t)
        check_paths(t)
    c.finish()


main()
