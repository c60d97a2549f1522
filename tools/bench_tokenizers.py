#!/usr/bin/env python3
"""Encoding speed on one thread against the published tokenizers library, on
10 MB of mixed text, line by line.

    bench_tokenizers.py BENCH [--python PYTHON] [--rounds N] [--kinds a,b]
                        [--work FOLDER]

BENCH is the build's runtime/text/tokenizer_bench. PYTHON has PyPI tokenizers
(0.23.3); it trains a tokenizer of 32,000 tokens of each kind on the text, once
per work folder, and encodes in the same run, each kind right after ours: both
as one batch without threads and text by text, of which the better one counts.
Ids of both are compared by a digest.
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIZE = 10_000_000
VOCAB = 32_000
# Words of other scripts; sentences draw the first ones most.
WORDS = {
    "ru": "и в не на что он с как это по но они мы все она так его за быть "
          "только время человек жизнь работа слово место город страна Москва",
    "de": "der die und in den von zu das mit sich für auf nicht über können "
          "größer schön Straße Übung während Häuser möglich früher Größe",
    "fr": "de la le et les des en un du une que est pour qui dans a par plus "
          "été être où déjà français élève château leçon forêt garçon cœur",
    "el": "και το να του η της με για που στο θα είναι από τα αυτό ένα χρόνος "
          "άνθρωπος Ελλάδα θάλασσα ήλιος λόγος",
    "ar": "في من على أن إلى هذا التي عن مع كان لم ما هو الذي بعد يوم كتاب "
          "مدينة العربية الحياة",
    "hi": "के में है की और से का को पर यह कि एक नहीं हैं था लिए भारत समय जीवन "
          "हिन्दी नमस्ते दुनिया",
    "zh": "的 一 是 不 了 在 人 有 我 他 这 中国 时间 学习 语言 模型 世界 "
          "工作 城市 生活 我们 他们 可以 没有 什么",
    "ja": "の に は を た が で て と し れ さ ある いる する 日本 時間 言葉 "
          "カタカナ テキスト モデル 世界",
    "ko": "이 그 것 수 등 들 및 대한 에서 하는 있는 한국 시간 사람 세계 언어 "
          "모델 안녕하세요",
    "emoji": "😀 👍 ❤️ 🎉 👩‍👩‍👧 🇩🇪 🏳️‍🌈 👍🏽 … — “q” № €",
}


def make_text(path):
    """40 % English prose, 30 % code, 30 % other scripts, lines mixed."""
    chosen = random.Random(1)
    prose = (ROOT / "tests/golden_cases/real/eval.txt").read_text().splitlines()
    code = []
    for folder in ("runtime", "compiler", "kernels", "passes", "tools"):
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix in (".cc", ".h", ".py", ".cuh"):
                # A trainer would take what looks special twice.
                code += [line for line in
                         file.read_text(errors="replace").splitlines()
                         if "</s>" not in line and "<unk>" not in line]
    languages = {k: v.split(" ") for k, v in WORDS.items()}

    def sentence():
        name = chosen.choice(sorted(languages))
        words = languages[name]
        n = chosen.randint(4, 24)
        picked = [words[min(int(chosen.expovariate(0.18)), len(words) - 1)]
                  for _ in range(n)]
        end = chosen.choice([".", "!", "?", ",", " 2024", ""])
        return ("" if name in ("zh", "ja") else " ").join(picked) + end

    out, size = [], 0
    while size < SIZE:
        kind = chosen.random()
        line = (chosen.choice(prose) if kind < .4 else
                chosen.choice(code) if kind < .7 else sentence())
        out.append(line)
        size += len(line.encode()) + 1
    path.write_text("\n".join(out))


# What the peer runs: trains, then encodes.
PEER = r'''
import json, os, sys, time
os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import (Tokenizer, decoders, models, normalizers,
                        pre_tokenizers, trainers, Regex)
command, kind, path, text, base = sys.argv[1:6]
if command == "train":
    # The golden tokenizer of that kind, with a vocabulary of its own.
    t = Tokenizer.from_file(base)
    model = json.load(open(base))["model"]
    common = dict(vocab_size=VOCAB, show_progress=False)
    if model["type"] == "BPE":
        if kind == "clip":
            common["end_of_word_suffix"] = "</w>"
        fallback = model["byte_fallback"]
        special = ["<unk>", "<s>", "</s>"] if fallback else []
        special += ["<0x%02X>" % b for b in range(256)] if fallback else []
        options = dict(fuse_unk=fallback, byte_fallback=fallback,
                       ignore_merges=model["ignore_merges"])
        if fallback:
            options["unk_token"] = "<unk>"
        if model["end_of_word_suffix"]:
            options["end_of_word_suffix"] = model["end_of_word_suffix"]
        trained = Tokenizer(models.BPE(**options))
        trainer = trainers.BpeTrainer(
            special_tokens=special, initial_alphabet=[]
            if fallback else pre_tokenizers.ByteLevel.alphabet(), **common)
    elif model["type"] == "WordPiece":
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        trained = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        trainer = trainers.WordPieceTrainer(special_tokens=special, **common)
    else:
        special = ["<pad>", "</s>", "<unk>"]
        trained = Tokenizer(models.Unigram())
        trainer = trainers.UnigramTrainer(special_tokens=special,
                                          unk_token="<unk>", **common)
    if t.normalizer is not None:
        trained.normalizer = t.normalizer
    if t.pre_tokenizer is not None:
        trained.pre_tokenizer = t.pre_tokenizer
    elif model["type"] == "BPE":
        # Words end at spaces while training; the file itself has no cut.
        trained.pre_tokenizer = pre_tokenizers.Split("\u2581",
                                                     "merged_with_next")
    if t.decoder is not None:
        trained.decoder = t.decoder
    trained.train([text], trainer)
    if t.pre_tokenizer is None:
        saved = json.loads(trained.to_str())
        saved["pre_tokenizer"] = None
        json.dump(saved, open(path, "w"))
    else:
        trained.save(path)
else:
    t = Tokenizer.from_file(path)
    t.no_truncation()
    t.no_padding()
    data = open(text, newline="").read()
    lines = data.split("\n")
    size = len(data.encode())
    best = {}
    for _ in range(int(sys.argv[6])):
        begin = time.perf_counter()
        batch = t.encode_batch_fast(lines)
        best["batch"] = min(best.get("batch", 1e30),
                            time.perf_counter() - begin)
        begin = time.perf_counter()
        for line in lines:
            t.encode(line)
        best["single"] = min(best.get("single", 1e30),
                             time.perf_counter() - begin)
    digest = tokens = 0
    for e in batch:
        for i in e.ids:
            digest = (digest * 31 + i) % 1000000007
        tokens += len(e.ids)
    print(json.dumps({"mbs": size / min(best.values()) / 1e6,
                      "way": min(best, key=best.get), "tokens": tokens,
                      "digest": digest}))
'''.replace("VOCAB", str(VOCAB))
KINDS = ["gpt2", "llama3", "qwen2", "smollm", "clip", "llama2", "metaspace",
         "bert_cased", "bert_uncased", "t5_unigram"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench", type=pathlib.Path)
    parser.add_argument("--python", default=sys.executable,
                        help="has the PyPI package tokenizers")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--work", type=pathlib.Path,
                        help="keeps text and trained tokenizers here")
    args = parser.parse_args()
    work = args.work or pathlib.Path(tempfile.mkdtemp(prefix="tokenizers_"))
    work.mkdir(parents=True, exist_ok=True)
    text = work / "text.txt"
    if not text.exists():
        make_text(text)

    def peer(command, kind, path, *more):
        base = ROOT / "tests/golden_cases/tokenizers" / kind / "tokenizer.json"
        return subprocess.run(
            [args.python, "-c", PEER, command, kind, path, text, base, *more],
            check=True, stdout=subprocess.PIPE, text=True).stdout

    slower = wrong = 0
    print(f"{'kind':14}{'ours MB/s':>10}{'peer MB/s':>10}{'ratio':>7}  ids")
    for kind in args.kinds.split(","):
        folder = work / kind
        path = folder / "tokenizer.json"
        if not path.exists():
            folder.mkdir(exist_ok=True)
            peer("train", kind, path)
        ours = subprocess.run([args.bench, path, text, str(args.rounds)],
                              check=True, stdout=subprocess.PIPE,
                              text=True).stdout.split()
        theirs = json.loads(peer("encode", kind, path, str(args.rounds)))
        same = (int(ours[2]), int(ours[5])) == (theirs["tokens"],
                                                theirs["digest"])
        ratio = float(ours[0]) / theirs["mbs"]
        slower += ratio < 1
        wrong += not same
        print(f"{kind:14}{float(ours[0]):10.2f}{theirs['mbs']:10.2f}"
              f"{ratio:7.2f}  {'equal' if same else 'DIFFERENT'}", flush=True)
    print(f"{time.strftime('%Y-%m-%d')}: {slower} slower, {wrong} different")
    sys.exit(1 if slower or wrong else 0)


if __name__ == "__main__":
    main()
