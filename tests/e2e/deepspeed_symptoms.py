#!/usr/bin/env python3
"""What went wrong for users of DeepSpeed-Inference goes right here: each public
thread about wrong output, loading or slicing has a check, named after it.

    deepspeed_symptoms.py DSCOMPILE DSRUN DSPLAN

ROWS names the threads (deepspeedai/DeepSpeed where no other repository is said)
with their symptom, and what shows that it is not so here: a function below, with
the smallest made-up checkpoint that would show it, or a test elsewhere, of which
this script sees that it is there.
"""
import json
import os
import random
import re
import resource
import shutil
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, '..', 'support')]
import deepspeed_writer as deepspeed  # noqa: E402
import megatron_writer as m  # noqa: E402
import torch_writer as torch  # noqa: E402
from harness import (CASES, TOP, Checks, Scratch, read_tensors,  # noqa: E402
                     relative_l2, run, write_tensors)
from plan_weights import weights  # noqa: E402

MIB = 1 << 20


# ---- made-up models ---------------------------------------------------------

def noise(shape, rng):
    count = 1
    for d in shape:
        count *= d
    return [rng.uniform(-0.5, 0.5) for _ in range(count)]


def write_model(folder, config, shapes, values=None):
    """config.json and model.safetensors of random numbers in fp32."""
    os.makedirs(folder)
    with open(os.path.join(folder, 'config.json'), 'w') as f:
        json.dump(config, f)
    rng = random.Random(7)
    write_tensors(os.path.join(folder, 'model.safetensors'), {
        name: ('F32', shape, (values or {}).get(name) or noise(shape, rng))
        for name, shape in shapes.items()})
    return folder


def llama(folder, heads=6, kv_heads=2, head_dim=4, hidden=12, inner=20,
          drop=(), shape=None, **config):
    q, kv = heads * head_dim, kv_heads * head_dim
    shapes = {'model.embed_tokens.weight': [30, hidden],
              'model.norm.weight': [hidden]}
    layer = 'model.layers.0.'
    for name, s in (('input_layernorm', [hidden]),
                    ('self_attn.q_proj', [q, hidden]),
                    ('self_attn.k_proj', [kv, hidden]),
                    ('self_attn.v_proj', [kv, hidden]),
                    ('self_attn.o_proj', [hidden, q]),
                    ('post_attention_layernorm', [hidden]),
                    ('mlp.gate_proj', [inner, hidden]),
                    ('mlp.up_proj', [inner, hidden]),
                    ('mlp.down_proj', [hidden, inner])):
        shapes[f'{layer}{name}.weight'] = s
    shapes.update(shape or {})
    for name in drop:
        shapes.pop(name)
    return write_model(folder, {
        'architectures': ['LlamaForCausalLM'], 'model_type': 'llama',
        'hidden_size': hidden, 'intermediate_size': inner,
        'num_hidden_layers': 1, 'num_attention_heads': heads,
        'num_key_value_heads': kv_heads, 'head_dim': head_dim,
        'vocab_size': 30, 'max_position_embeddings': 32,
        'rms_norm_eps': 1e-5, 'hidden_act': 'silu',
        'tie_word_embeddings': True, **config}, shapes)


def gpt2(folder, heads, head_dim):
    hidden = heads * head_dim
    shapes = {'wte.weight': [30, hidden], 'wpe.weight': [16, hidden]}
    for name in ('ln_f', 'h.0.ln_1', 'h.0.ln_2'):
        shapes.update({f'{name}.weight': [hidden], f'{name}.bias': [hidden]})
    for name, i, o in (('attn.c_attn', hidden, 3 * hidden),
                       ('attn.c_proj', hidden, hidden),
                       ('mlp.c_fc', hidden, 40), ('mlp.c_proj', 40, hidden)):
        shapes.update({f'h.0.{name}.weight': [i, o], f'h.0.{name}.bias': [o]})
    return write_model(folder, {
        'architectures': ['GPT2LMHeadModel'], 'model_type': 'gpt2',
        'n_embd': hidden, 'n_head': heads, 'n_layer': 1, 'n_positions': 16,
        'n_inner': 40, 'vocab_size': 30, 'activation_function': 'gelu_new',
        'layer_norm_epsilon': 1e-5}, shapes)


