#!/usr/bin/env python3
"""Writes the bad Megatron checkpoints (MD), one folder a case.

    make_bad_megatron.py FOLDER [CASE...]

Every folder is a small GPT of two ranks in mp_rank_00 and mp_rank_01 with one
fault; cases named "legal" have none. CASES maps a name to its writer, the flags
that the command gets and the source below the folder.
"""
import json
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support")]
import bad_cases  # noqa: E402
import megatron_writer as m  # noqa: E402
import torch_writer as t  # noqa: E402

FILE = "model_optim_rng.pt"
RANKS = [f"mp_rank_{r:02}/{FILE}" for r in (0, 1)]
TRACKER = "latest_checkpointed_iteration.txt"
QKV = "language_model.encoder.layers.1.self_attention.query_key_value.weight"
NORM = "language_model.encoder.layers.1.input_layernorm.weight"
EMBED = "language_model.embedding.word_embeddings.weight"


CASES, case = bad_cases.registry()


def model(d, edit=None, cut=None, **kind):
    m.write(str(d), m.Model(**kind), edit=edit,
            **(cut or {"tensor_ranks": 2}))


def listed(name, text=None, flags=(), drop=(), **keys):
    """A case of checkpoint.json beside two sound ranks."""
    def write(d):
        model(d)
        items = {"type": "Megatron", "version": 2.0, "checkpoints": RANKS,
                 **keys}
        for key in drop:
            items.pop(key)
        (d / "checkpoint.json").write_text(
            json.dumps(items) if text is None else text)
    case(name, flags, "checkpoint.json")(write)


def edited(name, edit, rank=1, flags=(), **kind):
    """A case whose rank `rank` is changed by edit(root, tensors)."""
    def change(stage, at, root, chunks):
        if at == rank or rank is None:
            edit(root, chunks)
    case(name, flags)(lambda d: model(d, change, **kind))


listed("MD-01-legal")
listed("MD-01-empty", "")
listed("MD-01-cut", '{"type": "Megatron"')
listed("MD-01-array", "[]")
listed("MD-01-legal-commas", json.dumps(
    {"type": "megatron", "version": 2, "checkpoints": RANKS})[:-2] + ",],}")
listed("MD-01-type", type="Megatrom")
listed("MD-01-type-absent", drop=["type"])
listed("MD-01-type-number", type=3)
listed("MD-01-legal-unknown-key", comment="of run 7")
listed("MD-01-checkpoints-absent", drop=["checkpoints"])
listed("MD-01-checkpoints-dict", checkpoints={"tp": RANKS, "non_tp": []})
listed("MD-01-checkpoints-none", checkpoints=[])
listed("MD-01-checkpoints-numbers", checkpoints=[1, 2])
listed("MD-01-legal-folder", checkpoints=".")
listed("MD-01-legal-rank-folders", checkpoints=["mp_rank_00", "mp_rank_01"])
listed("MD-01-string", checkpoints=RANKS[0])
listed("MD-01-legal-version-absent", drop=["version"])
listed("MD-01-legal-version-null", version=None)
listed("MD-01-version-text", version="2.0")
listed("MD-01-base-dir", base_dir="elsewhere")
listed("MD-01-base-dir-number", base_dir=1)
listed("MD-01-parallelization", parallelization="ep")
listed("MD-01-mp-size", mp_size=4)
listed("MD-01-legal-tp-size", tp_size=2, parallelization="tp")
listed("MD-02-absent", checkpoints=RANKS + ["mp_rank_02/" + FILE])
listed("MD-03-twice", checkpoints=[RANKS[0], RANKS[0]])
listed("MD-03-same-rank", checkpoints=[RANKS[0], "./" + RANKS[0]])

# As many as a list may have, each by a path of its own: none is compared with
# all before it.
listed("MD-22-paths", checkpoints=[
    "mp_rank_00/../" + f"{i:016b}".replace("0", "./").replace("1", ".//")
    + RANKS[0] for i in range(65536)])


@case("MD-03-copied-rank")
def copied_rank(d):
    model(d)
    shutil.copy(d / RANKS[0], d / RANKS[1])


@case("MD-04-one-of-four")
def one_of_four(d):
    model(d, cut={"tensor_ranks": 4})
    shutil.rmtree(d / "mp_rank_01")


@case("MD-04-last-of-four")
def last_of_four(d):
    model(d, cut={"tensor_ranks": 4})
    shutil.rmtree(d / "mp_rank_03")


@case("MD-04-last-of-four-no-count")
def last_of_four_no_count(d):
    model(d, lambda s, r, root, chunks: root["args"].pop(
        "tensor_model_parallel_size"), {"tensor_ranks": 4})
    shutil.rmtree(d / "mp_rank_03")


@case("MD-04-no-file")
def no_file(d):
    model(d)
    (d / RANKS[1]).unlink()


edited("MD-05-iterations", lambda root, c: root.update(iteration=101))
edited("MD-05-versions", lambda root, c: root.update(checkpoint_version=3.0))
edited("MD-05-arguments",
       lambda root, c: root["args"].update(layernorm_epsilon=1e-6))
edited("MD-06-shapes", lambda root, c: c["model"].update({NORM: [0.5] * 19}))
edited("MD-06-values", lambda root, c: c["model"].update({NORM: [0.5] * 20}))
edited("MD-06-part", lambda root, c: c["model"].update(
    {EMBED: c["model"][EMBED][:-1]}))
edited("MD-06-tensor-absent", lambda root, c: c["model"].pop(NORM))
edited("MD-06-tensor-absent-first", lambda root, c: c["model"].pop(NORM), 0)
edited("MD-06-tensor-absent-all", lambda root, c: c["model"].pop(NORM), None)


