#!/usr/bin/env python3
"""Writes the bad files of torch.save (PT), one folder a case.

    make_bad_torch_files.py FOLDER [CASE...]

Every folder is a small Llama in pytorch_model.bin with one fault; cases named
"legal" have none. CASES maps a name to its writer and the flags that the command
gets.
"""
import json
import pathlib
import struct
import sys
from typing import Callable, NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
import bad_cases  # noqa: E402
import torch_writer as t  # noqa: E402
from make_bad_checkpoints import (  # noqa: E402
    CONFIG, LFS_POINTER, NORM, SHAPES, UNREAD, count, values)

FILE = "pytorch_model.bin"
KEYS = {name: str(i) for i, name in enumerate(SHAPES)}


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


def raw(name, content):
    """A case whose file is content(), bytes."""
    case(name)(lambda d: (d / FILE).write_bytes(content()))


def storages():
    return {KEYS[n]: values(n) for n in SHAPES}


def stored(name, **fields):
    """The storage of a tensor, with parts of it replaced."""
    return t.storage(**{"key": KEYS[name], "dtype": "float16",
                        "count": count(SHAPES[name]), **fields})


def tensors():
    """{name: opcodes} of the sound model."""
    return {n: t.tensor(stored(n), SHAPES[n]) for n in SHAPES}


def model(replace=None, more=None):
    """The Zip of the sound model; `replace`: {name: opcodes}."""
    return t.torch_zip(t.dict_({**tensors(), **(replace or {})}),
                       {**storages(), **(more or {})})


def norm(name, opcodes):
    """The last norm replaced by other opcodes."""
    raw(name, lambda: model({NORM: opcodes}).build())


def beside(name, opcodes):
    """Opcodes of a value that stands beside the tensors."""
    raw(name, lambda: model({"extra": opcodes}).build())


def alone(name, opcodes):
    """A whole pickle as it is."""
    raw(name, lambda: t.Zip().add("archive/data.pkl", opcodes).build())


def zipped(name, change):
    """The sound model after change(Zip)."""
    def content():
        z = model()
        return change(z) or z.build()
    raw(name, content)


def entry(name, central=None, local=None, entry_name="archive/more"):
    """The sound model and an entry with a fault."""
    zipped(name, lambda z: z.add(entry_name, b"abc", central, local) and None)


def legacy_tensors():
    return {n: t.tensor(stored(n, view=b"N"), SHAPES[n]) for n in SHAPES}


def legacy(name, more=None, **fields):
    """The sound model in the older container."""
    raw(name, lambda: t.torch_legacy(
        t.dict_({**legacy_tensors(), **(more or {})}),
        {k: (2, v) for k, v in storages().items()}, **fields))


# ---- the container ---------------------------------------------------------

raw("PT-00-legal", lambda: model().build())
legacy("PT-00-legal-legacy")
raw("PT-00-legal-wrapped", lambda: t.torch_zip(t.dict_(
    {"epoch": 3, "model": t.dict_({"module." + n: v for n, v in
                                    tensors().items()}), "optimizer": {}}),
    storages()).build())
raw("PT-01-empty", lambda: b"")
raw("PT-01-text", lambda: b"not a zip at all\n")
raw("PT-01-lfs-pointer", lambda: LFS_POINTER)
raw("PT-01-safetensors", lambda: struct.pack("<Q", 2) + b"{}")
raw("PT-01-gguf", lambda: b"GGUF" + bytes(60))
raw("PT-01-zip-of-another-kind",
    lambda: t.Zip().add("word/document.xml", b"<x/>").build())
raw("PT-01-torchscript", lambda: model().add(
    "archive/constants.pkl", t.pickle(b")")).build())
raw("PT-02-tar", lambda: b"storages".ljust(257, b"\0") + b"ustar\0" + bytes(300))
raw("PT-03-plain-pickle", lambda: t.pickle(t.dict_({"a": 1})))
raw("PT-03-protocol", lambda: t.torch_legacy(b"}", {}, protocol=1000))
legacy("PT-03-magic", magic=t.number(2**75 + 1))
legacy("PT-03-keys-no-list", keys={"0": 1})
legacy("PT-03-keys-no-text", keys=[1, 2])
legacy("PT-03-key-unused", keys=["nobody"])
raw("PT-03-legacy-cut", lambda: t.torch_legacy(
    t.dict_(legacy_tensors()),
    {k: (2, v) for k, v in storages().items()})[:-1])
