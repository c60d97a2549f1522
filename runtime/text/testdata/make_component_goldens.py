#!/usr/bin/env python3
"""Writes component_goldens.json: what each component of tokenizer.json makes of
texts, by the published library.

    make_component_goldens.py      (needs PyPI tokenizers 0.23.3)
"""
import base64
import json
import pathlib
import struct

from tokenizers import Tokenizer

HERE = pathlib.Path(__file__).resolve().parent
TEXTS = [
    "", " ", "Hello, world!", "  two  spaces ", "\n\n\t x\r\n y",
    "don't I'LL we've 's'S it's", "na\u00efve caf\u00e9 \ufb01 \u00bd \u2167",
    "e\u0301a\u0323\u0302 \u1e9b\u0323 \u0130I\u017f", "a\u0300\u0315b\u0345",
    "\u041f\u0440\u0438\u0432\u0435\u0442 \u0439 \u039f\u03a3 \u1e9e",
    "\u0645\u0631\u062d\u0628\u0627 \u0661\u0662 \u05e9\u05dc",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0e2a\u0e27\u0e31",
    "\u4f60\u597d\uff0c\u4e16\u754c abc\u30ab\u30ca\u30fc\u3072\u3089 x",
    "\uc548\ub155 \u1100\u1161\u11a8 \U0001f469\u200d\U0001f467\U0001f3fd\u2764\ufe0f",
    "\x00\x01\x07\x7f\u0085\u00ad\u200b\ufeff\ufffd\ue000",
    "123 4567 3.14 \u00b2\u2460 A1b2", "x=1;y+=2;//c {a[i]} $5 ^~`|",
    "HTMLParser ABCdefGHI \u4e2dABC", "\u2581x\u2581\u2581 y_z",
    "a\u00a0b\u3000c\u2003\u2028d", "\u0378 \u0897 \U00010d50 \U0001fbf0 \u166d",
    "---a--b-", "ababab aab", "\r\nx\r\n\r\n  ",
]
# Rules of a small map: what they match and what it becomes.
RULES = {"\ufb01": "fi", "\u3000": " ", "e\u0301": "\u00e9", "\t": " ",
         "\u00bd": "1\u20442", "\u0130": "I", "\x01": "", "AB": "ab"}


def charsmap(rules):
    """Compiles rules as sentencepiece does: a double array and its strings."""
    strings, values = b"", {}
    for key, text in rules.items():
        values[key.encode()] = len(strings)
        strings += text.encode() + b"\0"
    units = {0: 0}  # index to unit
    used = {0}

    def place(children):
        base = 1
        while any((base ^ c) in used for c in children):
            base += 1
        return base

    def build(node, keys, depth):
        """Keys share `depth` bytes, which lead to `node`."""
        leaf = [k for k in keys if len(k) == depth]
        labels = sorted({k[depth] for k in keys if len(k) > depth})
        children = ([0] if leaf else []) + labels
        base = place(children)
        offset = node ^ base if node else base
        for c in children:
            used.add(base ^ c)
        assert offset < 1 << 21
        units[node] |= offset << 10 | (1 << 8 if leaf else 0)
        if leaf:
            units[base] = 1 << 31 | values[leaf[0]]
        for c in labels:
            units[base ^ c] = c
        for c in labels:
            build(base ^ c, [k for k in keys if len(k) > depth and
                             k[depth] == c], depth + 1)

    build(0, sorted(values), 0)
    size = max(units) + 1
    # The last bytes may be looked at before a label says no.
    size = (size | 255) + 1
    trie = b"".join(struct.pack("<I", units.get(i, 0)) for i in range(size))
    return base64.b64encode(struct.pack("<I", len(trie)) + trie +
                            strings).decode()


PATTERNS = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|"
            r"\s+(?!\S)|\s+",
    "llama3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
              r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
             r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "cl100k": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}|"
              r" ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    "o200k": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*"
             r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
             r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
             r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
             r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}
BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
             "Contiguous"]


