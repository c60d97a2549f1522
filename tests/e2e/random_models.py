"""Random small checkpoints against transformers: shapes that no golden case has.

    random_models.py --tools BUILD/tools [--seeds 0:50] [--keep DIR]

Not part of the test suite: needs torch and transformers from PyPI. A seed
decides everything: family, heads, widths, biases, rotary scaling, windows, how
the folder is written (shards, base-model names, config.json as transformers 4
spells it), ranks. Of each seed it compares logits of all positions, greedy ids,
chunked prompts and masked batches with the published implementation in fp32,
other dtypes within their error, int8 across ranks, and runs `dsplan verify`.
"""
import argparse
import copy
import filecmp
import glob
import json
import math
import os
import random
import re
import shutil
import struct
import sys

import torch
import transformers

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from harness import (Checks, Scratch, read_tensors, relative_l2, run,  # noqa: E402
                     write_tensors)

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

# Query and key heads.
HEADS = [(6, 2), (5, 1), (12, 4), (7, 7), (9, 3), (4, 2), (8, 8), (8, 1), (3, 3),
         (1, 1), (10, 5), (4, 1), (2, 2), (14, 2)]
ACTIVATIONS = ['silu', 'gelu', 'gelu_new', 'relu', 'gelu_pytorch_tanh',
               'quick_gelu', 'gelu_fast', 'swish', 'gelu_python']
# Relative L2 of all logits.
KINDS = {'fp16': torch.float16, 'bf16': torch.bfloat16, 'f16': torch.float16,
         'f32': torch.float32}
ERROR = {'fp32': 2e-5, 'fp16': 6e-3, 'bf16': 4e-2}


def make_rope(r, head_dim):
    """-> (parameters, max_position_embeddings)."""
    theta = r.choice([10000, 10000.0, 500000, 100, 1e6, 1234.5])
    kind = r.choice(['default', 'default', 'linear', 'llama3', 'yarn', 'yarn'])
    original = r.choice([16, 32, 64])
    factor = r.choice([2, 2.0, 4, 3.5, 8.0])
    rope = {'rope_type': kind, 'rope_theta': theta}
    if kind == 'default':
        return rope, 128
    rope['factor'] = factor
    if kind == 'linear':
        return rope, 128
    rope['original_max_position_embeddings'] = original
    if kind == 'llama3':
        rope['low_freq_factor'] = r.choice([1, 1.0, 0.5])
        rope['high_freq_factor'] = r.choice([4, 4.0, 2.5])
        return rope, 256
    if r.random() < 0.5:
        rope['beta_fast'] = r.choice([32, 16.0, 4])
        rope['beta_slow'] = r.choice([1, 0.25, 2])
    scale = r.randrange(4)
    if scale == 1:
        rope['attention_factor'] = r.choice([1.0, 0.8, 1.25])
    elif scale == 2:
        rope.update(mscale=r.choice([1.0, 0.707]), mscale_all_dim=r.choice([1.0, 0.5]))
    if r.random() < 0.3:
        rope['truncate'] = False
    return rope, int(original * factor)


