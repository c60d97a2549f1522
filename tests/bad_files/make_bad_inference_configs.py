#!/usr/bin/env python3
"""Writes DeepSpeed's inference configurations at fault (IC), one folder a case.

    make_bad_inference_configs.py FOLDER [CASE...]

Every folder holds a sound model in whole and, in mp_rank_00 and mp_rank_01, in
two ranks, and ds.json; cases named "legal" have no fault. CASES maps a name to
its writer and the flags that the command gets.
"""
import json
import pathlib
import sys
from typing import Callable, NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support")]
import bad_cases  # noqa: E402
import megatron_writer as m  # noqa: E402

RANKS = [f"ranks/mp_rank_{r:02}/model_optim_rng.pt" for r in (0, 1)]
LIST = {"type": "Megatron", "version": 2.0, "checkpoints": RANKS}


class Case(NamedTuple):
    text: Callable[[pathlib.Path], str]
    flags: tuple = ()


CASES = {}


def config(name, *flags, text=None, whole=True, **keys):
    """A case of these keys, or of this text; `whole`: of the whole model."""
    assert name not in CASES, name

    def write(d):
        if text is not None:
            return text
        source = {"checkpoint": "whole"} if whole else {}
        return json.dumps({**source, **keys})
    CASES[name] = Case(write, ("--selftest", "none") + flags)


config("IC-01-legal", dtype="fp16", tp={"tp_size": 2}, kernel_inject=True,
       max_out_tokens=12)
config("IC-01-empty", text="")
config("IC-01-cut", text='{"dtype": "fp16"')
config("IC-01-array", text="[]")
config("IC-01-legal-commas", text='{"dtype": "fp16", "checkpoint": "whole",}')
config("IC-01-deep", text="[" * 2000)
config("IC-01-not-utf8", text='{"dtype": "\udcff"}')
config("IC-01-presharded", whole=False, type="ds_model", version=1.0,
       checkpoints={"non_tp": ["non-tp.pt"], "tp": ["tp_00_00.pt"]},
       parallelization="tp", tp_size=1, dtype="torch.float16")
config("IC-01-list", whole=False, **LIST)
config("IC-01-model", whole=False, model_type="gpt2", n_embd=8)
config("IC-02-unknown", dtype="fp16", max_output_tokens=12)
config("IC-02-unknown-far", batch="8")
config("IC-02-unknown-inside", tensor_parallel={"tp_sizes": 2})
config("IC-02-unknown-strange", **{"\x1b[31m\n" + "long" * 99: 1})
config("IC-02-historic", quantization_setting=[True, 8])
config("IC-02-offload", offload_params=True)
config("IC-02-training", zero_optimization={"stage": 3})
config("IC-02-training-type", fp16={"enabled": True})
config("IC-02-fastgen", state_manager={"max_context": 8192})
config("IC-03-twice", text='{"dtype": "fp16", "dtype": "bf16"}')
config("IC-03-alias", max_out_tokens=8, max_tokens=12)
config("IC-03-legal-alias", max_out_tokens=8, max_tokens=8)
config("IC-03-deprecated-and-new", mp_size=2, tensor_parallel={"tp_size": 2})
config("IC-03-legal-deprecated", mp_size=2, moe_experts=[1],
       moe_type="standard")
config("IC-04-flag-differs", "--tp", "4", tensor_parallel={"tp_size": 2})
config("IC-04-legal-flag-equal", "--tp=2", "--dtype", "half",
       dtype="torch.float16", tp={"tp_size": 2})
config("IC-04-flag-type", "--dtype", "bf16", dtype="fp16")
config("IC-04-source-differs", "--model", "elsewhere")
config("IC-05-type", dtype="int4")
config("IC-05-type-number", dtype=16)
config("IC-05-group-number", tensor_parallel=2)
config("IC-05-zero-ranks", mp_size=0)
config("IC-05-many-ranks", mp_size=1 << 30)
config("IC-05-null", max_out_tokens=None)
config("IC-05-switch", replace_with_kernel_inject=3)
config("IC-05-object", mpu="megatron.mpu")
config("IC-05-experts", ep_size=4)
config("IC-05-bits", dtype="int8", quant={"weight": {"num_bits": 4}})
config("IC-05-quant-off", dtype="int8", quant={"enabled": False})
config("IC-05-never-read", checkpoint_config={"checkpoint_dir": "whole"})
config("IC-05-least", max_tokens=8, min_tokens=9)
config("IC-05-injection", injection_policy={"GPT": []})
config("IC-05-injection-fused", injection_policy={"GPT": ["dense"]},
       replace_with_kernel_inject=True)
config("IC-05-injection-text", injection_policy="dense")
config("IC-05-injection-wrong",
       injection_policy={"GPT": ["self_attention.dense"]})
config("IC-05-legal-injection", injection_policy={
    "ParallelTransformerLayer": ["self_attention.dense",
                                 "mlp.dense_4h_to_h"]})
config("IC-06-legal-list", whole=False, checkpoint=LIST,
       training_mp_size=2)
config("IC-06-list-absent", whole=False, checkpoint={"type": "Megatron"})
config("IC-06-list-type", whole=False, checkpoint={**LIST, "type": "Megatrom"})
config("IC-06-training-size", whole=False, checkpoint=LIST,
       training_mp_size=4)
config("IC-06-legal-training-size-whole", training_mp_size=2)
config("IC-06-no-source", whole=False, dtype="fp16")
config("IC-06-base-dir", base_dir="ranks")
config("IC-06-legal-base-dir", whole=False, base_dir="ranks", checkpoint={
    **LIST, "checkpoints": [p.partition("/")[2] for p in RANKS]})
config("IC-07-legal-ignored", triangular_masking=False, zero={"stage": 3},
       transposed_mode=True, replace_method="manual",
       quant={"weight": {"num_bits": 8}}, moe_type="residual",
       min_out_tokens=4, max_out_tokens=1 << 20)


def write_case(folder, name):
    d = pathlib.Path(folder) / name
    m.write_whole(str(d / "whole"), m.Model())
    m.write(str(d / "ranks"), m.Model(), tensor_ranks=2)
    (d / "ds.json").write_text(CASES[name].text(d), errors="surrogateescape")
    return d


if __name__ == "__main__":
    bad_cases.main(__doc__, CASES, write_case)
