#!/usr/bin/env python3
"""dsrun embed, classify and fill-mask, and what they and --feed refuse.

    encoder_commands.py DSCOMPILE DSRUN DSPLAN

The golden cases of encoders with a small WordPiece tokenizer beside them:
what the verbs print agrees with what --feed gives, and each wrong input ends in
one line and the documented exit code.
"""
import json
import math
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from harness import (CASES, Checks, Scratch, read_tensors, run,  # noqa: E402
                     write_tensors)

WORDS = (['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'] +
         [a + b for a in 'bcdfgklmnprst' for b in 'aeiou'] + ['.'])
WIDTH = 36


def tokenizer():
    special = [{'id': i, 'content': w, 'single_word': False, 'lstrip': False,
                'rstrip': False, 'normalized': False, 'special': True}
               for i, w in enumerate(WORDS[:5])]
    return {'version': '1.0', 'truncation': None, 'padding': None,
            'added_tokens': special,
            'normalizer': {'type': 'BertNormalizer', 'clean_text': True,
                           'handle_chinese_chars': True, 'strip_accents': None,
                           'lowercase': True},
            'pre_tokenizer': {'type': 'BertPreTokenizer'},
            'post_processor': {
                'type': 'TemplateProcessing',
                'single': [{'SpecialToken': {'id': '[CLS]', 'type_id': 0}},
                           {'Sequence': {'id': 'A', 'type_id': 0}},
                           {'SpecialToken': {'id': '[SEP]', 'type_id': 0}}],
                'pair': [{'SpecialToken': {'id': '[CLS]', 'type_id': 0}},
                         {'Sequence': {'id': 'A', 'type_id': 0}},
                         {'SpecialToken': {'id': '[SEP]', 'type_id': 0}},
                         {'Sequence': {'id': 'B', 'type_id': 1}},
                         {'SpecialToken': {'id': '[SEP]', 'type_id': 1}}],
                'special_tokens': {
                    w: {'id': w, 'ids': [WORDS.index(w)], 'tokens': [w]}
                    for w in ('[CLS]', '[SEP]')}},
            'decoder': {'type': 'WordPiece', 'prefix': '##', 'cleanup': True},
            'model': {'type': 'WordPiece', 'unk_token': '[UNK]',
                      'continuing_subword_prefix': '##',
                      'max_input_chars_per_word': 100,
                      'vocab': {w: i for i, w in enumerate(WORDS)}}}


class Encoders:
    def __init__(self, tools, tmp, checks):
        self.dscompile, self.dsrun, self.dsplan = tools
        self.tmp, self.c = tmp, checks

    def path(self, name):
        return os.path.join(self.tmp, name)

    def source(self, case, files=None):
        """A copy of a golden case with a tokenizer and `files` beside it."""
        folder = self.path(f'source-{case}-{len(os.listdir(self.tmp))}')
        shutil.copytree(os.path.join(CASES, 'models', case), folder)
        for name, value in {'tokenizer.json': tokenizer(),
                            **(files or {})}.items():
            path = os.path.join(folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, 'w', encoding='utf-8') as f:
                json.dump(value, f)
        return folder

    def plan(self, case, *args, files=None):
        plan = self.path(f'plan-{case}-{len(os.listdir(self.tmp))}')
        r = run(self.dscompile, self.source(case, files), '-o', plan, *args)
        self.c.check(r.returncode == 0, f'compile {case}', r.stderr)
        return plan

    def json(self, *args):
        r = run(self.dsrun, *args)
        self.c.check(r.returncode == 0, f'dsrun {args}', r.stderr)
        return json.loads(r.stdout) if r.returncode == 0 else {'data': []}

    def refused(self, code, part, *args, tool=None):
        r = run(tool or self.dsrun, *args)
        lines = r.stderr.splitlines()
        self.c.check(
            r.returncode == code and r.stdout == '' and part in r.stderr
            and len([x for x in lines if not x.startswith('note: ')]) == 1,
            f'{args}: exit {code} and "{part}"',
            f'exit {r.returncode}, {r.stdout!r}, {r.stderr!r}')

    def feed(self, plan, tensors):
        path, out = self.path('in.safetensors'), self.path('out.safetensors')
        write_tensors(path, tensors)
        r = run(self.dsrun, plan, '--feed', path, '--fetch', out)
        self.c.check(r.returncode == 0, 'feed', r.stderr)
        return read_tensors(out)

    def feed_refused(self, code, part, plan, tensors):
        path = self.path('in.safetensors')
        write_tensors(path, tensors)
        self.refused(code, part, plan, '--feed', path, '--fetch',
                     self.path('none.safetensors'))
        self.c.check(not os.path.exists(self.path('none.safetensors')),
                     part, 'an output was left')


