#!/usr/bin/env python3
"""DeepSpeed's universal checkpoints give the plan of the model in them.

    deepspeed_universal.py DSCOMPILE
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, '..', 'support')]
import deepspeed_layers_writer as d  # noqa: E402
import llama_writer as llama  # noqa: E402
import megatron_writer as m  # noqa: E402
from harness import Checks, Scratch  # noqa: E402
from plan_weights import Compiler  # noqa: E402


def say(folder, name, text):
    with open(os.path.join(folder, name), 'w') as f:
        f.write(text)


def more(name):
    """What the converter writes beside a parameter."""
    out = {'cat_dim': 0}
    if 'dense_h_to_4h' in name:
        out['param_n_sub_params'] = 2
    return out


def check_hugging_face(t):
    model = llama.Llama(tied=True)
    whole = t.folder()
    llama.write_hf(whole, model)
    want, _ = t.plan(whole, '--tp', '2')
    for prefix in ('', 'module.'):
        folder = t.folder()
        step = os.path.join(folder, 'global_step7_universal')
        d.write_universal(step, {prefix + n: v
                                 for n, v in model.tensors().items()})
        d.write_config(folder, model.config())
        say(folder, 'latest_universal', 'global_step7_universal\n')
        for path in (folder, step):
            got, _ = t.plan(path, '--tp', '2')
            t.c.check(got == want != b'', f'{path} {prefix}', 'differs')
        # The file that training reads may name it too.
        say(folder, 'latest', 'global_step7_universal')
        got, _ = t.plan(folder, '--tp', '2')
        t.c.check(got == want, 'latest', 'differs')


def check_megatron(t):
    kinds = [{}, {'gated': True, 'groups': 4, 'untied': True}]
    for kind in kinds:
        model = m.Model(version=3, **kind)
        whole = t.folder()
        m.write_whole(whole, model)
        want, _ = t.plan(whole)
        short, _ = t.plan(whole)
        for ranks in (1, 2):
            merged = d.merged_by_ranks(model, ranks)
            step = t.folder()
            d.write_universal(step, merged, more, model.args(ranks, 2),
                              states=ranks)
            got, err = t.plan(step)
            t.c.check(got == want == short != b'', f'{kind} {ranks}', err)
            # Names of a pipeline's modules.
            layers = d.pipeline_layers(merged, gap=1)
            named = {f'{i}.{n}': v for i, layer in layers
                     for n, v in layer.items()}
            tied = {f'tied_modules.embed.{n[2:]}' if n.startswith('1.') else n:
                    v for n, v in named.items()}
            for names in (named, tied):
                step = t.folder()
                d.write_universal(step, names, more, model.args(ranks, 2))
                got, err = t.plan(step)
                t.c.check(got == want, f'{kind} {ranks} layers', err)
    # Padding that the converter cut off: 35 rows of 40.
    model = m.Model(version=3)
    folder = t.folder()
    m.write(folder, m.Model(version=3), tensor_ranks=2)
    want, _ = t.plan(folder, '--vocab-size', '35')
    merged = model.rank()
    words = d.EMBEDDING + 'word_embeddings.weight'
    merged[words] = merged[words][:35]
    step = t.folder()
    d.write_universal(
        step, merged,
        lambda n: {'cat_dim': 0, **({'vocab_tensor': True} if n == words
                                    else {})}, model.args(2))
    got, err = t.plan(step)
    t.c.check(got == want != b'' and 'pad it' not in err, 'vocabulary', err)


def check_refused(t):
    """Parts that were joined side by side although they are several each."""
    gated = m.Model(version=3, gated=True)
    step = t.folder()
    d.write_universal(step, gated.rank(), None, gated.args(2))
    r, _ = t.run(step)
    t.c.check(r.returncode == 3 and 'joined side by side' in r.stderr,
              'gate and up', r.stderr)
    plain = m.Model(version=3)
    step = t.folder()
    d.write_universal(step, plain.rank(), None, plain.args(2))
    r, _ = t.run(step, '--qkv-layout', 'thirds')
    t.c.check(r.returncode == 3 and 'joined side by side' in r.stderr,
              'thirds', r.stderr)
    step = t.folder()
    d.write_universal(step, {**plain.rank(), d.LAYERS + '1.mlp.deepspeed_moe.'
                             'experts.deepspeed_experts.0.dense_h_to_4h.bias':
                             [1.0]}, None, plain.args())
    r, _ = t.run(step)
    t.c.check(r.returncode == 4 and 'MoE layer' in r.stderr, 'experts',
              r.stderr)


def main():
    dscompile = os.path.abspath(sys.argv[1])
    c = Checks()
    with Scratch() as scratch:
        t = Compiler(c, dscompile, scratch)
        check_hugging_face(t)
        check_megatron(t)
        check_refused(t)
    c.finish()


main()