raw("PT-03-legacy-longer", lambda: t.torch_legacy(
    t.dict_(legacy_tensors()),
    {k: (2, v) for k, v in storages().items()}) + b"x")
raw("PT-03-legacy-count", lambda: t.torch_legacy(
    t.dict_({"a": t.tensor(t.storage("0", "float16", 2**40), [2])}),
    {}, keys=["0"]) + struct.pack("<q", 2**62))
raw("PT-04-cut-in-the-middle", lambda: model().build()[:3000])
raw("PT-04-cut-by-1", lambda: model().build()[:-1])
for n in (0, 1, 100, 0xfffe):
    zipped(f"PT-05-count-{n}", lambda z, n=n: z.end.update(entries=n))
raw("PT-06-two-data-pkl", lambda: model().add(
    "archive/data.pkl", t.pickle(b"}")).build())
raw("PT-06-two-roots", lambda: model().add(
    "other/data.pkl", t.pickle(b"}")).build())
entry("PT-07-offset-beyond", central={"offset": 2**31})
entry("PT-07-offset-elsewhere", central={"offset": 1})
entry("PT-07-offset-of-another", central={"offset": 0})
for field, v in {"name": b"archive/othr", "crc": 1, "packed": 2, "plain": 4,
                 "method": 8, "flags": 0x802}.items():
    entry(f"PT-08-header-differs-{field}", local={field: v})
for method in (8, 12, 14, 93, 99):
    entry(f"PT-09-method-{method}", {"method": method}, {"method": method})
entry("PT-10-bomb", {"plain": 2**31}, {"plain": 2**31})
zipped("PT-11-legal-zip64", lambda z: setattr(z, "zip64", {}))
for field in ("entries", "size", "offset", "place"):
    for v in (2**63, 2**64 - 1):
        zipped(f"PT-11-zip64-{field}-{v}",
               lambda z, field=field, v=v: setattr(z, "zip64", {field: v}))
zipped("PT-11-zip64-differs", lambda z: (
    setattr(z, "zip64", {}), z.end.update(entries=3)) and None)
for label, sizes in {"size": (2**63, 2**63), "wraps": (2**64 - 1, 2**64 - 1),
                     "short": (5,)}.items():
    field = struct.pack(f"<HH{len(sizes)}Q", 1, 8 * len(sizes), *sizes)
    entry(f"PT-11-zip64-entry-{label}",
          central={"plain": 2**32 - 1, "packed": 2**32 - 1, "extra": field})
for label, path in {"parent": "../x", "absolute": "/x", "nested": "a/../../x",
                    "nul": "a\0b", "empty": "", "backslash": "a\\x",
                    "not-utf8": b"a\xff"}.items():
    entry(f"PT-12-name-{label}", entry_name=path)
entry("PT-13-encrypted", {"flags": 1}, {"flags": 1})
entry("PT-13-strong-encryption", {"flags": 0x41}, {"flags": 0x41})
zipped("PT-13-disks", lambda z: z.end.update(disk=1))
raw("PT-14-crc-of-the-pickle", lambda: t.Zip().add(
    "archive/data.pkl", t.pickle(b"}"), {"crc": 7}, {"crc": 7}).build())


@case("PT-14-legal-no-crc")
def no_checksums(d):
    z = t.Zip()
    for path, data in [("data.pkl", t.pickle(t.dict_(tensors()))),
                       *((f"data/{k}", v) for k, v in storages().items())]:
        z.add("archive/" + path, data, {"crc": 0}, {"crc": 0})
    (d / FILE).write_bytes(z.build())


# ---- what would run code ---------------------------------------------------

CALL = t.text("touch DS_PICKLE_RAN") + b"\x85"
EVIL = {"os": ("os", "system"), "posix": ("posix", "system"),
        "nt": ("nt", "system"), "subprocess": ("subprocess", "Popen"),
        "sys": ("sys", "exit"), "importlib": ("importlib", "import_module"),
        "runpy": ("runpy", "_run_code"), "eval": ("builtins", "eval"),
        "exec": ("__builtin__", "exec"), "getattr": ("builtins", "getattr"),
        "load": ("torch.storage", "_load_from_bytes"),
        "dotted": ("torch.serialization", "os.system")}
