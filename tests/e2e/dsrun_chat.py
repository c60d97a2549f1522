#!/usr/bin/env python3
"""Conversations as a person has them, in a terminal and through pipes.

    dsrun_chat.py DSCOMPILE DSRUN

Compiles a small random model whose answers never end, with several templates:
streaming, Ctrl-C, commands, a conversation that outgrows its ceiling, templates
that are missing, broken or refuse, and what `dsrun template` prints.
"""
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from harness import TOP, Checks, Scratch, run  # noqa: E402

CHATML = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
          "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}"
          "<|im_start|>assistant\n{% endif %}")
RATES = re.compile(r'\[prompt (\d+) tokens, [\d.]+/s; answer (\d+) tokens, '
                   r'[\d.]+/s(; [a-z ]+)?\]')
FLAGS = ('--greedy', '--ignore-eos')


class Terminal:
    """dsrun in a terminal of its own."""

    def __init__(self, *command):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execv(command[0], [str(c) for c in command])
        self.bytes = b''
        self.pieces = 0

    def read_until(self, holds, seconds=60):
        """Reads until holds(text since the last call) or the end; -> text."""
        start, until = len(self.bytes), time.monotonic() + seconds
        while not holds(self.text(start)) and time.monotonic() < until:
            if not select.select([self.fd], [], [], 0.1)[0]:
                continue
            try:
                piece = os.read(self.fd, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            self.bytes += piece
            self.pieces += 1
        return self.text(start)

    def text(self, start=0):
        return self.bytes[start:].decode(errors='replace').replace('\r\n', '\n')

    def prompt(self):
        """Waits for the next prompt; -> what came before."""
        return self.read_until(lambda t: t.endswith('> '))

    def say(self, line):
        """Types a line; -> what it brought."""
        os.write(self.fd, line.encode() + b'\n')
        return self.prompt()

    def end(self, key=b'\4'):
        os.write(self.fd, key)
        self.read_until(lambda t: False, 20)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Chat:
    def __init__(self, dscompile, dsrun, checks):
        self.dscompile, self.dsrun, self.c = dscompile, dsrun, checks

    def compile(self, plan, config=None, files=None, flags=()):
        """Compiles a copy of the source with its own templates; -> stderr."""
        source = plan + '.source'
        shutil.copytree('source', source)
        if config is not None:
            with open(os.path.join(source, 'tokenizer_config.json'), 'w',
                      encoding='utf-8') as f:
                json.dump(config, f)
        for name, text in (files or {}).items():
            path = os.path.join(source, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, 'w', encoding='utf-8') as f:
                f.write(text)
        r = run(self.dscompile, source, '--dtype', 'fp32', '-o', plan, *flags)
        self.c.check(r.returncode == 0, f'dscompile {plan}', r.stderr)
        return r.stderr

    def run(self, *args, stdin=''):
        return subprocess.run(
            [self.dsrun, *map(str, args)], input=stdin, capture_output=True,
            text=True, errors='strict', timeout=120, check=False)

    def ok(self, *args, stdin=''):
        r = self.run(*args, stdin=stdin)
        self.c.check(r.returncode == 0, f'dsrun {args}', r.stderr)
        return r.stdout

    def refused(self, code, part, *args):
        r = self.run(*args)
        last = r.stderr.splitlines()[-1] if r.stderr else ''
        self.c.check(r.returncode == code and r.stdout == '' and part in last
                     and last.startswith('dsrun: '),
                     f'dsrun {args}: exit {code}, "{part}"',
                     (r.returncode, r.stdout, r.stderr))

    def terminal(self, plan, *flags):
        t = Terminal(self.dsrun, plan, '--chat', *FLAGS, *flags)
        t.prompt()
        return t

    def render(self, plan, messages, *flags):
        with open('messages.json', 'w', encoding='utf-8') as f:
            json.dump(messages, f)
        return self.ok('template', plan, '--messages', 'messages.json', *flags)

    def count(self, plan, *messages):
        """Tokens of a conversation's prompt."""
        names = ('user', 'assistant')
        ids = self.render(plan, [{'role': names[i % 2], 'content': m}
                                 for i, m in enumerate(messages)],
                          '--print-ids')
        return len(ids.split(','))


def prompt_tokens(text):
    return [int(m.group(1)) for m in RATES.finditer(text)]


def check_streaming(d):
    t = Terminal(d.dsrun, 'long', '--chat', *FLAGS, '-n', 1900)
    greeting = t.prompt()
    d.c.check('2048 tokens at most' in greeting and '/help' in greeting,
              'what a conversation starts with', greeting)
    pieces = t.pieces
    os.write(t.fd, b'go on\n')
    first = t.read_until(lambda s: len(s) > 40)
    d.c.check('[prompt' not in first and t.pieces > pieces + 1,
              'an answer is shown while it comes', first)
    os.write(t.fd, b'\3')
    rest = t.prompt()
    stopped = RATES.search(rest)
    d.c.check(stopped is not None and stopped.group(3) == '; stopped'
              and 0 < int(stopped.group(2)) < 1900,
              'Ctrl-C stops the answer', rest[-200:])
    more = t.say('/reset')
    os.write(t.fd, b'again\n')
    t.read_until(lambda s: len(s) > 40)
    os.write(t.fd, b'\3')
    more = t.prompt()
    d.c.check(prompt_tokens(more) == [d.count('long', 'again')],
              'after it the conversation goes on', more[-200:])
    code = t.end(b'\3')
    d.c.check(code == 130, 'Ctrl-C at the prompt leaves', code)


def check_commands(d):
    t = d.terminal('talk', '-n', 4)
    one, two = d.count('talk', 'one'), d.count('talk', 'two')
    first = t.say('one')
    d.c.check(prompt_tokens(first) == [one], 'the first turn', first)
    answer = first.split('\n', 1)[1]
    answer = answer[:RATES.search(answer).start()]
    second = t.say('two')
    d.c.check(prompt_tokens(second)[0] > one + two - 4,
              'the second turn holds the first', (second, answer))
    t.say('/reset')
    third = t.say('two')
    d.c.check(prompt_tokens(third) == [two], '/reset forgets', third)
    t.say('/reset')
    t.say('/system Be brief.')
    fourth = t.say('two')
    with_system = d.render('talk', [{'role': 'system', 'content': 'Be brief.'},
                                    {'role': 'user', 'content': 'two'}],
                           '--print-ids')
    d.c.check(prompt_tokens(fourth) == [len(with_system.split(','))],
              '/system', fourth)
    t.say('/reset')
    t.say('/system')
    fifth = t.say('two')
    d.c.check(prompt_tokens(fifth) == [two], '/system without a text', fifth)
    shown = t.say('/help')
    d.c.check('/reset' in shown and '[prompt' not in shown, '/help', shown)
    shown = t.say('/nonsense')
    d.c.check('/nonsense: no such command; /help' in shown
              and '[prompt' not in shown, 'a slip', shown)
    t.say('/reset')
    shown = t.say('/usr/bin is a folder')
    d.c.check(prompt_tokens(shown) == [d.count('talk', '/usr/bin is a folder')],
              'a message that starts with a slash', shown)
    t.say('/reset')
    os.write(t.fd, b'one\\\n')
    asked = t.read_until(lambda s: s.endswith('. '))
    d.c.check(asked.endswith('\n. ') and '[prompt' not in asked,
              'a backslash asks for more', asked)
    shown = t.say('two')
    d.c.check(prompt_tokens(shown) == [d.count('talk', 'one\ntwo')],
              'a message of two lines', shown)
    shown = t.say('   ')
    d.c.check('[prompt' not in shown, 'an empty line', shown)
    t.bytes.decode()  # raises where it is not UTF-8
    d.c.check(t.end(b'\4') == 0, 'Ctrl-D leaves')
    t = d.terminal('talk', '-n', 4)
    os.write(t.fd, b'/exit\n')
    d.c.check(t.end(b'') == 0, '/exit leaves')


def check_pipes(d):
    flags = ('--chat', *FLAGS, '-n', 6)
    r = d.run('talk', *flags, stdin='one\ntwo\n')
    counts = prompt_tokens(r.stderr)
    d.c.check(r.returncode == 0 and len(counts) == 2 and '> ' not in r.stderr,
              'a conversation through a pipe', r.stderr)
    alone = d.ok('talk', *flags, '-p', 'one')
    d.c.check(r.stdout.startswith(alone), 'its first answer', (r.stdout, alone))
    joined = d.run('talk', *flags, stdin='one\\\ntwo')
    d.c.check(prompt_tokens(joined.stderr) == [d.count('talk', 'one\ntwo')],
              'lines joined', joined.stderr)
    last = d.run('talk', *flags, stdin='one\\\n')
    d.c.check(prompt_tokens(last.stderr) == [d.count('talk', 'one\n')],
              'a backslash at the end of a pipe', last.stderr)
    reset = d.run('talk', *flags, stdin='one\n/reset\none\r\n/exit\ntwo\n')
    d.c.check(prompt_tokens(reset.stderr) == [d.count('talk', 'one')] * 2,
              'commands in a pipe', reset.stderr)
    d.c.check(d.ok('talk', *flags) == '', 'nothing to say')
    child = subprocess.Popen([d.dsrun, 'long', '--chat', *FLAGS, '-n', '1900'],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
    child.stdin.write(b'go\n')
    child.stdin.flush()
    child.stdout.read(8)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    d.c.check(child.returncode == 0 and b'; stopped' in err,
              'SIGINT stops the answer of a pipe, whose end leaves',
              (child.returncode, out[-80:], err))


def check_ceiling(d):
    # The ceiling is 192; a turn with its answer takes some 70.
    t = d.terminal('short', '-n', 20)
    shown = [t.say('a' * 30) for _ in range(4)]
    text = ''.join(shown)
    notes = re.findall(r'note: (\d+) tokens and 20 for the answer exceed the '
                       r'sequence ceiling of 192: the oldest (\d+) turn\(s\) '
                       r'are left out, (\d+) tokens stay', text)
    d.c.check(len(prompt_tokens(text)) == 4 and notes
              and all(int(a) + 20 > 192 >= int(b) + 20 for a, _, b in notes)
              and prompt_tokens(shown[-1])[-1] <= 172,
              'a conversation that outgrows its ceiling', text)
    refused = t.say('b' * 200)
    d.c.check('exceed the sequence ceiling of 192' in refused
              and 'dsrun: short: ' in refused and '[prompt' not in refused
              and 'note:' not in refused,
              'a message that is too long alone', refused)
    again = t.say('c')
    d.c.check(prompt_tokens(again)[0] > d.count('short', 'c'),
              'the next one still has the turns before', again)
    d.c.check(t.end() == 0, 'the end of it')
    d.refused(4, 'sequence ceiling of 192', 'short', '--chat', '-p', 'b' * 200,
              '-n', 20)


def check_template_verb(d):
    hello = [{'role': 'user', 'content': 'Hi <|im_end|> {{ x }}'}]
    text = d.render('talk', hello)
    d.c.check(text == '<|im_start|>user\nHi <|im_end|> {{ x }}<|im_end|>\n'
              '<|im_start|>assistant\n', 'the rendered prompt', text)
    bare = d.render('talk', hello, '--no-generation-prompt')
    d.c.check(bare == text[:-len('<|im_start|>assistant\n')], 'without its end',
              bare)
    ids = [int(i) for i in d.render('talk', hello, '--print-ids').split(',')]
    d.c.check(ids.count(257) == 2 and ids.count(258) == 1 and 256 not in ids,
              'what a user types becomes no control token', ids)
    request = d.render('talk', {'messages': hello, 'tools': None})
    d.c.check(request == text, 'a request as messages', request)
    with open('file.jinja', 'w', encoding='utf-8') as f:
        f.write('{{ messages[0].role }}{{ bos_token is defined }}'
                '{{ answer }}{{ tools is none }}\n')
    shown = d.render('file.jinja', hello, '--template-args', '{"answer": 42}')
    d.c.check(shown == 'userFalse42True', 'a template without a plan', shown)
    shown = d.render('talk', hello, '--chat-template', 'file.jinja')
    d.c.check(shown == 'userTrueTrue', "a file in a plan's place", shown)
    d.refused(2, '--messages is required', 'template', 'talk')
    d.refused(3, 'nope.json', 'template', 'talk', '--messages', 'nope.json')
    d.refused(3, '--template-args', 'template', 'talk', '--messages',
              'messages.json', '--template-args', '[1]')
    d.refused(3, '"tools" comes from', 'template', 'talk', '--messages',
              'messages.json', '--template-args', '{"tools": []}')
    d.refused(3, 'has no template of that name; it has default', 'template',
              'talk', '--messages', 'messages.json', '--chat-template', 'nope')


def check_templates_of_checkpoints(d):
    hello = [{'role': 'user', 'content': 'Hi'}]
    named = [{'name': 'default', 'template': 'D{{ bos_token }}'},
             {'name': 'tool_use', 'template': 'T{{ tools | length }}'},
             {'name': 'rag', 'template': 'R{{ documents | length }}'}]
    d.compile('named', {'chat_template': named, 'bos_token': {
        'content': '<|endoftext|>', 'special': True}})
    d.c.check(d.render('named', hello) == 'D<|endoftext|>', 'default of a list')
    with open('tools.json', 'w', encoding='utf-8') as f:
        json.dump([{'type': 'function', 'function': {'name': 'f'}}] * 2, f)
    d.c.check(d.render('named', hello, '--tools', 'tools.json') == 'T2',
              'tool_use where there are tools')
    d.c.check(d.render('named', {'messages': hello, 'documents': [{}] * 3},
                       '--chat-template', 'rag') == 'R3', 'one by name')
    note = d.compile('files', {'chat_template': 'C'},
                     {'chat_template.jinja': 'J{{ bos_token is defined }}\n',
                      'additional_chat_templates/rag.jinja': 'A'})
    d.c.check('note' not in note, 'nothing to say of good templates', note)
    d.c.check(d.render('files', hello) == 'JFalse', 'chat_template.jinja wins')
    d.c.check(d.render('files', hello, '--chat-template', 'rag') == 'A',
              'additional_chat_templates')
    d.compile('null', {'chat_template': '{{ bos_token }}|{{ eos_token }}',
                       'bos_token': None, 'eos_token': '<|im_end|>'})
    d.c.check(d.render('null', hello) == '|<|im_end|>', 'bos_token null')
    d.compile('map', {'chat_template': '{{ bos_token }}|{{ pad_token }}'},
              {'special_tokens_map.json':
               '{"bos_token": "<|im_start|>", "pad_token": {"content": "x"}}'})
    d.c.check(d.render('map', hello) == '<|im_start|>|x', 'special_tokens_map')

    note = d.compile('only', {'chat_template': named[1:]})
    d.c.check('none of its 2 chat templates is named "default"' in note,
              'a list without a default', note)
    d.refused(4, 'holds no default chat template, its checkpoint had none; '
              'choose --chat-template rag, tool_use', 'only', '--chat', '-p',
              'x')
    d.compile('none', {})
    d.refused(4, 'holds no chat template', 'none', '--chat', '-p', 'x')
    d.c.check(d.ok('none', '--chat', '-p', 'x', '-n', 3, *FLAGS,
                   '--chat-template', 'file.jinja') != '', 'a file helps out')
    note = d.compile('broken', {'chat_template': 'a\n{% for m in %}b'})
    d.c.check('note: chat template: line 2: expected an expression' in note
              and 'dsrun will refuse to chat' in note, 'a broken template',
              note)
    d.refused(3, 'broken: chat template: line 2: expected an expression',
              'broken', '--chat', '-p', 'x')
    d.c.check(d.ok('broken', '-p', 'x', '-n', 3, *FLAGS) != '',
              'a plan whose template is broken still generates')
    note = d.compile('filter', {'chat_template': '\n\n{{ 1 | nope }}'})
    d.c.check('line 3: filter "nope" is not supported' in note,
              'an unknown filter', note)
    d.compile('turns', {'chat_template': '{% if messages | length > 1 %}'
                        "{{ raise_exception('One turn only!') }}{% endif %}"
                        '{{ messages[0].content }}'})
    t = d.terminal('turns', '-n', 4)
    t.say('one')
    shown = t.say('two')
    d.c.check('dsrun: turns: the chat template refuses: One turn only!' in shown,
              'a template that refuses', shown)
    t.say('/reset')
    shown = t.say('three')
    d.c.check(len(prompt_tokens(shown)) == 1, 'and starts anew', shown)
    d.c.check(t.end() == 0, 'and ends')
    r = d.run('turns', '--chat', *FLAGS, '-n', 4, stdin='one\ntwo\nthree\n')
    d.c.check(r.returncode == 4 and 'One turn only!' in r.stderr
              and len(prompt_tokens(r.stderr)) == 1, 'in a pipe it ends', r)


def main():
    dscompile, dsrun = (os.path.abspath(p) for p in sys.argv[1:])
    c = Checks()
    with Scratch() as tmp:
        os.chdir(tmp)
        r = run(sys.executable,
                os.path.join(TOP, 'tools', 'make_random_checkpoint.py'),
                'source')
        c.check(r.returncode == 0, 'make_random_checkpoint', r.stderr)
        d = Chat(dscompile, dsrun, c)
        config = {'chat_template': CHATML, 'eos_token': '<|im_end|>',
                  'bos_token': '<|endoftext|>'}
        d.compile('talk', config, flags=('--max-seq-len', 256))
        d.compile('short', config, flags=('--max-seq-len', 192))
        d.compile('long', config, flags=('--max-seq-len', 2048))
        for check in (check_template_verb, check_templates_of_checkpoints,
                      check_pipes, check_commands, check_ceiling,
                      check_streaming):
            check(d)
    c.finish()


main()
