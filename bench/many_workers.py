"""Measures `mirrored` with many workers on this machine: examples per processor second, memory,
and the time of a whole run of one step.

    python3 bench/many_workers.py target/release/paceline [WORKERS...]
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Long enough that the start of the processes costs less than the steps.
STEPS = {2: 40_000, 16: 8_000, 64: 3_000}


def train(program, workers, steps):
    """Trains softmax on the generated digits with batch 10; the seconds it took and its summary."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        settings = [
            "cluster.mode=mirrored",
            f"cluster.workers={workers}",
            "train.batch=10",
            f"train.stop={{steps={steps}}}",
            f"train.evaluate.every={steps}",
        ]
        command = [program, "train", "--quiet", "--run-dir", str(run)]
        command += [word for setting in settings for word in ("--set", setting)]
        begun = time.monotonic()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds = time.monotonic() - begun
        return seconds, json.loads((run / "summary.json").read_text())


def measure(program, workers):
    steps = STEPS.get(workers, 4_000)
    # The processor time of the start is that of a run of one step.
    first, short = train(program, workers, 1)
    _, long = train(program, workers, steps)
    cpu = [sum(task["cpu_seconds"] for task in run["tasks"]) for run in (short, long)]
    examples = long["examples"] - short["examples"]
    memory = sum(task.get("peak_pss_bytes") or task["peak_rss_bytes"] for task in long["tasks"])
    return examples / (cpu[1] - cpu[0]), first, memory


def main():
    program, counts = sys.argv[1], [int(word) for word in sys.argv[2:]] or [2, 16, 64]
    base = None
    print("workers  examples/CPU s  ratio  run of one step  memory of all")
    for workers in counts:
        speed, first, memory = max(measure(program, workers) for _ in range(3))
        base = base or speed
        ratio, megabytes = speed / base, memory / 1e6
        print(f"{workers:7}  {speed:14,.0f}  {ratio:5.3f}  {first:13.2f} s  {megabytes:10,.0f} MB")


if __name__ == "__main__":
    main()
