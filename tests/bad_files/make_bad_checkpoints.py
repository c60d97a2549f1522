#!/usr/bin/env python3
"""Writes the bad safetensors files (ST) and shard indexes (IX), one folder a case.

    make_bad_checkpoints.py FOLDER [CASE...]

Every folder is a small Llama with one fault; cases named "legal" have none.
CASES maps a name to its writer and the flags that the command gets.
"""
import json
import pathlib
import struct
from typing import Callable, NamedTuple

import bad_cases

# 6 heads of 10 that share 2 keys, over width 12: no two sizes are alike.
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "hidden_size": 12, "intermediate_size": 20, "num_hidden_layers": 1,
    "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 10,
    "vocab_size": 131, "max_position_embeddings": 64, "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": True,
    "torch_dtype": "float16", "bos_token_id": 1, "eos_token_id": 2,
}
LAYER = "model.layers.0."
SHAPES = {
    "model.embed_tokens.weight": [131, 12],
    LAYER + "input_layernorm.weight": [12],
    LAYER + "self_attn.q_proj.weight": [60, 12],
    LAYER + "self_attn.k_proj.weight": [20, 12],
    LAYER + "self_attn.v_proj.weight": [20, 12],
    LAYER + "self_attn.o_proj.weight": [12, 60],
    LAYER + "post_attention_layernorm.weight": [12],
    LAYER + "mlp.gate_proj.weight": [20, 12],
    LAYER + "mlp.up_proj.weight": [20, 12],
    LAYER + "mlp.down_proj.weight": [12, 20],
    "model.norm.weight": [12],
}
NORM = "model.norm.weight"
# A tensor that a Llama may hold and that nothing reads.
UNREAD = LAYER + "self_attn.rotary_emb.inv_freq"
HEADER_LIMIT = 100_000_000
LFS_POINTER = (b"version https://git-lfs.github.com/spec/v1\n"
               b"oid sha256:" + b"0" * 64 + b"\nsize 17312\n")


def count(shape):
    n = 1
    for dim in shape:
        n *= dim
    return n


def values(name):
    """The tensor's elements as F16: small, and different in every tensor."""
    seed = sum(name.encode())
    n = count(SHAPES[name])
    return struct.pack(f"<{n}e",
                       *(((seed + 37 * i) % 101 - 50) / 64 for i in range(n)))


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def model_parts(names=tuple(SHAPES)):
    """Header and data of a sound file that holds these tensors."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name in names:
        blob = values(name)
        header[name] = entry("F16", SHAPES[name], len(data),
                             len(data) + len(blob))
        data += blob
    return header, data


def pack(header, data):
    """A file of `header` (an object, or JSON bytes as they are) and data."""
    if not isinstance(header, bytes):
        header = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(header)) + header + data


def model_file(names=tuple(SHAPES)):
    return pack(*model_parts(names))


class Case(NamedTuple):
    write: Callable[[pathlib.Path], None]
    flags: tuple = ()


CASES = {}


def case(name, flags=()):
    def register(write):
        assert name not in CASES, name
        CASES[name] = Case(write, flags)
        return write
    return register


def single(name, content):
    """A case whose model.safetensors is content(), bytes."""
    case(name)(lambda d: (d / "model.safetensors").write_bytes(content()))


# ---- safetensors -----------------------------------------------------------

def with_length(length):
    """A sound file but for its header length."""
    return lambda: struct.pack("<Q", length) + model_file()[8:]


def with_header(change):
    """The sound header's JSON text through `change`, the data kept."""
    def content():
        header, data = model_parts()
        text = json.dumps(header, separators=(",", ":")).encode()
        return pack(change(text), data)
    return content


def with_entry(name, **fields):
    """One entry's fields replaced (the value None removes the field)."""
    def content():
        header, data = model_parts()
        for key, value in fields.items():
            if value is None:
                del header[name][key]
            else:
                header[name][key] = value
        return pack(header, data)
    return content


def with_more(name, value, more_data=b""):
    """One more member in the header."""
    def content():
        header, data = model_parts()
        header[name] = value
        return pack(header, data + more_data)
    return content


def norm_offsets(change):
    """The norm's data_offsets (the last 24 bytes) through `change`."""
    def content():
        header, data = model_parts()
        header[NORM]["data_offsets"] = change(*header[NORM]["data_offsets"])
        return pack(header, data)
    return content


def end_of_data():
    return len(model_parts()[1])