for label, (module, attribute) in EVIL.items():
    beside(f"PT-15-reduce-{label}", t.name(module, attribute) + CALL + b"R")
    beside(f"PT-15-stack-global-{label}",
           t.text(module) + t.text(attribute) + b"\x93" + CALL + b"R")
beside("PT-15-newobj", t.name("os", "system") + CALL + b"\x81")
beside("PT-15-newobj-ex", t.name("os", "system") + CALL + b"}\x92")
beside("PT-15-inst", b"(" + t.text("id") + b"ios\nsystem\n")
beside("PT-15-inst-of-any", b"(ia\nB\n")
beside("PT-15-obj", b"(" + t.name("a", "B") + b"o")
beside("PT-15-never-called", t.name("os", "system") + b"0N")
beside("PT-15-in-a-string", t.bytes_(t.pickle(
    t.name("os", "system") + CALL + b"R")))
beside("PT-15-in-a-string-in-a-string", t.bytes_(t.pickle(t.bytes_(t.pickle(
    t.name("posix", "system") + CALL + b"R")))))
beside("PT-15-in-an-archive-in-a-string", t.bytes_(
    t.torch_zip(t.name("os", "system") + CALL + b"R", {}).build()))
raw("PT-15-in-another-pickle-of-the-archive", lambda: model().add(
    "archive/hooks.pkl", t.pickle(t.name("os", "system") + CALL + b"R")).build())
raw("PT-15-no-container", lambda: t.pickle(t.name("os", "system") + CALL + b"R"))
legacy("PT-15-legacy", more={"x": t.name("os", "system") + CALL + b"R"})
beside("PT-16-eval-through-memo",
       t.text("builtins") + b"q\x01" + t.text("eval") + b"q\x020" + b"0"
       + b"h\x01h\x02\x93" + t.text("1") + b"\x85R")
for label, maker in {"space": ("torch._utils", "_rebuild_tensor_v2 "),
                     "capital": ("torch._utils", "_rebuild_tensor_V2"),
                     "module": ("torch.utils", "_rebuild_tensor_v2")}.items():
    norm(f"PT-17-lookalike-{label}", t.tensor(
        stored(NORM), SHAPES[NORM], maker=maker))
beside("PT-18-setstate", t.name("a", "B") + b")\x81" + t.dict_(
    {"__setstate__": 1}) + b"b")
beside("PT-18-build-on-a-number", b"K\x01}b")
beside("PT-18-build-twice", t.name("a", "B") + b")\x81}b}b")
for label, code in {"1": b"\x82\x01", "2": b"\x83\1\0",
                    "4": b"\x84\1\0\0\0"}.items():
    beside(f"PT-19-ext{label}", code)
beside("PT-19-persid", b"Psome id\n")
beside("PT-19-buffer", b"\x97")

# ---- opcodes that lack what they take --------------------------------------

beside("PT-20-setitem-on-a-list", b"]K\1K\2s")
beside("PT-20-setitems-on-a-tuple", b")(K\1K\2u")
beside("PT-20-setitems-odd", b"}(K\1u")
beside("PT-20-append-to-a-dict", b"}K\1a")
beside("PT-20-additems-to-a-list", b"](K\1\x90")
beside("PT-20-reduce-a-number", b"K\1)R")
beside("PT-20-arguments-no-tuple", t.name("a", "B") + b"]R")
for code in (b"0", b"2", b"a", b"s", b"R", b"b", b"\x81", b"\x85", b"\x86",
             b"\x87", b"\x93", b"Q", b"q\0", b"."):
    alone(f"PT-21-underflow-{code[0]:02x}", b"\x80\x02" + code)
for code in (b"t", b"l", b"d", b"u", b"e", b"1", b"\x90", b"\x91"):
    alone(f"PT-22-no-mark-{code[0]:02x}", b"\x80\x02}" + code + b".")
