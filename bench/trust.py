"""Measures what seals and TLS cost over loopback: steps/s of softmax regression at batch 10 in
`async`, and bytes/s of an exchange of 61 million parameters. The sides alternate, and the best of
each counts; also by processor time, which a busy machine changes less.

    python3 bench/trust.py target/release/paceline [OTHER_PACELINE]

With another program, its plain rate is measured too, to compare an older one.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

TURNS = int(os.environ.get("TURNS", "3"))
SECONDS = 2
LARGE = 61_000_000
LARGE_SECONDS = 4
SIDES = ["plain", "sealed", "tls"]


def steps_per_second(program, side):
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        settings = [
            "cluster.mode=async",
            "cluster.workers=2",
            "train.batch=10",
            f"train.stop={{seconds={SECONDS}}}",
            "train.evaluate.every=1000000",
        ]
        settings += ["cluster.tls=run"] if side == "tls" else []
        command = [program, "train", "--quiet", "--run-dir", str(run)]
        command += [word for setting in settings for word in ("--set", setting)]
        variables = dict(os.environ, **({"PACELINE_TEST_SEALED": "1"} if side == "sealed" else {}))
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=variables)
        return json.loads((run / "summary.json").read_text())["steps_per_second"]


def gigabytes_per_second(program, side):
    """Both directions together, as in `paceline bench net`."""
    kind = {"plain": "our", "sealed": "sealed", "tls": "tls"}[side]

    def start(peer, address):
        command = [program, "bench", "peer", peer, "--address", address]
        command += ["--floats", str(LARGE), "--seconds", str(LARGE_SECONDS)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    server = start(f"{kind}-server", "")
    server.stdin.write("1\n")
    server.stdin.flush()
    client = start(f"{kind}-client", server.stdout.readline().strip())
    rate = float(client.communicate()[0])
    server.communicate()
    return rate * LARGE * 8 / 1e9


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def compare(title, unit, sides, seconds):
    """Each measurement lasts this many seconds, so its rate by processor time follows."""
    best, by_processor = dict.fromkeys(sides, 0.0), dict.fromkeys(sides, 0.0)
    for _ in range(TURNS):
        for side, measure in sides.items():
            before = processor_seconds()
            rate = measure()
            used = processor_seconds() - before
            best[side] = max(best[side], rate)
            by_processor[side] = max(by_processor[side], rate * seconds / used)
    print(title)
    plain, plain_by_processor = best["plain"], by_processor["plain"]
    for side, rate in best.items():
        share, used = rate / plain, by_processor[side] / plain_by_processor
        text = f"{share:.3f} of plain; {used:.3f} by processor time"
        print(f"  {side:8} {rate:12,.2f} {unit}   {text}")


def main():
    program, others = sys.argv[1], sys.argv[2:]
    small = {side: lambda side=side: steps_per_second(program, side) for side in SIDES}
    for other in others:
        small[f"plain of {other}"] = lambda other=other: steps_per_second(other, "plain")
    only = os.environ.get("ONLY")
    if only != "large":
        compare("async, softmax at batch 10, 2 workers", "steps/s", small, SECONDS)
    if only != "small":
        large = {side: lambda side=side: gigabytes_per_second(program, side) for side in SIDES}
        compare("61,000,000 parameters, push and pull", "GB/s", large, LARGE_SECONDS)


if __name__ == "__main__":
    main()
