"""Random templates: expressions, filters, scopes and white space control.

make(seed) -> (template, context), the same in every run. Templates hold what
chat templates use and what surrounds it; many fail, which must agree as well.
What older sandboxes let through although it changes the context (list.pop) is
left out.
"""
import random

NAMES = ['s', 'n', 'f', 'b', 'none_', 'xs', 'ms', 'd', 'nested', 'missing',
         'empty', 'uni', 'mixed', 'messages']

CONTEXT = {
    's': ' Hello, "World" it\'s <b>&  ', 'n': 7, 'f': 2.5, 'b': True,
    'none_': None, 'xs': [3, 1, 2, 1], 'empty': '',
    'ms': [{'role': 'user', 'content': 'Hi', 'n': 1, 'tags': ['a', 'b']},
           {'role': 'assistant', 'content': 'yo\nlo', 'n': 3},
           {'role': 'User', 'content': '', 'n': 2, 'tags': []}],
    'd': {'b': 1, 'a': 'two', 'items': [1], 'C': None, 'get': 5},
    'nested': {'x': {'y': [10, {'z': 'deep'}], 'type': ['string', 'null']}},
    'uni': 'ÄÖß ﬁn Σας İi ǆ ①²½ 漢字 e\u0301\u00a0x\u2003',
    'mixed': [1, 'a', None, True, 2.0, [1], {'k': 'v'}],
    'messages': [{'role': 'system', 'content': 'sys'},
                 {'role': 'user', 'content': [{'type': 'text', 'text': 't'}]}],
}

STRINGS = ["''", "'a'", "'b c'", "'\\n'", "' x '", '"it\'s"', "'%s'", "'{}'",
           "'a,b,,c'", "'ÄßΣ'", "'<x>'", "'12'", "'-3.5'", "'0x1f'",
           "'aXbXc'", "'role'", "'\\u00e9\\t'", "'Title case-word (x)'",
           "'1_000'", "'l\\'x'"]
NUMBERS = ['0', '1', '2', '-1', '3', '10', '100', '1.5', '0.1', '2.0', '1e3',
           '1e-7', '1_0', '0x1f', '0b11', '0o17', '12345678901', '5.', '00']
TESTS = ['defined', 'undefined', 'none', 'string', 'mapping', 'iterable',
         'sequence', 'number', 'integer', 'float', 'boolean', 'true', 'false',
         'odd', 'even', 'lower', 'upper', 'callable', 'escaped', 'filter',
         'test']
TESTS_1 = ['divisibleby', 'sameas', 'eq', 'equalto', '==', 'ne', 'lt', 'gt',
           'ge', 'le', 'in', 'lessthan', 'greaterthan']
PLAIN_FILTERS = [
    'trim', 'length', 'count', 'upper', 'lower', 'title', 'capitalize',
    'string', 'list', 'first', 'last', 'int', 'float', 'abs', 'round', 'tojson',
    'default', 'd', 'join', 'items', 'reverse', 'sort', 'unique', 'min', 'max',
    'sum', 'dictsort', 'indent', 'safe', 'escape', 'e', 'forceescape',
    'wordcount', 'center']
