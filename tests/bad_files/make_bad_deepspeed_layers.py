#!/usr/bin/env python3
"""Writes bad checkpoints of DeepSpeed's whose tensors lie in files of their own:
layers of pipelines (PL), universal checkpoints (MD-19) and experts (MD-17, 18).

    make_bad_deepspeed_layers.py FOLDER [CASE...]

Every folder is a small GPT with one fault; cases named "legal" have none, but
models with experts are not compiled. CASES maps a name to its writer, the flags
that the command gets and the source below the folder.
"""
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support")]
import bad_cases  # noqa: E402
import deepspeed_layers_writer as w  # noqa: E402
import llama_writer as llama  # noqa: E402
import megatron_writer as m  # noqa: E402

NORM = "input_layernorm.weight"
WHOLE_NORM = w.LAYERS + "1." + NORM
WORDS = w.EMBEDDING + "word_embeddings.weight"
ARGS = m.Model(version=3).args


CASES, case = bad_cases.registry()


# ---- layers of a pipeline: 1 the embedding, 2 to 5 the blocks, 6 the norm ----

def layers(name, then=None, edit=None, flags=(), source="", ranks=2, **how):
    """edit(layers) changes rank 1's {index: tensors}, then(folder) the files."""
    def change(rank, items):
        if edit and rank == ranks - 1:
            edit(dict(items))

    def write(d):
        w.write_pipeline(str(d), m.Model(version=3), ranks, edit=change, **how)
        if then:
            then(d)
    case(name, flags, source)(write)


def without(*files):
    def remove(d):
        for pattern in files:
            found = list(d.glob(pattern))
            assert found, pattern
            for path in found:
                path.unlink()
    return remove


def file(index, rank):
    return f"layer_{index:02}-model_{rank:02}-model_states.pt"


layers("PL-01-legal")
layers("PL-01-legal-file", source=file(3, 1))
layers("PL-02-rank-absent", without(file(4, 1)))
layers("PL-02-first-rank-absent", without(file(4, 0)))
layers("PL-02-block-absent", without("layer_04-*"))
layers("PL-02-last-block-absent", without("layer_05-*"))
layers("PL-02-embedding-absent", without("layer_01-*"))
layers("PL-02-norm-absent", without("layer_06-*"))
layers("PL-02-blocks-absent", without("layer_0[2345]-*"))
layers("PL-02-last-rank-absent", without("layer_*-model_01-*"))
layers("PL-03-same-layer", lambda d: shutil.copy(
    d / file(3, 0), d / file(3, 0).replace("03", "003", 1)))
layers("PL-04-values", edit=lambda x: x[3].update(
    {NORM: [v + 1 for v in x[3][NORM]]}))
layers("PL-04-shapes", edit=lambda x: x[3].update({NORM: x[3][NORM][1:]}))
layers("PL-04-tensor-absent", edit=lambda x: x[3].pop(NORM))
layers("PL-04-tensor-more", edit=lambda x: x[3].update({"mlp.x": [1.0]}))
layers("PL-04-nothing", edit=lambda x: x[1].clear(), ranks=1)
layers("PL-04-unknown", edit=lambda x: (x[6].clear(), x[6].update(
    {"gamma": [1.0]})), ranks=1)
layers("PL-04-two-norms", lambda d: [shutil.copy(
    d / file(6, r), d / file(7, r)) for r in (0, 1)])
layers("PL-05-state-absent", without("mp_rank_*"))
layers("PL-05-state-absent-layout", without("mp_rank_*"),
       flags=("--qkv-layout", "per_group"))


@case("PL-05-config-of-another-family")
def config_of_another_family(d):
    w.write_pipeline(str(d), m.Model(version=3), 2, version=None)
    w.write_config(str(d), llama.Llama().config())


