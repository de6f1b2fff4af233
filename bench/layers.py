#!/usr/bin/env python3
"""Compares a step of LeNet-5 or AlexNet with PyTorch's, alternating, on this machine.

    python bench/layers.py [--model lenet|alexnet] [--batch N] [--threads T] [--turns N] [--compile]

A step is forward, backward and update: SGD for LeNet, with momentum for AlexNet, without
dropout. Each turn runs Paceline and PyTorch in separate processes: PyTorch in both memory
formats, and with --compile also by torch.compile. The best step of each side counts, and the
highest peak memory. Needs torch (`pip install torch`); build first: cargo build --release
--features bench.
"""
import argparse
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import time


def torch_side(model, batch, threads, seconds, variant):
    import torch
    from torch import nn

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    if model == "lenet":
        shape, classes, momentum = (1, 28, 28), 10, 0.0
        net = nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.AvgPool2d(2),
            nn.Conv2d(6, 16, 5), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(),
            nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))
    else:
        shape, classes, momentum = (3, 224, 224), 1000, 0.9
        net = nn.Sequential(
            nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(True), nn.MaxPool2d(3, 2),
            nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(True), nn.MaxPool2d(3, 2),
            nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(True),
            nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(True),
            nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(True), nn.MaxPool2d(3, 2), nn.Flatten(),
            nn.Linear(9216, 4096), nn.ReLU(True), nn.Linear(4096, 4096), nn.ReLU(True),
            nn.Linear(4096, classes))
    x, y = torch.rand(batch, *shape), torch.randint(0, classes, (batch,))
    if "channels-last" in variant:
        net = net.to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=momentum)
    loss_fn = nn.CrossEntropyLoss()
    if "compile" in variant:
        net = torch.compile(net)
        loss_fn(net(x), y).backward()
    best, steps, start = float("inf"), 0, time.perf_counter()
    while steps < 3 or time.perf_counter() - start < seconds:
        begun = time.perf_counter()
        optimizer.zero_grad()
        loss_fn(net(x), y).backward()
        optimizer.step()
        best, steps = min(best, time.perf_counter() - begun), steps + 1
    print(json.dumps({"step_seconds": best}))


def run(command):
    """The step time that a process printed, and its peak memory in bytes."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    text = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"{command[0]} failed")
    return json.loads(text)["step_seconds"], usage.ru_maxrss * 1024


def main():
    here = pathlib.Path(__file__).resolve()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=str(here.parent.parent / "target/release/paceline"))
    parser.add_argument("--model", choices=["lenet", "alexnet"], default="lenet")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, help="of each turn; 3 for lenet, 8 for alexnet")
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--compile", action="store_true", help="run torch.compile too")
    parser.add_argument("--torch-side", help=argparse.SUPPRESS)
    args = parser.parse_args()
    seconds = args.seconds or (3 if args.model == "lenet" else 8)
    # torch is not imported here: memory held before `exec` counts as the child's peak.
    if importlib.util.find_spec("torch") is None:
        sys.exit("PyTorch is missing: pip install torch")
    if args.torch_side:
        return torch_side(args.model, args.batch, args.threads, seconds, args.torch_side)

    shape = ["--model", args.model, "--batch", str(args.batch), "--threads", str(args.threads)]
    shape += ["--seconds", str(seconds)]
    variants = ["eager", "eager channels-last"]
    if args.compile:
        variants += ["compile", "compile channels-last"]
    ours, theirs = [], {variant: [] for variant in variants}
    for _ in range(args.turns):
        ours.append(run([args.binary, "bench", "layers", "--json", *shape]))
        for variant, turns in theirs.items():
            turns.append(run([sys.executable, str(here), "--torch-side", variant, *shape]))
    print(f"{args.model}, batch {args.batch}, {args.threads} threads, best of {args.turns} turns")
    print(f"PyTorch {importlib.metadata.version('torch')}")
    our_best = min(t for t, _ in ours)
    for name, turns in [("paceline", ours), *theirs.items()]:
        best, memory = min(t for t, _ in turns), max(m for _, m in turns)
        print(f"  {name:22} {best * 1e3:9.2f} ms/step {args.batch / best:9.0f} examples/s "
              f"{memory / 1e6:7.0f} MB at most, Paceline's time {our_best / best:.3f} of it")


if __name__ == "__main__":
    main()