beside("PT-23-memo", b"h\xf0")
beside("PT-23-memo-far", b"j\xff\xff\xff\xff")
beside("PT-23-put-far", b"Nr\0\0\0\x40")
beside("PT-23-put-negative", b"Np-1\n")
for label, code in {"unicode8": b"\x8d", "bytes8": b"\x8e",
                    "array8": b"\x96"}.items():
    beside(f"PT-24-{label}-2^63", code + struct.pack("<Q", 2**63))
beside("PT-24-string-negative", b"T" + struct.pack("<i", -1))
beside("PT-24-long-negative", b"\x8b" + struct.pack("<i", -1))
beside("PT-24-text-not-utf8", t.text(b"a\xff"))
alone("PT-25-frame", b"\x80\x04\x95" + struct.pack("<Q", 100) + b"}.")
alone("PT-26-no-stop", b"\x80\x02}")
alone("PT-26-behind-stop", b"\x80\x02}.}.")
alone("PT-26-no-opcode", b"\x80\x02\xff.")
alone("PT-26-protocol-6", b"\x80\x06}.")
alone("PT-27-nested-tuples", b"\x80\x02N" + b"\x85" * 10_000_000 + b".")
alone("PT-27-nested-lists", b"\x80\x02" + b"]" * 1000 + b"a" * 999 + b".")
beside("PT-28-legal-list-in-itself", b"]q\x63" + b"h\x63a0N")
beside("PT-28-list-in-itself", b"]q\x63h\x63a")
beside("PT-28-list-in-itself-twice", b"]q\x63(h\x63h\x63e")
alone("PT-28-dict-in-itself", b"\x80\x02}q\x63" + t.text("state_dict")
      + b"h\x63s.")
