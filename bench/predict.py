#!/usr/bin/env python3
"""Compares scoring with scikit-learn, Vowpal Wabbit -t and onnxruntime on the same rows.

Trains logistic regression on generated clicks over 33,762,578 features, and scores other rows,
alternating: from the cache of rows, from LIBSVM text, from Criteo's columns and from CSV, on one
thread and on all cores.
scikit-learn and onnxruntime get the same model and parsed rows; scikit-learn also parses the text.
Vowpal Wabbit scores from its own cache with a model of the same size. The best of several rounds
counts. Also measures how long a line of standard input waits for its answer.

Needs `pip install scikit-learn vowpalwabbit onnxruntime` for this Python; build first:
cargo build --release.
"""
import argparse
import json
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile
import time

FEATURES = 33_762_578
VW = [sys.executable, "-m", "vowpalwabbit"]


def timed(command, **more):
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   **more)
    return time.perf_counter() - start


def make(binary, scratch, rows):
    """Trains a model, and writes the rows to score in every form."""
    for name, form in [("rows.svm", "libsvm"), ("rows.criteo", "criteo")]:
        command = [binary, "data", "make", "clicks", "--rows", str(rows), "--format", form]
        timed([*command, "--test", str(scratch / name)])
    settings = ["data.kind=clicks", f"data.features={FEATURES}", "data.train_examples=200000",
                "data.test_examples=1000", "train.stop={epochs=1}"]
    train(binary, scratch / "run", settings)
    # A run over the text leaves its rows in a cache.
    features = f"data.features={FEATURES}"
    settings = ["data.kind=libsvm", f"data.path={scratch / 'rows.svm'}", features,
                f"data.cache={scratch / 'cache'}", "train.stop={steps=1}"]
    train(binary, scratch / "rows-run", settings)
    settings = ["data.kind=criteo", f"data.path={scratch / 'rows.criteo'}", features,
                f"data.cache={scratch / 'cache2'}", "train.stop={steps=1}"]
    train(binary, scratch / "criteo-run", settings)
    names = ["label", *(f"count{i}" for i in range(13)), *(f"category{i}" for i in range(26))]
    with open(scratch / "rows.criteo") as lines, open(scratch / "rows.csv", "w") as out:
        out.write(",".join(names) + "\n")
        out.writelines(line.replace("\t", ",") for line in lines)
    settings = ["data.kind=table", f"data.path={scratch / 'rows.csv'}", "data.hold_out=100",
                f"data.cache={scratch / 'cache3'}", "train.stop={steps=1}"]
    train(binary, scratch / "csv-run", settings)
    with open(scratch / "rows.svm") as lines, open(scratch / "rows.vw", "w") as out:
        for line in lines:
            label, *features = line.split()
            keys = " ".join(feature.split(":")[0] for feature in features)
            out.write(f"{1 if float(label) > 0 else -1} | {keys}\n")


