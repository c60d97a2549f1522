#!/usr/bin/env python3
"""dsplan export gives a plan's weights back under their published names.

    export.py DSCOMPILE DSRUN DSPLAN

Bit for bit the source's where the plan keeps its type, and compiled again the
same weights and answers. Then what it refuses, each in one line.
"""
import array
import json
import os
import shutil
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, '..', 'support'),
                os.path.join(HERE, '..', 'bad_files')]
from harness import (CASES, TOP, Checks, Scratch, run,  # noqa: E402
                     write_tensors)
from plan_edit import PlanFile, seal  # noqa: E402
import make_bad_ggufs as ggufs  # noqa: E402

# Fused, interleaved, turned, tied and offset weights; positions before the
# first; heads that no number of ranks divides; pictures, two stacks. Case, tp.
CASES_EXACT = [
    ('gpt2', 3), ('gpt-neox', 4), ('gpt-j', 5), ('gpt-neo', 2), ('bloom', 3),
    ('falcon-new', 5), ('falcon-mqa', 3), ('opt', 3), ('opt-350m-style', 2),
    ('llama-gqa-tied', 3), ('gemma', 2), ('gemma2', 8), ('phi3', 4), ('qwen', 2),
    ('qwen3', 7), ('olmo2', 3), ('internlm2', 5), ('stablelm', 3),
    ('phi-qk-layernorm', 2), ('megatron-gpt-grouped', 3), ('clip', 3),
    ('t5-gated', 2), ('mt5-tied', 3), ('bert-qa', 2), ('roberta-tokens', 3),
]
SIZES = {'F32': 4, 'F16': 2, 'BF16': 2}


def read(folder):
    """{name: (dtype, shape, bytes)} of all weights."""
    out = {}
    for name in sorted(os.listdir(folder)):
        if not name.startswith('model') or not name.endswith('.safetensors'):
            continue
        with open(os.path.join(folder, name), 'rb') as f:
            head = json.loads(f.read(struct.unpack('<Q', f.read(8))[0]))
            data = f.read()
        head.pop('__metadata__', None)
        for tensor, e in head.items():
            begin, end = e['data_offsets']
            assert tensor not in out and begin % SIZES[e['dtype']] == 0
            out[tensor] = (e['dtype'], e['shape'], data[begin:end])
    return out


def config(folder):
    with open(os.path.join(folder, 'config.json'), encoding='utf-8') as f:
        return json.load(f)


def weights(folder):
    return {n: open(os.path.join(folder, n), 'rb').read()
            for n in sorted(os.listdir(folder)) if n.endswith('.weights')}


def floats(tensor):
    dtype, _, data = tensor
    if dtype == 'BF16':
        half = array.array('H', data)
        data = array.array('I', (h << 16 for h in half)).tobytes()
    if dtype == 'F16':
        return list(struct.unpack(f'<{len(data) // 2}e', data))
    return list(array.array('f', data))


def clean(*folders):
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def check_exact(c, dscompile, dsplan, case, tp):
    source = os.path.join(CASES, 'models', case)
    clean('plan', 'out', 'want', 'got')
    run(dscompile, source, '--tp', tp, '--selftest', 'none', '-o', 'plan')
    r = run(dsplan, 'export', 'plan', '--to', 'hf', '-o', 'out')
    if not c.check(r.returncode == 0 and r.stdout == '', case, r.stderr):
        return
    want, got = read(source), read('out')
    ignored = [t for t in want if t not in got]
    with open('plan/report.json', encoding='utf-8') as f:
        use = {t['tensor']: t['use'] for t in json.load(f)['coverage']}
    c.check(all(use[t] != 'weight' for t in ignored)
            and (len(ignored) == 0) == ('not written' not in r.stderr),
            f'{case}: every tensor but those ignored', (ignored, r.stderr))
    differ = [t for t in got if got[t] != want.get(t)]
    c.check(not differ, f'{case}: bits of the source', differ[:5])
    c.check(config('out') == config(source), f'{case}: config.json')
    run(dscompile, source, '--tp', 2, '--selftest', 'none', '-o', 'want')
    r = run(dscompile, 'out', '--tp', 2, '--selftest', 'none', '-o', 'got')
    c.check(r.returncode == 0 and weights('want') == weights('got'),
            f'{case}: compiled again', r.stderr)


