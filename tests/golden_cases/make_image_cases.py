#!/usr/bin/env python3
"""Writes pictures and what CLIP's image processing makes of them into images/.

    make_image_cases.py [--out DIR]

Needs Pillow, numpy, safetensors, torch and transformers (5). golden.safetensors
holds the pixels of each file by preprocessor_config.json.
"""
import argparse
import json
import pathlib

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
    processor = image_processing_pil_clip.CLIPImageProcessorPil(**CONFIG)
    pixels = {}
    for name, image in files.items():
        image.save(out / name)
        with Image.open(out / name) as read:
            pixels[name] = processor(read.convert("RGB"), return_tensors="pt"
                                     )["pixel_values"][0].float().contiguous()
    save_file(pixels, out / "golden.safetensors")
    (out / "preprocessor_config.json").write_text(
        json.dumps(CONFIG, indent=1) + "\n")


if __name__ == "__main__":
    main()
