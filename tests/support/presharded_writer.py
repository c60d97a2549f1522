"""Cuts a Hugging Face folder as DeepSpeed's kernel injection does, and saves it
as save_mp_checkpoint_path does. Standard library only.
"""
import json
import os
import shutil
import struct

import torch_writer as t

TYPES = {'F32': ('float32', 4), 'F16': ('float16', 2), 'BF16': ('bfloat16', 2),
         'I64': ('int64', 8), 'I8': ('int8', 1), 'U8': ('uint8', 1),
         'BOOL': ('bool', 1)}
LLAMA = {'layers': 'model.layers.',
         'qkv': ['self_attn.q_proj', 'self_attn.k_proj', 'self_attn.v_proj'],
         'out': 'self_attn.o_proj', 'up': ['mlp.up_proj', 'mlp.gate_proj'],
         'down': 'mlp.down_proj', 'norm': 'input_layernorm',
         'mlp_norm': 'post_attention_layernorm'}
NEOX = {'layers': 'gpt_neox.layers.', 'qkv': ['attention.query_key_value'],
        'out': 'attention.dense', 'up': ['mlp.dense_h_to_4h'],
        'down': 'mlp.dense_4h_to_h', 'norm': 'input_layernorm',
        'mlp_norm': 'post_attention_layernorm'}
BERT = {'layers': 'encoder.layer.',
        'qkv': ['attention.self.query', 'attention.self.key',
                'attention.self.value'],
        'out': 'attention.output.dense', 'up': ['intermediate.dense'],
        'down': 'output.dense', 'norm': 'output.LayerNorm',
        'mlp_norm': 'attention.output.LayerNorm'}
FAMILIES = {
    'llama': LLAMA, 'internlm': LLAMA, 'gpt_neox': NEOX, 'bert': BERT,
    'roberta': BERT,
    'bloom': {**NEOX, 'layers': 'transformer.h.',
              'qkv': ['self_attention.query_key_value'],
              'out': 'self_attention.dense'},
    'opt': {'layers': 'decoder.layers.',
            'qkv': ['self_attn.q_proj', 'self_attn.k_proj',
                    'self_attn.v_proj'],
            'out': 'self_attn.out_proj', 'up': ['fc1'], 'down': 'fc2',
            'norm': 'self_attn_layer_norm', 'mlp_norm': 'final_layer_norm'},
    'gptj': {'layers': 'transformer.h.',
             'qkv': ['attn.q_proj', 'attn.k_proj', 'attn.v_proj'],
             'out': 'attn.out_proj', 'up': ['mlp.fc_in'],
             'down': 'mlp.fc_out', 'norm': 'ln_1', 'mlp_norm': None},
    'gpt2': {'layers': 'transformer.h.', 'qkv': ['attn.c_attn'],
             'out': 'attn.c_proj', 'up': ['mlp.c_fc'], 'down': 'mlp.c_proj',
             'norm': 'ln_1', 'mlp_norm': 'ln_2', 'conv': True},
    'gpt_neo': {'layers': 'transformer.h.',
                'qkv': ['attn.attention.q_proj', 'attn.attention.k_proj',
                        'attn.attention.v_proj'],
                'out': 'attn.attention.out_proj', 'up': ['mlp.c_fc'],
                'down': 'mlp.c_proj', 'norm': 'ln_1', 'mlp_norm': 'ln_2'},
    'distilbert': {'layers': 'transformer.layer.',
                   'qkv': ['attention.q_lin', 'attention.k_lin',
                           'attention.v_lin'],
                   'out': 'attention.out_lin', 'up': ['ffn.lin1'],
                   'down': 'ffn.lin2', 'norm': 'output_layer_norm',
                   'mlp_norm': 'sa_layer_norm'}}


class Tensor:
    """Rows of elements, each as its bytes; a vector is rows of one element."""

    def __init__(self, dtype, rows, vector=False):
        self.dtype, self.rows, self.vector = dtype, rows, vector

    @classmethod
    def read(cls, dtype, shape, data):
        size = TYPES[dtype][1]
        cells = [data[i:i + size] for i in range(0, len(data), size)]
        width = shape[1] if len(shape) == 2 else 1
        return cls(dtype, [cells[i:i + width]
                           for i in range(0, len(cells), width)],
                   len(shape) != 2)

    def of(self, rows):
        return Tensor(self.dtype, rows, self.vector)

    def transposed(self):
        return self.of([list(c) for c in zip(*self.rows)])

    def columns(self, begin, end):
        return self.of([r[begin:end] for r in self.rows])

    def shape(self):
        return [len(self.rows)] + ([] if self.vector else [len(self.rows[0])])

    def data(self):
        return b''.join(b''.join(r) for r in self.rows)


def read(folder):
    with open(os.path.join(folder, 'model.safetensors'), 'rb') as f:
        head = json.loads(f.read(struct.unpack('<Q', f.read(8))[0]))
        data = f.read()
    head.pop('__metadata__', None)
    return {n: Tensor.read(e['dtype'], e['shape'],
                           data[slice(*e['data_offsets'])])
            for n, e in head.items()}


