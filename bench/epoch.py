#!/usr/bin/env python3
"""Compares an epoch over rows that do not fit into memory with one over rows that do.

Generates clicks, 39 features out of 33,762,578, as cached rows (about 85 bytes each), and trains
logistic regression on them for one epoch. The other side is the same job on a million rows for as
many epochs as it takes a few seconds. Prints rows/s of both, their ratio, the size of the cache and
the greatest private memory of the training process, which includes the parameters.

With --limit, the large epoch runs in a memory control group of that many MB, so that its rows come
from the disk: pages of the cache count as well as the process's own memory (needs root).

With --dir the cache stays in that directory, and a later run uses it; --prepare only makes it.

Build first: cargo build --release.
"""
import argparse
import json
import os
import pathlib
import subprocess
import tempfile
import threading
import time

FEATURES = 33_762_578
SMALL_ROWS = 1_000_000


class ControlGroup:
    """Limits the memory of the processes that join it."""

    def __init__(self, megabytes):
        first, second = pathlib.Path("/sys/fs/cgroup/memory"), pathlib.Path("/sys/fs/cgroup")
        is_first = first.is_dir()
        self.place = (first if is_first else second) / f"paceline-bench-{os.getpid()}"
        self.place.mkdir()
        name = "memory.limit_in_bytes" if is_first else "memory.max"
        (self.place / name).write_text(str(megabytes * 1_000_000))

    def join(self):
        (self.place / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self):
        for _ in range(100):
            try:
                return self.place.rmdir()
            except OSError:
                time.sleep(0.1)


def private_bytes(pid):
    """The memory of a process that no file backs."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    lines = [line for line in status.splitlines() if line.startswith("RssAnon:")]
    return 1024 * int(lines[0].split()[1]) if lines else 0


def train(args, scratch, rows, stop, group=None):
    """The summary of a run, and the greatest private memory of its process."""
    run = scratch / f"run-{time.monotonic_ns()}"
    settings = ["data.kind=clicks", f"data.features={FEATURES}", f"data.train_examples={rows}",
                "data.test_examples=10000", f"data.cache={scratch / 'cache'}",
                f"train.batch={args.batch}", f"train.threads={args.threads}", stop,
                "train.evaluate.every=1000000000", "cluster.mode=single"]
    command = [args.binary, "train", "--quiet", "--run-dir", str(run)]
    command += [part for one in settings for part in ("--set", one)]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             preexec_fn=group.join if group else None)
    most, ended = [0], threading.Event()

    def sample():
        while not ended.wait(0.05):
            most[0] = max(most[0], private_bytes(child.pid))

    sampler = threading.Thread(target=sample)
    sampler.start()
    code = child.wait()
    ended.set()
    sampler.join()
    if code != 0:
        raise SystemExit(f"the run failed with code {code}")
    return json.loads((run / "summary.json").read_text()), most[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default="target/release/paceline")
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--limit", type=int, help="memory of the large epoch, in MB")
    parser.add_argument("--dir", help="where the cache stays, instead of a temporary directory")
    parser.add_argument("--prepare", action="store_true", help="make the cache and nothing else")
    args = parser.parse_args()
    args.binary = str(pathlib.Path(args.binary).resolve())
    if args.dir:
        return compare(args, pathlib.Path(args.dir))
    with tempfile.TemporaryDirectory() as place:
        compare(args, pathlib.Path(place))


def compare(args, scratch):
    start = time.perf_counter()
    train(args, scratch, args.rows, "train.stop={steps=1}")
    print(f"{args.rows} rows are cached after {time.perf_counter() - start:.0f} s", flush=True)
    size = max(file.stat().st_size for file in (scratch / "cache").iterdir())
    train(args, scratch, SMALL_ROWS, "train.stop={steps=1}")
    if args.prepare:
        return
    small = [train(args, scratch, SMALL_ROWS, "train.stop={seconds=3}")[0]]
    group = ControlGroup(args.limit) if args.limit else None
    try:
        large, private = train(args, scratch, args.rows, "train.stop={epochs=1}", group)
    finally:
        if group:
            group.remove()
    small.append(train(args, scratch, SMALL_ROWS, "train.stop={seconds=3}")[0])
    rates = [summary["examples_per_second"] for summary in small]
    rate = large["examples_per_second"]
    print(f"cache {size / 1e9:.2f} GB, {size / args.rows:.1f} bytes/row")
    print(f"in memory ({SMALL_ROWS} rows): {rates[0]:,.0f} and {rates[1]:,.0f} rows/s")
    print(f"one epoch over {args.rows} rows: {rate:,.0f} rows/s, "
          f"{rate / max(rates):.2f} of the rate in memory")
    print(f"greatest private memory {private / 1e6:.0f} MB, of which the parameters "
          f"{8 * FEATURES / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
