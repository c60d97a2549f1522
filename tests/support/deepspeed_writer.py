"""Writes a step of DeepSpeed's training as DeepSpeed saves it: model_states with
the weights, or the partitions of ZeRO 1 to 3. Standard library only.

A model is a dict of Tensors by name for every model-parallel rank.
"""
import json
import os
import struct

import torch_writer as t


class Tensor:
    """Elements in row-major order, as bytes."""

    def __init__(self, shape, data, dtype='float32'):
        self.shape, self.data, self.dtype = list(shape), data, dtype

    @property
    def size(self):
        return t.FLOATS[self.dtype][1]

    @property
    def count(self):
        return len(self.data) // self.size

    def part(self, begin, end):
        """Elements [begin, end) as a vector; zeros beyond the last."""
        data = self.data[begin * self.size:end * self.size]
        data += bytes((end - begin) * self.size - len(data))
        return Tensor([end - begin], data, self.dtype)


class Shape(tuple):
    """A torch.Size."""


def cut(tensor, dim, widths, rank):
    """A rank's part of a tensor along dim 0 or 1. widths: for each block of it
    along that dim, those of all ranks."""
    rows = tensor.shape[0]
    step = tensor.count // rows * tensor.size
    unit = step if dim == 0 else tensor.size
    lines = ([tensor.data] if dim == 0 else
             [tensor.data[r * step:(r + 1) * step] for r in range(rows)])
    out, size = b'', 0
    for line in lines:
        begin, size = 0, 0
        for of_ranks in widths:
            at = begin + sum(of_ranks[:rank])
            out += line[at * unit:(at + of_ranks[rank]) * unit]
            begin += sum(of_ranks)
            size += of_ranks[rank]
    shape = list(tensor.shape)
    shape[dim] = size
    return Tensor(shape, out, tensor.dtype)