def check_types(c, dscompile, dsplan, case):
    """Numbers as the plan rounds them, under a config that says so."""
    source = os.path.join(CASES, 'models', case)
    for flag, torch in (('fp32', 'float32'), ('bf16', 'bfloat16'),
                        ('fp16', 'float16')):
        clean('plan', 'out', 'want', 'got')
        what = f'{case} as {flag}'
        run(dscompile, source, '--tp', 3, '--dtype', flag, '--selftest', 'none',
            '-o', 'plan')
        r = run(dsplan, 'export', 'plan', '-o', 'out')
        if not c.check(r.returncode == 0, what, r.stderr):
            continue
        said = config('out')
        # Left as it was where no tensor's type is another.
        c.check(torch in (said.get('dtype'), said.get('torch_dtype'))
                or said == config(source) and flag == 'fp32',
                f'{what}: config.json', said)
        original, got = read(source), read('out')
        steps = {'fp32': 0, 'bf16': 2**-8, 'fp16': 2**-11}
        worst = max((abs(a - b) / max(abs(a), 2**-10) for t in got
                     for a, b in zip(floats(original[t]), floats(got[t]))),
                    default=1)
        c.check(worst <= steps[flag], f'{what}: rounded once', worst)
        run(dscompile, source, '--dtype', flag, '--tp', 2, '--selftest', 'none',
            '-o', 'want')
        r = run(dscompile, 'out', '--tp', 2, '--selftest', 'none', '-o', 'got')
        c.check(r.returncode == 0 and weights('want') == weights('got'),
                f'{what}: compiled again', r.stderr)


def check_offsets(c, dscompile, dsplan):
    """Norms whose bits are lost where 1 is added, as the plan has them."""
    os.mkdir('offsets')
    source = read(os.path.join(CASES, 'models', 'gemma2'))
    write_tensors('offsets/model.safetensors', {
        name: ('F32', shape, [v * 1.0000001 + 1e-9 for v in floats(t)])
        for name, t in source.items() for shape in [t[1]]})
    said = config(os.path.join(CASES, 'models', 'gemma2'))
    said.pop('torch_dtype', None)
    said['dtype'] = 'float32'
    with open('offsets/config.json', 'w', encoding='utf-8') as f:
        json.dump(said, f)
    for tp, again in ((3, 2), (2, 5)):
        clean('plan', 'plan2', 'out')
        run(dscompile, 'offsets', '--tp', tp, '-o', 'plan')
        run(dsplan, 'reshard', 'plan', '--tp', again, '-o', 'plan2')
        r = run(dsplan, 'export', 'plan2', '-o', 'out')
        c.check(r.returncode == 0 and read('out') == read('offsets')
                and os.path.exists('plan2/source.exact.safetensors'),
                'offset norms of f32', r.stderr)


def check_int8(c, dscompile, dsplan):
    source = os.path.join(CASES, 'models', 'gpt2')  # f32
    run(dscompile, source, '--tp', 3, '--dtype', 'int8', '--selftest', 'none',
        '-o', 'int8')
    r = run(dsplan, 'export', 'int8', '-o', 'int8-out')
    c.check(r.returncode == 0 and 'note: int8 is written as float32, the numbers '
            'that the plan computes with, not the source\'s: 12 tensors, '
            'transformer.h.0.attn.c_attn.weight, ' in r.stderr, 'a note', r.stderr)
    # A loader that goes by the config would else round what has no fewer bits.
    run(dscompile, os.path.join(CASES, 'models', 'llama-gqa-tied'), '--dtype',
        'int8', '--selftest', 'none', '-o', 'int8-bf16')
    run(dsplan, 'export', 'int8-bf16', '-o', 'int8-bf16-out')
    types = {t[0] for t in read('int8-bf16-out').values()}
    said = config('int8-bf16-out')
    c.check('F32' in types
            and 'float32' in (said.get('dtype'), said.get('torch_dtype')),
            'the config says the type', (types, said))
    with open('int8/report.json', encoding='utf-8') as f:
        # The head is the embedding, which is not quantised.
        errors = [e['max_abs_error'] for e in json.load(f)['quantised']
                  if e['weight'] != 'head']
    want, got = read(source), read('int8-out')
    worst = max(abs(a - b) for t in got
                for a, b in zip(floats(want[t]), floats(got[t])))
    c.check(abs(worst - max(errors)) <= 1e-6 * worst, 'off by what report.json '
            'says', (worst, max(errors)))
    run(dscompile, 'int8-out', '--tp', 3, '--dtype', 'int8', '--selftest',
        'none', '-o', 'int8-again')
    c.check(weights('int8') == weights('int8-again'), 'quantised again')


