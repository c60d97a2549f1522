"""Inputs that fuzzing starts from, made of what the tree holds: templates,
graphs, tokenizers, configurations, sound files of every container.

    seeds.py TARGET FOLDER

Standard library only. SEEDS maps a target to a function that yields its inputs
as bytes; those of plans and of tokenizers in plans are written by make_seeds.
"""
import base64
import json
import pathlib
import re
import struct
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parent.parent
ROOT = TESTS.parent
sys.path[:0] = [str(TESTS / 'bad_files'), str(TESTS / 'templates'),
                str(TESTS / 'support')]

PART = b'\n----\n'  # kPartLine
TEXTS = ['Hello  world, it\'s 2024!\n', ' a\u00e9\u4e2d\U0001F600\u0301 ', '',
         '<s>user\n\n\t</s>\u2581 x 1234567 ##ab \u00a0\r\n'
         'DON\'T \u017f \u0130']


def parts(*given):
    return PART.join(g.encode() if isinstance(g, str) else g for g in given)


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(',', ':'))


def json_texts():
    for text in ('{}', '[]', 'null', '-0.0', '1e308', '[1,2.5e-3,-7,true]',
                 '{"a":{"b":["x\\u00e9\\ud83d\\ude00\\n",null]},"c":""}',
                 '{"a":NaN,"b":[Infinity,-Infinity,],}', '9223372036854775808',
                 '"\\ud800"', '{"a":1,"a":2}', '[' * 70 + ']' * 70,
                 '"' + 'x' * 3000 + '\\q"', ' \t\r\n{"k" : "v"}\n'):
        yield text.encode()


def safetensors(header, data=b''):
    text = header if isinstance(header, bytes) else compact(header).encode()
    return struct.pack('<Q', len(text)) + text + data


def safetensors_files():
    at, header = 0, {'__metadata__': {'format': 'pt'}}
    for i, (kind, size) in enumerate([
            ('F64', 8), ('I64', 8), ('U64', 8), ('F32', 4), ('I32', 4),
            ('U32', 4), ('F16', 2), ('BF16', 2), ('I16', 2), ('U16', 2),
            ('I8', 1), ('U8', 1), ('BOOL', 1)]):
        header[f't{i}'] = {'dtype': kind, 'shape': [2, 3],
                           'data_offsets': [at, at + 6 * size]}
        at += 6 * size
    yield safetensors(header, bytes(range(at % 256)) + bytes(at - at % 256))
    yield safetensors({'a': {'dtype': 'F32', 'shape': [],
                             'data_offsets': [0, 4]},
                       'b': {'dtype': 'F32', 'shape': [0, 7],
                             'data_offsets': [4, 4]}}, bytes(4))
    yield safetensors({})
    yield safetensors(b'{"input_ids":{"dtype":"I64","shape":[1,2],'
                      b'"data_offsets":[0,16]}}   ', struct.pack('<2q', 5, 7))
    yield b'version https://git-lfs.github.com/spec/v1\n'


def shard_indexes():
    names = [f'model-{i:05}-of-00003.safetensors' for i in (1, 2, 3)]
    yield compact({'metadata': {'total_size': 96},
                   'weight_map': dict(zip('abc', names))}).encode()
    yield compact({'weight_map': {'x': 'a.safetensors', 'y': names[2]}}).encode()
    yield compact({'weight_map': {'x': '../a.safetensors'}}).encode()


