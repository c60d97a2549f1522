#!/usr/bin/env python3
"""Writes the bad GGUF files (GG), one folder a case.

    make_bad_ggufs.py FOLDER [CASE...]

Every file is a small Llama with one fault; cases named "legal" have none. CASES
maps a name to its writer, and to the file that the command gets.
"""
import pathlib
import struct
import sys
from typing import Callable, NamedTuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import bad_cases  # noqa: E402
from gguf_file import (  # noqa: E402
    ARRAY, BLOCKS, BOOL, F32, I32, PACK, STRING, U8, U16, U32, U64, GgufFile,
    Tensor, array, f32, number, string, u32)

# 6 heads of 10 that share 2 keys, over width 12: no two sizes are alike.
WIDTH, INNER, HEADS, KEYS, HEAD, VOCAB = 12, 20, 6, 2, 10, 263
FILE = "model.gguf"
LFS_POINTER = (b"version https://git-lfs.github.com/spec/v1\n"
               b"oid sha256:" + b"0" * 64 + b"\nsize 17312\n")


def values(name, n):
    """n elements as F16: small, and different in every tensor."""
    seed = sum(name.encode())
    return struct.pack(f"<{n}e",
                       *(((seed + 37 * i) % 101 - 50) / 64 for i in range(n)))


def tensor(name, *dims):
    n = 1
    for dim in dims:
        n *= dim
    return Tensor(name, dims, "F16", values(name, n))


def layer_tensors(i, width=WIDTH):
    b = f"blk.{i}."
    return [tensor(b + "attn_norm.weight", width),
            tensor(b + "attn_q.weight", width, HEADS * HEAD),
            tensor(b + "attn_k.weight", width, KEYS * HEAD),
            tensor(b + "attn_v.weight", width, KEYS * HEAD),
            tensor(b + "attn_output.weight", HEADS * HEAD, width),
            tensor(b + "ffn_norm.weight", width),
            tensor(b + "ffn_gate.weight", width, INNER),
            tensor(b + "ffn_up.weight", width, INNER),
            tensor(b + "ffn_down.weight", INNER, width)]


def model_tensors(width=WIDTH, layers=1):
    return [tensor("token_embd.weight", width, VOCAB),
            tensor("output_norm.weight", width)] + [
        t for i in range(layers) for t in layer_tensors(i, width)]


def byte_tokens():
    """Byte-level BPE's spelling of the 256 bytes, in the order of GPT-2."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [chr(b) for b in shown] + [chr(256 + i) for i in range(68)]


TOKENS = byte_tokens() + ["ab", "abc"] + [f"<|{i}|>" for i in range(258, VOCAB)]
TYPES = [1] * 258 + [3] * (VOCAB - 258)


def model_keys(width=WIDTH):
    return {
        "general.architecture": string("llama"),
        "general.quantization_version": u32(2),
        "llama.block_count": u32(1),
        "llama.context_length": u32(64),
        "llama.embedding_length": u32(width),
        "llama.feed_forward_length": u32(INNER),
        "llama.attention.head_count": u32(HEADS),
        "llama.attention.head_count_kv": u32(KEYS),
        "llama.attention.key_length": u32(HEAD),
        "llama.attention.value_length": u32(HEAD),
        "llama.attention.layer_norm_rms_epsilon": f32(1e-5),
        "llama.rope.dimension_count": u32(HEAD),
        "llama.rope.freq_base": f32(10000),
        "tokenizer.ggml.model": string("gpt2"),
        "tokenizer.ggml.pre": string("gpt-2"),
        "tokenizer.ggml.tokens": array(STRING, TOKENS),
        "tokenizer.ggml.token_type": array(I32, TYPES),
        "tokenizer.ggml.merges": array(STRING, ["a b", "ab c"]),
        "tokenizer.ggml.bos_token_id": u32(261),
        "tokenizer.ggml.eos_token_id": u32(262),
        "tokenizer.chat_template": string("{{ messages[0]['content'] }}"),
    }


def model():
    """The sound model."""
    return GgufFile(model_keys(), model_tensors())


class Case(NamedTuple):
    write: Callable[[pathlib.Path], None]
    file: str


CASES = {}


def case(name, file=FILE):
    def register(write):
        assert name not in CASES, name
        CASES[name] = Case(write, file)
        return write
    return register


def raw(name, content):
    """A case whose file is content(), bytes."""
    case(name)(lambda d: (d / FILE).write_bytes(content()))


def changed(name, change):
    """A case whose file is the sound model after `change`."""
    def content():
        m = model()
        change(m)
        return m.build()
    raw(name, content)


def key(name, full, value):
    """One key replaced (None: absent)."""
    def change(m):
        if value is None:
            del m.keys[full]
        else:
            m.keys[full] = value
    changed(name, change)


def attribute(name, **fields):
    """Attributes of the file replaced."""
    changed(name, lambda m: [setattr(m, k, v) for k, v in fields.items()])


def norm(case_name, **fields):
    """Attributes of the last norm's row replaced."""
    changed(case_name, lambda m: [setattr(m.tensor("output_norm.weight"), k, v)
                             for k, v in fields.items()])


