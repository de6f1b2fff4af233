#!/usr/bin/env python3
"""Measures steps of networks over emulated links: which way of sharing is fastest, and how
much of a step the link takes.

Needs root. Rounds alternate, and the best time per step of each side counts.

    python3 bench/links.py factors [--networks alexnet,small] [--links 1gbit,10gbit]
    python3 bench/links.py sync [--links 1gbit] [--workers 2] [--servers 1]
    python3 bench/links.py scaling [--mode mirrored|sync] [--links 1gbit,10gbit]
                           [--paceline PATH] [--cpus 1] [--steps 6] [--rounds 3]

`factors` compares the automatic choice of `cluster.factors` in `mirrored` with both overrides.
`sync` compares a step of AlexNet over servers with its bound, the larger of the computation and the
transfer: M bytes over each worker's link, or workers * M / servers over each server's, at rate B;
with gradients and parameters as f32 and as bf16. `scaling` compares the examples/s of AlexNet on 2
and 4 hosts with those on one; over a server, that is on a host of its own.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

JOB = """
[data]
kind = "fake-images"
train_examples = 4096
test_examples = 2
[train]
batch = {batch}
threads = 1
evaluate = {{ every = 100000, examples = 2 }}
optimizer = {{ kind = "momentum", rate = 0.001 }}
[cluster]
mode = "{mode}"
workers = {workers}
{sharing}
[cluster.emulate]
hosts = {hosts}
link = "{link}"
cpus = {cpus}
{servers_at}
[model]
{model}
"""
SMALL = """
kind = "network"
layers = [{ kind = "conv", channels = 16, size = 5, stride = 4 }, { kind = "relu" },
          { kind = "max-pool", size = 4 }, { kind = "flatten" },
          { kind = "dense", size = 256 }, { kind = "relu" }, { kind = "dense", size = "classes" }]
"""
NETWORKS = {"alexnet": ('kind = "alexnet"', 32), "small": (SMALL, 32)}
# What a link of the emulation carries of its nominal rate (docs/emulation.md).
PAYLOAD = 0.954


def bits(link):
    number, unit = link[:-4], link[-4:]
    return float(number) * {"gbit": 1e9, "mbit": 1e6}[unit] * PAYLOAD


class Run:
    """Two runs of a job: their difference leaves out the start and the first step."""

    def __init__(self, arguments, room, name, job):
        path = os.path.join(room, f"{name}.toml")
        with open(path, "w") as file:
            file.write(job)
        first, last = [self.summary(arguments, path, f"{room}/{name}-{steps}", steps)
                       for steps in (1, 1 + arguments.steps)]
        self.seconds = (last["seconds"] - first["seconds"]) / arguments.steps
        workers = [task for task in last["tasks"] if task["task"].startswith("worker")]
        computed = [task["phases"]["compute"] / task["steps"] for task in workers]
        self.compute = sum(computed) / len(computed)

    @staticmethod
    def summary(arguments, job, run, steps):
        words = [arguments.paceline, "train", job, "--run-dir", run, "--quiet",
                 "--set", f"train.stop={{steps={steps}}}"]
        done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr)
        with open(f"{run}/summary.json") as file:
            return json.load(file)


def best_of(arguments, sides):
    """The quickest run of each side; `sides` maps its name to its job."""
    best = {}
    with tempfile.TemporaryDirectory() as room:
        for turn in range(arguments.rounds):
            for name, job in sides.items():
                run = Run(arguments, room, f"{name}-{turn}", job)
                if name not in best or run.seconds < best[name].seconds:
                    best[name] = run
    return best


def factors(arguments):
    for network in arguments.networks.split(","):
        model, batch = NETWORKS[network]
        for link in arguments.links.split(","):
            def job(choice):
                hosts = arguments.workers
                return JOB.format(mode="mirrored", workers=hosts, hosts=hosts, batch=batch,
                                  sharing=f'factors = "{choice}"', link=link, model=model,
                                  cpus=arguments.cpus, servers_at="")
            choices = ("auto", "always", "never")
            best = best_of(arguments, {choice: job(choice) for choice in choices})
            better = min(best["always"].seconds, best["never"].seconds)
            times = "  ".join(f"{name} {run.seconds:.3f} s" for name, run in best.items())
            print(f"{network}  {link}  {times}  auto takes {best['auto'].seconds / better:.2f} of "
                  "the better", flush=True)


def sync(arguments):
    workers, servers = arguments.workers, arguments.servers
    model, batch = NETWORKS["alexnet"]
    params = 57_044_810  # with 10 classes
    for link in arguments.links.split(","):
        def job(wire):
            return JOB.format(mode="sync", workers=workers, hosts=workers + servers,
                              sharing=f'servers = {servers}\nwire = "{wire}"', link=link,
                              batch=batch, model=model, cpus=arguments.cpus,
                              servers_at='server = "own"')
        best = best_of(arguments, {wire: job(wire) for wire in ("f32", "bf16")})
        for wire, run in best.items():
            size = params * (4 if wire == "f32" else 2) * 8
            transfer = max(size, workers * size / servers) / bits(link)
            bound = max(run.compute, transfer)
            print(f"sync  {workers} workers, {servers} servers  {link}  {wire:4}"
                  f" {run.seconds:.2f} s  compute {run.compute:.2f} s  transfer {transfer:.2f} s"
                  f"  takes {run.seconds / bound:.2f} of the bound", flush=True)


def scaling(arguments):
    model, batch = NETWORKS["alexnet"]
    mirrored = arguments.mode == "mirrored"
    for link in arguments.links.split(","):
        def job(workers):
            return JOB.format(mode=arguments.mode, workers=workers, batch=batch, model=model,
                              hosts=workers if mirrored else workers + 1, link=link,
                              sharing="" if mirrored else "servers = 1", cpus=arguments.cpus,
                              servers_at="" if mirrored else 'server = "own"')
        best = best_of(arguments, {workers: job(workers) for workers in (1, 2, 4)})
        for workers, run in best.items():
            gain = workers * best[1].seconds / run.seconds
            print(f"{arguments.mode}  {workers} workers of {arguments.cpus} cores  {link}"
                  f"  {run.seconds:.2f} s  {workers * batch / run.seconds:.1f} examples/s"
                  f"  {gain:.2f} times one", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("factors", "sync", "scaling"))
    parser.add_argument("--paceline", default="target/release/paceline")
    parser.add_argument("--networks", default="alexnet,small")
    parser.add_argument("--links", default="1gbit,10gbit")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--mode", default="mirrored", choices=("mirrored", "sync", "async"))
    parser.add_argument("--cpus", help="cores of each host: 1, for `scaling` 0.5")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    arguments.cpus = arguments.cpus or ("0.5" if arguments.what == "scaling" else "1")
    {"factors": factors, "sync": sync, "scaling": scaling}[arguments.what](arguments)


main()
