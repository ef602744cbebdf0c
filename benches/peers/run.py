"""Runs all peers that are installed here on the same data, in turns, and prints one table. See README.md.

run.py DATA OURS [--rust WEBDATASET-CRATE] [--rounds 5] [--work large,small,decode,decode-4k] [--quiet COMMAND] [--skip PEER,..]
"""

import argparse
import importlib.util
import json
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
PYTHON = {
    "webdataset": ["webdataset"],
    "webdataset-torch": ["webdataset", "torch", "torchvision"],
    "pool": ["webdataset"],
    "spdl": ["spdl"],
    "datago": ["datago"],
    "litdata": ["litdata"],
    "energon": ["megatron"],
}
FOLDER = {"large": "large", "small": "small", "decode": "pictures", "decode-4k": "pictures-4k"}


def commands(work: str, options: argparse.Namespace) -> dict[str, list[str]]:
    """What runs for a work, ours first."""
    tars = sorted(str(path) for path in (options.data / FOLDER[work]).glob("*.tar"))
    walk = work in ("large", "small")
    found = {}
    for number, ours in enumerate(options.ours):
        name = "shardstream" if number == 0 else f"shardstream, {Path(ours).name}"
        modes = {"bare read()": "read", f"{name}, members": "members", f"{name}, samples": "samples"}
        modes |= {f"{name}, loader, 1 worker": "batches-1", f"{name}, loader, 2 workers": "batches-2"}
        for mode, argument in modes.items() if walk else [(name, work)]:
            found.setdefault(mode, [ours, argument, *tars])
    if options.rust:
        modes = {f"webdataset crate, {mode}": f"samples-{mode}" for mode in ("1", "2", "async")}
        for mode, argument in modes.items() if walk else [("webdataset crate, 2 workers", work)]:
            found[mode] = [options.rust, argument, *tars]
    for peer, needs in PYTHON.items():
        if walk != (peer == "webdataset") and not (walk and peer == "webdataset-torch"):
            continue
        if all(importlib.util.find_spec(need) for need in needs):
            found[f"python {peer}"] = [sys.executable, str(HERE / "work.py"), peer, work, str(options.data)]
        else:
            print(f"not installed, left out: {peer}", file=sys.stderr)
    return {name: command for name, command in found.items() if not any(skip in name for skip in options.skip)}


def run(command: list[str], quiet: list[str]) -> dict:
    """Runs one command and adds CPU seconds if it doesn't tell them: those of the whole process."""
    process = subprocess.Popen(quiet + command, stdout=subprocess.PIPE)
    text = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    if status != 0:
        raise RuntimeError(f"failed: {command[:4]}")
    result = json.loads(text.splitlines()[-1])
    result.setdefault("cpu", used.ru_utime + used.ru_stime)
    return result


def children(process: int) -> list[int]:
    """This process and all below it."""
    found = [process]
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        for child in task.read_text().split():
            found += children(int(child))
    return found


def memory(command: list[str]) -> float:
    """Peak memory in MB of a run of its own: of one process its peak RSS, of several the sum of what each takes up (PSS), sampled."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        try:
            all_of_it = children(process.pid)
            if len(all_of_it) > 1:
                rollups = [Path(f"/proc/{one}/smaps_rollup").read_text() for one in all_of_it]
                peak = max(peak, sum(int(text.split("\nPss:")[1].split()[0]) for text in rollups))
            else:
                status = Path(f"/proc/{process.pid}/status").read_text()
                peak = max(peak, int(status.split("VmHWM:")[1].split()[0]))
        except (OSError, IndexError):
            pass  # One of them has just ended.
        time.sleep(0.005)
    return peak / 1024


def measure(work: str, options: argparse.Namespace) -> None:
    quiet = options.quiet.split()
    found = commands(work, options)
    if work.startswith("decode"):
        # The same work? The means of all numbers must agree; this is also the run that makes copies in other layouts.
        means = {}
        for name, command in list(found.items()):
            try:
                means[name] = run([argument if argument != work else work.replace("decode", "mean") for argument in command], [])["mean"]
            except (RuntimeError, IndexError) as error:
                print(f"{name} does not run: {error}", file=sys.stderr)
                del found[name]
        print(f"means of all numbers: {', '.join(f'{name} {mean:.4f}' for name, mean in means.items())}", file=sys.stderr)
    took: dict[str, list[dict]] = {name: [] for name in found}
    turns, order = list(found.items()), random.Random(0)
    for _ in range(options.rounds):
        # Each round in an order of its own, for what ran before leaves caches and memory in its own state.
        order.shuffle(turns)
        for name, command in turns:
            took[name].append(run(command, quiet))
    counts = {name: {run["done"] for run in runs} for name, runs in took.items()}
    rows = {name: sorted(runs, key=lambda run: run["seconds"])[len(runs) // 2] for name, runs in took.items()}
    # A walk is compared with the stream of samples: neither a bare read nor members alone are the same work.
    first = "shardstream, samples" if "shardstream, samples" in rows else "shardstream"
    ours, (samples, *_) = rows[first], sorted(counts[first])
    print(f"\n{work}: {samples} samples\n\n| who | samples/s | lowest - highest | CPU s | peak MB | shardstream is |\n|---|---|---|---|---|---|")
    for name, row in rows.items():
        rates = [samples / run["seconds"] for run in took[name]]
        used = statistics.median(run["cpu"] for run in took[name])
        ratio = row["seconds"] / ours["seconds"]
        print(
            f"| {name} | {samples / row['seconds']:,.0f} | {min(rates):,.0f} - {max(rates):,.0f} | {used:.2f} | "
            f"{memory(found[name]):,.0f} | {ratio:.2f} times as fast |",
            flush=True,
        )
        if not name.startswith("bare") and "members" not in name and counts[name] != {samples}:
            print(f"{name} gave {counts[name]} samples", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("ours", nargs="+", help="programs built from ours/, the first one is compared with")
    parser.add_argument("--rust", help="program built from rust/")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work", default=",".join(FOLDER))
    parser.add_argument("--skip", default="", help="peers to leave out")
    parser.add_argument("--quiet", default="", help="command before each measured one")
    options = parser.parse_args()
    options.skip = [skip for skip in options.skip.split(",") if skip]
    for work in options.work.split(","):
        measure(work, options)


if __name__ == "__main__":
    main()
