#!/usr/bin/env python3
"""A step of DeepSpeed's training gives the plan of the whole model, whatever
ZeRO and however many ranks saved it.

    deepspeed_checkpoints.py DSCOMPILE GOLDEN_CASES
"""
import json
import os
import re
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, '..', 'support')]
import deepspeed_writer as d  # noqa: E402
import megatron_writer as m  # noqa: E402
from harness import Checks, Scratch, run  # noqa: E402
from plan_weights import Compiler  # noqa: E402


class Test(Compiler):
    def equal(self, what, want, source, options=(), note=''):
        got, err = self.plan(source, *options)
        self.c.check(got == want != b'', what, 'differs')
        self.c.check(note in err, f'{what}: note', err)


class Published:
    """A model with names of Hugging Face, as one rank."""

    def __init__(self, t, case):
        self.t, self.case = t, case
        self.tensors = d.of_safetensors(os.path.join(case, 'model.safetensors'))

    def write(self, **how):
        folder = self.t.folder()
        d.write(folder, [self.tensors], **how)
        for name in os.listdir(self.case):
            if name.endswith('.json') and not name.startswith('golden'):
                shutil.copy(os.path.join(self.case, name), folder)
        return folder


JOINED = 'partitions of ZeRO, joined'


def check_published(t, cases):
    for name in ('llama-gqa-tied', 'gpt2', 'bloom'):
        model = Published(t, os.path.join(cases, name))
        want, _ = t.plan(model.case, '--tp', '2')
        frozen = list(model.tensors)[1:9:3]
        first = next(iter(model.tensors))
        # A tied head is another name of the embedding, or left out.
        tied = ({'lm_head.weight': 'model.embed_tokens.weight'}
                if name == 'llama-gqa-tied' else {})
        for how, note in (
                ({}, ''), ({'zero': 1, 'dp': 2}, ''),
                ({'zero': 2, 'dp': 3, 'module': False, 'groups': 2,
                  'frozen': frozen, 'prefix': 'bf16_'}, JOINED),
                ({'zero': 1, 'dp': 4, 'module': False, 'elastic': True},
                 JOINED),
                ({'zero': 2, 'dp': 3, 'module': False, 'align': 7}, JOINED),
                ({'zero': 3, 'dp': 1, 'shared': tied}, JOINED),
                ({'zero': 3, 'dp': 3, 'groups': 3, 'frozen': frozen}, JOINED),
                ({'zero': 2, 'dp': 2, 'module': False, 'shared': tied,
                  'frozen': [first]}, JOINED),
                ({'zero': 3, 'dp': 7, 'shared': tied, 'frozen': [first]},
                 JOINED)):
            t.equal(f'{name} {how}', want, model.write(**how), ('--tp', '2'),
                    note)


