#!/usr/bin/env python3
"""Writes a small Llama checkpoint with random weights in the Hugging Face layout.

    make_random_checkpoint.py DIR [--layers N] [--hidden N] [--gigabytes X]
                              [--shards N]

Its tokenizer knows single bytes and a chat template, so every command works on
it; its answers mean nothing. With --gigabytes layers are added until the weights
have that size (bf16), for benchmarks. Standard library only; the same arguments
give the same bytes.
"""
import argparse
import json
import os
import random
import struct

HEADS, KV_HEADS, VOCAB = 6, 2, 259  # 256 bytes and three special tokens
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def byte_tokens():
    """The printable stand-ins of byte-level BPE, in byte order."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = iter(range(256, 512))
    return [chr(b if b in keep else next(spare)) for b in range(256)]


def tensors(hidden, inner, layers):
    head_dim = hidden // HEADS
    yield 'model.embed_tokens.weight', [VOCAB, hidden]
    for i in range(layers):
        p = f'model.layers.{i}.'
        yield p + 'input_layernorm.weight', [hidden]
        yield p + 'self_attn.q_proj.weight', [HEADS * head_dim, hidden]
        yield p + 'self_attn.k_proj.weight', [KV_HEADS * head_dim, hidden]
        yield p + 'self_attn.v_proj.weight', [KV_HEADS * head_dim, hidden]
        yield p + 'self_attn.o_proj.weight', [hidden, HEADS * head_dim]
        yield p + 'post_attention_layernorm.weight', [hidden]
        yield p + 'mlp.gate_proj.weight', [inner, hidden]
        yield p + 'mlp.up_proj.weight', [inner, hidden]
        yield p + 'mlp.down_proj.weight', [hidden, inner]
    yield 'model.norm.weight', [hidden]
    yield 'lm_head.weight', [VOCAB, hidden]


def count(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def bf16_noise(rng, elements, scale):
    """`elements` bf16 numbers of about that size, as bytes: a repeated block."""
    block = b''.join(
        struct.pack('<f', rng.uniform(-scale, scale))[2:] for _ in range(4099))
    whole = elements * 2
    return (block * (whole // len(block) + 1))[:whole]


def write_shard(path, rows, rng):
    head, at = {}, 0
    for name, shape in rows:
        size = count(shape) * 2
        head[name] = {'dtype': 'BF16', 'shape': shape,
                      'data_offsets': [at, at + size]}
        at += size
    text = json.dumps(head).encode()
    text += b' ' * (-len(text) % 8)
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text)
        for name, shape in rows:
            if 'norm' in name:
                f.write(struct.pack('<f', 1.0)[2:] * count(shape))
            else:
                f.write(bf16_noise(rng, count(shape), (3 / shape[-1]) ** 0.5))
    return at


def main():
    p = argparse.ArgumentParser()
    p.add_argument('dir')
    p.add_argument('--layers', type=int, default=3)
    p.add_argument('--hidden', type=int, default=96)
    p.add_argument('--gigabytes', type=float)
    p.add_argument('--shards', type=int, default=1)
    a = p.parse_args()
    if a.hidden % (2 * HEADS):
        p.error(f'--hidden must be a multiple of {2 * HEADS}')
    inner = a.hidden * 8 // 3 // 4 * 4
    layers = a.layers
    if a.gigabytes:
        one, two = (sum(count(s) for _, s in tensors(a.hidden, inner, n))
                    for n in (1, 2))
        layers = max(1, round((a.gigabytes * 2**30 / 2 - one) / (two - one)) + 1)
    rows = list(tensors(a.hidden, inner, layers))
    rng = random.Random(11)
    os.makedirs(a.dir)

    def write_json(name, value):
        with open(os.path.join(a.dir, name), 'w', encoding='utf-8') as f:
            json.dump(value, f, indent=1, ensure_ascii=False)

    if a.shards == 1:
        write_shard(os.path.join(a.dir, 'model.safetensors'), rows, rng)
    else:
        index, total = {}, 0
        for s in range(a.shards):
            part = rows[len(rows) * s // a.shards:
                        len(rows) * (s + 1) // a.shards]
            name = f'model-{s + 1:05d}-of-{a.shards:05d}.safetensors'
            total += write_shard(os.path.join(a.dir, name), part, rng)
            index.update({n: name for n, _ in part})
        write_json('model.safetensors.index.json',
                   {'metadata': {'total_size': total}, 'weight_map': index})
    write_json('config.json', {
        'architectures': ['LlamaForCausalLM'], 'model_type': 'llama',
        'hidden_size': a.hidden, 'intermediate_size': inner,
        'num_hidden_layers': layers, 'num_attention_heads': HEADS,
        'num_key_value_heads': KV_HEADS, 'vocab_size': VOCAB,
        'max_position_embeddings': 2048, 'rms_norm_eps': 1e-5,
        'hidden_act': 'silu', 'rope_theta': 10000.0,
        'tie_word_embeddings': False, 'torch_dtype': 'bfloat16',
        'bos_token_id': 256, 'eos_token_id': 258})
    special = ['<|endoftext|>', '<|im_start|>', '<|im_end|>']
    write_json('tokenizer.json', {
        'version': '1.0', 'truncation': None, 'padding': None,
        'added_tokens': [
            {'id': 256 + i, 'content': t, 'single_word': False, 'lstrip': False,
             'rstrip': False, 'normalized': False, 'special': True}
            for i, t in enumerate(special)],
        'normalizer': None,
        'pre_tokenizer': {'type': 'ByteLevel', 'add_prefix_space': False,
                          'trim_offsets': True, 'use_regex': True},
        'post_processor': None,
        'decoder': {'type': 'ByteLevel', 'add_prefix_space': True,
                    'trim_offsets': True, 'use_regex': True},
        'model': {'type': 'BPE', 'dropout': None, 'unk_token': None,
                  'continuing_subword_prefix': None, 'end_of_word_suffix': None,
                  'fuse_unk': False, 'byte_fallback': False,
                  'ignore_merges': False, 'merges': [],
                  'vocab': {t: i for i, t in
                            enumerate(byte_tokens() + special)}}})
    write_json('tokenizer_config.json', {
        'eos_token': '<|im_end|>', 'chat_template': TEMPLATE})


main()
