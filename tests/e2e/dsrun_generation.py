#!/usr/bin/env python3
"""What can be asked of a generation, through dsrun.

    dsrun_generation.py DSCOMPILE DSRUN [TARGET DEVICE]

Answers of the golden models beside those of transformers (golden_cases/
generation/generate.json); then, on a small checkpoint whose tokens are single
bytes, every flag, the precedence of request, command line and
generation_config.json, and that neither batch mates nor ranks change a token. With TARGET and DEVICE (as
`sm_90a cuda`) what the device takes part in, there; ranks share it.
"""
import json
import math
import os
import random
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from harness import CASES, TOP, Checks, Scratch, run  # noqa: E402

MODELS = ('llama-gqa-tied', 'qwen2', 'gpt2', 'mistral-window')


class Generation:
    def __init__(self, dscompile, dsrun, checks, target=None, device=None):
        self.dscompile, self.dsrun, self.c = dscompile, dsrun, checks
        self.compile_flags = ['--target', target] if target else []
        self.run_flags = ['--device', device, '--share-gpu'] if device else []

    def compile(self, source, plan, *args):
        r = run(self.dscompile, source, '--dtype', 'fp32', '-o', plan, *args,
                *self.compile_flags)
        self.c.check(r.returncode == 0, f'dscompile {source}', r.stderr)
        return r.stderr

    def run(self, *args, stdin=''):
        return subprocess.run([self.dsrun, *map(str, args), *self.run_flags],
                              input=stdin.encode(), capture_output=True,
                              timeout=120, check=False)

    def ok(self, *args, **kw):
        r = self.run(*args, **kw)
        self.c.check(r.returncode == 0, f'dsrun {args}', r.stderr)
        return r.stdout.decode()

    def json(self, *args, **kw):
        got = json.loads(self.ok(*args, '--json', **kw))
        self.c.check(got['schema_version'] == 1, 'schema_version', got)
        return got

    def answers(self, *args, **kw):
        """-> every answer of every prompt."""
        return [a for r in self.json(*args, **kw)['results']
                for a in r['answers']]

    def refused(self, code, part, *args, **kw):
        r = self.run(*args, **kw)
        lines = r.stderr.decode().splitlines()
        lines = [x for x in lines if not x.startswith('world ')]
        self.c.check(r.returncode == code and len(lines) == 1
                     and part in lines[0], f'dsrun {args}: {code}, "{part}"',
                     (r.returncode, r.stdout, r.stderr))
        return r.stdout.decode()


def jsonl(path, objects):
    with open(path, 'w') as f:
        f.writelines(json.dumps(o) + '\n' for o in objects)
    return path


def check_goldens(g):
    with open(os.path.join(CASES, 'generation', 'generate.json')) as f:
        goldens = json.load(f)
    for model in MODELS:
        cases = goldens[model]
        requests = []
        for case in cases:
            request = {k: v for k, v in case.items()
                       if k not in ('answers', 'prompt')}
            requests.append({**request, 'prompt_ids': case['prompt'],
                             'ignore_eos': True})
        path = jsonl('goldens.jsonl', requests)
        for tp in (1, 2) if model == 'qwen2' else (1,):
            plan = f'{model}-{tp}'
            g.compile(os.path.join(CASES, 'models', model), plan, '--tp', tp,
                      '--max-batch', 8)
            # All of them together.
            got = g.json(plan, '--prompts', path)['results']
            g.c.check(len(got) == len(cases), f'{plan}: results', len(got))
            for i, (case, result) in enumerate(zip(cases, got)):
                for want, have in zip(case['answers'], result['answers']):
                    g.c.check(
                        have['ids'] == want['ids']
                        and have['finish_reason'] == want['finish']
                        and (case['num_beams'] == 1
                             or abs(have['score'] - want['score']) < 1e-3),
                        f'{plan}: case {i} of transformers', (have, want))
                g.c.check(len(result['answers']) == len(case['answers']),
                          f'{plan}: answers of case {i}', result)


