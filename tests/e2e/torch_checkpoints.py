#!/usr/bin/env python3
"""Models in files of torch.save give the plans that their safetensors give, and
hostile ones run nothing.

    torch_checkpoints.py DSCOMPILE
"""
import json
import os
import re
import shutil
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, '..', 'support'),
                os.path.join(HERE, '..', 'bad_files')]
import torch_writer as t  # noqa: E402
from harness import CASES, Checks, Scratch, run  # noqa: E402
from plan_weights import weights  # noqa: E402
import make_bad_torch_files as bad  # noqa: E402

TYPES = {'F32': ('float32', 4), 'F16': ('float16', 2), 'BF16': ('bfloat16', 2),
         'I64': ('int64', 8), 'U8': ('uint8', 1), 'BOOL': ('bool', 1)}


def read(folder):
    """{name: (dtype, shape, bytes)} of model.safetensors."""
    with open(os.path.join(folder, 'model.safetensors'), 'rb') as f:
        head = json.loads(f.read(struct.unpack('<Q', f.read(8))[0]))
        data = f.read()
    head.pop('__metadata__', None)
    return {n: (e['dtype'], e['shape'], data[slice(*e['data_offsets'])])
            for n, e in head.items()}


class Pickled:
    """Tensors as opcodes beside the storages that they need."""

    def __init__(self, older=False):
        self.older, self.storages, self.tensors = older, {}, {}

    def add(self, name, dtype, shape, data, stored_shape=None, strides=None,
            offset=0):
        kind, size = TYPES[dtype]
        key = str(len(self.storages))
        self.storages[key] = (size, data) if self.older else data
        self.tensors[name] = t.tensor(
            t.storage(key, kind, len(data) // size,
                      view=b'N' if self.older else None),
            shape, offset, strides)

    def file(self, wrap=lambda o: o):
        opcodes = wrap(t.dict_(self.tensors))
        return (t.torch_legacy(opcodes, self.storages) if self.older
                else t.torch_zip(opcodes, self.storages).build())


def transposed(shape, data, size):
    """The bytes of a matrix column by column."""
    rows, cols = shape
    cell = [data[i:i + size] for i in range(0, len(data), size)]
    return b''.join(cell[r * cols + c] for c in range(cols)
                    for r in range(rows))


def plain(tensors, older=False):
    out = Pickled(older)
    for name, (dtype, shape, data) in tensors.items():
        out.add(name, dtype, shape, data)
    return out


def views(tensors):
    """Matrices transposed, vectors in the middle of a larger storage."""
    out = Pickled()
    for name, (dtype, shape, data) in tensors.items():
        size = TYPES[dtype][1]
        if len(shape) == 2:
            out.add(name, dtype, shape, transposed(shape, data, size),
                    strides=[1, shape[0]])
        else:
            out.add(name, dtype, shape, bytes(3 * size) + data + bytes(size),
                    offset=3)
    return out


def sharded(folder, tensors):
    names = sorted(tensors)
    index = {}
    for i in (1, 2):
        file = f'pytorch_model-{i:05}-of-00002.bin'
        part = {n: tensors[n] for n in names[i - 1::2]}
        index.update((n, file) for n in part)
        with open(os.path.join(folder, file), 'wb') as f:
            f.write(plain(part).file())
    with open(os.path.join(folder, 'pytorch_model.bin.index.json'), 'w') as f:
        json.dump({'metadata': {}, 'weight_map': index}, f)


def formats(tensors):
    """What makes a folder's weights, by name."""
    def whole(content, name='pytorch_model.bin'):
        def write(folder):
            with open(os.path.join(folder, name), 'wb') as f:
                f.write(content())
        return write
    return {
        'zip': whole(lambda: plain(tensors).file()),
        'legacy': whole(lambda: plain(tensors, older=True).file()),
        'views': whole(lambda: views(tensors).file()),
        'wrapped': whole(lambda: plain(
            {'module.' + n: v for n, v in tensors.items()}).file(
                lambda o: t.dict_({'epoch': 1, 'state_dict': o}))),
        'parameters': whole(lambda: parameters(tensors)),
        'sharded': lambda folder: sharded(folder, tensors),
    }


def parameters(tensors):
    p = plain(tensors)
    p.tensors = {n: t.name('torch._utils', '_rebuild_parameter')
                 + t.tuple_(o, b'\x88', b'}') + b'R'
                 for n, o in p.tensors.items()}
    return p.file()


def check_equal(c, dscompile, scratch, case, options):
    source = os.path.join(CASES, 'models', case)
    tensors = read(source)
    want = os.path.join(scratch, f'{case}-want')
    r = run(dscompile, source, *options, '-o', want, '--force')
    if not c.check(r.returncode == 0, f'{case} safetensors', r.stderr):
        return
    for name, write in formats(tensors).items():
        folder = os.path.join(scratch, f'{case}-{name}')
        shutil.copytree(source, folder,
                        ignore=shutil.ignore_patterns('*.safetensors'),
                        dirs_exist_ok=True)
        write(folder)
        plan = folder + '-plan'
        r = run(dscompile, folder, *options, '-o', plan, '--force')
        if c.check(r.returncode == 0, f'{case} {name} {options}', r.stderr):
            c.check(weights(plan) == weights(want) != b'',
                    f'{case} {name} {options}: weights', 'differ')


# Calls that a compiler makes that only reads and writes files.
PROCESS = re.compile(r'\b(execve|execveat|fork|vfork|connect|socket|bind)\(')


def check_nothing_runs(c, dscompile, scratch):
    strace = shutil.which('strace')
    for name in bad.CASES:
        if not re.match('PT-1[5689]', name):
            continue
        folder = bad.write_case(scratch, name)
        log = os.path.join(scratch, 'strace.log')
        trace = [strace, '-f', '-o', log, '-e', 'trace=process,network'] \
            if strace else []
        r = run(*trace, dscompile, folder, '-o', os.path.join(scratch, 'out'),
                cwd=folder)
        c.check(r.returncode == 3, name, f'rc {r.returncode}: {r.stderr}')
        c.check(not os.path.exists(os.path.join(folder, 'DS_PICKLE_RAN')),
                name, 'the pickle ran')
        if strace:
            with open(log, encoding='utf-8', errors='replace') as f:
                calls = PROCESS.findall(f.read())
            c.check(calls == ['execve'], name, f'calls: {calls}')
    print('under strace' if strace else 'no strace here: not traced')


def main():
    dscompile = os.path.abspath(sys.argv[1])
    c = Checks()
    with Scratch() as scratch:
        for case in ('gpt2', 'llama-gqa-tied'):
            for options in (['--dtype', 'fp32'], ['--dtype', 'bf16', '--tp',
                                                  '2']):
                check_equal(c, dscompile, scratch, case, options)
        check_nothing_runs(c, dscompile, scratch)
    c.finish()


main()
