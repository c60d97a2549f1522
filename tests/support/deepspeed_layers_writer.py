"""Writes small models as DeepSpeed's training leaves them: layers of a pipeline,
universal checkpoints, files of experts. Standard library only.

Models are the ones of megatron_writer, or {name: matrix or vector}.
"""
import json
import os

import megatron_writer as m
import torch_writer as t
from llama_writer import save_dict

EMBEDDING = 'language_model.embedding.'
LAYERS = 'language_model.encoder.layers.'
NORM = 'language_model.encoder.final_layernorm.'
HEAD = 'language_model.output_layer.'


def pipeline_layers(tensors, head='lm_head.weight', gap=0):
    """[(index, {name: value})] of a rank's tensors, numbered from 1; `gap`
    layers without tensors (functions) lie before and after the blocks."""
    embedding, blocks, norm, last = {}, {}, {}, {}
    for name, v in tensors.items():
        if name.startswith(LAYERS):
            number, _, rest = name[len(LAYERS):].partition('.')
            blocks.setdefault(int(number), {})[rest] = v
        elif name.startswith(NORM):
            norm[name[len(NORM):]] = v
        elif name.startswith(HEAD):
            last[head] = v
        else:
            embedding[name[len(EMBEDDING):]] = v
    out = [(1, embedding)]
    for i in sorted(blocks):
        out.append((2 + gap + i, blocks[i]))
    out.append((2 + 2 * gap + len(blocks), norm))
    if last:
        out.append((3 + 2 * gap + len(blocks), last))
    return out


def state(path, args=None, version=3.0, **more):
    """mp_rank_XX_model_states.pt of a model that is stored elsewhere."""
    items = {'module': None, 'dp_world_size': 1, 'mp_world_size': 1,
             'global_steps': 100, 'iteration': 100, **more}
    if args is not None:
        items['args'] = t.namespace(args)
    if version is not None:
        items['checkpoint_version'] = version
    with open(path, 'wb') as f:
        f.write(t.torch_zip(t.dict_(items), {}).build())


def write_layers(folder, ranks, layers_of):
    """layers_of(rank) as pipeline_layers gives it."""
    os.makedirs(folder, exist_ok=True)
    for r in range(ranks):
        for index, tensors in layers_of(r):
            save_dict(os.path.join(
                folder, f'layer_{index:02}-model_{r:02}-model_states.pt'),
                tensors)


def write_pipeline(folder, model, ranks=1, gap=0, version=3.0, stages=1,
                   edit=None, head='lm_head.weight'):
    """A Megatron GPT in layers; edit(rank, layers) changes a rank's."""
    def layers_of(r):
        layers = pipeline_layers(model.rank(r, ranks), head, gap)
        if edit:
            edit(r, layers)
        return layers
    write_layers(folder, ranks, layers_of)
    if version is not None:
        for i in range(ranks * stages):
            state(os.path.join(folder, f'mp_rank_{i:02}_model_states.pt'),
                  model.args(ranks, stages), version)


def write_universal(folder, tensors, more=None, args=None, version=3.0,
                    states=1, edit=None, **keys):
    """zero/NAME/fp32.pt for each tensor, with more(name) beside it; `states`
    files of model states, unless there are no args."""
    for name, v in tensors.items():
        items = {'param': v}
        path = os.path.join(folder, 'zero', name, 'fp32.pt')
        save_dict(path, items, more(name) if more else ())
        save_dict(os.path.join(folder, 'zero', name, 'exp_avg.pt'), items)
    save_dict(os.path.join(folder, 'zero', 'optimizer_state.pt'), {})
    for i in range(states if args is not None else 0):
        state(os.path.join(folder, f'mp_rank_{i:02}_model_states.pt'), args,
              version, **keys)


def merged_by_ranks(model, ranks):
    """The tensors as the universal form merges them: gate and up each whole,
    all else side by side."""
    out = {}
    for name, whole in model.rank().items():
        parts = [model.rank(r, ranks)[name] for r in range(ranks)]
        if name.endswith(('query_key_value.weight', 'query_key_value.bias')):
            whole = [row for p in parts for row in p]
        out[name] = whole
    return out


def write_config(folder, config):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, 'config.json'), 'w') as f:
        json.dump(config, f)



def add_experts(folder, model, layers, ranks=1, old=False, cut=False,
                residual=(), edit=None, **keys):
    """A Megatron GPT whose `layers` {number: experts} are MoE layers, in
    mp_rank_XX_model_states.pt and files of experts, which edit(file name,
    tensors) may change or, returning True, leave out. cut: experts are dealt
    to the ranks."""
    os.makedirs(folder, exist_ok=True)
    inner = 'deepspeed_moe.experts.deepspeed_experts'
    for r in range(ranks):
        module, files = {}, {}
        for name, v in model.rank(r, ranks).items():
            number = (int(name[len(LAYERS):].split('.')[0])
                      if name.startswith(LAYERS) else -1)
            if number not in layers or '.mlp.' not in name:
                module[name] = v
                continue
            mlp, _, rest = name.partition('.mlp.')
            whole = model.rank()[name]
            if number in residual:
                module[f'{mlp}.mlp.mlp.{rest}'] = v
            for e in range(layers[number]):
                path = f'expert_{e}_mp_rank_{r:02}_model_states.pt'
                if not old:
                    path = f'layer_{sorted(layers).index(number)}_{path}'
                files.setdefault(path, {})[
                    f'{mlp}.mlp.{inner}.{e}.{rest}'] = v if cut else whole
        for number, count in layers.items():
            module[f'{LAYERS}{number}.mlp.deepspeed_moe.gate.wg.weight'] = (
                m.table(f'{number}.gate', count, m.HIDDEN))
            if number in residual:
                module[f'{LAYERS}{number}.mlp.coefficient.weight'] = m.table(
                    f'{number}.coefficient', 2, m.HIDDEN)
                module[f'{LAYERS}{number}.mlp.coefficient.bias'] = m.table(
                    f'{number}.coefficientb', 2)
        counts = [layers[n] for n in sorted(layers)]
        items = {'dp_world_size': 1, 'mp_world_size': ranks,
                 'global_steps': 100, 'iteration': 100,
                 'checkpoint_version': 3.0,
                 'num_experts': counts[0] if old else counts, **keys}
        args = {**model.args(ranks), 'num_experts': counts,
                'enable_expert_tensor_parallelism': cut}
        items['args'] = t.namespace(args)
        names = {f'mp_rank_{r:02}_model_states.pt': module, **files}
        for path, tensors in names.items():
            if edit and edit(path, tensors):
                continue
            if path.startswith('mp_rank_'):
                storages = {}
                opcodes = m.nested(tensors, storages)
                with open(os.path.join(folder, path), 'wb') as f:
                    f.write(t.torch_zip(t.dict_({**items, 'module': opcodes}),
                                        storages).build())
            else:
                save_dict(os.path.join(folder, path), tensors)
