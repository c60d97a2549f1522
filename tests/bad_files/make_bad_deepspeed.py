#!/usr/bin/env python3
"""Writes the bad checkpoints of DeepSpeed's training (MD), one folder a case.

    make_bad_deepspeed.py FOLDER [CASE...]

Every folder is a step of a small GPT with one fault: of Megatron's names over two
model-parallel ranks ("mp"), or of ZeRO 3 over three data-parallel ranks ("z3");
cases named "legal" have none. CASES maps a name to its writer, the flags that
the command gets and the source below the folder.
"""
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support")]
import bad_cases  # noqa: E402
import deepspeed_writer as w  # noqa: E402
import megatron_writer as m  # noqa: E402
import torch_writer as t  # noqa: E402

STEP = "global_step7"
MP = [f"{STEP}/mp_rank_{r:02}_model_states.pt" for r in (0, 1)]
Z3 = [f"{STEP}/zero_pp_rank_{r}_mp_rank_00_model_states.pt" for r in range(3)]
OPTIM = [f"{STEP}/zero_pp_rank_{r}_mp_rank_00_optim_states.pt"
         for r in range(3)]
NORM = "language_model.encoder.layers.1.input_layernorm.weight"
EMBED = "language_model.embedding.word_embeddings.weight"
CONFIG = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2",
          "n_embd": 4, "n_layer": 1, "n_head": 2, "n_positions": 3,
          "vocab_size": 5, "n_inner": 6}


CASES, case = bad_cases.registry()


def megatron(d, edit=None, ranks=2, tag=STEP, **how):
    """A step with Megatron's names."""
    model = m.Model()
    w.write(str(d), [{n: w.of_floats(v) for n, v in model.rank(r, ranks).items()}
                     for r in range(ranks)],
            nest=how.get("zero", 0) < 3, tag=tag, edit=edit,
            client={"args": model.args(ranks), "iteration": 7,
                    "checkpoint_version": 2.0}, **how)


def gpt2():
    """A GPT-2 with the names of Hugging Face."""
    def x(name, *shape):
        return w.of_floats(m.table(name, *shape))
    out = {"wte.weight": x("wte", 5, 4), "wpe.weight": x("wpe", 3, 4)}
    for n, shape in (("ln_1", 0), ("attn.c_attn", (4, 12)),
                     ("attn.c_proj", (4, 4)), ("ln_2", 0),
                     ("mlp.c_fc", (4, 6)), ("mlp.c_proj", (6, 4)),
                     ("../ln_f", 0)):
        name = n[3:] if n.startswith("../") else f"h.0.{n}"
        out[f"{name}.weight"] = x(n, *shape) if shape else x(n, 4)
        out[f"{name}.bias"] = x(n + "b", shape[1] if shape else 4)
    return {f"transformer.{n}": v for n, v in out.items()}


def published(d, edit=None, ranks=1, config=True, **how):
    """A step with Hugging Face's names."""
    w.write(str(d), [gpt2() for _ in range(ranks)], edit=edit, **how)
    if config:
        (d / "config.json").write_text(json.dumps(CONFIG))


def z3(d, edit=None, **how):
    published(d, edit, zero=3, dp=3, **how)


def edited(name, make, edit, kind="model", rank=1, flags=(), **how):
    """A case of make() whose files of that kind and rank edit(root) changes;
    rank None: all."""
    def change(k, mp, dp, root):
        at = dp if how.get("zero", 3 if make is z3 else 0) else mp
        if k == kind and rank in (None, at):
            edit(root)
    case(name, flags)(lambda d: make(d, change, **how))


def without(name, make, paths, **how):
    """A case of make() where files are missing."""
    @case(name)
    def write(d):
        make(d, **how)
        for path in paths:
            (d / path).unlink()


def listed(name, make=megatron, text=None, flags=(), **keys):
    """A case of checkpoint.json beside a sound step."""
    def write(d):
        make(d)
        items = {"type": "ds_model", "version": 0.0, "checkpoints": ".", **keys}
        items = {k: v for k, v in items.items() if v is not ...}
        (d / "checkpoint.json").write_text(
            json.dumps(items) if text is None else text)
    case(name, flags, "checkpoint.json")(write)


listed("MD-01-legal")
listed("MD-01-legal-bloom", type="Bloom")
listed("MD-01-legal-commas",
       text='{"type": "DS_MODEL", "checkpoints": ["' + STEP + '",],}')
