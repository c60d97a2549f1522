#!/usr/bin/env python3
"""Writes dequantize.golden: random blocks of every GGUF block type and what the
`gguf` package (pip install gguf) makes of them. One line a block: type, block
bytes in hex, then each float's bits in hex.

    make_dequantize_golden.py > dequantize.golden
"""
import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

# Byte offsets of the fp16 fields, which get finite values.
HALVES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2],
    "Q6_K": [208],
}
# A usual scale, a negative one, and the least subnormal.
SCALES = [0.0371, -1.625, 2.0**-24]

rng = np.random.default_rng(7)
for name, offsets in HALVES.items():
    qtype = GGMLQuantizationType[name]
    size = GGML_QUANT_SIZES[qtype][1]
    # The small blocks are cheap: one for each scale.
    for scale in SCALES if size < 40 else SCALES[1:2]:
        block = rng.integers(0, 256, size, dtype=np.uint8)
        for i, at in enumerate(offsets):
            half = np.array([scale * (i + 1)], dtype=np.float16)
            block[at:at + 2] = half.view(np.uint8)
        values = dequantize(block[None, :], qtype)[0].astype(np.float32)
        bits = " ".join(f"{b:08x}" for b in values.view(np.uint32))
        print(name, block.tobytes().hex(), bits)