def sound():
    return model().build()


# ---- the container ---------------------------------------------------------

raw("GG-00-legal", sound)
attribute("GG-00-legal-version-2", version=2)
raw("GG-01-empty", lambda: b"")
raw("GG-01-three-bytes", lambda: b"GGU")
raw("GG-01-magic-alone", lambda: b"GGUF")
raw("GG-01-header-cut", lambda: sound()[:20])
attribute("GG-01-magic-wrong", magic=b"GGUX")
for old in ("lmgg", "fmgg", "tjgg", "algg"):
    attribute(f"GG-01-magic-{old}", magic=old.encode())
raw("GG-01-zip", lambda: b"PK\x03\x04" + bytes(100))
raw("GG-01-lfs-pointer", lambda: LFS_POINTER)
for version in (0, 1, 4, 2**32 - 1):
    attribute(f"GG-02-version-{version}", version=version)
raw("GG-02-big-endian", lambda: b"GGUF" + struct.pack(">IQQ", 3, 11, 20)
    + bytes(1000))
for count in (2**63, 2**64 - 1, 1_000_001):
    attribute(f"GG-03-tensors-{count}", num_tensors=count)
    attribute(f"GG-03-keys-{count}", num_keys=count)
attribute("GG-03-one-key-less", num_keys=20)
attribute("GG-03-one-key-more", num_keys=22)
attribute("GG-03-one-tensor-less", num_tensors=10)
attribute("GG-03-one-tensor-more", num_tensors=12)
for label, name in {"empty": b"", "long": b"k" * 65_536,
                    "duplicate": b"general.architecture",
                    "not-utf8": b"key\xff"}.items():
    changed(f"GG-04-key-{label}",
            lambda m, n=name: m.more_keys.append((n, u32(1))))
for label, name in {"empty": "", "long": "t" * 4097,
                    "duplicate": "token_embd.weight",
                    "not-utf8": b"norm\xc0\xaf"}.items():
    norm(f"GG-04-tensor-{label}", name=name)
for length in (10**6, 2**24 + 1, 2**63, 2**64 - 1):
    key(f"GG-05-string-{length}", "general.name",
        (STRING, struct.pack("<Q", length)))
key("GG-05-string-in-array", "general.tags",
    (ARRAY, struct.pack("<IQQ", STRING, 1, 2**63)))
raw("GG-05-key-beyond-end", lambda: b"GGUF" + struct.pack(
    "<IQQQ", 3, 1, 1, 2**63) + bytes(100))
key("GG-06-array-of-arrays", "general.tags",
    (ARRAY, struct.pack("<IQ", ARRAY, 1) + array(U32, [1])[1]))
for length in (10**6, 2**26 + 1, 2**61, 2**64 - 1):
    key(f"GG-06-array-{length}", "general.tags", array(U32, [], length))
key("GG-06-strings-2^61", "general.tags", array(STRING, [], 2**61))
key("GG-06-bytes-2^61", "general.tags", (
    ARRAY, struct.pack("<IQ", U8, 2**61)))
for kind in (13, 255, 2**32 - 1):
    key(f"GG-06-element-type-{kind}", "general.tags",
        (ARRAY, struct.pack("<IQ", kind, 1) + bytes(8)))
    key(f"GG-07-value-type-{kind}", "general.name", (kind, bytes(8)))