listed("MD-01-type", type="ds_modle")
listed("MD-01-legal-version-other", version=1.0)
listed("MD-01-checkpoints-absent", checkpoints=...)
listed("MD-01-checkpoints-none", checkpoints=[])
listed("MD-01-checkpoints-number", checkpoints=[7])
listed("MD-01-checkpoints-dict",
       checkpoints={"tp": ["tp_00_00.pt"], "non_tp": ["non-tp.pt"]})
listed("MD-01-legal-list", checkpoints=MP)
listed("MD-01-legal-list-backwards", checkpoints=MP[::-1], mp_size=2)
listed("MD-01-legal-no-parallelization", checkpoints=MP, parallelization=None)
listed("MD-01-parallelization", parallelization="ep")
listed("MD-01-mp-size", mp_size=4)
listed("MD-01-mp-size-text", mp_size="two")
listed("MD-01-folder-and-file", checkpoints=[STEP, MP[0]])
listed("MD-01-folder-empty", checkpoints="elsewhere")
listed("MD-01-no-weights", checkpoints=["latest"])
listed("MD-01-other-folder", checkpoints=["/"])
listed("MD-02-absent", checkpoints=MP + [f"{STEP}/mp_rank_02_model_states.pt"])
listed("MD-03-twice", checkpoints=[MP[0], MP[0]])
listed("MD-03-same-rank", checkpoints=[MP[0], "./" + MP[0]])

for name, write, ranks in (("mp", megatron, MP), ("z3", z3, OPTIM)):
    case(f"MD-03-copied-rank-{name}")(lambda d, write=write, ranks=ranks: (
        write(d), (d / ranks[1]).write_bytes((d / ranks[0]).read_bytes())))
listed("MD-04-list-of-one", checkpoints=MP[:1])
listed("MD-04-list-of-second", checkpoints=MP[1:])


@case("MD-01-shard-absent", source="checkpoint.json")
def shard_absent(d):
    d.joinpath("config.json").write_text(json.dumps(CONFIG))
    names = []
    for i in (1, 2):
        names.append(f"pytorch_model-{i:05}-of-00003.bin")
        w.save(str(d / names[-1]), {n: x for j, (n, x) in
                                    enumerate(gpt2().items()) if j % 3 == i})
    d.joinpath("checkpoint.json").write_text(json.dumps(
        {"type": "BLOOM", "checkpoints": names, "version": 1.0}))


@case("MD-01-shards-cut", source="checkpoint.json")
def shards_cut(d):
    d.joinpath("config.json").write_text(json.dumps(CONFIG))
    w.save(str(d / "a.bin"), gpt2())
    d.joinpath("checkpoint.json").write_text(json.dumps(
        {"type": "ds_model", "checkpoints": ["a.bin"], "version": 1.0,
         "parallelization": "tp", "mp_size": 2}))


@case("MD-01-shards-no-config", source="checkpoint.json")
def shards_no_config(d):
    w.save(str(d / "a.bin"), gpt2())
    d.joinpath("checkpoint.json").write_text(json.dumps(
        {"type": "ds_model", "checkpoints": ["a.bin"], "version": 1.0}))


without("MD-04-first", megatron, [MP[0]])
without("MD-04-last", megatron, [MP[1]])
without("MD-04-second-of-four", megatron, [MP[1]], ranks=4)
without("MD-04-z3-model", z3, [Z3[1]])
without("MD-04-z3-model-last", z3, [Z3[2]])
without("MD-04-z3-optim", z3, [OPTIM[1]])
without("MD-04-z3-optim-last", z3, [OPTIM[2]])
without("MD-04-z3-all-optim", z3, OPTIM)
without("MD-04-z3-all-model", z3, Z3)
edited("MD-05-steps", megatron, lambda root: root.update(global_steps=8))
edited("MD-05-steps-z3", z3, lambda root: root.update(global_steps=8))
edited("MD-05-versions", megatron,
       lambda root: root.update(checkpoint_version=3.0))
edited("MD-05-dp-counts", z3, lambda root: root.update(dp_world_size=4))
edited("MD-05-dp-count", z3, lambda root: root.update(dp_world_size=4),
       rank=None)
edited("MD-05-mp-count", megatron, lambda root: root.update(mp_world_size=4),
       rank=None)
edited("MD-05-partitions", z3, lambda root: root[
    "optimizer_state_dict"].update(partition_count=4), "optim")


