#!/usr/bin/env python3
"""What transformers on PyTorch gives for a GGUF on this CPU: the peer of
bench_smollm2.py. Needs torch, transformers and gguf.

    peer_torch_cpu.py GGUF [--prompt 256] [--new 32] [--rounds 3] [--threads N]

Prints one JSON line per way (bf16 and fp32, eager and torch.compile): prefill
and decode tokens per second, best of the rounds.
"""
import argparse
import json
import os
import time

import torch
from transformers import AutoModelForCausalLM, StaticCache


def measure(model, prompt, new, rounds, static):
    ids = torch.arange(100, 100 + prompt).unsqueeze(0)
    best_prefill = best_decode = 0.0
    for _ in range(rounds + 1):  # the first warms up
        cache = (StaticCache(config=model.config, max_cache_len=prompt + new + 8)
                 if static else None)
        with torch.no_grad():
            begin = time.perf_counter()
            out = model(ids, past_key_values=cache, use_cache=True,
                        logits_to_keep=1)
            token = out.logits[0, -1].argmax().view(1, 1)
            middle = time.perf_counter()
            for _ in range(new):
                out = model(token, past_key_values=out.past_key_values,
                            use_cache=True)
                token = out.logits[0, -1].argmax().view(1, 1)
            end = time.perf_counter()
        best_prefill = max(best_prefill, prompt / (middle - begin))
        best_decode = max(best_decode, new / (end - middle))
    return best_prefill, best_decode


def main():
    p = argparse.ArgumentParser()
    p.add_argument('gguf')
    p.add_argument('--prompt', type=int, default=256)
    p.add_argument('--new', type=int, default=32)
    p.add_argument('--rounds', type=int, default=3)
    p.add_argument('--threads', type=int, default=os.cpu_count())
    p.add_argument('--no-compile', action='store_true')
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    for dtype in ('bfloat16', 'float32'):
        model = AutoModelForCausalLM.from_pretrained(
            os.path.dirname(os.path.abspath(a.gguf)),
            gguf_file=os.path.basename(a.gguf),
            dtype=getattr(torch, dtype)).eval()
        for how in ('eager',) if a.no_compile else ('eager', 'compiled'):
            try:
                if how == 'compiled':
                    model.forward = torch.compile(model.forward, dynamic=None)
                prefill, decode = measure(model, a.prompt, a.new, a.rounds,
                                          how == 'compiled')
            except Exception as e:  # a way that does not run is no peer
                print(json.dumps({'dtype': dtype, 'how': how,
                                  'error': repr(e)[:200]}), flush=True)
                continue
            print(json.dumps({'dtype': dtype, 'how': how,
                              'prefill': round(prefill, 1),
                              'decode': round(decode, 2)}), flush=True)


main()