def check_shards(c, dscompile, dsplan):
    source = os.path.join(CASES, 'models', 'qwen3')
    run(dscompile, source, '--tp', 2, '-o', 'shards')
    r = run(dsplan, 'export', 'shards', '-o', 'parts', '--max-shard-size', 8000)
    c.check(r.returncode == 0, 'shards', r.stderr)
    with open('parts/model.safetensors.index.json', encoding='utf-8') as f:
        index = json.load(f)
    names = sorted(n for n in os.listdir('parts') if n.endswith('.safetensors'))
    n = len(names)
    c.check(n > 3 and names == [f'model-{i:05}-of-{n:05}.safetensors'
                                for i in range(1, n + 1)], 'names', names)
    tensors = read('parts')
    c.check(tensors == read(source), 'bits of the source, in shards')
    c.check(index['metadata']['total_size']
            == sum(len(t[2]) for t in tensors.values())
            and list(index['weight_map']) == sorted(tensors)
            and set(index['weight_map'].values()) == set(names), 'the index')
    largest = max(len(t[2]) for t in tensors.values())
    c.check(all(os.path.getsize(f'parts/{x}') < max(largest, 8000) + 2000
                for x in names), 'none is too large')
    r = run(dscompile, 'parts', '--tp', 2, '-o', 'parts-plan')
    c.check(r.returncode == 0 and weights('parts-plan') == weights('shards'),
            'compiled again', r.stderr)
    c.check(run(dsplan, 'export', 'shards', '-o', 'parts2', '--max-shard-size',
                8000, '-j', 1).returncode == 0
            and all(open(f'parts/{x}', 'rb').read()
                    == open(f'parts2/{x}', 'rb').read()
                    for x in os.listdir('parts')), 'the same on one thread')


def answers(dsrun, plan):
    out = [run(dsrun, plan, '-p', 'Hello there', '-n', 8, '--greedy',
               '--ignore-eos').stdout]
    messages = [{'role': 'user', 'content': 'What?'}]
    with open('messages.json', 'w', encoding='utf-8') as f:
        json.dump(messages, f)
    out.append(run(dsrun, 'template', plan, '--messages',
                   'messages.json').stdout)
    return out


def check_text(c, dscompile, dsrun, dsplan):
    """Tokenizer, templates and defaults come along."""
    run(sys.executable, os.path.join(TOP, 'tools', 'make_random_checkpoint.py'),
        'model')
    with open('model/generation_config.json', 'w', encoding='utf-8') as f:
        json.dump({'eos_token_id': [257, 258], 'temperature': 0.5}, f)
    os.mkdir('model/additional_chat_templates')
    with open('model/additional_chat_templates/brief.jinja', 'w',
              encoding='utf-8') as f:
        f.write('{{ messages[0].content }}')
    r = run(dscompile, 'model', '--tp', 2, '-o', 'text')
    c.check(r.returncode == 0, 'a model with a tokenizer', r.stderr)
    r = run(dsplan, 'export', 'text', '-o', 'text-out')
    c.check(r.returncode == 0 and 'note' not in r.stderr, 'text', r.stderr)
    with open('model/tokenizer.json', 'rb') as a, \
            open('text-out/tokenizer.json', 'rb') as b:
        c.check(a.read() == b.read(), 'tokenizer.json as it was')
    for name in ('tokenizer_config.json', 'generation_config.json',
                 'config.json'):
        with open(f'model/{name}', encoding='utf-8') as a, \
                open(f'text-out/{name}', encoding='utf-8') as b:
            c.check(json.load(a) == json.load(b), name)
    run(dscompile, 'text-out', '--tp', 2, '-o', 'text-again')
    want = answers(dsrun, 'text')
    c.check(all(want) and answers(dsrun, 'text-again') == want,
            'the same answers', want)
    r = run(dsplan, 'diff', 'text', 'text-again', '--json')
    areas = {d['area'] for d in json.loads(r.stdout)['differences']}
    c.check(areas <= {'provenance', 'sources'}, 'plans alike', r.stdout)


