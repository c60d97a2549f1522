#!/usr/bin/env python3
"""Writes folders whose tokenizer is at fault (TK), one folder a case.

    make_bad_tokenizers.py FOLDER [CASE...]

Every folder holds a tokenizer (tokenizer.json, tokenizer.model or ranks) and
texts.json, a list of strings for it; cases named "legal" have no fault. CASES
maps a name to its writer and the flags that the command gets.
"""
import base64
import json
import pathlib
import struct
from typing import Callable, NamedTuple

import bad_cases


def byte_alphabet():
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in plain]
    return [chr(b) for b in plain] + [chr(256 + i) for i in range(len(rest))]


def bpe(**model):
    """A sound byte-level BPE tokenizer.json."""
    vocab = {c: i for i, c in enumerate(byte_alphabet())}
    for token in ("ab", "abc"):
        vocab[token] = len(vocab)
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [added("<s>", len(vocab))],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False,
                          "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True,
                    "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False,
                  "byte_fallback": False, "ignore_merges": False,
                  "vocab": vocab, "merges": [["a", "b"], ["ab", "c"]],
                  **model}}


def unigram(**model):
    return {**bpe(), "added_tokens": [], "pre_tokenizer": None,
            "decoder": None,
            "model": {"type": "Unigram", "unk_id": 0,
                      "vocab": [["<unk>", 0.0], ["a", -1.5], ["b", -2.0]],
                      "byte_fallback": False, **model}}


def added(content, token_id, **flags):
    return {"id": token_id, "content": content, "single_word": False,
            "lstrip": False, "rstrip": False, "normalized": False,
            "special": True, **flags}


def charsmap(units, strings=b"x\0"):
    trie = b"".join(struct.pack("<I", u) for u in units)
    return struct.pack("<I", len(trie)) + trie + strings


class Case(NamedTuple):
    write: Callable
    flags: list


CASES = {}
TEXTS = ["Hello world", "abc <s> ab", "\u4f60\u597d", ""]


def case(name, write, texts=None, flags=()):
    assert name not in CASES, name

    def both(d):
        (d / "texts.json").write_text(json.dumps(
            TEXTS if texts is None else texts))
        write(d)
    CASES[name] = Case(both, list(flags))


def text_case(name, text, **more):
    data = text if isinstance(text, bytes) else text.encode()
    case(name, lambda d: (d / "tokenizer.json").write_bytes(data), **more)


def json_case(name, value, **more):
    text_case(name, json.dumps(value), **more)


def with_parts(name, file=None, **parts):
    more = {k: parts.pop(k) for k in ("texts",) if k in parts}
    json_case(name, {**(file or bpe()), **parts}, **more)


def without(value, key):
    return {k: v for k, v in value.items() if k != key}


json_case("TK-00-legal", bpe())

# Unknown components, by name and path.
for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
    with_parts(f"TK-01-{part}", **{part: {"type": "Magic"}})
with_parts("TK-01-in-a-sequence", normalizer={
    "type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Magic"}]})
with_parts("TK-01-option", pre_tokenizer={"type": "Digits", "magic": 1})
with_parts("TK-01-at-the-top", magic=1)
json_case("TK-01-model", bpe(type="Magic"))
json_case("TK-01-model-option", bpe(magic=True))
json_case("TK-01-dropout", bpe(dropout=0.1))
with_parts("TK-01-not-an-object", normalizer="NFC")
with_parts("TK-01-no-type", normalizer={})
with_parts("TK-01-too-many-steps", normalizer={
    "type": "Sequence", "normalizers": [{"type": "NFC"}] * 40})

json_case("TK-02-no-model", without(bpe(), "model"))
json_case("TK-02-legal-type-left-out",
          {**bpe(), "model": without(bpe()["model"], "type")})
json_case("TK-02-type-and-merges-left-out",
          {**bpe(), "model": without(without(bpe()["model"], "type"),
                                     "merges")})