def ggufs():
    import gguf_file as g
    import make_bad_ggufs as bad
    model = bad.model()
    small = {k: v for k, v in model.keys.items() if 'tokenizer' not in k}
    yield g.GgufFile(small, model.tensors).build()
    for kind, (_, elements, _) in g.BLOCKS.items():
        yield g.GgufFile({}, [g.Tensor('t', [elements, 2], kind)]).build()
        keys = {'general.architecture': g.string('llama'),
                'llama.block_count': g.u32(1),
                'llama.context_length': g.u32(64),
                'llama.embedding_length': g.u32(elements),
                'llama.feed_forward_length': g.u32(2),
                'llama.attention.head_count': g.u32(1),
                'llama.attention.layer_norm_rms_epsilon': g.f32(1e-5)}
        yield g.GgufFile(keys, [g.Tensor('token_embd.weight', [elements, 2],
                                         kind)]).build()
    for vocab, more in [
            ('llama', {}), ('bert', {}), ('t5', {}), ('rwkv', {}),
            ('gpt2', {'tokenizer.ggml.merges': g.array(g.STRING, ['a b'])})]:
        tokens = ['<unk>', '<s>', '</s>', '\u2581', 'a', 'b', 'ab', '[UNK]',
                  '\u2581a', '##a'] + (
                      [f'<0x{i:02X}>' for i in range(256)]
                      if vocab == 'llama' else [])
        kinds = [2, 3, 3] + [1] * 7 + [6] * (len(tokens) - 10)
        yield g.GgufFile({
            'tokenizer.ggml.model': g.string(vocab),
            'tokenizer.ggml.pre': g.string('llama-bpe'),
            'tokenizer.ggml.tokens': g.array(g.STRING, tokens),
            'tokenizer.ggml.scores': g.array(g.F32, [0.0] * len(tokens)),
            'tokenizer.ggml.token_type': g.array(g.I32, kinds),
            'tokenizer.ggml.bos_token_id': g.u32(1),
            'tokenizer.ggml.eos_token_id': g.u32(2),
            'tokenizer.ggml.unknown_token_id': g.u32(0),
            'tokenizer.ggml.add_bos_token': g.number(g.BOOL, 1), **more},
            []).build()


def torch_objects():
    """Opcodes of objects as torch.save pickles them; storage 0 has 24 bytes."""
    import torch_writer as t
    w = t.storage('0', 'float32', 6)
    views = {'a': t.tensor(w, [2, 3]), 'b': t.tensor(w, [3, 2], 0, [1, 3]),
             'c': t.tensor(w, [2], 3, [2]), 'd': t.tensor(w, [4, 1], 5, [0, 1])}
    yield t.dict_(views)
    yield t.dict_({'epoch': 3, 'model': t.dict_({'module.' + k: v for k, v in
                                                  views.items()})})
    yield t.dict_({'args': t.namespace({'num_layers': 2, 'eps': 1e-5,
                                        'name': 'x', 'none': None}),
                   'blob': t.bytes_(t.pickle(t.dict_({'a': [1, (2, True)]}))),
                   'h': t.tensor(t.storage('0', 'bfloat16', 12), [12])})
    yield t.dict_({'p': t.name('torch._utils', '_rebuild_parameter')
                   + t.tuple_(t.tensor(w, [6]), b'\x88', b'}') + b'R',
                   'm': t.name('torch._utils',
                               '_rebuild_meta_tensor_no_storage')
                   + t.tuple_(t.name('torch', 'float32'), t.numbers([2]),
                              t.numbers([1]), b'\x89') + b'R'})


def pickles():
    import torch_writer as t
    for opcodes in torch_objects():
        yield t.pickle(opcodes)
    yield b'I1\nI01\nL2L\nF1.5\nS\'a\\x41\'\nV\\u00e9\np1\ng1\n(lp2\n0(dp3\n.'
    yield (b'\x80\x04\x95\x20\0\0\0\0\0\0\0\x8c\1a\x94\x8c\1B\x94\x93\x94)'
           b'\x81\x94}\x94\x8c\1x\x94K\1sb\x8f(K\1\x90(K\2\x91\x87.')
    yield b'\x80\x02]q\x01h\x01a.'
    yield t.pickle(t.name('os', 'system') + t.text('id') + b'\x85R')


def zips():
    import torch_writer as t
    z = t.Zip().add('a/data.pkl', b'abc').add('a/data/0', bytes(24))
    yield z.build()
    z.zip64 = {}
    yield z.build()
    yield t.Zip().build()


def torch_files():
    """The checksums of pickles are left out, so that changes get past them."""
    import torch_writer as t
    for opcodes in torch_objects():
        z = t.Zip().add('a/data.pkl', t.pickle(opcodes), {'crc': 0}, {'crc': 0})
        yield z.add('a/data/0', bytes(24)).build()
        yield t.torch_legacy(opcodes, {'0': (4, bytes(24))})
    legacy = t.tensor(t.storage('0', 'float32', 6, view=('1', 2, 3)), [3])
    yield t.torch_legacy(t.dict_({'v': legacy}), {'0': (4, bytes(24))})


