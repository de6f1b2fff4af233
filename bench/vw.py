#!/usr/bin/env python3
"""Compares sparse logistic regression with Vowpal Wabbit, on the same rows, alternating.

Generates clicks over 33,762,578 features, gives them to both programs in a form that each reads
from its own cache, and prints the rows/s of several passes and the scores of both on the same
held-out rows. Needs `pip install vowpalwabbit` for this Python; build first: cargo build
--release.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import time

FEATURES = 33_762_578
ROWS, TEST_ROWS = 180_000, 20_000
VW = [sys.executable, "-m", "vowpalwabbit"]


def make(binary, scratch):
    """Writes the same rows as LIBSVM text and in Vowpal Wabbit's format."""
    for name, rows, more in [("train", ROWS, []), ("test", TEST_ROWS, ["--test"])]:
        svm = scratch / f"{name}.svm"
        command = [binary, "data", "make", "clicks", "--rows", str(rows), "--format", "libsvm"]
        subprocess.run([*command, *more, str(svm)], check=True, stderr=subprocess.DEVNULL)
        with open(svm) as lines, open(scratch / f"{name}.vw", "w") as out:
            for line in lines:
                label, *features = line.split()
                keys = " ".join(feature.split(":")[0] for feature in features)
                out.write(f"{1 if float(label) > 0 else -1} | {keys}\n")


def labels(scratch):
    with open(scratch / "test.vw") as lines:
        return [line.startswith("1") for line in lines]


def score(scores, truth):
    losses = (math.log1p(math.exp(-abs(s))) + max(0.0, -s if t else s)
              for s, t in zip(scores, truth))
    right = sum((s > 0) == t for s, t in zip(scores, truth))
    return sum(losses) / len(truth), right / len(truth)


def timed(command):
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def run_vw(scratch, options, passes, start_up):
    model, cache = scratch / "vw.model", scratch / "vw.cache"
    base = [*VW, "--loss_function", "logistic", "-b", "26", "--holdout_off", "--quiet", *options]
    command = [*base, "-d", str(scratch / "train.vw"), "--cache_file", str(cache)]
    if not cache.exists():
        timed([*command, "-k"])
    seconds = timed([*command, "--passes", str(passes), "-f", str(model)])
    return {"rows": ROWS * passes / (seconds - start_up), "model": model}


def test_vw(scratch, model, truth):
    predictions = scratch / "vw.scores"
    test = ["-t", "-d", str(scratch / "test.vw"), "-r", str(predictions), "--quiet"]
    subprocess.run([*VW, "-i", str(model), *test], check=True)
    return score([float(line.split()[0]) for line in open(predictions)], truth)


def run_ours(binary, scratch, settings, passes):
    settings = {
        "data.kind": "libsvm",
        "data.path": str(scratch / "train.svm"),
        "data.test_path": str(scratch / "test.svm"),
        "data.features": FEATURES,
        "cluster.mode": "single",
        "train.stop": f"{{epochs={passes}}}",
        "train.evaluate.every": 1_000_000_000,
        "observe.every": 100,
        **settings,
    }
    with tempfile.TemporaryDirectory(dir=scratch) as place:
        run_dir = pathlib.Path(place) / "run"
        command = [binary, "train", "--quiet", "--run-dir", str(run_dir)]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        subprocess.run(command, check=True)
        summary = json.loads((run_dir / "summary.json").read_text())
    figures = (summary["test_log_loss"], summary["test_accuracy"])
    return {"rows": summary["examples_per_second"], "score": figures}


def main():
    here = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default=str(here / "target/release/paceline"))
    parser.add_argument("--passes", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    # Vowpal Wabbit also takes the rows in file order and decays its rate.
    def sgd(batch, rate, shuffle="false"):
        falling = f'{{kind="polynomial", over={args.passes * ROWS // batch}}}'
        optimizer = f"{{rate={rate}, schedule={falling}}}"
        return {"train.batch": batch, "train.optimizer": optimizer, "data.shuffle": shuffle}

    ours = {
        "paceline sgd, batch 1,000": sgd(1000, 8.0),
        "paceline sgd, batch 1,000, 2 threads": sgd(1000, 8.0) | {"train.threads": 2},
        "paceline sgd, batch 100": sgd(100, 2.0),
        "paceline sgd, batch 100, shuffled": sgd(100, 2.0, "true"),
    }
    theirs = {"vw --sgd": ["--sgd"], "vw": []}
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        make(args.binary, scratch)
        truth = labels(scratch)
        one_row = scratch / "one.vw"
        one_row.write_text("1 | 1\n")
        start_up = min(
            timed([*VW, "-b", "26", "-d", str(one_row), "-f", str(scratch / "none"), "--quiet"])
            for _ in range(3)
        )
        best = {}
        for _ in range(args.repeats):
            for name, settings in ours.items():
                run = run_ours(args.binary, scratch, settings, args.passes)
                best.setdefault(name, []).append(run)
            for name, options in theirs.items():
                best.setdefault(name, []).append(run_vw(scratch, options, args.passes, start_up))
        print("| program | rows/s | times vw --sgd | test log loss | accuracy |")
        print("|---|---:|---:|---:|---:|")
        baseline = max(run["rows"] for run in best["vw --sgd"])
        for name, runs in best.items():
            top = max(runs, key=lambda run: run["rows"])
            if name in theirs:
                # The model file is from another variant: train this one again.
                top = run_vw(scratch, theirs[name], args.passes, start_up) | {"rows": top["rows"]}
                top["score"] = test_vw(scratch, top["model"], truth)
            loss, accuracy = top["score"]
            print(f"| {name} | {top['rows']:,.0f} | {top['rows'] / baseline:.2f} "
                  f"| {loss:.4f} | {100 * accuracy:.2f} % |")


if __name__ == "__main__":
    main()