# Ids.
VOCAB = bpe()["model"]["vocab"]
json_case("TK-03-legal-hole", bpe(vocab={**VOCAB, "hole": 300}))
json_case("TK-03-id-twice", bpe(vocab={**VOCAB, "twice": 0}))
text_case("TK-03-token-twice",
          json.dumps(bpe()).replace('"ab": 256', '"ab": 256, "ab": 299'))
json_case("TK-03-negative", bpe(vocab={**VOCAB, "x-": -1}))
json_case("TK-03-too-large", bpe(vocab={**VOCAB, "x+": 1 << 24}))
json_case("TK-03-huge", bpe(vocab={**VOCAB, "x+": 1 << 70}))
json_case("TK-03-fraction", bpe(vocab={**VOCAB, "x.": 300.5}))
json_case("TK-03-text", bpe(vocab={**VOCAB, "x": "300"}))
json_case("TK-03-vocab-is-a-list", bpe(vocab=["a"]))
json_case("TK-03-no-vocab", {**bpe(), "model": without(bpe()["model"],
                                                       "vocab")})

# Merges.
json_case("TK-04-legal-strings", bpe(merges=["a b", "ab c"]))
json_case("TK-04-part-unknown", bpe(merges=[["a", "\u4e2d"]]))
json_case("TK-04-whole-unknown", bpe(merges=[["b", "a"]]))
json_case("TK-04-three-parts", bpe(merges=[["a", "b", "c"]]))
json_case("TK-04-three-words", bpe(merges=["a b c"]))
json_case("TK-04-one-word", bpe(merges=["ab"]))
json_case("TK-04-number", bpe(merges=[[1, 2]]))
json_case("TK-04-no-list", bpe(merges={"a": "b"}))
# A merge that gives one of its parts again.
json_case("TK-04-legal-cycle",
          bpe(vocab={**VOCAB, "": 300}, merges=[["a", ""], ["", "a"]]))
json_case("TK-04-legal-same-merge-twice", bpe(merges=[["a", "b"]] * 3))
json_case("TK-04-unknown-token-unknown", bpe(unk_token="zz"))
json_case("TK-05-legal-byte-fallback-without-bytes", bpe(byte_fallback=True))

# Unigram.
json_case("TK-06-legal", unigram())
for label, score in (("nan", "NaN"), ("inf", "-Infinity"), ("1e400", "1e400")):
    text_case(f"TK-06-score-{label}",
              json.dumps(unigram()).replace("-1.5", score))
json_case("TK-06-score-text", unigram(vocab=[["a", "x"]]))
json_case("TK-06-no-score", unigram(vocab=[["a"]]))
json_case("TK-06-empty", unigram(vocab=[]))
json_case("TK-06-token-twice", unigram(vocab=[["a", 0], ["a", 0]]))
json_case("TK-06-unk-out-of-range", unigram(unk_id=3))
json_case("TK-06-unk-negative", unigram(unk_id=-1))
json_case("TK-06-no-unk-needed", unigram(unk_id=None), texts=["ab"])
json_case("TK-06-no-unk", unigram(unk_id=None), texts=["abz"])
json_case("TK-06-word-level-no-unk",
          {**bpe(), "pre_tokenizer": {"type": "Whitespace"}, "decoder": None,
           "added_tokens": [], "model": {"type": "WordLevel",
                                         "vocab": {"ab": 0}}})
json_case("TK-06-word-piece-max-negative",
          {**bpe(), "model": {"type": "WordPiece", "vocab": {"a": 0},
                              "unk_token": "a", "max_input_chars_per_word": -1,
                              "continuing_subword_prefix": "##"}})


def with_map(name, blob, **more):
    text = blob if isinstance(blob, str) else base64.b64encode(blob).decode()
    with_parts(name, normalizer={"type": "Precompiled",
                                 "precompiled_charsmap": text}, **more)