def deepspeed_steps():
    """Two files of model_states and two of optim_states each, without checksums
    of the pickles."""
    import deepspeed_writer as d
    import torch_writer as t

    def tensor(*shape):
        count = 1
        for dim in shape:
            count *= dim
        return d.Tensor(shape, bytes(range(4 * count)))
    whole = {'a.b': tensor(3, 2), 'c': tensor(5), 'd': tensor(2, 1, 2)}
    parts_of = [{'a.b': tensor(2, 2), 'c': tensor(2), 'd': tensor(2, 2)},
                {'a.b': tensor(2, 1), 'c': tensor(1), 'd': tensor(2, 2)}]
    cuts = {'parameter_with_row_parallelism_patterns': [r'^a\.b$'],
            'tp_replicated_parameter_patterns': ['^d$'],
            'vocabulary_parameter_patterns': ['^c$'], 'original_vocab_size': 2}
    blocks = {'parameter_with_sub_params': [
        {'patterns': [r'^a\.b$'], 'shape': [2, -1], 'partition_dim': 1}],
        'sub_param_shard_widths': {r'^a\.b$': [[1, 0], [1, 1]]},
        'parameter_with_2_sub_params_cat_dim_0': ['^d$'],
        'autotp_unsupported_parameter_patterns': {'^e$': 'x'},
        'affine_map': {'params': {'^c$': {'ranks': {0: {'pieces': [
            {'scale': 1.0}]}}}}}}
    for ranks, how in (
            ([whole], {'zero': 3, 'dp': 2, 'frozen': ['c'],
                       'shared': {'e': 'a.b'}, 'buffers': {'f': tensor(2)}}),
            ([whole], {'zero': 3, 'dp': 2, 'groups': 2}),
            ([whole] * 2, {'zero': 2, 'dp': 1, 'module': False, 'align': 4}),
            (parts_of, {'zero': 1, 'dp': 1,
                        'client': {'universal_checkpoint_info': cuts}}),
            (parts_of, {'zero': 3, 'dp': 1,
                        'client': {'universal_checkpoint_info': blocks}})):
        files = []

        def keep(kind, mp, dp, root):
            storages = {}
            code = d.opcodes(root, storages)
            z = t.Zip().add('a/data.pkl', t.pickle(code), {'crc': 0},
                            {'crc': 0})
            for key, data in storages.items():
                z.add(f'a/data/{key}', data)
            files.append((kind, z.build()))
            return False
        with tempfile.TemporaryDirectory() as folder:
            d.write(folder, ranks, edit=keep, **how)
        yield parts(*[data for kind in ('model', 'optim')
                      for k, data in files if k == kind])


def small_tokenizers():
    """The golden tokenizers with a few tokens each."""
    wanted = ['a', 'b', 'c', 'ab', 'e', 'l', 'o', 'll', 'He', '1', '2', '\u2581',
              '\u2581a', '\u0120', '\u0120a', '##b', 'a</w>', '.', ' ', 'lo']
    for file in sorted((TESTS / 'golden_cases/tokenizers').glob(
            '*/tokenizer.json')):
        whole = json.loads(file.read_text())
        model = whole['model']
        special = {t['content'] for t in whole['added_tokens']}
        if model['type'] == 'Unigram':
            model['vocab'] = [v for v in model['vocab']
                              if v[0] in special or v[0] in wanted][:16]
            unk = [i for i, v in enumerate(model['vocab']) if v[0] == '<unk>']
            model['unk_id'] = unk[0] if unk else None
            ids = {v[0]: i for i, v in enumerate(model['vocab'])}
        else:
            ids = {t: i for i, t in enumerate(
                [t for t in model['vocab'] if t in special or t in wanted][:24])}
            model['vocab'] = ids
            merges = []
            for merge in model.get('merges', []):
                pair = merge if isinstance(merge, list) else merge.split(' ')
                if all(p in ids for p in pair) and ''.join(pair) in ids:
                    merges.append(merge)
            if 'merges' in model:
                model['merges'] = merges[:6]
        for token in whole['added_tokens']:
            token['id'] = ids.get(token['content'], token['id'])
        post = json.dumps(whole['post_processor'])
        for token, i in ids.items():
            post = re.sub(r'("%s", "ids": )\[\d+\]' % re.escape(token),
                          r'\1[%d]' % i, post)
        whole['post_processor'] = json.loads(post)
        yield whole