def train(binary, run, settings):
    command = [binary, "train", "--quiet", "--run-dir", str(run)]
    subprocess.run([*command, *(part for one in settings for part in ("--set", one))], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def ours(binary, scratch, run, source, threads):
    """Rows/s that the command itself reports: without loading the model."""
    out = scratch / "out.csv"
    command = [binary, "predict", str(scratch / run), str(source), "-o", str(out), "--force"]
    more = ["--threads", str(threads)] if threads else []
    said = subprocess.run([*command, *more], check=True, capture_output=True, text=True).stderr
    return float(said.split("(")[-1].split(" rows/s")[0].replace(",", ""))


def weights(scratch):
    """The parameters of the model file, as numpy."""
    import numpy
    with open(scratch / "run" / "model.safetensors", "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        start, end = header["weight"]["data_offsets"]
        numbers = numpy.frombuffer(file.read(end - start), "float32")
        return numbers, numpy.frombuffer(file.read(4), "float32")


class Sklearn:
    """scikit-learn's classifier with the same weights."""

    def __init__(self, scratch, rows):
        import numpy
        from sklearn.datasets import load_svmlight_file
        from sklearn.linear_model import SGDClassifier
        start = time.perf_counter()
        self.rows, _ = load_svmlight_file(str(scratch / "rows.svm"), n_features=FEATURES,
                                          dtype=numpy.float32, zero_based=False)
        self.parse_seconds = time.perf_counter() - start
        self.model = SGDClassifier(loss="log_loss")
        weight, bias = weights(scratch)
        self.model.coef_, self.model.intercept_ = weight[None, :], bias
        self.model.classes_ = numpy.array([0, 1])
        self.count = rows

    def rate(self):
        start = time.perf_counter()
        self.model.predict_proba(self.rows)
        return self.count / (time.perf_counter() - start)

    def text_rate(self):
        return self.count / (self.parse_seconds + self.count / self.rate())


class OnnxRuntime:
    """onnxruntime with the exported model, in batches of 4,096 rows, on one thread."""

    def __init__(self, binary, scratch, rows):
        import numpy
        import onnxruntime
        file = scratch / "model.onnx"
        timed([binary, "export", str(scratch / "run"), "-o", str(file), "--force"])
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(str(file), options)
        keys = numpy.zeros((rows, 39), "int64")
        with open(scratch / "rows.svm") as lines:
            for row, line in enumerate(lines):
                found = [int(entry.split(":")[0]) - 1 for entry in line.split()[1:]]
                keys[row, :len(found)] = found
        self.keys, self.values = keys, numpy.ones((rows, 39), "float32")
        self.count = rows

    def rate(self):
        start = time.perf_counter()
        for at in range(0, self.count, 4096):
            feed = {"keys": self.keys[at:at + 4096], "values": self.values[at:at + 4096]}
            self.session.run(["probabilities"], feed)
        return self.count / (time.perf_counter() - start)


class VowpalWabbit:
    """Vowpal Wabbit -t, from its cache; the time to load the model is subtracted."""

    def __init__(self, scratch, rows):
        self.scratch, self.count = scratch, rows
        base = [*VW, "--loss_function", "logistic", "-b", "26", "--quiet"]
        self.model = scratch / "vw.model"
        with open(scratch / "few.vw", "w") as few, open(scratch / "rows.vw") as lines:
            few.writelines(line for line, _ in zip(lines, range(1000)))
        subprocess.run([*base, "-d", str(scratch / "few.vw"), "-f", str(self.model)], check=True)
        self.test(scratch / "rows.vw", "-k")

    def test(self, data, *more):
        cache = self.scratch / f"{data.name}.cache"
        return timed([*VW, "-t", "-i", str(self.model), "-d", str(data), "--cache_file", str(cache),
                      "-p", str(self.scratch / "vw.out"), "--quiet", *more])

    def rate(self):
        start_up = self.test(self.scratch / "few.vw", "-k")
        return self.count / (self.test(self.scratch / "rows.vw") - start_up)


def latency(binary, scratch, lines):
    """Seconds from a line on standard input to its answer."""
    command = [binary, "predict", str(scratch / "run"), "-"]
    waits = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        with open(scratch / "rows.svm", "rb") as rows:
            for line, _ in zip(rows, range(lines)):
                start = time.perf_counter()
                child.stdin.write(line)
                child.stdin.flush()
                child.stdout.readline()
                waits.append(time.perf_counter() - start)
        child.stdin.close()
    return sorted(waits)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", help="the paceline program")
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only-ours", action="store_true", help="leave the others out")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        scratch = pathlib.Path(place)
        make(args.binary, scratch, args.rows)
        cache = next((scratch / "cache").glob(".*.paceline-rows"))
        sides = {
            "paceline, cached rows, 1 thread": lambda: ours(args.binary, scratch, "run", cache, 1),
            "paceline, cached rows, all cores": lambda: ours(args.binary, scratch, "run", cache, 0),
            "paceline, LIBSVM text, 1 thread":
                lambda: ours(args.binary, scratch, "run", scratch / "rows.svm", 1),
            "paceline, LIBSVM text, all cores":
                lambda: ours(args.binary, scratch, "run", scratch / "rows.svm", 0),
            "paceline, Criteo's columns, all cores":
                lambda: ours(args.binary, scratch, "criteo-run", scratch / "rows.criteo", 0),
            "paceline, CSV, all cores":
                lambda: ours(args.binary, scratch, "csv-run", scratch / "rows.csv", 0),
        }
        if not args.only_ours:
            sklearn = Sklearn(scratch, args.rows)
            sides["scikit-learn, parsed rows, 1 thread"] = sklearn.rate
            sides["scikit-learn, LIBSVM text"] = sklearn.text_rate
            onnx = OnnxRuntime(args.binary, scratch, args.rows)
            sides["onnxruntime, parsed rows, 1 thread"] = onnx.rate
            sides["Vowpal Wabbit -t, its cache"] = VowpalWabbit(scratch, args.rows).rate
        found = {name: [] for name in sides}
        for _ in range(args.rounds):
            for name, rate in sides.items():
                found[name].append(rate())
        for name, rates in found.items():
            each = ", ".join(f"{rate:,.0f}" for rate in rates)
            print(f"{name:40} {max(rates):>12,.0f} rows/s  (of {each})")
        waits = latency(args.binary, scratch, 5_000)
        median, most = statistics.median(waits), waits[int(0.99 * len(waits))]
        print(f"latency of a streamed line: median {1e3 * median:.3f} ms, 99 % {1e3 * most:.3f} ms")


if __name__ == "__main__":
    main()
