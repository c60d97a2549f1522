#!/usr/bin/env python3
"""Writes folders whose config.json is at fault (CF), one folder a case.

    make_bad_configs.py FOLDER [CASE...]

Every folder is a small, sound Llama, GPT-2, Mistral or Qwen2 but for one thing;
cases named "legal" have no fault. CASES maps a name to its writer and the flags
that the command gets.
"""
import json
import pathlib
import struct
from typing import Callable, NamedTuple

import bad_cases

# 6 heads of 10 that share 2 keys, over width 12: no two sizes are alike.
LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "hidden_size": 12, "intermediate_size": 20, "num_hidden_layers": 2,
    "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 10,
    "vocab_size": 131, "max_position_embeddings": 64, "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": True,
    "torch_dtype": "float16", "bos_token_id": 1, "eos_token_id": 2,
}
MISTRAL = {**LLAMA, "architectures": ["MistralForCausalLM"],
           "model_type": "mistral", "sliding_window": 8}
QWEN2 = {**LLAMA, "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2",
         "sliding_window": 8, "use_sliding_window": True,
         "max_window_layers": 1}
GPT2 = {
    "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 12,
    "n_head": 6, "n_layer": 2, "n_positions": 16, "n_inner": 20,
    "vocab_size": 131, "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-05, "bos_token_id": 1, "eos_token_id": 2,
}
EMBED, HEAD = "model.embed_tokens.weight", "lm_head.weight"


def llama_shapes(layers=2, heads=6, kv_heads=2, head_dim=10, hidden=12):
    """Names to shapes of a Llama; `head_dim` is not hidden / heads."""
    q, kv, inner = heads * head_dim, kv_heads * head_dim, 20
    shapes = {EMBED: [131, hidden], "model.norm.weight": [hidden]}
    for i in range(layers):
        layer = f"model.layers.{i}."
        shapes.update({
            layer + "input_layernorm.weight": [hidden],
            layer + "self_attn.q_proj.weight": [q, hidden],
            layer + "self_attn.k_proj.weight": [kv, hidden],
            layer + "self_attn.v_proj.weight": [kv, hidden],
            layer + "self_attn.o_proj.weight": [hidden, q],
            layer + "post_attention_layernorm.weight": [hidden],
            layer + "mlp.gate_proj.weight": [inner, hidden],
            layer + "mlp.up_proj.weight": [inner, hidden],
            layer + "mlp.down_proj.weight": [hidden, inner],
        })
    return shapes


def qkv_biases(layers=2):
    return {f"model.layers.{i}.self_attn.{x}_proj.bias":
            [60 if x == "q" else 20] for i in range(layers) for x in "qkv"}


def gpt2_shapes():
    shapes = {"wte.weight": [131, 12], "wpe.weight": [16, 12],
              "ln_f.weight": [12], "ln_f.bias": [12]}
    for i in range(2):
        layer = f"h.{i}."
        for norm in ("ln_1", "ln_2"):
            shapes[layer + norm + ".weight"] = [12]
            shapes[layer + norm + ".bias"] = [12]
        for name, rows, cols in (("attn.c_attn", 12, 36),
                                 ("attn.c_proj", 12, 12),
                                 ("mlp.c_fc", 12, 20), ("mlp.c_proj", 20, 12)):
            shapes[layer + name + ".weight"] = [rows, cols]
            shapes[layer + name + ".bias"] = [cols]
    return shapes


def count(shape):
    n = 1
    for dim in shape:
        n *= dim
    return n