def norm_of(root, values):
    root["module"]["language_model"]["encoder"][
        NORM.split("encoder.")[1]] = w.of_floats(values)


edited("MD-06-values", megatron, lambda root: norm_of(root, [0.5] * 20))
edited("MD-06-shapes", megatron, lambda root: norm_of(root, [0.5] * 19))
edited("MD-06-param-shapes", z3,
       lambda root: root["param_shapes"][0].update(
           {"transformer.wte.weight": w.Shape([4, 5])}))
edited("MD-06-param-shapes-absent", z3,
       lambda root: root["param_shapes"][0].popitem())
edited("MD-06-param-groups", z3, lambda root: root["param_shapes"].append({}))


@case("MD-06-replicas-differ")
def replicas_differ(d):
    def edit(kind, mp, dp, root):
        if mp == 1:
            name = "transformer.h.0.attn.c_proj.weight"
            root["module"][name] = w.of_floats(m.table("other", 4, 4))
    published(d, edit, 2)


@case("MD-06-legal-replicas")
def replicas(d):
    published(d, ranks=2)


PROJ = "transformer.h.0.mlp.c_proj.weight"  # [6, 4]


def autotp(name, **info):
    """Two ranks that AutoTP made, which cut PROJ along its rows, into 4 and 2."""
    @case(name)
    def write(d):
        ranks = [gpt2(), gpt2()]
        told = {"tp_replicated_parameter_patterns": [
            "^" + re.escape(n) + "$" for n in ranks[0] if n != PROJ], **info}
        for r in (0, 1):
            ranks[r][PROJ] = w.cut(ranks[r][PROJ], 0, [[4, 2]], r)
        w.write(str(d), ranks, client={"universal_checkpoint_info": told
                                       if info.get("all") is None
                                       else info["all"]})
        (d / "config.json").write_text(json.dumps(CONFIG))


def blocks(*widths, **more):
    pattern = "^" + re.escape(PROJ) + "$"
    return {"parameter_with_sub_params": [{
        "patterns": [pattern], "shape": [len(widths), -1], "partition_dim": 0,
        **more}], "sub_param_shard_widths": {pattern: list(widths)}}


autotp("MD-06-legal-cut")
autotp("MD-06-legal-cut-block", **blocks([4, 2]))
autotp("MD-06-cut-text", all="x")
autotp("MD-06-cut-list", parameter_with_row_parallelism_patterns="x")
autotp("MD-06-cut-pattern",
       parameter_with_row_parallelism_patterns=[r".*\.c_proj\.weight"])
autotp("MD-06-cut-class",
       parameter_with_row_parallelism_patterns=[r"^h\.\d$"])
autotp("MD-06-cut-columns", parameter_with_row_parallelism_patterns=[
    "^" + re.escape(PROJ) + "$"])
autotp("MD-06-cut-copy", tp_replicated_parameter_patterns=[
    "^" + re.escape(n) + "$" for n in gpt2()])
autotp("MD-06-cut-refused", autotp_unsupported_parameter_patterns={
    "^" + re.escape(PROJ) + "$": "of no known form"})
autotp("MD-06-cut-scaled", affine_map={"version": 1, "params": {
    "^" + re.escape(PROJ) + "$": {"ranks": {0: {"pieces": [{"scale": 0.5}]}}}}})
autotp("MD-06-cut-widths", **blocks([3, 3]))
autotp("MD-06-cut-ranks", **blocks([2, 2, 2]))
autotp("MD-06-cut-negative", **blocks([7, -1]))
autotp("MD-06-cut-dim", **blocks([4, 2], partition_dim=2))
autotp("MD-06-legal-cut-halves", parameter_with_2_sub_params_cat_dim_0=[
    "^" + re.escape(PROJ) + "$"])


@case("MD-06-cut-absent")
def cut_absent(d):
    def edit(kind, mp, dp, root):
        root["universal_checkpoint_info"] = {}
        if mp == 1:
            root["module"].pop(PROJ)
    published(d, edit, 2)


def latest(name, text, steps=(STEP,)):
    @case(name)
    def write(d):
        for step in steps:
            megatron(d, tag=step)
        if text is None:
            (d / "latest").unlink()
        else:
            (d / "latest").write_bytes(text)


