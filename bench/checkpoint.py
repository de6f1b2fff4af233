#!/usr/bin/env python3
"""What checkpoints of a large model cost, and how fast they are written beside `dd`.

    python3 bench/checkpoint.py target/release/paceline [--turns 2] [--seconds 65] [--every 30]

AlexNet (61 million parameters) with momentum on a server, 488 MB in all, is trained by one worker
with a checkpoint every 30 s and without any, in turns; steps/s of both are compared. In each turn `dd`
writes and syncs as many bytes to the same disk three times while the machine does nothing else, and
three times beside a third, shorter run without checkpoints. Checkpoints are written beside the
training: so the second is what they are up against, and the first is what the disk can do. Best and
median of all turns are told.

Two runs of the same job differ by some percent on a machine that is not one's own, and so does the
cost. With a smaller `--every` more is paid for checkpoints than that: what one of them costs, in
seconds of training, tells what it is of 30 s.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile
import time

MEGABYTES = 489
# When a run has begun to make steps, and how long the run is that `dd` is beside.
WARM, BESIDE = 10, 30


def train(program, room, name, seconds, every, beside=None):
    """Steps/s of a run, MB and seconds of each checkpoint that was written while it went on, and
    what `beside` measured meanwhile."""
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
    process = subprocess.Popen(args, stdout=subprocess.DEVNULL)
    measured = None
    if beside:
        time.sleep(WARM)
        measured = beside()
        if process.poll() is not None:
            raise SystemExit("the run was over before dd was")
    if process.wait() != 0:
        raise SystemExit(f"the run {name} failed")
    with open(os.path.join(run, "summary.json")) as file:
        summary = json.load(file)
    with open(os.path.join(run, "ps_0", "log.txt")) as file:
        written = re.findall(r"checkpoint of step (\d+): ([\d.]+) MB in ([\d.]+) s", file.read())
    # The one at the end has the machine to itself.
    during = [(float(mb), float(s)) for step, mb, s in written if int(step) < summary["global_steps"]]
    return summary["steps_per_second"], during, measured


def dd(room):
    """MB/s of as many bytes, synced, three times."""
    path, rates = os.path.join(room, "dd"), []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run(
            ["dd", "if=/dev/zero", f"of={path}", "bs=1M", f"count={MEGABYTES}", "conv=fsync"],
            check=True, stderr=subprocess.DEVNULL,
        )
        rates.append(MEGABYTES * 1.048576 / (time.perf_counter() - start))
        os.remove(path)
    return rates


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=65)
    parser.add_argument("--every", type=float, default=30)
    args = parser.parse_args()
    plain, kept, rates, alone, beside, counts = [], [], [], [], [], []
    with tempfile.TemporaryDirectory(dir=".") as room:
        for turn in range(args.turns):
            plain.append(train(args.program, room, f"plain-{turn}", args.seconds, None)[0])
            rate, during, _ = train(args.program, room, f"kept-{turn}", args.seconds, args.every)
            kept.append(rate)
            counts.append(len(during))
            rates += [megabytes / seconds for megabytes, seconds in during]
            alone += dd(room)
            beside += train(args.program, room, f"dd-{turn}", BESIDE, None, lambda: dd(room))[2]
            print(f"turn {turn}: {plain[-1]:.3f} steps/s without, {rate:.3f} with checkpoints; "
                  f"(MB, s) written {during}; dd, MB/s: alone {listed(alone[-3:])}, "
                  f"beside the training {listed(beside[-3:])}", flush=True)
    for name, of in ("best", max), ("median", statistics.median):
        cost = 1 - of(kept) / of(plain)
        print(f"{name:6}  a checkpoint every {args.every:.0f} s costs {100 * cost:.1f} % of steps/s; "
              f"{cost * args.seconds / of(counts):.2f} s each, {cost * args.seconds / of(counts) / 0.3:.1f} % "
              f"of 30 s; written at {of(rates):.0f} MB/s while training goes on")
        for where, bare in ("alone", of(alone)), ("beside the training", of(beside)):
            print(f"        dd {where}: {bare:.0f} MB/s, ratio {of(rates) / bare:.2f}")


def listed(rates):
    return " ".join(f"{rate:.0f}" for rate in rates)


if __name__ == "__main__":
    main()
