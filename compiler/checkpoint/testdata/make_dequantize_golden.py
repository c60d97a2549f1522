#!/usr/bin/env python3
"""Writes what the `gguf` package (pip install gguf) makes of random blocks.

    make_dequantize_golden.py FOLDER

FOLDER/dequantize.golden: a few blocks of every type, one a line: type, block
bytes in hex, then each float's bits in hex.
FOLDER/dequantize_many.golden: MANY blocks of every type, one type a line: type,
SHA-256 of the blocks, SHA-256 of the floats. The blocks come from a generator
that the test has, too.

The package knows Q8_K's size only; its floats are those of the format's
definition, d * q.
"""
import hashlib
import pathlib
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

# Byte offsets of the fp16 fields, which get finite values. Q8_K's is a float;
# MXFP4's and NVFP4's scales are bytes that may have any value.
HALVES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2],
    "Q6_K": [208], "Q8_K": [], "TQ1_0": [52], "TQ2_0": [64], "IQ4_NL": [0],
    "IQ4_XS": [0], "MXFP4": [], "NVFP4": [],
}
# A usual scale, a negative one, and the least subnormal.
SCALES = [0.0371, -1.625, 2.0**-24]
MANY = 500


def floats_of(name, blocks):
    """blocks [n, bytes] -> float32 [n, elements]"""
    if name == "Q8_K":
        d = np.ascontiguousarray(blocks[:, :4]).view(np.float32)
        return d * blocks[:, 4:260].view(np.int8).astype(np.float32)
    with np.errstate(over="ignore"):
        return dequantize(blocks, GGMLQuantizationType[name]).astype(np.float32)


def few():
    rng = np.random.default_rng(7)
    for name, offsets in HALVES.items():
        size = GGML_QUANT_SIZES[GGMLQuantizationType[name]][1]
        # The small blocks are cheap: one for each scale.
        for scale in SCALES if size < 40 else SCALES[1:2]:
            block = rng.integers(0, 256, size, dtype=np.uint8)
            for i, at in enumerate(offsets):
                half = np.array([scale * (i + 1)], dtype=np.float16)
                block[at:at + 2] = half.view(np.uint8)
            if name == "Q8_K":
                block[:4] = np.array([scale], dtype=np.float32).view(np.uint8)
            values = floats_of(name, block[None, :])[0]
            bits = " ".join(f"{b:08x}" for b in values.view(np.uint32))
            yield f"{name} {block.tobytes().hex()} {bits}"


def random_bytes(n):
    """Bytes of Knuth's 64-bit linear congruential generator, its top ones."""
    state, out = 1, bytearray()
    for _ in range(n):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append(state >> 56)
    return bytes(out)


def many():
    for name, offsets in HALVES.items():
        size = GGML_QUANT_SIZES[GGMLQuantizationType[name]][1]
        blocks = np.frombuffer(random_bytes(MANY * size), np.uint8).reshape(
            MANY, size).copy()
        # No exponent of all ones: neither infinity nor NaN.
        for at in [o + 1 for o in offsets]:
            blocks[:, at] &= 0xbf
        if name == "Q8_K":
            blocks[:, 3] &= 0xbf
        values = floats_of(name, blocks)
        yield (f"{name} {hashlib.sha256(blocks.tobytes()).hexdigest()} "
               f"{hashlib.sha256(values.tobytes()).hexdigest()}")


def main():
    folder = pathlib.Path(sys.argv[1])
    for name, lines in (("dequantize", few()), ("dequantize_many", many())):
        (folder / f"{name}.golden").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