def check_forms(t, cases):
    """Every way to name the same step."""
    model = Published(t, os.path.join(cases, 'qwen2'))
    want, _ = t.plan(model.case)
    folder = model.write(zero=3, dp=2)
    step = os.path.join(folder, 'global_step7')
    states = [f'zero_pp_rank_{r}_mp_rank_00_model_states.pt' for r in (0, 1)]
    optims = [f'zero_pp_rank_{r}_mp_rank_00_optim_states.pt' for r in (0, 1)]
    t.equal('step', want, step)
    t.equal('file', want, os.path.join(step, states[1]),
            note='is one of several files')
    t.equal('optimizer file', want, os.path.join(step, optims[0]))
    listed = os.path.join(folder, 'list.json')
    inside = [os.path.join('global_step7', n) for n in states]
    for what, keys in (
            ('dot', {'checkpoints': '.'}), ('folder', {'checkpoints': ['.']}),
            ('step', {'checkpoints': 'global_step7', 'version': 2.0}),
            ('base_dir', {'checkpoints': '.', 'base_dir': 'global_step7'}),
            ('files', {'checkpoints': inside, 'type': 'BLOOM'}),
            ('all files', {'checkpoints': inside + [
                os.path.join('global_step7', n) for n in optims]})):
        with open(listed, 'w') as f:
            json.dump({'type': 'DS_Model', 'version': 0.0, **keys}, f)
        t.equal(f'list: {what}', want, listed)
    t.equal('the file latest itself', want, os.path.join(folder, 'latest'))
    os.remove(os.path.join(folder, 'latest'))
    t.equal('no latest', want, folder, note='no file latest')
    # Weights of Hugging Face beside a step count more.
    shutil.copy(os.path.join(model.case, 'model.safetensors'), folder)
    t.equal('weights beside', want, folder)

    # Lists of shards, under any type, of any family.
    for case in ('qwen2', 'gpt2'):
        source = os.path.join(cases, case)
        want, _ = t.plan(source)
        tensors = d.of_safetensors(os.path.join(source, 'model.safetensors'))
        folder = t.folder()
        os.makedirs(folder)
        shutil.copy(os.path.join(source, 'config.json'), folder)
        names = list(tensors)
        shards = []
        for i in range(2):
            shards.append(f'pytorch_model-0000{i + 1}-of-00002.bin')
            d.save(os.path.join(folder, shards[-1]),
                   {n: tensors[n] for n in names[i::2]})
        listed = os.path.join(folder, 'checkpoint.json')
        for paths in (shards, [os.path.join(folder, s) for s in shards[::-1]]):
            with open(listed, 'w') as f:
                json.dump({'type': 'BLOOM', 'version': 1.0,
                           'checkpoints': paths}, f)
            t.equal(f'{case} shards', want, listed)
        with open(listed, 'w') as f:
            json.dump({'type': 'bloom', 'version': 1.0, 'checkpoints':
                       [os.path.join(source, 'model.safetensors')]}, f)
        t.equal(f'{case} safetensors', want, listed)


def autotp(tensors, ranks, rows, columns, vocab, blocks):
    """The ranks' tensors, and what tells how AutoTP cut them. rows, columns,
    vocab: parts of names; blocks: (widths of those in it, how told) by part of a
    name."""
    info = {'universal_checkpoint_version': 0.4,
            'parameter_with_row_parallelism_patterns': [],
            'tp_replicated_parameter_patterns': [],
            'vocabulary_parameter_patterns': [],
            'parameter_with_2_sub_params_cat_dim_0': [],
            'parameter_with_sub_params': [], 'sub_param_shard_widths': {},
            'autotp_unsupported_parameter_patterns': {},
            'original_vocab_size': 0}
    out = [{} for _ in range(ranks)]

    def uneven(size):
        return [size * (r + 1) // ranks - size * r // ranks
                for r in range(ranks)]
    for name, x in tensors.items():
        pattern = '^' + re.escape(name) + '$'

        def has(parts):
            return next((p for p in parts if p in name), None)
        dim, widths = 0, [uneven(x.shape[0])]
        if has(blocks):
            sizes, told = blocks[has(blocks)]
            widths = [uneven(s) for s in sizes]
            if told == 'halves':
                info['parameter_with_2_sub_params_cat_dim_0'].append(pattern)
            else:
                shape = [tuple(sizes) if told == 'widths' else len(sizes), -1]
                info['parameter_with_sub_params'].append(
                    {'patterns': [pattern], 'shape': shape,
                     'partition_dim': 0})
                if told == 'widths':
                    info['sub_param_shard_widths'][pattern] = widths
        elif has(vocab):
            info['vocabulary_parameter_patterns'].append(pattern)
            info['original_vocab_size'] = x.shape[0]
            # The last rank's rows are padded.
            out[-1][name] = d.cut(x, 0, widths, ranks - 1)
            extra = out[-1][name]
            extra.data += bytes(x.size * x.shape[1])
            extra.shape[0] += 1
        elif has(columns) and len(x.shape) == 2:
            info['parameter_with_row_parallelism_patterns'].append(pattern)
            dim, widths = 1, [uneven(x.shape[1])]
        elif not has(rows):
            info['tp_replicated_parameter_patterns'].append(pattern)
            widths = None
        for r in range(ranks):
            if widths is None:
                out[r][name] = x
            elif name not in out[r]:
                out[r][name] = d.cut(x, dim, widths, r)
    return out, {'universal_checkpoint_info': info}


