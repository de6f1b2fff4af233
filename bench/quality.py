#!/usr/bin/env python3
"""Compares the log loss on a test set with that of scikit-learn's logistic regression.

Three data sets: a9a as LIBSVM text, a9a as a table with a list of categories, and a table of
generated people with numbers, categories and missing values. scikit-learn minimises the loss with
its default penalty (C = 1) to convergence; Paceline runs the job of docs/tables.md.

Needs `pip install scikit-learn` for this Python. Build first: cargo build --release.
"""
import argparse
import csv
import json
import math
import pathlib
import random
import subprocess
import tempfile

import numpy
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_svmlight_files
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

JOB = ["train.optimizer={kind=\"adagrad\", rate=0.1}", "train.stop={epochs=20}"]
CITIES = ["Rome", "Oslo", "Bonn", "Split", "Lyon", "Gent", "Turku", "Graz"]
JOBS = ["clerk", "cook", "nurse", "smith", "tailor", "teacher"]


def paceline(program, work, name, settings):
    """The log loss of a job on its test set, and the seconds of its training."""
    run = work / f"run-{name}"
    command = [program, "train", "--quiet", "--run-dir", run]
    for setting in [*settings, *JOB, f"data.cache={json.dumps(str(work))}"]:
        command += ["--set", setting]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    summary = json.loads((run / "summary.json").read_text())
    return summary["test_loss"], summary["seconds"]


def show(name, ours, theirs):
    loss, seconds = ours
    more = 100 * (loss / theirs - 1)
    figures = f"Paceline {loss:.5f} ({seconds:.2f} s), scikit-learn {theirs:.5f}"
    print(f"{name}: {figures}: {more:+.2f} %", flush=True)


def a9a(program, work, folder):
    paths = [folder / "a9a", folder / "a9a.t"]
    inputs, labels, test, test_labels = load_svmlight_files([str(path) for path in paths])
    model = LogisticRegression(max_iter=2000).fit(inputs, labels)
    theirs = log_loss(test_labels, model.predict_proba(test))
    settings = ["data.kind=libsvm", f"data.path={json.dumps(str(paths[0]))}",
                f"data.test_path={json.dumps(str(paths[1]))}"]
    show("a9a as LIBSVM", paceline(program, work, "libsvm", settings), theirs)
    tables = [work / "a9a.csv", work / "a9a-test.csv"]
    for path, table in zip(paths, tables):
        with path.open() as source, table.open("w") as out:
            out.write("income,has\n")
            for line in source:
                label, *entries = line.split()
                out.write(f"{label},{' '.join(entry.split(':')[0] for entry in entries)}\n")
    settings = [f"data.path={json.dumps(str(tables[0]))}",
                f"data.test_path={json.dumps(str(tables[1]))}",
                "data.columns={income=\"label\", has={as=\"list\", separator=\" \", min_count=1}}"]
    show("a9a as a table", paceline(program, work, "table", settings), theirs)


def people(rows, seed):
    """Generated people: some values are missing, and gains are spread over five decades."""
    draw = random.Random(seed)
    weight_of_city = {city: math.sin(3 * place) for place, city in enumerate(CITIES)}
    weight_of_job = {job: math.cos(2 * place) for place, job in enumerate(JOBS)}
    for _ in range(rows):
        age = draw.randint(18, 80)
        gain = round(math.exp(draw.gauss(5, 2)), 2) if draw.random() < 0.4 else 0
        hours = round(draw.gauss(38, 10), 1)
        city, job = draw.choice(CITIES), draw.choice(JOBS)
        score = (0.04 * (age - 45) + 0.3 * math.log1p(gain) - 0.02 * (hours - 38)
                 + weight_of_city[city] + weight_of_job[job] - 0.7)
        buys = "yes" if draw.random() < 1 / (1 + math.exp(-score)) else "no"
        yield ["" if draw.random() < 0.05 else age, gain, hours,
               "" if draw.random() < 0.05 else city, job, buys]


def own_table(program, work):
    columns = ["age", "gain", "hours", "city", "job", "buys"]
    sets = [list(people(40_000, 1)), list(people(20_000, 2))]
    paths = [work / "people.csv", work / "people-test.csv"]
    for path, rows in zip(paths, sets):
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([columns, *rows])
    inputs = [numpy.array([[math.nan if value == "" and at == 0 else value
                            for at, value in enumerate(row[:5])] for row in rows], object)
              for rows in sets]
    labels = [[row[5] for row in rows] for rows in sets]
    number = [SimpleImputer(add_indicator=True), StandardScaler()]
    features = ColumnTransformer([
        ("age", make_pipeline(*number), [0]),
        ("gain", make_pipeline(FunctionTransformer(
            lambda gain: numpy.log1p(gain.astype(float))), StandardScaler()), [1]),
        ("hours", StandardScaler(), [2]),
        ("words", OneHotEncoder(handle_unknown="ignore"), [3, 4]),
    ])
    model = make_pipeline(features, LogisticRegression(max_iter=2000)).fit(inputs[0], labels[0])
    theirs = log_loss(labels[1], model.predict_proba(inputs[1]))
    settings = [f"data.path={json.dumps(str(paths[0]))}",
                f"data.test_path={json.dumps(str(paths[1]))}"]
    show("people", paceline(program, work, "people", settings), theirs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", nargs="?", default="target/release/paceline")
    parser.add_argument("--a9a", type=pathlib.Path, help="directory with a9a and a9a.t")
    args = parser.parse_args()
    program = pathlib.Path(args.program).resolve()
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        if args.a9a:
            a9a(program, work, args.a9a.resolve())
        own_table(program, work)


if __name__ == "__main__":
    main()