def strided(m, rank, ranks, blocks):
    """Of each of `blocks` equal blocks of rows the rank's own."""
    n = len(m.rows) // blocks
    return m.of([row for b in range(blocks) for row in
                 m.rows[b * n + n // ranks * rank:
                        b * n + n // ranks * (rank + 1)]])


def cut(tensors, config, rank, ranks):
    """What a rank's module holds, in its order: injected layers and the rest."""
    family = FAMILIES[config['model_type']]
    heads = next(config[k] for k in ('num_attention_heads', 'n_head', 'n_heads',
                                     'num_heads') if k in config)
    layers, out = {}, {}
    for name, m in tensors.items():
        at = name.find(family['layers'])
        if at < 0:
            out[name] = m
            continue
        number = name[at + len(family['layers']):].split('.')[0]
        prefix = name[:at] + family['layers'] + number + '.'
        layers.setdefault(prefix, {})[name[len(prefix):]] = m
    for prefix, layer in layers.items():
        def linear(modules, kind):
            """The joined linear as rows of outputs."""
            parts = [layer.pop(f'{m}.{kind}', None) for m in modules]
            if parts[0] is None:
                return None
            if kind == 'weight' and family.get('conv'):
                parts = [p.transposed() for p in parts]
            return parts[0].of([r for p in parts for r in p.rows])

        def put(name, m, kind):
            if m is not None:
                out[prefix + name] = m.transposed() if kind == 'weight' else m

        for kind, letter in (('weight', 'w'), ('bias', 'b')):
            qkv = linear(family['qkv'], kind)
            if qkv is not None:
                if config['model_type'] == 'gpt_neox':
                    width = len(qkv.rows) // heads // 3
                    qkv = qkv.of([qkv.rows[(h * 3 + p) * width + i]
                                  for p in range(3) for h in range(heads)
                                  for i in range(width)])
                blocks = 1 if config['model_type'] == 'bloom' else 3
                put(f'attention.attn_qkv{letter}',
                    strided(qkv, rank, ranks, blocks), kind)
            up = linear(family['up'], kind)
            if up is not None:
                put(f'mlp.inter_{letter}',
                    strided(up, rank, ranks, len(family['up'])), kind)
            for role, name in (('out', 'attention.attn_o'),
                               ('down', 'mlp.output_')):
                m = linear([family[role]], kind)
                if m is not None and kind == 'weight':
                    n = len(m.rows[0]) // ranks
                    m = m.columns(rank * n, (rank + 1) * n)
                put(name + letter, m, kind)
            for role, name in (('norm', 'norm_'), ('mlp_norm', 'mlp.attn_n')):
                m = layer.pop(f'{family[role]}.{kind}', None)
                if m is not None:
                    out[prefix + name + letter] = m
        # Buffers of attention are gone with it.
    return out


def save(path, tensors, edit=None):
    """{name: Tensor, or a list of them}"""
    storages = {}

    def opcodes(m):
        key = str(len(storages))
        data = storages[key] = m.data()
        kind, size = TYPES.get(m.dtype, (m.dtype, 1))
        return t.tensor(t.storage(key, kind, len(data) // size), m.shape())

    items = {n: (t.value([opcodes(x) for x in m]) if isinstance(m, list)
                 else opcodes(m)) for n, m in tensors.items()}
    with open(path, 'wb') as f:
        f.write(t.torch_zip(t.dict_(items), storages).build())


def write(folder, source, ranks, parts=8, head='whole', edit=None,
          listed=None, config=None):
    """The presharded form of the Hugging Face folder `source`. head: 'cut' when
    the model came through a checkpoint list; edit(rank, tensors) changes a
    rank, `listed` the list's keys, `config` those of config.json."""
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(source):
        if name.endswith('.json') or name == 'tokenizer.model':
            shutil.copy(os.path.join(source, name), folder)
    with open(os.path.join(source, 'config.json')) as f:
        keys = {**json.load(f), **(config or {})}
    with open(os.path.join(folder, 'config.json'), 'w') as f:
        json.dump(keys, f)
    tensors = read(source)
    bloom = keys['model_type'] == 'bloom'
    for rank in range(ranks):
        mine = cut(tensors, keys, rank, ranks)
        for name in ('lm_head.weight', 'embed_out.weight'):
            m = mine.get(name)
            if bloom and name == 'lm_head.weight':
                m = mine['transformer.word_embeddings.weight']
            if m is not None and head == 'cut':
                n = len(m.rows[0]) // ranks
                mine[name] = m.columns(rank * n, (rank + 1) * n)
        if edit:
            edit(rank, mine)
        names = list(mine)
        # DeepSpeed tells the rest from the layers for BLOOM alone.
        rest = [n for n in names if bloom and '.h.' not in n]
        if rank == 0:
            save(os.path.join(folder, 'non-tp.pt'), {n: mine[n] for n in rest})
        size = len(names) // parts + 1
        for p in range(parts):
            save(os.path.join(folder, f'tp_{rank:02}_{p:02}.pt'),
                 {n: mine[n] for n in names[p * size:(p + 1) * size]
                  if n not in rest})
    items = {'type': 'bloom' if bloom else 'ds_model', 'base_dir': folder,
             'checkpoints': {
                 'non_tp': ['non-tp.pt'],
                 'tp': [f'tp_{r:02}_{p:02}.pt' for p in range(parts)
                        for r in range(ranks)]},
             'version': 1.0, 'parallelization': 'tp', 'tp_size': ranks,
             'dtype': 'float16', **(listed or {})}
    with open(os.path.join(folder, 'ds_inference_config.json'), 'w') as f:
        json.dump({k: v for k, v in items.items() if v is not None}, f)
