#!/usr/bin/env python3
"""Writes bad folders of what DeepSpeed cut for inference (PS), one a case.

    make_bad_presharded.py FOLDER [CASE...]

Every folder is a small model of two ranks with one fault; cases named "legal"
have none. CASES maps a name to its writer, the flags that the command gets and
the source below the folder.
"""
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support")]
import bad_cases  # noqa: E402
import presharded_writer as w  # noqa: E402

MODELS = HERE.parent / "golden_cases" / "models"
LIST = "ds_inference_config.json"
QKV = "transformer.h.1.attention.attn_qkvw"
UP = "transformer.h.0.mlp.inter_w"
NORM = "transformer.h.1.norm_w"


CASES = {}


def case(name, flags=(), source="", model="gpt-j", ranks=2, then=None,
         **how):
    """`how` is for the writer; then(folder) changes what it wrote."""
    def write(d):
        w.write(str(d), str(MODELS / model), ranks, parts=2, **how)
        if then:
            then(d)
    assert name not in CASES, name
    CASES[name] = bad_cases.Case(write, flags, source)


def listed(name, text=None, flags=(), **keys):
    def change(d):
        if text is not None:
            (d / LIST).write_text(text)
    case(name, flags, LIST, listed=keys, then=change)


def of_second(change):
    return lambda rank, tensors: change(tensors) if rank == 1 else None


def files(**keys):
    names = {"non_tp": ["non-tp.pt"],
             "tp": [f"tp_{r:02}_{p:02}.pt" for p in range(2)
                    for r in range(2)]}
    return {"checkpoints": {**names, **keys}}


listed("PS-01-legal")
listed("PS-01-cut", '{"type": "ds_model", "checkpoints": {"tp": [')
listed("PS-01-legal-commas", json.dumps({
    "type": "ds_model", "version": 1.0, "parallelization": "tp", "tp_size": 2,
    **files()}).replace("]}", ",]}"))
listed("PS-01-legal-unknown-key", comment="cut on a Monday")
listed("PS-01-legal-parallelization-absent", parallelization=None)
listed("PS-01-parallelization", parallelization="pp")
listed("PS-01-tp-absent", checkpoints={"non_tp": ["non-tp.pt"]})
listed("PS-01-tp-none", **files(tp=[]))
listed("PS-01-tp-text", **files(tp="tp_00_00.pt"))
listed("PS-01-tp-numbers", **files(tp=[1, 2]))
listed("PS-01-other-files", **files(pp=["a.pt"]))
listed("PS-01-base-dir-number", base_dir=7)
listed("PS-01-legal-base-dir-elsewhere", base_dir="/nowhere/at/all")
listed("PS-01-size", tp_size=4)
listed("PS-01-size-text", tp_size="2")
listed("PS-01-size-none", tp_size=0)
listed("PS-02-absent", **files(tp=["tp_00_00.pt", "tp_01_00.pt",
                                   "tp_00_01.pt", "tp_01_02.pt"]))
listed("PS-02-absent-and-moved", base_dir="/nowhere",
       **files(non_tp=["non-tp-2.pt"]))
listed("PS-02-part-absent", **files(tp=["tp_00_00.pt", "tp_01_00.pt",
                                        "tp_00_01.pt"]))
listed("PS-02-rank-absent", tp_size=None, **files(tp=["tp_01_00.pt",
                                                      "tp_01_01.pt"]))
listed("PS-02-rank-absent-last", **files(tp=["tp_00_00.pt", "tp_00_01.pt"]))
listed("PS-02-uneven", tp_size=2, **files(tp=["tp_00_00.pt", "tp_01_00.pt",
                                             "non-tp.pt"], non_tp=[]))
listed("PS-03-twice", **files(tp=["tp_00_00.pt", "tp_00_00.pt"]))
listed("PS-03-whole-twice", **files(non_tp=["tp_00_00.pt"]))
case("PS-04-config-absent", then=lambda d: (d / "config.json").unlink())
case("PS-04-family", model="qwen2", config={"model_type": "llama"},
     then=lambda d: (d / "config.json").write_text(
         (MODELS / "qwen2" / "config.json").read_text()))
case("PS-04-family-absent", then=lambda d: (d / "config.json").write_text("{}"))
case("PS-05-tensor-absent", edit=of_second(lambda t: t.pop(NORM)))
case("PS-05-tensor-more", edit=of_second(
    lambda t: t.update({NORM.replace("norm_w", "norm_x"): t[NORM]})))
case("PS-05-tensor-unknown", edit=lambda r, t: t.update(
    {"transformer.h.0.attention.attn_qw": t[QKV]}))
case("PS-05-tensor-absent-all", edit=lambda r, t: t.pop(UP))
case("PS-05-nothing", edit=lambda r, t: t.clear())
case("PS-05-published", edit=lambda r, t: [
    t.pop(n) for n in list(t) if ".h." in n])
case("PS-06-values", edit=of_second(
    lambda t: t.update({NORM: t[NORM].of(t[NORM].rows[::-1])})))
case("PS-06-shapes", edit=of_second(
    lambda t: t.update({UP: t[UP].of(t[UP].rows[1:])})))
case("PS-06-dims", edit=lambda r, t: t.update(
    {NORM: w.Tensor("F16", [sum(t[NORM].rows, [])])}))
case("PS-06-thirds", edit=lambda r, t: t.update({QKV: t[QKV].columns(0, 70)}))
case("PS-06-heads", model="gpt-neox", config={"num_attention_heads": 6},
     then=lambda d: (d / "config.json").write_text(
         (d / "config.json").read_text().replace(
             '"num_attention_heads": 6', '"num_attention_heads": 5')))
case("PS-06-groups", model="llama-gqa-tied",
     then=lambda d: (d / "config.json").write_text(
         (d / "config.json").read_text().replace(
             '"num_key_value_heads": 2', '"num_key_value_heads": 3')))
case("PS-06-gate", model="llama-gqa-tied", edit=lambda r, t: t.update(
    {"model.layers.0.mlp.inter_w": t["model.layers.0.mlp.inter_w"].columns(
        0, 87)}))
case("PS-06-mlp-norm", edit=lambda r, t: t.update(
    {"transformer.h.0.mlp.attn_nw": t[NORM]}))
case("PS-06-int8", edit=lambda r, t: t.update(
    {QKV: [w.Tensor("I8", [[b"\1"] * 48] * 72),
           w.Tensor("F32", [[b"\0\0\0\0"] * 3] * 72)]}))
case("PS-06-head-of-one", model="bloom", head="cut",
     config={"tie_word_embeddings": False})
case("PS-06-legal-head-of-one", model="bloom", head="cut")
case("PS-07-not-torch", then=lambda d: (d / "tp_01_01.pt").write_bytes(b"x"))
case("PS-07-empty", then=lambda d: (d / "tp_01_01.pt").write_bytes(b""))
case("PS-07-folder", then=lambda d: (
    (d / "tp_01_01.pt").unlink(), (d / "tp_01_01.pt").mkdir()))
case("PS-07-vocab-size", ("--vocab-size", "100"))


def source(d, name):
    """What the command is given."""
    return pathlib.Path(d) / CASES[name].source


def write_case(folder, name):
    """Writes one case into folder/name and returns that path."""
    d = pathlib.Path(folder) / name
    d.mkdir(parents=True)
    CASES[name].write(d)
    return d


if __name__ == "__main__":
    bad_cases.main(__doc__, CASES, write_case)
