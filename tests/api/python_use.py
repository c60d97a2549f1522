#!/usr/bin/env python3
"""Uses the installed Python module as people would, beside dsrun.

    python_use.py DSRUN

In a folder with the plans "one" and "two", of one and two ranks.
"""
import json
import os
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from harness import Checks, run  # noqa: E402
import deepslice  # noqa: E402

PROMPT = 'Once upon a time'


class Use:
    def __init__(self, dsrun):
        self.dsrun, self.c = dsrun, Checks()

    def answers(self, *args):
        r = run(self.dsrun, 'one', *args, '--json')
        self.c.check(r.returncode == 0, f'dsrun {args}', r.stderr)
        return json.loads(r.stdout)['results'][0]['answers']

    def refused(self, kind, words, call, *args, **kw):
        try:
            call(*args, **kw)
        except kind as e:
            self.c.check(words in str(e), f'"{words}"', str(e))
        else:
            self.c.check(False, f'{kind} with "{words}"', (args, kw))


def check_generate(u, model):
    c = u.c
    want = u.answers('-p', PROMPT, '-n', 24)[0]
    got = model.generate(PROMPT, max_new_tokens=24)
    c.check(got.text == want['text'] and got.ids == want['ids']
            and got.finish_reason == want['finish_reason'], 'as dsrun', got)
    c.check(str(got) == got.text and got.prompt_tokens == 16, 'an answer', got)
    ids = model.tokenize(PROMPT)
    c.check(model.generate(ids, max_new_tokens=24).ids == want['ids'],
            'from ids')
    warm = dict(max_new_tokens=12, temperature=0.9, top_k=40, top_p=0.9,
                min_p=0.01, typical_p=0.95, seed=7, repetition_penalty=1.1,
                presence_penalty=0.1, frequency_penalty=0.1,
                logit_bias={65: 2.0}, ignore_eos=True)
    want = u.answers('-p', PROMPT, '-n', 12, '--temperature', 0.9, '--top-k',
                     40, '--top-p', 0.9, '--min-p', 0.01, '--typical-p', 0.95,
                     '--seed', 7, '--repetition-penalty', 1.1,
                     '--presence-penalty', 0.1, '--frequency-penalty', 0.1,
                     '--logit-bias', '65:2', '--ignore-eos', '--answers', 2,
                     '--logprobs', 2)
    got = model.generate(PROMPT, n=2, logprobs=2, **warm)
    c.check([a.ids for a in got] == [a['ids'] for a in want], 'sampled', got)
    first = got[0].logprobs[0]
    c.check(first.id == got[0].ids[0] and len(first.top) == 2
            and abs(first.logprob - want[0]['logprobs'][0]['logprob']) < 1e-5,
            'logprobs', first)
    want = u.answers('-p', PROMPT, '-n', 6, '--beams', 3, '--answers', 2,
                     '--length-penalty', 0.5)
    got = model.generate(PROMPT, max_new_tokens=6, num_beams=3, n=2,
                         length_penalty=0.5)
    c.check([(a.ids, round(a.score, 4)) for a in got]
            == [(a['ids'], round(a['score'], 4)) for a in want], 'beams', got)
    batch = model.generate([PROMPT, ids, 'x'], max_new_tokens=5)
    c.check(len(batch) == 3 and batch[0].ids == batch[1].ids
            and batch[2].ids == model.generate('x', max_new_tokens=5).ids,
            'a batch', batch)
    c.check(model.generate([]) == [], 'an empty batch')


