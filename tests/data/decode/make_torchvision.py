#!/usr/bin/env python3
"""Makes torchvision.json: what torchvision makes of real photographs, both its paths: PIL pictures and tensors. Run from the root of the
repository with a Python that has torch and torchvision (Debian 12: `apt-get install python3-torchvision`, 0.14.1, Pillow 9.4):

    /usr/bin/python3 tests/data/decode/make_torchvision.py

Of each result the size and 256 pixels spread over it, base64; of numbers as little-endian float32. The photographs are the two small ones
beside this file, lossless, and one full JPEG of ../photos (resized only).
"""
import base64, json, os
import numpy as np
import PIL, torch, torchvision
from PIL import Image
from torchvision.transforms import InterpolationMode as M
from torchvision.transforms import functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
b64 = lambda array: base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
cases = []


def add(photo, op, args, backend, result):
    if isinstance(result, torch.Tensor):
        result = result.permute(1, 2, 0).numpy()
    array = np.asarray(result)
    pixels = array.reshape(-1, 3)
    at = (np.arange(256, dtype=np.uint64) * np.uint64(2654435761)) % np.uint64(len(pixels))
    cases.append({"photo": photo, "op": op, "args": args, "backend": backend, "width": array.shape[1], "height": array.shape[0], "pixels": b64(pixels[at.astype(int)].astype("u1" if array.dtype == np.uint8 else "<f4"))})


for photo in ("photo-a.png", "photo-b.png", "../photos/roman-colosseum.jpg"):
    pil = Image.open(os.path.join(HERE, photo)).convert("RGB")
    for backend, image in (("pil", pil), ("tensor", F.pil_to_tensor(pil))):
        both = lambda op, args, result: add(photo, op, args, backend, result)
        small = min(pil.size) < 200
        for side in (40, 61) if small else (224, 97):
            for name, mode in (("bilinear", M.BILINEAR), ("bicubic", M.BICUBIC)):
                both("resize", {"side": side, "filter": name}, F.resize(image, side, mode, antialias=True))
        side = 33 if small else 160
        both("resize, crop", {"side": side, "crop": [side - 5, side - 12]}, F.center_crop(F.resize(image, side, M.BILINEAR, antialias=True), [side - 12, side - 5]))
        if not small:
            continue  # The decoders of JPEG differ by up to 3: enough to hide how the rest does.
        both("resized crop", {"region": [11, 20, 61, 75], "size": [40, 32]}, F.resized_crop(image, 20, 11, 75, 61, [32, 40], M.BILINEAR) if backend == "pil" else F.resize(F.crop(image, 20, 11, 75, 61), [32, 40], M.BILINEAR, antialias=True))
        both("center crop", {"crop": [71, 58]}, F.center_crop(image, [58, 71]))
        both("flip", {"vertical": False}, F.hflip(image))
        both("flip", {"vertical": True}, F.vflip(image))
        for mode in ("edge", "reflect", "constant"):
            both("pad", {"margins": [30, 3, 2, 40], "mode": mode}, F.pad(image, [30, 3, 2, 40], 77 if mode == "constant" else 0, mode))
        both("grey", {}, F.rgb_to_grayscale(image, 3))
        for factor in (0.0, 0.6, 1.4):
            both("brightness", {"factor": factor}, F.adjust_brightness(image, factor))
            both("contrast", {"factor": factor}, F.adjust_contrast(image, factor))
            both("saturation", {"factor": factor}, F.adjust_saturation(image, factor))
        for factor in (-0.3, 0.1, 0.5):
            both("hue", {"factor": factor}, F.adjust_hue(image, factor))
        # ColorJitter with its draws fixed: the four in an order that it may draw.
        jittered = F.adjust_hue(F.adjust_contrast(F.adjust_saturation(F.adjust_brightness(image, 1.2), 0.7), 1.3), -0.07)
        both("jitter", {"order": ["brightness", 1.2, "saturation", 0.7, "contrast", 1.3, "hue", -0.07]}, jittered)
    numbers = F.normalize(F.to_tensor(pil), [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    add(photo, "normalize", {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}, "float", numbers)

versions = {"torchvision": torchvision.__version__, "torch": torch.__version__, "pillow": PIL.__version__}
with open(os.path.join(HERE, "torchvision.json"), "w") as out:
    out.write('{"versions": ' + json.dumps(versions) + ', "cases": [\n' + ",\n".join(json.dumps(case) for case in cases) + "\n]}\n")