def normalizers():
    for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents",
                 "Nmt", "ByteLevel"):
        yield {"type": name}
    for left in (True, False):
        yield {"type": "Strip", "strip_left": left, "strip_right": not left}
    for pattern, content in (({"String": " "}, "\u2581"),
                             ({"String": "ab"}, ""),
                             ({"Regex": r"\s+"}, " "), ({"Regex": "x*"}, "-"),
                             ({"Regex": r"[^\w\s]"}, "_"),
                             ({"Regex": r"\w"}, "w")):
        yield {"type": "Replace", "pattern": pattern, "content": content}
    yield {"type": "Prepend", "prepend": "\u2581"}
    yield {"type": "Precompiled", "precompiled_charsmap": charsmap(RULES)}
    for clean, chinese, accents, lower in ((True, True, None, True),
                                           (True, True, None, False),
                                           (False, False, True, False),
                                           (False, True, False, True)):
        yield {"type": "BertNormalizer", "clean_text": clean,
               "handle_chinese_chars": chinese, "strip_accents": accents,
               "lowercase": lower}
    yield {"type": "Sequence", "normalizers": [
        {"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]}


def pre_tokenizers():
    for name in ("BertPreTokenizer", "Whitespace", "WhitespaceSplit",
                 "UnicodeScripts"):
        yield {"type": name}
    for prefix, regex in ((False, True), (True, True), (True, False)):
        yield {"type": "ByteLevel", "add_prefix_space": prefix,
               "trim_offsets": True, "use_regex": regex}
    for scheme, split in (("always", True), ("first", False), ("never", True)):
        yield {"type": "Metaspace", "replacement": "\u2581",
               "prepend_scheme": scheme, "split": split}
    for behavior in BEHAVIORS:
        yield {"type": "Punctuation", "behavior": behavior}
        for invert in (False, True):
            yield {"type": "Split", "pattern": {"Regex": r"\s+|-"},
                   "behavior": behavior, "invert": invert}
    yield {"type": "Split", "pattern": {"String": "ab"},
           "behavior": "MergedWithNext", "invert": False}
    for pattern in PATTERNS.values():
        yield {"type": "Split", "pattern": {"Regex": pattern},
               "behavior": "Isolated", "invert": False}
    yield {"type": "Split", "pattern": {"Regex": PATTERNS["o200k"]},
           "behavior": "Removed", "invert": True}
    for individual in (True, False):
        yield {"type": "Digits", "individual_digits": individual}
    yield {"type": "CharDelimiterSplit", "delimiter": "-"}
    yield {"type": "FixedLength", "length": 3}
    yield {"type": "Sequence", "pretokenizers": [
        {"type": "WhitespaceSplit"},
        {"type": "Metaspace", "replacement": "\u2581",
         "prepend_scheme": "first", "split": True},
        {"type": "Digits", "individual_digits": True}]}


TOKENS = [
    [], ["\u2581Hello", "\u2581wor", "ld", "!"], ["a"],
    ["hel", "##lo", "world", ".", "do", "n't", "'", "s"],
    ["\u0120Hello", "\u010a", "\u00c3", "\u00a9", "\u4e2d"],
    ["<0xE4>", "<0xBD>", "<0xA0>", "x", "<0xFF>", "<0x41>", "<0x4g>"],
    ["he", "l</w>", "lo</w>", "w</w>"],
    ["h", "h", "<pad>", "e", "l", "l", "<pad>", "l", "o", "|", "|", "x"],
    ["\u2581", "\u2581\u2581a", " ", "  b ", ""],
]


def decoders():
    byte_level = {"type": "ByteLevel", "add_prefix_space": True,
                  "trim_offsets": True, "use_regex": True}
    yield byte_level
    for name in ("Fuse", "ByteFallback"):
        yield {"type": name}
    for cleanup in (True, False):
        yield {"type": "WordPiece", "prefix": "##", "cleanup": cleanup}
        yield {"type": "CTC", "pad_token": "<pad>",
               "word_delimiter_token": "|", "cleanup": cleanup}
    for scheme in ("always", "never"):
        yield {"type": "Metaspace", "replacement": "\u2581",
               "prepend_scheme": scheme, "split": True}
    yield {"type": "BPEDecoder", "suffix": "</w>"}
    yield {"type": "Strip", "content": " ", "start": 2, "stop": 0}
    yield {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
    yield {"type": "Replace", "pattern": {"Regex": "[el]+"}, "content": "_"}
    llama = [{"type": "Replace", "pattern": {"String": "\u2581"},
              "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
             {"type": "Strip", "content": " ", "start": 1, "stop": 0}]
    yield {"type": "Sequence", "decoders": llama}
    yield {"type": "Sequence", "decoders": [
        {"type": "Fuse"}, {"type": "Replace", "pattern": {"Regex": r"l\W*l"},
                           "content": "L"}]}
    yield {"type": "Sequence", "decoders": [
        byte_level, {"type": "WordPiece", "prefix": "##", "cleanup": True}]}
    yield {"type": "Sequence", "decoders": []}


def with_part(name, part):
    return Tokenizer.from_str(json.dumps({
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [], "normalizer": None, "pre_tokenizer": None,
        "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"},
        name: part}))


def main():
    out = {"texts": TEXTS, "tokens": TOKENS, "normalizers": [],
           "pre_tokenizers": [], "decoders": []}
    for part in normalizers():
        t = with_part("normalizer", part)
        out["normalizers"].append(
            [part, [t.normalizer.normalize_str(x) for x in TEXTS]])
    for part in pre_tokenizers():
        t = with_part("pre_tokenizer", part)
        out["pre_tokenizers"].append(
            [part, [[p for p, _ in t.pre_tokenizer.pre_tokenize_str(x)]
                    for x in TEXTS]])
    for part in decoders():
        t = with_part("decoder", part)
        out["decoders"].append(
            [part, [t.decoder.decode(list(x)) for x in TOKENS]])
    rows = [json.dumps("texts") + ": " + json.dumps(TEXTS),
            json.dumps("tokens") + ": " + json.dumps(TOKENS)]
    for key in ("normalizers", "pre_tokenizers", "decoders"):
        rows.append(json.dumps(key) + ": [\n" + ",\n".join(
            json.dumps(x, ensure_ascii=False) for x in out[key]) + "]")
    (HERE / "component_goldens.json").write_text(
        "{" + ",\n".join(rows) + "}\n")


if __name__ == "__main__":
    main()
