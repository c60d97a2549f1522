"""Random small GGUF files against transformers: types, row orders, scaling, parts.

    random_gguf.py --tools BUILD/tools [--seeds 0:50] [--keep DIR]

Not part of the test suite: needs torch, transformers and gguf from PyPI. The
files are laid out as llama.cpp's converter does it: llama's query and key rows
interleaved, GPT-2's matrices turned, llama3's scaling as a tensor of factors.
The reference is transformers over the dequantised tensors; what is compared is
what random_models.py compares.
"""
import json
import math
import os
import random

import gguf
import numpy as np
import torch
import transformers

from random_models import Reference, Seed, main, make_rope

TYPES = gguf.GGMLQuantizationType
# These have no quantiser in the package: elements and bytes of a block, and where
# its float16 scales lie.
RANDOM_BLOCKS = {'Q2_K': (256, 84, [80, 82]), 'Q3_K': (256, 110, [108]),
                 'Q4_K': (256, 144, [0, 2]), 'Q5_K': (256, 176, [0, 2]),
                 'Q6_K': (256, 210, [208]), 'IQ4_XS': (256, 136, [0]),
                 'IQ4_NL': (32, 18, [0])}
PLAIN = ['F32', 'F16', 'BF16', 'F64']
# Width of a block: types that are of it.
BLOCKS = {32: ['Q8_0', 'Q4_0', 'Q4_1', 'Q5_0', 'Q5_1', 'IQ4_NL', 'MXFP4'],
          256: ['Q2_K', 'Q3_K', 'Q4_K', 'Q5_K', 'Q6_K', 'IQ4_XS', 'TQ1_0',
                'TQ2_0']}