def case(name):
    return os.path.join(CASES, 'models', name)


def case_tensors(name):
    """{name: (torch's type, shape, bytes)}"""
    with open(os.path.join(case(name), 'model.safetensors'), 'rb') as f:
        head = json.loads(f.read(struct.unpack('<Q', f.read(8))[0]))
        data = f.read()
    head.pop('__metadata__', None)
    types = {'F32': 'float32', 'F16': 'float16', 'BF16': 'bfloat16'}
    return {n: (types[t['dtype']], t['shape'],
                data[slice(*t['data_offsets'])]) for n, t in head.items()}


def save_torch(path, tensors):
    """As torch.save(state_dict) writes them."""
    size = {'float32': 4, 'float16': 2, 'bfloat16': 2}
    opcodes, storages = {}, {}
    for name, (kind, shape, data) in tensors.items():
        key = str(len(storages))
        storages[key] = data
        opcodes[name] = torch.tensor(
            torch.storage(key, kind, len(data) // size[kind]), shape)
    with open(path, 'wb') as f:
        f.write(torch.torch_zip(torch.dict_(opcodes), storages).build())


def copy_config(name, folder):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(case(name), 'config.json')) as f:
        text = f.read()
    with open(os.path.join(folder, 'config.json'), 'w') as f:
        f.write(text)


class Tools:
    """The commands, in the scratch folder of one row."""

    def __init__(self, c, dscompile, dsrun, dsplan):
        self.c, self.dscompile = c, dscompile
        self.dsrun, self.dsplan = dsrun, dsplan
        self.row, self.count = '', 0

    def check(self, ok, what, detail=''):
        return self.c.check(ok, f'{self.row}: {what}', detail)

    def plan(self, source, *flags):
        self.count += 1
        plan = f'plan{self.count}'
        r = run(self.dscompile, source, '--selftest', 'none', '-o', plan,
                *flags)
        self.check(r.returncode == 0, f'{source} {flags}', r.stderr)
        return plan

    def refused(self, code, words, source, *flags):
        r = run(self.dscompile, source, '-o', 'refused', *flags)
        line = (r.stderr.splitlines() or [''])[-1]
        self.check(r.returncode == code and all(w in line for w in words)
                   and not os.path.exists('refused'),
                   f'{source} {flags}: {words}', f'{r.returncode} {r.stderr}')
        return line

    def logits(self, plan):
        write_tensors('in.st', {'input_ids': ('I64', [1, 5], [3, 7, 1, 9, 2])})
        r = run(self.dsrun, plan, '--feed', 'in.st', '--fetch', 'out.st')
        if not self.check(r.returncode == 0, plan, r.stderr):
            return []
        return read_tensors('out.st')['logits'][1]

    def same_at(self, source, *tps):
        """The logits of one rank at every other number of ranks."""
        want = self.logits(self.plan(source, '--dtype', 'fp32'))
        for tp in tps:
            got = self.logits(self.plan(source, '--dtype', 'fp32', '--tp', tp))
            self.check(relative_l2(got, want) < 1e-5, f'tp {tp}',
                       'other logits')

    def rows(self, plan):
        """[{weight: its source as text}] of every rank."""
        r = run(self.dsplan, 'inspect', plan, '--json')
        if not self.check(r.returncode == 0, plan, r.stderr):
            return []
        return [{w['name']: w['source'] for w in rank['weights']}
                for rank in json.loads(r.stdout)]


# ---- checks -----------------------------------------------------------------

def rope_theta_counts(t):
    """CodeLlama's base is the config's, and no scaling is passed over."""
    plain = llama('plain', rope_theta=10000.0)
    code = llama('code', rope_theta=1000000.0)
    a, b = (t.logits(t.plan(f, '--dtype', 'fp32')) for f in (plain, code))
    t.check(relative_l2(a, b) > 1e-4, 'another base, other logits')
    t.refused(3, ['rope_scaling.rope_type', 'spiral'], llama(
        'odd', rope_scaling={'rope_type': 'spiral', 'factor': 2.0}))


def int8_is_of_the_whole(t):
    """A scale per row of the whole tensor: the bytes are the same at every tp."""
    source = llama('m', heads=4, kv_heads=4, hidden=32, inner=64)
    want = None
    for tp in (1, 2, 4):
        plan = t.plan(source, '--dtype', 'int8', '--tp', tp)
        r = run(t.dsplan, 'verify', plan, '--against', source)
        t.check(r.returncode == 0, f'tp {tp}', r.stdout + r.stderr)
        got = t.logits(plan)
        want = got if want is None else want
        t.check(relative_l2(got, want) < 2e-3, f'tp {tp}', 'other logits')


def list_of_unknown_type(t):
    """The message lists the types that there are."""
    with open('checkpoint.json', 'w') as f:
        json.dump({'type': 'FasterTransformer', 'checkpoints': ['a.pt'],
                   'version': 1.0}, f)
    t.refused(3, ['"FasterTransformer"', 'Megatron'], 'checkpoint.json')


def sources_of_every_kind(t):
    """A folder, a .pt, a .safetensors and a list; a hub's name in words."""
    tensors = case_tensors('opt')
    copy_config('opt', 'folder')
    save_torch('folder/pytorch_model.bin', tensors)
    copy_config('opt', 'pt')
    save_torch('pt/model.pt', tensors)
    want = weights(t.plan(case('opt')))
    for source in ('folder', 'pt/model.pt',
                   os.path.join(case('opt'), 'model.safetensors')):
        t.check(weights(t.plan(source)) == want != b'', source, 'differs')
    t.refused(3, ['facebook/opt-1.3b', 'nothing is downloaded'],
              'facebook/opt-1.3b')


def prefixes(t):
    """OPT with model.decoder., decoder. and no prefix; a tensor too few."""
    tensors = case_tensors('opt')
    want = weights(t.plan(case('opt')))
    for i, prefix in enumerate(('model.decoder.', 'decoder.')):
        folder = f'p{i}'
        copy_config('opt', folder)
        save_torch(f'{folder}/pytorch_model.bin', {
            n.replace('model.decoder.', prefix): v
            for n, v in tensors.items()})
        t.check(weights(t.plan(folder)) == want != b'', prefix, 'differs')
    lost = 'model.decoder.layers.1.fc1.weight'
    copy_config('opt', 'short')
    save_torch('short/pytorch_model.bin', {
        n: v for n, v in tensors.items() if n != lost})
    t.refused(3, [lost], 'short')
    copy_config('opt', 'more')
    save_torch('more/pytorch_model.bin', {
        **tensors, 'model.decoder.layers.1.fc9.weight': tensors[lost]})
    t.refused(3, ['model.decoder.layers.1.fc9.weight'], 'more')


def sharded_opt(t):
    """Shards of torch.save with an index, at any tp."""
    tensors = case_tensors('opt')
    copy_config('opt', 'shards')
    names, where = sorted(tensors), {}
    for i in range(3):
        file = f'pytorch_model-{i + 1:05}-of-00003.bin'
        part = names[i::3]
        save_torch(f'shards/{file}', {n: tensors[n] for n in part})
        where.update({n: file for n in part})
    with open('shards/pytorch_model.bin.index.json', 'w') as f:
        json.dump({'metadata': {}, 'weight_map': where}, f)
    for tp in (1, 4):
        t.check(weights(t.plan('shards', '--tp', tp)) ==
                weights(t.plan(case('opt'), '--tp', tp)) != b'', f'tp {tp}',
                'differs')


LIMIT = 160 * MIB  # of anonymous memory


def compile_within_limit(t, source):
    """The process of dscompile to tp 4 that may take LIMIT."""
    def set_limit():
        resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))

    with open(t.dscompile, 'rb') as f:
        code = f.read()
    # Sanitizers keep more memory than the program.
    sanitized = any(s in code for s in (b'__asan_init', b'__tsan_init'))
    return subprocess.run(
        [t.dscompile, source, '--tp', '4', '-j', '2', '--selftest', 'none',
         '-o', 'plan'], stderr=subprocess.PIPE, text=True, check=False,
        timeout=120, preexec_fn=None if sanitized else set_limit)


