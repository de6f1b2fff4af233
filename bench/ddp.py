#!/usr/bin/env python3
"""Compares `mirrored` with PyTorch's DistributedDataParallel on equal emulated hosts.

Needs root and PyTorch (`pip install torch`). For each number of hosts and each link, Paceline
trains AlexNet in `mirrored`. Then the script starts that run once more, stops its tasks (SIGSTOP),
and runs DDP over gloo in the same network namespaces and control groups: with gradients as f32,
and with the bf16 compression hook. Rounds alternate; the best time per step of each counts.

    python3 bench/ddp.py [--paceline PATH] [--hosts 2] [--links 1gbit,10gbit] [--cpus 1]
                         [--steps 6] [--rounds 1]
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

BATCH = 32
JOB = """
[model]
kind = "alexnet"
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
mode = "mirrored"
workers = {hosts}
[cluster.emulate]
hosts = {hosts}
link = "{link}"
cpus = {cpus}
"""


def ddp(rank, world, steps, hook):
    """One process of DDP; rank 0 prints the best seconds per step."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="10.77.0.1", MASTER_PORT="29500", GLOO_SOCKET_IFNAME="eth0")
    dist.init_process_group("gloo", rank=rank, world_size=world)

    def conv(inputs, outputs, kernel, stride, padding):
        return [nn.Conv2d(inputs, outputs, kernel, stride, padding), nn.ReLU()]

    pool = nn.MaxPool2d(3, 2)
    layers = conv(3, 64, 11, 4, 2) + [pool] + conv(64, 192, 5, 1, 2) + [pool]
    layers += conv(192, 384, 3, 1, 1) + conv(384, 256, 3, 1, 1) + conv(256, 256, 3, 1, 1) + [pool]
    layers += [nn.Flatten(), nn.Dropout(), nn.Linear(9216, 4096), nn.ReLU(), nn.Dropout()]
    layers += [nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 10)]
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers))
    if hook == "bf16":
        model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    loss = nn.CrossEntropyLoss()
    examples, labels = torch.rand(BATCH, 3, 224, 224), torch.randint(0, 10, (BATCH,))
    times = []
    for _ in range(steps + 1):
        begun = time.perf_counter()
        optimizer.zero_grad()
        loss(model(examples), labels).backward()
        optimizer.step()
        times.append(time.perf_counter() - begun)
    if rank == 0:
        # The first step allocates. The mean is what the summary of a run has, too.
        print(sum(times[1:]) / steps)
    dist.destroy_process_group()


def start(arguments, job, run, steps):
    stop = f"train.stop={{steps={steps}}}"
    words = [arguments.paceline, "train", job, "--run-dir", run, "--set", stop]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def paceline_seconds(arguments, job, run):
    """Seconds per step. The difference of two runs leaves out the start and the first step."""
    seconds = []
    for steps in (1, 1 + arguments.steps):
        process = start(arguments, job, f"{run}-{steps}", steps)
        _, messages = process.communicate()
        if process.returncode != 0:
            sys.exit(messages)
        with open(f"{run}-{steps}/summary.json") as file:
            seconds.append(json.load(file)["seconds"])
    return (seconds[1] - seconds[0]) / arguments.steps


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        pids = sorted(int(word) for word in file.read().split())
    def command(child):
        with open(f"/proc/{child}/cmdline") as file:
            return file.read().split("\0")[0]
    return {child: command(child) for child in pids}


def groups(pid):
    """The files that move a process into the control groups of another."""
    with open(f"/proc/{pid}/cgroup") as file:
        lines = [line.strip().split(":", 2) for line in file]
    roots = {"": "/sys/fs/cgroup"}
    found = []
    for _, controllers, path in lines:
        root = roots.get(controllers, f"/sys/fs/cgroup/{controllers}")
        file = f"{root}{path}/cgroup.procs"
        if "paceline-" in path and os.path.exists(file):
            found.append(file)
    return found


def ddp_seconds(arguments, job, run, hosts, hook):
    """Seconds per step of DDP on the hosts of a run whose tasks are stopped."""
    launcher = start(arguments, job, run, 1_000_000)
    for line in launcher.stderr:
        if "step" in line:
            break
    commands = children(launcher.pid)
    tasks = [pid for pid, command in commands.items() if command != "cat"]
    # The first namespace holds the bridge; the hosts follow in order.
    spaces = [pid for pid, command in commands.items() if command == "cat"][1:]
    for pid in tasks:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(0.5)  # Bytes in flight arrive.
    processes = []
    for rank in range(hosts):
        join = "".join(f"echo $$ > {file}; " for file in groups(tasks[rank]))
        words = f"{sys.executable} {os.path.abspath(__file__)} --rank {rank} --world {hosts}"
        words += f" --steps {arguments.steps} --hook {hook}"
        enter = ["nsenter", f"--net=/proc/{spaces[rank]}/ns/net", "sh", "-c"]
        enter.append(f"{join}exec {words}")
        processes.append(subprocess.Popen(enter, stdout=subprocess.PIPE, text=True))
    outputs = [process.communicate()[0] for process in processes]
    launcher.kill()
    launcher.wait()
    return float(outputs[0].split()[-1])


def compare(arguments, hosts, link):
    best = {}
    with tempfile.TemporaryDirectory() as room:
        job = os.path.join(room, "job.toml")
        with open(job, "w") as file:
            file.write(JOB.format(batch=BATCH, hosts=hosts, link=link, cpus=arguments.cpus))
        for turn in range(arguments.rounds):
            measured = {"paceline": paceline_seconds(arguments, job, f"{room}/run{turn}")}
            for hook in ("f32", "bf16"):
                run = f"{room}/{hook}{turn}"
                measured[f"ddp {hook}"] = ddp_seconds(arguments, job, run, hosts, hook)
            for name, seconds in measured.items():
                best[name] = min(seconds, best.get(name, seconds))
    for name, seconds in best.items():
        rate, ratio = hosts * BATCH / seconds, best["paceline"] / seconds
        print(f"{hosts} hosts  {link:>7}  {name:9} {seconds:6.2f} s  {rate:6.1f} examples/s  "
              f"paceline takes {ratio:.2f} of it", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--paceline", default="target/release/paceline")
    parser.add_argument("--hosts", default="1,2,4")
    parser.add_argument("--links", default="1gbit,10gbit")
    parser.add_argument("--cpus", default="1")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--world", type=int)
    parser.add_argument("--hook")
    arguments = parser.parse_args()
    if arguments.rank is not None:
        return ddp(arguments.rank, arguments.world, arguments.steps, arguments.hook)
    for hosts in map(int, arguments.hosts.split(",")):
        for link in arguments.links.split(","):
            compare(arguments, hosts, link)


main()