# A component of every kind; each takes its place in a small tokenizer.
COMPONENTS = {
    'normalizer': [
        {'type': 'NFC'}, {'type': 'NFD'}, {'type': 'NFKD'}, {'type': 'NFKC'},
        {'type': 'StripAccents'}, {'type': 'Nmt'}, {'type': 'ByteLevel'},
        {'type': 'Strip', 'strip_left': True, 'strip_right': True},
        {'type': 'Replace', 'pattern': {'Regex': 'a+|\\s'}, 'content': 'b'},
        {'type': 'Prepend', 'prepend': '\u2581'}, {'type': 'Lowercase'},
        {'type': 'Precompiled', 'precompiled_charsmap': base64.b64encode(
            struct.pack('<I', 16) + struct.pack('<4I', 0, 1, 2, 3)
            + b'x\0').decode()},
        {'type': 'BertNormalizer', 'clean_text': True,
         'handle_chinese_chars': True, 'strip_accents': True,
         'lowercase': True}],
    'pre_tokenizer': [
        {'type': 'Whitespace'}, {'type': 'WhitespaceSplit'},
        {'type': 'BertPreTokenizer'}, {'type': 'UnicodeScripts'},
        {'type': 'Punctuation', 'behavior': 'Contiguous'},
        {'type': 'Digits', 'individual_digits': True},
        {'type': 'CharDelimiterSplit', 'delimiter': ' '},
        {'type': 'FixedLength', 'length': 3},
        {'type': 'ByteLevel', 'add_prefix_space': True, 'trim_offsets': True,
         'use_regex': True},
        {'type': 'Split', 'pattern': {'String': 'a'},
         'behavior': 'MergedWithNext', 'invert': False}],
    'decoder': [
        {'type': 'BPEDecoder', 'suffix': '</w>'}, {'type': 'ByteFallback'},
        {'type': 'CTC', 'pad_token': '<pad>', 'word_delimiter_token': '|',
         'cleanup': True}, {'type': 'Fuse'},
        {'type': 'WordPiece', 'prefix': '##', 'cleanup': True},
        {'type': 'Strip', 'content': 'a', 'start': 1, 'stop': 1},
        {'type': 'Replace', 'pattern': {'Regex': 'a+'}, 'content': ' '}],
    'post_processor': [
        {'type': 'ByteLevel', 'trim_offsets': False},
        {'type': 'BertProcessing', 'sep': ['b', 1], 'cls': ['a', 0]},
        {'type': 'RobertaProcessing', 'sep': ['b', 1], 'cls': ['a', 0],
         'trim_offsets': True, 'add_prefix_space': False}],
    'model': [
        {'type': 'WordLevel', 'vocab': {'a': 0, 'b': 1}, 'unk_token': 'a'},
        {'type': 'WordPiece', 'vocab': {'a': 0, '##b': 1, '[UNK]': 2},
         'unk_token': '[UNK]', 'continuing_subword_prefix': '##',
         'max_input_chars_per_word': 9},
        {'type': 'Unigram', 'unk_id': 0, 'byte_fallback': False,
         'vocab': [['a', -1.5], ['b', -2.0], ['ab', -0.5]]},
        {'type': 'BPE', 'vocab': {'a': 0, 'b': 1, 'ab': 2},
         'merges': [['a', 'b']], 'unk_token': 'a', 'byte_fallback': True,
         'fuse_unk': True, 'ignore_merges': True, 'dropout': None}],
}


def tokenizer_jsons():
    for whole in small_tokenizers():
        for text in TEXTS:
            yield parts(text, '{"add_bos_token":true,"bos_token":"<s>"}',
                        compact(whole))
    base = {'version': '1.0', 'added_tokens': [
        {'id': 3, 'content': '<s>', 'single_word': True, 'lstrip': True,
         'rstrip': True, 'normalized': True, 'special': True}],
        'normalizer': None, 'pre_tokenizer': None, 'post_processor': None,
        'decoder': None, 'model': COMPONENTS['model'][3]}
    for key, kinds in COMPONENTS.items():
        for kind in kinds:
            yield parts('ab a<s> b\u00e9', '', compact({**base, key: kind}))
    for key, name in [('normalizer', 'normalizers'),
                      ('pre_tokenizer', 'pretokenizers'),
                      ('decoder', 'decoders')]:
        yield parts(' ab a', '', compact(
            {**base, key: {'type': 'Sequence', name: COMPONENTS[key][:2]}}))


