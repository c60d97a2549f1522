#!/usr/bin/env python3
"""Writes one made-up Llama of a given size in one of four containers.

    make_large_checkpoint.py DIR --form FORM [--gigabytes 4] [--ranks 4]

FORM: safetensors (four shards), torch (one pytorch_model.bin), megatron
(mp_rank_XX, version 3.0, bf16), zero3 (a training folder whose data parallel
ranks hold fp32 partitions without the optimizer's moments). The first three hold
the same bf16 numbers; zero3 holds them as fp32, and is of half as many layers
for the same bytes. Standard library only; one tensor is in memory at a time.
"""
import argparse
import json
import os
import random
import struct
import sys
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'tests', 'support'))
import torch_writer as t  # noqa: E402

HIDDEN, INNER, HEADS, KV_HEADS, HEAD_DIM, VOCAB = 2048, 5632, 16, 4, 128, 32000
FORMS = ('safetensors', 'torch', 'megatron', 'zero3')
SHARDS = 4
NOISE = 4099  # numbers; a prime, so that no two rows are alike


def count(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def tensors(layers):
    yield 'model.embed_tokens.weight', [VOCAB, HIDDEN]
    for i in range(layers):
        p = f'model.layers.{i}.'
        yield p + 'input_layernorm.weight', [HIDDEN]
        yield p + 'self_attn.q_proj.weight', [HEADS * HEAD_DIM, HIDDEN]
        yield p + 'self_attn.k_proj.weight', [KV_HEADS * HEAD_DIM, HIDDEN]
        yield p + 'self_attn.v_proj.weight', [KV_HEADS * HEAD_DIM, HIDDEN]
        yield p + 'self_attn.o_proj.weight', [HIDDEN, HEADS * HEAD_DIM]
        yield p + 'post_attention_layernorm.weight', [HIDDEN]
        yield p + 'mlp.gate_proj.weight', [INNER, HIDDEN]
        yield p + 'mlp.up_proj.weight', [INNER, HIDDEN]
        yield p + 'mlp.down_proj.weight', [HIDDEN, INNER]
    yield 'model.norm.weight', [HIDDEN]
    yield 'lm_head.weight', [VOCAB, HIDDEN]


_rng = random.Random(11)
_block = b''.join(struct.pack('<f', _rng.uniform(-0.04, 0.04))[2:]
                  for _ in range(NOISE))


def bf16(name, shape):
    """A tensor's bytes: of one block, begun at a place that the name gives."""
    size = 2 * count(shape)
    if 'norm' in name:
        return struct.pack('<f', 1.0)[2:] * count(shape)
    at = 2 * (zlib.crc32(name.encode()) % NOISE)
    whole = _block * ((at + size) // len(_block) + 1)
    return memoryview(whole)[at:at + size]


def layers_for(size, element):
    """Layers that make about so many bytes."""
    one, two = (sum(count(s) for _, s in tensors(n)) for n in (1, 2))
    return max(1, 1 + round((size / element - one) / (two - one)))


def config(layers):
    return {'architectures': ['LlamaForCausalLM'], 'model_type': 'llama',
            'hidden_size': HIDDEN, 'intermediate_size': INNER,
            'num_hidden_layers': layers, 'num_attention_heads': HEADS,
            'num_key_value_heads': KV_HEADS, 'head_dim': HEAD_DIM,
            'vocab_size': VOCAB, 'max_position_embeddings': 2048,
            'rms_norm_eps': 1e-5, 'hidden_act': 'silu', 'rope_theta': 10000.0,
            'tie_word_embeddings': False, 'torch_dtype': 'bfloat16'}


class TorchFile:
    """A file of torch.save, entry by entry: stored, bytes at multiples of 64,
    zip64 wherever a place or size needs it."""

    def __init__(self, path, opcodes):
        self.f, self.directory, self.entries = open(path, 'wb'), b'', 0
        self.add('data.pkl', t.pickle(opcodes))
        self.add('byteorder', b'little')

    def add(self, name, data):
        raw, at = f'archive/{name}'.encode(), self.f.tell()
        common = struct.pack('<HHHHIII', 0, 0, 0, 33, zlib.crc32(data),
                             len(data), len(data))
        pad = -(at + 30 + len(raw) + 4) % 64
        self.f.write(b'PK\3\4' + struct.pack('<H', 45) + common
                     + struct.pack('<HH', len(raw), pad + 4) + raw
                     + struct.pack('<HH', 0x4246, pad) + b'Z' * pad)
        self.f.write(data)
        large = struct.pack('<HHQ', 1, 8, at) if at >= 2**32 - 1 else b''
        self.directory += (
            b'PK\1\2' + struct.pack('<HH', 45, 45) + common
            + struct.pack('<HHHHHII', len(raw), len(large), 0, 0, 0, 0,
                          min(at, 2**32 - 1)) + raw + large)
        self.entries += 1

    def close(self):
        self.add('version', b'3\n')
        at, size = self.f.tell(), len(self.directory)
        self.f.write(self.directory)
        self.f.write(b'PK\6\6' + struct.pack('<QHHIIQQQQ', 44, 45, 45, 0, 0,
                                             self.entries, self.entries, size,
                                             at))
        self.f.write(b'PK\6\7' + struct.pack('<IQI', 0, at + size, 1))
        self.f.write(b'PK\5\6' + struct.pack(
            '<HHHHIIH', 0, 0, min(self.entries, 65535),
            min(self.entries, 65535), size, min(at, 2**32 - 1), 0))
        self.f.close()


def write_json(folder, name, value):
    with open(os.path.join(folder, name), 'w', encoding='utf-8') as f:
        json.dump(value, f, indent=1)


def tensor_of(key, shape, dtype='bfloat16'):
    return t.tensor(t.storage(str(key), dtype, count(shape)), shape)


def write_safetensors(folder, layers):
    rows, weight_map, total = list(tensors(layers)), {}, 0
    for s in range(SHARDS):
        part = rows[len(rows) * s // SHARDS:len(rows) * (s + 1) // SHARDS]
        name = f'model-{s + 1:05d}-of-{SHARDS:05d}.safetensors'
        head, at = {}, 0
        for key, shape in part:
            head[key] = {'dtype': 'BF16', 'shape': shape,
                         'data_offsets': [at, at + 2 * count(shape)]}
            at += 2 * count(shape)
            weight_map[key] = name
        total += at
        text = json.dumps(head).encode()
        text += b' ' * (-len(text) % 8)
        with open(os.path.join(folder, name), 'wb') as f:
            f.write(struct.pack('<Q', len(text)) + text)
            for key, shape in part:
                f.write(bf16(key, shape))
    write_json(folder, 'model.safetensors.index.json',
               {'metadata': {'total_size': total}, 'weight_map': weight_map})
    write_json(folder, 'config.json', config(layers))


def write_torch(folder, layers):
    rows = list(tensors(layers))
    f = TorchFile(os.path.join(folder, 'pytorch_model.bin'), t.dict_({
        name: tensor_of(i, shape) for i, (name, shape) in enumerate(rows)}))
    for i, (name, shape) in enumerate(rows):
        f.add(f'data/{i}', bf16(name, shape))
    f.close()
    write_json(folder, 'config.json', config(layers))


def megatron_rank(layers, rank, ranks):
    """What a rank holds: (place in the tree, shape, bytes when called)."""
    def rows(name, n, width=HIDDEN):
        return lambda: bf16(name, [n, width])[
            2 * width * n // ranks * rank:2 * width * n // ranks * (rank + 1)]

    def columns(name, n, width):
        def make():
            whole, own = bf16(name, [n, width]), width // ranks
            return b''.join(
                whole[2 * (r * width + rank * own):
                      2 * (r * width + (rank + 1) * own)] for r in range(n))
        return make

    def joined(*parts):
        return lambda: b''.join(p() for p in parts)

    def qkv(p):
        def make():
            q, k, v = (bf16(f'{p}self_attn.{n}_proj.weight', [heads * HEAD_DIM,
                                                              HIDDEN])
                       for n, heads in (('q', HEADS), ('k', KV_HEADS),
                                        ('v', KV_HEADS)))
            one, out = 2 * HEAD_DIM * HIDDEN, []
            own = KV_HEADS // ranks
            for g in range(rank * own, (rank + 1) * own):
                wide = one * HEADS // KV_HEADS
                out += [q[wide * g:wide * (g + 1)], k[one * g:one * (g + 1)],
                        v[one * g:one * (g + 1)]]
            return b''.join(out)
        return make

    yield ('embedding', 'word_embeddings', 'weight'), [
        VOCAB // ranks, HIDDEN], rows('model.embed_tokens.weight', VOCAB)
    for i in range(layers):
        p, to = f'model.layers.{i}.', f'layers.{i}.'

        def norm(name, p=p):
            return lambda: bf16(p + name, [HIDDEN])
        yield ('encoder', to + 'input_layernorm.weight'), [HIDDEN], norm(
            'input_layernorm.weight')
        yield ('encoder', to + 'self_attention.query_key_value.weight'), [
            (HEADS + 2 * KV_HEADS) // ranks * HEAD_DIM, HIDDEN], qkv(p)
        yield ('encoder', to + 'self_attention.dense.weight'), [
            HIDDEN, HEADS * HEAD_DIM // ranks], columns(
                p + 'self_attn.o_proj.weight', HIDDEN, HEADS * HEAD_DIM)
        yield ('encoder', to + 'post_attention_layernorm.weight'), [
            HIDDEN], norm('post_attention_layernorm.weight')
        yield ('encoder', to + 'mlp.dense_h_to_4h.weight'), [
            2 * INNER // ranks, HIDDEN], joined(
                rows(p + 'mlp.gate_proj.weight', INNER),
                rows(p + 'mlp.up_proj.weight', INNER))
        yield ('encoder', to + 'mlp.dense_4h_to_h.weight'), [
            HIDDEN, INNER // ranks], columns(p + 'mlp.down_proj.weight', HIDDEN,
                                             INNER)
    yield ('encoder', 'final_layernorm.weight'), [
        HIDDEN], lambda: bf16('model.norm.weight', [HIDDEN])
    yield ('output_layer', 'weight'), [VOCAB // ranks, HIDDEN], rows(
        'lm_head.weight', VOCAB)


def write_megatron(folder, layers, ranks):
    args = t.namespace({
        'num_layers': layers, 'hidden_size': HIDDEN,
        'num_attention_heads': HEADS, 'kv_channels': HEAD_DIM,
        'group_query_attention': True, 'num_query_groups': KV_HEADS,
        'ffn_hidden_size': INNER, 'max_position_embeddings': 2048,
        'padded_vocab_size': VOCAB, 'layernorm_epsilon': 1e-5, 'swiglu': True,
        'normalization': 'RMSNorm', 'add_bias_linear': False,
        'add_position_embedding': False, 'position_embedding_type': 'rope',
        'untie_embeddings_and_output_weights': True,
        'tensor_model_parallel_size': ranks,
        'pipeline_model_parallel_size': 1})
    for rank in range(ranks):
        held, tree = list(megatron_rank(layers, rank, ranks)), {}
        for i, (place, shape, _) in enumerate(held):
            node = tree
            for p in place[:-1]:
                node = node.setdefault(p, {})
            node[place[-1]] = tensor_of(i, shape)
        to = os.path.join(folder, f'mp_rank_{rank:02d}')
        os.makedirs(to)
        f = TorchFile(os.path.join(to, 'model_optim_rng.pt'), t.dict_({
            'args': args, 'checkpoint_version': 3.0, 'iteration': 100,
            'model': {'language_model': tree}}))
        for i, (_, _, data) in enumerate(held):
            f.add(f'data/{i}', data())
        f.close()


def float32(data):
    """bf16 bytes as fp32."""
    out = bytearray(2 * len(data))
    out[2::4], out[3::4] = data[0::2], data[1::2]
    return out


def write_zero3(folder, layers, ranks):
    rows = list(tensors(layers))
    tag = os.path.join(folder, 'global_step100')
    os.makedirs(tag)
    with open(os.path.join(folder, 'latest'), 'w', encoding='ascii') as f:
        f.write('global_step100')
    shapes = t.dict_({name: t.name('torch', 'Size') + t.tuple_(
        t.numbers(shape)) + b'R' for name, shape in rows})
    shares = {name: -(-count(shape) // ranks) for name, shape in rows}
    empty = t.tensor(t.storage('0', 'bfloat16', 0), [0])
    for rank in range(ranks):
        begin = os.path.join(tag, f'zero_pp_rank_{rank}_mp_rank_00_')
        f = TorchFile(begin + 'model_states.pt', t.dict_({
            'module': {name: empty for name, _ in rows}, 'buffer_names': [],
            'param_shapes': [shapes], 'frozen_param_shapes': None,
            'shared_params': {}, 'frozen_param_fragments': None,
            'global_steps': 100, 'dp_world_size': ranks, 'mp_world_size': 1,
            'ds_version': '0.16.0'}))
        f.add('data/0', b'')
        f.close()
        flat = t.tensor(t.storage('0', 'float32', sum(shares.values())),
                        [sum(shares.values())])
        f = TorchFile(begin + 'optim_states.pt', t.dict_({
            'optimizer_state_dict': {
                'zero_stage': 3, 'partition_count': ranks,
                'fp32_flat_groups': [flat]},
            'ds_version': '0.16.0'}))
        data = bytearray()
        for name, shape in rows:
            share = 2 * shares[name]
            part = float32(bf16(name, shape)[share * rank:share * (rank + 1)])
            data += part + bytes(2 * share - len(part))
        f.add('data/0', data)
        f.close()
    write_json(folder, 'config.json', config(layers))


def write(folder, form, gigabytes, ranks=4):
    """-> the bytes of the largest tensor as the file has it."""
    element = 4 if form == 'zero3' else 2
    layers = layers_for(gigabytes * 2**30, element)
    os.makedirs(folder)
    if form == 'safetensors':
        write_safetensors(folder, layers)
    elif form == 'torch':
        write_torch(folder, layers)
    elif form == 'megatron':
        write_megatron(folder, layers, ranks)
    else:
        write_zero3(folder, layers, ranks)
    return max(count(s) for _, s in tensors(layers)) * element


def main():
    p = argparse.ArgumentParser()
    p.add_argument('dir')
    p.add_argument('--form', choices=FORMS, required=True)
    p.add_argument('--gigabytes', type=float, default=4)
    p.add_argument('--ranks', type=int, default=4)
    a = p.parse_args()
    write(a.dir, a.form, a.gigabytes, a.ranks)


if __name__ == '__main__':
    main()