single("ST-01-empty", lambda: b"")
single("ST-02-seven-bytes", lambda: b"\x10\0\0\0\0\0\0")
single("ST-03-header-length-0", with_length(0))
single("ST-03-header-length-1", with_length(1))
single("ST-04-header-length-wraps", with_length(2**64 - 1))
single("ST-04-header-length-plus-8-wraps", with_length(2**64 - 8))
single("ST-05-header-length-beyond-file", with_length(50_000))
single("ST-05-only-the-length", lambda: struct.pack("<Q", 2))
single("ST-06-header-length-over-limit", with_length(HEADER_LIMIT + 1))
single("ST-07-not-utf8", with_header(lambda t: t.replace(b"norm", b"n\xffrm")))
single("ST-07-utf8-overlong",
       with_header(lambda t: t.replace(b"norm", b"n\xc0\xafm")))
single("ST-07-utf8-surrogate",
       with_header(lambda t: t.replace(b"norm", b"n\xed\xa0\x80")))
single("ST-07-escaped-lone-surrogate",
       with_header(lambda t: t.replace(b"norm", b"\\ud800")))
single("ST-08-not-json", with_header(lambda t: b"{" + b"x" * (len(t) - 1)))
single("ST-08-json-cut", with_header(lambda t: t[:-40]))
single("ST-08-trailing-comma", with_header(lambda t: t[:-1] + b",}"))
single("ST-08-two-values", with_header(lambda t: t + b"{}"))
single("ST-08-deep", with_header(
    lambda t: b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"))
single("ST-08-entry-deep", with_header(
    lambda t: t[:-2] + b',"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}}"))
single("ST-09-starts-with-space", with_header(lambda t: b" " + t))
single("ST-09-starts-with-bom", with_header(lambda t: b"\xef\xbb\xbf" + t))
single("ST-10-nul-padded", with_header(lambda t: t + b"\0" * 5))
single("ST-10-legal-space-padded", with_header(lambda t: t + b" " * 5))
single("ST-11-array-at-top", lambda: pack(b"[]", b""))
single("ST-11-entry-is-array", with_more("x", []))
single("ST-11-entry-is-null", with_more("x", None))
single("ST-12-duplicate-names", with_header(
    lambda t: t[:-1] + b',"model.norm.weight":{"dtype":"F16","shape":[0],'
    b'"data_offsets":[%d,%d]}}' % (end_of_data(), end_of_data())))
single("ST-12-duplicate-name-escaped", with_header(
    lambda t: t[:-1] + b',"model.n\\u006frm.weight":{"dtype":"F16",'
    b'"shape":[0],"data_offsets":[0,0]}}'))
for field, text in {"dtype": b'"F16"', "shape": b"[12]",
                    "data_offsets": b"[0,24]"}.items():
    single(f"ST-13-duplicate-{field}", with_header(
        lambda t, f=field.encode(), v=text:
        t[:-2] + b',"' + f + b'":' + v + b"}}"))
    single(f"ST-13-no-{field}", with_entry(NORM, **{field: None}))
single("ST-14-overlap", norm_offsets(lambda b, e: [b - 2, e - 2]))
single("ST-14-alias", with_more("x", entry("F16", [12], 0, 24)))
single("ST-15-hole", lambda: pack({
    "a": entry("F16", [4], 0, 8), "b": entry("F16", [4], 16, 24)}, b"\1" * 24))
single("ST-15-hole-at-start", lambda: pack({
    "a": entry("F16", [4], 8, 16)}, b"\1" * 16))
single("ST-16-end-before-begin", norm_offsets(lambda b, e: [e, b]))
single("ST-17-size-unlike-shape", with_entry(NORM, shape=[11]))
single("ST-17-size-unlike-dtype", with_entry(NORM, dtype="F32"))
single("ST-18-product-overflows",
       with_entry(NORM, shape=[2**32, 2**32, 12]))
single("ST-18-product-wraps-to-size",
       with_entry(NORM, shape=[2**62 + 3, 4]))
single("ST-18-bytes-overflow", with_entry(NORM, shape=[2**63 - 1]))
single("ST-18-over-limit", with_entry(NORM, shape=[2**46]))
single("ST-18-nine-dims", with_entry(NORM, shape=[1] * 8 + [12]))
single("ST-19-dtype-unknown", with_entry(NORM, dtype="F17"))
single("ST-19-dtype-not-a-string", with_entry(NORM, dtype=16))
for dtype in ("F8_E4M3", "F8_E5M2", "F8_E8M0", "F4", "C64"):
    single(f"ST-19-dtype-{dtype.lower()}",
           with_more("x", entry(dtype, [0], 0, 0)))
single("ST-20-one-byte-short", lambda: model_file()[:-1])
single("ST-20-one-byte-long", lambda: model_file() + b"\0")
single("ST-20-no-data", lambda: model_file()[:-end_of_data()])
for label, bad in {
        "negative": [-1, 24], "float": [0.0, 24],
        "huge": [0, 2**63], "string": ["0", "24"], "null": [None, 24],
        "boolean": [False, 24], "one": [24], "three": [0, 12, 24],
        "object": {"begin": 0}}.items():
    single(f"ST-21-offsets-{label}", with_entry(NORM, data_offsets=bad))
for label, bad in {"negative": [-12], "float": [12.0], "string": "12",
                   "huge": [2**64], "nested": [[12]]}.items():
    single(f"ST-21-shape-{label}", with_entry(NORM, shape=bad))
single("ST-22-legal-zero-size",
       with_more(UNREAD, entry("F32", [0, 4], 0, 0)))
single("ST-22-legal-zero-size-at-end", lambda: with_more(
    UNREAD, entry("F32", [3, 0], end_of_data(), end_of_data()))())
single("ST-23-legal-scalar", lambda: with_more(
    UNREAD, entry("F32", [], end_of_data(), end_of_data() + 4), b"\0" * 4)())
for label, bad in {"number": {"step": 7}, "null-value": {"step": None},
                   "object-value": {"a": {"b": "c"}}, "null": None,
                   "array": ["pt"], "string": "pt"}.items():
    single(f"ST-24-metadata-{label}", with_more("__metadata__", bad))
single("ST-24-metadata-duplicate-key", with_header(
    lambda t: t.replace(b'"format":"pt"', b'"format":"pt","format":"tf"')))
single("ST-24-legal-metadata-empty", with_more("__metadata__", {}))


@case("ST-24-legal-metadata-absent")
def metadata_absent(d):
    header, data = model_parts()
    del header["__metadata__"]
    (d / "model.safetensors").write_bytes(pack(header, data))


@case("ST-25-1.29-million-tensors")
def too_many_tensors(d):
    """132 MB of header, of which only the length is ever read: a sparse file."""
    with open(d / "model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", 132_000_000) + b'{"0":')
        f.truncate(8 + 132_000_000 + 1_290_000 * 4)


single("ST-26-pytorch-zip", lambda: b"PK\x03\x04\0\0\x08\x08\0\0\0\0\0\0\0\0"
       b"archive/data.pkl" + b"\0" * 64)
single("ST-26-pickle", lambda: b"\x80\x02}q\0X\x04\0\0\0normq\1K\1s.")
single("ST-26-legacy-pickle",
       lambda: b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.")
single("ST-26-gguf", lambda: b"GGUF" + struct.pack("<IQQ", 3, 0, 0))
single("ST-26-html", lambda: b"<!DOCTYPE html><html>Not found</html>")


# ---- sharded index ---------------------------------------------------------

INDEX = "model.safetensors.index.json"
NAMES = tuple(SHAPES)
FIRST, SECOND = NAMES[:4], NAMES[4:]
TOTAL = 2 * sum(count(shape) for shape in SHAPES.values())


def shard(i, n):
    return f"model-{i:05d}-of-{n:05d}.safetensors"


SHARD1, SHARD2 = shard(1, 2), shard(2, 2)


def write_shards(d):
    (d / SHARD1).write_bytes(model_file(FIRST))
    (d / SHARD2).write_bytes(model_file(SECOND))


def sound_map():
    return {n: SHARD1 if n in FIRST else SHARD2 for n in NAMES}


def write_index(d, weight_map, total=TOTAL):
    (d / INDEX).write_text(json.dumps(
        {"metadata": {"total_size": total}, "weight_map": weight_map},
        indent=2))


def sharded(name, flags=()):
    """A case that starts as two sound shards with a sound index."""
    def register(change):
        def write(d):
            write_shards(d)
            write_index(d, sound_map())
            change(d)
        return case(name, flags)(write)
    return register


@sharded("IX-00-legal")
def legal_index(d):
    pass


@sharded("IX-01-shard-absent")
def shard_absent(d):
    (d / SHARD2).unlink()


@case("IX-01-no-shard-at-all")
def no_shard(d):
    write_index(d, sound_map())


@sharded("IX-02-legal-stray-shard")
def stray_shard(d):
    (d / "model-q8.safetensors").write_bytes(b"left over from another save")


@sharded("IX-02-legal-many-strays")
def many_strays(d):
    for i in range(5):
        (d / f"consolidated.{i:02d}.safetensors").write_bytes(b"")


@sharded("IX-03-tensor-in-wrong-shard")
def wrong_shard(d):
    write_index(d, {**sound_map(), NORM: SHARD1})


@sharded("IX-04-tensor-in-no-shard")
def in_no_shard(d):
    write_index(d, {**sound_map(), "model.extra.weight": SHARD1})


@sharded("IX-04-tensor-in-absent-shard")
def in_absent_shard(d):
    write_index(d, {**sound_map(), "model.extra.weight": "more.safetensors"})


@sharded("IX-05-tensor-not-in-index")
def not_in_index(d):
    weight_map = sound_map()
    del weight_map[NORM]
    write_index(d, weight_map)


def stale_index(d):
    """The index of a save in 22 shards; the 11 of another hold everything."""
    for i, name in enumerate(NAMES):
        (d / shard(i + 1, 11)).write_bytes(model_file([name]))
    write_index(d, {n: shard(2 * i + 1, 22) for i, n in enumerate(NAMES)})


case("IX-06-index-out-of-date")(stale_index)
case("IX-06-legal-index-ignored", ("--ignore-index",))(stale_index)


@sharded("IX-07-legal-total-size-wrong")
def total_size_wrong(d):
    write_index(d, sound_map(), total=TOTAL + 7)


@sharded("IX-07-legal-total-size-odd-kind")
def total_size_kind(d):
    write_index(d, sound_map(), total="12 MB")


def three_parts(d):
    (d / shard(1, 3)).write_bytes(model_file(FIRST))
    (d / shard(3, 3)).write_bytes(model_file(SECOND))
    write_index(d, {n: shard(1 if n in FIRST else 3, 3) for n in NAMES})


case("IX-08-family-incomplete")(three_parts)


@case("IX-08-family-part-unlisted")
def part_unlisted(d):
    three_parts(d)
    (d / shard(2, 3)).write_bytes(pack({}, b""))


for label, path in {"parent": "../" + SHARD2, "absolute": "/tmp/" + SHARD2,
                    "nested": "a/../../" + SHARD2, "empty": "",
                    "nul": SHARD2 + "\0.safetensors",
                    "other-kind": "pytorch_model.bin"}.items():
    @sharded(f"IX-09-path-{label}")
    def bad_path(d, path=path):
        write_index(d, {**sound_map(), NORM: path})


@sharded("IX-10-legal-bin-beside")
def bin_beside(d):
    (d / "pytorch_model.bin").write_bytes(b"PK\x03\x04")


@case("IX-10-bin-only")
def bin_only(d):
    (d / "pytorch_model.bin").write_bytes(b"PK\x03\x04")


@sharded("IX-11-legal-single-and-index")
def single_and_index(d):
    (d / "model.safetensors").write_bytes(model_file())


@case("IX-11-legal-index-of-single")
def index_of_single(d):
    (d / "model.safetensors").write_bytes(model_file())
    write_index(d, {n: "model.safetensors" for n in NAMES})


@sharded("IX-12-legal-double-equal")
def double_equal(d):
    (d / SHARD2).write_bytes(model_file(SECOND + FIRST[1:2]))
    write_index(d, sound_map(), total=TOTAL + 24)


@sharded("IX-12-double-different")
def double_different(d):
    header, data = model_parts(SECOND + FIRST[1:2])
    (d / SHARD2).write_bytes(pack(header, data[:-1] + b"\0"))


@sharded("IX-12-double-of-other-shape")
def double_shape(d):
    header, data = model_parts(SECOND + FIRST[1:2])
    header[FIRST[1]]["shape"] = [3, 4]
    (d / SHARD2).write_bytes(pack(header, data))


@sharded("IX-13-index-cut")
def index_cut(d):
    text = (d / INDEX).read_text()
    (d / INDEX).write_text(text[:len(text) // 2])


for label, text in {
        "empty": "", "not-json": "weights", "array": "[]", "no-map": "{}",
        "map-empty": '{"weight_map": {}}', "map-array": '{"weight_map": []}',
        "map-number": '{"weight_map": {"a": 1}}',
        "map-twice": '{"weight_map": {"a": "a.safetensors"}, '
                     '"weight_map": {"a": "b.safetensors"}}',
        "name-twice": '{"weight_map": {"a": "a.safetensors", '
                      '"a": "b.safetensors"}}'}.items():
    @sharded(f"IX-13-index-{label}")
    def bad_index(d, text=text):
        (d / INDEX).write_text(text)


@sharded("IX-13-index-not-utf8")
def index_not_utf8(d):
    (d / INDEX).write_bytes(b'{"weight_map": {"\xff": "a.safetensors"}}')


@sharded("IX-14-shard-is-lfs-pointer")
def lfs_shard(d):
    (d / SHARD2).write_bytes(LFS_POINTER)


@sharded("IX-14-index-is-lfs-pointer")
def lfs_index(d):
    (d / INDEX).write_bytes(LFS_POINTER)


single("IX-14-single-is-lfs-pointer", lambda: LFS_POINTER)


def write_case(folder, name):
    """Writes one case into folder/name and returns that path."""
    d = pathlib.Path(folder) / name
    d.mkdir(parents=True)
    (d / "config.json").write_text(json.dumps(CONFIG, indent=2))
    CASES[name].write(d)
    return d


if __name__ == "__main__":
    bad_cases.main(__doc__, CASES, write_case)
