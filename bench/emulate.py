#!/usr/bin/env python3
"""Measures how much of an emulated link a dense exchange uses, next to iperf3 on equal hosts.

Needs root and iperf3 (Debian: `apt-get install iperf3`). The script starts a run of AlexNet with
one worker and with the server on its own host, and stops its tasks (SIGSTOP). iperf3 then measures
the link between the two hosts, both ways at once, as an exchange does. The script kills that run
and starts a second one, which makes its steps. Its rate is the bytes that the worker sent, divided
by the time it spent exchanging.

    python3 bench/emulate.py [PACELINE] [LINK]
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time

PACELINE = sys.argv[1] if len(sys.argv) > 1 else "target/release/paceline"
LINK = sys.argv[2] if len(sys.argv) > 2 else "1gbit"
UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
RATE = float(LINK[:-4]) * UNITS[LINK[-4:]]
JOB = f"""
[model]
kind = "alexnet"
[data]
kind = "fake-images"
size = 67
train_examples = 64
test_examples = 2
[train]
batch = 2
evaluate = {{ every = 100000, examples = 2 }}
[cluster]
mode = "sync"
workers = 1
[cluster.emulate]
hosts = 2
link = "{LINK}"
server = "own"
"""


def start(job, run, steps):
    stop = f"train.stop={{steps={steps}}}"
    words = [PACELINE, "train", job, "--run-dir", run, "--set", stop]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def children(pid):
    """The child processes of a launcher, with their commands."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        pids = [int(word) for word in file.read().split()]
    commands = {}
    for child in pids:
        with open(f"/proc/{child}/cmdline") as file:
            commands[child] = file.read().split("\0")[0]
    return commands


def iperf_rate(job, run):
    """Mbit/s that iperf3 moves each way between two hosts whose tasks are stopped."""
    launcher = start(job, run, 1_000_000)
    for line in launcher.stderr:
        if line.startswith("step "):
            break
    commands = children(launcher.pid)
    tasks = [pid for pid, command in commands.items() if command != "cat"]
    # The first namespace holds the bridge; the hosts follow in order.
    hosts = sorted(pid for pid, command in commands.items() if command == "cat")[1:]
    for pid in tasks:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(0.5)  # Bytes in flight arrive.
    inside = [["nsenter", f"--net=/proc/{pid}/ns/net"] for pid in hosts]
    server = subprocess.Popen(inside[1] + ["iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
    time.sleep(0.5)
    client = ["iperf3", "-c", "10.77.0.2", "--bidir", "-t", "5", "-J"]
    output = subprocess.run(inside[0] + client, capture_output=True, check=True).stdout
    result = json.loads(output)
    server.wait()
    launcher.kill()
    launcher.wait()
    end = result["end"]
    directions = ("sum_received", "sum_received_bidir_reverse")
    return [end[direction]["bits_per_second"] / 1e6 for direction in directions]


def exchange(job, run):
    """Mbit/s of a worker's gradients while it exchanges, and the verdict's text."""
    launcher = start(job, run, 6)
    launcher.communicate()
    with open(f"{run}/summary.json") as file:
        summary = json.load(file)
    worker = next(task for task in summary["tasks"] if task["task"] == "worker:0")
    phases = worker["phases"]
    seconds = sum(phases[name] for name in ("push", "wait", "pull"))
    seconds -= worker.get("evaluation_seconds") or 0.0
    return worker["sent_bytes"] * 8e-6 / seconds, summary["verdict"]["text"]


with tempfile.TemporaryDirectory() as room:
    path = os.path.join(room, "job.toml")
    with open(path, "w") as file:
        file.write(JOB)
    there, back = iperf_rate(path, os.path.join(room, "iperf"))
    print(f"link                 {RATE / 1e6:8.0f} Mbit/s each way")
    print(f"iperf3, both ways    {there:8.0f} and {back:.0f} Mbit/s of payload")
    ours, verdict = exchange(path, os.path.join(room, "run"))
    print(f"exchange, each way   {ours:8.0f} Mbit/s of payload")
    print(f"                     {100e6 * ours / RATE:8.1f} % of the nominal link rate")
    print(f"                     {100 * ours / min(there, back):8.1f} % of iperf3")
    print(verdict)
