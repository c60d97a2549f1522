#!/usr/bin/env python3
"""The interface is what its header says.

    interface.py DEEPSLICE.H LIBDEEPSLICE.SO CC [ARGS...]

The library shows the header's functions and no other symbol; the header
compiles alone, as C11 and as C++; the Python module has the same functions,
with structs of the same layout.
"""
import ctypes
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from harness import TOP, Checks, Scratch  # noqa: E402

STRUCTS = {
    'LoadParams': 'ds_load_params', 'ModelInfo': 'ds_model_info',
    'TokenizerInfo': 'ds_tokenizer_info', 'LogitBias': 'ds_logit_bias',
    'GenerateParams': 'ds_generate_params', 'Request': 'ds_request',
    'TokenLogprob': 'ds_token_logprob', 'Logprobs': 'ds_logprobs',
    'Event': 'ds_event', 'AnswerView': 'ds_answer', 'Message': 'ds_message',
    'ChatParams': 'ds_chat_params', 'Feed': 'ds_feed', 'Ids': 'ds_ids',
    'Text': 'ds_text'}


def layout_of(library):
    """-> lines "struct field offset size", as the Python module sees them."""
    lines = []
    for name, c_name in sorted(STRUCTS.items()):
        kind = getattr(library, name)
        lines.append(f'{c_name} {ctypes.sizeof(kind)}')
        for field, _ in kind._fields_:
            place = getattr(kind, field)
            lines.append(f'{c_name} {field} {place.offset} {place.size}')
    return lines


def layout_program(library):
    body = []
    for name, c_name in sorted(STRUCTS.items()):
        body.append(f'printf("{c_name} %zu\\n", sizeof({c_name}));')
        for field, _ in getattr(library, name)._fields_:
            body.append(f'printf("{c_name} {field} %zu %zu\\n", offsetof('
                        f'{c_name}, {field}), sizeof((({c_name}*)0)->{field}'
                        '));')
    return ('#include <stdio.h>\n#include "deepslice.h"\nint main(void) {\n'
            + '\n'.join(body) + '\nreturn 0;\n}\n')


def main():
    header, so = (os.path.abspath(p) for p in sys.argv[1:3])
    cc = [a for a in sys.argv[3:] if 'ccache' not in a] or ['cc']
    c = Checks()
    with open(header, encoding='utf-8') as f:
        text = re.sub(r'/\*.*?\*/', '', f.read(), flags=re.S)
    functions = set(re.findall(r'DS_API [^;(]*?\b(ds_\w+)\(', text))
    c.check(len(functions) == 30, 'functions of the header', sorted(functions))

    shown = subprocess.run(['nm', '-D', '--defined-only', so],
                           capture_output=True, text=True, check=True).stdout
    symbols = {line.split()[-1].split('@')[0] for line in shown.splitlines()}
    c.check(symbols - {'DEEPSLICE_1'} == functions, 'what the library shows',
            sorted(symbols ^ functions))
    c.check(all('@@DEEPSLICE_1' in line or line.endswith(' DEEPSLICE_1')
                for line in shown.splitlines()), 'symbols have a version',
            shown)
    dynamic = subprocess.run(['readelf', '-d', so], capture_output=True,
                             text=True, check=True).stdout
    c.check('[libdeepslice.so.1]' in dynamic, 'soname', dynamic)
    c.check('TEXTREL' not in dynamic, 'no text relocations', dynamic)

    os.environ['DEEPSLICE_LIBRARY'] = so
    sys.path.insert(0, os.path.join(TOP, 'runtime', 'api', 'python'))
    sys.dont_write_bytecode = True
    from deepslice import _library
    c.check(set(_library.FUNCTIONS) == functions, 'functions of the module',
            sorted(set(_library.FUNCTIONS) ^ functions))
    version = int(re.search(r'#define DS_API_VERSION (\d+)', text)[1])
    c.check(_library.lib.ds_api_version() == version, 'interface version')

    with Scratch() as tmp:
        def compiles(name, source, *flags):
            path = os.path.join(tmp, name)
            with open(path, 'w', encoding='utf-8') as f:
                f.write(source)
            r = subprocess.run([*cc, *flags, '-Wall', '-Wextra', '-Werror',
                                '-pedantic', '-I', os.path.dirname(header),
                                path, '-o', os.path.join(tmp, 'out')],
                               capture_output=True, text=True, check=False)
            return c.check(r.returncode == 0, f'{name} compiles', r.stderr)
        alone = '#include "deepslice.h"\n#include "deepslice.h"\n'
        compiles('alone.c', alone + 'typedef int t;\n', '-std=c11', '-c')
        compiles('alone.cc', alone, '-x', 'c++', '-std=c++11', '-c')
        if compiles('layout.c', layout_program(_library), '-std=c11'):
            got = subprocess.run([os.path.join(tmp, 'out')], check=True,
                                 capture_output=True, text=True).stdout
            want = layout_of(_library)
            for line in sorted(set(got.splitlines()) ^ set(want)):
                c.check(False, 'layout', line)
            c.check(len(want) > 100, 'fields compared', len(want))
        # A struct has no field that the module lacks: sizes would differ, but
        # for one that fits into padding.
        for name, c_name in STRUCTS.items():
            fields = re.search(r'typedef struct %s \{(.*?)\} %s;' %
                               (c_name, c_name), text, re.S)[1]
            fields = re.sub(r'\(\*(\w+)\)\([^)]*\)', r'\1', fields)
            names = re.findall(r'(\w+)\s*[,;]', fields)
            have = [f for f, _ in getattr(_library, name)._fields_]
            c.check(names == have, f'fields of {c_name}', (names, have))
    c.finish()


main()