def hugging_face(d, ranks=1):
    model = llama.Llama()
    items = {0: {"weight": model.tensors()["model.embed_tokens.weight"]},
             3: {"weight": model.tensors()["model.norm.weight"]},
             4: {"weight": model.tensors()["lm_head.weight"]}}
    for name, v in model.tensors().items():
        if name.startswith("model.layers."):
            number, _, rest = name[len("model.layers."):].partition(".")
            items.setdefault(1 + int(number), {})[rest] = v
    w.write_layers(str(d), ranks, lambda r: sorted(items.items()))


case("PL-06-config-absent")(hugging_face)


@case("PL-06-ranks-of-published-names")
def ranks_of_published_names(d):
    hugging_face(d, 2)
    w.write_config(str(d), llama.Llama().config())


@case("PL-07-not-torch")
def not_torch(d):
    w.write_pipeline(str(d), m.Model(version=3), 2)
    (d / file(3, 1)).write_bytes(b"GGUF" * 9)


@case("PL-07-list")
def root_is_list(d):
    w.write_pipeline(str(d), m.Model(version=3), 2)
    (d / file(3, 1)).write_bytes(w.t.torch_zip(b"]", {}).build())


# ---- universal checkpoints ---------------------------------------------------

def universal(name, then=None, edit=None, flags=(), source="", more=None,
              args=ARGS(), model=m.Model(version=3), **how):
    def write(d):
        tensors = dict(model.rank())
        if edit:
            edit(tensors)
        w.write_universal(str(d / "step_universal"), tensors, more, args, **how)
        (d / "latest_universal").write_text("step_universal\n")
        if then:
            then(d)
    case(name, flags, source)(write)


def fp32(d, name=WHOLE_NORM):
    return d / "step_universal" / "zero" / name / "fp32.pt"


def say(name, text):
    return lambda d: (d / name).write_text(text)


universal("MD-19-legal")
universal("MD-19-legal-step", source="step_universal")
universal("MD-19-file-absent", lambda d: fp32(d).unlink())
universal("MD-19-parameter-absent", lambda d: shutil.rmtree(fp32(d).parent))
universal("MD-19-param-absent", lambda d: fp32(d).write_bytes(
    w.t.torch_zip(w.t.dict_({"cat_dim": 0}), {}).build()))
universal("MD-19-param-number", lambda d: fp32(d).write_bytes(
    w.t.torch_zip(w.t.dict_({"param": 7}), {}).build()))
universal("MD-19-not-torch", lambda d: fp32(d).write_bytes(b"x"))
universal("MD-19-latest-absent", say("latest_universal", "step_9_universal"))
universal("MD-19-latest-dots", say("latest_universal", "../step_universal"))
universal("MD-19-latest-of-nothing", lambda d: shutil.rmtree(
    d / "step_universal" / "zero"))
universal("MD-19-config-absent", args=None)
universal("MD-19-version-absent", version=None)
universal("MD-19-legal-version-absent-layout", version=None,
          flags=("--qkv-layout", "per_group"))
universal("MD-19-gate-side-by-side", args=m.Model(gated=True).args(2),
          model=m.Model(version=3, gated=True))
universal("MD-19-thirds-side-by-side", args=ARGS(2),
          flags=("--qkv-layout", "thirds"))
universal("MD-19-parts-of-sizes", more=lambda n: {"sub_param_shape": "q"})
universal("MD-19-legal-vocabulary", edit=lambda x: x.update(
    {WORDS: x[WORDS][:33]}), more=lambda n: {"vocab_tensor": n == WORDS})
universal("MD-19-vocabulary", edit=lambda x: x.update({WORDS: x[WORDS][:33]}))


# ---- experts -----------------------------------------------------------------

def experts(name, edit=None, layers=None, flags=(), then=None, **how):
    """Layer 1 has two experts, layer 3 four."""
    def write(d):
        w.add_experts(str(d), m.Model(version=3), layers or {1: 2, 3: 4},
                      edit=edit, **how)
        if then:
            then(d)
    case(name, flags)(write)