def model_file(shapes, same=()):
    """A safetensors file; a name in `same` holds the first one's numbers."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, shape in shapes.items():
        n = count(shape)
        seed = sum((same[0] if name in same else name).encode())
        blob = struct.pack(f"<{n}e", *(((seed + 37 * i) % 101 - 50) / 64
                                       for i in range(n)))
        header[name] = {"dtype": "F16", "shape": shape,
                        "data_offsets": [len(data), len(data) + len(blob)]}
        data += blob
    text = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + data


class Case(NamedTuple):
    write: Callable[[pathlib.Path], None]
    flags: tuple = ()


CASES = {}


def raw(name, config, shapes=None, same=(), flags=()):
    """A case whose config.json is those bytes (None: there is none)."""
    def write(d):
        if config is not None:
            (d / "config.json").write_bytes(config)
        (d / "model.safetensors").write_bytes(
            model_file(llama_shapes() if shapes is None else shapes, same))
    assert name not in CASES, name
    CASES[name] = Case(write, flags)


def case(name, base=None, drop=(), shapes=None, same=(), flags=(), **change):
    """A case whose config is `base`, or a Llama, with keys changed or gone."""
    config = {**(LLAMA if base is None else base), **change}
    for key in drop:
        del config[key]
    raw(name, json.dumps(config, indent=2).encode(), shapes, same, flags)


# ---- CF-01: the file -------------------------------------------------------

SOUND = json.dumps(LLAMA).encode()
raw("CF-01-legal", SOUND)
raw("CF-01-missing", None)
raw("CF-01-empty", b"")
raw("CF-01-array", b"[" + SOUND + b"]")
raw("CF-01-string", b'"llama"')
raw("CF-01-null", b"null")
raw("CF-01-cut", SOUND[:len(SOUND) // 2])
raw("CF-01-byte-order-mark", b"\xef\xbb\xbf" + SOUND)
raw("CF-01-utf16", SOUND.decode().encode("utf-16"))
raw("CF-01-not-utf8", SOUND[:-1] + b', "name": "\xff"}')
raw("CF-01-duplicate-key", SOUND[:-1] + b', "hidden_size": 12}')
raw("CF-01-legal-nan-and-infinity",
    SOUND[:-1] + b', "time_step_limit": [0.0, Infinity], "unused": NaN}')
raw("CF-01-nan-eps", SOUND.replace(b"1e-05", b"NaN"))
raw("CF-01-infinite-theta", SOUND.replace(b"10000.0", b"Infinity"))
raw("CF-01-integer-1e30",
    SOUND.replace(b'"hidden_size": 12', b'"hidden_size": 1' + b"0" * 30))
raw("CF-01-number-out-of-range", SOUND.replace(b"10000.0", b"1e999"))
raw("CF-01-trailing-comma", SOUND[:-1] + b",}")
raw("CF-01-too-deep", SOUND[:-1] + b', "deep": ' + b"[" * 100 + b"]" * 100
    + b"}")

# ---- CF-02: the family -----------------------------------------------------

case("CF-02-legal-no-architectures", drop=["architectures"])
case("CF-02-legal-architectures-null", architectures=None)
case("CF-02-legal-no-model-type", drop=["model_type"])
case("CF-02-neither", drop=["architectures", "model_type"])
case("CF-02-empty-list", architectures=[])
case("CF-02-string", architectures="LlamaForCausalLM")
case("CF-02-list-of-numbers", architectures=[3])
case("CF-02-legal-two-of-one-family",
     architectures=["LlamaForCausalLM", "LlamaModel"])
case("CF-02-two-families",
     architectures=["LlamaForCausalLM", "MistralForCausalLM"])
case("CF-02-second-unknown",
     architectures=["LlamaForCausalLM", "LlamaForRewards"])
case("CF-02-unknown", architectures=["LlaamaForCausalLM"])
case("CF-02-unlike-any", architectures=["ResNet"], model_type="resnet")
case("CF-02-unknown-model-type", drop=["architectures"], model_type="lama")
case("CF-02-model-type-contradicts", model_type="mistral")
case("CF-02-model-type-number", model_type=7)

# ---- CF-03: integers -------------------------------------------------------

for label, value in {"0": 0, "minus-1": -1, "string": "12", "float": 12.0,
                     "1e9": 10**9, "null": None, "bool": True,
                     "list": [12]}.items():
    case(f"CF-03-hidden-size-{label}", hidden_size=value)
case("CF-03-no-hidden-size", drop=["hidden_size"])
case("CF-03-intermediate-size-0", intermediate_size=0)
case("CF-03-intermediate-size-wrong", intermediate_size=21)
case("CF-03-no-intermediate-size", drop=["intermediate_size"])
case("CF-03-heads-0", num_attention_heads=0)
case("CF-03-heads-too-many", num_attention_heads=65537)
case("CF-03-no-heads", drop=["num_attention_heads"])
case("CF-03-hidden-size-wrong", hidden_size=18)

# ---- CF-04: head_dim -------------------------------------------------------

case("CF-04-legal-head-dim-derived", drop=["head_dim"],
     shapes=llama_shapes(head_dim=2))
case("CF-04-legal-head-dim-null", head_dim=None,
     shapes=llama_shapes(head_dim=2))
case("CF-04-legal-head-dim-explicit")
case("CF-04-hidden-not-a-multiple", drop=["head_dim"], num_attention_heads=5)
case("CF-04-head-dim-0", head_dim=0)
case("CF-04-head-dim-odd", head_dim=9)
case("CF-04-head-dim-wrong", head_dim=12)
case("CF-04-head-dim-huge", head_dim=1 << 20, num_attention_heads=65536,
     num_key_value_heads=65536)
case("CF-04-gpt2-hidden-not-a-multiple", GPT2, n_head=5, shapes=gpt2_shapes())

# ---- CF-05: key-value heads ------------------------------------------------

case("CF-05-legal-absent", drop=["num_key_value_heads"],
     shapes=llama_shapes(kv_heads=6))
case("CF-05-legal-null", num_key_value_heads=None,
     shapes=llama_shapes(kv_heads=6))
case("CF-05-0", num_key_value_heads=0)
case("CF-05-more-than-heads", num_key_value_heads=12)
case("CF-05-not-a-divisor", num_key_value_heads=4)
case("CF-05-wrong", num_key_value_heads=3)

# ---- CF-06: vocab_size -----------------------------------------------------

case("CF-06-legal-minus-1", vocab_size=-1)
case("CF-06-legal-absent", drop=["vocab_size"])
case("CF-06-not-the-rows", vocab_size=132)
case("CF-06-0", vocab_size=0)
case("CF-06-minus-2", vocab_size=-2)
case("CF-06-huge", vocab_size=(1 << 24) + 1)

# ---- CF-07: the head -------------------------------------------------------

WITH_HEAD = {**llama_shapes(), HEAD: [131, 12]}
case("CF-07-legal-tied-absent")
case("CF-07-legal-tied-equal", shapes=WITH_HEAD, same=[EMBED, HEAD])
case("CF-07-tied-different", shapes=WITH_HEAD)
case("CF-07-legal-tied-different-trusted", shapes=WITH_HEAD,
     flags=["--trust-lm-head"])
case("CF-07-legal-untied-present", shapes=WITH_HEAD,
     tie_word_embeddings=False)
case("CF-07-untied-absent", tie_word_embeddings=False)
case("CF-07-legal-untied-absent-assumed", tie_word_embeddings=False,
     flags=["--assume-tied"])
case("CF-07-default-is-untied", drop=["tie_word_embeddings"])
case("CF-07-legal-gpt2-default-is-tied", GPT2, shapes=gpt2_shapes())
case("CF-07-string", tie_word_embeddings="true")
case("CF-07-head-of-another-shape",
     shapes={**llama_shapes(), HEAD: [130, 12]})

# ---- CF-08: rope scaling ---------------------------------------------------

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
YARN = {"rope_type": "yarn", "factor": 4.0,
        "original_max_position_embeddings": 16}
LONG = {"short_factor": [1.0] * 5, "long_factor": [2.0] * 5}
for label, value in {
        "legal-null": None, "legal-empty": {},
        "legal-default": {"rope_type": "default"},
        "legal-type": {"type": "linear", "factor": 2.0},
        "legal-rope-type": {"rope_type": "linear", "factor": 2.0},
        "legal-both-alike": {"type": "linear", "rope_type": "linear",
                             "factor": 2.0},
        "both-different": {"type": "linear", "rope_type": "yarn",
                           "factor": 2.0},
        "legal-factor-integer": {"type": "linear", "factor": 2},
        "factor-string": {"type": "linear", "factor": "2"},
        "factor-below-1": {"type": "linear", "factor": 0.5},
        "factor-0": {"type": "linear", "factor": 0},
        "factor-absent": {"type": "linear"},
        "legal-dynamic": {"type": "dynamic", "factor": 2.0},
        "dynamic-no-factor": {"type": "dynamic"},
        "legal-yarn": YARN,
        "legal-yarn-all-keys": {**YARN, "beta_fast": 16, "beta_slow": 2,
                                "mscale": 0.9, "mscale_all_dim": 0.7,
                                "truncate": False},
        "legal-yarn-attention-factor": {**YARN, "attention_factor": 1.25},
        "yarn-attention-factor-negative": {**YARN, "attention_factor": -1.0},
        "yarn-betas-crossed": {**YARN, "beta_fast": 1, "beta_slow": 32},
        "yarn-mscale-string": {**YARN, "mscale": "1"},
        "yarn-original-0": {**YARN, "original_max_position_embeddings": 0},
        "legal-llama3": LLAMA3,
        "llama3-no-low": {k: v for k, v in LLAMA3.items()
                          if k != "low_freq_factor"},
        "llama3-high-equals-low": {**LLAMA3, "high_freq_factor": 1.0},
        "legal-longrope": {"type": "longrope", **LONG},
        "legal-longrope-original": {"type": "longrope", **LONG,
                                    "original_max_position_embeddings": 16},
        "longrope-short": {"type": "longrope", **LONG, "long_factor": [2.0]},
        "longrope-no-long": {"type": "longrope", "short_factor": [1.0] * 5},
        "longrope-zero": {"type": "longrope", **LONG,
                          "short_factor": [1.0, 1.0, 0.0, 1.0, 1.0]},
        "longrope-number": {"type": "longrope", **LONG, "long_factor": 2.0},
        "legal-su": {"type": "su", **LONG},
        "legal-yarn-means-longrope": {"type": "yarn", **LONG},
        "mrope": {"type": "mrope", "mrope_section": [2, 2, 1]},
        "unknown": {"type": "lineer", "factor": 2.0},
        "type-number": {"type": 3},
        "string": "linear", "list": ["linear", 2.0]}.items():
    case(f"CF-08-{label}", rope_scaling=value)
case("CF-08-legal-rope-parameters", drop=["rope_theta"],
     rope_parameters={**LLAMA3, "rope_theta": 500000.0})
case("CF-08-legal-rope-parameters-alike", rope_scaling=LLAMA3,
     rope_parameters={**LLAMA3, "rope_theta": 10000.0})
case("CF-08-rope-parameters-differ", rope_scaling=LLAMA3,
     rope_parameters={**LLAMA3, "factor": 4.0})
case("CF-08-rope-parameters-nested",
     rope_parameters={"full_attention": LLAMA3})
case("CF-08-original-differs", original_max_position_embeddings=16,
     rope_scaling=LLAMA3)

# ---- CF-09: rope theta -----------------------------------------------------

case("CF-09-legal-absent", drop=["rope_theta"])
case("CF-09-legal-integer", rope_theta=10000)
case("CF-09-0", rope_theta=0)
case("CF-09-negative", rope_theta=-10000.0)
case("CF-09-string", rope_theta="10000")
case("CF-09-two-that-differ", rope_parameters={"rope_theta": 500000.0})
case("CF-09-legal-partial", partial_rotary_factor=0.4)
case("CF-09-partial-odd", partial_rotary_factor=0.5)
case("CF-09-partial-0", partial_rotary_factor=0.0)
case("CF-09-partial-above-1", partial_rotary_factor=1.5)

# ---- CF-10: the activation -------------------------------------------------

for act in ("gelu", "gelu_new", "gelu_pytorch_tanh", "quick_gelu", "silu",
            "swish", "relu", "relu2", "tanh"):
    case(f"CF-10-legal-{act}", hidden_act=act)
case("CF-10-legal-absent", drop=["hidden_act"])
case("CF-10-mish", hidden_act="mish")
case("CF-10-unknown", hidden_act="sillu")
case("CF-10-number", hidden_act=1)

# ---- CF-11: the norm -------------------------------------------------------

case("CF-11-legal-absent", drop=["rms_norm_eps"])
case("CF-11-legal-0", rms_norm_eps=0)
case("CF-11-negative", rms_norm_eps=-1e-5)
case("CF-11-string", rms_norm_eps="1e-5")

# ---- CF-12: windows --------------------------------------------------------

FULL, SLIDING = "full_attention", "sliding_attention"
QWEN2_SHAPES = {**llama_shapes(), **qkv_biases()}


def qwen2(name, **change):
    case(f"CF-12-{name}", QWEN2, shapes=QWEN2_SHAPES, **change)


case("CF-12-legal-mistral", MISTRAL)
case("CF-12-legal-mistral-null", MISTRAL, sliding_window=None)
case("CF-12-mistral-0", MISTRAL, sliding_window=0)
case("CF-12-mistral-string", MISTRAL, sliding_window="8")
case("CF-12-mistral-layer-types-mixed", MISTRAL, layer_types=[SLIDING, FULL])
case("CF-12-legal-llama-ignores-it", sliding_window=8)
case("CF-12-llama-layer-types-slide", layer_types=[SLIDING, FULL])
qwen2("legal-qwen2")
qwen2("legal-qwen2-off", use_sliding_window=False)
qwen2("legal-qwen2-null", sliding_window=None)
qwen2("legal-qwen2-layer-types", layer_types=[FULL, SLIDING])
qwen2("qwen2-layer-types-short", layer_types=[FULL])
qwen2("qwen2-layer-types-off", use_sliding_window=False,
      layer_types=[FULL, SLIDING])
qwen2("qwen2-layer-types-unknown", layer_types=[FULL, "linear_attention"])
qwen2("qwen2-layer-types-number", layer_types=[FULL, 3])
qwen2("qwen2-switch-string", use_sliding_window="yes")
qwen2("qwen2-first-layer-negative", max_window_layers=-1)

# ---- CF-13: biases ---------------------------------------------------------

O_BIASES = {f"model.layers.{i}.self_attn.o_proj.bias": [12] for i in range(2)}
MLP_BIASES = {f"model.layers.{i}.mlp.{n}_proj.bias":
              [12 if n == "down" else 20]
              for i in range(2) for n in ("gate", "up", "down")}
ATTENTION = {**llama_shapes(), **qkv_biases(), **O_BIASES}
case("CF-13-legal-attention-bias", attention_bias=True, shapes=ATTENTION)
case("CF-13-legal-bias-as-internlm-says-it", bias=True, shapes=ATTENTION)
case("CF-13-attention-bias-not-there", attention_bias=True)
case("CF-13-attention-bias-denied", attention_bias=False, shapes=ATTENTION)
case("CF-13-attention-bias-not-said", shapes=ATTENTION)
case("CF-13-attention-bias-in-half-of-them", attention_bias=True,
     shapes=QWEN2_SHAPES)
case("CF-13-legal-mlp-bias", mlp_bias=True,
     shapes={**llama_shapes(), **MLP_BIASES})
case("CF-13-mlp-bias-not-there", mlp_bias=True)
case("CF-13-mlp-bias-denied", mlp_bias=False,
     shapes={**llama_shapes(), **MLP_BIASES})
case("CF-13-qwen2-qkv-bias-not-there", QWEN2)
case("CF-13-qwen2-qkv-bias-denied", QWEN2, qkv_bias=False,
     shapes=QWEN2_SHAPES)
case("CF-13-qwen2-o-bias", QWEN2, shapes={**QWEN2_SHAPES, **O_BIASES})
case("CF-13-mistral-attention-bias", MISTRAL, attention_bias=True,
     shapes=ATTENTION)
case("CF-13-string", attention_bias="true")

# ---- CF-14: the type of the weights ----------------------------------------

case("CF-14-legal-absent", drop=["torch_dtype"])
case("CF-14-legal-bfloat16", torch_dtype="bfloat16")
case("CF-14-legal-auto", torch_dtype="auto")
case("CF-14-legal-prefixed", torch_dtype="torch.float16")
case("CF-14-legal-dtype", drop=["torch_dtype"], dtype="float16")
case("CF-14-legal-both-alike", dtype="float16")
case("CF-14-both-different", dtype="bfloat16")
case("CF-14-float8", torch_dtype="float8_e4m3fn")
case("CF-14-number", torch_dtype=16)

# ---- CF-15: positions ------------------------------------------------------

case("CF-15-legal-absent", drop=["max_position_embeddings"])
case("CF-15-0", max_position_embeddings=0)
case("CF-15-huge", max_position_embeddings=(1 << 26) + 1)
case("CF-15-gpt2-not-the-rows", GPT2, n_positions=17, shapes=gpt2_shapes())

# ---- CF-16: layers ---------------------------------------------------------

case("CF-16-fewer-than-the-tensors", num_hidden_layers=1)
case("CF-16-more-than-the-tensors", num_hidden_layers=3)
case("CF-16-0", num_hidden_layers=0)
case("CF-16-too-many", num_hidden_layers=4097)
case("CF-16-none-in-the-tensors",
     shapes={EMBED: [131, 12], "model.norm.weight": [12]})
case("CF-16-a-hole", shapes={k: v for k, v in llama_shapes(3).items()
                             if ".1." not in k}, num_hidden_layers=3)

# ---- CF-17: quantised weights ----------------------------------------------

for label, value in {
        "unknown": {"quant_method": "zip"},
        "gptq": {"quant_method": "gptq", "bits": 4, "group_size": 128},
        "bits-3": {"quant_method": "gptq", "bits": 3},
        "desc-act": {"quant_method": "gptq", "bits": 4, "desc_act": True},
        "group-size-minus-1": {"quant_method": "awq", "bits": 4,
                               "group_size": -1},
        "group-size-7": {"quant_method": "awq", "bits": 4, "group_size": 7},
        "fp8": {"quant_method": "fp8"}, "no-method": {"bits": 4},
        "string": "gptq"}.items():
    case(f"CF-17-{label}", quantization_config=value)
case("CF-17-legal-null", quantization_config=None)

# ---- CF-18: experts --------------------------------------------------------

MIXTRAL = {**LLAMA, "architectures": ["MixtralForCausalLM"],
           "model_type": "mixtral", "num_local_experts": 4,
           "num_experts_per_tok": 2}
case("CF-18-experts", MIXTRAL)
case("CF-18-top-k-above-experts", MIXTRAL, num_experts_per_tok=8)
case("CF-18-expert-tensors", shapes={
    **llama_shapes(),
    "model.layers.0.block_sparse_moe.gate.weight": [4, 12]})

# ---- CF-19: special ids ----------------------------------------------------

case("CF-19-legal-pad-null", pad_token_id=None)
case("CF-19-legal-pad-minus-1", pad_token_id=-1)
case("CF-19-legal-pad-beyond-vocab", pad_token_id=131)
case("CF-19-legal-eos-list", eos_token_id=[2, 5])
case("CF-19-pad-string", pad_token_id="0")
case("CF-19-eos-list-of-strings", eos_token_id=[2, "5"])

# ---- CF-20: families with a position offset --------------------------------

case("CF-20-opt", architectures=["OPTForCausalLM"], model_type="opt")
case("CF-20-roberta", architectures=["RobertaModel"], model_type="roberta")
case("CF-20-whisper", architectures=["WhisperModel"], model_type="whisper")

# ---- CF-21: nested models --------------------------------------------------

case("CF-21-text-config", architectures=["LlavaForConditionalGeneration"],
     model_type="llava", text_config=LLAMA)
case("CF-21-vision-config", vision_config={"hidden_size": 12})
case("CF-21-legal-text-config-null", text_config=None)

# ---- CF-22: code of the checkpoint -----------------------------------------

case("CF-22-legal-auto-map",
     auto_map={"AutoModelForCausalLM": "modeling_llama.LlamaForCausalLM"})
case("CF-22-unknown-with-auto-map", architectures=["MyForCausalLM"],
     model_type="my", auto_map={"AutoModelForCausalLM": "my.MyForCausalLM"})

# ---- names (a base model, one tensor too many) ------------------------------

case("CF-23-legal-no-prefix", shapes={
    k.replace("model.", "", 1): v for k, v in llama_shapes().items()})
case("CF-23-legal-frequencies", shapes={
    **llama_shapes(), "model.layers.0.self_attn.rotary_emb.inv_freq": [5]})
case("CF-23-extra", shapes={
    **llama_shapes(), "model.layers.0.self_attn.q_norm.weight": [10]})
case("CF-23-five-extra", shapes={
    **llama_shapes(), **{f"extra.{i}": [3] for i in range(5)}})
case("CF-23-missing", shapes={
    k: v for k, v in llama_shapes().items() if k != "model.norm.weight"})
case("CF-23-legal-gpt2", GPT2, shapes=gpt2_shapes())
case("CF-23-legal-gpt2-buffers", GPT2, shapes={
    **gpt2_shapes(), "h.0.attn.bias": [1, 1, 16, 16],
    "h.1.attn.masked_bias": [1]})
case("CF-23-gpt2-not-transposed", GPT2, shapes={
    **gpt2_shapes(), "h.1.mlp.c_fc.weight": [20, 12]})
case("CF-23-gpt2-cross-attention", GPT2, add_cross_attention=True,
     shapes=gpt2_shapes())

# ---- the other families: a golden case's config and tensors, but for one thing

MODELS = pathlib.Path(__file__).resolve().parent.parent / "golden_cases/models"


def golden_shapes(name):
    with (MODELS / name / "model.safetensors").open("rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    return {k: v["shape"] for k, v in header.items() if k != "__metadata__"}


def family(name, label, *, without=(), extra=None, **change):
    """`without`: tensors whose names hold one of these are not there."""
    config = json.loads((MODELS / name / "config.json").read_text())
    shapes = {k: v for k, v in golden_shapes(name).items()
              if not any(part in k for part in without)}
    drop = [k for k in change.pop("drop", ()) if k in config]
    case(f"FA-{name}-{label}", config, drop=drop,
         shapes={**shapes, **(extra or {})}, **change)


def families():
    family("bloom", "legal-sequences", seq_length=4096)
    family("bloom", "residual-of-the-norm",
           apply_residual_connection_post_layernorm=True)
    family("bloom", "heads-do-not-divide", n_head=5)
    family("bloom", "no-embedding-norm", without=["embeddings_layernorm"])
    family("cohere", "legal-no-scale", drop=["logit_scale"])
    family("cohere", "scale-string", logit_scale="0.25")
    family("cohere", "query-norms-not-there", use_qk_norm=True)
    family("cohere-qk-norm", "query-norms-denied", use_qk_norm=False)
    family("cohere-qk-norm", "query-norms-string", use_qk_norm="yes")
    family("falcon-mqa", "biases-not-there", bias=True)
    family("falcon-mqa", "many-heads", multi_query=False)
    family("falcon-mqa", "many-heads-string", multi_query="no")
    family("falcon-mqa", "new-decoder", new_decoder_architecture=True,
           num_kv_heads=1)
    family("falcon-mqa", "sequential", parallel_attn=False)
    family("falcon-mqa", "legal-alibi", alibi=True)
    family("falcon-mqa", "alibi-number", alibi=1)
    family("falcon-new", "one-norm", num_ln_in_parallel_attn=1)
    family("falcon-new", "kv-heads-do-not-divide", num_kv_heads=4)
    family("falcon-new", "legal-old-names", drop=[
        "new_decoder_architecture", "num_kv_heads", "num_attention_heads",
        "num_hidden_layers", "num_ln_in_parallel_attn"],
        architectures=["RWForCausalLM"], model_type="RefinedWeb", n_head=6,
        n_head_kv=2, n_layer=2)
    family("galactica", "affine-norms", layer_norm_elementwise_affine=True)
    family("gemma", "both-directions", use_bidirectional_attention=True)
    family("gemma", "legal-gelu-means-tanh", hidden_act="gelu")
    family("gemma", "legal-hidden-activation", hidden_activation="relu")
    family("gemma", "unknown-activation", hidden_activation="gelus")
    family("gemma", "no-head-dim-means-256", drop=["head_dim"])
    family("gemma2", "legal-no-softcaps", attn_logit_softcapping=None,
           final_logit_softcapping=None)
    family("gemma2", "softcap-0", attn_logit_softcapping=0)
    family("gemma2", "softcap-negative", final_logit_softcapping=-30.0)
    family("gemma2", "softcap-string", attn_logit_softcapping="50")
    family("gemma2", "scalar-0", query_pre_attn_scalar=0)
    family("gemma2", "legal-no-layer-types", drop=["layer_types"])
    family("gemma2", "layer-types-short", layer_types=["full_attention"])
    family("gemma2", "window-0", sliding_window=0)
    family("gemma2", "no-post-norms", without=["post_feedforward"])
    family("gemma3-text", "pattern-0", sliding_window_pattern=0)
    family("gemma3-text", "local-base-0", rope_local_base_freq=0)
    family("gemma3-text", "flat-parameters", rope_parameters={
        "rope_type": "default", "rope_theta": 10000.0})
    family("gemma3-text", "sliding-kind-unknown", rope_parameters={
        "sliding_attention": {"rope_type": "lineer"}})
    family("gemma3-text", "theta-differs", rope_parameters={
        "full_attention": {"rope_theta": 5.0}})
    family("gpt-j", "rotary-odd", rotary_dim=3)
    family("gpt-j", "rotary-beyond-the-head", rotary_dim=10)
    family("gpt-j", "rotary-0", rotary_dim=0)
    family("gpt-j", "rotary-string", rotary_dim="4")
    family("gpt-j", "legal-rotary-null", rotary_dim=None)
    family("gpt-j", "no-head-bias", without=["lm_head.bias"])
    family("gpt-neo", "types-too-few", drop=["attention_layers"],
           attention_types=[[["global"], 2]])
    family("gpt-neo", "types-unknown", attention_types=[[["globe"], 3]])
    family("gpt-neo", "types-absent", drop=["attention_types",
                                            "attention_layers"])
    family("gpt-neo", "layers-differ", attention_layers=["local"] * 3)
    family("gpt-neo", "window-0", window_size=0)
    family("gpt-neox", "residual-string", use_parallel_residual="true")
    family("gpt-neox", "biases-denied", attention_bias=False)
    family("gpt-neox-sequential", "legal-parallel",
           use_parallel_residual=True)
    family("gpt-neox-sequential", "part-above-1", rotary_pct=1.5)
    family("gpt-neox-sequential", "part-odd", rotary_pct=0.375)
    family("gpt-neox-sequential", "base-0", rotary_emb_base=0)
    family("granite", "logits-scaling-0", logits_scaling=0)
    family("granite", "residual-string", residual_multiplier="0.5")
    family("granite", "biases-denied", attention_bias=False)
    family("internlm2", "biases-denied", bias=False)
    family("internlm2", "groups-differ", num_key_value_heads=3)
    family("olmo2", "biases-not-there", attention_bias=True)
    family("olmo2", "no-query-norm", without=["q_norm"])
    family("opt", "post-norm", do_layer_norm_before=False)
    family("opt", "post-norm-string", do_layer_norm_before="no")
    family("opt", "final-norm-denied", _remove_final_layer_norm=True)
    family("opt", "projections-not-there", word_embed_proj_dim=20)
    family("opt", "projection-0", word_embed_proj_dim=0)
    family("opt", "biases-denied", enable_bias=False)
    family("opt", "relu6", activation_function="relu6")
    family("opt-350m-style", "projections-denied",
           word_embed_proj_dim=48)
    family("opt-350m-style", "legal-no-model-prefix-is-tied",
           extra={"lm_head.weight": [131, 20]}, tie_word_embeddings=False)
    family("phi", "query-norms-not-there", qk_layernorm=True)
    family("phi-qk-layernorm", "query-norms-denied", qk_layernorm=False)
    family("phi", "part-0", drop=["rope_parameters"],
           partial_rotary_factor=0)
    family("phi3-longrope", "factors-short", rope_scaling={
        "type": "longrope", "short_factor": [1.0], "long_factor": [2.0]})
    family("phi3-longrope", "no-long-factors", rope_scaling={
        "type": "su", "short_factor": [1.0] * 3})
    family("phi3-longrope", "kind-unknown", rope_scaling={"type": "long"})
    family("phi3", "biases", attention_bias=True)
    family("phi3", "window-string", sliding_window="8")
    family("qwen", "odd-inner-size", intermediate_size=153)
    family("qwen", "biases-not-there", no_bias=False)
    family("qwen", "unscaled", scale_attn_weights=False)
    family("qwen", "legal-no-extension", use_dynamic_ntk=False,
           use_logn_attn=False)
    family("qwen3", "no-head-dim-means-128", drop=["head_dim"])
    family("qwen3", "biases-denied", attention_bias=False)
    family("qwen3", "no-key-norm", without=["k_norm"])
    family("stablelm", "parallel", use_parallel_residual=True)
    family("stablelm", "biases-denied", use_qkv_bias=False)
    family("stablelm", "scaled-as-before", rotary_scaling_factor=2.0)
    family("stablelm", "legal-old-names", drop=["layer_norm_eps"],
           architectures=["StableLMEpochForCausalLM"], rope_pct=0.25,
           model_type="stablelm_epoch", norm_eps=1e-5,
           rotary_scaling_factor=1)
    family("stablelm-parallel", "query-norms-denied", qk_layernorm=False)
    family("stablelm-parallel", "one-head-short", without=["norms.5"])
    family("stablelm-parallel", "sequential", use_parallel_residual=False)
    family("starcoder2", "biases-denied", use_bias=False)
    family("starcoder2", "gated", mlp_type="gated")
    family("starcoder2-no-bias", "biases-not-there", use_bias=True)


families()


def megatron():
    """Names of three generations, layouts by version, and arguments that no
    version of the block here has."""
    old, core = "megatron-gpt", "megatron-core"
    grouped, rows = "megatron-gpt-grouped", "megatron-gpt-rows"
    for label, change in (
            ("post-norm-residual",
             {"apply_residual_connection_post_layernorm": True}),
            ("post-norms", {"post_self_attn_layernorm": True}),
            ("embedding-norm", {"embed_layernorm": True}),
            ("experts", {"num_experts": 8}),
            ("experts-of-layers", {"num_experts": [8, 16]}),
            ("more-tokens", {"mtp_num_layers": 1}),
            ("window", {"window_size": [127, 0]}),
            ("latent-attention", {"multi_latent_attention": True}),
            ("rope-llama3", {"use_rope_scaling": True}),
            ("rope-interpolated", {"rotary_seq_len_interpolation_factor": 4}),
            ("layers-without-rope", {"no_rope_freq": 4}),
            ("softmax-off-by-one", {"softmax_type": "off-by-one"}),
            ("norms-of-length", {"qk_l2_norm": True}),
            ("offset-of-gate", {"glu_linear_offset": 1.0}),
            ("two-activations", {"squared_relu": True}),
            ("two-gates", {"quick_geglu": True}),
            ("gate-not-there", {"swiglu": False}),
            ("biases-denied", {"add_bias_linear": False}),
            ("norm-unknown", {"normalization": "BatchNorm"}),
            ("rms-with-biases", {"normalization": "RMSNorm"}),
            ("key-norms-denied", {"qk_layernorm": False}),
            ("positions-relative", {"position_embedding_type": "relative"}),
            ("positions-not-there",
             {"position_embedding_type": "learned_absolute"}),
            ("groups-do-not-divide", {"num_query_groups": 4}),
            ("groups-switched-off", {"group_query_attention": False}),
            ("head-not-there", {"untie_embeddings_and_output_weights": True}),
            ("version-unknown", {"checkpoint_version": 4.0}),
            ("version-as-text", {"checkpoint_version": "latest"}),
            ("by-row-but-grouped", {"checkpoint_version": 1.0}),
            ("rotated-part-odd", {"rotary_percent": 0.5})):
        family(core, label, **change)
    family(core, "no-inner-size", drop=["ffn_hidden_size"])
    family(core, "no-positions", drop=["max_position_embeddings"])
    family(core, "no-fused-norm",
           without=["linear_fc1.layer_norm_weight"])
    family(core, "no-queries", without=["linear_qkv.weight"])
    family(core, "no-up", without=["1.mlp.linear_fc1.weight"])
    family(core, "two-generations", extra={
        "decoder.layers.0.input_layernorm.weight": [48]})
    family(core, "cross-attention", extra={
        "decoder.layers.0.inter_attention.linear_q.weight": [60, 48]})
    family(core, "legal-one-expert-of-deepspeed", num_experts=[1])
    family(core, "legal-rows-say-the-vocabulary", drop=["padded_vocab_size"])
    family(core, "legal-keys-of-the-core", drop=["group_query_attention"])
    family(core, "legal-class", architectures=["GPTModel"])
    family(old, "rope-beside-a-table", use_rotary_position_embeddings=True)
    family(old, "no-table", without=["position_embeddings"])
    family(old, "legal-no-sizes-twice", drop=["seq_length"])
    family(old, "gate", swiglu=True)
    family(old, "vocabulary-padded", padded_vocab_size=136)
    family(grouped, "tied-but-another-head",
           untie_embeddings_and_output_weights=False)
    family(grouped, "query-biases-denied", add_qkv_bias=False)
    family(grouped, "no-late-norm", without=["post_attention_norm"])
    family(rows, "layers-fewer", num_layers=1)
    family(rows, "head-size", kv_channels=8)


megatron()


def encoders():
    family("bert-relu", "decoder", is_decoder=True)
    family("bert-relu", "relative-positions",
           position_embedding_type="relative_key")
    family("bert-relu", "legal-no-pooler", without=["pooler"])
    family("bert-relu", "types-fewer", type_vocab_size=2)
    family("bert-relu", "unknown-tensor", extra={"cls.other.weight": [3, 3]})
    family("bert-tokens", "no-classifier", without=["classifier"])
    family("bert-tokens", "labels-without-numbers",
           id2label={"O": "O", "B": "B"})
    family("bert-tokens", "labels-fewer", id2label={"0": "O", "1": "B"})
    family("bert-tokens", "labels-none", id2label={})
    family("bert-one-class", "problem-unknown", problem_type="ranking")
    family("bert-one-class", "no-pooler", without=["pooler"])
    family("bert-old-names", "no-transform", without=["transform.dense"])
    family("bert-old-names", "legal-as-base-model",
           architectures=["BertModel"])
    family("roberta-mlm", "padding-beyond-positions", pad_token_id=25)
    family("roberta-mlm", "padding-none", pad_token_id=-1)
    family("distilbert-qa", "no-bias", without=["qa_outputs.bias"])
    family("distilbert-mlm", "activation-unknown", activation="gelu_9")
    family("t5", "projection-unknown", feed_forward_proj="gated-tanhshrink")
    family("t5", "gate-not-there", feed_forward_proj="gated-gelu")
    family("t5", "distance-short", relative_attention_max_distance=3)
    family("t5", "no-buckets", relative_attention_num_buckets=0)
    family("t5", "layers-fewer", num_decoder_layers=2)
    family("t5", "no-cross-attention", without=["EncDecAttention.k"])
    family("t5-gated", "legal-said-tied-with-another-head", tie_word_embeddings=True)
    family("clip", "older-section-no-object", text_config_dict=3)
    family("clip", "no-scale", without=["logit_scale"])
    family("clip", "projection-of-another-size", projection_dim=24)
    for label, change in (("patch-no-divisor", {"patch_size": 5}),
                          ("grey", {"num_channels": 1}),
                          ("image-larger", {"image_size": 16})):
        vision = json.loads((MODELS / "clip" / "config.json").read_text())
        family("clip", label,
               vision_config={**vision["vision_config"], **change})


encoders()


def write_case(folder, name):
    """Writes one case into folder/name and returns that path."""
    d = pathlib.Path(folder) / name
    d.mkdir(parents=True)
    CASES[name].write(d)
    return d


if __name__ == "__main__":
    bad_cases.main(__doc__, CASES, write_case)
