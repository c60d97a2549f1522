#!/usr/bin/env python3
"""Layers of DeepSpeed's pipelines give the plan of the whole model, under every
numbering and number of ranks.

    deepspeed_layers.py DSCOMPILE
"""
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, '..', 'support')]
import deepspeed_layers_writer as d  # noqa: E402
import llama_writer as llama  # noqa: E402
import megatron_writer as m  # noqa: E402
import presharded_writer as p  # noqa: E402
from harness import CASES, Checks, Scratch  # noqa: E402
from plan_weights import Compiler  # noqa: E402


def check_megatron(t):
    kinds = [{}, {'gated': True, 'groups': 4, 'untied': True}]
    for kind in kinds:
        whole = t.folder()
        m.write_whole(whole, m.Model(version=3, **kind))
        want, _ = t.plan(whole, '--tp', '2')
        for ranks, gap, stages in ((1, 0, 1), (2, 1, 2), (4, 0, 1)):
            folder = t.folder()
            step = os.path.join(folder, 'global_step100')
            d.write_pipeline(step, m.Model(version=3, **kind), ranks, gap,
                             stages=stages)
            with open(os.path.join(folder, 'latest'), 'w') as f:
                f.write('global_step100')
            got, _ = t.plan(folder, '--tp', '2')
            t.c.check(got == want != b'', f'{kind} {ranks} {gap}', 'differs')
        # Ranks of thirds that say 3.
        folder = t.folder()
        d.write_pipeline(folder, m.Model(version=0, **kind), 2)
        got, _ = t.plan(folder, '--tp', '2', '--qkv-layout', 'thirds')
        t.c.check(got == want, f'{kind} thirds', 'differs')
        # Without the file of arguments these come from a config.json.
        folder = t.folder()
        d.write_pipeline(folder, m.Model(version=3, **kind), 2, version=None)
        d.write_config(folder, {**m.Model(version=3, **kind).args(2),
                                'model_type': 'megatron_gpt',
                                'checkpoint_version': 3})
        got, _ = t.plan(folder, '--tp', '2')
        t.c.check(got == want, f'{kind} config', 'differs')


def published(t, name, names, ranks, numbering, *options):
    """A golden model of such block names, dealt to ranks as Megatron does, the
    vocabulary padded."""
    source = os.path.join(CASES, 'models', name)
    tensors = p.read(source)
    folder = t.folder()
    os.makedirs(folder)
    shutil.copy(os.path.join(source, 'config.json'), folder)
    first, blocks, norm, head = numbering

    def part(full, r):
        rows = len(full.rows) // ranks
        return full.of(full.rows[r * rows:(r + 1) * rows])

    for full_name, v in tensors.items():
        if 'word_embeddings.weight' in full_name:
            pad = [[b'\0' * len(v.rows[0][0])] * len(v.rows[0])]
            tensors[full_name] = v.of(v.rows + pad * (-len(v.rows) % ranks))
    for r in range(ranks):
        layers = {}
        for full_name, v in tensors.items():
            for index, prefix, rename in names(full_name, first, blocks, norm,
                                               head):
                rest = rename(full_name[len(prefix):])
                last = rest.split('.')[-2:]
                if last[-1] == 'weight' and (
                        rest.endswith(('attention.dense.weight',
                                       'dense_4h_to_h.weight'))):
                    width = len(v.rows[0]) // ranks
                    v = v.columns(r * width, (r + 1) * width)
                elif 'query_key_value' in rest or 'dense_h_to_4h' in rest or (
                        not v.vector and len(v.rows[0]) > 1):
                    v = part(v, r)
                layers.setdefault(index, {})[rest] = v
        for index, layer in layers.items():
            p.save(os.path.join(
                folder, f'layer_{index:02}-model_{r:02}-model_states.pt'),
                layer)
    want, _ = t.plan(source, *options)
    got, err = t.plan(folder, *options)
    t.c.check(got == want != b'', f'{name} {ranks}', err)


def bloom_names(name, first, blocks, norm, head):
    for prefix, index, rename in (
            ('transformer.word_embeddings_layernorm.', first,
             lambda s: 'word_embeddings.norm.' + s),
            ('transformer.word_embeddings.', first,
             lambda s: 'word_embeddings.' + s),
            ('transformer.ln_f.', norm, lambda s: s)):
        if name.startswith(prefix):
            return [(index, prefix, rename)]
    prefix = 'transformer.h.'
    if not name.startswith(prefix):
        return []
    number = name[len(prefix):].split('.')[0]
    return [(blocks + int(number), f'{prefix}{number}.', lambda s: s)]


def neox_names(name, first, blocks, norm, head):
    for prefix, index, rename in (
            ('gpt_neox.embed_in.', first, lambda s: 'word_embeddings.' + s),
            ('gpt_neox.final_layer_norm.', norm, lambda s: 'norm.' + s),
            ('embed_out.', head, lambda s: 'final_linear.' + s)):
        if name.startswith(prefix):
            return [(index, prefix, rename)]
    prefix = 'gpt_neox.layers.'
    number = name[len(prefix):].split('.')[0]
    return [(blocks + int(number), f'{prefix}{number}.', lambda s: s)]


def check_published(t):
    for ranks in (1, 2, 3):
        published(t, 'bloom', bloom_names, ranks, (1, 3, 7, None), '--tp',
                  str(ranks))
    published(t, 'gpt-neox', neox_names, 1, (0, 2, 5, 6), '--tp', '2')


def check_hugging_face(t):
    model = llama.Llama()
    whole = t.folder()
    llama.write_hf(whole, model)
    want, _ = t.plan(whole)
    for embedding in ('weight', 'embed_tokens.weight'):
        folder = t.folder()
        layers = {}
        for name, v in model.tensors().items():
            parts = name.split('.')
            if name.startswith('model.layers.'):
                layers.setdefault(1 + int(parts[2]), {})[
                    '.'.join(parts[3:])] = v
            else:
                index = {'embed_tokens': 0, 'norm': model.layers + 1,
                         'lm_head': model.layers + 2}[parts[-2]]
                layers[index] = {embedding if index == 0 else 'weight': v}
        d.write_layers(folder, 1, lambda r: sorted(layers.items()))
        if embedding == 'weight':
            # Where only the pipeline was parallel, names have no rank.
            for name in os.listdir(folder):
                os.rename(os.path.join(folder, name), os.path.join(
                    folder, name.replace('-model_00', '')))
        d.write_config(folder, model.config())
        got, _ = t.plan(folder)
        t.c.check(got == want != b'', f'Hugging Face {embedding}', 'differs')


def main():
    dscompile = os.path.abspath(sys.argv[1])
    c = Checks()
    with Scratch() as scratch:
        t = Compiler(c, dscompile, scratch)
        check_megatron(t)
        check_published(t)
        check_hugging_face(t)
    c.finish()


main()
