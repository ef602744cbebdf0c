"""Makes the data that all peers read: `make_data.py FOLDER [PHOTOS...]`. The same bytes on every run with the same photographs and Pillow.

large/      4 tars of 1000 members of 100 KB, plain headers
small/      4 tars of 10,000 samples of npy (4 KB) and json, as webdataset's TarWriter writes them: a PAX header before every member
pictures/   4 tars of 512 JPEGs, shortest side 256; the same ones loose in pictures-files/
pictures-4k/    4 tars of 64 JPEGs of 3840 x 2160; the same ones loose in pictures-4k-files/
"""

import io
import json
import random
import sys
import tarfile
from pathlib import Path

import numpy as np
import webdataset as wds
from PIL import Image

SHARDS = 4


def large(folder: Path, members: int = 1000, size: int = 100_000) -> None:
    noise = np.random.default_rng(1)
    for shard in range(SHARDS):
        with tarfile.open(folder / f"{shard:06}.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
            for number in range(members):
                member = tarfile.TarInfo(f"{shard:03}{number:06}.bin")
                member.size = size
                tar.addfile(member, io.BytesIO(noise.bytes(size)))


def small(folder: Path, samples: int = 10_000) -> None:
    noise = np.random.default_rng(2)
    for shard in range(SHARDS):
        with wds.TarWriter(str(folder / f"{shard:06}.tar"), encoder=False) as tar:
            for number in range(samples):
                array = io.BytesIO()
                np.save(array, noise.random(1000, dtype=np.float32))
                about = {"prompt": f"picture {number} of shard {shard}", "width": 640, "height": 480, "tags": ["a", "b"] * 10}
                sample = {"__key__": f"{shard:03}{number:06}", "npy": array.getvalue(), "json": json.dumps(about).encode()}
                tar.write(sample)


def crop(photo: Image.Image, dice: random.Random, shortest: int) -> Image.Image:
    """A part of a photograph, between square and 16:9, with this shortest side."""
    wide = dice.uniform(1.0, 16 / 9)
    side = min(photo.height, photo.width / wide) * dice.uniform(0.4, 1.0)
    left, top = dice.uniform(0, photo.width - side * wide), dice.uniform(0, photo.height - side)
    box = (left, top, left + side * wide, top + side)
    return photo.resize((round(shortest * wide), shortest), Image.Resampling.BICUBIC, box=box)


def crop_4k(photo: Image.Image, dice: random.Random) -> Image.Image:
    """The largest part of a photograph that is 16:9, somewhere, as 3840 x 2160."""
    height = min(photo.height, photo.width * 9 / 16) * dice.uniform(0.9, 1.0)
    width = height * 16 / 9
    left, top = dice.uniform(0, photo.width - width), dice.uniform(0, photo.height - height)
    return photo.resize((3840, 2160), Image.Resampling.BICUBIC, box=(left, top, left + width, top + height))


def pictures(folder: Path, photos: list[Path], count: int, make) -> None:
    loose = folder.with_name(f"{folder.name}-files")
    loose.mkdir(exist_ok=True)
    dice = random.Random(3)
    opened = [Image.open(path).convert("RGB") for path in photos]
    for shard in range(SHARDS):
        with wds.TarWriter(str(folder / f"{shard:06}.tar"), encoder=False) as tar:
            for number in range(shard * count // SHARDS, (shard + 1) * count // SHARDS):
                jpeg = io.BytesIO()
                make(opened[number % len(opened)], dice).save(jpeg, "jpeg", quality=90)
                tar.write({"__key__": f"{number:06}", "jpg": jpeg.getvalue()})
                (loose / f"{number:06}.jpg").write_bytes(jpeg.getvalue())


def main() -> None:
    root = Path(sys.argv[1])
    photos = [Path(path) for path in sys.argv[2:]]
    parts = {
        "large": large,
        "small": small,
        "pictures": lambda folder: pictures(folder, photos, 2048, lambda photo, dice: crop(photo, dice, 256)),
        "pictures-4k": lambda folder: pictures(folder, photos, 256, crop_4k),
    }
    for name, make in parts.items():
        done = root / f"{name}.done"
        if not done.exists():
            (root / name).mkdir(parents=True, exist_ok=True)
            make(root / name)
            done.touch()


if __name__ == "__main__":
    main()