def check_autotp(t, cases):
    def config(case):
        with open(os.path.join(cases, case, 'config.json')) as f:
            return json.load(f)
    qwen, phi = config('qwen2'), config('phi3')
    head = phi['hidden_size'] // phi['num_attention_heads']
    kv = phi['num_key_value_heads'] * head
    fused = {'qkv_proj': ([phi['num_attention_heads'] * head, kv, kv],
                          'widths'),
             'gate_up_proj': ([phi['intermediate_size']] * 2, 'halves')}
    for case, rows, columns, blocks in (
            ('qwen2', ('q_proj', 'k_proj', 'v_proj', 'gate_proj', 'up_proj'),
             ('o_proj', 'down_proj'), {}),
            ('phi3', (), ('o_proj', 'down_proj'), fused)):
        model = Published(t, os.path.join(cases, case))
        want, _ = t.plan(model.case)
        for ranks, how in ((2, {}), (3, {'zero': 3, 'dp': 2}),
                           (2, {'zero': 1, 'dp': 3, 'module': False})):
            told = dict(blocks)
            if ranks == 3:
                told = {n: (s, 'widths') for n, (s, _) in told.items()}
            parts, client = autotp(model.tensors, ranks, rows, columns,
                                   ('embed_tokens', 'lm_head'), told)
            folder = t.folder()
            d.write(folder, parts, client=client, **how)
            shutil.copy(os.path.join(model.case, 'config.json'), folder)
            t.equal(f'{case} of AutoTP {ranks} {how}', want, folder)
    # What is not told is refused: the parts are not those of one known cut.
    del client['universal_checkpoint_info']
    folder = t.folder()
    d.write(folder, parts, client=client)
    shutil.copy(os.path.join(model.case, 'config.json'), folder)
    r = run(t.dscompile, folder, '-o', t.folder())
    t.c.check(r.returncode == 4 and 'differs from that' in r.stderr,
              'untold cut', r.stderr)


def check_megatron(t):
    for kind in ({}, {'version': 0}, {'groups': 4, 'gated': True},
                 {'untied': True, 'version': 1}):
        model = m.Model(**kind)
        whole = t.folder()
        m.write_whole(whole, model)
        want, _ = t.plan(whole, '--tp', '2')
        for mp in (1, 2, 4):
            client = {'args': model.args(mp), 'iteration': 7}
            if model.version:
                client['checkpoint_version'] = float(model.version)
            ranks = [{n: d.of_floats(v)
                      for n, v in model.rank(r, mp).items()}
                     for r in range(mp)]
            for how in ({'nest': True}, {'zero': 2, 'dp': 2, 'nest': True},
                        {'zero': 1, 'dp': 3, 'module': False},
                        {'zero': 3, 'dp': 3, 'groups': 2}):
                folder = t.folder()
                d.write(folder, ranks, client=client, **how)
                t.equal(f'{kind} mp {mp} {how}', want, folder, ('--tp', '2'))
            with open(os.path.join(folder, 'checkpoint.json'), 'w') as f:
                # Neither the version nor the order of a list counts.
                json.dump({'type': 'ds_model', 'version': 1.0, 'mp_size': mp,
                           'checkpoints': '.'}, f)
            t.equal(f'{kind} mp {mp} listed', want,
                    os.path.join(folder, 'checkpoint.json'), ('--tp', '2'))


def main():
    dscompile, cases = map(os.path.abspath, sys.argv[1:3])
    c = Checks()
    with Scratch() as scratch:
        t = Test(c, dscompile, scratch)
        check_published(t, os.path.join(cases, 'models'))
        check_forms(t, os.path.join(cases, 'models'))
        check_autotp(t, os.path.join(cases, 'models'))
        check_megatron(t)
    c.finish()


main()
