#!/usr/bin/env python3
"""A model's folder with each kind of tokenizer file compiles, and the plan cuts
texts as the file does.

    tokenizer_folders.py DSCOMPILE DSRUN
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests/golden_cases/models/llama-gqa-tied"
TOKENIZERS = ROOT / "tests/golden_cases/tokenizers"
FILES = ROOT / "runtime/text/testdata/models"
TEXTS = ["", "Hello, world!", " the LORD  said\n", "caf\u00e9 \u4f60\u597d",
         "<s>x</s><|endoftext|>", "\U0001f600" * 3]


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{command}: exit {done.returncode}: {done.stderr}")
    return done.stdout


def main():
    dscompile, dsrun = sys.argv[1:3]
    cases = {name: {"tokenizer.json": TOKENIZERS / name / "tokenizer.json"}
             for name in ("llama3", "bert_uncased", "t5_unigram")}
    cases["pieces"] = {"tokenizer.model": FILES / "bpe.model"}
    cases["ranks"] = {"tokenizer.model": FILES / "ranks.tiktoken"}
    cases["unigram pieces"] = {"spiece.model": FILES / "unigram.model"}
    # The preferred file wins.
    cases["both"] = {**cases["pieces"], **cases["llama3"]}
    with tempfile.TemporaryDirectory(prefix="tokenizer_folders_") as folder:
        folder = pathlib.Path(folder)
        texts = folder / "texts.json"
        texts.write_text(json.dumps(TEXTS))
        answers = {}
        for name, files in cases.items():
            source, plan = folder / name, folder / f"{name}.plan"
            source.mkdir()
            for file in ("config.json", "model.safetensors"):
                shutil.copy(MODEL / file, source)
            for target, file in files.items():
                shutil.copy(file, source / target)
            run(dscompile, source, "-q", "-o", plan)
            by_plan, by_folder = (json.loads(run(
                dsrun, "tokenize", where, "--in", texts, "--json"))
                for where in (plan, source))
            if by_plan != by_folder or len(by_plan) != len(TEXTS):
                sys.exit(f"{name}: plan and folder differ: {by_plan}, "
                         f"{by_folder}")
            typed = [word for text in TEXTS[:2] for word in ("-p", text)]
            if json.loads(run(dsrun, "tokenize", plan, *typed)) != by_plan[:2]:
                sys.exit(f"{name}: -p differs from --in")
            if not all(set(x) == {"ids", "ids_no_special", "decoded",
                                  "decoded_keep"} for x in by_plan):
                sys.exit(f"{name}: members are {by_plan[0].keys()}")
            answers[name] = by_plan
        if answers["both"] != answers["llama3"]:
            sys.exit("tokenizer.json does not win over tokenizer.model")
        if answers["pieces"][1]["decoded"] != TEXTS[1]:
            sys.exit(f"pieces: {answers['pieces'][1]}")
    print(f"{len(cases)} folders, {len(TEXTS)} texts")


if __name__ == "__main__":
    main()