def random_blocks(kind, rows, columns, deviation, rng):
    """-> bytes of a type, with values of about that deviation."""
    width, size, scales = RANDOM_BLOCKS[kind]
    blocks = rng.integers(0, 256, (rows * columns // width, size), dtype=np.uint8)
    one = np.frombuffer(np.float16(1).tobytes(), np.uint8)
    for at in scales:
        blocks[:, at:at + 2] = one
    wide = gguf.quants.dequantize(blocks.reshape(rows, -1), TYPES[kind])
    scale = np.float16(deviation / max(float(wide.std()), 1e-6))
    for at in scales:
        blocks[:, at:at + 2] = np.frombuffer(scale.tobytes(), np.uint8)
    return blocks.reshape(rows, -1)


def store(r, rng, value, plain=False):
    """A tensor in a random type -> (bytes or array, type, what it reads as)."""
    value = value.astype(np.float32)
    if plain or value.ndim == 1:
        return value, TYPES.F32, value
    kinds = list(PLAIN)
    for width, more in BLOCKS.items():
        if value.shape[1] % width == 0:
            kinds += more * 2
    kind = r.choice(kinds)
    if kind == 'F64':
        return value.astype(np.float64), TYPES.F64, value
    if kind in RANDOM_BLOCKS:
        data = random_blocks(kind, *value.shape, float(value.std()), rng)
    else:
        data = gguf.quants.quantize(value, TYPES[kind])
    return data, TYPES[kind], gguf.quants.dequantize(data, TYPES[kind])


def interleave(w, heads):
    """As llama.cpp's converter permutes query and key rows."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(
        1, 2).reshape(w.shape)


def halves(w, heads):
    """The inverse."""
    return w.reshape(heads, w.shape[0] // heads // 2, 2, *w.shape[1:]).swapaxes(
        1, 2).reshape(w.shape)


def llama3_factors(rope, head_dim):
    freqs = 1.0 / (rope['rope_theta'] ** (np.arange(0, head_dim, 2) / head_dim))
    old, low, high = (rope['original_max_position_embeddings'],
                      rope['low_freq_factor'], rope['high_freq_factor'])
    out = []
    for wave in 2 * math.pi / freqs:
        if wave < old / high:
            out.append(1.0)
        elif wave > old / low:
            out.append(rope['factor'])
        else:
            smooth = (old / wave - low) / (high - low)
            out.append(1 / ((1 - smooth) / rope['factor'] + smooth))
    return np.array(out, np.float32)


def add_tokenizer(writer, vocab):
    """Byte-level BPE: 256 bytes, two merges, special tokens up to vocab."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in shown]
    tokens = [chr(b) for b in shown] + [chr(256 + i) for i in range(len(rest))]
    tokens += ['ab', 'abc']
    types = [1] * len(tokens)
    while len(tokens) < vocab:
        tokens.append(f'<|{len(tokens)}|>')
        types.append(3)
    writer.add_tokenizer_model('gpt2')
    writer.add_tokenizer_pre('gpt-2')
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(['a b', 'ab c'])
    writer.add_bos_token_id(vocab - 2)
    writer.add_eos_token_id(vocab - 1)


def make_config(r, family):
    heads, kv = r.choice([(4, 2), (8, 8), (2, 1), (6, 2), (8, 1), (3, 3), (4, 4)])
    hidden = heads * r.choice([16, 32, 64, 10]) if r.random() < 0.7 else 256
    if hidden % heads:
        hidden = heads * 32
    inner = r.choice([256, 96, 77, 512])
    common = dict(vocab_size=r.choice([260, 261, 263]),
                  tie_word_embeddings=r.random() < 0.4)
    if family == 'gpt2':
        return transformers.GPT2Config(
            n_embd=hidden, n_head=heads, n_layer=r.randint(1, 3), n_inner=inner,
            n_positions=128, **common)
    head_dim = hidden // heads
    if r.random() < 0.3:
        head_dim = r.choice([16, 64, 24])
    rope, positions = make_rope(r, head_dim)
    # What the format has no keys for.
    for key in ('attention_factor', 'mscale', 'mscale_all_dim', 'truncate'):
        rope.pop(key, None)
    if family == 'qwen2' and rope['rope_type'] == 'llama3':
        rope = {'rope_type': 'default', 'rope_theta': 10000}
    common.update(hidden_size=hidden, head_dim=head_dim, num_attention_heads=heads,
                  num_key_value_heads=kv, num_hidden_layers=r.randint(1, 3),
                  intermediate_size=inner, rms_norm_eps=r.choice([1e-6, 1e-5]),
                  max_position_embeddings=positions, rope_parameters=rope)
    if family == 'qwen2':
        return transformers.Qwen2Config(use_sliding_window=False, **common)
    if family == 'mistral':
        return transformers.MistralConfig(sliding_window=r.choice([3, 5, 64]), **common)
    return transformers.LlamaConfig(attention_bias=r.random() < 0.3,
                                    mlp_bias=r.random() < 0.3, **common)


# The end of a published name -> GGUF's.
LLAMA_NAMES = {'embed_tokens': 'token_embd', 'norm': 'output_norm', 'lm_head': 'output',
               'input_layernorm': 'attn_norm', 'q_proj': 'attn_q', 'k_proj': 'attn_k',
               'v_proj': 'attn_v', 'o_proj': 'attn_output',
               'post_attention_layernorm': 'ffn_norm', 'gate_proj': 'ffn_gate',
               'up_proj': 'ffn_up', 'down_proj': 'ffn_down'}
GPT2_NAMES = {'wte': 'token_embd', 'wpe': 'position_embd', 'ln_f': 'output_norm',
              'lm_head': 'output', 'ln_1': 'attn_norm', 'ln_2': 'ffn_norm',
              'attn.c_attn': 'attn_qkv', 'attn.c_proj': 'attn_output',
              'mlp.c_fc': 'ffn_up', 'mlp.c_proj': 'ffn_down'}


def stored_name(family, name):
    parts = name.split('.')
    layer = next((p for p in parts if p.isdigit()), None)
    stem = '.'.join(parts[-3:-1]) if parts[-3:-1] and '.'.join(
        parts[-3:-1]) in GPT2_NAMES else parts[-2]
    short = (GPT2_NAMES if family == 'gpt2' else LLAMA_NAMES)[stem]
    return ('' if layer is None else f'blk.{layer}.') + f'{short}.{parts[-1]}'


def add_keys(writer, config, family):
    gpt2 = family == 'gpt2'
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.n_inner if gpt2 else config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    if gpt2:
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
        return
    rope = config.rope_parameters
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(rope['rope_theta'])
    writer.add_rope_dimension_count(config.head_dim)
    if config.head_dim * config.num_attention_heads != config.hidden_size:
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
    if family == 'mistral':
        writer.add_sliding_window(config.sliding_window)
    if rope['rope_type'] in ('linear', 'yarn'):
        writer.add_rope_scaling_type(gguf.RopeScalingType(rope['rope_type']))
        writer.add_rope_scaling_factor(rope['factor'])
    if rope['rope_type'] == 'yarn':
        writer.add_rope_scaling_orig_ctx_len(rope['original_max_position_embeddings'])
        for key in ('beta_fast', 'beta_slow'):
            if key in rope:
                writer.add_float32(f'{writer.arch}.rope.scaling.yarn_{key}', rope[key])


def write(r, seed, model, family, path):
    """Writes a GGUF file, or several that are one model, and gives `model` what
    they hold. -> the path of one of them."""
    config, rng = model.config, np.random.default_rng(seed)
    arch = 'llama' if family == 'mistral' else family
    split = r.choice([0, 0, 2, 5])
    writer = gguf.GGUFWriter(path, arch, split_max_tensors=split)
    add_keys(writer, config, family)
    if r.random() < 0.7:
        add_tokenizer(writer, config.vocab_size)
    for name, p in model.named_parameters():
        value = p.detach().numpy()
        turned = family == 'gpt2' and value.ndim == 2 and '.c_' in name
        heads = {'q_proj': config.num_attention_heads, 'k_proj': getattr(
            config, 'num_key_value_heads', 0)}.get(name.split('.')[-2])
        if arch != 'llama':
            heads = None
        if turned:
            value = np.ascontiguousarray(value.T)
        if heads:
            value = interleave(value, heads)
        data, kind, reads = store(r, rng, value, plain='wpe' in name)
        writer.add_tensor(stored_name(family, name), np.ascontiguousarray(data),
                          raw_dtype=kind)
        if heads:
            reads = halves(reads, heads)
        if turned:
            reads = reads.T
        p.copy_(torch.tensor(np.ascontiguousarray(reads)))
    rope = getattr(config, 'rope_parameters', None) or {}
    if rope.get('rope_type') == 'llama3':
        writer.add_tensor('rope_freqs.weight', llama3_factors(rope, config.head_dim))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    folder = os.path.dirname(path)
    return os.path.join(folder, r.choice(sorted(
        n for n in os.listdir(folder) if n.endswith('.gguf'))))


def run_seed(checks, tools, work, seed, only):
    r = random.Random(seed)
    family = r.choice(['llama', 'llama', 'mistral', 'qwen2', 'gpt2'])
    if only and family != only:
        return
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(make_config(r, family)).eval()
    path = os.path.join(work, 'model.gguf')
    with torch.no_grad():
        for name, p in model.named_parameters():
            fan = p.shape[-1 if family != 'gpt2' or '.c_' not in name else 0]
            p.copy_(torch.randn_like(p) / math.sqrt(fan) * 1.2 if p.dim() == 2 else
                    0.3 * torch.randn_like(p) + (0 if name.endswith('bias') else 1))
        path = write(r, seed, model, family, path)
    ranks = [1, *sorted(r.sample(range(2, 9), 2))]
    names = [n for n, _ in model.named_parameters()]
    if (getattr(model.config, 'rope_parameters', None) or {}).get(
            'rope_type') == 'llama3':
        names.append('rope_freqs.weight')
    s = Seed(checks, tools, work, f'seed {seed} {family}')
    before = checks.failed
    s.compare(r, path, Reference(model), ranks, names)
    if checks.failed > before:
        print(f'  seed {seed}: {json.dumps(model.config.to_diff_dict())}', flush=True)


if __name__ == '__main__':
    main(run_seed)