latest("MD-07-legal", b" global_step7 \r\n")
latest("MD-07-absent", b"global_step8")
latest("MD-07-lines", b"global_step7\nglobal_step8\n")
latest("MD-07-dots", b"../x")
latest("MD-07-dot", b".")
latest("MD-07-empty", b"\n")
latest("MD-07-binary", b"global\x00step7")
latest("MD-07-not-utf8", b"\xff\xfe")
latest("MD-07-long", b"x" * 300)
latest("MD-07-huge", b"x" * 5000)
latest("MD-08-legal-one-step", None)
latest("MD-08-two-steps", None, (STEP, "global_step8"))


@case("MD-07-no-step")
def no_step(d):
    (d / "deep").mkdir()
    (d / "latest").write_text("deep")


@case("MD-07-nothing-beside")
def nothing_beside(d):
    (d / "latest").write_text("global_step7")


@case("MD-09-legal-partitions")
def partitions(d):
    published(d, zero=2, dp=3, module=False)


case("MD-09-legal-z3")(z3)


@case("MD-09-legal-shapes-of-optimizer")
def shapes_of_optimizer(d):
    """As DeepSpeed of 2021 saved them."""
    published(d, lambda k, mp, dp, root: k == "optim" and root.update(
        param_shapes=w.shapes(gpt2())), zero=2, dp=2, module=False)


@case("MD-09-no-shapes")
def no_shapes(d):
    published(d, lambda k, mp, dp, root: k == "optim", zero=2, dp=2)


def groups_of(root):
    state = root["optimizer_state_dict"]
    return state[next(k for k in state if "fp32" in k)]


def shorter(root):
    group = groups_of(root)[0]
    group.data, group.shape = group.data[:-8], [group.count - 2]


def longer(root):
    group = groups_of(root)[0]
    group.data += bytes(400)
    group.shape = [group.count]


edited("MD-09-z3-short", z3, shorter, "optim")
edited("MD-09-z3-long", z3, longer, "optim")
edited("MD-09-z2-short", published, shorter, "optim", zero=2, dp=3,
       module=False)
edited("MD-09-z2-long", published, longer, "optim", zero=2, dp=3, module=False)
edited("MD-09-groups", z3, lambda root: groups_of(root).append(
    w.of_floats([1.0, 2.0])), "optim")
edited("MD-09-groups-all", published, lambda root: groups_of(root).append(
    w.of_floats([1.0, 2.0])), "optim", None, zero=2, dp=3, module=False)
edited("MD-09-group-text", z3, lambda root: groups_of(root).__setitem__(
    0, "flat"), "optim")
edited("MD-09-group-matrix", z3, lambda root: setattr(
    groups_of(root)[0], "shape", [1, groups_of(root)[0].count]), "optim")
edited("MD-09-no-groups", z3, lambda root: root["optimizer_state_dict"].pop(
    "fp32_flat_groups"), "optim")
edited("MD-09-no-optimizer", z3, lambda root: root.pop(
    "optimizer_state_dict"), "optim")
edited("MD-09-stage", z3, lambda root: root["optimizer_state_dict"].update(
    zero_stage=1), "optim")
for what, gaps in (("text", "x"), ("few", [[0]]), ("negative", [[-4] * 16]),
                   ("long", [[9] * 16]), ("differ", [[0] * 16])):
    edited(f"MD-09-gaps-{what}", published, lambda root, gaps=gaps: root[
        "optimizer_state_dict"].update(param_alignment_paddings=gaps), "optim",
        1 if what == "differ" else None, zero=2, dp=2, module=False)
edited("MD-09-mixed-types", z3, lambda root: (
    setattr(groups_of(root)[0], "dtype", "bfloat16"),
    setattr(groups_of(root)[0], "data", groups_of(root)[0].data[::2])), "optim")
edited("MD-09-no-param-shapes", z3, lambda root: root.update(
    param_shapes=None), rank=None)
edited("MD-09-param-shapes-text", z3, lambda root: root.update(
    param_shapes="shapes"))
edited("MD-09-param-shape-negative", z3, lambda root: root["param_shapes"][
    0].update({"x": w.Shape([2, -1])}))
edited("MD-09-param-shape-huge", z3, lambda root: root["param_shapes"][
    0].update({"x": w.Shape([1 << 40, 1 << 40])}), rank=None)
edited("MD-09-param-shape-text", z3, lambda root: root["param_shapes"][
    0].update({"x": "wide"}))
edited("MD-09-shared-text", z3, lambda root: root.update(shared_params="x"))
edited("MD-09-param-twice", z3, lambda root: root["param_shapes"].append(
    {"transformer.wte.weight": w.Shape([5, 4])}), rank=None)