def make_config(r, family):
    heads, kv = r.choice(HEADS)
    common = dict(vocab_size=r.choice([131, 64, 97, 257, 5, 1000]),
                  bos_token_id=1, eos_token_id=2)
    layers = r.randint(1, 4)
    if family == 'gpt2':
        return transformers.GPT2Config(
            n_embd=heads * r.choice([8, 10, 24, 5]), n_head=heads, n_layer=layers,
            n_positions=128, n_inner=r.choice([None, 20, 77, 172, 128]),
            activation_function=r.choice(ACTIVATIONS),
            layer_norm_epsilon=r.choice([1e-5, 1e-3, 1e-6]),
            scale_attn_weights=r.random() < 0.8,
            scale_attn_by_inverse_layer_idx=r.random() < 0.3,
            reorder_and_upcast_attn=r.random() < 0.2,
            tie_word_embeddings=r.random() < 0.6, **common)
    head_dim = r.choice([10, 24, 16, 8, 2, 32, 64, 128])
    if r.random() < 0.5 or family == 'qwen2' and r.random() < 0.5:
        hidden, common_dim = heads * head_dim, {}
        if hidden > 600:
            hidden, common_dim = heads * 10, {}
    else:
        # Only Llama's config insists on a multiple of the heads.
        hidden = heads * r.choice([5, 8]) if family == 'llama' else \
            r.choice([48, 60, 64, 36, 130])
        common_dim = {'head_dim': head_dim}
    if 'head_dim' not in common_dim:
        head_dim = hidden // heads
    rope, positions = make_rope(r, head_dim)
    common.update(common_dim, hidden_size=hidden, num_attention_heads=heads,
                  num_key_value_heads=kv, num_hidden_layers=layers,
                  intermediate_size=r.choice([172, 77, 20, 64, 3, 128]),
                  rms_norm_eps=r.choice([1e-6, 1e-5, 1e-2]),
                  max_position_embeddings=positions, rope_parameters=rope,
                  hidden_act=r.choice(['silu'] * 4 + ACTIVATIONS),
                  tie_word_embeddings=r.random() < 0.4)
    if family == 'llama':
        return transformers.LlamaConfig(attention_bias=r.random() < 0.4,
                                        mlp_bias=r.random() < 0.4, **common)
    if family == 'mistral':
        return transformers.MistralConfig(
            sliding_window=r.choice([None, 3, 4, 1, 7, 64]), **common)
    window = r.random() < 0.6
    return transformers.Qwen2Config(
        use_sliding_window=window, sliding_window=r.choice([3, 5, 16]),
        max_window_layers=r.randint(0, layers),
        layer_types=[r.choice(['full_attention', 'sliding_attention'])
                     for _ in range(layers)] if window and r.random() < 0.5 else None,
        **common)


def make_model(r, seed, family):
    config = make_config(r, family)
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    stored = r.choice([torch.float32, torch.float32, torch.bfloat16, torch.float16])
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith('bias'):
                p.copy_(0.3 * torch.randn_like(p))
            elif p.dim() == 1:
                p.copy_(1 + 0.3 * torch.randn_like(p))
            elif 'wte' in name or 'embed_tokens' in name or 'wpe' in name:
                p.copy_(torch.randn_like(p) * (0.3 if model.config.tie_word_embeddings
                                               else 1))
            else:
                fan = p.shape[0 if family == 'gpt2' and 'lm_head' not in name else 1]
                p.copy_(torch.randn_like(p) * 1.2 / math.sqrt(fan))
    return model.to(stored), config


def old_spelling(config):
    """config.json as transformers 4 writes it."""
    rope = config.pop('rope_parameters', None)
    if rope:
        rope = dict(rope)
        config['rope_theta'] = rope.pop('rope_theta')
        kind = rope['rope_type']
        if kind in ('linear', 'yarn'):
            rope['type'] = rope.pop('rope_type')
        config['rope_scaling'] = None if kind == 'default' else rope
    if 'dtype' in config:
        config['torch_dtype'] = config.pop('dtype')
    if config['model_type'] == 'qwen2' and config.get('layer_types'):
        first = config.get('max_window_layers', 28)
        want = ['sliding_attention' if config['use_sliding_window'] and i >= first
                else 'full_attention' for i in range(len(config['layer_types']))]
        if config['layer_types'] == want:
            del config['layer_types']
        if not config['use_sliding_window'] and config['sliding_window'] is None:
            config['sliding_window'] = 4096
    if config.get('head_dim') is not None and \
            config['head_dim'] * config['num_attention_heads'] == config['hidden_size']:
        del config['head_dim']
    config['transformers_version'] = '4.40.0'
    return config