def tracked(name, content, folder="iter_0000100"):
    def write(d):
        model(d / folder)
        (d / TRACKER).write_text(content)
    case(name)(write)


tracked("MD-07-legal", "100\n")
tracked("MD-07-legal-release", "release\n", "release")
tracked("MD-07-absent", "200")
tracked("MD-07-dots", "../x")
tracked("MD-07-empty", "")
tracked("MD-07-huge", "99999999999999999999")
tracked("MD-08-no-ranks", "100", "iter_0000100/deep")


@case("MD-08-legal-one-folder")
def one_folder(d):
    model(d / "iter_0000100")


@case("MD-08-two-folders")
def two_folders(d):
    model(d / "iter_0000100")
    model(d / "iter_0000200")


@case("MD-09-torch-dist")
def torch_dist(d):
    (d / "iter_0000100").mkdir()
    (d / "iter_0000100" / ".metadata").write_bytes(b"")
    (d / TRACKER).write_text("100")


@case("MD-10-args-absent")
def args_absent(d):
    model(d, lambda s, r, root, c: root.pop("args"))


@case("MD-10-legal-config-beside")
def config_beside(d):
    args_absent(d)
    (d / "config.json").write_text(json.dumps(m.Model().args(2)))


case("MD-10-legal-file", source=RANKS[1])(model)
edited("MD-10-args-nan",
       lambda root, c: root["args"].update(layernorm_epsilon=float("nan")), None)
edited("MD-10-args-number", lambda root, c: root.update(args=7), None)
edited("MD-10-model-and-module",
       lambda root, c: c.update(module=c["model"]), None)
edited("MD-10-legal-module",
       lambda root, c: c.update(module=c.pop("model")), None)
for v in (0, 1, 2, 3):
    case(f"MD-11-legal-version-{v}")(lambda d, v=v: model(d, version=v))
edited("MD-11-version-99",
       lambda root, c: root.update(checkpoint_version=99.0), None)
edited("MD-11-version-text",
       lambda root, c: root.update(checkpoint_version="2"), None)
case("MD-11-layout", ("--qkv-layout", "halves"))(model)
case("MD-12-legal-vocab", ("--vocab-size", "33"))(model)
case("MD-12-vocab", ("--vocab-size", "41"))(model)
edited("MD-12-padded",
       lambda root, c: root["args"].update(padded_vocab_size=48), None)
edited("MD-13-rows", lambda root, c: c["model"].update(
    {QKV: c["model"][QKV][:-1]}), None)
edited("MD-13-heads",
       lambda root, c: root["args"].update(num_attention_heads=5), None)
case("MD-14-legal-groups")(lambda d: model(d, groups=4))
edited("MD-14-groups", lambda root, c: root["args"].update(
    num_query_groups=2, group_query_attention=True), None, groups=4)
edited("MD-14-groups-odd", lambda root, c: root["args"].update(
    num_query_groups=1, group_query_attention=True), None, groups=4)
case("MD-16-legal-stages")(
    lambda d: model(d, cut={"tensor_ranks": 2, "stages": 2}))


@case("MD-16-stage-absent")
def stage_absent(d):
    model(d, cut={"tensor_ranks": 2, "stages": 2})
    shutil.rmtree(d / "mp_rank_01_001")


@case("MD-16-stages-absent")
def stages_absent(d):
    model(d, cut={"tensor_ranks": 2, "stages": 2})
    shutil.rmtree(d / "mp_rank_00_001")
    shutil.rmtree(d / "mp_rank_01_001")


@case("MD-16-stages-uncounted")
def stages_uncounted(d):
    model(d, lambda s, r, root, c: root["args"].pop(
        "pipeline_model_parallel_size"), {"tensor_ranks": 2, "stages": 2})
    shutil.rmtree(d / "mp_rank_00_001")
    shutil.rmtree(d / "mp_rank_01_001")


@case("MD-16-mixed-names")
def mixed_names(d):
    model(d, cut={"tensor_ranks": 2, "stages": 2})
    model(d)


def other_copy(s, r, root, chunks):
    if s == 1:
        name = "word_embeddings_for_head.weight"
        chunks["model"][name] = [row[::-1] for row in chunks["model"][name]]


case("MD-16-embeddings-differ")(
    lambda d: model(d, other_copy, {"tensor_ranks": 2, "stages": 2}))


@case("MD-16-chunks")
def chunks_differ(d):
    def edit(s, r, root, chunks):
        if r == 1:
            chunks.pop("model1")
    model(d, edit, {"tensor_ranks": 2, "stages": 2, "virtual": 2})


@case("MD-17-expert-ranks")
def expert_ranks(d):
    model(d)
    (d / "mp_rank_00").rename(d / "mp_rank_00_000_000")


edited("MD-20-no-weights", lambda root, c: (
    c.clear(), root.update(optimizer={}, rng_state=[])), None)


@case("MD-20-list-of-tensors")
def root_is_list(d):
    model(d)
    (d / RANKS[0]).write_bytes(t.torch_zip(b"]", {}).build())


@case("MD-21-loop")
def loop(d):
    model(d)
    (d / RANKS[1]).unlink()
    (d / RANKS[1]).symlink_to(d / RANKS[1])


case("MD-22-qkv-layout-elsewhere", ("--qkv-layout", "thirds"))(
    lambda d: m.write_whole(str(d), m.Model()))
case("MD-22-vocab-elsewhere", ("--vocab-size", "33"))(
    lambda d: m.write_whole(str(d), m.Model()))


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
