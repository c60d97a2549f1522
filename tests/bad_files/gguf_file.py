"""GGUF files part by part, sound or not: what make_bad_ggufs.py builds with.

Standard library only. Values of metadata are (type, bytes) pairs, so that a
case may write what no writer would.
"""
import struct

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
PACK = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f",
        BOOL: "B", U64: "Q", I64: "q", F64: "d"}

# Types of tensors: number, elements and bytes of a block.
BLOCKS = {"F32": (0, 1, 4), "F16": (1, 1, 2), "Q4_0": (2, 32, 18),
          "Q4_1": (3, 32, 20), "Q5_0": (6, 32, 22), "Q5_1": (7, 32, 24),
          "Q8_0": (8, 32, 34), "Q2_K": (10, 256, 84), "Q3_K": (11, 256, 110),
          "Q4_K": (12, 256, 144), "Q5_K": (13, 256, 176),
          "Q6_K": (14, 256, 210), "Q8_K": (15, 256, 292),
          "IQ4_NL": (20, 32, 18), "IQ4_XS": (23, 256, 136), "I8": (24, 1, 1),
          "F64": (28, 1, 8), "BF16": (30, 1, 2), "TQ1_0": (34, 256, 54),
          "TQ2_0": (35, 256, 66), "MXFP4": (39, 32, 17),
          "NVFP4": (40, 64, 36)}


def text(value):
    """A string as the format has it: length, bytes."""
    raw = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(raw)) + raw


def number(kind, value):
    return kind, struct.pack("<" + PACK[kind], value)


def u32(value):
    return number(U32, value)


def f32(value):
    return number(F32, value)


def string(value):
    return STRING, text(value)


def array(kind, values, count=None):
    """`count`: the length that is written, when it is not the true one."""
    body = b"".join(text(v) if kind == STRING
                    else struct.pack("<" + PACK[kind], v) for v in values)
    length = len(values) if count is None else count
    return ARRAY, struct.pack("<IQ", kind, length) + body


class Tensor:
    """`dims` innermost first, as stored. `offset` None: the next place."""

    def __init__(self, name, dims, kind="F16", data=None, offset=None):
        self.name, self.dims, self.offset = name, list(dims), offset
        self.kind = BLOCKS[kind][0] if isinstance(kind, str) else kind
        if data is None:
            n = 1
            for dim in dims:
                n *= dim
            _, elements, size = BLOCKS[kind]
            data = bytes(n // elements * size)
        self.data = data


class GgufFile:
    """keys: {name: (type, bytes)} or a list of pairs; tensors: a list."""

    def __init__(self, keys, tensors, alignment=32):
        self.keys, self.tensors = dict(keys), list(tensors)
        self.more_keys = []  # (name, (type, bytes)) that may repeat others
        self.alignment, self.version, self.magic = alignment, 3, b"GGUF"
        self.num_tensors = self.num_keys = None

    def tensor(self, name):
        return next(t for t in self.tensors if t.name == name)

    def padded(self, raw):
        return raw + bytes(-len(raw) % self.alignment)

    def build(self):
        pairs = [*self.keys.items(), *self.more_keys]
        infos, data = b"", b""
        for t in self.tensors:
            data = self.padded(data)
            infos += text(t.name) + struct.pack("<I", len(t.dims))
            infos += b"".join(struct.pack("<Q", d % 2**64) for d in t.dims)
            at = len(data) if t.offset is None else t.offset
            infos += struct.pack("<IQ", t.kind, at)
            data += t.data
        head = self.magic + struct.pack(
            "<IQQ", self.version,
            len(self.tensors) if self.num_tensors is None else self.num_tensors,
            len(pairs) if self.num_keys is None else self.num_keys)
        for name, (kind, raw) in pairs:
            head += text(name) + struct.pack("<I", kind) + raw
        return self.padded(head + infos) + data
