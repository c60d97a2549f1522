#!/usr/bin/env python3
"""Trains small sentencepiece models and a file of ranks, and writes what
sentencepiece's own library and tiktoken make of texts by them.

    make_model_goldens.py   (needs PyPI sentencepiece 0.2.3, tiktoken 0.14,
                             tokenizers 0.23.3, protobuf)

Writes models/*.model, models/ranks.tiktoken and model_goldens.json.
"""
import base64
import json
import pathlib
import random
import tempfile

import sentencepiece
import tiktoken
import tokenizers
from sentencepiece import sentencepiece_model_pb2
from tiktoken_ext import openai_public

from make_component_goldens import PATTERNS, RULES, TEXTS

HERE = pathlib.Path(__file__).resolve().parent
CORPUS = HERE.parents[2] / "tests/golden_cases/real/eval.txt"
MORE = ["the HTML foo <usr> <ctl> ab c x\u2581foo", " <usr>  the  ",
        "<s> a </s> <unk><pad>", "and the LORD said unto Moses, Go",
        "a" * 40, "\n" * 9, "<0x41><0xE2>", "xyz\u4f60\u4f60\u4f60 q"]
USER = ["<usr>", "\u2581foo", "the", "ab c"]
MODELS = {
    "bpe": dict(model_type="bpe", vocab_size=700, byte_fallback=True,
                normalization_rule_name="identity",
                remove_extra_whitespaces=False, split_digits=True),
    "bpe_user": dict(model_type="bpe", vocab_size=360,
                     user_defined_symbols=USER, control_symbols=["<ctl>"],
                     normalization_rule_name="identity"),
    "bpe_suffix": dict(model_type="bpe", vocab_size=300,
                       treat_whitespace_as_suffix=True,
                       normalization_rule_name="identity"),
    "unigram": dict(model_type="unigram", vocab_size=300, pad_id=0, eos_id=1,
                    unk_id=2, bos_id=-1, user_defined_symbols=USER),
    "unigram_byte": dict(model_type="unigram", vocab_size=500,
                         byte_fallback=True, add_dummy_prefix=False,
                         normalization_rule_name="identity"),
}


def train(folder):
    corpus = folder / "corpus.txt"
    lines = CORPUS.read_text().splitlines()[:3000]
    extra = ["\u041f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440",
             "caf\u00e9 na\u00efve 1 2 3", "HTML foo the ab c"] * 60
    corpus.write_text("\n".join(lines + extra) + "\n")
    rules = folder / "rules.tsv"
    rules.write_text("".join(
        " ".join("%04X" % ord(c) for c in key) + "\t" +
        " ".join("%04X" % ord(c) for c in text) + "\n"
        for key, text in RULES.items() if text and key != "\x01"))
    for name, options in MODELS.items():
        options = dict(options)
        if "normalization_rule_name" not in options:
            options["normalization_rule_tsv"] = str(rules)
        sentencepiece.SentencePieceTrainer.train(
            input=str(corpus), model_prefix=str(folder / name),
            minloglevel=2, num_threads=1, character_coverage=0.9995,
            **options)
        model = sentencepiece_model_pb2.ModelProto()
        model.ParseFromString((folder / f"{name}.model").read_bytes())
        if name == "bpe_suffix":  # some steps of merging are no tokens
            chosen = random.Random(5)
            for piece in model.pieces:
                if piece.type == 1 and len(piece.piece) > 1 and \
                        chosen.random() < .3:
                    piece.type = 5
        model.trainer_spec.ClearField("input")
        model.trainer_spec.ClearField("model_prefix")
        model.normalizer_spec.ClearField("normalization_rule_tsv")
        (HERE / "models" / f"{name}.model").write_bytes(
            model.SerializeToString(deterministic=True))


def make_ranks(folder):
    corpus = folder / "corpus.txt"
    t = tokenizers.Tokenizer(tokenizers.models.BPE())
    level = tokenizers.pre_tokenizers.ByteLevel
    t.pre_tokenizer = level(add_prefix_space=False)
    t.train([str(corpus)], tokenizers.trainers.BpeTrainer(
        vocab_size=800, initial_alphabet=level.alphabet(), special_tokens=[],
        show_progress=False))
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    byte_of = {chr(b): b for b in plain}
    byte_of.update({chr(256 + i): b for i, b in enumerate(
        b for b in range(256) if b not in plain)})
    order = sorted(t.get_vocab().items(), key=lambda x: x[1])
    ranks = {bytes(byte_of[c] for c in token): i for token, i in order}
    (HERE / "models/ranks.tiktoken").write_text("".join(
        base64.b64encode(token).decode() + f" {i}\n"
        for token, i in ranks.items()))
    return ranks


def main():
    (HERE / "models").mkdir(exist_ok=True)
    texts = TEXTS + MORE
    out = {"texts": texts, "sentencepiece": {}, "tiktoken": {}}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        train(folder)
        ranks = make_ranks(folder)
    for name in MODELS:
        p = sentencepiece.SentencePieceProcessor(
            model_file=str(HERE / "models" / f"{name}.model"))
        out["sentencepiece"][name] = [
            [p.encode(x), p.decode(p.encode(x))] for x in texts]
    patterns = {
        "gpt2": openai_public.r50k_pat_str,
        "cl100k_base":
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+|"
            r" ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
        "llama3": PATTERNS["llama3"], "qwen": PATTERNS["qwen2"],
        "o200k_base": PATTERNS["o200k"]}
    for name, pattern in patterns.items():
        e = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks,
                              special_tokens={})
        out["tiktoken"][name] = [e.encode_ordinary(x) for x in texts]
    rows = [f'"texts": {json.dumps(texts)}']
    for key in ("sentencepiece", "tiktoken"):
        rows.append(f'"{key}": {{\n' + ",\n".join(
            f'"{name}": ' + json.dumps(value, ensure_ascii=False,
                                       separators=(",", ":"))
            for name, value in out[key].items()) + "}")
    (HERE / "model_goldens.json").write_text("{" + ",\n".join(rows) + "}\n")


if __name__ == "__main__":
    main()