def ids(*rows):
    return ('I64', [len(rows), len(rows[0])], [x for row in rows for x in row])


def near(a, b, bound=1e-5):
    return len(a) == len(b) and all(abs(x - y) <= bound for x, y in zip(a, b))


def normalised(v):
    length = math.sqrt(sum(x * x for x in v))
    return [x / length for x in v]


def check_embed(e):
    plan = e.plan('bert-relu')
    text = 'ba de [MASK] fi'
    want_ids = [2] + [WORDS.index(w) for w in text.split()] + [3]
    out = e.feed(plan, {'input_ids': ids(want_ids)})
    hidden = out['last_hidden_state'][1]
    mean = [sum(hidden[c::WIDTH]) / len(want_ids) for c in range(WIDTH)]
    got = e.json('embed', plan, '-p', text, '--text', 'ko ko .')
    e.c.check(got['pooling'] == 'mean' and got['model'] == 'BertModel',
              'embed says how', got)
    e.c.check([d['tokens'] for d in got['data']] == [6, 5], 'tokens',
              got['data'])
    e.c.check(near(got['data'][0]['embedding'], normalised(mean)), 'mean')
    for pooling, want in (('cls', hidden[:WIDTH]),
                          ('pooler', out['pooler_output'][1]), ('mean', mean)):
        got = e.json('embed', plan, '-p', text, '--pooling', pooling,
                     '--no-normalize')
        e.c.check(near(got['data'][0]['embedding'], want), pooling)
    # The files of sentence-transformers: the first token, at most 5 tokens.
    plan = e.plan('bert-relu', files={
        '1_Pooling/config.json': {'pooling_mode_cls_token': True,
                                  'pooling_mode_mean_tokens': False},
        'sentence_bert_config.json': {'max_seq_length': 5},
        'modules.json': [{'type': 'sentence_transformers.models.Transformer'},
                         {'type': 'sentence_transformers.models.Pooling'}]})
    texts = e.path('texts.txt')
    with open(texts, 'w', encoding='utf-8') as f:
        f.write(f'{text}\nko\n')
    got = e.json('embed', plan, '-f', texts)
    e.c.check(got['pooling'] == 'cls' and
              [d['tokens'] for d in got['data']] == [5, 3], 'cut', got)
    cut = want_ids[:4] + [3]
    first = e.feed(plan, {'input_ids': ids(cut)})['last_hidden_state'][1][:WIDTH]
    e.c.check(near(got['data'][0]['embedding'], normalised(first)), 'cut text')
    with open(texts, 'w', encoding='utf-8') as f:
        json.dump(['ko', text], f)
    e.c.check(len(e.json('embed', plan, '-f', texts)['data']) == 2, 'JSON list')
    # What stands in brackets is a text, not a list.
    with open(texts, 'w', encoding='utf-8') as f:
        f.write('[MASK] ba\n[ko, ba]\n')
    e.c.check([d['tokens'] for d in e.json('embed', plan, '-f', texts)['data']]
              == [4, 5], 'lines that begin with a bracket')
    got = e.json('embed', plan, '-p', '[MASK]', '-p', '[ba,ko]')
    e.c.check([d['tokens'] for d in got['data']] == [3, 5], 'brackets', got)
    # tp changes nothing but the last digits.
    three = e.plan('bert-relu', '--tp', 3)
    one = e.plan('bert-relu')
    a, b = (e.json('embed', p, '-p', text)['data'][0]['embedding']
            for p in (one, three))
    e.c.check(near(a, b, 1e-5), 'embed at tp 3')


