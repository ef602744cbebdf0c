"""The other side of tests/pack/python.rs: Python's webdataset and tarfile read and write the same shards.

    webdataset_check.py read DIR            one JSON line a sample for all tars below DIR
    webdataset_check.py write DIR           twin tars in DIR, and the same lines for what is in them
    webdataset_check.py same DIR            whether tarfile, given the members of a tar below DIR, makes the same bytes
"""

import glob
import hashlib
import io
import json
import sys
import tarfile

import webdataset as wds


def line(key, fields):
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(fields.items())}
    print(json.dumps({"key": key, "fields": sums}))


def tars(folder):
    return sorted(glob.glob(f"{glob.escape(folder)}/**/*.tar", recursive=True))


def read(folder):
    for sample in wds.WebDataset(tars(folder), shardshuffle=False):
        line(sample["__key__"], {k: v for k, v in sample.items() if not k.startswith("__")})


def write(folder):
    import os

    for modality in ("image", "caption"):
        os.makedirs(f"{folder}/{modality}")
    number = 0
    for shard in range(3):
        names = {m: f"{folder}/{m}/{shard:06d}.tar" for m in ("image", "caption")}
        with wds.TarWriter(names["image"]) as image, wds.TarWriter(names["caption"]) as caption:
            for _ in range(5 + shard):
                key = f"{'long' * 40 if number == 4 else 'id'}_{number}é"
                pixels = bytes([number % 256]) * (number * 700)
                text = {"prompt": f"picture {number} – ü"}
                image.write({"__key__": key, "jpg": pixels})
                caption.write({"__key__": key, "json": text})
                line(key, {"image.jpg": pixels, "caption.json": json.dumps(text).encode()})
                number += 1


def same(folder):
    for path in tars(folder):
        made = io.BytesIO()
        with tarfile.open(path) as old, tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as new:
            for member in old:
                info = tarfile.TarInfo(member.name)
                info.size, info.mode = member.size, 0o644
                new.addfile(info, old.extractfile(member))
        with open(path, "rb") as ours:
            print(json.dumps({"path": path, "same": ours.read() == made.getvalue()}))


{"read": read, "write": write, "same": same}[sys.argv[1]](sys.argv[2])