def varint(n):
    out = b''
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    """A field of a protocol buffer: an int, a float or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack('<f', value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def sentencepiece_models():
    pieces = [('<unk>', 0.0, 2), ('<s>', 0.0, 3), ('</s>', 0.0, 3),
              ('\u2581', -1.0, 1), ('a', -2.0, 1), ('b', -2.5, 1),
              ('ab', -0.5, 1), ('\u2581a', -0.7, 1), ('<u>', 0.0, 4),
              ('abb', -9.0, 5)]
    body = b''.join(field(1, field(1, t.encode()) + field(2, s)
                          + field(3, k)) for t, s, k in pieces)
    some_bytes = b''.join(field(1, field(1, b'<0x%02X>' % i) + field(2, 0.0)
                                + field(3, 6)) for i in range(256))
    charsmap = (struct.pack('<I', 16) + struct.pack('<4I', 0, 1, 2, 3) + b'x\0')
    for kind in (1, 2):
        for fallback in (0, 1):
            for text in TEXTS:
                for model_type in ('', 'llama', 't5', 'gemma'):
                    yield parts(text, model_type, '', body
                                + (some_bytes if fallback else b'')
                                + field(2, field(3, kind)
                                        + field(35, fallback))
                                + field(3, field(2, charsmap if kind == 1
                                                 else b'')
                                        + field(3, 1) + field(4, 1)
                                        + field(5, 1)))
                    if fallback:
                        break


def rank_files():
    extra = ''.join(f'{base64.b64encode(t).decode()} {256 + i}\n' for i, t in
                    enumerate([b'ab', b'abc', b' a', b'\xc3\xa9', b'11']))
    declared = compact({'added_tokens_decoder': {
        '300': {'content': '<x>', 'special': True}}})
    for encoding in ('gpt2', 'cl100k_base', 'o200k_base', 'qwen', 'llama3'):
        yield parts('a<x>' + TEXTS[0], encoding, declared, 'bytes\n' + extra)
    for text in TEXTS:
        yield parts(text, 'qwen', '', 'bytes\n' + extra)


def patterns():
    found = set()
    for file in (ROOT / 'runtime/text').glob('*.cc'):
        for text in re.findall(r'R"\w*\((.*?)\)\w*"', file.read_text(), re.S):
            if len(text) < 400 and ('\\' in text or '[' in text):
                found.add(text)
    for whole in small_tokenizers():
        found.update(json.loads(m) for m in re.findall(
            r'"Regex": ("(?:[^"\\]|\\.)*")', json.dumps(whole)))
    for i, pattern in enumerate(sorted(found)):
        yield parts(chr(48 + i % 10), pattern, TEXTS[i % len(TEXTS)])
    for i, pattern in enumerate([
            '(a+)+$', '(?:a|aa)*b', '\\w+(?=\\s)', '(?<!a)b', 'x{2,5}?', '[^a-c]',
            '\\p{Lu}\\P{Ll}', '(?i)stra\u00dfe', '[[:alpha:]&&[^a]]', '\\Ab|c\\z',
            '(?>a|ab)c', 'a*+a', '\\X', '\\R', '\\h', '(?#c)a', '(?<n>a)\\k<n>']):
        yield parts(chr(48 + i % 10), pattern, 'a' * 40 + TEXTS[i % 4])


def scanner_texts():
    for text in TEXTS + [
            "I'll we've DON'T \u017fs it'\u017f", '1234567 \u0663\u0664\u00bd',
            '  \n\n \t x\r\n\r\n', 'camelCaseHTTPServer\u01c5', '!!!\n\n...a/b',
            '\u2028\u00a0\u3000\u0085\u200d\u0301']:
        yield text.encode()


def utf8_texts():
    for text in TEXTS:
        yield b'\3' + text.encode()
    yield b'\0\xf0\x9f\x98\xed\xa0\x80\xc0\xaf\xf4\x90\x80\x80\xff\xe2\x82'


def stops():
    yield parts('\n\n\nUser:\n</s>\nabab', 'ababab\nUser says\n\nno</s>')
    yield parts('aa\naaa', 'aaaa')


def variables(messages, **more):
    return compact({'messages': messages, 'add_generation_prompt': True,
                    **more})


def templates():
    import conversations as c
    import random_templates
    contexts = [variables(m) for m in c.CONVERSATIONS.values()]
    contexts.append(variables([c.SYSTEM, c.USER], tools=[c.WEATHER, c.CLOCK]))
    contexts = [x for x in contexts if len(x) < 1500]
    for i, file in enumerate(sorted((TESTS / 'templates/families').glob('*'))):
        yield parts(contexts[i % len(contexts)], file.read_bytes())
    # Many small ones get further than one that is long.
    for seed in range(400):
        made = random_templates.make(seed)
        text, context = made[0], made[1]
        yield parts(compact(context), text)


def chats():
    for file in sorted((TESTS / 'templates/families').glob('*')):
        yield parts('Be kind<s>', '<|im_end|>[INST] <s', file.read_bytes())
    yield parts('', 's>', "{% for m in messages %}<{{ m['content'] }}>"
                "{{ bos_token }}{% endfor %}")
    yield parts('a', 'b', "{{ messages[0].role ~ '<s' ~ '>' }}"
                "{{ messages[1]['content'] | upper | trim }}<s>")


def graphs():
    for file in sorted((TESTS / 'golden').rglob('*.ir')):
        yield file.read_bytes()


def pass_lists():
    for file in sorted((TESTS / 'golden').rglob('*.ir')):
        text = file.read_text()
        run = re.search(r'^# RUN (.*)$', text, re.M)
        graph = text.split('# EXPECT')[0]
        for line in [run[1]] if run else [
                'fuse-qkv,fuse-gate-up,fuse-epilogues',
                'quantize-weights(dtype=int8),tensor-slice(tp=2,rank=1),'
                'fuse-epilogues']:
            yield parts(line, graph)


CONFIG = {'architectures': ['LlamaForCausalLM'], 'model_type': 'llama',
          'hidden_size': 12, 'intermediate_size': 20, 'num_hidden_layers': 2,
          'num_attention_heads': 6, 'num_key_value_heads': 2, 'head_dim': 10,
          'vocab_size': 131, 'max_position_embeddings': 64,
          'rms_norm_eps': 1e-5, 'rope_theta': 10000.0,
          'torch_dtype': 'bfloat16', 'tie_word_embeddings': False,
          'hidden_act': 'silu', 'eos_token_id': [2, 3], 'bos_token_id': 1}


def configs():
    gpt2 = {'architectures': ['GPT2LMHeadModel'], 'model_type': 'gpt2',
            'n_embd': 12, 'n_layer': 1, 'n_head': 2, 'n_positions': 32,
            'vocab_size': 99, 'activation_function': 'gelu_new',
            'layer_norm_epsilon': 1e-5, 'n_inner': None,
            'scale_attn_by_inverse_layer_idx': True}
    qwen2 = {**CONFIG, 'architectures': ['Qwen2ForCausalLM'],
             'model_type': 'qwen2', 'use_sliding_window': True,
             'sliding_window': 16, 'max_window_layers': 1,
             'tie_word_embeddings': True}
    mistral = {**CONFIG, 'architectures': ['MistralForCausalLM'],
               'model_type': 'mistral', 'sliding_window': 8}
    for config in (CONFIG, gpt2, qwen2, mistral):
        yield json.dumps(config, indent=1).encode()
    for scaling in (
            {'type': 'linear', 'factor': 2.0}, {'type': 'dynamic', 'factor': 4},
            {'rope_type': 'llama3', 'factor': 8.0, 'low_freq_factor': 1.0,
             'high_freq_factor': 4.0, 'original_max_position_embeddings': 32},
            {'type': 'yarn', 'factor': 4.0, 'beta_fast': 32, 'beta_slow': 1,
             'original_max_position_embeddings': 16, 'mscale': 1.0},
            {'type': 'longrope', 'short_factor': [1] * 5,
             'long_factor': [2] * 5, 'original_max_position_embeddings': 16}):
        yield compact({**CONFIG, 'rope_scaling': scaling}).encode()
    yield compact({**CONFIG, 'attention_bias': True, 'mlp_bias': True,
                   'quantization_config': {'bits': 4}}).encode()
    for file in sorted((TESTS / 'golden_cases/models').glob('*/config.json')):
        yield file.read_bytes()


def deepspeed_configs():
    group = {'enabled': True, 'num_bits': 8, 'q_type': 'symmetric',
             'q_groups': 1}
    for config in (
            {'replace_with_kernel_inject': True, 'dtype': 'torch.float16',
             'tensor_parallel': {'tp_size': 2, 'tp_grain_size': 64,
                                 'mpu': None, 'tp_group': None},
             'max_out_tokens': 64, 'min_out_tokens': 4, 'zero': {},
             'triangular_masking': True, 'return_tuple': True,
             'moe': {'enabled': True, 'ep_size': 1, 'moe_experts': [1],
                     'type': 'residual'}, 'base_dir': 'd',
             'checkpoint': {'type': 'Megatron', 'version': 2.0,
                            'checkpoints': ['a', 'b']},
             'save_mp_checkpoint_path': 'plan', 'replace_method': 'auto'},
            {'mp_size': '2', 'mpu': None, 'ep_size': 1.0, 'moe_type': 'auto',
             'kernel_inject': 0, 'args': {}, 'ckpt_config': {}},
            {'dtype': 'int8', 'quant': {'enabled': True, 'weight': group,
                                        'activation': group, 'qkv': {}}},
            {'injection_dict': {'A': ['b.c', 'd'], 'E': 'f'}},
            {'type': 'bloom', 'checkpoints': [], 'version': 1.0}):
        yield compact(config).encode()


def generation_configs():
    yield parts(compact({'eos_token_id': 2, 'bos_token_id': 1}), compact({
        'eos_token_id': [2, 5], 'pad_token_id': 0, 'do_sample': True,
        'temperature': 0.7, 'top_k': 50, 'top_p': 0.9, 'min_p': 0.05,
        'typical_p': 0.95, 'repetition_penalty': 1.1, 'max_new_tokens': 64,
        'min_new_tokens': 2, 'num_beams': 1, 'num_return_sequences': 2,
        'length_penalty': 1.0, 'early_stopping': 'never',
        'suppress_tokens': [1, 2], 'no_repeat_ngram_size': 3,
        'bad_words_ids': [[1]]}))
    yield parts('{}', compact({'num_beams': 4, 'early_stopping': True}))


def manifests():
    files = [{'name': f'rank_0000.{x}', 'bytes': 4096, 'sha256': '0' * 64}
             for x in ('plan', 'weights')]
    yield json.dumps({'deepslice_plan': 1, 'plan_set_id': 'abc',
                      'world_size': 1, 'files': files}, indent=2).encode()


def plan_origins():
    """Small graphs as plans carry them."""
    base = {'format': 2, 'options': {
        'target': 'cpu', 'dtype': 'bf16', 'tp': 2, 'max_seq_len': 96,
        'max_batch': 8, 'max_step_tokens': 512, 'kv_block': 64},
        'config': {'model_type': 'llama'},
        'ceilings': {'max_source_tokens': 0, 'max_images': 0,
                     'image_tokens': 0},
        'passes': ['fuse-qkv', 'quantize-weights']}
    tensors = [
        {'name': 'a.weight', 'dtype': 'bf16', 'shape': [6, 4]},
        {'name': 'b.weight', 'dtype': 'f32', 'shape': [4, 6], 'turned': True},
        {'name': 'c.weight', 'dtype': 'f16', 'shape': [3, 2], 'rest': [
            {'begin': 0, 'end': 2, 'values': [1, 0.5, -2.0, 1e-3]}]},
        {'name': 'scale', 'dtype': 'f64', 'shape': []}]
    for graph in sorted((TESTS / 'golden/tensor-slice').glob('*.ir')):
        text = graph.read_text().split('# EXPECT')[0]
        text = text[text.index('graph @'):]
        yield compact({**base, 'tensors': tensors, 'ir': text}).encode()
    yield compact({**base, 'tensors': [], 'ir': '', 'ranks_edited': True,
                   'tied_head': False}).encode()


def prompt_files():
    yield parts('a.txt', 'Hello\nworld\r\n\n  x\n')
    for request in (
            {'prompt': 'Hi', 'max_tokens': 5, 'temperature': 0.5, 'top_p': 0.9,
             'top_k': 40, 'seed': 7, 'stop': ['\n', 'x'], 'n': 2},
            {'prompt_ids': [1, 2], 'logit_bias': {'5': -100, '7': 1.5},
             'stop_token_ids': [2], 'logprobs': 3, 'min_tokens': 1},
            {'prompt': '', 'num_beams': 2, 'length_penalty': 1.0,
             'early_stopping': 'never', 'ignore_eos': True},
            {'prompt': 'a', 'presence_penalty': 1, 'frequency_penalty': -1,
             'repetition_penalty': 1.2, 'do_sample': False, 'min_p': 0.1}):
        yield parts('a.jsonl', compact(request) + '\n')


def launches():
    sets = [
        'RANK=1\nWORLD_SIZE=2\nLOCAL_RANK=1\nLOCAL_WORLD_SIZE=2\n'
        'MASTER_ADDR=127.0.0.1\nMASTER_PORT=29500\nTORCHELASTIC_RUN_ID=x',
        'OMPI_COMM_WORLD_RANK=0\nOMPI_COMM_WORLD_SIZE=2\n'
        'OMPI_COMM_WORLD_LOCAL_RANK=0\nOMPI_COMM_WORLD_LOCAL_SIZE=2',
        'PMI_RANK=1\nPMI_SIZE=2', 'SLURM_PROCID=0\nSLURM_NTASKS=2\n'
        'SLURM_LOCALID=0\nSLURM_JOB_ID=7\nSLURM_STEP_ID=0\nSLURM_NNODES=1',
        'FLUX_TASK_RANK=0\nFLUX_JOB_SIZE=2', 'MV2_COMM_WORLD_RANK=0\n'
        'MV2_COMM_WORLD_SIZE=2', '--rank=1\n--world-size=2\n--local-rank=1',
        '--spawn=2', '--spawned=1/2 sockets 5 report 6']
    for text in sets:
        yield text.encode()
    yield '\n'.join(sets).encode()


def command_lines():
    for line in (
            'plan -p Hello -n 5 --temperature 0.7 --top-k 40 --top-p 0.9',
            'plan --prompt-ids 5,6;7 --print-ids --greedy --stop x --seed 1',
            'bench plan -p 64 -n 16 -r 2 -b 4 -o json --threads 2',
            'tokenize plan --in texts.json --json', 'tune plan',
            'chat plan --system Be --max_seq_len 128 --device cuda:1',
            'plan --feed in.safetensors --fetch out.safetensors',
            'plan --perplexity eval.txt --window 256 --rank 0 --world-size 2',
            'plan --prompts a.jsonl --json --logprobs 3 --beams 4 --answers 2',
            'plan --logit-bias 5:-inf --logit-bias 7:2.5 --min-p=0.1 --rnak 1',
            '--help', 'bench --help', '--version', '--help-json', '-- -x',
            '--spawned 1/2 sockets 5 report 6', '80GiB', '1h30m', '500ms'):
        yield '\n'.join(line.split(' ')).encode()


def pictures():
    for file in sorted((TESTS / 'golden_cases/images').glob('*.[jp]*g')):
        for how in b'\x44\x94\x2a':
            yield bytes([how]) + file.read_bytes()


SEEDS = {
    'chat_encode': chats, 'cli_args': command_lines, 'config': configs,
    'deepspeed_config': deepspeed_configs,
    'deepspeed_step': deepspeed_steps,
    'generation_config': generation_configs, 'gguf': ggufs, 'ir_text': graphs,
    'jinja': templates, 'json': json_texts, 'launch': launches,
    'manifest': manifests, 'passes': pass_lists, 'plan_origin': plan_origins,
    'pickle': pickles,
    'picture': pictures, 'prompt_file': prompt_files,
    'regex_pretok': patterns, 'safetensors': safetensors_files,
    'sentencepiece_model': sentencepiece_models,
    'shard_index': shard_indexes, 'split_scanner': scanner_texts,
    'stop_strings': stops, 'tensor_file': safetensors_files,
    'tokenizer_json': tokenizer_jsons, 'tokenizer_ranks': rank_files,
    'torch_file': torch_files, 'utf8_stream': utf8_texts, 'zip': zips,
}


def write(target, folder):
    """Writes the seeds and returns how many there are."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for count, data in enumerate(SEEDS[target](), 1):
        (folder / f'seed_{count:04}').write_bytes(data)
    return count


if __name__ == '__main__':
    if len(sys.argv) != 3 or sys.argv[1] not in SEEDS:
        sys.exit(f'usage: seeds.py TARGET FOLDER; targets: {", ".join(SEEDS)}')
    print(write(sys.argv[1], sys.argv[2]), 'seeds')