def check_classes(e):
    plan = e.plan('distilbert-classify')
    text = 'ba de fi'
    row = [2] + [WORDS.index(w) for w in text.split()] + [3]
    logits = e.feed(plan, {'input_ids': ids(row)})['logits'][1]
    total = sum(math.exp(x) for x in logits)
    got = e.json('classify', plan, '-p', text)['data'][0]
    best = max(range(3), key=lambda i: logits[i])
    e.c.check(got['label'] == ('no', 'maybe', 'yes')[best], 'label', got)
    e.c.check(near([got['score']], [math.exp(logits[best]) / total]), 'score')
    e.c.check(len(got['scores']) == 3, 'scores')
    got = e.json('classify', plan, '-p', text, '--top-k', 1)['data'][0]
    e.c.check(len(got['scores']) == 1, '--top-k')
    several = e.plan('roberta-classify')
    got = e.json('classify', several, '-p', text)['data'][0]
    logits = e.feed(several, {'input_ids': ids(row)})['logits'][1]
    e.c.check(near([got['score']], [1 / (1 + math.exp(-max(logits)))]),
              'several labels')
    tokens = e.json('classify', e.plan('bert-tokens'), '-p', text)['data'][0]
    e.c.check([t['token'] for t in tokens['labels']] == text.split() and
              all(t['label'].startswith('LABEL_') for t in tokens['labels']),
              'labels of tokens', tokens)
    tokens = e.json('classify', e.plan('bert-tokens'), '-p', 'ba xyz')['data'][0]
    e.c.check([t['token'] for t in tokens['labels']] == ['ba', '[UNK]'],
              'an unknown word has a label', tokens)
    e.refused(4, 'the plan has no classes', 'classify', e.plan('bert-relu'),
              '-p', text)


def check_fill_mask(e):
    plan = e.plan('bert-old-names')
    row = [2, WORDS.index('ba'), 4, WORDS.index('fi'), 3]
    logits = e.feed(plan, {'input_ids': ids(row)})['logits'][1]
    at = logits[2 * len(WORDS):3 * len(WORDS)]
    best = max(range(len(WORDS)), key=lambda i: at[i])
    got = e.json('fill-mask', plan, '-p', 'ba [MASK] fi')['data'][0]
    mask = got['masks'][0]
    e.c.check(mask['position'] == 2 and len(mask['tokens']) == 5 and
              mask['tokens'][0]['token'] == WORDS[best], 'fill-mask', got)
    if best > 4:
        e.c.check(mask['tokens'][0]['sequence'] == f'ba {WORDS[best]} fi',
                  'sequence', mask)
    got = e.json('fill-mask', plan, '-p', '[MASK] ba [MASK]')['data'][0]
    e.c.check([m['position'] for m in got['masks']] == [1, 3], 'masks', got)
    first = got['masks'][0]['tokens'][0]
    e.c.check(first['sequence'] == f'[CLS] {first["token"]} ba [MASK] [SEP]',
              'the other mask stays', first)
    e.refused(3, 'text 0 holds no [MASK]', 'fill-mask', plan, '-p', 'ba fi')
    e.refused(4, 'the plan has no masked-LM head', 'fill-mask',
              e.plan('bert-relu'), '-p', 'ba [MASK]')