def moments_are_not_read(t):
    """What the optimizer keeps beside the weights outweighs them, and takes no
    memory: a step of ZeRO 3 whose moments are larger than the limit."""
    source = os.path.join(CASES, 'models', 'qwen2')
    moment = deepspeed.Tensor([20 * MIB], bytes(80 * MIB))

    def add(kind, _, __, root):
        if kind == 'optim':
            root['optimizer_state_dict']['optimizer_state_dict'] = {
                'state': {0: {'exp_avg': moment}}}

    step = deepspeed.write('zero', [deepspeed.of_safetensors(
        os.path.join(source, 'model.safetensors'))], zero=3, dp=3, edit=add)
    shutil.copy(os.path.join(source, 'config.json'), 'zero')
    size = sum(os.path.getsize(os.path.join(step, n)) for n in os.listdir(step))
    t.check(size > 1.5 * LIMIT, 'the step is larger than the limit', size)
    r = compile_within_limit(t, 'zero')
    if not t.check(r.returncode == 0, 'compiles', r.stderr):
        return
    run(t.dscompile, source, '--tp', '4', '--selftest', 'none', '-o', 'whole')
    t.check(weights('plan') == weights('whole') != b'', 'weights', 'differ')


def memory_is_a_few_tensors(t):
    """Compiling takes no memory of the model's size, and a rank's file holds
    its part alone: under a limit of less than the checkpoint, at tp 4."""
    hidden, inner, layers = 512, 2048, 16
    os.makedirs('big')
    head, at, shapes = {}, 0, {'model.embed_tokens.weight': [64, hidden],
                               'model.norm.weight': [hidden]}
    for i in range(layers):
        layer = f'model.layers.{i}.'
        for name, s in (('input_layernorm', [hidden]),
                        ('post_attention_layernorm', [hidden]),
                        ('self_attn.q_proj', [hidden, hidden]),
                        ('self_attn.k_proj', [hidden, hidden]),
                        ('self_attn.v_proj', [hidden, hidden]),
                        ('self_attn.o_proj', [hidden, hidden]),
                        ('mlp.gate_proj', [inner, hidden]),
                        ('mlp.up_proj', [inner, hidden]),
                        ('mlp.down_proj', [hidden, inner])):
            shapes[f'{layer}{name}.weight'] = s
    for name, s in shapes.items():
        size = 4 * s[0] * (s[1] if len(s) > 1 else 1)
        head[name] = {'dtype': 'F32', 'shape': s,
                      'data_offsets': [at, at + size]}
        at += size
    text = json.dumps(head).encode()
    with open('big/model.safetensors', 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text)
        f.truncate(8 + len(text) + at)  # zeros
    with open('big/config.json', 'w') as f:
        json.dump({'architectures': ['LlamaForCausalLM'],
                   'model_type': 'llama', 'hidden_size': hidden,
                   'intermediate_size': inner, 'num_hidden_layers': layers,
                   'num_attention_heads': 8, 'num_key_value_heads': 8,
                   'vocab_size': 64, 'max_position_embeddings': 64,
                   'rms_norm_eps': 1e-5, 'hidden_act': 'silu',
                   'tie_word_embeddings': True}, f)
    t.check(at > 1.5 * LIMIT, 'the model is larger than the limit', at)
    r = compile_within_limit(t, 'big')
    if not t.check(r.returncode == 0, 'compiles', r.stderr):
        return
    for rank in range(4):
        size = os.path.getsize(f'plan/rank_{rank:04}.weights')
        t.check(size < at / 4 * 1.02 + 4096, f'rank {rank}', size)


