#!/usr/bin/env python3
"""Writes the golden cases of encoders into models/, beside this file.

    make_encoder_cases.py [--out DIR] [CASE...]

Needs torch, transformers (5) and safetensors. A case is a tiny model of random
weights with what the published implementation makes of a padded batch in
float32, each row computed alone, and its own error in the 16-bit types.
"""
import argparse
import json
import math
import pathlib

import torch
import transformers
from safetensors.torch import load_file, save_file

# 6 heads of 6 over width 36, 71 words, an MLP of 50: no two are alike.
BERT = {"hidden_size": 36, "num_hidden_layers": 2, "num_attention_heads": 6,
        "vocab_size": 71, "intermediate_size": 50, "type_vocab_size": 3,
        "max_position_embeddings": 24, "pad_token_id": 0}
ROBERTA = {**BERT, "type_vocab_size": 1, "max_position_embeddings": 26,
           "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2,
           "layer_norm_eps": 1e-5}
DISTILBERT = {"dim": 36, "n_layers": 2, "n_heads": 6, "vocab_size": 71,
              "hidden_dim": 50, "max_position_embeddings": 24,
              "pad_token_id": 0}
THREE = {"num_labels": 3, "id2label": {0: "no", 1: "maybe", 2: "yes"},
         "label2id": {"no": 0, "maybe": 1, "yes": 2}}

# Case: class, config, outputs, and what is done to the saved tensors' names.
CASES = {
    "bert-tokens": ("BertForTokenClassification", {**BERT, "num_labels": 5},
                    ["logits"]),
    "bert-qa": ("BertForQuestionAnswering", BERT,
                ["start_logits", "end_logits"]),
    "bert-relu": ("BertModel", {**BERT, "hidden_act": "relu"},
                  ["last_hidden_state", "pooler_output"]),
    # As published in 2018: gamma and beta, and a pooler that nothing reads.
    "bert-old-names": ("BertForPreTraining", BERT, ["prediction_logits"]),
    # A bias of the decoder's own beside the one that ties would make its.
    "bert-untied": ("BertForMaskedLM", {**BERT, "tie_word_embeddings": False},
                    ["logits"]),
    "bert-one-class": ("BertForSequenceClassification",
                       {**BERT, "num_labels": 1}, ["logits"]),
    "distilbert-classify": ("DistilBertForSequenceClassification",
                            {**DISTILBERT, **THREE}, ["logits"]),
    "distilbert-mlm": ("DistilBertForMaskedLM", DISTILBERT, ["logits"]),
    "distilbert-qa": ("DistilBertForQuestionAnswering", DISTILBERT,
                      ["start_logits", "end_logits"]),
    "roberta-classify": ("RobertaForSequenceClassification",
                         {**ROBERTA, **THREE,
                          "problem_type": "multi_label_classification"},
                         ["logits"]),
    "roberta-mlm": ("RobertaForMaskedLM", ROBERTA, ["logits"]),
    "roberta-tokens": ("XLMRobertaForTokenClassification",
                       {**ROBERTA, "num_labels": 4}, ["logits"]),
}
OLD = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
LENGTHS = (17, 5, 1)


def randomise(model):
    """Biases, norms and small heads that are not zeros or ones."""
    for name, p in model.named_parameters():
        if p.dim() == 0:
            continue
        with torch.no_grad():
            if p.dim() == 1:
                norm = "norm" in name.lower() and name.endswith("weight")
                p.copy_(torch.randn_like(p) * 0.2 + (1.0 if norm else 0.0))
            else:
                p.copy_(torch.randn_like(p) * (1.2 / math.sqrt(p.shape[-1])))