def check_gguf(c, dscompile, dsrun, dsplan):
    with open('model.gguf', 'wb') as f:
        f.write(ggufs.model().build())
    run(dscompile, 'model.gguf', '--tp', 2, '-o', 'gguf')
    r = run(dsplan, 'export', 'gguf', '-o', 'gguf-out')
    c.check(r.returncode == 0 and 'note' not in r.stderr, 'GGUF', r.stderr)
    c.check(sorted(os.listdir('gguf-out'))
            == ['chat_template.jinja', 'config.json', 'generation_config.json',
                'model.safetensors', 'tokenizer.json', 'tokenizer_config.json'],
            'files', os.listdir('gguf-out'))
    tensors = read('gguf-out')
    c.check(tensors['model.layers.0.self_attn.q_proj.weight'][:2]
            == ('F16', [60, 12]), 'Hugging Face\'s names', list(tensors))
    r = run(dscompile, 'gguf-out', '--tp', 2, '-o', 'gguf-again')
    c.check(r.returncode == 0 and weights('gguf') == weights('gguf-again'),
            'compiled again', r.stderr)
    ids = [run(dsrun, p, '-p', 'Hello abc', '-n', 6, '--greedy',
               '--print-ids').stdout for p in ('gguf', 'gguf-again')]
    c.check(ids[0] and ids[0] == ids[1], 'the same ids', ids)
    # sentencepiece's own merging, which tokenizer.json can't say.
    model = ggufs.model()
    pieces = (['<unk>', '<s>', '</s>', *(f'<0x{i:02X}>' for i in range(256))]
              + [f'x{i}' for i in range(ggufs.VOCAB - 259)])
    model.keys.update({
        'tokenizer.ggml.model': ggufs.string('llama'),
        'tokenizer.ggml.tokens': ggufs.array(ggufs.STRING, pieces),
        'tokenizer.ggml.scores': ggufs.array(ggufs.F32, [0.0] * ggufs.VOCAB),
        'tokenizer.ggml.token_type': ggufs.array(
            ggufs.I32, [2, 3, 3] + [6] * 256 + [1] * (ggufs.VOCAB - 259)),
        'tokenizer.ggml.bos_token_id': ggufs.u32(1),
        'tokenizer.ggml.eos_token_id': ggufs.u32(2)})
    for key in ('pre', 'merges'):
        model.keys.pop(f'tokenizer.ggml.{key}')
    with open('pieces.gguf', 'wb') as f:
        f.write(model.build())
    r = run(dscompile, 'pieces.gguf', '-o', 'pieces')
    c.check(r.returncode == 0, 'GGUF of pieces', r.stderr)
    r = run(dsplan, 'export', 'pieces', '-o', 'pieces-out')
    c.check(r.returncode == 0 and 'note: no tokenizer file is written: the '
            'source had its tokenizer in a GGUF file' in r.stderr
            and not os.path.exists('pieces-out/tokenizer.json'),
            'GGUF of pieces', r.stderr)


def check_made_up(c, dscompile, dsrun, dsplan):
    """Weights that no file holds are written out."""
    source = os.path.join(CASES, 'models', 'gemma2')
    for dtype in ('bf16', 'int8'):
        clean('made', 'made-out', 'made-again')
        run(dscompile, source, '--random-weights', 7, '--dtype', dtype, '--tp',
            3, '-o', 'made')
        r = run(dsplan, 'export', 'made', '-o', 'made-out')
        c.check(r.returncode == 0, f'made up, {dtype}', r.stderr)
        r = run(dscompile, 'made-out', '--dtype', dtype, '--tp', 3, '-o',
                'made-again')
        ids = [run(dsrun, p, '--prompt-ids', '5,6,7', '-n', 6, '--greedy',
                   '--ignore-eos', '--print-ids').stdout
               for p in ('made', 'made-again')]
        c.check(r.returncode == 0 and ids[0] and ids[0] == ids[1],
                f'made up, {dtype}: the same ids', (ids, r.stderr))


MEGATRON = {
    'model_type': 'megatron_gpt', 'num_layers': 2, 'hidden_size': 48,
    'num_attention_heads': 6, 'ffn_hidden_size': 76,
    'max_position_embeddings': 96, 'padded_vocab_size': 131,
    'params_dtype': 'torch.bfloat16'}
ROPE = {'position_embedding_type': 'rope', 'add_position_embedding': False,
        'use_rotary_position_embeddings': True}
