"""Writes one small LLaMA as a Hugging Face folder and as Meta saves it, a file
for each rank. Standard library only.

The numbers are made up by name, so that every form holds the same model.
"""
import json
import os
import struct

import torch_writer as t
from megatron_writer import shape_and_bytes, table


class Llama:
    """Shapes that are multiples of nothing but the ranks."""

    def __init__(self, layers=2, heads=12, kv_heads=4, head_dim=6, dim=24,
                 inner=36, vocab=60, tied=False):
        self.layers, self.heads, self.kv_heads = layers, heads, kv_heads
        self.head_dim, self.dim, self.inner = head_dim, dim, inner
        self.vocab, self.tied = vocab, tied

    def config(self):
        return {'architectures': ['LlamaForCausalLM'], 'model_type': 'llama',
                'hidden_size': self.dim, 'num_hidden_layers': self.layers,
                'num_attention_heads': self.heads,
                'num_key_value_heads': self.kv_heads,
                'head_dim': self.head_dim, 'hidden_act': 'silu',
                'rms_norm_eps': 1e-05, 'rope_theta': 10000.0,
                'max_position_embeddings': 4096,
                'intermediate_size': self.inner, 'vocab_size': self.vocab,
                'tie_word_embeddings': self.tied}

    def tensors(self):
        """{name: matrix or vector} under Hugging Face's names."""
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        shapes = {'model.embed_tokens.weight': (self.vocab, self.dim),
                  'model.norm.weight': (self.dim,)}
        if not self.tied:
            shapes['lm_head.weight'] = (self.vocab, self.dim)
        for i in range(self.layers):
            p = f'model.layers.{i}.'
            shapes.update({
                p + 'self_attn.q_proj.weight': (q, self.dim),
                p + 'self_attn.k_proj.weight': (kv, self.dim),
                p + 'self_attn.v_proj.weight': (kv, self.dim),
                p + 'self_attn.o_proj.weight': (self.dim, q),
                p + 'mlp.gate_proj.weight': (self.inner, self.dim),
                p + 'mlp.up_proj.weight': (self.inner, self.dim),
                p + 'mlp.down_proj.weight': (self.dim, self.inner),
                p + 'input_layernorm.weight': (self.dim,),
                p + 'post_attention_layernorm.weight': (self.dim,)})
        return {name: table(name, *shape) for name, shape in shapes.items()}

    def params(self):
        return {'dim': self.dim, 'n_layers': self.layers,
                'n_heads': self.heads, 'n_kv_heads': self.kv_heads,
                'head_dim': self.head_dim, 'vocab_size': -1,
                'multiple_of': self.inner, 'ffn_dim_multiplier': 0.1,
                'norm_eps': 1e-05}


META = {'self_attn.q_proj': 'attention.wq', 'self_attn.k_proj': 'attention.wk',
        'self_attn.v_proj': 'attention.wv', 'self_attn.o_proj': 'attention.wo',
        'mlp.gate_proj': 'feed_forward.w1', 'mlp.up_proj': 'feed_forward.w3',
        'mlp.down_proj': 'feed_forward.w2', 'input_layernorm': 'attention_norm',
        'post_attention_layernorm': 'ffn_norm',
        'embed_tokens': 'tok_embeddings', 'lm_head': 'output'}


def pairs_side_by_side(rows, width):
    """Rows of whole heads in Meta's order of rotary pairs."""
    out = []
    for h in range(0, len(rows), width):
        head, half = rows[h:h + width], width // 2
        for i in range(half):
            out += [head[i], head[i + half]]
    return out


def meta_rank(model, rank, ranks, embedding='columns'):
    """What a rank's file holds, by Meta's names. More ranks than heads of keys
    hold copies of these."""
    def rows(m):
        n = len(m) // ranks
        return m[rank * n:(rank + 1) * n]

    def columns(m):
        n = len(m[0]) // ranks
        return [row[rank * n:(rank + 1) * n] for row in m]

    def keys(m):
        if ranks <= model.kv_heads:
            return rows(m)
        at = rank * model.kv_heads // ranks * model.head_dim
        return m[at:at + model.head_dim]

    out = {}
    for name, m in model.tensors().items():
        stem = name[:-len('.weight')].replace('model.', '')
        for theirs, metas in META.items():
            stem = stem.replace(theirs, metas)
        kind = stem.split('.')[-1]
        if kind in ('wq', 'wk'):
            m = pairs_side_by_side(m, model.head_dim)
        cut = (columns if kind in ('wo', 'w2') else
               keys if kind in ('wk', 'wv') else
               rows if kind in ('wq', 'w1', 'w3', 'output') else
               {'rows': rows, 'columns': columns}[embedding]
               if kind == 'tok_embeddings' else lambda m: m)
        out[stem + '.weight'] = cut(m)
    return out


def save_dict(path, tensors, more=()):
    """A file of torch.save: {name: matrix or vector} and, of `more`, {name:
    value or opcodes}."""
    storages, items = {}, dict(more)
    for name, v in tensors.items():
        shape, data = shape_and_bytes(v)
        key = str(len(storages))
        storages[key] = data
        items[name] = t.tensor(t.storage(key, 'float32', len(data) // 4), shape)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'wb') as f:
        f.write(t.torch_zip(t.dict_(items), storages).build())


def write_meta(folder, model, ranks=1, embedding='columns', edit=None,
               params=None):
    """params.json and a file for each rank; edit(rank, tensors) changes one."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, 'params.json'), 'w') as f:
        json.dump({**model.params(), **(params or {})}, f)
    for r in range(ranks):
        tensors = meta_rank(model, r, ranks, embedding)
        tensors['rope.freqs'] = [1.0] * (model.head_dim // 2)
        if edit:
            edit(r, tensors)
        save_dict(os.path.join(folder, f'consolidated.{r:02}.pth'), tensors)


def write_hf(folder, model, **config):
    os.makedirs(folder, exist_ok=True)
    head, body = {}, b''
    for name, v in model.tensors().items():
        shape, data = shape_and_bytes(v)
        head[name] = {'dtype': 'F32', 'shape': shape,
                      'data_offsets': [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(head).encode()
    with open(os.path.join(folder, 'model.safetensors'), 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text + body)
    with open(os.path.join(folder, 'config.json'), 'w') as f:
        json.dump({**model.config(), **config}, f)
