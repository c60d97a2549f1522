#!/usr/bin/env python3
"""What a person types after dsrun, and what comes out.

    dsrun_commands.py DSCOMPILE DSRUN

Makes a small checkpoint with random weights, compiles it for one and three
ranks, and checks every verb, that ranks and batch mates change no token, and
that each wrong command line ends in one line and the documented exit code.
"""
import json
import math
import os
import pty
import select
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from harness import TOP, Checks, Scratch, read_tensors, run, write_tensors  # noqa: E402

TEXT = 'In the beginning was the Word, and the Word was deep. ' * 6
LAUNCHERS = ('RANK', 'WORLD_SIZE', 'LOCAL_RANK', 'MASTER_', 'OMPI_', 'PMI_',
             'MV2_', 'SLURM_', 'MPI_', 'TORCHELASTIC_')


class Commands:
    def __init__(self, dsrun, tmp, checks):
        self.dsrun, self.tmp, self.c = dsrun, tmp, checks
        self.env = {k: v for k, v in os.environ.items()
                    if not k.startswith(LAUNCHERS)}

    def path(self, name):
        return os.path.join(self.tmp, name)

    def run(self, *args, env=None, stdin=''):
        return subprocess.run(
            [self.dsrun, *map(str, args)], input=stdin, capture_output=True,
            text=True, errors='replace', timeout=120, check=False,
            env={**self.env, **(env or {})})

    def ok(self, *args, **kw):
        r = self.run(*args, **kw)
        self.c.check(r.returncode == 0, f'dsrun {args}', r.stderr)
        return r.stdout

    def refused(self, code, part, *args, **kw):
        """Exit `code`, nothing on stdout, one `dsrun: ` line that holds part."""
        r = self.run(*args, **kw)
        lines = [x for x in r.stderr.splitlines() if x.startswith('dsrun: ')]
        self.c.check(
            r.returncode == code and r.stdout == '' and len(lines) == 1
            and part in lines[0] and len(r.stderr.splitlines()) <= 2,
            f'dsrun {args}: exit {code} and "{part}"',
            f'exit {r.returncode}, {r.stdout!r}, {r.stderr!r}')


def check_generation(d):
    ids = ['--prompt-ids', '5,6,7', '-n', 12, '--ignore-eos', '--print-ids']
    greedy = d.ok('one', *ids, '--greedy')
    d.c.check(len(greedy.strip().split(',')) == 12 and greedy.count('\n') == 1,
              'twelve ids on one line', greedy)
    for plan in ('three', 'one'):
        for more in (['--max-step-tokens', 2], ['--max_seq_len=15'],
                     ['--temperature', 0], ['--max-batch', 3, '--threads', 2]):
            got = d.ok(plan, *ids, *([] if '--temperature' in more
                                     else ['--greedy']), *more)
            d.c.check(got == greedy, f'{plan} {more}: same tokens',
                      f'{got} for {greedy}')
    # Several prompts are one batch: a line each, the tokens that each has alone.
    both = ['--prompt-ids', '5,6,7;8;5,6', *ids[2:], '--greedy']
    for plan, more in (('one', []), ('three', ['--report-memory']),
                       ('one', ['--max-batch', 2])):
        r = d.run(plan, *both, *more)
        alone = [d.ok('one', '--prompt-ids', p, *ids[2:], '--greedy')
                 for p in ('5,6,7', '8', '5,6')]
        d.c.check(r.stdout == ''.join(alone), f'{plan} {more}: a batch',
                  f'{r.stdout} for {alone}')
        d.c.check(('ratio 1.0000' in r.stderr) == bool('--report-memory' in more),
                  f'{plan} {more}: memory', r.stderr)
    sampled = [d.ok(plan, *ids, '--temp', '0.9', '--top_k', 40, '--top-p', 0.95,
                    '--seed', seed)
               for plan, seed in (('one', 3), ('one', 3), ('three', 3),
                                  ('one', 4))]
    d.c.check(sampled[0] == sampled[1] == sampled[2] != sampled[3],
              'a seed gives the same tokens, on any ranks', sampled)
    d.c.check(sampled[0] != greedy, 'sampling differs from greedy', greedy)

    # Three times the same is what was asked for, and seldom what was meant.
    for more, noted in ((['--greedy'], True), (['--greedy', '-q'], False),
                        (['--temperature', 0.9], False), (['--beams', 3], False)):
        r = d.run('one', *ids, '--answers', 3, *more)
        d.c.check(r.returncode == 0 and noted == ('all the same' in r.stderr),
                  f'--answers 3 {more}: a note or none', r.stderr)

    text = d.ok('one', '-p', 'abc', '-n', 8, '--greedy', '--ignore-eos')
    piped = d.ok('one', '-n', 8, '--greedy', '--ignore-eos', stdin='abc')
    dash = d.ok('one', '-p', '-', '-n', 8, '--greedy', '--ignore-eos',
                stdin='abc')
    d.c.check(text == piped == dash and text.endswith('\n'),
              'the same text from -p and from stdin', (text, piped, dash))