# What a config of Megatron-LM has besides, and the class that computes the same.
CLASSES = [
    ('GPT2LMHeadModel', {}),
    ('GPT2LMHeadModel', {'apply_layernorm_1p': True,
                         'untie_embeddings_and_output_weights': True}),
    ('GPTNeoXForCausalLM', {**ROPE, 'rotary_percent': 0.5,
                            'untie_embeddings_and_output_weights': True}),
    ('LlamaForCausalLM', {**ROPE, 'normalization': 'RMSNorm', 'swiglu': True,
                          'add_bias_linear': False, 'num_query_groups': 2,
                          'group_query_attention': True, 'rotary_base': 5000,
                          'untie_embeddings_and_output_weights': True}),
    (None, {**ROPE, 'normalization': 'RMSNorm', 'add_bias_linear': False,
            'squared_relu': True}),
]


def check_megatron(c, dscompile, dsrun, dsplan):
    """Megatron-LM's tensors under the names of a model of transformers."""
    for name, more in CLASSES:
        for dtype in ('bf16', 'fp32'):
            what = f'Megatron-LM as {name}, {dtype}'
            clean('meg', 'meg-out', 'meg-again')
            with open('meg.json', 'w', encoding='utf-8') as f:
                json.dump({**MEGATRON, **more}, f)
            r = run(dscompile, 'meg.json', '--random-weights', 3, '--tp', 2,
                    '--dtype', dtype, '-o', 'meg')
            c.check(r.returncode == 0, what, r.stderr)
            r = run(dsplan, 'export', 'meg', '-o', 'meg-out')
            want = ('note: the tensors have Megatron-LM\'s names' if name is None
                    else 'note: Megatron-LM\'s tensors are written as those of '
                    f'{name}, which computes the same')
            c.check(r.returncode == 0 and want in r.stderr, what, r.stderr)
            if name is not None:
                c.check(config('meg-out')['architectures'] == [name], what)
            r = run(dscompile, 'meg-out', '--tp', 2, '--dtype', dtype, '-o',
                    'meg-again')
            ids = [run(dsrun, p, '--prompt-ids', '5,6,7', '-n', 12, '--greedy',
                       '--ignore-eos', '--print-ids').stdout
                   for p in ('meg', 'meg-again')]
            c.check(r.returncode == 0 and ids[0] and ids[0] == ids[1],
                    f'{what}: the same ids', (ids, r.stderr))
    source = os.path.join(CASES, 'models', 'megatron-gpt')
    clean('meg', 'meg-out', 'meg-again')
    run(dscompile, source, '--tp', 3, '-o', 'meg')
    run(dsplan, 'export', 'meg', '-o', 'meg-out')
    r = run(dscompile, 'meg-out', '--tp', 3, '-o', 'meg-again')
    c.check(r.returncode == 0 and weights('meg') == weights('meg-again'),
            'Megatron-LM\'s own bits', r.stderr)
    want, got = read(source), read('meg-out')
    c.check(want['language_model.embedding.word_embeddings.weight']
            == got['transformer.wte.weight'], 'its embedding')


def check_gpu(c, dscompile, dsplan):
    source = os.path.join(CASES, 'models', 'qwen3')
    r = run(dscompile, source, '--target', 'sm_90a', '--tp', 2, '--max-batch', 1,
            '-o', 'gpu')
    if c.left_out(r, 'a plan for GPUs'):
        return
    r = run(dsplan, 'export', 'gpu', '-o', 'gpu-out')
    c.check(r.returncode == 0 and read('gpu-out') == read(source),
            'a plan for GPUs', r.stderr)


def refused(c, what, r, code, line):
    c.check(r.returncode == code and r.stdout == ''
            and r.stderr.rstrip('\n') == 'dsplan: ' + line, what,
            f'{r.returncode} {r.stderr}')


