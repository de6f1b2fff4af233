#!/usr/bin/env python3
"""Measures what checkpoints of a large model cost, and how fast they are written next to `dd`.

    python3 bench/checkpoint.py target/release/paceline [--turns 2] [--seconds 65] [--every 30]

One worker trains AlexNet (61 million parameters) with momentum on a server, 488 MB in all, with a
checkpoint every 30 s and without any, alternating. The steps/s of both are compared. In each turn,
`dd` writes and syncs the same number of bytes to the same disk three times while the machine is
idle, and three times during a third, shorter run without checkpoints. Checkpoints are written
while training continues, so the second rate is the fair comparison; the first is what the disk can
do. The script prints the best and the median of all turns.

On a shared machine, two runs of the same job differ by a few percent, and so does the measured
cost. A smaller `--every` makes the cost larger than that noise. The script therefore also prints
what one checkpoint costs in seconds of training, as a share of 30 s.
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
# Seconds until a run is making steps, and the length of the run that `dd` competes with.
WARM, BESIDE = 10, 30


def train(program, room, name, seconds, every, beside=None):
    """Returns a run's steps/s, the MB and seconds of each checkpoint written during training, and
    the result of `beside`, which is called while the run trains."""
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
            raise SystemExit("the run ended before dd did")
    if process.wait() != 0:
        raise SystemExit(f"the run {name} failed")
    with open(os.path.join(run, "summary.json")) as file:
        summary = json.load(file)
    with open(os.path.join(run, "ps_0", "log.txt")) as file:
        written = re.findall(r"checkpoint of step (\d+): ([\d.]+) MB in ([\d.]+) s", file.read())
    # The last checkpoint is written after training, when the machine is idle.
    end = summary["global_steps"]
    during = [(float(mb), float(s)) for step, mb, s in written if int(step) < end]
    return summary["steps_per_second"], during, measured


def dd(room):
    """MB/s of writing and syncing the same number of bytes, three times."""
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
                  f"(MB, s) written {during}; dd, MB/s: idle {listed(alone[-3:])}, "
                  f"during training {listed(beside[-3:])}", flush=True)
    for name, of in ("best", max), ("median", statistics.median):
        cost = 1 - of(kept) / of(plain)
        each = cost * args.seconds / of(counts)
        print(f"{name:6}  a checkpoint every {args.every:.0f} s costs {100 * cost:.1f} % of "
              f"steps/s, {each:.2f} s each, {each / 0.3:.1f} % of 30 s; "
              f"written at {of(rates):.0f} MB/s during training")
        for where, bare in ("on the idle machine", of(alone)), ("during training", of(beside)):
            print(f"        dd {where}: {bare:.0f} MB/s, ratio {of(rates) / bare:.2f}")


def listed(rates):
    return " ".join(f"{rate:.0f}" for rate in rates)


if __name__ == "__main__":
    main()
