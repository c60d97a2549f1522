#!/usr/bin/env python3
"""Writes the golden cases of encoder-decoders into models/, beside this file.

    make_seq2seq_cases.py [--out DIR] [CASE...]

Needs torch, transformers (5) and safetensors. A case is a tiny model of random
weights with the logits and the greedy tokens of the published implementation in
float32, two prompts each, and its own error in the 16-bit types.
"""
import argparse
import json
import math
import pathlib

import torch
import transformers
from safetensors.torch import save_file

# 5 heads of 6 (30) over width 32, 71 words, an MLP of 50, 2 and 3 layers;
# texts longer than the distance that the buckets tell apart.
SIZES = {"d_model": 32, "num_heads": 5, "d_kv": 6, "d_ff": 50,
         "num_layers": 2, "num_decoder_layers": 3, "vocab_size": 71,
         "relative_attention_num_buckets": 12,
         "relative_attention_max_distance": 14,
         "decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}
CASES = {
    "t5": ("T5ForConditionalGeneration", {**SIZES, "feed_forward_proj": "relu"}),
    "t5-gated": ("T5ForConditionalGeneration",
                 {**SIZES, "feed_forward_proj": "gated-gelu",
                  "tie_word_embeddings": False}),
    "mt5-silu": ("MT5ForConditionalGeneration",
                 {**SIZES, "feed_forward_proj": "gated-silu",
                  "tie_word_embeddings": False, "num_decoder_layers": 1}),
    # mT5 never scales its outputs, T5 does where they are tied.
    "mt5-tied": ("MT5ForConditionalGeneration",
                 {**SIZES, "feed_forward_proj": "gated-gelu",
                  "num_layers": 1, "num_decoder_layers": 1}),
    # As transformers 5 saves every one: said to be tied, whatever it is.
    "mt5-said-tied": ("MT5ForConditionalGeneration",
                      {**SIZES, "feed_forward_proj": "gated-gelu",
                       "tie_word_embeddings": True, "num_layers": 1}),
}
OWN_HEAD = {"t5-gated", "mt5-silu", "mt5-said-tied"}
LENGTHS = (29, 3)


def randomise(model):
    for name, p in model.named_parameters():
        with torch.no_grad():
            if p.dim() == 1:
                p.copy_(1 + 0.2 * torch.randn_like(p))
            elif "relative" in name:
                p.copy_(torch.randn_like(p))
            else:
                p.copy_(torch.randn_like(p) * (1.3 / math.sqrt(p.shape[-1])))


def greedy(model, ids, count):
    """Tokens, the smallest gap to the second, end of sequence ignored."""
    out, gap = [0], math.inf
    with torch.no_grad():
        for _ in range(count):
            logits = model(input_ids=ids, decoder_input_ids=torch.tensor([out])
                           ).logits[0, -1]
            top = torch.topk(logits, 2).values
            gap = min(gap, (top[0] - top[1]).item())
            out.append(int(logits.argmax()))
    return out[1:], gap


def make(name, out):
    architecture, config = CASES[name]
    torch.manual_seed(sum(map(ord, name)))
    cls = getattr(transformers, architecture)
    model = cls(cls.config_class(**config)).eval()
    randomise(model)
    if name not in OWN_HEAD:
        model.tie_weights()
    else:  # transformers 5 ties them whatever the config says
        head = torch.nn.Parameter(torch.randn(71, 32) * 0.2)
        model.lm_head.weight = head
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {k: v.clone().contiguous() for k, v in model.state_dict().items()
               if "embed_tokens" not in k}
    if name not in OWN_HEAD:
        tensors.pop("lm_head.weight")
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    written = {**model.config.to_dict(), "architectures": [architecture]}
    if "tie_word_embeddings" in config:
        written["tie_word_embeddings"] = config["tie_word_embeddings"]
        written.pop("scale_decoder_outputs", None)
    written = {k: v for k, v in written.items()
               if isinstance(v, (int, float, str, list)) and k in (
                   *SIZES, "architectures", "model_type", "feed_forward_proj",
                   "tie_word_embeddings", "layer_norm_epsilon",
                   "scale_decoder_outputs", "is_encoder_decoder")}
    (folder / "config.json").write_text(json.dumps(written, indent=1) + "\n")
    golden, errors, margin = {}, {}, math.inf
    for i, n in enumerate(LENGTHS):
        ids = torch.randint(2, 71, (1, n))
        decoder = torch.cat([torch.zeros(1, 1, dtype=torch.int64),
                             torch.randint(2, 71, (1, n // 2 + 16))], 1)
        with torch.no_grad():
            logits = model(input_ids=ids, decoder_input_ids=decoder).logits
        tokens, gap = greedy(model, ids, 10)
        margin = min(margin, gap)
        golden[f"{i}.input_ids"] = ids
        golden[f"{i}.decoder_input_ids"] = decoder
        golden[f"{i}.logits"] = logits
        golden[f"{i}.greedy"] = torch.tensor(tokens)
        for label, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16)):
            with torch.no_grad():
                got = model.to(dtype)(input_ids=ids, decoder_input_ids=decoder
                                      ).logits
            model.load_state_dict({k: v for k, v in tensors.items()}, strict=False)
            model.float()
            model.load_state_dict({k: v for k, v in tensors.items()}, strict=False)
            d = got.double() - logits.double()
            worst = [(d.norm() / logits.double().norm()).item(),
                     (d.abs().max() / logits.abs().max()).item()]
            errors[label] = [max(a, b) for a, b in
                             zip(errors.get(label, [0, 0]), worst)]
    save_file({k: v.contiguous() for k, v in golden.items()},
              folder / "golden.safetensors")
    (folder / "golden.json").write_text(json.dumps(
        {"task": "seq2seq-lm", "prompts": len(LENGTHS), "vocab": 71,
         "min_greedy_margin": margin, "error": errors}, indent=1) + "\n")
    print(name, margin, errors, golden["0.greedy"].tolist())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path,
                        default=pathlib.Path(__file__).parent / "models")
    parser.add_argument("cases", nargs="*", default=list(CASES))
    args = parser.parse_args()
    for name in args.cases:
        make(name, args.out)


main()