key("GG-08-bool-2", "tokenizer.ggml.add_bos_token", (BOOL, b"\2"))
key("GG-08-bool-in-array", "general.tags",
    (ARRAY, struct.pack("<IQ", BOOL, 2) + b"\1\x80"))
for value in (0, 3, 4, 48, 2**17, 2**31):
    key(f"GG-09-alignment-{value}", "general.alignment", u32(value))
key("GG-09-alignment-text", "general.alignment", string("32"))


@case("GG-09-legal-alignment-64")
def alignment_64(d):
    m = GgufFile(model_keys(), model_tensors(), alignment=64)
    m.keys["general.alignment"] = u32(64)
    (d / FILE).write_bytes(m.build())


# A mebibyte of the costliest of each kind, in a file that holds no tensors: what
# is read before that is noticed may not take much memory.
MIB = 1 << 20
for label, kind, count in (("u8", U8, MIB), ("u16", U16, MIB // 2),
                           ("u32", U32, MIB // 4), ("texts", STRING, MIB // 8)):
    def large(kind=kind, count=count):
        size = 8 if kind == STRING else struct.calcsize(PACK[kind])
        return GgufFile({**model_keys(), "general.tags": (
            ARRAY, struct.pack("<IQ", kind, count) + bytes(size * count))},
                        []).build()
    raw(f"GG-06-mebibyte-of-{label}", large)
raw("GG-04-mebibyte-of-keys", lambda: GgufFile(
    {f"{i:x}": (U8, b"\1") for i in range(MIB // 18)}, []).build())
raw("GG-10-mebibyte-of-tensors", lambda: GgufFile(
    {}, [Tensor(f"{i:x}", [1], "F32", b"", 0)
         for i in range(MIB // 38)]).build())

# ---- the table of tensors --------------------------------------------------

norm("GG-10-no-dims", dims=[])
norm("GG-10-five-dims", dims=[12, 1, 1, 1, 1])
norm("GG-11-dim-0", dims=[12, 0])
norm("GG-11-dim-negative", dims=[-12])
norm("GG-11-product-overflows", dims=[2**32, 2**32])
norm("GG-11-product-wraps-to-12", dims=[2**62 + 3, 4])
norm("GG-11-tensor-too-large", dims=[2**46])
for kind in (4, 5, 31, 36, 9, 16, 18, 29, 41, 42, 99, 2**32 - 1):
    norm(f"GG-12-type-{kind}", kind=kind)
norm("GG-12-type-integer", kind=24)
norm("GG-13-row-in-Q8_0", kind=8)
changed("GG-13-row-96-in-Q4_K", lambda m: m.tensors.append(
    Tensor("blk.0.attn_q_norm.weight", [96, 4], 12, bytes(144 * 2))))
norm("GG-14-unaligned", offset=8)
norm("GG-14-overlapping", offset=0)
norm("GG-14-beyond-end", offset=2**20)
norm("GG-14-wraps", offset=2**64 - 32)
raw("GG-15-cut-by-1", lambda: sound()[:-1])
raw("GG-15-cut-before-the-data", lambda: sound()[:len(sound()) // 2])
raw("GG-15-legal-longer", lambda: sound() + bytes(100))

# ---- the model's keys ------------------------------------------------------

ARCH = "general.architecture"
key("GG-16-architecture-absent", ARCH, None)
key("GG-16-architecture-number", ARCH, u32(7))
key("GG-16-architecture-empty", ARCH, string(""))
key("GG-16-architecture-unknown", ARCH, string("llama\n99"))
key("GG-16-architecture-not-read", ARCH, string("deepseek2"))
key("GG-16-adapter", "general.type", string("adapter"))
for value in (0, 513, 4097, 2**31):
    key(f"GG-17-blocks-{value}", "llama.block_count", u32(value))
key("GG-17-blocks-absent", "llama.block_count", None)
key("GG-17-blocks-text", "llama.block_count", string("1"))
changed("GG-17-more-layers-than-blocks",
        lambda m: m.tensors.extend(layer_tensors(1)))
COUNT = "llama.attention.head_count"
for label, counts in {"empty": [], "long": [6, 6], "zero": [0]}.items():
    key(f"GG-18-heads-{label}", COUNT, array(U32, counts))
key("GG-18-heads-texts", COUNT, array(STRING, ["6"]))


@case("GG-18-layers-differ")
def layers_differ(d):
    m = GgufFile(model_keys(), model_tensors(layers=2))
    m.keys["llama.block_count"] = u32(2)
    m.keys[COUNT] = array(U32, [6, 4])
    (d / FILE).write_bytes(m.build())


@case("GG-18-legal-layers-alike")
def layers_alike(d):
    m = GgufFile(model_keys(), model_tensors(layers=2))
    m.keys["llama.block_count"] = u32(2)
    m.keys[COUNT] = array(U32, [6, 6])
    m.keys["llama.feed_forward_length"] = array(U32, [INNER, INNER])
    (d / FILE).write_bytes(m.build())


key("GG-19-heads-0", COUNT, u32(0))
key("GG-19-heads-negative", COUNT, number(I32, -6))
key("GG-19-heads-float", COUNT, f32(6))
for value in (0, 4, 12, 2**31):
    key(f"GG-19-keys-{value}", COUNT + "_kv", u32(value))
ROPE = "llama.rope.dimension_count"
for value in (0, 5, 6, 12, 2**31):
    key(f"GG-20-rotated-{value}", ROPE, u32(value))
key("GG-20-value-width", "llama.attention.value_length", u32(12))
key("GG-20-frequency-nan", "llama.rope.freq_base", f32(float("nan")))
key("GG-20-frequency-0", "llama.rope.freq_base", f32(0))
key("GG-20-epsilon-negative", "llama.attention.layer_norm_rms_epsilon",
    f32(-1e-5))
key("GG-20-epsilon-absent", "llama.attention.layer_norm_rms_epsilon", None)
key("GG-20-scaling-unknown", "llama.rope.scaling.type", string("longrope"))
key("GG-20-not-causal", "llama.attention.causal", (BOOL, b"\0"))
key("GG-20-logits-scaled", "llama.logit_scale", f32(0.5))
key("GG-20-experts", "llama.expert_count", u32(8))
changed("GG-20-rope-factors-of-other-width", lambda m: m.tensors.append(
    Tensor("rope_freqs.weight", [4], "F32", struct.pack("<4f", 1, 1, 1, 1))))
changed("GG-20-rope-factor-0", lambda m: m.tensors.append(
    Tensor("rope_freqs.weight", [5], "F32",
           struct.pack("<5f", 1, 1, 0, 1, 1))))

# ---- the tokenizer ---------------------------------------------------------

G = "tokenizer.ggml."
for n in (0, VOCAB - 1, VOCAB + 1):
    key(f"GG-21-types-{n}", G + "token_type", array(I32, [1] * n))
    key(f"GG-21-scores-{n}", G + "scores", array(F32, [0.5] * n))
key("GG-21-more-tokens-than-rows", G + "tokens",
    array(STRING, TOKENS + ["<|more|>"]))
key("GG-21-type-7", G + "token_type", array(I32, [7] * VOCAB))
key("GG-21-tokens-numbers", G + "tokens", array(U32, range(VOCAB)))
key("GG-21-tokens-text", G + "tokens", string("abc"))
key("GG-22-token-not-utf8", G + "tokens", array(
    STRING, [*TOKENS[:256], b"\xff\xfe", *TOKENS[257:]]))


def llama_vocabulary(name, byte_name):
    """A sentencepiece vocabulary whose byte 7 has another name."""
    def change(m):
        tokens = ["<unk>", "<s>", "</s>"] + [
            f"<0x{b:02X}>" for b in range(256)] + ["a", "b", "ab", "\u2581"]
        tokens[3 + 7] = byte_name
        m.keys[G + "model"] = string("llama")
        del m.keys[G + "pre"], m.keys[G + "merges"]
        m.keys[G + "tokens"] = array(STRING, tokens)
        m.keys[G + "scores"] = array(F32, [-float(i) for i in range(VOCAB)])
        m.keys[G + "token_type"] = array(
            I32, [2, 3, 3] + [6] * 256 + [1] * 4)
        m.keys[G + "bos_token_id"] = u32(1)
        m.keys[G + "eos_token_id"] = u32(2)
    changed(name, change)


llama_vocabulary("GG-22-byte-minus-1", "<0x-1>")
llama_vocabulary("GG-22-byte-GG", "<0xGG>")
llama_vocabulary("GG-22-byte-empty", "<0x>")
llama_vocabulary("GG-22-byte-twice", "<0x08>")
for label, field in {"bos": "bos", "eos": "eos", "eot": "eot",
                     "pad": "padding"}.items():
    key(f"GG-23-{label}-beyond", f"{G}{field}_token_id", u32(VOCAB))
key("GG-23-bos-2^32-1", G + "bos_token_id", u32(2**32 - 1))
key("GG-23-bos-2^63", G + "bos_token_id", number(U64, 2**63))
key("GG-23-bos-text", G + "bos_token_id", string("1"))
for label, merges in {"no-space": ["ab"], "three-parts": ["a b c"],
                      "unknown-part": ["a \u4e2d"], "unknown-result": ["b a"],
                      "empty-part": ["a "]}.items():
    key(f"GG-24-merges-{label}", G + "merges", array(STRING, merges))
key("GG-24-merges-numbers", G + "merges", array(U32, [1]))
key("GG-24-merges-absent", G + "merges", None)
key("GG-25-pre-unknown", G + "pre", string("no-such-pre"))
key("GG-25-pre-default", G + "pre", string("default"))
key("GG-25-pre-number", G + "pre", u32(1))
key("GG-25-model-unknown", G + "model", string("no-such-model"))
key("GG-25-model-absent", G + "model", None)

# ---- split files -----------------------------------------------------------


def part_name(i, n):
    return f"model-{i:05d}-of-{n:05d}.gguf"


def parts():
    """The sound model in three parts, {1: GgufFile, ...}."""
    tensors = model_tensors()
    cuts = [tensors[:4], tensors[4:8], tensors[8:]]
    out = {}
    for i, some in enumerate(cuts):
        out[i + 1] = GgufFile(model_keys() if i == 0 else {}, some)
        out[i + 1].keys["split.no"] = number(U16, i)
        out[i + 1].keys["split.count"] = number(U16, 3)
        out[i + 1].keys["split.tensors.count"] = number(I32, len(tensors))
    return out


def split(name, change=lambda d, p: None, given=1):
    """A case of three parts after `change`, and the file that is given."""
    def write(d):
        three = parts()
        change(d, three)
        for i, m in three.items():
            (d / part_name(i, 3)).write_bytes(m.build())
    case(name, part_name(given, 3))(write)


def swap_names(d, p):
    p[2], p[3] = p[3], p[2]


for first in (1, 2, 3):
    split(f"GG-26-legal-given-{first}", given=first)
split("GG-26-second-missing", lambda d, p: p.pop(2))
split("GG-26-first-missing", lambda d, p: p.pop(1), given=2)
split("GG-26-all-others-missing", lambda d, p: (p.pop(1), p.pop(2)), given=3)
split("GG-26-order", swap_names)
split("GG-26-count-4", lambda d, p: p[2].keys.update(
    {"split.count": number(U16, 4)}))
split("GG-26-count-0", lambda d, p: p[1].keys.update(
    {"split.count": number(U16, 0)}))
split("GG-26-count-text", lambda d, p: p[1].keys.update(
    {"split.count": string("3")}))
split("GG-26-no-absent", lambda d, p: p[3].keys.pop("split.no"))
split("GG-26-tensors-wrong", lambda d, p: [m.keys.update(
    {"split.tensors.count": number(I32, 12)}) for m in p.values()])
split("GG-26-tensors-negative", lambda d, p: [m.keys.update(
    {"split.tensors.count": number(I32, -1)}) for m in p.values()])
split("GG-26-tensor-twice", lambda d, p: p[3].tensors.append(
    tensor("token_embd.weight", WIDTH, VOCAB)))
split("GG-26-other-architecture", lambda d, p: p[2].keys.update(
    {ARCH: string("qwen2")}))
split("GG-26-first-is-another-part", lambda d, p: p.update({1: parts()[2]}))


@case("GG-26-part-renamed")
def part_renamed(d):
    (d / FILE).write_bytes(parts()[2].build())


@case("GG-26-name-of-a-part", part_name(1, 3))
def name_of_part(d):
    (d / part_name(1, 3)).write_bytes(sound())


@case("GG-26-part-0", part_name(0, 3))
def part_0(d):
    (d / part_name(0, 3)).write_bytes(parts()[1].build())


@case("GG-26-part-is-a-folder", part_name(1, 3))
def part_is_folder(d):
    three = parts()
    (d / part_name(1, 3)).write_bytes(three[1].build())
    (d / part_name(3, 3)).write_bytes(three[3].build())
    (d / part_name(2, 3)).mkdir()


@case("GG-26-part-is-lfs-pointer", part_name(1, 3))
def part_is_lfs_pointer(d):
    CASES["GG-26-legal-given-1"].write(d)
    (d / part_name(2, 3)).write_bytes(LFS_POINTER)


# ---- what is in the tensors ------------------------------------------------

# Where a block's scale lies, as bytes that make it infinity or NaN.
SCALES = {"Q4_0": 0, "Q4_1": 2, "Q8_0": 0, "IQ4_NL": 0, "Q2_K": 80,
          "Q3_K": 108, "Q4_K": 2, "Q6_K": 208, "TQ2_0": 64}


def quantised(kind, data=None, version=2):
    """A model of width 256 whose embedding is of that kind."""
    m = GgufFile(model_keys(256), model_tensors(256))
    m.keys["general.quantization_version"] = u32(version)
    m.tensors[0] = Tensor("token_embd.weight", [256, VOCAB], kind, data)
    return m.build()


for kind in BLOCKS:
    if kind != "I8":
        raw(f"GG-27-legal-{kind}", lambda k=kind: quantised(k))
raw("GG-27-old-blocks", lambda: quantised("Q8_0", version=1))
raw("GG-27-weights-of-integers", lambda: quantised("I8"))
for kind, at in SCALES.items():
    for label, half in {"inf": 0x7c00, "nan": 0x7e01}.items():
        def broken(k=kind, at=at, half=half):
            _, elements, size = BLOCKS[k]
            data = bytearray(256 * VOCAB // elements * size)
            where = len(data) // size // 2 * size + at
            data[where:where + 2] = struct.pack("<H", half)
            # 0 times infinity would be NaN.
            data[where - at:where] = b"\x11" * at
            tail = where - at + size
            data[where + 2:tail] = b"\x11" * (tail - where - 2)
            return quantised(k, bytes(data))
        raw(f"GG-27-{kind}-{label}", broken)
key("GG-28-template-2MiB", "tokenizer.chat_template",
    string("x" * (2 << 20)))
key("GG-28-legal-template-1MiB", "tokenizer.chat_template",
    string("x" * (1 << 20)))
key("GG-28-template-number", "tokenizer.chat_template", u32(1))
changed("GG-29-extra-tensor", lambda m: m.tensors.append(
    tensor("blk.0.attn_q_norm.weight", HEAD)))
changed("GG-29-extra-tensor-unknown", lambda m: m.tensors.append(
    tensor("mystery", 4)))
changed("GG-29-bias-of-one-layer", lambda m: m.tensors.append(
    tensor("blk.0.attn_k.bias", KEYS * HEAD)))
changed("GG-29-fused-qkv", lambda m: m.tensors.append(
    tensor("blk.0.attn_qkv.weight", WIDTH, (HEADS + 2 * KEYS) * HEAD)))
changed("GG-29-legal-rotation-buffer", lambda m: m.tensors.append(
    tensor("blk.0.attn_rot_embd.weight", HEAD // 2)))
raw("GG-30-legal-no-output-is-tied", sound)
changed("GG-30-legal-output", lambda m: m.tensors.append(
    tensor("output.weight", WIDTH, VOCAB)))
changed("GG-30-output-of-other-width", lambda m: m.tensors.append(
    tensor("output.weight", WIDTH + 1, VOCAB)))
changed("GG-30-no-embedding", lambda m: m.tensors.pop(0))
changed("GG-30-no-final-norm", lambda m: m.tensors.pop(1))
attribute("GG-30-no-tensors", tensors=[])


def source(d, name):
    """The path that the command is given."""
    return d / CASES[name].file


def write_case(folder, name):
    """Writes one case into folder/name and returns that path."""
    d = pathlib.Path(folder) / name
    d.mkdir(parents=True)
    CASES[name].write(d)
    return d


if __name__ == "__main__":
    bad_cases.main(__doc__, CASES, write_case)
