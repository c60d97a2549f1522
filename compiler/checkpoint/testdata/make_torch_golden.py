#!/usr/bin/env python3
"""Writes torch/: small files of torch.save, and torch/torch.golden, what they
hold. Needs PyTorch (2.15 wrote those in the tree).

    make_torch_golden.py

A line of the golden: FILE NAME DTYPE SHAPE VALUES, where SHAPE is 2x3 or
"scalar" and VALUES are numbers, or the word "unreadable".
"""
import argparse
import collections
import pathlib

import torch

OUT = pathlib.Path(__file__).resolve().parent / 'torch'


def ramp(*shape, dtype=torch.float32):
    n = 1
    for d in shape:
        n *= d
    return (torch.arange(n, dtype=torch.float32) * 0.5 - 1).reshape(
        shape).to(dtype)


def plain():
    types = [torch.float64, torch.float32, torch.float16, torch.bfloat16,
             torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
             torch.bool]
    out = {str(t)[6:]: ramp(2, 3, dtype=t) for t in types}
    out['scalar'] = torch.tensor(2.5)
    out['empty'] = torch.zeros(0, 4)
    return out


def views():
    base = ramp(4, 6)
    return {'base': base, 'same': base, 'transposed': base.t(),
            'rows': base[1:3], 'columns': base[:, 2:5], 'every': base[::2, ::3],
            'half': base.half().t(), 'expanded': ramp(1, 3).expand(2, 3),
            'cube': ramp(2, 3, 4).permute(2, 0, 1), 'vector': base[:, 1],
            'line': base.reshape(-1)[3::4], 'ones': base[:, 1:2]}


class Unknown:
    """Pickled by its name and its attributes."""

    def __init__(self):
        self.rank = 3


def training():
    args = argparse.Namespace(num_layers=2, params_dtype=torch.bfloat16,
                              eps=1e-5, name='gpt', swiglu=True, none=None)
    model = collections.OrderedDict(w=ramp(2, 2), b=ramp(2))
    model['n'] = collections.OrderedDict(w=ramp(3))
    return {'args': args, 'iteration': 7, 'big': 2**80, 'object': Unknown(),
            'set': {1}, 'bytes': b'\x80\x02ab', 'size': torch.Size([2, 3]),
            'model': model, 'groups': [ramp(2), (ramp(1),)]}


def parameters():
    p = torch.nn.Parameter(ramp(2, 2))
    with_state = torch.nn.Parameter(ramp(2, 3))
    with_state.tag = 'tensor parallel'
    tied = torch.nn.Module()
    tied.a, tied.b = p, p
    return {'p': p, 'with_state': with_state, **tied.state_dict()}


def unread():
    return {'float8': torch.ones(3).to(torch.float8_e4m3fn),
            'uint16': torch.arange(3).to(torch.uint16),
            'quantised': torch.quantize_per_tensor(
                torch.ones(2, 3), 0.1, 0, torch.qint8),
            'sparse': torch.eye(3).to_sparse(),
            'compressed': torch.eye(2).to_sparse_csr(),
            'meta': torch.empty(2, 3, device='meta'),
            'complex': torch.ones(2, dtype=torch.complex64),
            'negated': torch._neg_view(torch.ones(2)), 'good': ramp(2)}


def lines(file, value, name=''):
    if isinstance(value, dict):
        for k, v in value.items():
            yield from lines(file, v, f'{name}.{k}' if name else str(k))
    elif isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        for i, v in enumerate(value):
            yield from lines(file, v, f'{name}.{i}')
    elif isinstance(value, torch.Tensor):
        shape = 'x'.join(map(str, value.shape)) or 'scalar'
        kind = str(value.dtype)[6:]
        good = (value.layout == torch.strided and not value.is_quantized
                and not value.is_complex() and not value.is_meta
                and not value.is_neg() and 'float8' not in kind)
        body = ([repr(float(x)) for x in value.contiguous().view(-1)]
                if good else ['unreadable'])
        yield ' '.join([file, name, kind, shape, *body])


def main():
    OUT.mkdir(exist_ok=True)
    golden = []
    objects = {'plain': plain(), 'views': views(), 'training': training(),
               'parameters': parameters()}
    for name, value in objects.items():
        for file, options in {
                f'{name}.pt': {},
                f'{name}_legacy.pt': {
                    '_use_new_zipfile_serialization': False}}.items():
            torch.save(value, OUT / file, **options)
            golden += lines(file, value)
    torch.save(unread(), OUT / 'unread.pt')
    golden += lines('unread.pt', unread())
    torch.save(views(), OUT / 'views_protocol4.pt', pickle_protocol=4)
    golden += lines('views_protocol4.pt', views())
    torch.save(training(), OUT / 'training_protocol3.pt', pickle_protocol=3)
    golden += lines('training_protocol3.pt', training())
    torch.serialization.set_crc32_options(False)
    torch.save({'w': ramp(2)}, OUT / 'no_checksums.pt')
    torch.serialization.set_crc32_options(True)
    golden += lines('no_checksums.pt', {'w': ramp(2)})
    (OUT / 'torch.golden').write_text('\n'.join(golden) + '\n')


if __name__ == '__main__':
    main()
