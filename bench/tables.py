#!/usr/bin/env python3
"""Compares how fast a table is read with pandas and polars, alternating.

Generates clicks in the shape of Criteo's logs as a CSV file with a header: a label, 13 counts and
26 categories. Paceline reads it into cached rows, which is the time of a run of one step less
that of the same run with the rows in the cache. pandas (its C reader) and polars read it into
memory. Next to the time stands the processor time, which a busy machine disturbs less. pandas
reads texts about three times as fast if pyarrow is installed, so the output says whether it is.

With --people FILE TEST it prints the log loss of scikit-learn on such tables instead
(tests/tables.rs).

Needs `pip install pandas polars scikit-learn`; build first: cargo build --release.
"""
import argparse
import importlib.util
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

COUNTS = [f"count{i}" for i in range(1, 14)]
CATEGORIES = [f"category{i}" for i in range(1, 27)]


def make(binary, scratch, rows):
    """Writes the table."""
    logs, table = scratch / "clicks.tsv", scratch / "clicks.csv"
    command = [binary, "data", "make", "clicks", "--rows", str(rows), "--format", "criteo"]
    subprocess.run([*command, str(logs)], check=True, stderr=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL)
    with open(logs) as lines, open(table, "w") as out:
        out.write(",".join(["label", *COUNTS, *CATEGORIES]) + "\n")
        for line in lines:
            out.write(line.replace("\t", ","))
    logs.unlink()
    return table


def job(scratch, table, scale):
    """Writes the job; without a scale, the columns are left to the first rows."""
    text = f'name = "tables"\n[data]\nkind = "table"\npath = "{table}"\nhold_out = 100\n'
    text += f'cache = "{scratch / "rows"}"\n[train.stop]\nsteps = 1\n'
    text += "[train.optimizer]\nrate = 1e-9\n"  # Raw counts are too large to learn from.
    if scale:
        text += '[data.columns]\nlabel = { as = "label", classes = ["0", "1"] }\n'
        number = f'{{ as = "number", scale = "{scale}" }}'
        text += "".join(f"{name} = {number}\n" for name in COUNTS)
        text += "".join(f'{name} = {{ as = "category", bits = 18 }}\n' for name in CATEGORIES)
    path = scratch / f"job-{scale}.toml"
    path.write_text(text)
    return path


def run(binary, scratch, file):
    """The seconds of a run of one step, and those of processors."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory(dir=scratch) as runs:
        command = [binary, "train", str(file), "--quiet", "--run-dir", f"{runs}/run"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, busy


def read_paceline(binary, scratch, file):
    """A run without cached rows, and one with them."""
    for cached in (scratch / "rows").glob(".*"):
        cached.unlink()
    return run(binary, scratch, file) + run(binary, scratch, file)


def read_other(code, table):
    """The seconds that another Python process takes to read, without its start, which counts
    as a run without anything to read."""
    code = f"import time, {code.split('.')[0]} as m\n" \
           "s, c = time.perf_counter(), time.process_time()\n" \
           f"m.{code.split('.', 1)[1]}\nprint(time.perf_counter() - s, time.process_time() - c)"
    output = subprocess.run([sys.executable, "-c", code, str(table)], check=True,
                            capture_output=True, text=True)
    return tuple(float(seconds) for seconds in output.stdout.split()) + (0.0, 0.0)


def people(train, test):
    """Prints scikit-learn's log loss."""
    import numpy
    import pandas
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
    train, test = (pandas.read_csv(path) for path in (train, test))
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    logs = make_pipeline(FunctionTransformer(numpy.log1p), StandardScaler())
    columns = ColumnTransformer([("numbers", numbers, ["age", "hours"]), ("logs", logs, ["gain"]),
                                 ("categories", OneHotEncoder(handle_unknown="ignore"),
                                  ["city", "job"])])
    model = make_pipeline(columns, LogisticRegression(max_iter=1000))
    model.fit(train, train["buys"])
    print(f"scikit-learn: log loss {log_loss(test['buys'], model.predict_proba(test)):.6f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default="target/release/paceline")
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--people", nargs=2, metavar=("FILE", "TEST"))
    args = parser.parse_args()
    if args.people:
        return people(*args.people)
    binary = str(pathlib.Path(args.binary).resolve())
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        table = make(binary, scratch, args.rows)
        megabytes = table.stat().st_size / 1e6
        raw, standard = job(scratch, table, "raw"), job(scratch, table, "standard")
        inferred = job(scratch, table, None)
        sides = {
            "paceline, columns that need no look at all rows":
                lambda: read_paceline(binary, scratch, raw),
            "paceline, standardised numbers (two passes)":
                lambda: read_paceline(binary, scratch, standard),
            "paceline, no column described (two passes)":
                lambda: read_paceline(binary, scratch, inferred),
            "pandas": lambda: read_other("pandas.read_csv(__import__('sys').argv[1], engine='c')",
                                         table),
            "polars": lambda: read_other("polars.read_csv(__import__('sys').argv[1], "
                                         "infer_schema_length=10_000)", table),
        }
        best = {name: (float("inf"),) * 4 for name in sides}
        for _ in range(args.repeats):
            for name, side in sides.items():
                best[name] = tuple(min(pair) for pair in zip(best[name], side()))
        has_arrow = importlib.util.find_spec("pyarrow") is not None
        print(f"{args.rows} rows, {megabytes:.0f} MB, best of {args.repeats}; "
              f"pandas {'with' if has_arrow else 'without'} pyarrow")
        for name, (cold, cold_busy, warm, warm_busy) in best.items():
            seconds, busy = cold - warm, cold_busy - warm_busy
            rate, ratio = megabytes / seconds, best["pandas"][0] / seconds
            print(f"{name:50} {rate:7.0f} MB/s  {ratio:5.2f} times pandas  "
                  f"{megabytes / busy:6.0f} MB per processor second")


if __name__ == "__main__":
    main()