def quantised_from_a_list(t):
    """A list of Megatron's files, quantised while it is read."""
    m.write('ranks', m.Model(), tensor_ranks=2)
    m.write_whole('whole', m.Model())
    with open('checkpoint.json', 'w') as f:
        json.dump({'type': 'Megatron', 'version': 2.0, 'base_dir': 'ranks',
                   'checkpoints': [f'mp_rank_{r:02}/model_optim_rng.pt'
                                   for r in (0, 1)]}, f)
    for tp in (1, 2):
        plan = t.plan('checkpoint.json', '--dtype', 'int8', '--tp', tp)
        t.check(weights(plan) == weights(t.plan(
            'whole', '--dtype', 'int8', '--tp', tp)) != b'', f'tp {tp}',
            'differs')


def bloom_list(t):
    """The list of every DeepSpeed example: type BLOOM, Hugging Face's shards
    by their whole paths; .safetensors among them, and for another family."""
    for name in ('bloom', 'opt'):
        tensors = case_tensors(name)
        want = weights(t.plan(case(name)))
        copy_config(name, name)
        paths = [os.path.abspath(f'{name}/pytorch_model-{i}.bin')
                 for i in (1, 2)]
        names = sorted(tensors)
        for i, path in enumerate(paths):
            save_torch(path, {n: tensors[n] for n in names[i::2]})
        for files in (paths, [os.path.join(case(name), 'model.safetensors')]):
            with open(f'{name}/list.json', 'w') as f:
                json.dump({'type': 'BLOOM', 'checkpoints': files,
                           'version': 1.0}, f)
            for tp in (1, 2):
                plan = t.plan(f'{name}/list.json', '--tp', tp)
                if tp == 1:
                    t.check(weights(plan) == want != b'', files, 'differs')