def check_ends(u, model):
    c = u.c
    whole = model.generate(PROMPT, max_new_tokens=24, ignore_eos=True)
    part = whole.text[8:10]
    got = model.generate(PROMPT, max_new_tokens=24, ignore_eos=True,
                         stop=['never there', part])
    c.check(got.finish_reason == 'stop' and got.stop_reason == part
            and part not in got.text and whole.text.startswith(got.text),
            'a stop text', got)
    got = model.generate(PROMPT, max_new_tokens=24, ignore_eos=True,
                         stop_ids=[whole.ids[4]])
    c.check(got.stop_reason == whole.ids[4] and len(got.ids) <= 4,
            'a stop id', got)

    pieces = list(model.generate(PROMPT, max_new_tokens=24, stream=True,
                                 ignore_eos=True))
    c.check(''.join(pieces) == whole.text and len(pieces) > 3, 'streamed',
            pieces)
    stream = model.generate(PROMPT, max_new_tokens=200, stream=True)
    first = next(stream)
    stream.close()
    c.check(whole.text.startswith(first), 'a stream that is closed', first)
    seen = []

    def stop(piece, i, prompt, answer):
        seen.append((piece, i, prompt, answer))
        return len(seen) == 3
    got = model.generate(PROMPT, max_new_tokens=24, on_token=stop)
    c.check(got.finish_reason == 'cancelled' and got.ids == whole.ids[:3]
            and ''.join(s[0] for s in seen) == got.text
            and seen[0][1:] == (whole.ids[0], 0, 0), 'on_token stops', got)

    def fail(*_):
        raise KeyError('mine')
    u.refused(KeyError, 'mine', model.generate, PROMPT, on_token=fail)
    u.refused(deepslice.DoesNotFit, 'callback', model.generate, PROMPT,
              on_token=lambda *_: model.generate('y'))


def check_text(u, model):
    c = u.c
    text = 'Grüße <|im_end|> \U0001f600'
    ids = model.tokenize(text)
    c.check(model.detokenize(ids, skip_special_tokens=False) == text, 'round')
    c.check(258 in ids and 258 not in model.tokenize(text, parse_special=False),
            'special tokens', ids)
    tok = deepslice.Tokenizer('one')
    c.check(tok.encode(text) == ids and tok.vocab_size == 259
            and tok.eos_id == 258 and tok.bos_id is None, 'a plan\'s tokenizer')
    c.check(tok.token_to_id('<|im_end|>') == 258
            and tok.id_to_token(258) == '<|im_end|>'
            and tok.token_to_id('nope') is None, 'tokens')
    tok = deepslice.Tokenizer(os.path.join('source', 'tokenizer.json'))
    c.check(tok.encode(text) == ids, 'a tokenizer.json')
    u.refused(deepslice.InvalidInput, '300', model.detokenize, [1, 300])
    u.refused(deepslice.NotFound, 'nowhere', deepslice.Tokenizer, 'nowhere')

    messages = [{'role': 'user', 'content': 'Hi <|im_end|>'}]
    prompt = model.apply_chat_template(messages, tokenize=False)
    c.check(prompt == '<|im_start|>user\nHi <|im_end|><|im_end|>\n'
            '<|im_start|>assistant\n', 'rendered', prompt)
    ids = model.apply_chat_template(messages)
    c.check(ids.count(258) == 1, 'what users write is no control token', ids)
    c.check(model.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=False,
        chat_template='{{ messages[0].role }}{{ x }}', x=5) == 'user5',
        'another template')
    r = run(u.dsrun, 'one', '--chat', '-p', 'Hello', '-n', 9)
    got = model.chat([{'role': 'user', 'content': 'Hello'}], max_new_tokens=9)
    c.check(got.text.rstrip('\n') == r.stdout.rstrip('\n'), 'chat as dsrun',
            (got.text, r.stdout, r.stderr))
    streamed = model.chat([{'role': 'user', 'content': 'Hello'}],
                          max_new_tokens=9, stream=True)
    c.check(''.join(streamed) == got.text, 'chat, streamed')
    u.refused(deepslice.NotFound, 'no chat template "rag"', model.chat,
              messages, chat_template='rag')