with_map("TK-07-no-base64", "?!")
with_map("TK-07-empty", b"")
with_map("TK-07-cut", charsmap([0] * 256)[:600])
with_map("TK-07-odd-size", struct.pack("<I", 5) + b"12345x\0")
with_map("TK-07-longer-than-it-is", struct.pack("<I", 4000) + bytes(100))
with_map("TK-07-string-without-end", charsmap([0] * 256, b"x"))
with_map("TK-07-string-not-utf8", charsmap([0] * 256, b"\xff\0"))
# Every unit is a child of the one before, forever, and says it has a value.
with_map("TK-07-legal-loop", charsmap([1 << 8 | ord("a")] * 256),
         texts=["a" * 1000])
with_map("TK-07-legal-points-outside",
         charsmap([0x1FFFFF << 10 | c for c in range(256)]))
with_map("TK-07-legal-value-outside",
         charsmap([1 << 8 | c for c in range(255)] + [0x7FFFFFFF]))


def with_regex(name, pattern, **more):
    with_parts(name, pre_tokenizer={
        "type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated",
        "invert": False}, **more)


with_regex("TK-08-does-not-compile", "a(b")
with_regex("TK-08-empty", "")
with_regex("TK-08-not-known", r"\bx")
with_regex("TK-08-too-long", "a" * 70000)
with_regex("TK-08-nested-too-deep", "(" * 5000 + ")" * 5000)
with_regex("TK-08-catastrophic", "(a+)+$", texts=["a" * 30 + "!"])
with_regex("TK-08-legal-alternatives", "(a|a?)+b",
           texts=["x" * 100 + "a" * 40])
with_parts("TK-08-behavior", pre_tokenizer={
    "type": "Split", "pattern": {"String": "a"}, "behavior": "Magic",
    "invert": False})
with_parts("TK-08-catastrophic-replace", normalizer={
    "type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": ""},
    texts=["a" * 30 + "!"])

# Added tokens.
TOKEN = added("<s>", 258)
with_parts("TK-09-legal-empty", added_tokens=[TOKEN, added("", 259)])
with_parts("TK-09-same-id", added_tokens=[TOKEN, added("<t>", 258)])
with_parts("TK-09-two-ids", added_tokens=[TOKEN, added("<s>", 259)])
with_parts("TK-09-other-id-than-the-vocabulary",
           added_tokens=[added("ab", 300)])
with_parts("TK-09-listed-twice", added_tokens=[TOKEN, TOKEN])
with_parts("TK-09-too-long", added_tokens=[added("x" * 5000, 258)])
with_parts("TK-09-negative", added_tokens=[added("<t>", -5)])
with_parts("TK-09-too-large", added_tokens=[added("<t>", 1 << 24)])
with_parts("TK-09-no-content", added_tokens=[{"id": 258}])
with_parts("TK-09-flag-is-text",
           added_tokens=[added("<t>", 258, lstrip="yes")])
with_parts("TK-09-unknown-flag", added_tokens=[added("<t>", 258, magic=1)])
text_case("TK-10-lone-surrogate",
          json.dumps(bpe()).replace('"ab": 256', '"\\ud800": 256'))
text_case("TK-10-lone-surrogate-of-an-added-token",
          json.dumps(bpe()).replace('"<s>"', '"\\udc00"'))

# The file as a whole.
text_case("TK-11-empty", "")
text_case("TK-11-cut", json.dumps(bpe())[:1000])
text_case("TK-11-array", "[]")
text_case("TK-11-not-utf8", b'{"version": "\xff"}')
text_case("TK-11-nested", "[" * 100000)
text_case("TK-11-byte-order-mark", "\ufeff" + json.dumps(bpe()))
case("TK-11-missing", lambda d: None)

# What stands around a text.
with_parts("TK-12-id-outside", post_processor={
    "type": "BertProcessing", "sep": ["<s>", 9999], "cls": ["<s>", 258]})
with_parts("TK-12-no-pair", post_processor={
    "type": "RobertaProcessing", "sep": ["<s>"], "cls": ["<s>", 258],
    "trim_offsets": True, "add_prefix_space": True})
