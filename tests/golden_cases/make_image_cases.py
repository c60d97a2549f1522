#!/usr/bin/env python3
"""Writes pictures and what CLIP's image processing makes of them into images/.

    make_image_cases.py [--out DIR]

Needs Pillow, numpy, safetensors, torch and transformers (5). golden.safetensors
holds the pixels of each file by preprocessor_config.json.
"""
import argparse
import json
import pathlib
import struct
import zlib

import numpy
import torch
from PIL import Image
from safetensors.torch import save_file
from transformers.models.clip import image_processing_pil_clip

CONFIG = {"do_resize": True, "size": {"shortest_edge": 16}, "resample": 3,
          "do_center_crop": True, "crop_size": {"height": 12, "width": 12},
          "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True,
          "image_mean": [0.48145466, 0.4578275, 0.40821073],
          "image_std": [0.26862954, 0.26130258, 0.27577711],
          "do_convert_rgb": True, "image_processor_type": "CLIPImageProcessor"}


def picture(width, height):
    """Gradients, a disc and some noise."""
    y, x = numpy.mgrid[0:height, 0:width]
    disc = (x - width / 2) ** 2 + (y - height / 3) ** 2 < (height / 4) ** 2
    rgb = numpy.stack([255 * x / width, 255 * y / height, 200 * disc + 20], -1)
    noise = numpy.random.default_rng(width).normal(0, 12, rgb.shape)
    return Image.fromarray(numpy.clip(rgb + noise, 0, 255).astype("uint8"))


def write_png(path, rgb, depth, chunk=None):
    """Of colours [height, width, 3] as they are stored."""
    def framed(name, data):
        return (struct.pack(">I", len(data)) + name + data +
                struct.pack(">I", zlib.crc32(name + data)))
    rows = b"".join(b"\0" + row.tobytes() for row in rgb)
    size = struct.pack(">IIBBBBB", rgb.shape[1], rgb.shape[0], depth, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + framed(b"IHDR", size) +
                     (framed(*chunk) if chunk else b"") +
                     framed(b"IDAT", zlib.compress(rows)) + framed(b"IEND", b""))


def main():
    parser = argparse.ArgumentParser()
    here = pathlib.Path(__file__).resolve().parent
    parser.add_argument("--out", default=here / "images", type=pathlib.Path)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    wide = picture(45, 31)
    alpha = wide.convert("RGBA")
    alpha.putalpha(wide.convert("L"))
    files = {"wide.png": wide, "tall.png": picture(13, 40),
             "grey.png": wide.convert("L"), "palette.png": wide.quantize(9),
             "alpha.png": alpha, "small.png": picture(5, 7),
             "wide.jpg": wide, "grey.jpg": wide.convert("L")}
    inks = Image.fromarray(numpy.asarray(alpha), "CMYK")
    files["inks.jpg"] = inks
    processor = image_processing_pil_clip.CLIPImageProcessorPil(**CONFIG)
    pixels = {}
    for name, image in files.items():
        image.save(out / name)
    rgb = numpy.asarray(wide)
    # Pillow reads these, but writes none: 16 bits, of which the upper 8 count,
    # a gamma, which does not, and a transparent colour, which shows white.
    write_png(out / "deep.png", rgb.astype(">u2") * 256 + 77, 16)
    write_png(out / "gamma.png", rgb, 8, (b"gAMA", struct.pack(">I", 100000)))
    key = struct.pack(">HHH", *(int(v) for v in rgb[3, 4]))
    write_png(out / "key.png", rgb, 8, (b"tRNS", key))
    for name in [*files, "deep.png", "gamma.png", "key.png"]:
        with Image.open(out / name) as read:
            pixels[name] = processor(read, return_tensors="pt"
                                     )["pixel_values"][0].float().contiguous()
    save_file(pixels, out / "golden.safetensors")
    (out / "preprocessor_config.json").write_text(
        json.dumps(CONFIG, indent=1) + "\n")


if __name__ == "__main__":
    main()
