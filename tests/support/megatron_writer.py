"""Writes one small GPT as Megatron-LM saves it, for any numbers of ranks, and as
a folder of whole tensors. Standard library only.

The numbers are made up by name, so that every form holds the same model.
"""
import json
import os
import random
import struct

import torch_writer as t

LAYERS, HEADS, HEAD_DIM, HIDDEN, INNER = 4, 8, 4, 20, 24
VOCAB, POSITIONS = 40, 16


class Model:
    """version: of the order of query_key_value; groups: of the heads; gated:
    with swiglu, RMS norms and no biases; core: the names of Megatron-core."""

    def __init__(self, version=2, groups=HEADS, gated=False, core=False,
                 untied=False):
        self.version, self.groups, self.gated = version, groups, gated
        self.core, self.untied = core, untied

    def args(self, tensor_ranks=1, stages=1):
        out = {'num_layers': LAYERS, 'hidden_size': HIDDEN,
               'num_attention_heads': HEADS, 'kv_channels': HEAD_DIM,
               'ffn_hidden_size': INNER, 'max_position_embeddings': POSITIONS,
               'padded_vocab_size': VOCAB, 'layernorm_epsilon': 1e-5,
               'untie_embeddings_and_output_weights': self.untied,
               'tensor_model_parallel_size': tensor_ranks,
               'pipeline_model_parallel_size': stages}
        if self.groups != HEADS:
            out.update(group_query_attention=True,
                       num_query_groups=self.groups)
        if self.gated:
            out.update(swiglu=True, normalization='RMSNorm',
                       add_bias_linear=False, add_position_embedding=False,
                       position_embedding_type='rope')
        return out

    # Matrices are lists of rows, vectors lists of numbers.
    def layer(self, i, rank, ranks):
        """What a rank holds of layer i, by name below it."""
        def part(items):
            n = len(items) // ranks
            return items[rank * n:(rank + 1) * n]

        def columns(matrix):
            return [part(row) for row in matrix]

        def qkv(width):
            q, k, v = (table(f'{i}.{n}{width}', heads * HEAD_DIM, width)
                       for n, heads in (('q', HEADS), ('k', self.groups),
                                        ('v', self.groups)))
            q, k, v = part(q), part(k), part(v)
            if self.version == 0:
                return q + k + v
            if self.version == 1:
                return [row for rows in zip(q, k, v) for row in rows]
            size = len(q) // (self.groups // ranks)
            out = []
            for g in range(self.groups // ranks):
                out += q[g * size:(g + 1) * size]
                out += k[g * HEAD_DIM:(g + 1) * HEAD_DIM]
                out += v[g * HEAD_DIM:(g + 1) * HEAD_DIM]
            return out

        def up(width):
            if not self.gated:
                return part(table(f'{i}.up{width}', INNER, width))
            return (part(table(f'{i}.gate{width}', INNER, width))
                    + part(table(f'{i}.up{width}', INNER, width)))

        names = {
            'norm1': 'input_layernorm', 'norm2': 'post_attention_layernorm',
            'qkv': 'self_attention.query_key_value',
            'out': 'self_attention.dense', 'up': 'mlp.dense_h_to_4h',
            'down': 'mlp.dense_4h_to_h'}
        if self.core:
            names.update({
                'norm1': 'self_attention.linear_qkv.layer_norm',
                'norm2': 'mlp.linear_fc1.layer_norm',
                'qkv': 'self_attention.linear_qkv',
                'out': 'self_attention.linear_proj', 'up': 'mlp.linear_fc1',
                'down': 'mlp.linear_fc2'})
        dot = {n: '_' if n.startswith('norm') and self.core else '.'
               for n in names}
        out = {'norm1': table(f'{i}.norm1', HIDDEN), 'qkv': qkv(HIDDEN),
               'out': columns(table(f'{i}.out', HIDDEN, HEADS * HEAD_DIM)),
               'norm2': table(f'{i}.norm2', HIDDEN), 'up': up(HIDDEN),
               'down': columns(table(f'{i}.down', HIDDEN, INNER))}
        weights = {f'{names[n]}{dot[n]}weight': v for n, v in out.items()}
        if not self.gated:
            biases = {'norm1': table(f'{i}.norm1b', HIDDEN), 'qkv': qkv(0),
                      'out': table(f'{i}.outb', HIDDEN),
                      'norm2': table(f'{i}.norm2b', HIDDEN), 'up': up(0),
                      'down': table(f'{i}.downb', HIDDEN)}
            weights.update({f'{names[n]}{dot[n]}bias': v
                            for n, v in biases.items()})
        return weights

    def rank(self, rank=0, ranks=1, layers=range(LAYERS), first=True,
             last=True):
        """What a rank holds, by name; its layers are numbered from 0."""
        top = '' if self.core else 'language_model.'
        body = 'decoder' if self.core else 'language_model.encoder'
        rows = VOCAB // ranks

        def vocabulary(name):
            return table(name, VOCAB, HIDDEN)[rank * rows:(rank + 1) * rows]
        out = {}
        if first:
            out[f'{top}embedding.word_embeddings.weight'] = vocabulary('embed')
            if not self.gated:
                out[f'{top}embedding.position_embeddings.weight'] = table(
                    'positions', POSITIONS, HIDDEN)
        for local, i in enumerate(layers):
            for name, v in self.layer(i, rank, ranks).items():
                out[f'{body}.layers.{local}.{name}'] = v
        if last:
            out[f'{body}.final_layernorm.weight'] = table('final', HIDDEN)
            if not self.gated:
                out[f'{body}.final_layernorm.bias'] = table('finalb', HIDDEN)
            if self.untied:
                out[f'{top}output_layer.weight'] = vocabulary('head')
            elif not first:
                out['word_embeddings_for_head.weight'] = vocabulary('embed')
        return out


_TABLES = {}


def table(name, rows, width=0):
    """A matrix, or a vector where width is 0; the same for the same name."""
    key = (name, rows, width)
    if key not in _TABLES:
        r = random.Random(f'{name}')
        _TABLES[key] = ([[r.gauss(0, 0.2) for _ in range(width)]
                         for _ in range(rows)] if width
                        else [r.gauss(0, 0.2) for _ in range(rows)])
    return _TABLES[key]


def shape_and_bytes(v):
    matrix = isinstance(v[0], list)
    flat = [x for row in v for x in row] if matrix else v
    shape = [len(v), len(v[0])] if matrix else [len(v)]
    return shape, struct.pack(f'<{len(flat)}f', *flat)


def nested(tensors, storages):
    """Opcodes of Megatron's tree: dicts down to the layers, whose names are
    flat."""
    tree = {}
    for name, v in tensors.items():
        shape, data = shape_and_bytes(v)
        key = str(len(storages))
        storages[key] = data
        opcodes = t.tensor(t.storage(key, 'float32', len(data) // 4), shape)
        parts = name.split('.')
        at = next((i for i, p in enumerate(parts)
                   if p in ('layers', 'final_layernorm')), len(parts) - 1)
        node = tree
        for p in parts[:at]:
            node = node.setdefault(p, {})
        node['.'.join(parts[at:])] = opcodes
    return t.dict_(tree)


def save(path, root, chunks):
    """root: {key: value or opcodes}; chunks: {key: tensors}."""
    storages = {}
    items = dict(root)
    for key, tensors in chunks.items():
        items[key] = nested(tensors, storages)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'wb') as f:
        f.write(t.torch_zip(t.dict_(items), storages).build())


def write(folder, model, tensor_ranks=1, stages=1, virtual=1, edit=None,
          staged=None):
    """mp_rank_XX[_YYY]/model_optim_rng.pt for every rank; edit(stage, rank,
    root, chunks) changes one. -> the paths, by stage and rank."""
    staged = stages > 1 if staged is None else staged
    per, paths = LAYERS // stages // virtual, []
    for s in range(stages):
        for r in range(tensor_ranks):
            chunks = {}
            for c in range(virtual):
                begin = (c * stages + s) * per
                key = f'model{c}' if virtual > 1 else 'model'
                chunks[key] = model.rank(
                    r, tensor_ranks, range(begin, begin + per),
                    first=s == 0 and c == 0,
                    last=s == stages - 1 and c == virtual - 1)
            root = {'args': model.args(tensor_ranks, stages),
                    'iteration': 100}
            if model.version:
                root['checkpoint_version'] = float(model.version)
            if edit:
                edit(s, r, root, chunks)
            if isinstance(root.get('args'), dict):
                root['args'] = t.namespace(root['args'])
            name = f'mp_rank_{r:02}' + (f'_{s:03}' if staged else '')
            paths.append(os.path.join(folder, name, 'model_optim_rng.pt'))
            save(paths[-1], root, chunks)
    return paths


def write_whole(folder, model):
    """The model as config.json and model.safetensors."""
    os.makedirs(folder, exist_ok=True)
    head, body = {}, b''
    for name, v in model.rank().items():
        shape, data = shape_and_bytes(v)
        head[name] = {'dtype': 'F32', 'shape': shape,
                      'data_offsets': [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(head).encode()
    with open(os.path.join(folder, 'model.safetensors'), 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text + body)
    with open(os.path.join(folder, 'config.json'), 'w') as f:
        json.dump({'model_type': 'megatron_gpt',
                   'checkpoint_version': model.version, **model.args()}, f)