def a_list_is_read_alike_in_every_mode(t):
    """Kernel injection or not, the configuration's checkpoint is one."""
    m.write('ranks', m.Model(), tensor_ranks=2)
    plans = []
    for inject in (True, False):
        with open('ds.json', 'w') as f:
            json.dump({'replace_with_kernel_inject': inject,
                       'tensor_parallel': {'tp_size': 2}, 'checkpoint': {
                           'type': 'Megatron', 'version': 2.0,
                           'base_dir': 'ranks', 'checkpoints': [
                               f'mp_rank_{r:02}/model_optim_rng.pt'
                               for r in (0, 1)]}}, f)
        t.count += 1
        plans.append(f'plan{t.count}')
        r = run(t.dscompile, '--config', 'ds.json', '-o', plans[-1])
        t.check(r.returncode == 0, f'inject {inject}', r.stderr)
    t.check(weights(plans[0]) == weights(plans[1]) != b'', 'weights', 'differ')


def heads_25_at_2(t):
    t.same_at(gpt2('xl', 25, 4), 2)


def heads_52_at_8(t):
    source = llama('m', heads=52, kv_heads=52, head_dim=2, hidden=8)
    t.same_at(source, 8)
    counts = []
    for rank in t.rows(t.plan(source, '--tp', 8)):
        text = rank['layers.0.attn_out']
        begin, end = map(int, re.search(r'(\d+):(\d+)\]$', text).groups())
        counts.append((end - begin) / 2)
    t.check(sorted(set(counts)) == [6, 7] and sum(counts) == 52, 'heads',
            counts)