def check_refusals(e):
    plan = e.plan('bert-relu')
    row, short = [2, 7, 8, 3], [2, 7, 3, 0]
    mask = ids([1, 1, 1, 1], [1, 1, 1, 0])
    both = ids(row, short)
    e.feed_refused(3, 'holds 2 at [1, 3]; 0 and 1', plan,
                   {'input_ids': both,
                    'attention_mask': ids([1, 1, 1, 1], [1, 1, 1, 2])})
    e.feed_refused(3, 'is F32', plan,
                   {'input_ids': ('F32', [1, 2], [2, 3])})
    e.feed_refused(3, '"attention_mask" is F32', plan,
                   {'input_ids': ids(row),
                    'attention_mask': ('F32', [1, 4], [1, 1, 1, 1])})
    e.feed_refused(3, 'another shape', plan,
                   {'input_ids': ids(row), 'attention_mask': mask})
    e.feed_refused(3, 'another shape', plan,
                   {'input_ids': both, 'token_type_ids': ids([0, 0], [0, 0])})
    e.feed_refused(3, 'has 3 dims', plan,
                   {'input_ids': ('I64', [1, 1, 2], [2, 3])})
    e.feed_refused(3, 'has no tokens', plan,
                   {'input_ids': ('I64', [1, 0], [])})
    e.feed_refused(3, 'leaves no token', plan,
                   {'input_ids': ids(row), 'attention_mask': ids([0] * 4)})
    e.feed_refused(3, 'sequence 0: token 1: id 71; 0 to 70', plan,
                   {'input_ids': ids([2, 71, 3])})
    e.feed_refused(3, 'sequence 1: token 0: id -1', plan,
                   {'input_ids': ids([2, 3], [-1, 3])})
    e.feed_refused(3, 'type 3; 0 to 2', plan,
                   {'input_ids': ids(row), 'token_type_ids': ids([0, 0, 3, 0])})
    e.feed_refused(3, '25 tokens; at most 24', plan,
                   {'input_ids': ids([5] * 25)})
    e.feed_refused(3, '"pixels" is no input', plan,
                   {'input_ids': ids(row), 'pixels': ids(row)})
    e.feed_refused(3, 'there is no tensor "input_ids"', plan,
                   {'attention_mask': ids(row)})
    distil = e.plan('distilbert-mlm')
    e.feed_refused(3, '"token_type_ids" is no input', distil,
                   {'input_ids': ids(row), 'token_type_ids': ids([0] * 4)})
    # A padding token that is seen has no position in RoBERTa.
    e.feed_refused(3, 'token 1 is padding (id 1)', e.plan('roberta-mlm'),
                   {'input_ids': ids([2, 1, 3])})
    # Verbs and plans that do not fit.
    for args in (('-p', 'ba'), ('--chat', '-p', 'ba'),
                 ('--prompt-ids', '5,6', '-n', 2, '--greedy')):
        e.refused(4, 'is an encoder', plan, *args)
    text = e.path('text.txt')
    with open(text, 'w', encoding='utf-8') as f:
        f.write('ba de ' * 200)
    e.refused(4, 'is an encoder', plan, '--perplexity', text, '--window', 8)
    e.refused(4, 'is an encoder', 'bench', plan, '-p', 4, '-n', 2)
    decoder = e.path('decoder')
    run(e.dscompile, os.path.join(CASES, 'models', 'gpt2'), '-o', decoder)
    for verb in ('embed', 'classify', 'fill-mask'):
        e.refused(4, 'generates text, it is no encoder', verb, decoder,
                  '-p', 'ba')
    e.refused(3, 'text 1 has 26 tokens; at most 24', 'embed', plan, '-p', 'ba',
              '-p', 'ba ' * 24)
    got = e.json('embed', plan, '-p', 'ba ' * 24, '--truncate')
    e.c.check(got['data'][0]['tokens'] == 24, '--truncate', got)
    e.refused(4, '--pooling pooler: the plan has no output pooler_output',
              'embed', e.plan('bert-qa'), '-p', 'ba', '--pooling', 'pooler')
    e.refused(2, '--pooling', 'embed', plan, '-p', 'ba', '--pooling', 'max')
    # What the compiler refuses.
    out = e.path('refused')
    for files, part, code in (
            ({'modules.json': [{'type': 'sentence_transformers.models.Dense'}]},
             'models.Dense', 4),
            ({'1_Pooling/config.json': {'pooling_mode_max_tokens': True}},
             'max_tokens', 4),
            ({'sentence_bert_config.json': {'max_seq_length': -2}},
             'max_seq_length', 3)):
        e.refused(code, part, e.source('bert-relu', files), '-o', out,
                  tool=e.dscompile)
    e.refused(4, 'an encoder reads a sequence in one step',
              e.source('bert-relu'), '-o', out, '--max-step-tokens', 8,
              '--max-batch', 4, tool=e.dscompile)


def check_plans(e):
    plan = e.plan('bert-relu', '--tp', 2)
    r = run(e.dsplan, 'inspect', plan)
    e.c.check(r.returncode == 0 and 'encoder_attention' in r.stdout and
              '"pooling":"Mean"' in r.stdout.replace('": "', '":"'),
              'inspect', r.stdout[-400:] + r.stderr)
    dumps = e.path('dumps')
    r = run(e.dscompile, e.source('bert-relu'), '-o', e.path('dumped'),
            '--dump-ir', dumps)
    e.c.check(r.returncode == 0 and
              any('import' in name for name in os.listdir(dumps)),
              '--dump-ir', r.stderr)


def main():
    c = Checks()
    with Scratch() as tmp:
        e = Encoders(sys.argv[1:4], tmp, c)
        check_embed(e)
        check_classes(e)
        check_fill_mask(e)
        check_refusals(e)
        check_plans(e)
    c.finish()


main()