def check_refusals(c, dscompile, dsplan):
    source = os.path.join(CASES, 'models', 'gemma')
    run(dscompile, source, '--tp', 2, '--selftest', 'none', '-o', 'good')
    refused(c, 'an output that exists',
            run(dsplan, 'export', 'good', '-o', 'model'), 4,
            '-o model: exists; name another folder')
    refused(c, 'an output in the plan',
            run(dsplan, 'export', 'good', '-o', 'good/out'), 3,
            '-o good/out: lies in the source good; name a folder outside')
    refused(c, 'no folder for it',
            run(dsplan, 'export', 'good', '-o', 'nowhere/out'), 3,
            'nowhere/out: its folder nowhere does not exist')
    r = run(dsplan, 'export', 'good', '--to', 'onnx', '-o', 'no')
    c.check(r.returncode == 2 and r.stderr.startswith('dsplan: --to'), '--to',
            r.stderr)

    def edited(old, new):
        clean('bad')
        shutil.copytree('good', 'bad')
        for rank in (0, 1):
            plan = PlanFile(f'bad/rank_000{rank}.plan')
            plan.put(plan.find(old, 0), new)
            plan.write()
        seal('bad')
        return run(dsplan, 'export', 'bad', '-o', 'no')

    refused(c, 'an older plan', edited(b'"format":2', b'"format":1'), 4,
            'bad/rank_0000.plan: was made by a dscompile that did not yet write '
            'down what this takes; compile the source again')
    refused(c, 'a tensor of another shape',
            edited(b'"shape":[131,48]', b'"shape":[130,48]'), 3,
            'bad: tensor "model.embed_tokens.weight": @embed takes rows up to '
            '131 and columns up to 48 of it; it has 130 and 48; copy the plan '
            'again or compile it anew')
    refused(c, 'a shape that is none',
            edited(b'"shape":[131,48]', b'"shape":[-31,48]'), 3,
            'bad/rank_0000.plan: source: tensors: shape: is not a list of '
            'sizes; copy the plan again or compile it anew')
    clean('bad')
    run(dscompile, os.path.join(CASES, 'models', 'clip'), '-o', 'bad')
    size = os.path.getsize('bad/source.exact.safetensors')
    os.truncate('bad/source.exact.safetensors', 40)
    refused(c, 'a file that is cut', run(dsplan, 'export', 'bad', '-o', 'no'), 3,
            'bad/source.exact.safetensors: has 40 bytes, manifest.json says '
            f'{size}; copy the plan again or rebuild it')
    with open('bad/source.exact.safetensors', 'wb') as f:
        f.write(struct.pack('<Q', 2) + b'{]' + bytes(size - 10))
    seal('bad')
    r = run(dsplan, 'export', 'bad', '-o', 'no')
    c.check(r.returncode == 3 and r.stderr.count('\n') == 1
            and r.stderr.startswith('dsplan: bad/source.exact.safetensors: '),
            'one that is no safetensors', r.stderr)
    for name in ('config.json', 'model.safetensors', '.', ''):
        clean('bad')
        shutil.copytree('good', 'bad')
        with open(f'bad/source.{name}', 'wb') as f:
            f.write(b'{}')
        with open('bad/manifest.json', encoding='utf-8') as f:
            manifest = json.load(f)
        manifest['files'].append({'name': f'source.{name}', 'bytes': 2,
                                  'sha256': '1' * 64})
        with open('bad/manifest.json', 'w', encoding='utf-8') as f:
            json.dump(manifest, f)
        seal('bad')
        refused(c, f'a kept file "{name}"',
                run(dsplan, 'export', 'bad', '-o', 'no'), 3,
                f'bad: keeps a file "{name}" of its source, which is no name '
                'or that of another file; copy the plan again or compile it '
                'anew')
    # A file that may not grow so far.
    r = subprocess.run(['bash', '-c', 'ulimit -f 8; trap "" XFSZ; exec "$0" '
                        'export good -o no', dsplan], stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                       timeout=60, check=False)
    c.check(r.returncode == 1 and r.stderr.count('\n') == 1, 'no room', r.stderr)
    c.check(not os.path.exists('no')
            and [n for n in os.listdir('.') if n.startswith('.')] == [],
            'nothing is left behind', os.listdir('.'))


def main():
    dscompile, dsrun, dsplan = (os.path.abspath(p) for p in sys.argv[1:])
    c = Checks()
    with Scratch() as tmp:
        os.chdir(tmp)
        for case, tp in CASES_EXACT:
            check_exact(c, dscompile, dsplan, case, tp)
        check_types(c, dscompile, dsplan, 'qwen3')
        check_types(c, dscompile, dsplan, 't5')
        check_offsets(c, dscompile, dsplan)
        check_int8(c, dscompile, dsplan)
        check_shards(c, dscompile, dsplan)
        check_text(c, dscompile, dsrun, dsplan)
        check_gguf(c, dscompile, dsrun, dsplan)
        check_made_up(c, dscompile, dsrun, dsplan)
        check_megatron(c, dscompile, dsrun, dsplan)
        check_gpu(c, dscompile, dsplan)
        check_refusals(c, dscompile, dsplan)
        os.chdir('/')
    c.finish()


main()