def check_mixes(g):
    """Requests of every kind: alone, together, on three ranks."""
    rng = random.Random(5)
    requests = []
    for i in range(14):
        r = {'prompt_ids': [rng.randrange(256) for _ in range(1 + i * 3 % 11)],
             'max_tokens': 3 + i * 5 % 13, 'ignore_eos': i % 4 != 0,
             'stop_token_ids': [] if i % 3 else list(range(i, 256, 40))}
        if i % 5 == 4:
            r.update(beams=2 + i % 3, n=2, length_penalty=0.5 * (i % 3))
        else:
            r.update(temperature=[0, 0.7, 1.2][i % 3], seed=i,
                     top_k=[0, 12][i % 2], top_p=[1, 0.9][i // 2 % 2],
                     min_p=[0, 0.05][i // 3 % 2],
                     typical_p=[1, 0.8][i // 4 % 2],
                     repetition_penalty=[1, 1.2][i // 5 % 2],
                     presence_penalty=[0, 0.4][i // 2 % 2],
                     logit_bias={} if i % 2 else {'65': 1.5}, n=1 + i % 3)
        requests.append(r)
    path = jsonl('mix.jsonl', requests)

    def ids(results):
        return [[(a['ids'], a['finish_reason']) for a in r['answers']]
                for r in results]
    together = ids(g.json('one', '--prompts', path)['results'])
    alone = [ids(g.json('one', '--prompts', jsonl('alone.jsonl', [r]))
                 ['results'])[0] for r in requests]
    g.c.check(together == alone, 'batch mates change nothing',
              (together, alone))
    for plan, more in (('three', []), ('one', ['--max-step-tokens', 5]),
                       ('one', ['--max-batch', 4, '--threads', 2])):
        got = ids(g.json(plan, '--prompts', path, *more)['results'])
        g.c.check(got == together, f'{plan} {more}: the same answers',
                  (got, together))
    # The first of n answers is the one that is there alone.
    base = ['one', '--prompt-ids', '5,6', '-n', 8, '--temp', 1, '--seed', 4]
    first = g.answers(*base)[0]['ids']
    three = [a['ids'] for a in g.answers(*base, '--n', 3)]
    g.c.check(three[0] == first and len(set(map(tuple, three))) == 3,
              'answers of their own', (first, three))
    many = [a['ids'] for a in g.answers(*base, '--n', 11, '--max-batch', 2)]
    g.c.check(many[:3] == three and len(many) == 11, 'more than run together',
              many)


def byte_text(ids):
    """What the byte tokenizer's ids say."""
    order = [*range(33, 127), *range(161, 173), *range(174, 256)]
    order += [b for b in range(256) if b not in order]
    spelled = [*range(256)]  # ids are in byte order
    return bytes(spelled[i] for i in ids if i < 256).decode(errors='replace')


def check_text(g):
    free = ['one', '-p', 'abc', '-n', 40, '--temp', 1.5, '--seed', 3,
            '--ignore-eos']
    whole = g.answers(*free)[0]
    text = whole['text']
    g.c.check(text == byte_text(whole['ids']), 'text of the ids',
              (text, byte_text(whole['ids'])))
    g.c.check(text == g.ok(*free)[:-1] or text == g.ok(*free),
              'the same streamed', text)
    # Stops of several tokens, at the first place in the text.
    chars = [c for c in text if c != '\ufffd']
    for begin, length in ((4, 1), (6, 2), (3, 4)):
        stop = ''.join(chars[begin:begin + length])
        if stop not in text:
            continue
        for more in ([], ['--stop', 'never there']):
            a = g.answers(*free, '--stop', stop, *more)[0]
            g.c.check(a['text'] == text[:text.find(stop)]
                      and a['finish_reason'] == 'stop'
                      and a['stop_reason'] == stop, f'--stop {stop!r}', a)
            streamed = g.ok(*free, '--stop', stop, *more)
            g.c.check(streamed in (a['text'], a['text'] + '\n'),
                      f'streamed --stop {stop!r}', streamed)
    # Held back and never lost: it begins, but never ends.
    a = g.answers(*free, '--stop', text[-1] + 'X' * 30)[0]
    g.c.check(a['text'] == text and a['finish_reason'] == 'length',
              'the head of a stop string at the end', a)
    # Bytes of two-byte code points alone, so that most borders are inside one.
    bias = ','.join(f'{i}:-inf' for i in range(259) if i not in (0xc3, 0xa9))
    a = g.answers('one', '-p', 'x', '-n', 21, '--temp', 3, '--logit-bias', bias)
    raw = bytes(a[0]['ids'])
    g.c.check(set(raw) == {0xc3, 0xa9} and
              a[0]['text'] == raw.decode(errors='replace'),
              'split code points', a)
    # Several prompts, several answers, as text.
    with open('lines.txt', 'w') as f:
        f.write('abc\n\nhello there\n')
    shown = g.ok('one', '--prompts', 'lines.txt', '-n', 4, '--n', 2, '--temp',
                 1, '--ignore-eos')
    g.c.check(shown.count('==> prompt ') == 4
              and '==> prompt 1, answer 1 <==' in shown, 'headers', shown)
    piped = g.json('one', '--prompts', '-', '-n', 4, stdin='abc\nhello there')
    g.c.check([r['line'] for r in piped['results']] == [1, 2], 'stdin', piped)
    with open('whole.txt', 'w') as f:
        f.write('two\nlines')
    got = g.json('one', '-f', 'whole.txt', '-n', 2)
    g.c.check(got['results'][0]['prompt_tokens'] == 9, '--file', got)
    g.c.check(got['usage'] == {'prompt_tokens': 9, 'completion_tokens': 2,
                               'total_tokens': 11}, 'usage', got)


def check_lengths_and_logprobs(g):
    ids = ['one', '--prompt-ids', '5,6,7', '--greedy']
    a = g.answers(*ids, '-n', 6, '--ignore-eos', '--logprobs', 3)[0]
    top = a['logprobs'][0]['top_logprobs']
    g.c.check(len(a['logprobs']) == 6 and len(top) == 3
              and a['logprobs'][0]['id'] == a['ids'][0] == top[0]['id']
              and top[0]['logprob'] >= top[1]['logprob'] >= top[2]['logprob']
              and sum(math.exp(t['logprob']) for t in top) <= 1,
              'logprobs', a)
    every = g.answers(*ids, '-n', 1, '--ignore-eos', '--logprobs', 259)[0]
    total = sum(math.exp(t['logprob'])
                for t in every['logprobs'][0]['top_logprobs'])
    g.c.check(abs(total - 1) < 1e-4, 'all logprobs sum to 1', total)
    # A stop id that would come first can't before the least length.
    stop = a['ids'][2]
    cut = g.answers(*ids, '-n', 6, '--stop-ids', stop, '--ignore-eos')[0]
    g.c.check(cut['ids'] == a['ids'][:a['ids'].index(stop)]
              and cut['stop_reason'] == stop, '--stop-ids', cut)
    later = g.answers(*ids, '-n', 9, '--stop-ids', stop, '--min-tokens', 5,
                      '--ignore-eos')[0]
    g.c.check(len(later['ids']) >= 5 and stop not in later['ids'],
              '--min-tokens', later)
    least = g.answers(*ids, '--min-tokens', 130)
    g.c.check(len(least[0]['ids']) >= 130, 'more than the default', least)
    g.refused(4, 'a sequence holds 256 tokens at most, prompt and answer; '
              '--min-out-tokens asks for 300; compile with a higher '
              '--max-seq-len', *ids, '--min-out-tokens', 300)
    g.refused(4, 'holds 40 tokens at most, prompt and answer; '
              '--min-out-tokens asks for 50; raise --max-out-tokens', *ids,
              '--max-out-tokens', 40, '--min-out-tokens', 50)
    g.refused(4, 'a prompt of 3 tokens and 38 new ones exceed the sequence '
              'ceiling of 40', *ids, '--max-out-tokens', 40, '-n', 38)
    g.ok(*ids, '--max-out-tokens', 40, '--min-out-tokens', 40, '-n', 1)
    g.refused(4, '9 beams need as many sequences at once; 8 run together',
              'one', '--prompt-ids', '5', '--beams', 9)
    g.refused(3, 'logit bias of id 259; ids are 0 to 258', *ids,
              '--logit-bias', '259:1')
    g.refused(3, 'stop id 0 is 259', *ids, '--stop-ids', 259, '--ignore-eos')
    g.refused(3, 'logprobs is 260; 0 to 259 are allowed', *ids, '--json',
              '--logprobs', 260)
    g.refused(3, 'a length penalty and early stopping are of beam search',
              *ids, '--length-penalty', 2)
    g.refused(2, '--top-k excludes --beams', *ids[:3], '--beams', 2, '--top-k',
              3)
    path = jsonl('bad.jsonl', [{'prompt_ids': [5]},
                               {'prompt_ids': [5], 'temprature': 1}])
    g.refused(3, 'bad.jsonl:2: "temprature" is no field of a request; did you '
              'mean "temperature"?', 'one', '--prompts', path)
    path = jsonl('bad.jsonl', [{'prompt_ids': [5]},
                               {'prompt_ids': [5], 'top_p': 1.5}])
    g.refused(3, 'request 1: top-p is 1.5', 'one', '--prompts', path)
    g.refused(3, 'no-such', 'one', '--prompts', 'no-such')


def check_precedence(g):
    def with_config(name, **config):
        shutil.copytree('source', name)
        with open(os.path.join(name, 'generation_config.json'), 'w') as f:
            json.dump(config, f)
        return g.compile(name, f'{name}-plan', '--max-batch', 8)
    with_config('samples', do_sample=True, temperature=0.8, top_k=20,
                min_p=0.02, repetition_penalty=1.15, max_new_tokens=11,
                eos_token_id=[257, 77], suppress_tokens=[1, 2])
    file = ['samples-plan', '--prompt-ids', '5,6,7']
    plain = ['one', '--prompt-ids', '5,6,7', '--stop-ids', 77]
    flags = ['--temp', 0.8, '--top-k', 20, '--min-p', 0.02,
             '--repetition-penalty', 1.15, '-n', 11, '--logit-bias',
             '1:-inf,2:-inf']

    def ids(*args):
        return g.answers(*args, '--seed', 6)[0]['ids']
    g.c.check(ids(*file) == ids(*plain, *flags), 'the file counts as flags')
    g.c.check(ids(*file, '--top-k', 3, '-n', 5)
              == ids(*plain, *flags[:2], '--top-k', 3, *flags[4:8], '-n', 5,
                     *flags[10:]), 'a flag counts more than the file')
    g.c.check(ids(*file, '--ignore-generation-config', '-n', 7)
              == ids(*plain, '-n', 7), 'the file ignored')
    path = jsonl('asks.jsonl', [{'prompt_ids': [5, 6, 7], 'top_k': 4},
                                {'prompt_ids': [5, 6, 7]}])
    got = [a['ids'] for a in g.answers('samples-plan', '--prompts', path,
                                       '--top-k', 3, '--seed', 6)]
    g.c.check(got == [ids(*file, '--top-k', 4), ids(*file, '--top-k', 3)],
              'a request counts more than a flag', got)
    with_config('still', do_sample=False, temperature=0.6, top_p=0.5)
    g.c.check(ids('still-plan', '--prompt-ids', '5,6,7', '-n', 9)
              == ids('one', '--prompt-ids', '5,6,7', '-n', 9),
              'a temperature without do_sample is greedy')
    with_config('beams', num_beams=3, num_return_sequences=2)
    text = g.ok('beams-plan', '-p', 'hi', '--beams', 3, '-n', 6, '--answers', 1)
    best = g.json('beams-plan', '-p', 'hi', '-n', 6)['results'][0]['answers']
    g.c.check(len(best) == 2 and best[0]['text'] in text
              and best[0]['score'] >= best[1]['score'], 'beams of the file',
              (text, best))
    g.c.check('score' not in g.answers('beams-plan', '-p', 'hi', '-n', 6,
                                       '--temp', 1)[0],
              'sampling goes before the beams of the file')
    g.ok('beams-plan', '--chat', '-p', 'hi', '-n', 6)
    noted = with_config('odd', no_repeat_ngram_size=3, top_p=0, top_k=2.5,
                        bad_words_ids=[[4]], num_beams=3, do_sample=True)
    for part in ('no_repeat_ngram_size: 3 is not supported; left out',
                 'top_p: 0 is not in', 'top_k: 2.5 is no whole number',
                 'bad_words_ids: [[4]] is not supported',
                 'num_beams: 3 with do_sample'):
        g.c.check(part in noted, f'noted: {part}', noted)


def check_failures(g):
    """A token whose embedding is NaN ends its own answers alone."""
    shutil.copytree('source', 'broken')
    path = os.path.join('broken', 'model.safetensors')
    with open(path, 'r+b') as f:
        size = struct.unpack('<Q', f.read(8))[0]
        head = json.loads(f.read(size))
        t = head['model.embed_tokens.weight']
        columns = t['shape'][1]
        f.seek(8 + size + t['data_offsets'][0] + 9 * columns * 2)
        f.write(struct.pack('<H', 0x7fc0) * columns)
    g.compile('broken', 'broken-plan', '--max-batch', 8)
    path = jsonl('nan.jsonl', [
        {'prompt_ids': [5, 6]}, {'prompt_ids': [5, 9], 'n': 2},
        {'prompt_ids': [9], 'beams': 2}, {'prompt_ids': [6, 5]},
        {'prompt_ids': [9, 9], 'presence_penalty': 1}, {'prompt_ids': [9]}])
    common = ['--prompts', path, '--greedy', '-n', 6, '--ignore-eos',
              '--logit-bias', '9:-inf']
    shown = g.refused(1, 'prompt 1: step 0, position 1: the logits hold NaN',
                      'broken-plan', *common, '--json')
    results = json.loads(shown)['results']
    reasons = [[a['finish_reason'] for a in r['answers']] for r in results]
    g.c.check(reasons == [['length'], ['error'] * 2, ['error'], ['length'],
                          ['error'], ['error']], 'who fails', reasons)
    for i, prompt in ((0, '5,6'), (3, '6,5')):
        alone = g.answers('broken-plan', '--prompt-ids', prompt, *common[2:])
        g.c.check(results[i]['answers'][0]['ids'] == alone[0]['ids'],
                  f'prompt {i} goes on', (results[i], alone))


def main():
    dscompile, dsrun = (os.path.abspath(p) for p in sys.argv[1:3])
    c = Checks()
    checks = (check_mixes, check_text, check_lengths_and_logprobs,
              check_precedence, check_failures)
    if len(sys.argv) > 3:
        checks = (check_mixes, check_failures)
    with Scratch() as tmp:
        os.chdir(tmp)
        g = Generation(dscompile, dsrun, c, *sys.argv[3:])
        check_goldens(g)
        r = run(sys.executable,
                os.path.join(TOP, 'tools', 'make_random_checkpoint.py'),
                'source')
        c.check(r.returncode == 0, 'make_random_checkpoint', r.stderr)
        for plan, tp in (('one', 1), ('three', 3)):
            g.compile('source', plan, '--tp', tp, '--max-batch', 8,
                      '--max-seq-len', 256)
        for check in checks:
            check(g)
    c.finish()


main()