def odd_sizes(t):
    """Nothing divides by anything: hidden 13, MLP 17 and 29, 3 heads, 5 ranks."""
    t.same_at(llama('m', heads=3, kv_heads=3, head_dim=6, hidden=13, inner=17),
              2, 4, 5)
    t.same_at(llama('n', heads=6, kv_heads=3, head_dim=2, hidden=13, inner=29),
              2, 8)


def fewer_kv_heads_than_ranks(t):
    t.same_at(llama('m', heads=8, kv_heads=2), 2, 4, 8)
    t.same_at(llama('n', heads=6, kv_heads=1), 4)


def heads_from_the_config(t):
    """A head size that is not hidden / heads, and names that only newer
    configs have."""
    t.same_at(llama('m', heads=4, kv_heads=2, head_dim=10, hidden=12), 2, 4)


def shapes_are_checked(t):
    """Rows and columns mixed up: refused, with the tensor and both shapes."""
    t.refused(3, ['self_attn.o_proj.weight', '24', '12'], llama(
        'm', shape={'model.layers.0.self_attn.o_proj.weight': [24, 12]}))
    t.refused(3, ['mlp.down_proj.weight', '20', '12'], llama(
        'n', shape={'model.layers.0.mlp.down_proj.weight': [20, 12]}))


def world_of_another_size(t):
    plan = t.plan(llama('m'), '--tp', 3)
    r = run(t.dsrun, plan, '--rank', 0, '--world-size', 2, '-p', 'x')
    t.check(r.returncode != 0 and '3' in r.stderr and '2' in r.stderr,
            'a plan of 3 ranks in a world of 2', r.stderr)


def shards_cover_the_whole(t):
    """Heads, MLP columns and vocabulary rows: every one on one rank."""
    plan = t.plan(llama('m', heads=7, kv_heads=7, head_dim=2, hidden=14,
                        inner=50), '--tp', 3)
    ranks = t.rows(plan)
    for name, size in (('layers.0.attn_out', 14), ('layers.0.mlp_out', 50)):
        at = 0
        for rank in ranks:
            begin, end = map(int, re.search(r'(\d+):(\d+)\]$',
                                            rank[name]).groups())
            t.check(begin == at, name, (begin, at))
            at = end
        t.check(at == size, name, at)


def conv1d(t):
    """GPT-2's [in, out] matrices are cut like any other."""
    t.same_at(gpt2('m', 4, 4), 2, 4)


def unknown_architecture(t):
    """Refused by name, never cut by guess; a known one by its odd tensor."""
    experts = 'model.layers.0.feed_forward.experts.down_proj'
    t.refused(4, ['Llama4ForConditionalGeneration'], llama(
        'm', architectures=['Llama4ForConditionalGeneration'],
        model_type='llama4', rope_theta=10000.0))
    t.refused(4, [experts], llama(
        'n', architectures=['Llama4ForCausalLM'], model_type='llama4_text',
        rope_theta=10000.0, shape={experts: [4, 8, 8]}))
    t.refused(3, [experts], llama('k', shape={experts: [4, 8, 8]}))


def a_class_of_no_known_name(t):
    """What DeepSpeed asks a policy for is found in the tensors' names."""
    t.same_at(llama('m', architectures=['MyOwnForCausalLM'],
                    model_type='my_own', rope_theta=10000.0), 2)


def t5_with_an_injection_policy(t):
    """T5's tuple of row-parallel linears, as init_inference takes it."""
    with open('ds.json', 'w') as f:
        json.dump({'tensor_parallel': {'tp_size': 2}, 'injection_policy': {
            'T5Block': ['SelfAttention.o', 'EncDecAttention.o',
                        'DenseReluDense.wo']}}, f)
    got = t.plan(case('t5'), '--config', 'ds.json')
    t.check(weights(got) == weights(t.plan(case('t5'), '--tp', 2)) != b'',
            'weights', 'differ')


# ---- the threads ------------------------------------------------------------

def golden(*names):
    """Reference logits and greedy tokens, at several tp and types."""
    files = [('tests/e2e/golden_logits.py', f"'{n}'") for n in names]
    return files + [(f'tests/golden_cases/models/{n}/golden.json', '')
                    for n in names]



