"""One piece of work by one Python peer, timed: `work.py PEER WORK DATA` prints samples, seconds and CPU seconds as JSON.

Works are `large` and `small` (samples as bytes), `decode` and `decode-4k` (see `ours/main.rs`), `mean` and `mean-4k`. What isn't the work (imports, another layout of the same data) happens before the clock starts.
"""

import importlib
import json
import resource
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

WORKERS = 2
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

# Shortest side, crop, batch, folder.
PICTURES = {
    "decode": (256, 224, 64, "pictures"),
    "decode-4k": (1024, 1024, 8, "pictures-4k"),
}


def tars(data: Path, folder: str) -> list[str]:
    return sorted(str(path) for path in (data / folder).glob("*.tar"))


def loose(data: Path, folder: str) -> list[str]:
    return sorted(str(path) for path in (data / f"{folder}-files").glob("*.jpg"))


def normalised(batch):
    """Pictures [B, H, W, C] of bytes to float32 [B, C, H, W], for peers that leave it to numpy."""
    import numpy as np

    out = np.empty((batch.shape[0], 3, *batch.shape[1:3]), np.float32)
    for channel in range(3):
        np.multiply(batch[..., channel], np.float32(1 / 255 / STD[channel]), out=out[:, channel])
        out[:, channel] -= np.float32(MEAN[channel] / STD[channel])
    return out