def forward(d, plan, ids, mask=None, dtype='I64', shape=None):
    """-> (shape, logits) of --feed and --fetch over ids, rows of equal length."""
    tensors = {'input_ids': (dtype, shape or [len(ids), len(ids[0])],
                             [i for row in ids for i in row])}
    if mask is not None:
        tensors['attention_mask'] = (dtype, tensors['input_ids'][1],
                                     [i for row in mask for i in row])
    write_tensors(d.path('feed'), tensors)
    d.ok(plan, '--feed', d.path('feed'), '--fetch', d.path('fetch'))
    return read_tensors(d.path('fetch'))['logits']


def check_feed(d):
    shape, alone = forward(d, 'one', [[9, 10, 11]])
    d.c.check(shape == [1, 3, 259], 'shape of the logits', shape)
    shape, flat = forward(d, 'one', [[9, 10, 11]], dtype='I32', shape=[3])
    d.c.check(shape == [1, 3, 259] and flat == alone, 'I32 and one dim', shape)
    shape, padded = forward(d, 'three',
                            [[0, 9, 10, 11], [0, 0, 0, 0], [4, 4, 0, 0]],
                            [[0, 1, 1, 1], [0, 0, 0, 0], [1, 1, 0, 0]])
    rows = [padded[i * 259:(i + 1) * 259] for i in range(12)]
    d.c.check(shape == [3, 4, 259], 'shape of a batch', shape)
    d.c.check([any(r) for r in rows] == [False, True, True, True] + [False] * 4
              + [True, True, False, False], 'masked rows are zero')
    far = max(abs(a - b) for a, b in zip(sum(rows[1:4], []), alone))
    d.c.check(far < 1e-4, 'padding and ranks change no logit', far)

    write_tensors(d.path('feed'), {'input_ids': ('I64', [1, 1], [259])})
    feed = ['--feed', d.path('feed'), '--fetch', d.path('never')]
    d.refused(3, 'id 0 is 259; ids are 0 to 258', 'one', *feed)
    write_tensors(d.path('feed'), {'input_ids': ('F32', [1, 1], [2.0])})
    d.refused(3, '"input_ids" is F32', 'one', *feed)
    write_tensors(d.path('feed'), {'ids': ('I64', [1, 1], [2])})
    d.refused(3, '"ids" is no input', 'three', *feed)
    write_tensors(d.path('feed'), {'input_ids': ('I64', [1, 65], [2] * 65)})
    d.refused(4, '65 tokens; the sequence ceiling is 64', 'one', *feed)
    d.refused(3, d.path('none'), 'one', '--feed', d.path('none'), '--fetch',
              d.path('never'))
    d.c.check(not [n for n in os.listdir(d.tmp) if n.startswith('never')],
              'a failed --fetch leaves no file')