with_parts("TK-12-template-without-text", post_processor={
    "type": "TemplateProcessing", "single": [], "pair": [],
    "special_tokens": {}})
with_parts("TK-12-template-token-missing", post_processor={
    "type": "TemplateProcessing", "pair": [], "special_tokens": {},
    "single": [{"SpecialToken": {"id": "<x>", "type_id": 0}},
               {"Sequence": {"id": "A", "type_id": 0}}]})
with_parts("TK-13-metaspace-two-characters", pre_tokenizer={
    "type": "Metaspace", "replacement": "__", "prepend_scheme": "always"})
with_parts("TK-13-metaspace-scheme", pre_tokenizer={
    "type": "Metaspace", "replacement": "_", "prepend_scheme": "magic"})
with_parts("TK-13-length-zero", pre_tokenizer={
    "type": "FixedLength", "length": 0})
with_parts("TK-13-strip-negative", decoder={
    "type": "Strip", "content": " ", "start": -1, "stop": 0})


def with_config(name, config):
    def write(d):
        (d / "tokenizer.json").write_text(json.dumps(bpe()))
        (d / "tokenizer_config.json").write_text(config)
    case(name, write)


with_config("TK-14-config-cut", "{")
with_config("TK-14-config-array", "[]")
with_config("TK-14-bos-is-a-number", '{"bos_token": 5}')
with_config("TK-14-add-bos-is-text",
            '{"bos_token": "<s>", "add_bos_token": "yes"}')
with_config("TK-14-legal-bos-unknown", '{"bos_token": "<none>"}')
with_config("TK-14-legal-bos-null",
            '{"bos_token": null, "add_bos_token": true}')


# sentencepiece models.
def varint(v):
    out = b""
    while v >= 0x80:
        out += bytes([v & 0x7F | 0x80])
        v >>= 7
    return out + bytes([v])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def piece(text, kind=1, score=0.0):
    return field(1, field(1, text.encode("utf-8", "surrogateescape")) +
                 field(2, score) + field(3, kind))


UNK = piece("<unk>", 2)
SOUND = UNK + piece("<s>", 3) + piece("</s>", 3) + b"".join(
    piece(t, 1, -float(i)) for i, t in enumerate(
        ["\u2581", "a", "b", "ab", "abc", "c", "\u2581a"]))
BPE_KIND = field(2, field(3, 2))


def model_case(name, blob, **more):
    case(name, lambda d: (d / "tokenizer.model").write_bytes(blob), **more)


model_case("TK-15-legal-bpe", SOUND + BPE_KIND)
model_case("TK-15-legal-unigram", SOUND)
model_case("TK-15-empty", b"")
model_case("TK-15-cut-in-a-piece", SOUND[:40])
model_case("TK-15-cut-in-a-length", SOUND + b"\x0a")
model_case("TK-15-not-a-model", b"hello, world, this is no model")
model_case("TK-15-zeros", bytes(64))
model_case("TK-16-varint-overflow", SOUND + field(9, 1)[:1] + b"\xff" * 11)
model_case("TK-16-length-overflow", SOUND + b"\x0a" + b"\xff" * 9 + b"\x01")
model_case("TK-16-wire-type", SOUND + b"\x0b")
model_case("TK-16-pieces-are-numbers", field(1, 5))
model_case("TK-16-score-is-a-number",
           SOUND + field(1, field(1, b"z") + field(2, 7)))