def torchvision_parts(shortest: int, crop: int):
    from torchvision import transforms

    parts = [transforms.Resize(shortest), transforms.CenterCrop(crop), transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
    return transforms.Compose(parts)


def webdataset_samples(data: Path, folder: str) -> Iterable[int]:
    import webdataset as wds

    for _ in wds.WebDataset(tars(data, folder), shardshuffle=False):
        yield 1


def webdataset_torch_samples(data: Path, folder: str) -> Iterable[int]:
    import webdataset as wds

    dataset = wds.WebDataset(tars(data, folder), shardshuffle=False).listed(64)
    for batch in wds.WebLoader(dataset, batch_size=None, num_workers=WORKERS):
        yield len(batch)


def webdataset_torch(data: Path, work: str) -> Iterable:
    """As in webdataset's README: Pillow, torchvision's transforms, batches made in the workers of PyTorch's DataLoader."""
    import webdataset as wds

    shortest, crop, batch, folder = PICTURES[work]
    dataset = wds.WebDataset(tars(data, folder), shardshuffle=False).decode("pil").to_tuple("jpg")
    dataset = dataset.map_tuple(torchvision_parts(shortest, crop)).batched(batch)
    for (pictures,) in wds.WebLoader(dataset, batch_size=None, num_workers=WORKERS):
        yield pictures


def pool_part(path: str, work: str):
    """What a worker of `pool` does with a tar."""
    import numpy as np
    import webdataset as wds

    shortest, crop, batch, _ = PICTURES[work]
    held, batches = [], []
    for sample in wds.WebDataset([path], shardshuffle=False).decode("pil"):
        picture = sample["jpg"]
        scale = shortest / min(picture.size)
        if scale != 1:
            picture = picture.resize((round(picture.width * scale), round(picture.height * scale)), 2)
        left, top = (picture.width - crop) // 2, (picture.height - crop) // 2
        held.append(np.asarray(picture.crop((left, top, left + crop, top + crop))))
        if len(held) == batch:
            batches.append(normalised(np.stack(held)))
            held = []
    return batches + ([normalised(np.stack(held))] if held else [])


def pool(data: Path, work: str) -> Iterable:
    """A stand-in where PyTorch can't be installed: webdataset, Pillow and numpy in a pool of processes."""
    import multiprocessing
    from functools import partial

    with multiprocessing.Pool(WORKERS) as workers:
        for batches in workers.imap(partial(pool_part, work=work), tars(data, PICTURES[work][3])):
            yield from batches


def spdl(data: Path, work: str) -> Iterable:
    """As in SPDL's guide: batches of paths, decoded, resized and cropped by FFmpeg on threads."""
    from spdl import io
    from spdl.pipeline import PipelineBuilder

    shortest, crop, batch, folder = PICTURES[work]
    wanted = f"scale={shortest}:{shortest}:flags=bilinear:force_original_aspect_ratio=increase,crop={crop}:{crop},format=pix_fmts=rgb24"

    def load(paths: list[str]):
        buffer = io.load_image_batch(paths, width=None, height=None, filter_desc=wanted)
        return normalised(io.to_numpy(buffer))

    builder = PipelineBuilder().add_source(loose(data, folder)).aggregate(batch)
    pipeline = builder.pipe(load, concurrency=WORKERS).add_sink(4).build(num_threads=WORKERS)
    with pipeline.auto_stop():
        yield from pipeline


def datago(data: Path, work: str) -> Iterable:
    """From files. Of 256-pixel pictures the middle is cut out in numpy; larger ones are cropped and resized by datago, on its threads."""
    import numpy as np
    from datago import DatagoClient

    shortest, crop, batch, folder = PICTURES[work]
    files = loose(data, folder)
    config = {
        "source_type": "file",
        "source_config": {"root_path": str(Path(files[0]).parent), "random_sampling": False, "rank": 0, "world_size": 1},
        "limit": len(files),
        "samples_buffer_size": 128,
    }
    if work == "decode-4k":
        config["image_config"] = {
            "crop_and_resize": True,
            "default_image_size": crop,
            "downsampling_ratio": crop,
            "min_aspect_ratio": 1.0,
            "max_aspect_ratio": 1.0,
        }
    client, held = DatagoClient(json.dumps(config)), []
    while (sample := client.get_sample()) is not None:
        picture = sample.image.to_numpy_array()
        top, left = (picture.shape[0] - crop) // 2, (picture.shape[1] - crop) // 2
        held.append(picture[top : top + crop, left : left + crop])
        if len(held) == batch:
            yield normalised(np.stack(held))
            held = []
    if held:
        yield normalised(np.stack(held))
    client.stop()


def jpeg_of(path: str):
    from PIL import Image

    return {"jpg": Image.open(path)}


class Decoded:
    """torchvision's newer transforms, for peers that decode to tensors of bytes. A class, for litdata's workers are given it pickled."""

    def __init__(self, shortest: int, crop: int):
        import torch
        from torchvision.transforms import v2

        parts = [v2.Resize(shortest), v2.CenterCrop(crop), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
        self.parts = v2.Compose(parts)

    def __call__(self, sample):
        return self.parts(sample["jpg"])


def litdata(data: Path, work: str) -> Iterable:
    """As in litdata's README: a copy of the data in its own format, which keeps JPEGs and decodes them by torchvision."""
    import litdata as lit

    shortest, crop, batch, folder = PICTURES[work]
    copy = data / f"{folder}-litdata"
    if not (copy / "index.json").exists():
        lit.optimize(fn=jpeg_of, inputs=loose(data, folder), output_dir=str(copy), chunk_bytes="16MB", num_workers=WORKERS)
    dataset = lit.StreamingDataset(str(copy), transform=Decoded(shortest, crop))
    yield from lit.StreamingDataLoader(dataset, batch_size=batch, num_workers=WORKERS)


def energon(data: Path, work: str) -> Iterable:
    """As in Energon's guide: the same tars with its index beside them, decoded by its default, changed in `encode_sample`."""
    import subprocess

    from megatron import energon as en

    shortest, crop, batch, folder = PICTURES[work]
    copy = data / f"{folder}-energon"
    if not (copy / ".nv-meta").exists():
        copy.mkdir(exist_ok=True)
        for tar in tars(data, folder):
            (copy / Path(tar).name).write_bytes(Path(tar).read_bytes())
        options = ["--non-interactive", "--split-ratio", "1,0,0", "--sample-type", "ImageSample", "--field-map", '{"image": "jpg"}']
        command = [str(Path(sys.executable).with_name("energon")), "prepare", *options, "--num-workers", "1", str(copy)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    prepare = torchvision_parts(shortest, crop)

    class Encoder(en.DefaultTaskEncoder):
        decoder = en.SampleDecoder(image_decode="pil")

        @en.stateless
        def encode_sample(self, sample):
            sample.image = prepare(sample.image)
            return sample

    workers = en.WorkerConfig(rank=0, world_size=1, num_workers=WORKERS)
    dataset = en.get_val_dataset(str(copy), split_part="train", batch_size=batch, worker_config=workers, task_encoder=Encoder())
    for pictures in en.get_loader(dataset):
        yield pictures.image


SAMPLES: dict[str, Callable] = {"webdataset": webdataset_samples, "webdataset-torch": webdataset_torch_samples}
BATCHES: dict[str, Callable] = {"webdataset-torch": webdataset_torch, "pool": pool, "spdl": spdl, "datago": datago, "litdata": litdata, "energon": energon}


def cpu() -> float:
    """Seconds of this process and of those that it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


IMPORTS = {
    "webdataset": ["webdataset"],
    "webdataset-torch": ["webdataset", "torch", "torchvision.transforms"],
    "pool": ["webdataset"],
    "spdl": ["spdl.io", "spdl.pipeline"],
    "datago": ["datago"],
    "litdata": ["litdata", "torch", "torchvision.transforms.v2"],
    "energon": ["megatron.energon", "torchvision.transforms"],
}


def mean(batches: Iterable) -> float:
    """Of all numbers: PyTorch's tensors or numpy's arrays."""
    means = [(len(batch), float(batch.mean())) for batch in batches]
    return sum(count * mean for count, mean in means) / sum(count for count, _ in means)


def main() -> None:
    peer, work, data = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    for name in ["numpy", "PIL.JpegImagePlugin", *IMPORTS[peer]]:
        importlib.import_module(name)
    if work.startswith("mean"):
        print(json.dumps({"mean": mean(BATCHES[peer](data, work.replace("mean", "decode")))}))
        return
    began, used = time.perf_counter(), cpu()
    if work in PICTURES:
        done = sum(len(batch) for batch in BATCHES[peer](data, work))
    else:
        done = sum(SAMPLES[peer](data, work))
    print(json.dumps({"done": done, "seconds": time.perf_counter() - began, "cpu": cpu() - used}))


if __name__ == "__main__":
    main()