def expert(layer, number, rank=0):
    return f"layer_{layer}_expert_{number}_mp_rank_{rank:02}_model_states.pt"


def in_file(wanted, change):
    return lambda path, tensors: change(tensors) if path == wanted else None


def renamed(tensors, old, new):
    for name in list(tensors):
        tensors[name.replace(old, new)] = tensors.pop(name)


STATE = "mp_rank_00_model_states.pt"
GATE = w.LAYERS + "3.mlp.deepspeed_moe.gate.wg.weight"
UP = (w.LAYERS + "3.mlp.deepspeed_moe.experts.deepspeed_experts.2."
      "dense_h_to_4h.weight")
experts("MD-17-legal")
experts("MD-17-legal-residual", residual=(1, 3))
experts("MD-17-legal-old", layers={1: 3, 3: 3}, old=True)
experts("MD-17-legal-ranks", ranks=2)
experts("MD-17-legal-ranks-cut", ranks=2, cut=True)
experts("MD-17-legal-one-layer", layers={2: 64})
experts("MD-17-hole", in_file(expert(1, 2), lambda x: True))
experts("MD-17-last-absent", in_file(expert(1, 3), lambda x: True))
experts("MD-17-last-absent-untold", in_file(expert(1, 3), lambda x: True),
        num_experts=None)
experts("MD-17-rank-absent", in_file(expert(1, 2, 1), lambda x: True), ranks=2)
experts("MD-17-layer-absent", lambda path, x: path.startswith("layer_0_"))
experts("MD-17-all-absent", lambda path, x: path.startswith("layer_"))
experts("MD-17-old-hole", layers={1: 3, 3: 3}, old=True, edit=in_file(
    "expert_1_mp_rank_00_model_states.pt", lambda x: True))
experts("MD-17-both-kinds", then=lambda d: shutil.copy(
    d / expert(0, 1), d / "expert_0_mp_rank_00_model_states.pt"))
experts("MD-17-twice", then=lambda d: shutil.copy(
    d / expert(0, 1), d / expert(0, 1).replace("layer_0", "layer_00")))
experts("MD-17-rank-too-many", then=lambda d: shutil.copy(
    d / expert(1, 3), d / expert(1, 3, 1)))
experts("MD-17-local-number", in_file(
    expert(1, 2), lambda x: renamed(x, "experts.2.", "experts.0.")))
experts("MD-17-other-layer", in_file(
    expert(1, 2), lambda x: renamed(x, "layers.3.", "layers.2.")))
experts("MD-17-no-expert", in_file(
    expert(1, 2), lambda x: renamed(x, "deepspeed_experts", "linears")))
experts("MD-17-empty", in_file(expert(1, 2), lambda x: x.clear()))
experts("MD-17-shapes", in_file(
    expert(1, 2), lambda x: x.update({UP: x[UP][1:]})))
experts("MD-17-tensor-absent", in_file(expert(1, 2), lambda x: x.pop(UP) and 0))
experts("MD-17-values-of-ranks", in_file(
    expert(1, 2, 1), lambda x: x.update({UP: [[v + 1 for v in r]
                                              for r in x[UP]]})), ranks=2)
experts("MD-17-not-torch", then=lambda d: (d / expert(1, 2)).write_bytes(b"x"))
experts("MD-18-gate-rows", in_file(
    STATE, lambda x: x.update({GATE: x[GATE][1:]})))
experts("MD-18-gate-absent", in_file(STATE, lambda x: x.pop(GATE) and 0))
experts("MD-18-list-long", num_experts=[2, 4, 4])
experts("MD-18-list-short", num_experts=[2])
experts("MD-18-list-other", num_experts=[2, 3])
experts("MD-18-number-other", num_experts=2)
experts("MD-18-text", num_experts="4")
experts("MD-18-legal-absent", num_experts=None)


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
