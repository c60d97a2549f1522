"""Writes files as torch.save does, and ones that it never would: pickle opcodes
as bytes, the zip around them, and the older container. Standard library only.
"""
import struct
import zlib

FLOATS = {'float64': ('Double', 8, 'd'), 'float32': ('Float', 4, 'f'),
          'float16': ('Half', 2, 'e'), 'bfloat16': ('BFloat16', 2, None),
          'int64': ('Long', 8, 'q'), 'int32': ('Int', 4, 'i'),
          'int8': ('Char', 1, 'b'), 'uint8': ('Byte', 1, 'B'),
          'bool': ('Bool', 1, '?')}
MAGIC = b'\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19'


# ---- pickle opcodes --------------------------------------------------------

def text(value):
    raw = value if isinstance(value, bytes) else value.encode()
    return b'X' + struct.pack('<I', len(raw)) + raw


def number(value):
    if -2**31 <= value < 2**31:
        return b'J' + struct.pack('<i', value)
    raw = value.to_bytes(value.bit_length() // 8 + 1, 'little', signed=True)
    return b'\x8a' + bytes([len(raw)]) + raw


def name(module, attribute):
    return f'c{module}\n{attribute}\n'.encode()


def tuple_(*items):
    return b'(' + b''.join(items) + b't'


def numbers(values):
    return tuple_(*map(number, values))


def bytes_(value):
    return b'B' + struct.pack('<I', len(value)) + value


def value(v):
    """Opcodes of plain data; bytes are taken to be opcodes already."""
    if isinstance(v, bytes):
        return v
    if v is None:
        return b'N'
    if isinstance(v, bool):
        return b'\x88' if v else b'\x89'
    if isinstance(v, int):
        return number(v)
    if isinstance(v, float):
        return b'G' + struct.pack('>d', v)
    if isinstance(v, str):
        return text(v)
    if isinstance(v, tuple):
        return tuple_(*map(value, v))
    if isinstance(v, list):
        return b'](' + b''.join(map(value, v)) + b'e'
    return dict_(v)


def dict_(items):
    """`items`: a dict, or pairs that may repeat keys."""
    pairs = items.items() if isinstance(items, dict) else items
    return b'}(' + b''.join(value(k) + value(v) for k, v in pairs) + b'u'


def pickle(opcodes):
    return b'\x80\x02' + opcodes + b'.'


def namespace(attributes):
    """An argparse.Namespace."""
    return name('argparse', 'Namespace') + b')\x81' + dict_(attributes) + b'b'


def row_major(shape):
    strides, step = [], 1
    for dim in reversed(shape):
        strides.insert(0, step)
        step *= dim
    return strides


def storage(key, dtype, count, location='cpu', view=None, cls=None):
    cls = cls or ('torch', FLOATS[dtype][0] + 'Storage')
    parts = [text('storage'), name(*cls), text(key), text(location),
             number(count)]
    # The older container adds what the storage is a view of.
    if view is not None:
        parts.append(view if isinstance(view, bytes) else value(view))
    return tuple_(*parts) + b'Q'


def tensor(stored, shape, offset=0, strides=None, more=b'',
           maker=('torch._utils', '_rebuild_tensor_v2')):
    """A tensor of `stored`, opcodes of a storage."""
    strides = row_major(shape) if strides is None else strides
    return name(*maker) + tuple_(
        stored, number(offset), numbers(shape), numbers(strides), b'\x89',
        name('collections', 'OrderedDict') + b')R', *([more] if more else [])
    ) + b'R'


# ---- containers ------------------------------------------------------------

class Zip:
    """Entry by entry. Fields of an entry can be replaced in the directory
    (`central`) and in its own header (`local`) by keyword."""

    def __init__(self):
        self.body, self.directory, self.count = b'', b'', 0
        self.end = {}  # fields of the end record, replaced
        self.zip64 = None  # fields of the zip64 record, a dict to have one

    def add(self, name, data, central=None, local=None):
        raw = name if isinstance(name, bytes) else name.encode()
        fields = {'flags': 0x800, 'method': 0, 'crc': zlib.crc32(data),
                  'packed': len(data), 'plain': len(data),
                  'offset': len(self.body), 'name': raw, 'extra': b''}
        mine, theirs = {**fields, **(local or {})}, {**fields, **(central or {})}

        def common(f):
            return struct.pack('<HHHHIIIHH', f['flags'], f['method'], 0, 33,
                               f['crc'], f['packed'], f['plain'],
                               len(f['name']), len(f['extra']))
        # As torch.save: the bytes begin at a multiple of 64.
        pad = -(len(self.body) + 30 + len(mine['name']) + len(mine['extra'])
                + 4) % 64
        mine['extra'] += struct.pack('<HH', 0x4246, pad) + b'Z' * pad
        self.body += (b'PK\3\4' + struct.pack('<H', 20) + common(mine)
                      + mine['name'] + mine['extra'] + data)
        self.directory += (
            b'PK\1\2' + struct.pack('<HH', 20, 20) + common(theirs)
            + struct.pack('<HHHII', 0, 0, 0, 0, theirs['offset'])
            + theirs['name'] + theirs['extra'])
        self.count += 1
        return self

    def build(self):
        fields = {'entries': self.count, 'size': len(self.directory),
                  'offset': len(self.body), 'disk': 0}
        out = self.body + self.directory
        if self.zip64 is not None:
            large = {**fields, **self.zip64}
            out += b'PK\6\6' + struct.pack(
                '<QHHIIQQQQ', 44, 45, 45, 0, 0, large['entries'],
                large['entries'], large['size'], large['offset'])
            out += b'PK\6\7' + struct.pack(
                '<IQI', 0, large.get('place', len(self.body)
                                     + len(self.directory)), 1)
            fields.update(entries=0xffff, size=0xffffffff, offset=0xffffffff)
        fields.update(self.end)
        return out + b'PK\5\6' + struct.pack(
            '<HHHHIIH', fields['disk'], 0, fields['entries'],
            fields['entries'], fields['size'], fields['offset'], 0)


def torch_zip(opcodes, storages, root='archive', byteorder='little'):
    """The Zip of torch.save; `opcodes` of the object, `storages` {key: bytes}."""
    out = Zip().add(f'{root}/data.pkl', pickle(opcodes))
    out.add(f'{root}/byteorder', byteorder.encode())
    for key, data in storages.items():
        out.add(f'{root}/data/{key}', data)
    return out.add(f'{root}/version', b'3\n')


def torch_legacy(opcodes, storages, system=None, magic=MAGIC, protocol=1001,
                 keys=None):
    """The pickles in a row of PyTorch 0.1.1 to 1.5; `storages` {key: (size of
    an element, bytes)}."""
    system = system or {'protocol_version': 1001, 'little_endian': True,
                        'type_sizes': {'short': 2, 'int': 4, 'long': 4}}
    keys = list(storages) if keys is None else keys
    out = pickle(magic) + pickle(number(protocol)) + pickle(dict_(system))
    out += pickle(opcodes) + pickle(value(keys))
    for size, data in storages.values():
        out += struct.pack('<q', len(data) // size) + data
    return out