def save(r, model, folder):
    """Writes the folder in one of its ways; -> what the way is."""
    way = []
    saved = model
    if model.config.tie_word_embeddings and r.random() < 0.3:
        saved = model.base_model
        way.append('base')
    shards = {}
    if r.random() < 0.4:
        shards = {'max_shard_size': r.choice(['20KB', '60KB', '4KB'])}
        way.append('sharded')
    saved.save_pretrained(folder, **shards)
    path = os.path.join(folder, 'config.json')
    with open(path, encoding='utf-8') as f:
        config = json.load(f)
    if r.random() < 0.4:
        config = old_spelling(config)
        way.append('v4')
        with open(path, 'w', encoding='utf-8') as f:
            json.dump(config, f, indent=1)
    return way, config


def stored_names(folder):
    names = set()
    for path in glob.glob(os.path.join(folder, '*.safetensors')):
        with open(path, 'rb') as f:
            names |= set(json.loads(f.read(struct.unpack('<Q', f.read(8))[0])))
    return names - {'__metadata__'}


class Reference:
    def __init__(self, model):
        self.model = model.float().eval()
        self.model.config._attn_implementation = 'eager'

    def rounded(self, kind, int8=False):
        """-> the reference over weights as a plan holds them.

        Matrices in `kind`; with int8 those that are no embeddings with a scale
        for each output row."""
        model = copy.deepcopy(self.model)
        if int8:  # a tied head gets a copy of its own
            head = model.lm_head
            head.weight = torch.nn.Parameter(head.weight.detach().clone())
        with torch.no_grad():
            for name, p in model.named_parameters():
                if p.dim() < 2:
                    continue
                if not int8 or any(x in name for x in ('wte', 'wpe', 'embed_tokens')):
                    p.copy_(p.to(kind).float())
                    continue
                along = 0 if '.c_' in name else 1  # GPT-2's matrices are [in, out]
                scale = p.abs().amax(along, keepdim=True) / 127
                p.copy_((p / scale.masked_fill(scale == 0, 1)).round() * scale)
        return Reference(model)

    def error(self, ids, kind):
        """What arithmetic in 16 bit is off by in the published implementation."""
        with torch.no_grad():
            got = copy.deepcopy(self.model).to(kind)(torch.tensor([ids]),
                                                     use_cache=False).logits[0].float()
        want = self.logits(ids)
        return float((got - want).norm() / want.norm())

    def logits(self, ids):
        with torch.no_grad():
            return self.model(torch.tensor([ids]), use_cache=False).logits[0]

    def flat(self, ids):
        return self.logits(ids).flatten().tolist()

    def greedy(self, ids, n):
        """-> (ids, smallest margin of the best over the second)."""
        out, margin = [], math.inf
        for _ in range(n):
            top = self.logits(ids + out)[-1].topk(2)
            out.append(int(top.indices[0]))
            margin = min(margin, float(top.values[0] - top.values[1]))
        return out, margin