def check_perplexity(d):
    with open(d.path('text'), 'w') as f:
        f.write(TEXT)
    with open(d.path('texts.json'), 'w') as f:
        json.dump([TEXT], f)
    ids = json.loads(d.ok('tokenize', 'one', '--in', d.path('texts.json'),
                          '--json'))[0]['ids_no_special']
    window, nll, count = 48, 0.0, 0
    for begin in range(0, len(ids) - window, window):
        _, logits = forward(d, 'one', [ids[begin:begin + window]])
        for i in range(window):
            row = logits[i * 259:(i + 1) * 259]
            top = max(row)
            nll += (top + math.log(sum(math.exp(x - top) for x in row))
                    - row[ids[begin + i + 1]])
            count += 1
    want = math.exp(nll / count)
    for plan in ('one', 'three'):
        got = d.ok(plan, '--perplexity', d.path('text'), '--window', window)
        d.c.check(abs(float(got) / want - 1) < 1e-5, f'perplexity of {plan}',
                  f'{got} for {want}')
    d.refused(3, 'at least --window + 1 = 49', 'one', '--perplexity',
              d.path('short'), '--window', window)
    d.refused(4, '--window is 65; the sequence ceiling is 64', 'one',
              '--perplexity', d.path('text'), '--window', 65)


def check_bench_and_tokenize(d):
    got = json.loads(d.ok('bench', 'three', '-p', 16, '-n', 4, '-r', 2, '-o',
                          'json'))
    d.c.check(got['world_size'] == 3
              and 0 < got['decode_tokens_per_second']['min']
              <= got['decode_tokens_per_second']['median'], 'bench', got)
    d.c.check('tokens/s' in d.ok('bench', 'one', '-p', 16, '-n', 4, '-b', 2),
              'bench as text')
    got = json.loads(d.ok('bench', 'one', '-p', 16, '-n', 9, '-r', 1, '-b', 3,
                          '-o', 'json'))
    # The cache of 3 sequences at 20 tokens, of 2 KV heads, k and v in floats.
    d.c.check(got['decode_steps'] == 6 and got['bytes_per_step']['weights'] > 0
              and got['bytes_per_step']['cache'] % (3 * 20 * 2 * 2) == 0
              and got['decode_ms_per_step']['min'] > 0
              and 'share_of_read_bandwidth' not in got, 'bench of steps', got)
    d.c.check(d.ok('bench', 'one', '-p', 16, '-n', 4, '-r', 1, '-o',
                   'md').count('|---') == 6, 'bench as Markdown')
    d.refused(4, '512 tokens and 128 new ones exceed', 'bench', 'one')
    d.refused(4, 'nothing to tune on the CPU', 'tune', 'one')
    with open(d.path('texts.json'), 'w') as f:
        json.dump(['', 'a\u00e9<|im_end|>'], f)
    got = json.loads(d.ok('tokenize', d.path('source/tokenizer.json'), '--in',
                          d.path('texts.json'), '--json'))
    d.c.check(got[0]['ids_no_special'] == []
              and len(got[1]['ids_no_special']) == 4
              and got[1]['decoded'] == 'a\u00e9'
              and got[1]['decoded_keep'] == 'a\u00e9<|im_end|>',
              'tokenize', got)