METHODS = [
    'strip()', 'lstrip()', 'rstrip()', 'upper()', 'lower()', 'title()',
    'capitalize()', 'split()', 'rsplit()', 'splitlines()', 'items()', 'keys()',
    'values()', 'copy()', 'isdigit()', 'isalpha()', 'isalnum()', 'isspace()',
    'isupper()', 'islower()', 'istitle()', 'isnumeric()', 'isdecimal()',
    'isascii()', 'swapcase()', 'casefold()', 'append(1)', 'update()']


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def pick(self, *options):
        return self.r.choice(options)

    def chance(self, p):
        return self.r.random() < p

    def name(self):
        return self.r.choice(NAMES + ['x', 'y', 'loop', 'ns', 'm'])

    def string(self):
        return self.r.choice(STRINGS)

    def number(self):
        return self.r.choice(NUMBERS)

    def small(self):
        return str(self.r.randint(-4, 5))

    def atom(self):
        return self.pick(self.name, self.name, self.name, self.string,
                         self.number, lambda: self.pick(
                             'true', 'false', 'none', 'True', 'None'))()

    def expr(self, depth=3):
        if depth <= 0:
            return self.atom()
        kinds = [self.atom, self.binary, self.compare, self.filtered,
                 self.filtered, self.filtered, self.member, self.member,
                 self.method, self.method, self.slice, self.ternary,
                 self.logic, self.test, self.container, self.unary,
                 self.global_call, self.percent]
        return self.r.choice(kinds)(depth) if depth else self.atom()

    def __getattribute__(self, name):
        # atom takes no depth, all other kinds do.
        value = object.__getattribute__(self, name)
        if name == 'atom':
            return lambda depth=0: value()
        return value

    def sub(self, depth):
        text = self.expr(depth - 1)
        return f'({text})' if self.chance(0.4) else text

    def binary(self, depth):
        op = self.pick('+', '-', '*', '/', '//', '%', '~', '+', '~')
        if op == '*':  # not too large
            times = self.pick('2', '0', 'n', '-1', '1.5')
            return f'{self.sub(depth)} * {times}'
        return f'{self.sub(depth)} {op} {self.sub(depth)}'

    def unary(self, depth):
        return self.pick('-', '+', 'not ') + self.sub(depth)

    def compare(self, depth):
        op = self.pick('==', '!=', '<', '<=', '>', '>=', 'in', 'not in')
        text = f'{self.sub(depth)} {op} {self.sub(depth)}'
        if self.chance(0.1):
            text += f' {self.pick("<", "==")} {self.sub(depth)}'
        return text

    def logic(self, depth):
        return f'{self.sub(depth)} {self.pick("and", "or")} {self.sub(depth)}'

    def ternary(self, depth):
        text = f'{self.sub(depth)} if {self.sub(depth)}'
        return text + (f' else {self.sub(depth)}' if self.chance(0.8) else '')

    def test(self, depth):
        no = self.pick('', '', 'not ')
        if self.chance(0.5):
            return f'{self.sub(depth)} is {no}{self.r.choice(TESTS)}'
        name = self.pick('divisibleby', 'sameas', 'eq', 'equalto', 'ne', 'lt',
                         'gt', 'in')
        arg = self.expr(depth - 2)
        return f'{self.sub(depth)} is {no}{name}({arg})'

    def container(self, depth):
        items = [self.expr(depth - 1) for _ in range(self.r.randint(0, 3))]
        kind = self.r.randint(0, 3)
        if kind == 0:
            return '[' + ', '.join(items) + ']'
        if kind == 1:
            return '(' + ', '.join(items) + (',)' if items else ')')
        keys = [self.pick("'a'", "'b'", "'k'", 's') for _ in items]
        return '{' + ', '.join(f'{k}: {v}' for k, v in zip(keys, items)) + '}'

    def member(self, depth):
        target = self.pick('d', 'nested', 'ms', 'nested.x', 'xs', 'mixed', 's',
                           'messages', 'loop', self.name())
        if self.chance(0.2):
            target = f'({self.expr(depth - 1)})'
        tail = self.pick(
            '.a', '.b', '.items', '.x', '.x.y', '.x.y[1].z', '[0]', '[-1]',
            '[9]', "['a']", "['nope']", '.nope', '.nope.deeper', '[0].role',
            '[0].content', "[0]['content']", '.0', '[n]', '[s]', '.get',
            "['get']", '.index', '.last', '.first', '.length', '.nextitem',
            '.previtem', '.index0', '.role', '.content', '[none]',
            '[1.0]', "['items']", '.keys')
        return target + tail

    def slice(self, depth):
        # Not of an expression: jinja2's optimizer makes undefined of a constant
        # that Python refuses to slice.
        target = self.pick('xs', 's', 'uni', 'ms', self.name())
        part = [self.small() if self.chance(0.6) else '' for _ in range(3)]
        text = f'{part[0]}:{part[1]}'
        if self.chance(0.4):
            text += f':{part[2]}'
        return f'{target}[{text}]'

    def method(self, depth):
        target = self.pick('s', 'd', 'uni', 'xs', self.string(), self.name())
        if self.chance(0.2):
            target = f'({self.expr(depth - 1)})'
        s, t, i, j = self.string(), self.string(), self.small(), self.small()
        tail = self.pick(
            *METHODS, f'split({s})', f'split({s}, {i})', f'rsplit({s}, {i})',
            f'split(sep={s}, maxsplit={i})', f'split(none, {i})',
            f'replace({s}, {t})', f'replace({s}, {t}, {i})',
            f'startswith({s})', f'endswith({s})', f'startswith(({s}, {t}))',
            f'startswith({s}, {i})', f'endswith({s}, {i}, {j})',
            f'strip({s})', f'lstrip({s})', f'rstrip({s})',
            f'find({s})', f'rfind({s})', f'find({s}, {i})', f'count({s})',
            f'count({s}, {i}, {j})', f'index({s})', f'join({self.name()})',
            "join(['x', 'y'])", f'format({s}, {t})', f'format(a={s})',
            f'removeprefix({s})', f'removesuffix({s})', f'center({i}0)',
            f'ljust({i}0, {s})', f'rjust(9)', f'zfill(6)', f'partition({s})',
            f'rpartition({s})', "get('a')", "get('nope')", f"get('nope', {s})",
            f'get({self.name()})', f'index({i})', f'count({i})', 'nope()',
            'splitlines(true)', f'title({s})')
        return f'{target}.{tail}'

    def filtered(self, depth):
        target = self.sub(depth)
        s, t, i = self.string(), self.string(), self.small()
        e = self.expr(depth - 2)
        attribute = self.pick("'role'", "'content'", "'n'", "'tags'",
                              "'tags.0'", "'nope'", '0')
        tail = self.pick(
            *self.r.sample(PLAIN_FILTERS, 12), f'trim({s})',
            f'default({e})', f'default({e}, true)', f'd({s}, boolean={e})',
            f'join({s})', f'join({s}, attribute={attribute})',
            f"map(attribute={attribute})", f"map(attribute={attribute}, "
            f"default={s}) | list",
            f'map({self.r.choice(PLAIN_FILTERS)!r}) | list',
            f"map('replace', {s}, {t}) | join", f'select | list',
            f'select({self.r.choice(TESTS)!r}) | list',
            f'reject({self.r.choice(TESTS)!r}) | list',
            f'select({self.r.choice(TESTS_1)!r}, {e}) | list',
            f'selectattr({attribute}) | list',
            f'selectattr({attribute}, {self.r.choice(TESTS)!r}) | list',
            f'selectattr({attribute}, {self.r.choice(TESTS_1)!r}, {s}) | list',
            f'rejectattr({attribute}, "eq", {s}) | map(attribute="n") | list',
            f'replace({s}, {t})', f'replace({s}, {t}, {i})', f'indent({i})',
            f'indent({s}, true)', f'indent(2, first=true, blank=true)',
            f'tojson(indent={i})', 'tojson(ensure_ascii=true)',
            "tojson(separators=(',', ':'))", 'tojson(true, 2)',
            'tojson(indent=2, sort_keys=true)', f'int({i})', f'int({s}, 16)',
            f'int(base={self.pick("2", "8", "0")})', f'float({i})',
            f'round({self.r.randint(0, 4)})', "round(1, 'floor')",
            "round(method='ceil')", f'sort(reverse={e})',
            f'sort(attribute={attribute})', 'sort(case_sensitive=true)',
            "sort(attribute='role,n')", 'dictsort(true)',
            "dictsort(by='value')", 'dictsort(reverse=true)', 'dictsort|list',
            f'first({s})', f'batch({self.r.randint(1, 3)}) | list',
            'slice(2) | list', f'batch(2, {s}) | list',
            f'slice(3, {i}) | list',
            f'sum(attribute={attribute})', f'sum(start={i})',
            f'unique(attribute={attribute}) | list', 'unique(true) | list',
            f'min(attribute={attribute})', 'max(case_sensitive=true)',
            f'groupby({attribute}) | list', f'truncate({self.r.randint(3, 9)})',
            "truncate(5, true, '')", 'truncate(4, leeway=0)', f'center(9)',
            f'format({s}, {i})', f'format(a={i})', "attr('a')", 'list | last',
            'list | length', 'reverse | list', 'items | list', 'unique | list',
            'string | length', 'length(1)', 'trim(x=1)', 'nope')
        return f'{target} | {tail}'

    def percent(self, depth):
        spec = '%' + self.pick('', '', '-', '0', '+', ' ', '#') + self.pick(
            '', '', '5', '08', '.2', '6.3', '.0', '*') + self.pick(
                's', 'd', 'r', 'x', 'X', 'o', 'e', 'f', 'g', 'i', 'c', 'a', 'G',
                '%', 's', 'd')
        if self.chance(0.5):
            return f"'<{spec}>' % {self.sub(depth)}"
        if self.chance(0.3):
            return f"'{spec}|%s' % ({self.expr(depth - 2)}, {self.string()})"
        braces = self.pick('{}', '{0}', '{0.a}', '{0[0]}', '{!r}', '{:>6}',
                           '{:<5}|', '{:^7}', '{:05}', '{:.2f}', '{:,}', '{:x}',
                           '{:#x}', '{:e}', '{:*^9}', '{:+d}', '{:.3}', '{:g}',
                           '{:%}', '{{}}', '{} {}', '{1}', '{a}', '{:{w}}',
                           '{:_}', '{:b}', '{:s}', '{', '}', '{:08.3f}',
                           '{!s:4}')
        return f"'{braces}'.format({self.expr(depth - 2)}, a=1, w=4)"

    def global_call(self, depth):
        e = self.expr(depth - 2)
        return self.pick(
            'range(3)', 'range(1, 6, 2)', f'range({self.small()})',
            f'range({e})|list', 'range(3)|list', f'dict(a={e})', 'dict(d, z=1)',
            f"dict([('a', {e})])", "strftime_now('%d %B %Y, %H:%M')",
            "strftime_now('%Y-%m-%d %j %a %A %b %y %% %I %p')", 'nope()',
            f"raise_exception({self.string()})" if self.chance(0.2) else 'n',
            f'namespace(a={e}).a', 'm(1)', 'm()', f'm({e}, y={self.small()})',
            'm(*xs)', 'm(**d)', 'm(x=2)', 'joiner()()', 'ns.x', 'ns.nope',
            'loop.cycle(1, 2)', f'loop.changed({e})', 'loop.revindex',
            'loop.revindex0', 'loop.depth')

    # ---- statements ----

    def minus(self):
        return self.pick('', '', '', '-', '+')

    def open(self):
        return '{%' + self.minus() + ' '

    def close(self):
        return ' ' + self.minus() + '%}'

    def space(self):
        return self.r.choice(['', '', '', ' ', '\n', '\n  ', '  ', '\t', '\n\n',
                              ' \n', '\u00a0', '\r\n'])

    def text(self):
        return self.space() + self.pick('a', 'b.', '{', '}', '%', '<|x|>', '#',
                                        'é', "'", '{ {', '') + self.space()

    def output(self):
        left = '{{' + self.pick('', '', '-', '+' if self.chance(0.3) else '')
        right = self.pick('', '', '-') + '}}'
        return f'{left} {self.expr()} {right}'

    def block(self, head, body, end):
        return (f'{self.open()}{head}{self.close()}{body}'
                f'{self.open()}{end}{self.close()}')

    def body(self, depth):
        return ''.join(self.statement(depth - 1)
                       for _ in range(self.r.randint(1, 3)))

    def statement(self, depth):
        roll = self.r.random()
        if depth <= 0 or roll < 0.4:
            return self.space() + self.output() + self.text()
        if roll < 0.45:
            return self.text()
        if roll < 0.5:
            return ('{#' + self.minus() + ' c ' + self.minus() + '#}'
                    + self.space())
        if roll < 0.6:
            target = self.pick('x', 'y', 'x', 'ns.x', 'x, y', 's')
            if self.chance(0.2):
                filters = self.pick('', ' | upper', ' | trim')
                return self.block(f'set x{filters}', self.body(depth),
                                  'endset')
            return f'{self.open()}set {target} = {self.expr()}{self.close()}'
        if roll < 0.75:
            middle = ''
            if self.chance(0.3):
                middle += f'{self.open()}elif {self.expr()}{self.close()}'
                middle += self.body(depth)
            if self.chance(0.5):
                middle += f'{self.open()}else{self.close()}{self.body(depth)}'
            return self.block(f'if {self.expr()}', self.body(depth) + middle,
                              'endif')
        if roll < 0.92:
            return self.loop(depth)
        if roll < 0.95:
            return self.block(f'with x = {self.expr()}, y = x',
                              self.body(depth), 'endwith')
        if roll < 0.96:
            name = self.pick('upper', 'trim', 'indent(2)')
            return self.block(f'filter {name}', self.body(depth), 'endfilter')
        if roll < 0.97:
            return self.block('generation', self.body(depth), 'endgeneration')
        if roll < 0.98:
            return self.block('raw', '{{ x }} {% if %}' + self.text(), 'endraw')
        if roll < 0.99:
            return self.block('call(v) m2(1)', self.body(depth), 'endcall')
        return self.block('macro m(x, y=3)', self.body(depth), 'endmacro')

    def loop(self, depth):
        targets = self.pick('x', 'x', 'x', 'm', 'x, y', '(x, y)')
        over = self.pick('xs', 'ms', 'messages', 'd.items()', 'd|items', 'd',
                         's',
                         'range(4)', 'ms | selectattr("n")', 'd | dictsort',
                         'xs[::-1]', 'empty', 'missing', self.expr(2))
        test = f' if {self.expr(2)}' if self.chance(0.3) else ''
        body = self.body(depth)
        if self.chance(0.2):
            word = self.pick('break', 'continue')
            body += (f'{self.open()}if {self.expr(2)}{self.close()}'
                     f'{self.open()}{word}{self.close()}'
                     f'{self.open()}endif{self.close()}{self.text()}')
        if self.chance(0.3):
            body += self.pick('{{ loop.index }}', '{{ loop.last }}',
                              '{{ loop.length }}', '{{ loop.nextitem }}',
                              '{% set ns.x = loop.index %}')
        if self.chance(0.2):
            body += f'{self.open()}else{self.close()}{self.body(depth)}'
        return self.block(f'for {targets} in {over}{test}', body, 'endfor')

    def template(self):
        head = '{% set ns = namespace(x=0, y="q") %}'
        if self.chance(0.5):
            head += ('{% macro m(x, y=2) %}' + self.pick(
                '<{{ x }}:{{ y }}>', '{{ varargs }}{{ kwargs }}',
                '{{ x | default("none") }}') + '{% endmacro %}')
            head += '{% macro m2(a) %}[{{ caller(a) }}]{% endmacro %}'
        return head + ''.join(self.statement(3)
                              for _ in range(self.r.randint(1, 3)))


def make(seed):
    maker = Maker(seed)
    # A single expression says most; a whole template now and then.
    if seed % 3 != 0:
        return '{{ ' + maker.expr(maker.r.randint(1, 3)) + ' }}', CONTEXT
    return maker.template(), CONTEXT
