//! Sweeps and reports: every cell is run once, whatever interrupts the sweep.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{RunningProcess, Sandbox, assert_says, wait_until};

/// A job whose runs take milliseconds.
const SMALL: &str = "[data]\ntrain_examples = 600\ntest_examples = 100\n\
                     [train]\nstop = { epochs = 2 }\nevaluate = { every = 5 }\n";

/// The lines of a sweep's log.
fn log(dir: &Path) -> Vec<Value> {
    let text = fs::read_to_string(dir.join("cells.jsonl")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn outcomes(dir: &Path) -> Vec<String> {
    log(dir).iter().map(|line| line["outcome"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn help_does_not_promise_a_job_that_is_not_there() {
    let sandbox = Sandbox::new();
    let help = sandbox.ok(&["sweep", "--help"]).stdout;
    assert_says(&help, &["Job file with a [sweep] section"]);
    assert!(!help.contains("built-in"), "{help}");
    assert_says(&sandbox.fails(2, &["sweep"]), &["name a job file with a [sweep] section"]);
}

#[test]
fn a_sweep_runs_every_cell_and_reports_on_all() {
    let sandbox = Sandbox::new();
    let job = format!(
        "{SMALL}[cluster]\nmode = \"single\"\n[sweep]\nrepeats = 2\n\"train.batch\" = [10, 60]\n\
         [[reference]]\nwhen = {{ \"train.batch\" = 10 }}\nseconds = 291.9\nfrom = \"R0\"\n"
    );
    sandbox.write("job.toml", job);
    let output = sandbox.ok(&["sweep", "job.toml", "--sweep-dir", "s"]);
    assert_says(&output.stderr, &["[1/4] batch=10: ", "4 of 4 runs", "s/report.html"]);
    assert_says(&output.stdout, &["batch 10", "examples/s"]);
    assert_eq!(outcomes(&sandbox.path("s")), ["done"; 4]);
    let summary = sandbox.run_folder("s/runs/004_batch-60_r2").summary();
    assert_eq!((summary["batch"].as_u64(), summary["global_steps"].as_u64()), (Some(60), Some(20)));

    let page = fs::read_to_string(sandbox.path("s/report.html")).unwrap();
    assert_says(&page, &["<svg", "Published figures", "291.9", "× faster", "Conclusions"]);
    for outside in ["http://", "https://", "<script", "src="] {
        assert!(!page.contains(outside), "the page needs {outside}");
    }
    let csv = fs::read_to_string(sandbox.path("s/report.csv")).unwrap();
    assert_eq!(csv.lines().count(), 5);
    assert_says(&fs::read_to_string(sandbox.path("s/report.md")).unwrap(), &["| 10 | 2 |", "± "]);
}

#[test]
fn a_failed_cell_is_recorded_and_the_others_run() {
    let sandbox = Sandbox::new();
    let job = "[cluster]\nmode = \"single\"\n[train.optimizer]\nkind = \"momentum\"\n\
               [sweep]\n\"train.optimizer.rate\" = [0.01, 1e38, 0.02]\n";
    sandbox.write("job.toml", format!("{SMALL}{job}"));
    let printed = sandbox.fails(1, &["sweep", "job.toml", "--sweep-dir", "s"]);
    assert_says(&printed, &["failed: ", "diverged", "1 of 3 runs failed"]);
    assert_eq!(outcomes(&sandbox.path("s")), ["done", "failed", "done"]);
    let page = fs::read_to_string(sandbox.path("s/report.html")).unwrap();
    assert_says(&page, &["Failed runs", "diverged", "(1 failed)"]);
    // A failed cell is run again only on request.
    sandbox.fails(1, &["sweep", "--continue", "s"]);
    assert_eq!(log(&sandbox.path("s")).len(), 3);
    sandbox.fails(1, &["sweep", "--continue", "s", "--retry-failed"]);
    assert_eq!(log(&sandbox.path("s"))[3]["run"], "runs/002_rate-1e38.2");
}

#[test]
fn an_interrupted_sweep_continues_where_it_was() {
    let sandbox = Sandbox::new();
    let cases = "[[sweep.case]]\n\"train.batch\" = 10\n\
                 [[sweep.case]]\n\"train.batch\" = 20\n\"train.stop\" = { test_loss = 1e-9 }\n";
    for (mode, name, code) in [("single", "INT", 130), ("async", "TERM", 143)] {
        let dir = sandbox.path(mode);
        let job = format!("{SMALL}[cluster]\nmode = \"{mode}\"\n{cases}");
        let file = sandbox.write(&format!("{mode}.toml"), job);
        let args = ["sweep", file.to_str().unwrap(), "--sweep-dir", dir.to_str().unwrap()];
        let mut sweep = RunningProcess::start(&mut sandbox.command(&args), dir.clone());
        sweep.wait_for("[1/2] ");
        let run =
            sandbox.run_folder(&format!("{mode}/runs/002_batch-20_stop---test_loss---1e-9--"));
        assert!(wait_until(|| run.event_bytes("worker:0") > 10_000), "the second run makes steps");
        sweep.signal(name);
        let output = sweep.finish();
        assert_eq!(output.code, Some(code), "{output:?}");
        let says = ["resume with: paceline sweep --continue", "; completed runs are kept"];
        assert_says(&output.stderr, &says);
        // The table has the cells that have runs.
        let cells = output.stdout.lines().filter(|line| line.starts_with("batch ")).count();
        assert_eq!(cells, 1, "{}", output.stdout);
        assert_eq!(run.summary()["stop_reason"], "interrupted", "the run ended cleanly");
        assert_eq!(outcomes(&dir), ["done", "interrupted"]);

        // Only the interrupted cell is run again, in a new directory.
        let path = dir.join("jobs/002_batch-20_stop---test_loss---1e-9--.toml");
        let job = fs::read_to_string(&path).unwrap().replace("test_loss = 1e-9", "steps = 3");
        let job = job.replace("test_loss = 0.000000001", "steps = 3");
        fs::write(&path, job).unwrap();
        let output = sandbox.ok(&args);
        assert_says(&output.stderr, &["1 of 2 runs are already done", "[2/2] "]);
        assert_eq!(outcomes(&dir), ["done", "interrupted", "done"]);
        assert!(log(&dir)[2]["run"].as_str().unwrap().ends_with(".2"));
        // The third time, nothing is left to run.
        sandbox.ok(&["sweep", "--continue", mode]);
        assert_eq!(log(&dir).len(), 3);
    }
}

#[test]
fn a_killed_sweep_ends_its_run_and_can_continue() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("s");
    let job = format!(
        "{SMALL}[cluster]\nmode = \"single\"\n[sweep]\n\"train.stop\" = [{{ test_loss = 1e-9 }}]\n"
    );
    sandbox.write("job.toml", job);
    let args = ["sweep", "job.toml", "--sweep-dir", dir.to_str().unwrap()];
    let sweep = RunningProcess::start(&mut sandbox.command(&args), dir.clone());
    let run = sandbox.run_folder("s/runs/001_stop---test_loss---1e-9--");
    assert!(wait_until(|| run.event_bytes("worker:0") > 10_000));
    sweep.signal("KILL");
    sweep.finish();
    assert!(wait_until(|| run.file("summary.json").exists()), "the run ends cleanly");
    assert!(outcomes(&dir).is_empty());
    assert_says(&sandbox.ok(&["sweep", "--dry-run", "job.toml"]).stdout, &["# job: 1 run\n"]);
}

#[test]
fn wrong_sweeps_are_refused_before_anything_is_made() {
    let sandbox = Sandbox::new();
    sandbox.write("none.toml", SMALL);
    sandbox.write("bad.toml", format!("{SMALL}[sweep]\n\"train.batch\" = [10, -1]\n"));
    sandbox.write("good.toml", format!("{SMALL}[sweep]\n\"train.batch\" = [10, 20]\n"));
    assert_says(&sandbox.fails(2, &["sweep", "none.toml"]), &["it has no [sweep] section"]);
    assert_says(&sandbox.fails(2, &["sweep", "bad.toml"]), &["bad.toml:8: train.batch must be"]);
    assert_says(&sandbox.fails(2, &["train", "good.toml"]), &["use `paceline sweep`"]);
    assert_says(&sandbox.fails(2, &["sweep"]), &["name a job file"]);
    assert_says(&sandbox.fails(2, &["sweep", "--continue", "."]), &["it contains no sweep"]);
    sandbox.write("full/x", "1");
    let full = ["sweep", "good.toml", "--sweep-dir", "full"];
    assert_says(&sandbox.fails(2, &full), &["it is not empty"]);
    assert_says(&sandbox.fails(2, &["report", "full"]), &["it contains no runs"]);
    assert!(!sandbox.path("sweeps").exists());
}

#[test]
fn the_directory_of_another_sweep_is_refused() {
    let sandbox = Sandbox::new();
    for (name, batch) in [("a", 10), ("b", 20)] {
        let job =
            format!("{SMALL}[cluster]\nmode = \"single\"\n[sweep]\n\"train.batch\" = [{batch}]\n");
        sandbox.write(&format!("{name}.toml"), job);
    }
    sandbox.ok(&["sweep", "--quiet", "a.toml", "--sweep-dir", "s"]);
    let printed = sandbox.fails(2, &["sweep", "b.toml", "--sweep-dir", "s"]);
    assert_says(&printed, &["it contains another sweep"]);
}

#[test]
fn a_report_is_made_of_any_runs() {
    let sandbox = Sandbox::new();
    sandbox.train("runs/a", &["train.batch=10", "train.stop={epochs=1}"]);
    sandbox.train("runs/b", &["train.batch=30", "train.stop={epochs=1}"]);
    assert_eq!(sandbox.ok(&["report", "runs", "--to", "out"]).stdout, "out/report.html\n");
    let csv = fs::read_to_string(sandbox.path("out/report.csv")).unwrap();
    assert_says(&csv, &["run,seed,train.batch,", "\r\na,1,10,single,1,10,epochs,"]);
    sandbox.ok(&["report", "runs/a"]);
    assert!(sandbox.path("runs/a/report.md").exists());
}