model_case("TK-17-type-unknown", SOUND + piece("z", 9))
model_case("TK-17-model-type-unknown", SOUND + field(2, field(3, 9)))
model_case("TK-17-model-of-words", SOUND + field(2, field(3, 3)))
model_case("TK-17-score-nan", SOUND + piece("z", 1, float("nan")))
model_case("TK-17-score-inf", SOUND + piece("z", 1, float("-inf")))
model_case("TK-18-piece-twice", SOUND + piece("a"))
model_case("TK-18-piece-empty", SOUND + piece(""))
model_case("TK-18-piece-not-utf8", SOUND + piece("\udcff"))
model_case("TK-19-no-unknown", SOUND[len(UNK):])
model_case("TK-19-two-unknown", SOUND + piece("<u2>", 2))
model_case("TK-19-byte-without-fallback", SOUND + piece("<0x41>", 6))
model_case("TK-19-bytes-missing",
           SOUND + piece("<0x41>", 6) + field(2, field(35, 1)))
model_case("TK-19-byte-is-none",
           SOUND + piece("<0xZZ>", 6) + field(2, field(35, 1)))
model_case("TK-20-map-cut",
           SOUND + field(3, field(2, charsmap([0] * 256)[:600])))
model_case("TK-20-legal-map-loop",
           SOUND + field(3, field(2, charsmap([1 << 8 | ord("a")] * 256))),
           texts=["a" * 1000])
model_case("TK-20-denormalizer",
           SOUND + field(5, field(2, charsmap([0] * 256))))


def model_with_config(name, config):
    def write(d):
        (d / "tokenizer.model").write_bytes(SOUND + BPE_KIND)
        (d / "tokenizer_config.json").write_text(json.dumps(config))
    case(name, write)


model_with_config("TK-20-class-renumbers",
                  {"tokenizer_class": "XLMRobertaTokenizer"})
model_with_config("TK-20-declared-id-is-text", {
    "tokenizer_class": "LlamaTokenizer",
    "added_tokens_decoder": {"x": {"content": "<x>"}}})
model_with_config("TK-20-declared-id-taken", {
    "tokenizer_class": "LlamaTokenizer",
    "added_tokens_decoder": {"1": {"content": "<x>"}}})


# Ranks.
def ranks(tokens):
    return "".join(base64.b64encode(t).decode() + f" {i}\n"
                   for i, t in enumerate(tokens))


BYTES = [bytes([b]) for b in range(256)]


def ranks_case(name, text, **more):
    case(name, lambda d: (d / "qwen.tiktoken").write_text(text), **more)


ranks_case("TK-20-ranks-legal", ranks(BYTES + [b"ab"]))
ranks_case("TK-20-ranks-cut", ranks(BYTES)[:1000])
ranks_case("TK-20-ranks-no-base64", ranks(BYTES) + "a!b 256\n")
ranks_case("TK-20-ranks-no-rank", ranks(BYTES) + "YWI=\n")
ranks_case("TK-20-ranks-rank-twice", ranks(BYTES) + "YWI= 5\n")
ranks_case("TK-20-ranks-token-twice", ranks(BYTES) + "YQ== 256\n")
ranks_case("TK-20-ranks-pattern", ranks(BYTES),
           flags=["--tiktoken-pattern", "magic"])

# Texts that try the limits of a sound tokenizer.
CLEVER = {**bpe(), "normalizer": {"type": "NFC"}}
for label, file in (("bpe", CLEVER), ("unigram", unigram())):
    for number, (name, text) in enumerate({
            "empty": "", "many-a": "a" * (1 << 20),
            "many-spaces": " " * (1 << 20), "nul": "\0" * 4096,
            "marks": "e" + "\u0301\u0323" * 2048,
            "every-code-point": "".join(
                chr(c) for c in range(0x110000)
                if not 0xD800 <= c < 0xE000)}.items(), 27):
        json_case(f"TK-{number}-legal-{label}-{name}", file, texts=[text])
text_case("TK-33-text-is-a-number", json.dumps(bpe()), texts=[5])
text_case("TK-33-texts-are-no-list", json.dumps(bpe()), texts={"a": 1})


def write_case(folder, name):
    """Writes one case into folder/name and returns that path."""
    d = pathlib.Path(folder) / name
    d.mkdir(parents=True)
    CASES[name].write(d)
    return d


if __name__ == "__main__":
    bad_cases.main(__doc__, CASES, write_case)
