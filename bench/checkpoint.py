#!/usr/bin/env python3
"""What checkpoints of a large model cost, and how fast they are written beside `dd`.

    python3 bench/checkpoint.py target/release/paceline [--turns 2] [--seconds 65] [--every 30]

AlexNet (61 million parameters) with momentum on a server, 488 MB in all, is trained by one worker
with a checkpoint every 30 s and without any, in turns; steps/s of both are compared. `dd` writes and
syncs as many bytes to the same disk after each turn. The best of the turns count.
"""

import argparse
import json
import os
import re
import subprocess
import tempfile
import time

MEGABYTES = 489


def train(program, room, name, seconds, every):
    """Steps/s of a run, and MB/s of each checkpoint that was written while it went on."""
    run = os.path.join(room, name)
    settings = [
        "model.kind=alexnet", "data.kind=fake-images", "data.train_examples=64",
        "data.test_examples=8", "cluster.mode=async", "cluster.workers=1", "train.batch=2",
        "train.optimizer.kind=momentum", f"train.stop={{seconds={seconds}}}",
        "train.evaluate.every=1000000",
    ]
    if every:
        settings += [f"checkpoint.every_seconds={every}", "checkpoint.keep=1"]
    args = [program, "train", "--quiet", "--run-dir", run]
    for setting in settings:
        args += ["--set", setting]
    subprocess.run(args, check=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(run, "summary.json")) as file:
        summary = json.load(file)
    with open(os.path.join(run, "ps_0", "log.txt")) as file:
        written = re.findall(r"checkpoint of step (\d+): ([\d.]+) MB in ([\d.]+) s", file.read())
    # The one at the end has the machine to itself.
    during = [(float(mb), float(s)) for step, mb, s in written if int(step) < summary["global_steps"]]
    return summary["steps_per_second"], during


def dd(room):
    """MB/s of as many bytes, synced."""
    path = os.path.join(room, "dd")
    start = time.perf_counter()
    subprocess.run(
        ["dd", "if=/dev/zero", f"of={path}", "bs=1M", f"count={MEGABYTES}", "conv=fsync"],
        check=True, stderr=subprocess.DEVNULL,
    )
    seconds = time.perf_counter() - start
    os.remove(path)
    return MEGABYTES * 1.048576 / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=65)
    parser.add_argument("--every", type=float, default=30)
    args = parser.parse_args()
    plain, kept, written, bare = [], [], [], []
    with tempfile.TemporaryDirectory(dir=".") as room:
        for turn in range(args.turns):
            plain.append(train(args.program, room, f"plain-{turn}", args.seconds, None)[0])
            rate, during = train(args.program, room, f"kept-{turn}", args.seconds, args.every)
            kept.append(rate)
            written += during
            bare.append(dd(room))
            print(f"turn {turn}: {plain[-1]:.3f} steps/s without, {rate:.3f} with checkpoints; "
                  f"written {during}; dd {bare[-1]:.0f} MB/s", flush=True)
    cost = 1 - max(kept) / max(plain)
    rates = [megabytes / seconds for megabytes, seconds in written]
    print(f"a checkpoint every {args.every:.0f} s costs {100 * cost:.1f} % of steps/s")
    print(f"written at {max(rates):.0f} MB/s, dd {max(bare):.0f} MB/s: "
          f"{max(rates) / max(bare):.2f}, while training goes on")


if __name__ == "__main__":
    main()
