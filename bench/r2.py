#!/usr/bin/env python3
"""Repeats report R2's table: seconds to test loss 0.35 on MNIST, by deployment and batch size.

Each cell is a run of `paceline train` at rate 0.01 on this machine, tested every 100 steps. The
best of several repeats counts and is printed next to R2's figure. Build first: cargo build
--release. MNIST must be in the cache (`paceline data get mnist`) or in --data.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

# deploy, mode, workers, R2's iterations (sum over workers) and seconds at batch 1, 40, 600
CELLS = [
    ("single", "single", 1, (7100, 7100, 7100), (13.7, 13.9, 13.8)),
    ("cluster", "async", 2, (10000, 7300, 7100), (35.1, 31.7, 38.1)),
    ("cluster2", "async", 3, (9400, 7300, 7100), (32.9, 10.8, 36.8)),
    ("cluster", "sync", 2, (15400, 14200, 14200), (34.7, 64.8, 112.6)),
    ("cluster2", "sync", 3, (23100, 21300, 21300), (38.2, 69.3, 122.6)),
]
BATCHES = (1, 40, 600)


def run(binary, mode, workers, batch, data):
    settings = {
        "data.kind": "mnist",
        "cluster.mode": mode,
        "train.batch": batch,
        "train.stop": "{test_loss=0.35}",
        "train.evaluate.every": 100,
    }
    if mode != "single":
        settings["cluster.workers"] = workers
    if data:
        settings["data.path"] = data
    with tempfile.TemporaryDirectory() as scratch:
        run_dir = pathlib.Path(scratch) / "run"
        command = [binary, "train", "--quiet", "--run-dir", str(run_dir)]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        subprocess.run(command, check=True)
        return json.loads((run_dir / "summary.json").read_text())


def main():
    here = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default=str(here / "target/release/paceline"))
    parser.add_argument("--data", help="directory of MNIST's four files")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    data = args.data and str(pathlib.Path(args.data).resolve())
    print("| deploy | mode | batch | R2 iterations | ours | R2 seconds | ours | times faster "
          "| accuracy |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|")
    for deploy, mode, workers, iterations, seconds in CELLS:
        for batch, their_steps, theirs in zip(BATCHES, iterations, seconds):
            best = min(
                (run(args.binary, mode, workers, batch, data) for _ in range(args.repeats)),
                key=lambda summary: summary["seconds"],
            )
            ours = best["seconds"]
            steps = sum(t["steps"] for t in best["tasks"] if t["task"].startswith("worker"))
            print(
                f"| {deploy} | {mode} | {batch} | {their_steps:,} | {steps:,} "
                f"| {theirs} | {ours:.2f} | {theirs / ours:.0f} "
                f"| {100 * best['test_accuracy']:.1f} % |",
                flush=True,
            )


if __name__ == "__main__":
    main()
