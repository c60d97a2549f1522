#!/usr/bin/env python3
"""What DeepSpeed cut for inference gives the plan of the model it was made of,
for every family and number of ranks.

    presharded_checkpoints.py DSCOMPILE
"""
import json
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, '..', 'support')]
import presharded_writer as w  # noqa: E402
from harness import CASES, Checks, Scratch  # noqa: E402
from plan_weights import Compiler  # noqa: E402

MODELS = ['bert-relu', 'roberta-mlm', 'distilbert-mlm', 'bloom', 'gpt2',
          'gpt-neo', 'gpt-neox', 'gpt-j', 'opt', 'opt-350m-style',
          'llama-gqa-tied', 'llama-internlm-bias']


def source(name):
    return os.path.join(CASES, 'models', name)


def check_families(t):
    for name in MODELS:
        with open(os.path.join(source(name), 'config.json')) as f:
            config = json.load(f)
        family = w.FAMILIES[config['model_type']]
        heads = next(config[k] for k in ('num_attention_heads', 'n_head',
                                         'n_heads', 'num_heads')
                     if k in config)
        inner = next(len((m.transposed() if family.get('conv') else m).rows)
                     for n, m in w.read(source(name)).items()
                     if n.endswith(family['up'][0] + '.weight'))
        options = ['--tp', '2']
        want, _ = t.plan(source(name), *options)
        for ranks in (1, 2, 3, 4):
            if heads % ranks or inner % ranks:
                continue
            for head in ('whole', 'cut')[:ranks]:
                folder = t.folder()
                w.write(folder, source(name), ranks, head=head,
                        parts=8 if head == 'whole' else 3)
                got, err = t.plan(folder, *options)
                t.c.check(got == want != b'', f'{name} {ranks} {head}',
                          'differs')
                alone = (name == 'bloom' and head == 'cut' and ranks > 1)
                t.c.check(('of rank 0 alone' in err) == alone,
                          f'{name} {ranks} {head}: what is said', err)


def check_lists(t):
    c = t.c
    want, _ = t.plan(source('gpt-j'))
    folder = t.folder()
    w.write(folder, source('gpt-j'), 2)
    list_path = os.path.join(folder, 'ds_inference_config.json')
    for path in (folder, list_path):
        got, err = t.plan(path)
        c.check(got == want and 'note' not in err, path, err)
    # Moved elsewhere: base_dir is of the machine that wrote it.
    moved = t.folder()
    shutil.copytree(folder, moved)
    shutil.rmtree(folder)
    got, err = t.plan(moved)
    c.check(got == want, 'moved', 'differs')
    c.check('base_dir' in err and 'beside the list' in err, 'moved: note', err)
    # What lists of other versions lack or call otherwise.
    for keys in ({'base_dir': None}, {'parallelization': None},
                 {'tp_size': None}, {'tp_size': None, 'mp_size': 2},
                 {'type': 'orig'}, {'base_dir': ''}):
        folder = t.folder()
        w.write(folder, source('gpt-j'), 2, listed=keys)
        got, err = t.plan(folder)
        c.check(got == want, f'{keys}', 'differs')
        c.check(('parallelization' in err) == ('parallelization' in keys),
                f'{keys}: notes', err)
    # Names that say nothing of ranks: their order does.
    folder = t.folder()
    w.write(folder, source('gpt-j'), 2, parts=2)
    names = []
    for p in range(2):
        for r in range(2):
            names.append(f'file{len(names)}.bin')
            os.rename(os.path.join(folder, f'tp_{r:02}_{p:02}.pt'),
                      os.path.join(folder, names[-1]))
    with open(os.path.join(folder, 'ds_inference_config.json'), 'w') as f:
        json.dump({'type': 'ds_model', 'version': 1.0,
                   'parallelization': 'tp', 'tp_size': 2,
                   'checkpoints': {'non_tp': [], 'tp': names}}, f)
    got, _ = t.plan(folder)
    c.check(got == want, 'by order', 'differs')
    # Tensors with a scale that counts for 8 bits alone.
    folder = t.folder()
    w.write(folder, source('gpt-j'), 2, edit=lambda rank, m: m.update({
        n: [v, w.Tensor('F32', [[b'\0' * 4]], True)] for n, v in m.items()
        if n.endswith('attn_ow')}))
    got, _ = t.plan(folder)
    c.check(got == want, 'lists with scales', 'differs')


def main():
    dscompile = os.path.abspath(sys.argv[1])
    c = Checks()
    with Scratch() as scratch:
        t = Compiler(c, dscompile, scratch)
        check_families(t)
        check_lists(t)
    c.finish()


main()