def check_logits(u, model):
    c = u.c
    ids = model.tokenize(PROMPT)
    rows = model.logits(ids)
    c.check(len(rows) == len(ids) and len(rows[0]) == 259, 'a row each')
    best = max(range(259), key=rows[-1].__getitem__)
    answer = model.generate(ids, max_new_tokens=6, ignore_eos=True)
    c.check(best == answer.ids[0], 'the likeliest', (best, answer))
    fed = model.step({2: ids, 0: ids[:3]})
    c.check(list(fed) == [2, 0] and fed[2][0] == rows[-1], 'a step')
    got = []
    for _ in range(6):
        row = fed[2][0]
        got.append(max(range(259), key=row.__getitem__))
        fed = model.step({2: [got[-1]]})
    c.check(got == answer.ids, 'a sampler of one\'s own', (got, answer.ids))
    model.truncate(2, 16)
    c.check(len(model.step({2: answer.ids[:2]}, rows='all')[2]) == 2, 'rows')
    c.check(model.step({2: [1]}, rows='none') == {2: []}, 'no rows')
    u.refused(deepslice.InvalidInput, 'sequence 9', model.step, {9: [1]})


def check_errors(u, model):
    u.refused(deepslice.NotFound, 'nowhere', deepslice.load, 'nowhere')
    u.refused(FileNotFoundError, 'nowhere', deepslice.load, 'nowhere')
    u.refused(deepslice.InvalidInput, 'toaster', deepslice.load, 'one',
              device='toaster')
    u.refused(deepslice.DoesNotFit, '5000', deepslice.load, 'one',
              max_seq_len=5000)
    u.refused(deepslice.DoesNotFit, '9000', model.generate, PROMPT,
              max_new_tokens=9000)
    u.refused(ValueError, 'temperature is -1', model.generate, PROMPT,
              temperature=-1)
    u.refused(TypeError, "no parameter 'temprature'", model.generate, PROMPT,
              temprature=1)
    u.refused(deepslice.InvalidInput, 'top_k', model.generate, PROMPT,
              top_k='many')
    u.refused(deepslice.InvalidInput, 'integers', model.generate, [1, 'x'])
    u.refused(deepslice.InvalidInput, 'one prompt', model.generate, ['a', 'b'],
              stream=True)
    u.refused(TypeError, 'load', deepslice.Model)


def check_threads(u, model):
    want = model.generate(PROMPT, max_new_tokens=16).ids
    got = [None] * 6

    def work(i):
        got[i] = model.generate(PROMPT, max_new_tokens=16).ids
    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    u.c.check(got == [want] * 6, 'threads', got)


FOLLOWER = '''
import deepslice
model = deepslice.load('two', rank=1, world_size=2, launch_id='python-use')
assert model.rank == 1
try:
    model.generate('x')
except deepslice.DoesNotFit as e:
    assert 'ds_follow' in str(e), e
model.follow()
model.close()
print('followed')
'''


def check_ranks(u, model):
    want = model.generate(PROMPT, max_new_tokens=16).ids
    with deepslice.load('two') as two:
        u.c.check(two.world_size == 2 and two.generate(
            PROMPT, max_new_tokens=16).ids == want, 'ranks as threads')
    other = subprocess.Popen([sys.executable, '-c', FOLLOWER],
                             stdout=subprocess.PIPE, text=True)
    with deepslice.load('two', rank=0, world_size=2,
                        launch_id='python-use') as two:
        u.c.check(two.generate(PROMPT, max_new_tokens=16).ids == want,
                  'ranks as processes')
    u.c.check(other.communicate(timeout=60)[0] == 'followed\n'
              and other.returncode == 0, 'the other rank ends')


def main():
    u = Use(os.path.abspath(sys.argv[1]))
    u.c.check('site-packages' in deepslice.library_path()
              and deepslice.__version__ == '0.1.0', 'the wheel\'s library',
              deepslice.library_path())
    with deepslice.load('one', device='cpu', threads=2) as model:
        for check in (check_generate, check_ends, check_text, check_logits,
                      check_errors, check_threads, check_ranks):
            check(u, model)
        tokenizer = model.tokenizer
    u.refused(deepslice.DeepsliceError, 'closed', model.generate, PROMPT)
    u.refused(deepslice.DeepsliceError, 'closed', tokenizer.encode, 'x')
    model.close()
    u.c.finish()


main()
