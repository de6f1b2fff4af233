#!/usr/bin/env python3
"""Compares models of clicks with interactions with other programs, on the same rows, alternating.

Generates clicks whose pairs of values matter (`data.interactions`), writes them in the form that
each program reads, and prints rows/s and the log loss on the same test rows after equal passes,
next to the loss of the true odds and of the best linear model, and how many times the rows/s of
each program Paceline has on as many threads:

    fm       rank 8, 33,762,578 features: Vowpal Wabbit (--lrq) and PyTorch (one Embedding, and
             an EmbeddingBag beside an Embedding), on one thread
    ffm      rank 4, 39 fields, 1,000,000 features: libffm's algorithm (the crate libffm)
             on one thread and on two
    deepfm   rank 8 beside a perceptron of 64 and 32, batch 256: PyTorch on two threads

Rows/s count training alone. The processor seconds are of the whole program in its fastest turn,
with reading, tests and start-up: on a busy machine they say more than rows/s.

Needs `pip install numpy vowpalwabbit torch` for the Python of --peers, and for ffm
`cargo install libffm --features cli`. A program that is missing is left out with a note, as is a
model that PACELINE does not have. Build first: cargo build --release.
"""
import argparse
import json
import math
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

FIELDS = 39
FEATURES = {"fm": 33_762_578, "ffm": 1_000_000, "deepfm": 33_762_578}
RANK = {"fm": 8, "ffm": 4, "deepfm": 8}


class Data:
    """The rows of one comparison, in every form that its programs read."""

    def __init__(self, args, kind, scratch):
        self.args, self.kind, self.scratch = args, kind, scratch
        self.features = args.features or FEATURES[kind]
        self.rows, self.test_rows = args.rows, args.test_rows
        # Processor time that converting took, which is no program's own.
        self.converting = 0.0

    def path(self, name, ending):
        return self.scratch / f"{self.kind}-{name}.{ending}"

    def make(self):
        """Writes LIBFFM text, which the other forms are made from when a program needs them."""
        for name, rows, more in [("train", self.rows, []), ("test", self.test_rows, ["--test"])]:
            command = [self.args.binary, "data", "make", "clicks", "--rows", str(rows)]
            command += ["--features", str(self.features), "--format", "libffm", *more]
            command += ["--interactions", str(self.args.interactions)]
            subprocess.run([*command, str(self.path(name, "ffm"))], check=True,
                           stdout=subprocess.DEVNULL)

    def make_vw_text(self):
        """Writes Vowpal Wabbit's text, once."""
        for name in ["train", "test"]:
            if self.path(name, "vw").exists():
                continue
            with open(self.path(name, "ffm")) as lines, open(self.path(name, "vw"), "w") as out:
                for line in lines:
                    label, *entries = line.split()
                    keys = " ".join(entry.split(":")[1] for entry in entries)
                    # Rows of length 1: --lrq starts from large vectors.
                    out.write(f"{1 if label == '1' else -1} |f:0.16 {keys}\n")

    def make_arrays(self):
        """Writes numpy arrays, once."""
        if not (self.scratch / f"{self.kind}-test-labels.npy").exists():
            start = processor_seconds()
            peer(self.args, "arrays", {"scratch": str(self.scratch), "kind": self.kind})
            self.converting += processor_seconds() - start

    def bounds(self):
        """The line of `paceline explain` about the true odds."""
        settings = ["data.kind=clicks", f"data.features={self.features}",
                    f"data.interactions={self.args.interactions}",
                    f"data.test_examples={self.test_rows}"]
        command = [self.args.binary, "explain"]
        for setting in settings:
            command += ["--set", setting]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        lines = text.splitlines()
        return next((line[2:] for line in lines if line.startswith("# clicks:")), "")

    def truth(self):
        with open(self.path("test", "ffm")) as lines:
            return [line.startswith("1") for line in lines]


def log_loss(scores, truth):
    losses = (math.log1p(math.exp(-abs(s))) + max(0.0, -s if t else s)
              for s, t in zip(scores, truth))
    return sum(losses) / len(truth)


