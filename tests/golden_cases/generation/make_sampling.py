#!/usr/bin/env python3
"""Makes sampling.json: what transformers' processors leave of rows of logits.

    make_sampling.py > sampling.json        (needs torch and transformers)

Each case is a row of logits, the tokens before it, settings, and the
probabilities of all tokens, computed in double. Penalties by frequency and
presence, which transformers lacks, are computed here from their definition.
"""
import json
import random

import torch
from transformers import (MinPLogitsWarper, RepetitionPenaltyLogitsProcessor,
                          TemperatureLogitsWarper, TopKLogitsWarper,
                          TopPLogitsWarper, TypicalLogitsWarper)

VOCAB = 40


def case(rng, **chosen):
    logits = [round(rng.gauss(0, 2.5), 4) for _ in range(VOCAB)]
    prompt = [rng.randrange(VOCAB) for _ in range(rng.randrange(1, 9))]
    answer = [rng.randrange(VOCAB) for _ in range(rng.randrange(0, 12))]
    s = {'repetition_penalty': 1.0, 'frequency_penalty': 0.0,
         'presence_penalty': 0.0, 'logit_bias': {}, 'banned': [],
         'temperature': 1.0, 'top_k': 0, 'typical_p': 1.0, 'top_p': 1.0,
         'min_p': 0.0, **chosen}
    x = torch.tensor([logits], dtype=torch.float64)
    ids = torch.tensor([prompt + answer])
    if s['repetition_penalty'] != 1:
        x = RepetitionPenaltyLogitsProcessor(s['repetition_penalty'])(ids, x)
    for t in set(answer):
        x[0, t] -= (s['frequency_penalty'] * answer.count(t)
                    + s['presence_penalty'])
    for t, b in s['logit_bias'].items():
        x[0, int(t)] += b
    for t in s['banned']:
        x[0, t] = float('-inf')
    x = TemperatureLogitsWarper(s['temperature'])(ids, x)
    if s['top_k']:
        x = TopKLogitsWarper(s['top_k'])(ids, x)
    if s['typical_p'] < 1:
        x = TypicalLogitsWarper(mass=s['typical_p'])(ids, x)
    if s['top_p'] < 1:
        x = TopPLogitsWarper(s['top_p'])(ids, x)
    if s['min_p'] > 0:
        x = MinPLogitsWarper(s['min_p'])(ids, x)
    p = torch.softmax(x, -1)[0].tolist()
    return {'logits': logits, 'prompt': prompt, 'answer': answer, **s,
            'probabilities': {str(i): float(f'{v:.9g}')
                              for i, v in enumerate(p) if v > 0}}


def main():
    rng = random.Random(20)
    cases = [case(rng)]
    for name, values in (
            ('temperature', (0.3, 0.7, 1.8)), ('top_k', (1, 5, 39)),
            ('typical_p', (0.1, 0.5, 0.9)), ('top_p', (0.05, 0.5, 0.95)),
            ('min_p', (0.02, 0.3, 1.0)),
            ('repetition_penalty', (0.7, 1.1, 2.5)),
            ('frequency_penalty', (-0.4, 0.8)),
            ('presence_penalty', (-1.0, 1.5)),
            ('logit_bias', ({'3': 4.0, '17': -2.5},)),
            ('banned', ([0, 5, 6],))):
        cases += [case(rng, **{name: v}) for v in values]
    for _ in range(40):
        cases.append(case(
            rng, temperature=rng.choice([0.5, 0.9, 1.4]),
            top_k=rng.choice([0, 3, 12, 30]),
            typical_p=rng.choice([1.0, 0.3, 0.8]),
            top_p=rng.choice([1.0, 0.6, 0.92]),
            min_p=rng.choice([0.0, 0.05, 0.2]),
            repetition_penalty=rng.choice([1.0, 1.3]),
            frequency_penalty=rng.choice([0.0, 0.3]),
            presence_penalty=rng.choice([0.0, 0.6]),
            logit_bias=rng.choice([{}, {'8': 1.5, '30': -3.0}]),
            banned=rng.choice([[], [2, 7]])))
    print('[' + ',\n'.join(json.dumps(c) for c in cases) + ']')


main()