def join(tensors):
    data = b''.join(x.data for x in tensors)
    return Tensor([len(data) // tensors[0].size], data, tensors[0].dtype)


def of_floats(matrix_or_vector):
    rows = matrix_or_vector
    flat = [x for row in rows for x in row] if isinstance(rows[0], list) else rows
    shape = [len(rows)] + ([len(rows[0])] if isinstance(rows[0], list) else [])
    return Tensor(shape, struct.pack(f'<{len(flat)}f', *flat))


def of_safetensors(path):
    """The tensors of a file of safetensors, F32 and BF16."""
    with open(path, 'rb') as f:
        raw = f.read()
    size, = struct.unpack('<Q', raw[:8])
    head = json.loads(raw[8:8 + size])
    out = {}
    for name, x in head.items():
        if name == '__metadata__':
            continue
        begin, end = x['data_offsets']
        out[name] = Tensor(x['shape'], raw[8 + size + begin:8 + size + end],
                           {'F32': 'float32', 'BF16': 'bfloat16',
                            'F16': 'float16'}[x['dtype']])
    return out


def opcodes(v, storages):
    if isinstance(v, Tensor):
        key = str(len(storages))
        storages[key] = v.data
        return t.tensor(t.storage(key, v.dtype, v.count), v.shape)
    if isinstance(v, Shape):
        return t.name('torch', 'Size') + t.tuple_(t.numbers(v)) + b'R'
    if isinstance(v, dict):
        return t.dict_({k: opcodes(x, storages) for k, x in v.items()})
    if isinstance(v, list):
        return b'](' + b''.join(opcodes(x, storages) for x in v) + b'e'
    return t.value(v)


def save(path, root):
    storages = {}
    code = opcodes(root, storages)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'wb') as f:
        f.write(t.torch_zip(code, storages).build())


def nested(tensors):
    """{a: {b: x}} of {'a.b': x}, down to a list of layers, whose names stay."""
    tree = {}
    for name, v in tensors.items():
        parts = name.split('.')
        at = next((i for i, p in enumerate(parts)
                   if p in ('layers', 'final_layernorm')), len(parts) - 1)
        node = tree
        for p in parts[:at]:
            node = node.setdefault(p, {})
        node['.'.join(parts[at:])] = v
    return tree


def shares(tensors, frozen, groups):
    """The trained tensors by group of the optimizer: dealt in turn."""
    names = [n for n in tensors if n not in frozen]
    return [{n: tensors[n] for n in names[g::groups]} for g in range(groups)]


def shapes(tensors):
    return {n: Shape(x.shape) for n, x in tensors.items()}


def partition(tensors, dp, rank):
    """A rank's part of each tensor, as ZeRO 3 cuts it."""
    out = {}
    for n, x in tensors.items():
        share = -(-x.count // dp)
        out[n] = x.part(rank * share, (rank + 1) * share)
    return out


def write(folder, ranks, zero=0, dp=1, module=True, nest=False, client=None,
          frozen=(), shared=None, groups=1, buffers=None, prefix='',
          elastic=False, align=1, tag='global_step7', edit=None):
    """ranks: the Tensors of every model-parallel rank. zero: the stage.
    module: whether model_states of stages below 3 hold the weights. groups: of
    the optimizer. frozen: names of tensors that are not trained. shared: other
    names by name. prefix: of the optimizer's files. elastic: without padding.
    align: parameters of ZeRO 1 and 2 begin at multiples of it.
    edit(kind, mp, dp, root) changes the dict of a file, kind 'model' or 'optim';
    if it gives False, the file is left out."""
    step = os.path.join(folder, tag)
    shared, buffers = shared or {}, buffers or {}

    def put(name, kind, mp, rank, root):
        if edit is None or edit(kind, mp, rank, root) is not False:
            save(os.path.join(step, name), root)

    for mp, tensors in enumerate(ranks):
        trained = shares(tensors, frozen, groups)
        still = {n: x for n, x in tensors.items() if n in frozen}
        for rank in range(dp if zero == 3 else 1):
            held = dict(tensors)
            if zero == 3:
                held = {n: x.part(0, 0) for n, x in tensors.items()}
            for other, name in shared.items():
                held[other] = held[name]
            held.update(buffers)
            root = {
                'module': (nested(held) if nest else held)
                if module or zero == 3 else dict(buffers),
                'buffer_names': list(buffers), 'optimizer': None,
                'param_shapes': [shapes(g) for g in trained] if zero else None,
                'frozen_param_shapes': shapes(still) if still else None,
                'frozen_param_fragments':
                    (partition(still, dp, rank) if zero == 3 else still)
                    if still else None,
                'shared_params': dict(shared), 'lr_scheduler': None,
                'skipped_steps': 0, 'global_steps': 7, 'global_samples': 21,
                'dp_world_size': dp, 'mp_world_size': len(ranks),
                'ds_config': {}, 'ds_version': '0.19.8', **(client or {})}
            if isinstance(root.get('args'), dict):
                root['args'] = t.namespace(root['args'])
            name = f'mp_rank_{mp:02}_model_states.pt'
            if zero == 3:
                name = f'zero_pp_rank_{rank}_' + name
            put(name, 'model', mp, rank, root)
        for rank in range(dp if zero else 0):
            if zero == 3:
                flat = [join(list(partition(g, dp, rank).values()))
                        for g in trained]
                key = 'fp32_flat_groups'
            else:
                flat, key = [], 'single_partition_of_fp32_groups'
                for g in trained:
                    whole = join([x.part(0, -(-x.count // align) * align)
                                  for x in g.values()])
                    end = -(-whole.count // (2 * dp)) * 2 * dp
                    begin, size = rank * end // dp, end // dp
                    stop = begin + size
                    if elastic:
                        begin, stop = (min(x, whole.count)
                                       for x in (begin, stop))
                    flat.append(whole.part(begin, stop))
            root = {'optimizer_state_dict': {
                'zero_stage': zero, 'loss_scaler': None,
                'partition_count': dp if zero == 3 else [dp] * groups,
                key: flat, **({'param_alignment_paddings': [
                    [-x.count % align for x in g.values()]
                    for g in trained]} if align > 1 else {})}, 'ds_config': {}, 'ds_version': '0.19.8'}
            put(f'{prefix}zero_pp_rank_{rank}_mp_rank_{mp:02}_optim_states.pt',
                'optim', mp, rank, root)
    with open(os.path.join(folder, 'latest'), 'w') as f:
        f.write(tag)
    return step