def converse(d, plan, keys):
    """A conversation in a terminal: writes each of `keys` when the one before
    has been answered; -> (exit code, what the terminal showed)."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(d.dsrun, [d.dsrun, plan, '--chat', '--greedy', '--ignore-eos',
                            '-n', '20'], d.env)
    shown, until = '', time.monotonic() + 60
    for key in [*keys, None]:
        while shown.count('\n> ') + shown.startswith('> ') == 0 or key is None:
            if time.monotonic() > until:
                break
            if not select.select([fd], [], [], 0.1)[0]:
                continue
            try:
                piece = os.read(fd, 4096)
            except OSError:  # the other end is closed
                piece = b''
            if not piece:
                break
            shown += piece.decode(errors='replace').replace('\r\n', '\n')
        if key is not None:
            shown = shown.replace('\n> ', '\n: ')  # this prompt is answered
            os.write(fd, key)
    os.close(fd)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown


def check_chat(d):
    one = d.ok('one', '--chat', '-p', 'hello', '--system', 'be kind', '-n', 8)
    three = d.ok('chat', 'three', '-p', 'hello', '--system', 'be kind', '-n', 8)
    bare = d.ok('three', '--chat', '-p', 'hello', '-n', 8)
    d.c.check(one == three != bare, 'one turn of a chat', (one, three, bare))
    for plan in ('one', 'three'):
        code, shown = converse(d, plan, [b'a\n', b'/reset\n', b'b\n', b'\4'])
        d.c.check(code == 0 and shown.count('[prompt ') == 2,
                  'a conversation that Ctrl-D ends', (code, shown))
        code, shown = converse(d, plan, [b'a\n', b'\3'])
        d.c.check(code == 130 and shown.count('[prompt ') == 1,
                  'a conversation that Ctrl-C ends', (code, shown))
        # The ceiling is 64: the second turn holds nothing of the first.
        code, shown = converse(d, plan, [b'aaaaaaaa\n', b'bbbbbbbb\n',
                                         b'c\n', b'/exit\n'])
        d.c.check(code == 0 and 'sequence ceiling of 64' in shown
                  and shown.count('[prompt ') == 3,
                  'a conversation that grows too long goes on', (code, shown))


def check_refusals(d):
    one, three = 'one', 'three'
    ids = ['--prompt-ids', '5,6', '-n', 2]
    d.refused(2, 'PLAN is required')
    d.refused(2, 'did you mean --temperature?', one, *ids, '--temprature', 1)
    d.refused(2, '"x" is no token id', one, '--prompt-ids', '5,x')
    d.refused(2, '--greedy', one, *ids, '--greedy', '--top-k', 3)
    d.refused(3, 'no such folder', 'nowhere', *ids)
    d.refused(3, 'manifest.json', '.', *ids)
    d.refused(3, 'the prompt is empty', one, '-p', '')
    d.refused(3, 'prompt id 1 is 259', three, '--prompt-ids', '5,259')
    d.refused(4, '2 tokens and 63 new ones exceed the sequence ceiling of 64',
              one, '--prompt-ids', '5,6', '-n', 63)
    d.refused(4, '--max-batch 99', one, *ids, '--max-batch', 99)
    # Ranks.
    d.refused(2, 'too early', three, *ids, '--rank', '')
    d.refused(2, 'too early', three, *ids, '--rank')
    d.refused(2, '--rank is 3', three, *ids, '--rank', 3)
    d.refused(2, 'RANK=1 but not WORLD_SIZE', three, *ids, env={'RANK': '1'})
    start = time.monotonic()
    d.refused(4, 'the launch has 2 rank(s) (torchrun), the plan has 3', three,
              *ids, env={'RANK': '0', 'WORLD_SIZE': '2'})
    d.refused(4, 'the launch has 2 rank(s) (OpenMPI)', one, *ids,
              env={'OMPI_COMM_WORLD_RANK': '0', 'OMPI_COMM_WORLD_SIZE': '2'})
    d.c.check(time.monotonic() - start < 2, 'refused before any rank is met')
    got = d.ok(one, *ids, '--print-ids', '--rank', 0, '--local_rank=0')
    d.c.check(got == d.ok(one, *ids, '--print-ids'), 'rank 0 of 1', got)


def main():
    dscompile, dsrun = (os.path.abspath(p) for p in sys.argv[1:])
    c = Checks()
    with Scratch() as tmp:
        os.chdir(tmp)
        with open('short', 'w') as f:
            f.write('too short')
        r = run(sys.executable,
                os.path.join(TOP, 'tools', 'make_random_checkpoint.py'),
                'source')
        c.check(r.returncode == 0, 'make_random_checkpoint', r.stderr)
        for plan, tp in (('one', 1), ('three', 3)):
            r = run(dscompile, 'source', '--tp', tp, '--dtype', 'fp32',
                    '--max-seq-len', 64, '-o', plan)
            c.check(r.returncode == 0, f'dscompile --tp {tp}', r.stderr)
        d = Commands(dsrun, tmp, c)
        for check in (check_generation, check_feed, check_perplexity,
                      check_bench_and_tokenize, check_chat, check_refusals):
            check(d)
    c.finish()


main()
