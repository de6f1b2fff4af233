"""Measures what strangers cost a run: idle connections and bad handshakes, on this machine alone.

    python3 bench/strangers.py target/release/paceline [IDLE [BAD_PER_SECOND [SECONDS [TURNS]]]]

It trains `async` softmax with one server and two workers: in peace, and with IDLE idle connections
and BAD_PER_SECOND wrong handshakes a second, once with wrong proofs that are sent at once (hasty)
and once with wrong proofs that wait for the server's challenge (patient). It prints the rates, the
processor time that the attack itself takes, the growth of the server's memory and whether a worker
was refused.
"""

import json
import os
import re
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

FRAMES = Path(__file__).parent.parent / "crates/exchange/src/frame.rs"
# A server refuses another version before it has to prove anything.
VERSION = int(re.search(r"PROTOCOL_VERSION: u16 = (\d+)", FRAMES.read_text())[1])
PROOF_BYTES = 32


def server_of(run):
    """The process of ps:0 of a run, and its address."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        config = [line[10:] for line in environment if line.startswith(b"TF_CONFIG=")]
        if config and str(run).encode() in command:
            config = json.loads(config[0])
            if config["task"] == {"type": "ps", "index": 0}:
                host, port = config["cluster"]["ps"][0].rsplit(":", 1)
                return int(entry.name), (host, int(port))
    return None


def rss_bytes(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return 1024 * int(line.split()[1])
    return 0


class Attack:
    """Keeps idle connections open and makes bad handshakes, until it is stopped."""

    def __init__(self, address, idle, bad_per_second, is_patient):
        self.address, self.idle, self.bad_per_second = address, idle, bad_per_second
        self.is_patient = is_patient
        self.made, self.failed, self.cpu, self.stopped = 0, 0, 0.0, False
        # The first message of a handshake, which the server answers with a proof of its own, and a
        # wrong proof: magic, version, seals, role, slot, incarnation, nonce, proof.
        first = b"PACE" + VERSION.to_bytes(2, "little") + bytes([1, 0]) + bytes(12) + os.urandom(32)
        self.bad = first + bytes(PROOF_BYTES)
        # A patient stranger waits for the server, so several of them come at a time.
        self.knockers = 16 if is_patient else 1
        knockers = [threading.Thread(target=self.knock) for _ in range(self.knockers)]
        self.threads = [threading.Thread(target=self.hold), *knockers]

    def start(self):
        [thread.start() for thread in self.threads]

    def stop(self):
        self.stopped = True
        [thread.join() for thread in self.threads]

    def connect(self):
        stream = socket.socket()
        stream.settimeout(1)
        # Many more connections than one address has ports for, if they come from several.
        stream.bind((f"127.0.0.{2 + self.made % 200}", 0))
        stream.connect(self.address)
        self.made += 1
        return stream

    def hold(self):
        held, since = [], time.thread_time()
        while not self.stopped:
            while len(held) < self.idle and not self.stopped:
                try:
                    held.append(self.connect())
                except OSError:
                    self.failed += 1
                    time.sleep(0.01)
            time.sleep(0.1)
        self.cpu += time.thread_time() - since

    def knock(self):
        begun, done, since = time.monotonic(), 0, time.thread_time()
        while not self.stopped:
            due = int((time.monotonic() - begun) * self.bad_per_second / self.knockers)
            while done < due and not self.stopped:
                try:
                    with self.connect() as stream:
                        if self.is_patient:
                            stream.send(self.bad[:-PROOF_BYTES])
                            stream.recv(1024)
                            stream.send(self.bad[-PROOF_BYTES:])
                        else:
                            stream.send(self.bad)
                except OSError:
                    self.failed += 1
                done += 1
            time.sleep(0.001)
        self.cpu += time.thread_time() - since


def train(program, seconds, idle, bad_per_second, is_patient=False):
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        settings = [
            "cluster.mode=async",
            "cluster.workers=2",
            "train.batch=10",
            f"train.stop={{seconds={seconds}}}",
            "train.evaluate.every=1000000000",
        ]
        command = [program, "train", "--quiet", "--run-dir", str(run)]
        command += [word for setting in settings for word in ("--set", setting)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        found = None
        while found is None and process.poll() is None:
            time.sleep(0.05)
            found = server_of(run)
        server, address = found
        time.sleep(0.5)
        before = peak = rss_bytes(server)
        attack = Attack(address, idle, bad_per_second, is_patient)
        if idle or bad_per_second:
            attack.start()
        while process.poll() is None:
            try:
                peak = max(peak, rss_bytes(server))
            except OSError:
                break
            time.sleep(0.1)
        code = process.wait()
        if idle or bad_per_second:
            attack.stop()
        summary = json.loads((run / "summary.json").read_text())
        log = (run / "ps_0" / "log.txt").read_text()
        lost = [line for line in log.splitlines() if "connection to worker" in line]
        return {
            "code": code,
            "steps_per_second": summary["steps_per_second"],
            "server_growth_mb": (peak - before) / 1e6,
            "attack_cpu_s": attack.cpu,
            "connections": attack.made,
            "failed": attack.failed,
            "lost_workers": len(lost),
        }


def main():
    program = os.path.abspath(sys.argv[1])
    given = [int(word) for word in sys.argv[2:]]
    idle, bad, seconds, turns = given + [10_000, 5_000, 30, 1][len(given) :]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    capacity = seconds * os.cpu_count()
    for _ in range(turns):
        peace = train(program, seconds, 0, 0)
        print(f"peace    {peace['steps_per_second']:10.0f} steps/s", flush=True)
        for kind in ("hasty", "patient"):
            war = train(program, seconds, idle, bad, kind == "patient")
            fewer = 100 * (1 - war["steps_per_second"] / peace["steps_per_second"])
            own = 100 * war["attack_cpu_s"] / capacity
            print(f"{kind:8} {war['steps_per_second']:10.0f} steps/s  {war}")
            beyond = f"{fewer - own:.1f} % beyond it"
            print(f"  {fewer:.1f} % fewer steps; attack {own:.1f} % of the processors; {beyond}")


if __name__ == "__main__":
    main()