# thread, symptom, function or [(file, what stands in it)]
ROWS = [
    # Wrong output
    ('#1719 #2233', 'GPT-J on two GPUs gives garbage or NaN', golden('gpt-j')),
    ('#2452', 'GPT-J repeats itself after an upgrade', golden('gpt-j')),
    ('#2230 #2506', 'GPT-J is worse than HF, and has no beams',
     golden('gpt-j') + [('runtime/beam_search_test.cc', 'FindsWhatGreedyMisses'),
                        ('tests/e2e/dsrun_generation.py', 'beams')]),
    ('#2184', 'GPT-2 differs from HF at mp 1',
     golden('gpt2') + [('runtime/sampler_golden_test.cc',
                        'GivesTheProbabilitiesOfTransformers')]),
    ('#3511', 'the perplexity of OPT is 9190 in place of 30',
     golden('opt', 'gpt-neo') + [('tests/e2e/perplexity.py', '')]),
    ('#2287', 'OPT is wrong in fp32 alone', golden('opt')),
    ('#2729', 'OPT-350m is post-LN, and its projections are ignored',
     golden('opt-350m-style', 'opt-no-final-norm')),
    ('#2730', 'BLOOM in fp16 is less precise than HF', golden('bloom')),
    ('#3263', 'Galactica runs with the activation of OPT', golden('galactica')),
    ('#3103', 'the joined query, key and value of NeoX are cut wrongly',
     golden('gpt-neox') + [('tests/e2e/megatron_checkpoints.py',
                            'def check_cuts')]),
    ('PR #2446', 'use_parallel_residual=False of NeoX is ignored',
     golden('gpt-neox-sequential')),
    ('#1209 #1112 DeepSpeedExamples#176',
     'GPT-Neo is gibberish at mp 2 and 4: local attention', golden('gpt-neo')),
    ('#4442', "CodeLlama's rope_theta is ignored", rope_theta_counts),
    ('#3932 #3444', 'LLaMA with TP differs from the original',
     golden('llama-gqa-tied', 'llama-yarn')),
    ('#1466 PR #1913 PR #1912', 'attention_mask is ignored',
     [('tests/e2e/encoder_outputs.py', 'attention_mask'),
      ('tests/e2e/dsrun_commands.py', 'attention_mask')]),
    ('#1797 #3960 #1967', 'left-padded batches are wrong',
     [('tests/e2e/dsrun_commands.py', 'attention_mask'),
      ('tests/conformance_cases.txt', 'leftpad')]),
    ('PR #4389', 'BLOOM-7b1 in int8 is random text', int8_is_of_the_whole),
    ('#2876', 'OPT, GPT-J and NeoX presharded in int8 are garbage',
     int8_is_of_the_whole),
    ('#1410 #4893', 'the second engine of a process is gibberish',
     [('tests/api/python_use.py', "deepslice.load('two') as two")]),
    # Loading and memory
    ('#1172', 'DeepSpeed checkpoint type is not supported',
     list_of_unknown_type),
    ('#2149', "a .pt file or a folder: KeyError 'checkpoints'",
     sources_of_every_kind),
    ('#2421 Megatron-DeepSpeed#346',
     "'MegatronSDLoader' object is not subscriptable",
     [('tests/e2e/megatron_checkpoints.py', 'def check_cuts'),
      ('tests/e2e/megatron_checkpoints.py', 'def check_lists')]),
    ('#2557', "BLOOM's list: 'dict' object has no attribute 'load'",
     bloom_list),
    ('#3217 #3292', 'a JSON checkpoint works with kernel injection alone',
     a_list_is_read_alike_in_every_mode),
    ('#4180', "a presharded model's list with AutoTP: KeyError",
     [('tests/e2e/presharded_checkpoints.py', 'def check_lists')]),
    ('#2442', 'presharded models are saved and loaded for BLOOM alone',
     [('tests/e2e/presharded_checkpoints.py', 'def check_families'),
      ('tests/e2e/reshard.py', 'def check_pair')]),
    ('#2616', 'OPT-66B fails through JSON: prefixes', prefixes),
    ('PR #3600', 'OPT from 350m on: sharded loading fails', sharded_opt),
    ('#2770', 'families and types that do not save and load',
     [('tests/e2e/golden_logits.py', 'FAMILY_RUNS')]),
    ('#2945', 'safetensors: UnpicklingError', bloom_list),
    ('#1323 #3562 #3644 #6617 #3461 #3657 #3293 PR #2547',
     'every rank holds the whole model in memory', memory_is_a_few_tensors),
    ('PR #4025', 'a step of ZeRO 3 takes the memory of all optimizer states',
     moments_are_not_read),
    ('#4447', 'a tensor on the meta device cannot be moved',
     [('tests/bad_files/make_bad_torch_files.py', 'PT-33-on-meta')]),
    ('djl-serving PR #1156', 'quantising while a checkpoint is loaded',
     quantised_from_a_list),
    # Parallelism
    ('#1192', 'gpt2-xl, 25 heads, on 2 GPUs', heads_25_at_2),
    ('#3634', 'LLaMA-30B, 52 heads, on 8 GPUs', heads_52_at_8),
    ('#2793 #3507 PR #2891', 'T5: sizes that the ranks do not divide',
     odd_sizes),
    ('#2793 #3507 T5', 'the same of T5 itself',
     [('tests/e2e/seq2seq.py', '8')]),
    ('#4027 #4016 PR #4022 PR #4028', 'Llama-2: attributes of new names',
     heads_from_the_config),
    ('#4234 PR #4313', 'Llama-2-70B: grouped queries',
     fewer_kv_heads_than_ranks),
    ('#3099', 'LLaMA: mat1 and mat2 shapes', shapes_are_checked),
    ('#4969', 'mp_size 3 in a smaller world', world_of_another_size),
    ('#1265', 'a launch of several GPUs hangs',
     [('tests/fault/launches.py', ''), ('tests/fault/stopped_rank.py', '')]),
    ('PR #4384', 'a second engine with another tp uses the first group',
     [('tests/api/python_use.py', "deepslice.load('two') as two")]),
    ('PR #4011 PR #4697 PR #8185', 'uneven heads: parts that do not sum up',
     shards_cover_the_whole),
    ('PR #8316', 'the heads of a second model replace those of the first',
     [('tests/api/python_use.py', "deepslice.load('two') as two")]),
    ('#3711 #2680', 'GPT-2 is refused: Conv1D', conv1d),
    ('#5200', 'Phi with TP is wrong', golden('phi', 'phi3')),
    ('#7277', 'Llama-4 has no names', unknown_architecture),
    ('#3174', 'Not able to determine model policy automatically',
     a_class_of_no_known_name),
    ('#2549 #2246 #1772', 'T5 with an injection policy: errors',
     t5_with_an_injection_policy),
]


def main():
    tools = [os.path.abspath(p) for p in sys.argv[1:4]]
    c = Checks()
    t = Tools(c, *tools)
    texts, done = {}, set()
    with Scratch() as scratch:
        for thread, symptom, shown in ROWS:
            t.row = f'{thread} ({symptom})'
            if callable(shown):
                if shown not in done:
                    done.add(shown)
                    folder = os.path.join(scratch, shown.__name__)
                    os.mkdir(folder)
                    os.chdir(folder)
                    shown(t)
                continue
            for path, text in shown:
                full = os.path.join(TOP, path)
                if not t.check(os.path.exists(full), path, 'is not there'):
                    continue
                if path not in texts:
                    with open(full, encoding='utf-8') as f:
                        texts[path] = f.read()
                t.check(text in texts[path], path, f'has no {text}')
    c.finish()


main()
