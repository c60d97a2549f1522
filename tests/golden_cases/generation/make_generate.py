#!/usr/bin/env python3
"""Makes generate.json: transformers' generate() on the golden models.

    make_generate.py > generate.json        (needs torch and transformers)

For each model and setting: the prompt, the n best answers without prompt and
end-of-sequence id, the scores of beams, and whether they ended by that id.
Settings in which two candidates come closer than MARGIN at a choice are left
out, as no arithmetic is bound to order them alike.
"""
import json
import os
import sys

import torch
from transformers import AutoModelForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(HERE, '..', 'models')
MARGIN = 2e-4


def settings():
    for width, n in ((2, 1), (3, 3), (4, 2), (5, 5)):
        yield dict(num_beams=width, num_return_sequences=n)
    yield dict(num_beams=4, num_return_sequences=4, length_penalty=0.0)
    yield dict(num_beams=4, num_return_sequences=4, length_penalty=2.0)
    yield dict(num_beams=4, num_return_sequences=4, length_penalty=-1.0)
    yield dict(num_beams=4, num_return_sequences=4, early_stopping=True)
    yield dict(num_beams=3, num_return_sequences=3, early_stopping='never',
               length_penalty=1.5)
    yield dict(num_beams=3, num_return_sequences=3, early_stopping='never',
               length_penalty=0.0)
    yield dict(num_beams=3, num_return_sequences=3, repetition_penalty=1.4)
    yield dict(num_beams=3, num_return_sequences=2, min_new_tokens=6)
    yield dict(num_beams=1, repetition_penalty=1.3)
    yield dict(num_beams=1, repetition_penalty=0.7)
    yield dict(num_beams=1, min_new_tokens=7)
    yield dict(num_beams=1, repetition_penalty=1.2, min_new_tokens=5)
    yield dict(num_beams=1, suppress_tokens=list(range(0, 300, 3)))


def run(model, prompt, new, eos, chosen):
    kwargs = dict(max_new_tokens=new, do_sample=False, eos_token_id=eos,
                  pad_token_id=0, return_dict_in_generate=True,
                  output_scores=True, **chosen)
    closest = []
    original = torch.topk

    def watch(x, k, *a, **kw):
        # Distances of neighbours among the candidates and the first beyond.
        wide = original(x, min(k + 1, x.shape[-1]))[0]
        real = wide[wide > -1e8]
        if real.numel() > 1:
            closest.append(float((real[:-1] - real[1:]).min()))
        return original(x, k, *a, **kw)

    torch.topk = watch
    beams = chosen['num_beams'] > 1
    try:
        out = model.generate(torch.tensor([prompt]),
                             attention_mask=torch.ones(1, len(prompt)),
                             **kwargs)
    finally:
        torch.topk = original
    if not beams:
        for x in out.scores:
            top = original(x, 2)[0][0]
            closest.append(float(top[0] - top[1]))
    if min(closest) < MARGIN:
        return None
    answers = []
    scores = out.sequences_scores.tolist() if beams else [0]
    for row, score in zip(out.sequences.tolist(), scores):
        ids = row[len(prompt):]
        end = next((i for i, t in enumerate(ids) if t in eos), len(ids))
        answers.append({'ids': ids[:end], 'score': score,
                        'finish': 'stop' if end < len(ids) else 'length'})
    return {'prompt': prompt, 'max_new_tokens': new, 'stop_ids': eos,
            **chosen, 'answers': answers}


def main():
    models = {}
    for name in ('llama-gqa-tied', 'qwen2', 'gpt2', 'mistral-window'):
        model = AutoModelForCausalLM.from_pretrained(
            os.path.join(MODELS, name), dtype=torch.float32).eval()
        vocab = model.config.vocab_size
        # The models' own defaults are no part of this.
        model.generation_config = type(model.generation_config)()
        cases = []
        for i, chosen in enumerate(settings()):
            for attempt in range(8):
                seed = 97 * i + 31 * attempt
                prompt = [(7 + seed * 13 + 29 * j * j) % vocab
                          for j in range(3 + (i + attempt) % 19)]
                # Tokens that come often end answers early in some cases.
                probe = model.generate(
                    torch.tensor([prompt]), max_new_tokens=10, do_sample=False,
                    attention_mask=torch.ones(1, len(prompt)), pad_token_id=0)
                often = probe[0, len(prompt):].tolist()
                eos = [[2], [often[4]], sorted({often[2], often[7]})][i % 3]
                got = run(model, prompt, 9 + i % 4, eos, chosen)
                if got is not None:
                    cases.append(got)
                    break
            else:
                print(f'{name}: setting {i} left out', file=sys.stderr)
        models[name] = cases
    lines = [f'"{n}": [' + ',\n'.join(json.dumps(c) for c in cases) + ']'
             for n, cases in models.items()]
    print('{' + ',\n'.join(lines) + '}')


main()