MIB = 1 << 20
for label, code in {"lists": b"]", "marks": b"(", "numbers": b"K\1",
                    "memo": b"\x94", "objects": b"h\x62)\x81",
                    "lists-of-one": b"]Na"}.items():
    alone(f"PT-28-mebibyte-of-{label}", b"\x80\x02" + t.name("a", "B")
          + b"q\x62" + code * (MIB // len(code)))

# ---- tensors ---------------------------------------------------------------

norm("PT-29-storage-shorter", t.tensor(stored(NORM, count=13), [13]))
norm("PT-29-storage-longer", t.tensor(stored(NORM, count=11), [11]))
norm("PT-29-storage-count-wraps", t.tensor(stored(NORM, count=2**63 - 1), [12]))
norm("PT-29-storage-count-negative", t.tensor(stored(NORM, count=-12), [12]))
norm("PT-30-storage-absent", t.tensor(stored(NORM, key="99"), [12]))
norm("PT-30-storage-path", t.tensor(stored(NORM, key="../0"), [12]))
norm("PT-30-persistent-id", t.tensor(t.tuple_(t.text("file"), t.text("x"))
                                     + b"Q", [12]))
norm("PT-31-stride-negative", t.tensor(stored(NORM), [12], strides=[-1]))
norm("PT-31-stride-text", t.tensor(stored(NORM), [12]).replace(
    t.numbers([1]), t.tuple_(t.text("1"))))
norm("PT-31-strides-overlap", t.tensor(stored(NORM), [4, 3], strides=[2, 1]))
norm("PT-31-strides-overflow", t.tensor(
    stored(NORM), [2, 2], strides=[2**62, 2**62]))
norm("PT-31-strides-fewer", t.tensor(stored(NORM), [4, 3], strides=[1]))
norm("PT-31-offset-beyond", t.tensor(stored(NORM), [12], offset=1))
norm("PT-31-offset-far", t.tensor(stored(NORM), [12], offset=2**62))
norm("PT-31-offset-negative", t.tensor(stored(NORM), [12], offset=-1))
norm("PT-31-shape-overflows", t.tensor(
    stored(NORM), [2**40, 2**40], strides=[0, 0]))
norm("PT-31-shape-too-large", t.tensor(stored(NORM), [2**46], strides=[0]))
norm("PT-31-nine-dims", t.tensor(stored(NORM), [1] * 8 + [12]))
norm("PT-31-legal-repeated", t.tensor(stored(NORM), [12], strides=[0]))
norm("PT-32-legal-shared", t.tensor(
    stored("model.layers.0.input_layernorm.weight"), [12]))
raw("PT-32-legal-views", lambda: model({
    NORM: t.tensor(stored("model.layers.0.mlp.up_proj.weight"), [12],
                   offset=7, strides=[2])}).build())
raw("PT-32-name-twice", lambda: t.torch_zip(t.dict_(
    [*tensors().items(), (NORM, tensors()[NORM])]), storages()).build())
FLOAT8 = t.name("torch._utils", "_rebuild_tensor_v3") + t.tuple_(
    t.storage("f8", "uint8", 12, cls=("torch.storage", "UntypedStorage")),
    t.number(0), t.numbers([12]), t.numbers([1]), b"\x89", b"N",
    t.name("torch", "float8_e4m3fn")) + b"R"
raw("PT-33-float8", lambda: model({NORM: FLOAT8}, {"f8": bytes(12)}).build())
raw("PT-33-untyped", lambda: model(
    {NORM: t.tensor(t.storage("f8", "uint8", 24, cls=(
        "torch.storage", "UntypedStorage")), [12])},
    {"f8": bytes(24)}).build())
norm("PT-33-sparse", t.name("torch._utils", "_rebuild_sparse_tensor")
     + t.tuple_(b"N", t.tuple_(b"N", b"N", t.numbers([12]))) + b"R")
norm("PT-33-meta", t.name("torch._utils", "_rebuild_meta_tensor_no_storage")
     + t.tuple_(t.name("torch", "float16"), t.numbers([12]), t.numbers([1]),
                b"\x89") + b"R")
norm("PT-33-on-meta", t.tensor(stored(NORM, location="meta"), [12]))
norm("PT-33-negated", t.tensor(stored(NORM), [12], more=t.dict_({"neg": True})))
norm("PT-33-integers", t.tensor(stored(NORM, dtype="int8", count=24), [12]))
norm("PT-33-class-unknown", t.tensor(
    stored(NORM, cls=("torch", "OddStorage")), [12]))
QUANTISED = t.name("torch._utils", "_rebuild_qtensor") + t.tuple_(
    stored(NORM), t.number(0), t.numbers([12]), t.numbers([1]), b")", b"\x89",
    b"}") + b"R"
norm("PT-33-quantised", QUANTISED)
raw("PT-33-legal-unneeded", lambda: model({UNREAD: QUANTISED}).build())
norm("PT-33-object", t.name("torch._tensor", "Odd") + b")R")
raw("PT-34-big-endian", lambda: t.torch_zip(
    t.dict_(tensors()), storages(), byteorder="big").build())
legacy("PT-34-big-endian-legacy", system={"little_endian": False})
for label, opcodes in {"list": b"]", "number": b"K\1", "tensor": t.tensor(
        stored(NORM), [12]), "object": t.name("a", "Net") + b")\x81"}.items():
    raw(f"PT-35-root-{label}", lambda o=opcodes: t.torch_zip(
        o, storages()).build())


@case("PT-36-legal-index")
def indexed(d):
    names = list(SHAPES)
    files = {f"pytorch_model-{i:05d}-of-00002.bin": part
             for i, part in ((1, names[:6]), (2, names[6:]))}
    for file, part in files.items():
        (d / file).write_bytes(t.torch_zip(
            t.dict_({n: tensors()[n] for n in part}),
            {KEYS[n]: values(n) for n in part}).build())
    (d / "pytorch_model.bin.index.json").write_text(json.dumps({
        "metadata": {"total_size": 2 * sum(map(count, SHAPES.values()))},
        "weight_map": {n: f for f, part in files.items() for n in part}}))


@case("PT-36-shard-absent")
def shard_absent(d):
    indexed(d)
    (d / "pytorch_model-00002-of-00002.bin").unlink()


@case("PT-36-index-of-safetensors")
def other_kind(d):
    (d / "pytorch_model.bin.index.json").write_text(json.dumps(
        {"weight_map": {NORM: "model-00001-of-00001.safetensors"}}))


@case("PT-36-other-names-only")
def other_names(d):
    (d / "my_model.pt").write_bytes(model().build())


def write_case(folder, name):
    """Writes one case into folder/name and returns that path."""
    d = pathlib.Path(folder) / name
    d.mkdir(parents=True)
    (d / "config.json").write_text(json.dumps(CONFIG, indent=2))
    CASES[name].write(d)
    return d


if __name__ == "__main__":
    bad_cases.main(__doc__, CASES, write_case)