def inputs(config, pad):
    width = max(LENGTHS)
    ids = torch.full((len(LENGTHS), width), pad)
    mask = torch.zeros(len(LENGTHS), width, dtype=torch.int64)
    types = torch.zeros(len(LENGTHS), width, dtype=torch.int64)
    for row, n in enumerate(LENGTHS):
        ids[row, :n] = torch.randint(4, 71, (n,))
        mask[row, :n] = 1
        types[row, n // 2:n] = 1 if getattr(config, "type_vocab_size", 1) > 1 else 0
    return ids, mask, types


def run(model, outputs, ids, mask, types, has_types):
    """Each row alone, put back into the padded batch."""
    rows = []
    for r, n in enumerate(LENGTHS):
        feed = {"input_ids": ids[r:r + 1, :n], "attention_mask": mask[r:r + 1, :n]}
        if has_types:
            feed["token_type_ids"] = types[r:r + 1, :n]
        with torch.no_grad():
            out = model(**feed)
        rows.append([getattr(out, o)[0].float() for o in outputs])
    whole = {}
    for o, name in enumerate(outputs):
        parts = [row[o] for row in rows]
        per_token = all(p.shape[:1] == (n,) for p, n in zip(parts, LENGTHS)) and \
            parts[0].dim() == (1 if name in ("start_logits", "end_logits") else 2)
        if per_token:
            full = torch.zeros(len(LENGTHS), max(LENGTHS), *parts[0].shape[1:])
            for r, (p, n) in enumerate(zip(parts, LENGTHS)):
                full[r, :n] = p
        else:
            full = torch.stack(parts)
        whole["logits" if name == "prediction_logits" else name] = full
    return whole


def make(name, out):
    architecture, config, outputs = CASES[name]
    torch.manual_seed(sum(map(ord, name)))
    cls = getattr(transformers, architecture)
    model = cls(cls.config_class(**config)).eval()
    randomise(model)
    model.tie_weights()
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    tensors = load_file(folder / "model.safetensors")
    if name == "bert-old-names":
        renamed = {}
        for key, value in tensors.items():
            for new, old in OLD.items():
                key = key.replace(new, old)
            renamed[key] = value
        save_file(renamed, folder / "model.safetensors", {"format": "pt"})
    pad = config["pad_token_id"]
    ids, mask, types = inputs(model.config, pad)
    has_types = "distilbert" not in name
    want = run(model, outputs, ids, mask, types, has_types)
    errors = {}
    for label, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16)):
        got = run(cls.from_pretrained(folder, dtype=dtype).eval()
                  if name != "bert-old-names" else model.to(dtype),
                  outputs, ids, mask, types, has_types)
        worst = [0.0, 0.0]
        for key, ref in want.items():
            d = got[key].double() - ref.double()
            worst[0] = max(worst[0], (d.norm() / ref.double().norm()).item())
            worst[1] = max(worst[1], (d.abs().max() / ref.abs().max()).item())
        errors[label] = worst
        model.float()
    golden = {"input_ids": ids, "attention_mask": mask, **want}
    if has_types:
        golden["token_type_ids"] = types
    save_file({k: v.contiguous() for k, v in golden.items()},
              folder / "golden.safetensors")
    (folder / "golden.json").write_text(json.dumps(
        {"task": architecture, "batch": len(LENGTHS), "padded": True,
         "vocab": 71, "error": errors}, indent=1) + "\n")
    print(name, {k: list(v.shape) for k, v in want.items()}, errors)


def make_clip(out):
    """Texts that end at the first token 70, and pictures."""
    torch.manual_seed(7)
    text = {"hidden_size": 36, "num_hidden_layers": 2, "num_attention_heads": 6,
            "intermediate_size": 50, "vocab_size": 71, "hidden_act": "gelu",
            "max_position_embeddings": 24, "eos_token_id": 70,
            "bos_token_id": 1, "pad_token_id": 0}
    vision = {"hidden_size": 30, "num_hidden_layers": 3,
              "num_attention_heads": 5, "intermediate_size": 44,
              "image_size": 12, "patch_size": 4, "hidden_act": "quick_gelu"}
    config = transformers.CLIPConfig(text_config=text, vision_config=vision,
                                     projection_dim=20)
    model = transformers.CLIPModel(config).eval()
    randomise(model)
    with torch.no_grad():
        model.vision_model.embeddings.class_embedding.copy_(torch.randn(30))
        model.logit_scale.fill_(1.7)
    folder = out / "clip"
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    ids = torch.randint(2, 70, (2, 9))
    ids[0, 8], ids[1, 4] = 70, 70
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    pixels = torch.randn(3, 3, 12, 12)

    def run_clip(m, dtype):
        with torch.no_grad():
            o = m(input_ids=ids, attention_mask=mask,
                  pixel_values=pixels.to(dtype))
        return {k: getattr(o, k).float() for k in
                ("text_embeds", "image_embeds", "logits_per_image",
                 "logits_per_text")}

    want = run_clip(model, torch.float32)
    errors = {}
    for label, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16)):
        got = run_clip(transformers.CLIPModel.from_pretrained(
            folder, dtype=dtype).eval(), dtype)
        errors[label] = [
            max(((got[k] - r).norm() / r.norm()).item() for k, r in want.items()),
            max(((got[k] - r).abs().max() / r.abs().max()).item()
                for k, r in want.items())]
    save_file({"input_ids": ids, "attention_mask": mask,
               "pixel_values": pixels,
               **{k: v.contiguous() for k, v in want.items()}},
              folder / "golden.safetensors")
    (folder / "golden.json").write_text(json.dumps(
        {"task": "clip", "error": errors}, indent=1) + "\n")
    print("clip", {k: list(v.shape) for k, v in want.items()}, errors)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path,
                        default=pathlib.Path(__file__).parent / "models")
    parser.add_argument("cases", nargs="*", default=[*CASES, "clip"])
    args = parser.parse_args()
    for name in args.cases:
        if name == "clip":
            make_clip(args.out)
        else:
            make(name, args.out)


main()
