#!/usr/bin/env python3
"""Writes the bad LLaMA folders in Meta's own form (ML), one folder a case.

    make_bad_meta.py FOLDER [CASE...]

Every folder is params.json and two ranks with one fault; cases named "legal"
have none. CASES maps a name to its writer, the flags that the command gets and
the source below the folder.
"""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support")]
import bad_cases  # noqa: E402
import llama_writer as w  # noqa: E402

Q = "layers.1.attention.wq.weight"
K = "layers.1.attention.wk.weight"
NORM = "layers.0.ffn_norm.weight"
RANK = "consolidated.01.pth"


CASES = {}


def case(name, flags=(), source="", ranks=2, params=None, edit=None, then=None,
         **kind):
    """edit(rank, tensors) changes a rank, then(folder) the whole."""
    def write(d):
        w.write_meta(str(d), w.Llama(**kind), ranks=ranks, edit=edit,
                     params={"max_seq_len": 64, **(params or {})})
        if then:
            then(d)
    assert name not in CASES, name
    CASES[name] = bad_cases.Case(write, flags, source)


def text(value):
    return lambda d: (d / "params.json").write_text(value)


def of_second(change):
    return lambda rank, tensors: change(tensors) if rank == 1 else None


case("ML-01-legal")
case("ML-01-absent", then=lambda d: (d / "params.json").unlink())
case("ML-01-empty", then=text(""))
case("ML-01-array", then=text("[]"))
case("ML-01-cut", then=text('{"dim": 24, '))
for key in ("dim", "n_layers", "n_heads"):
    case(f"ML-01-{key}-absent", params={key: None})
case("ML-02-dim-text", params={"dim": "24"})
case("ML-02-dim-huge", params={"dim": 1 << 40})
case("ML-02-heads", params={"n_heads": 5, "head_dim": None})
case("ML-02-kv-heads", params={"n_kv_heads": 5})
case("ML-02-kv-heads-many", params={"n_kv_heads": 24})
case("ML-02-kv-heads-none", params={"n_kv_heads": 0})
case("ML-02-head-odd", params={"head_dim": 5})
case("ML-02-eps", params={"norm_eps": 0})
case("ML-02-theta", params={"rope_theta": "1e6"})
case("ML-02-scaled-text", params={"use_scaled_rope": "yes"})
case("ML-02-legal-scaled", params={"use_scaled_rope": True})
case("ML-02-factor", params={"use_scaled_rope": True,
                             "rope_scaling_factor": -8})
case("ML-02-window", params={"sliding_window": -4})
case("ML-02-multiplier", params={"ffn_dim_multiplier": 1e300})
case("ML-02-legal-width", params={"multiple_of": 50})
case("ML-03-moe", params={"moe": {"num_experts": 8, "num_experts_per_tok": 2}})
case("ML-03-moe-args", params={"moe_args": {"num_experts": 16}})
case("ML-03-vision", params={"vision_chunk_size": 448})
case("ML-03-legal-vision-off", params={"vision_chunk_size": -1,
                                       "vision_num_cross_attention_layers": -1,
                                       "vision_max_num_chunks": 4})
case("ML-03-quantised", params={"quantization_args": {"group_size": 32}})
case("ML-03-lora", params={"lora_args": {"rank": 16, "scale": 2.0}})
case("ML-03-unknown", params={"attention_sinks": 4})
case("ML-03-legal-unknown-off", params={"use_biases": False})
case("ML-04-rank-absent", ranks=4,
     then=lambda d: (d / "consolidated.01.pth").unlink())
case("ML-04-first-absent",
     then=lambda d: (d / "consolidated.00.pth").unlink())
case("ML-04-last-absent", then=lambda d: (d / RANK).unlink())
case("ML-04-same-rank", then=lambda d: (d / "consolidated.1.pth").write_bytes(
    (d / RANK).read_bytes()))
case("ML-04-copied-rank", then=lambda d: (d / RANK).write_bytes(
    (d / "consolidated.00.pth").read_bytes()))
case("ML-04-count", params={"model_parallel_size": 4})
case("ML-04-one-of-two", source=RANK)
case("ML-04-legal-one", ranks=1, source="consolidated.00.pth")
case("ML-04-legal-list", source="checkpoint.json",
     then=lambda d: (d / "checkpoint.json").write_text(
         '{"type": "ds_model", "version": 0.0, "checkpoints": "."}'))
case("ML-04-legal-params", source="params.json")
case("ML-05-tensor-absent", edit=of_second(lambda t: t.pop(NORM)))
case("ML-05-tensor-more", edit=of_second(
    lambda t: t.update({"layers.2.attention.wq.weight": t[Q]})))
case("ML-05-tensor-absent-all", edit=lambda r, t: t.pop(K))
case("ML-05-layers", params={"n_layers": 3})
case("ML-05-layers-few", params={"n_layers": 1})
case("ML-05-unknown", edit=lambda r, t: t.update(
    {"layers.0.attention.wq.scales": [1.0]}))
case("ML-05-values", edit=of_second(
    lambda t: t.update({NORM: [x + 1 for x in t[NORM]]})))
case("ML-05-shapes", edit=of_second(lambda t: t.update({Q: t[Q][1:]})))
case("ML-05-dims", edit=lambda r, t: t.update({NORM: [t[NORM]]}))
case("ML-05-inner", edit=lambda r, t: t.update(
    {"layers.1.feed_forward.w3.weight":
     t["layers.1.feed_forward.w3.weight"][1:]}))
case("ML-06-legal-vocab", params={"vocab_size": 60})
case("ML-06-vocab", params={"vocab_size": 61})
case("ML-06-embedding", edit=lambda r, t: t.update(
    {"tok_embeddings.weight": t["tok_embeddings.weight"][:-1]}))
case("ML-06-kv-copies", ranks=4, kv_heads=2, edit=of_second(
    lambda t: t.update({K: [[x + 1 for x in row] for row in t[K]]})))
case("ML-06-legal-kv-copies", ranks=4, kv_heads=2)
case("ML-07-not-torch", then=lambda d: (d / RANK).write_bytes(b"GGUF" * 9))
case("ML-07-empty", then=lambda d: (d / RANK).write_bytes(b""))
case("ML-07-folder", then=lambda d: ((d / RANK).unlink(), (d / RANK).mkdir()))
case("ML-07-qkv-layout", ["--qkv-layout", "thirds"])


def source(folder, name):
    s = CASES[name].source
    return f"{folder}/{s}" if s else str(folder)


def write_case(folder, name):
    """Writes one case into folder/name and returns that path."""
    d = pathlib.Path(folder) / name
    d.mkdir(parents=True)
    CASES[name].write(d)
    return d


if __name__ == "__main__":
    bad_cases.main(__doc__, CASES, write_case)
