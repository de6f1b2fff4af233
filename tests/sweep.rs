//! Sweeps and reports: every cell is run once, whatever happens in between.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{Launched, Room, assert_says, wait_until};

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
fn a_sweep_runs_every_cell_and_reports_on_all() {
    let room = Room::new();
    let job = format!(
        "{SMALL}[cluster]\nmode = \"single\"\n[sweep]\nrepeats = 2\n\"train.batch\" = [10, 60]\n\
         [[reference]]\nwhen = {{ \"train.batch\" = 10 }}\nseconds = 291.9\nfrom = \"R0\"\n"
    );
    room.write("job.toml", job);
    let done = room.ok(&["sweep", "job.toml", "--sweep-dir", "s"]);
    assert_says(&done.stderr, &["[1/4] batch=10: ", " left\n", "4 of 4 runs", "s/report.html"]);
    assert_says(&done.stdout, &["batch 10", "examples/s"]);
    assert_eq!(outcomes(&room.path("s")), ["done"; 4]);
    let summary = room.run_dir("s/runs/004_batch-60_r2").summary();
    assert_eq!((summary["batch"].as_u64(), summary["global_steps"].as_u64()), (Some(60), Some(20)));

    let page = fs::read_to_string(room.path("s/report.html")).unwrap();
    assert_says(&page, &["<svg", "Published figures", "291.9", "× faster", "Conclusions"]);
    for outside in ["http://", "https://", "<script", "src="] {
        assert!(!page.contains(outside), "the page needs {outside}");
    }
    let csv = fs::read_to_string(room.path("s/report.csv")).unwrap();
    assert_eq!(csv.lines().count(), 5);
    assert_says(&fs::read_to_string(room.path("s/report.md")).unwrap(), &["| 10 | 2 |", "± "]);
}

#[test]
fn a_cell_that_fails_is_noted_and_the_rest_go_on() {
    let room = Room::new();
    let job = "[cluster]\nmode = \"single\"\n[train.optimizer]\nkind = \"momentum\"\n\
               [sweep]\n\"train.optimizer.rate\" = [0.01, 1e38, 0.02]\n";
    room.write("job.toml", format!("{SMALL}{job}"));
    let said = room.fails(1, &["sweep", "job.toml", "--sweep-dir", "s"]);
    assert_says(&said, &["failed: ", "diverged", "1 of 3 runs failed"]);
    assert_eq!(outcomes(&room.path("s")), ["done", "failed", "done"]);
    let page = fs::read_to_string(room.path("s/report.html")).unwrap();
    assert_says(&page, &["Failed runs", "diverged", "(1 failed)"]);
    // It has failed, which is an end: only who asks for it gets another try.
    room.fails(1, &["sweep", "--continue", "s"]);
    assert_eq!(log(&room.path("s")).len(), 3);
    room.fails(1, &["sweep", "--continue", "s", "--retry-failed"]);
    assert_eq!(log(&room.path("s"))[3]["run"], "runs/002_rate-1e38.2");
}

#[test]
fn a_sweep_that_was_interrupted_goes_on_where_it_was() {
    let room = Room::new();
    let cases = "[[sweep.case]]\n\"train.batch\" = 10\n\
                 [[sweep.case]]\n\"train.batch\" = 20\n\"train.stop\" = { test_loss = 1e-9 }\n";
    for (mode, name, code) in [("single", "INT", 130), ("async", "TERM", 143)] {
        let dir = room.path(mode);
        let job = format!("{SMALL}[cluster]\nmode = \"{mode}\"\n{cases}");
        let file = room.write(&format!("{mode}.toml"), job);
        let args = ["sweep", file.to_str().unwrap(), "--sweep-dir", dir.to_str().unwrap()];
        let mut sweep = Launched::start(&mut room.command(&args), dir.clone());
        sweep.wait_for("[1/2] ");
        let run = room.run_dir(&format!("{mode}/runs/002_batch-20_stop---test_loss---1e-9--"));
        assert!(wait_until(|| run.event_bytes("worker:0") > 10_000), "the second run is endless");
        sweep.signal(name);
        let done = sweep.finish();
        assert_eq!(done.code, Some(code), "{done:?}");
        assert_says(&done.stderr, &["go on with: paceline sweep --continue"]);
        assert_eq!(run.summary()["stop_reason"], "interrupted", "it ended in good order");
        assert_eq!(outcomes(&dir), ["done", "interrupted"]);

        // What is left is run, and nothing else, in a directory of its own.
        let path = dir.join("jobs/002_batch-20_stop---test_loss---1e-9--.toml");
        let job = fs::read_to_string(&path).unwrap().replace("test_loss = 1e-9", "steps = 3");
        let job = job.replace("test_loss = 0.000000001", "steps = 3");
        fs::write(&path, job).unwrap();
        let done = room.ok(&args);
        assert_says(&done.stderr, &["1 of 2 runs are there already", "[2/2] "]);
        assert_eq!(outcomes(&dir), ["done", "interrupted", "done"]);
        assert!(log(&dir)[2]["run"].as_str().unwrap().ends_with(".2"));
        // A third time there is nothing to do.
        room.ok(&["sweep", "--continue", mode]);
        assert_eq!(log(&dir).len(), 3);
    }
}

