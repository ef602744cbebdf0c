#!/usr/bin/env python3
"""Makes the reference values of tests/decode with Pillow (13.0) and numpy. Run from the root of the repository:

    tests/data/decode/make.py [--shared ../shared]

samples.tsv     256 pixels of every JPEG and WebP picture as Pillow's convert("RGB") gives them, base64
photo-*.png     two photographs made small (CC0, ../images/LICENSES/budgie-backgrounds-CC0)
arrays.json     arrays as numpy writes them (npy, npz), base64, with their values
transforms.json what Pillow makes of them; torchvision's transforms of PIL pictures are these very calls
"""
import base64, csv, io, json, os, sys
import numpy as np
from PIL import Image, ImageEnhance, ImageOps

HERE = os.path.dirname(os.path.abspath(__file__))
SHARED = sys.argv[sys.argv.index("--shared") + 1] if "--shared" in sys.argv else "../shared"
b64 = lambda array: base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def samples():
    seen = {}
    for base, table in (("tests/data/images", "IMAGES.tsv"), (os.path.join(SHARED, "fixtures"), "IMAGES.tsv")):
        if not os.path.exists(os.path.join(base, table)):
            continue
        for row in csv.DictReader(open(os.path.join(base, table)), delimiter="\t"):
            if row["status"] != "ok" or row["format"] not in ("JPEG", "WEBP"):
                continue
            path = row["path"].removeprefix("fixtures/images/")
            file = os.path.join(base, row["path"].removeprefix("fixtures/"))
            pixels = np.asarray(Image.open(file).convert("RGB")).reshape(-1, 3)
            at = (np.arange(256, dtype=np.uint64) * np.uint64(2654435761)) % np.uint64(len(pixels))
            seen[path] = b64(pixels[at.astype(int)])
    with open(os.path.join(HERE, "samples.tsv"), "w") as out:
        for path, text in sorted(seen.items()):
            out.write(f"{path}\t{text}\n")


def photos():
    for name, source, size in (("photo-a", "canyon-wren", (160, 120)), ("photo-b", "casa-mila", (90, 128))):
        with Image.open(os.path.join(SHARED, "photos", source + ".jpg")) as image:
            ImageOps.fit(image.convert("RGB"), size, Image.Resampling.LANCZOS).save(os.path.join(HERE, name + ".png"), optimize=True)


def hue(image, factor):
    h, s, v = image.convert("HSV").split()
    h = (np.asarray(h).astype(np.uint8) + np.array(int(factor * 255)).astype(np.uint8)).astype(np.uint8)
    return Image.merge("HSV", (Image.fromarray(h), s, v)).convert("RGB")


def transforms():
    cases = []
    R = Image.Resampling
    names = {R.NEAREST: "nearest", R.BILINEAR: "bilinear", R.BICUBIC: "bicubic", R.LANCZOS: "lanczos"}

    def add(photo, op, args, image):
        cases.append({"photo": photo, "op": op, "args": args, "width": image.width, "height": image.height, "rgb8": b64(np.asarray(image))})

    for photo in ("photo-a", "photo-b"):
        image = Image.open(os.path.join(HERE, photo + ".png")).convert("RGB")
        for size in ((56, 40), (31, 60)) if photo == "photo-a" else ((40, 50),):
            for how in (R.BILINEAR, R.BICUBIC, R.LANCZOS):
                add(photo, "resize", {"size": size, "filter": names[how]}, image.resize(size, how))
        if photo == "photo-b":
            add(photo, "resize", {"size": (70, 30), "filter": "lanczos"}, image.resize((70, 30), R.LANCZOS))
            add(photo, "region", {"region": (11, 20, 61, 75), "size": (40, 40), "filter": "bilinear"}, image.crop((11, 20, 72, 95)).resize((40, 40), R.BILINEAR))
        small = image.resize((24, 18), R.BILINEAR)
        add(photo, "small", {}, small)
        for factor in (0.0, 0.6, 1.4):
            add(photo, "brightness", {"factor": factor}, ImageEnhance.Brightness(small).enhance(factor))
            add(photo, "contrast", {"factor": factor}, ImageEnhance.Contrast(small).enhance(factor))
            add(photo, "saturation", {"factor": factor}, ImageEnhance.Color(small).enhance(factor))
        for factor in (-0.3, 0.1, 0.5):
            add(photo, "hue", {"factor": factor}, hue(small, factor))
        add(photo, "grey", {}, small.convert("L").convert("RGB"))
        add(photo, "flip", {}, ImageOps.mirror(small))
        for mode in ("edge", "reflect"):
            padded = np.pad(np.asarray(small), ((3, 40), (30, 2), (0, 0)), mode=mode)
            add(photo, "pad", {"margins": (30, 3, 2, 40), "mode": mode}, Image.fromarray(padded))
    json.dump(cases, open(os.path.join(HERE, "transforms.json"), "w"), indent=0)


def arrays():
    small = np.arange(6).reshape(2, 3)
    kinds = {
        **{t: small.astype(t) for t in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", ">i4", ">f2", ">f8")},
        "b1": np.array([True, False, True]),
        "fortran": np.asfortranarray(np.arange(24, dtype="i4").reshape(2, 3, 4)),
        "scalar": np.array(-7, dtype="i8"),
        "empty": np.zeros((0, 4), dtype="f4"),
        "complex": small.astype("c8"),
        "text": np.array(["a"]),
        "record": np.zeros(2, dtype=[("x", "f4")]),
    }
    out = {}
    for name, array in kinds.items():
        file = io.BytesIO()
        np.save(file, array)
        values = array.astype("f8").ravel().tolist() if array.dtype.kind in "biuf" else None
        out[name] = {"npy": base64.b64encode(file.getvalue()).decode(), "shape": array.shape, "dtype": array.dtype.str[1:], "values": values}
    for name, save in (("stored", np.savez), ("deflated", np.savez_compressed)):
        file = io.BytesIO()
        save(file, second=small.astype("f4"), first=np.zeros((50, 50), dtype="u2"))
        out[name] = {"npz": base64.b64encode(file.getvalue()).decode()}
    json.dump(out, open(os.path.join(HERE, "arrays.json"), "w"), indent=0)


photos()
samples()
arrays()
transforms()