class Seed:
    def __init__(self, checks, tools, work, text):
        self.checks, self.tools, self.work, self.text = checks, tools, work, text

    def check(self, ok, what, detail=''):
        return self.checks.check(ok, f'{self.text}: {what}', detail)

    def tool(self, name, *args):
        return run(os.path.join(self.tools, name), *args)

    def compile(self, src, plan, *args):
        p = self.tool('dscompile', src, '-o', plan, '-q', *args)
        return self.check(p.returncode == 0, f'dscompile {args}', p.stderr)

    def feed(self, plan, rows, mask=None, *args):
        """-> logits [batch * seq * vocab] or None."""
        fi, fo = os.path.join(self.work, 'in'), os.path.join(self.work, 'out')
        shape = [len(rows), len(rows[0])]
        feed = {'input_ids': ('I64', shape, sum(rows, []))}
        if mask:
            feed['attention_mask'] = ('I64', shape, sum(mask, []))
        write_tensors(fi, feed)
        p = self.tool('dsrun', plan, '--feed', fi, '--fetch', fo, *args)
        if not self.check(p.returncode == 0, f'dsrun --feed {plan} {args}', p.stderr):
            return None
        return read_tensors(fo)['logits'][1]

    def close(self, got, want, own_error, dtype, what):
        if got is None:
            return
        error = relative_l2(got, want)
        self.check(error <= max(ERROR[dtype], 2 * own_error), what,
                   f'relative L2 {error:.2e}, own {own_error:.2e}')

    def ids(self, plan, prompt, n, *args):
        p = self.tool('dsrun', plan, '--prompt-ids', ','.join(map(str, prompt)),
                      '-n', n, '--greedy', '--ignore-eos', '--print-ids', *args)
        self.check(p.returncode == 0, f'dsrun --prompt-ids {plan}', p.stderr)
        return [int(x) for x in p.stdout.replace(',', ' ').split()]

    def compare(self, r, src, ref, ranks, names):
        """All that holds of one source against its reference."""
        vocab = ref.model.config.vocab_size
        at = lambda name: os.path.join(self.work, name)
        prompt = [r.randrange(vocab) for _ in range(23)]
        want = ref.logits(prompt)
        flat = ref.flat(prompt)
        greedy, margin = ref.greedy(prompt[:9], 8)
        # Rows with left padding, right padding and a hole.
        rows = [[r.randrange(vocab) for _ in range(11)] for _ in range(4)]
        mask = [[1] * 11, [0] * 4 + [1] * 7, [1] * 6 + [0] * 5,
                [0, 1, 1, 0, 1, 1, 1, 0, 0, 1, 0]]
        padded = []
        for row, bits in zip(rows, mask):
            logits = iter(ref.logits([t for t, b in zip(row, bits) if b]).tolist())
            padded += sum(([0.0] * vocab if not b else next(logits) for b in bits), [])
        for tp in ranks:
            plan = at(f'fp32-{tp}')
            if not self.compile(src, plan, '--tp', tp, '--dtype', 'fp32'):
                continue
            self.close(self.feed(plan, [prompt]), flat, 0, 'fp32', f'logits at tp {tp}')
            self.close(self.feed(plan, [prompt], None, '--max-step-tokens', 5), flat, 0,
                       'fp32', f'chunked logits at tp {tp}')
            self.close(self.feed(plan, rows, mask), padded, 0, 'fp32',
                       f'masked logits at tp {tp}')
            ids = self.ids(plan, prompt[:9], 8, '--max-step-tokens', r.choice([3, 64]))
            self.check(ids == greedy or margin < 2e-3, f'greedy at tp {tp}',
                       f'{ids} for {greedy}, margin {margin:.1e}')
        tp = ranks[-1]
        plan = at(f'fp32-{tp}')
        p = self.tool('dsplan', 'verify', plan, '--against', src)
        self.check(p.returncode == 0, f'dsplan verify at tp {tp}', p.stdout + p.stderr)
        self.compile(src, at('again'), '--tp', tp, '--dtype', 'fp32', '-j', 1)
        same = filecmp.cmpfiles(plan, at('again'), os.listdir(plan), shallow=False)
        self.check(not same[1] and not same[2], 'the same bytes twice', same[1:])
        with open(os.path.join(plan, 'report.json'), encoding='utf-8') as f:
            covered = [c['tensor'] for c in json.load(f)['coverage']]
        self.check(sorted(covered) == sorted(names), 'coverage',
                   set(covered) ^ set(names))
        # A ceiling that the prompt just meets, and one more.
        self.compile(src, at('short'), '--max-seq-len', 23, '--kv-block', 4,
                     '--max-batch', 1, '--dtype', 'fp32',
                     '--max-step-tokens', r.choice([1, 5, 23, 64]))
        self.close(self.feed(at('short'), [prompt]), flat, 0, 'fp32',
                   'prompt at the ceiling')
        ids = self.ids(at('short'), prompt[:22], 1)
        best = want[21].topk(2)
        self.check(ids == [int(best.indices[0])] or
                   float(best.values[0] - best.values[1]) < 2e-3, 'last id', ids)
        p = self.tool('dsrun', at('short'), '--prompt-ids',
                      ','.join(map(str, prompt + [1])), '--print-ids')
        self.check(p.returncode in (2, 3, 4) and len(p.stderr.splitlines()) == 1,
                   'a prompt beyond the ceiling is refused', p.stderr)
        # As long as the model goes: more tokens than a tile, a block, a window.
        positions = ref.model.config.max_position_embeddings
        whole = [r.randrange(vocab) for _ in range(positions)]
        self.close(self.feed(at(f'fp32-{tp}'), [whole], None, '--max-step-tokens',
                             r.choice([9, 64, 100, 512])), ref.flat(whole), 0, 'fp32',
                   f'{len(whole)} tokens at tp {tp}')
        for dtype in ('bf16', 'fp16'):
            if self.compile(src, at(dtype), '--tp', tp, '--dtype', dtype):
                stored = ref.rounded(KINDS[dtype])
                self.close(self.feed(at(dtype), [prompt]), stored.flat(prompt),
                           stored.error(prompt, KINDS[dtype]), dtype,
                           f'{dtype} at tp {tp}')
                p = self.tool('dsplan', 'verify', at(dtype), '--against', src)
                self.check(p.returncode == 0, f'dsplan verify in {dtype} at tp {tp}',
                           p.stdout + p.stderr)
        one = None
        for tp in (1, *[t for t in ranks if t > 1]):
            plan = at(f'int8-{tp}')
            if not self.compile(src, plan, '--tp', tp, '--dtype', 'int8'):
                continue
            got = self.feed(plan, [prompt])
            if tp == 1:
                one, ids = got, self.ids(plan, prompt[:9], 8)
                # The cache is fp16, embeddings are in the checkpoint's own type.
                text = self.tool('dsplan', 'inspect', plan).stdout
                own = re.search(r'(\w+) +@embed ', text).group(1)
                stored = ref.rounded(KINDS[own], int8=True)
                self.close(got, stored.flat(prompt),
                           stored.error(prompt, torch.float16), 'fp16', 'int8')
                _, margin = stored.greedy(prompt[:9], 8)
                continue
            self.close(got, one, 0, 'fp16', f'int8 at tp {tp} as at tp 1')
            more = self.ids(plan, prompt[:9], 8)
            self.check(more == ids or margin < 2e-3, f'int8 ids at tp {tp} as at tp 1',
                       f'{more} for {ids}, margin {margin:.1e}')
        p = self.tool('dsplan', 'verify', plan, '--against', src)
        self.check(p.returncode == 0, f'dsplan verify in int8 at tp {tp}',
                   p.stdout + p.stderr)


