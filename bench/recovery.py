#!/usr/bin/env python3
"""Measures how long a run of `paceline` takes to recover when a task is killed.

    python3 bench/recovery.py target/release/paceline [--turns 5] [--params 61000000]

Each turn starts a new run on this machine, kills a task with SIGKILL once the run makes steps, and
measures from the signal on:

    server, sync and async   the time until the replacement process has applied a gradient,
                             according to its metrics, updated ten times a second; and, more
                             precisely, until it and the other server, which goes back with it, have
                             both logged that all workers are connected, so the next step can begin
    worker, sync             the time until the new process has made a step, according to its
                             metrics; and until both servers log that it has taken the slot over
    worker, async            the longest time for which the coordinator (worker:0) uses no processor
                             time, in a run whose worker is killed and in an undisturbed run: the
                             pause that the other workers notice

The script prints the best and the median of the turns; the rest is noise of a busy machine. With
`--params`, servers hold that many parameters with momentum, so that reading the shard shows.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

TICK = 0.002
LIMIT = 120.0


def settings(mode, params):
    common = [
        f"cluster.mode={mode}", "cluster.workers=2", "cluster.servers=2", "cluster.restarts=100",
        "cluster.on_worker_loss=wait", "train.stop={test_loss=1e-9}",
        f"checkpoint.every_seconds={5 if params else 0.5}",
        "observe.http=127.0.0.1:0", "data.train_examples=600", "data.test_examples=100",
        "train.optimizer.kind=momentum",
    ]
    if params:
        common += ["model.kind=logistic", "model.dense=true", f"data.features={params}",
                   "train.evaluate.every=1000000"]
    return common


class Run:
    def __init__(self, program, mode, params):
        self.room = tempfile.TemporaryDirectory(dir=".")
        self.dir = os.path.join(os.path.abspath(self.room.name), "run")
        args = [program, "train", "--quiet", "--run-dir", self.dir]
        for setting in settings(mode, params):
            args += ["--set", setting]
        self.launcher = subprocess.Popen(args, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.until(lambda: "all workers are connected" in self.log("ps:0"))
        self.until(self.checkpoints)

    def log(self, task):
        try:
            with open(os.path.join(self.dir, task.replace(":", "_"), "log.txt")) as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def checkpoints(self):
        place = os.path.join(self.dir, "checkpoints")
        steps = os.listdir(place) if os.path.isdir(place) else []
        return [s for s in steps if os.path.exists(os.path.join(place, s, "manifest.json"))]

    def until(self, is_true):
        begun = time.monotonic()
        while not is_true():
            if time.monotonic() - begun > LIMIT or self.launcher.poll() is not None:
                raise SystemExit(f"the run did not get that far; see {self.dir}")
            time.sleep(TICK)

    def pid(self, task):
        role, index = task.split(":")
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    entries = file.read().split(b"\0")
                variables = dict(entry.split(b"=", 1) for entry in entries if b"=" in entry)
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            config = variables.get(b"TF_CONFIG")
            if config is None or self.dir.encode() not in words:
                continue
            place = json.loads(config)["task"]
            if (place["type"], place["index"]) == (role, int(index)):
                return int(pid)
        raise SystemExit(f"there is no {task}")

    def figure(self, task, name):
        """A figure of a task's metrics now; 0 if the task or the figure does not exist yet."""
        try:
            with open(os.path.join(self.dir, task.replace(":", "_"), "http.txt")) as file:
                text = urllib.request.urlopen(file.read().strip(), timeout=1).read().decode()
        except OSError:
            return 0.0
        lines = [line for line in text.splitlines() if line.startswith(name + " ")]
        return float(lines[0].split()[1]) if lines else 0.0

    def kill_and_wait(self, victim, text, counter):
        """Seconds until both servers log a text, and until the replacement's counter is above 0."""
        servers = ["ps:0", "ps:1"]
        before = {server: self.log(server).count(text) for server in servers}
        pid = self.pid(victim)
        begun = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        self.until(lambda: all(self.log(s).count(text) > count for s, count in before.items()))
        ready = time.monotonic() - begun
        self.until(lambda: self.figure(victim, counter) > 0)
        return ready, time.monotonic() - begun

    def longest_pause(self, victim, of, seconds=3.0):
        def used():
            with open(f"/proc/{coordinator}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            return int(fields[11]) + int(fields[12])

        coordinator = self.pid(of)
        if victim:
            os.kill(self.pid(victim), signal.SIGKILL)
        end = time.monotonic() + seconds
        last, since, longest = used(), time.monotonic(), 0.0
        while time.monotonic() < end:
            now = used()
            if now != last:
                last, since = now, time.monotonic()
            longest = max(longest, time.monotonic() - since)
            time.sleep(TICK)
        return (longest,)

    def end(self):
        self.launcher.kill()
        self.launcher.wait()
        self.room.cleanup()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--params", type=int, default=0)
    args = parser.parse_args()
    here, applied = "all workers are connected", "paceline_applied_gradients_total"
    taken, stepped = "a new process takes over worker:1", "paceline_steps_total"
    both, pause = ["ready", "first step"], ["the coordinator's pause"]
    cases = [
        ("server", "sync", both, lambda run: run.kill_and_wait("ps:1", here, applied)),
        ("server", "async", both, lambda run: run.kill_and_wait("ps:1", here, applied)),
        ("worker", "sync", both, lambda run: run.kill_and_wait("worker:1", taken, stepped)),
        ("worker", "async", pause, lambda run: run.longest_pause("worker:1", "worker:0")),
        ("no task", "async", pause, lambda run: run.longest_pause(None, "worker:0")),
    ]
    for victim, mode, names, measure in cases:
        turns = []
        for _ in range(args.turns):
            run = Run(os.path.abspath(args.program), mode, args.params)
            turns.append(measure(run))
            run.end()
        for name, times in zip(names, zip(*turns)):
            best, median = min(times), statistics.median(times)
            what = f"{victim}, {mode}: {name}"
            print(f"{what:40} best {best:.3f} s, median {median:.3f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