def frozen(name, edit, rank=1):
    edited(name, z3, edit, rank=rank, frozen=["transformer.wpe.weight"])


frozen("MD-09-legal-frozen", lambda root: None)
frozen("MD-09-frozen-absent",
       lambda root: root.update(frozen_param_fragments=None))
frozen("MD-09-frozen-short", lambda root: root.update(
    frozen_param_fragments={"transformer.wpe.weight": w.of_floats([1.0])}))
frozen("MD-09-frozen-shapes", lambda root: root.update(
    frozen_param_shapes=None))


@case("MD-09-placeholder")
def placeholder(d):
    """A tensor that no partition holds."""
    def edit(kind, mp, dp, root):
        if kind == "model":
            root["param_shapes"][0].pop("transformer.ln_f.bias")
        else:
            group = groups_of(root)[0]
            group.data = group.data[:-8]
            group.shape = [group.count]
    z3(d, edit)


edited("MD-10-legal-no-module-partitions", published,
       lambda root: root.pop("module"), rank=None, zero=2, dp=2)
edited("MD-10-no-module", megatron, lambda root: root.pop("module"), rank=None)
edited("MD-10-no-module-in-one", megatron, lambda root: root.pop("module"))
edited("MD-10-module-text", megatron, lambda root: root.update(module="x"))
edited("MD-10-module-empty", megatron, lambda root: root.update(module={}),
       rank=None)
edited("MD-10-no-args", megatron, lambda root: root.pop("args"), rank=None)
edited("MD-10-args-number", megatron, lambda root: root.update(args=7),
       rank=None)


@case("MD-10-legal-args-beside")
def args_beside(d):
    megatron(d, lambda kind, mp, dp, root: root.pop("args") and None)
    (d / "config.json").write_text(json.dumps(m.Model().args(2)))


@case("MD-10-no-config")
def no_config(d):
    published(d, config=False)


for v in (0, 1, 2, 3):
    edited(f"MD-11-legal-version-{v}", megatron,
           lambda root, v=v: root.update(checkpoint_version=float(v)),
           rank=None)
edited("MD-11-version-99", megatron,
       lambda root: root.update(checkpoint_version=99.0), rank=None)
edited("MD-11-legal-version-absent", megatron,
       lambda root: root.pop("checkpoint_version"), rank=None)
case("MD-11-legal-layout", ("--qkv-layout", "thirds"))(megatron)
case("MD-11-layout-elsewhere", ("--qkv-layout", "thirds"))(published)
case("MD-12-legal-vocab", ("--vocab-size", "33"))(megatron)
case("MD-12-vocab", ("--vocab-size", "41"))(megatron)
case("MD-12-vocab-elsewhere", ("--vocab-size", "3"))(published)
edited("MD-20-optimizer-alone", megatron, lambda root: (
    root.clear(), root.update(optimizer_state_dict={})), rank=None)
case("MD-20-optimizer-file", source=OPTIM[0])(
    lambda d: w.write(str(d), [gpt2()], zero=3, dp=3,
                      edit=lambda kind, mp, dp, root: kind == "optim"))


@case("MD-20-list")
def root_is_list(d):
    megatron(d)
    (d / MP[1]).write_bytes(t.torch_zip(b"]", {}).build())


@case("MD-20-cut")
def file_cut(d):
    megatron(d)
    (d / MP[1]).write_bytes((d / MP[1]).read_bytes()[:-100])


@case("MD-21-loop")
def loop(d):
    megatron(d)
    (d / MP[1]).unlink()
    (d / MP[1]).symlink_to(d / MP[1])


@case("MD-21-folder-loop")
def folder_loop(d):
    (d / "latest").write_text(STEP)
    (d / STEP).symlink_to(d / STEP)


@case("MD-22-many-files")
def many_files(d):
    megatron(d)
    for r in range(2, 5000):
        (d / STEP / f"mp_rank_{r:02}_model_states.pt").symlink_to(
            d / MP[0])


@case("MD-22-ranks-far")
def ranks_far(d):
    megatron(d)
    (d / STEP / "mp_rank_999999_model_states.pt").write_bytes(b"")


@case("MD-22-other-file", source=MP[0] + "x")
def other_file(d):
    megatron(d)
    (d / MP[0]).rename(d / (MP[0] + "x"))


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