def run_seed(checks, tools, work, seed, only):
    r = random.Random(seed)
    family = r.choice(['llama', 'mistral', 'qwen2', 'gpt2'])
    if only and family != only:
        return
    model, config = make_model(r, seed, family)
    folder = os.path.join(work, 'model')
    way, written = save(r, model, folder)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation='eager')
    ranks = [1, *sorted(r.sample(range(2, 9), 2))]
    s = Seed(checks, tools, work, f'seed {seed} {family} {"+".join(way)}')
    before = checks.failed
    s.compare(r, folder, Reference(loaded), ranks, stored_names(folder))
    if checks.failed > before:
        print(f'  seed {seed}: {json.dumps(written)}', flush=True)


def main(run_seed):
    parser = argparse.ArgumentParser(description='Random models against transformers.')
    parser.add_argument('--tools', required=True, help='folder of dscompile and dsrun')
    parser.add_argument('--seeds', default='0:20', help='FIRST:END')
    parser.add_argument('--family')
    parser.add_argument('--keep', help='folder that keeps the files of each seed')
    o = parser.parse_args()
    first, end = map(int, o.seeds.split(':'))
    checks = Checks()
    for seed in range(first, end):
        if o.keep:
            work = os.path.join(o.keep, str(seed))
            shutil.rmtree(work, ignore_errors=True)
            os.makedirs(work)
            run_seed(checks, o.tools, work, seed, o.family)
        else:
            with Scratch() as work:
                run_seed(checks, o.tools, work, seed, o.family)
    checks.finish()


if __name__ == '__main__':
    main(run_seed)