def timed(command):
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def peer(args, what, settings):
    """Runs a function of this file with the Python that has the other programs."""
    command = [args.peers, __file__, "--worker", what, json.dumps(settings)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(output.splitlines()[-1])


def processor_seconds():
    """User and system time of the programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# The programs. Each returns rows/s and the log loss on the test rows.


def run_vw(data, args, options):
    """Vowpal Wabbit reads its cache; what one row takes is not counted."""
    data.make_vw_text()
    cache, model = data.path("train", "cache"), data.path("train", "model")
    vw = [args.peers, "-m", "vowpalwabbit", "--quiet"]
    base = [*vw, "--loss_function", "logistic", "-b", "28", "--holdout_off", *options]
    one = data.scratch / "one.vw"
    one.write_text("1 |f 1\n")
    start_up = min(timed([*base, "-d", str(one)]) for _ in range(2))
    command = [*base, "-d", str(data.path("train", "vw")), "--cache_file", str(cache)]
    if not cache.exists():
        timed([*vw, "-d", str(data.path("train", "vw")), "--cache_file", str(cache), "-k"])
    seconds = timed([*command, "--passes", str(args.passes), "-f", str(model)])
    scores = data.path("test", "scores")
    subprocess.run([*vw, "-t", "-i", str(model), "-d", str(data.path("test", "vw")), "-r",
                    str(scores)], check=True)
    model.unlink()
    found = [float(line.split()[0]) for line in open(scores)]
    return data.rows * args.passes / (seconds - start_up), log_loss(found, data.truth())


def run_torch(data, args, **settings):
    data.make_arrays()
    settings |= {"scratch": str(data.scratch), "kind": data.kind, "features": data.features,
                 "rank": RANK[data.kind], "passes": args.passes}
    found = peer(args, "train", settings)
    return found["rows"], found["loss"]


def run_libffm(data, args, options):
    """The crate prints the time of each pass, and reads the files before."""
    model = data.path("train", "ffm-model")
    command = [args.ffm_train, "-k", str(RANK["ffm"]), "-t", str(args.passes), *options]
    command += ["-p", str(data.path("test", "ffm")), str(data.path("train", "ffm")), str(model)]
    start = time.perf_counter()
    output = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    rows = re.findall(r"^\s*(\d+)\s+([\d.]+)\s+([\d.]+)(?:\s+([\d.]+))?\s*$",
                      output.stdout + output.stderr, re.M)
    loss = float(rows[-1][2])
    if rows[-1][3]:
        seconds = float(rows[-1][3])
    return data.rows * args.passes / seconds, loss


def run_ours(data, args, settings):
    settings = {
        "data.kind": "libffm",
        "data.path": str(data.path("train", "ffm")),
        "data.test_path": str(data.path("test", "ffm")),
        "data.features": data.features,
        "data.cache": str(data.scratch / "cache"),
        "cluster.mode": "single",
        "train.stop": f"{{epochs={args.passes}}}",
        "train.evaluate.every": 1_000_000_000,
        "observe.every": 100,
        **settings,
    }
    with tempfile.TemporaryDirectory(dir=data.scratch) as place:
        run_dir = pathlib.Path(place) / "run"
        command = [args.binary, "train", "--quiet", "--run-dir", str(run_dir)]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        subprocess.run(command, check=True)
        summary = json.loads((run_dir / "summary.json").read_text())
    return summary["examples_per_second"], summary["test_log_loss"]


def programs(kind, data, args):
    """Names and functions of the programs that train this model."""
    def ours(**settings):
        return lambda: run_ours(data, args, settings)

    def torch(**settings):
        return lambda: run_torch(data, args, **settings)

    linear = {"model.kind": "logistic", "train.batch": 256}
    linear["train.optimizer"] = '{kind="adagrad", rate=0.05}'
    # What the model starts with by default.
    small = {"model.kind": kind, "train.batch": 60 if kind == "ffm" else 256}
    ours_of = {
        "fm": {"paceline fm": ours(**small),
               "paceline fm, 2 threads": ours(**small, **{"train.threads": 2})},
        "ffm": {"paceline ffm": ours(**small),
                "paceline ffm, 2 threads": ours(**small, **{"train.threads": 2})},
        "deepfm": {"paceline deepfm, 2 threads": ours(**small, **{"train.threads": 2})},
    }[kind] if has_model(args, kind) else {}
    if not ours_of:
        print(f"{args.binary} has no model {kind}", file=sys.stderr)
    ours_of["paceline logistic"] = ours(**linear)
    theirs = {
        "fm": {"vw --lrq ff8": lambda: run_vw(data, args, ["--lrq", "ff8", "-l", "0.1"]),
               "PyTorch, batch 256": torch(model="fm", batch=256, threads=1),
               "PyTorch, batch 4,096": torch(model="fm", batch=4096, threads=1),
               "PyTorch EmbeddingBag, batch 256": torch(model="fm-bag", batch=256, threads=1),
               "PyTorch EmbeddingBag, batch 4,096": torch(model="fm-bag", batch=4096, threads=1)},
        "ffm": {"libffm": lambda: run_libffm(data, args, ["--in-memory", "-s", "1"]),
                "libffm, 2 threads": lambda: run_libffm(data, args, ["--in-memory", "-s", "2"])},
        "deepfm": {"PyTorch, 2 threads": torch(model="deepfm", batch=256, threads=2),
                   "PyTorch, 2 threads, Paceline's settings": torch(
                       model="deepfm", batch=256, threads=2, initial=100, rate=0.05,
                       deviation=0.03)},
    }[kind]
    return ours_of | theirs


def has_model(args, kind):
    command = [args.binary, "explain", "--set", f"model.kind={kind}"]
    return subprocess.run(command, capture_output=True).returncode == 0


def compare(kind, args, scratch):
    data = Data(args, kind, scratch)
    data.make()
    best, missing = {}, set()
    for _ in range(args.repeats):
        for name, run in programs(kind, data, args).items():
            if name in missing:
                continue
            before = processor_seconds() - data.converting
            try:
                rows, loss = run()
            except (OSError, subprocess.CalledProcessError) as error:
                print(f"{name} is left out: {error}", file=sys.stderr)
                print((getattr(error, "stderr", None) or "")[-500:], file=sys.stderr)
                missing.add(name)
                continue
            turn = (rows, loss, processor_seconds() - data.converting - before)
            best[name] = max(best.get(name, turn), turn)
    print(f"\n{kind}: {data.rows:,} rows, {data.features:,} features, {args.passes} passes, "
          f"best of {args.repeats}\n{data.bounds()}\n")
    print("| program | rows/s | Paceline has | test log loss | processor s |")
    print("|---|---:|---:|---:|---:|")
    for name, (rows, loss, cpu) in best.items():
        ours = best.get(f"paceline {kind}{', 2 threads' * ('2 threads' in name)}")
        is_peer = ours and not name.startswith("paceline")
        times = f"{ours[0] / rows:.2f} times" if is_peer else ""
        print(f"| {name} | {rows:,.0f} | {times} | {loss:.4f} | {cpu:.1f} |")
    for path in scratch.glob(f"{kind}-*"):
        path.unlink()


# What runs with the Python of the other programs.


def write_arrays(settings):
    import numpy as np

    for name in ["train", "test"]:
        path = pathlib.Path(settings["scratch"]) / f"{settings['kind']}-{name}"
        keys, labels = [], []
        with open(f"{path}.ffm") as lines:
            for line in lines:
                label, *entries = line.split()
                # In the order of the fields, as a network needs it.
                pairs = sorted((int(f), int(k)) for f, k, _ in (e.split(":") for e in entries))
                keys.append([key for _, key in pairs])
                labels.append(label == "1")
        np.save(f"{path}-keys.npy", np.array(keys, dtype=np.int64))
        np.save(f"{path}-labels.npy", np.array(labels, dtype=np.float32))
    return {}


def train_torch(settings):
    import numpy as np
    import torch
    from torch import nn

    torch.manual_seed(1)
    torch.set_num_threads(settings["threads"])
    rank, batch = settings["rank"], settings["batch"]

    def load(name):
        path = pathlib.Path(settings["scratch"]) / f"{settings['kind']}-{name}"
        return [torch.from_numpy(np.load(f"{path}-{part}.npy")) for part in ["keys", "labels"]]

    class BagMachine(nn.Module):
        """The weights as PyTorch's documentation adds them up, and the vectors beside them."""

        def __init__(self):
            super().__init__()
            vectors = torch.empty(settings["features"], rank)
            vectors.normal_(0.0, settings.get("deviation", 0.01))
            self.table = nn.Embedding.from_pretrained(vectors, freeze=False, sparse=True)
            self.linear = nn.EmbeddingBag.from_pretrained(
                torch.zeros(settings["features"], 1), freeze=False, sparse=True, mode="sum")
            self.bias = nn.Parameter(torch.zeros(1))

        def forward(self, keys):
            vectors = self.table(keys)
            sums = vectors.sum(1)
            pairs = 0.5 * (sums * sums - (vectors * vectors).sum(1)).sum(1)
            return self.bias + self.linear(keys).squeeze(1) + pairs

    class Machine(nn.Module):
        """One table with the weight and the vector of each key: one lookup instead of two."""

        def __init__(self, deep):
            super().__init__()
            weight = torch.empty(settings["features"], 1 + rank)
            weight[:, 0] = 0.0
            weight[:, 1:].normal_(0.0, settings.get("deviation", 0.01))
            self.table = nn.Embedding.from_pretrained(weight, freeze=False, sparse=True)
            self.bias = nn.Parameter(torch.zeros(1))
            self.deep = deep and nn.Sequential(
                nn.Linear(FIELDS * rank, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(),
                nn.Linear(32, 1))

        def forward(self, keys):
            entries = self.table(keys)
            vectors = entries[:, :, 1:]
            sums = vectors.sum(1)
            pairs = 0.5 * (sums * sums - (vectors * vectors).sum(1)).sum(1)
            score = self.bias + entries[:, :, 0].sum(1) + pairs
            return score + self.deep(vectors.flatten(1)).squeeze(1) if self.deep else score

    is_bag = settings["model"] == "fm-bag"
    model = BagMachine() if is_bag else Machine(settings["model"] == "deepfm")
    tables = ["table.weight", "linear.weight"]
    sparse = [value for name, value in model.named_parameters() if name in tables]
    dense = [value for name, value in model.named_parameters() if name not in tables]
    if "initial" in settings:
        # One AdaGrad for all, with Paceline's rate and sums, and no biases to start with.
        with torch.no_grad():
            for name, value in model.named_parameters():
                if name.endswith("bias"):
                    value.zero_()
        optimizers = [torch.optim.Adagrad(
            model.parameters(), lr=settings["rate"], eps=1e-8,
            initial_accumulator_value=settings["initial"] / batch**2)]
    else:
        optimizers = [torch.optim.Adagrad(sparse, lr=0.05),
                      torch.optim.Adam(dense, lr=0.001)]
    loss_of = nn.BCEWithLogitsLoss()
    keys, labels = load("train")
    start, start_cpu = time.perf_counter(), time.process_time()
    for _ in range(settings["passes"]):
        order = torch.randperm(len(labels))
        for first in range(0, len(labels), batch):
            rows = order[first:first + batch]
            loss = loss_of(model(keys[rows]), labels[rows])
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
    seconds, cpu = time.perf_counter() - start, time.process_time() - start_cpu
    keys, truth = load("test")
    with torch.no_grad():
        loss = loss_of(model(keys), truth).item()
    rows = len(labels) * settings["passes"]
    return {"rows": rows / seconds, "rows_per_cpu_s": rows / cpu, "loss": loss}


def main():
    if sys.argv[1:2] == ["--worker"]:
        work = {"arrays": write_arrays, "train": train_torch}[sys.argv[2]]
        print(json.dumps(work(json.loads(sys.argv[3]))))
        return
    here = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["fm", "ffm", "deepfm"])
    parser.add_argument("--binary", default=str(here / "target/release/paceline"))
    parser.add_argument("--peers", default=sys.executable, help="Python with the other programs")
    parser.add_argument("--ffm-train", default="ffm-train", help="program of the crate libffm")
    parser.add_argument("--rows", type=int, default=180_000)
    parser.add_argument("--test-rows", type=int, default=20_000)
    parser.add_argument("--features", type=int, help="in place of each model's own number")
    parser.add_argument("--interactions", type=float, default=0.3)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    for kind in args.models:
        with tempfile.TemporaryDirectory() as scratch:
            compare(kind, args, pathlib.Path(scratch))


if __name__ == "__main__":
    main()