#[test]
fn a_sweep_that_was_killed_takes_its_run_along_and_goes_on() {
    let room = Room::new();
    let dir = room.path("s");
    let job = format!(
        "{SMALL}[cluster]\nmode = \"single\"\n[sweep]\n\"train.stop\" = [{{ test_loss = 1e-9 }}]\n"
    );
    room.write("job.toml", job);
    let args = ["sweep", "job.toml", "--sweep-dir", dir.to_str().unwrap()];
    let sweep = Launched::start(&mut room.command(&args), dir.clone());
    let run = room.run_dir("s/runs/001_stop---test_loss---1e-9--");
    assert!(wait_until(|| run.event_bytes("worker:0") > 10_000));
    sweep.signal("KILL");
    sweep.finish();
    assert!(wait_until(|| run.file("summary.json").exists()), "its run ends in good order");
    assert!(outcomes(&dir).is_empty());
    assert_says(&room.ok(&["sweep", "--dry-run", "job.toml"]).stdout, &["# job: 1 run\n"]);
}

#[test]
fn wrong_sweeps_are_refused_before_anything_is_made() {
    let room = Room::new();
    room.write("none.toml", SMALL);
    room.write("bad.toml", format!("{SMALL}[sweep]\n\"train.batch\" = [10, -1]\n"));
    room.write("good.toml", format!("{SMALL}[sweep]\n\"train.batch\" = [10, 20]\n"));
    assert_says(&room.fails(2, &["sweep", "none.toml"]), &["there is no [sweep] in it"]);
    assert_says(&room.fails(2, &["sweep", "bad.toml"]), &["bad.toml:8: train.batch must be"]);
    assert_says(&room.fails(2, &["train", "good.toml"]), &["use `paceline sweep`"]);
    assert_says(&room.fails(2, &["sweep"]), &["name a job file"]);
    assert_says(&room.fails(2, &["sweep", "--continue", "."]), &["no sweep was begun in it"]);
    room.write("full/x", "1");
    let full = ["sweep", "good.toml", "--sweep-dir", "full"];
    assert_says(&room.fails(2, &full), &["there is something in it already"]);
    assert_says(&room.fails(2, &["report", "full"]), &["there are no runs in it"]);
    assert!(!room.path("sweeps").exists());
}

#[test]
fn another_sweep_s_directory_is_not_taken_over() {
    let room = Room::new();
    for (name, batch) in [("a", 10), ("b", 20)] {
        let job =
            format!("{SMALL}[cluster]\nmode = \"single\"\n[sweep]\n\"train.batch\" = [{batch}]\n");
        room.write(&format!("{name}.toml"), job);
    }
    room.ok(&["sweep", "--quiet", "a.toml", "--sweep-dir", "s"]);
    let said = room.fails(2, &["sweep", "b.toml", "--sweep-dir", "s"]);
    assert_says(&said, &["another sweep was begun in it"]);
}

#[test]
fn a_report_is_made_of_any_runs() {
    let room = Room::new();
    room.train("runs/a", &["train.batch=10", "train.stop={epochs=1}"]);
    room.train("runs/b", &["train.batch=30", "train.stop={epochs=1}"]);
    assert_eq!(room.ok(&["report", "runs", "--to", "out"]).stdout, "out/report.html\n");
    let csv = fs::read_to_string(room.path("out/report.csv")).unwrap();
    assert_says(&csv, &["run,seed,train.batch,", "\r\na,1,10,single,1,10,epochs,"]);
    room.ok(&["report", "runs/a"]);
    assert!(room.path("runs/a/report.md").exists());
}
