//! What a run reports about itself: the resources of its tasks. (`verdicts.rs` has the verdict.)

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{ENDLESS, Sandbox, events, points, wait_until};

/// The columns and rows of a task's table of resources. Every row must be complete.
#[track_caller]
fn resources(folder: &Path) -> (Vec<String>, Vec<Vec<f64>>) {
    let text = fs::read_to_string(folder.join("resources.csv")).unwrap();
    assert!(text.ends_with('\n'), "{text:?}");
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let rows: Vec<Vec<f64>> =
        lines.map(|row| row.iter().map(|cell| cell.parse().unwrap()).collect()).collect();
    assert!(rows.iter().all(|row| row.len() == head.len()), "{text}");
    (head, rows)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

#[test]
fn every_task_reports_its_resources_in_a_table_the_summary_and_tensorboard() {
    let sandbox = Sandbox::new();
    let settings = ["observe.sample_ms=20", "train.stop={seconds=2}"];
    let run = sandbox.train_cluster("run", "async", &settings);
    let curves = events(&run.path);
    for task in ["worker:0", "worker:1", "ps:0"] {
        let folder = task.replace(':', "_");
        let (head, rows) = resources(&run.file(&folder));
        let used = &run.task(task)["resources"];
        let samples = number(&used["samples"]) as usize;
        assert!((3..=rows.len()).contains(&samples), "{task}: {samples} of {}", rows.len());
        assert!(number(&used["cores"]) > 0.0, "{task}: {used}");
        for (column, name) in head.iter().enumerate().skip(2) {
            let (mean, peak) = (number(&used["mean"][name]), number(&used["peak"][name]));
            let most = rows.iter().map(|row| row[column]).fold(0.0, f64::max);
            assert!(
                mean <= peak + 0.1 && peak <= most + 0.6,
                "{task} {name}: {mean} {peak} {most}"
            );
            let drawn = points(&curves["runs"][&folder], &format!("usage/{name}"));
            assert_eq!(drawn.len(), rows.len(), "{task} {name}");
        }
        for name in
            ["cpu_usr_percent", "memory_used_bytes", "task_cpu_percent", "task_memory_bytes"]
        {
            assert!(number(&used["peak"][name]) > 0.0, "{task}: {name} of {used}");
        }
        // Each peer has columns of its own, which add up to the task's.
        let others: &[&str] = if task == "ps:0" { &["worker:0", "worker:1"] } else { &["ps:0"] };
        for way in ["received_bytes_per_s", "sent_bytes_per_s"] {
            let mean = |peer: &str| number(&used["mean"][format!("{peer}_{way}")]);
            let sum: f64 = others.iter().map(|other| mean(other)).sum();
            assert!(
                mean("task") > 0.0 && (sum / mean("task") - 1.0).abs() < 0.01,
                "{task}: {used}"
            );
        }
        // The sampled traffic is what the task itself counted.
        let total = |column: &str| {
            let column = head.iter().position(|name| name == column).unwrap();
            let from = rows.iter().zip(rows.iter().skip(1));
            from.map(|(before, row)| row[column] * (row[0] - before[0])).sum::<f64>()
        };
        for (name, counted) in [
            ("task_sent_bytes_per_s", "sent_bytes"),
            ("task_received_bytes_per_s", "received_bytes"),
        ] {
            let (sampled, counted) = (total(name), number(&run.task(task)[counted]));
            // A server counts ten times a second, and its first row covers earlier time.
            assert!(
                (0.5..1.2).contains(&(sampled / counted)),
                "{task} {name}: {sampled} of {counted}"
            );
        }
    }
}

#[test]
fn a_task_that_is_killed_leaves_a_table_of_whole_lines() {
    let sandbox = Sandbox::new();
    let mut launched = sandbox.launch("run", "async", &[ENDLESS, "observe.sample_ms=5"]);
    launched.wait_for_steps();
    let run = sandbox.run_folder("run");
    let folders = ["worker_0", "worker_1", "ps_0"];
    let lines = |folder: &&str| {
        fs::read_to_string(run.file(folder).join("resources.csv"))
            .unwrap_or_default()
            .lines()
            .count()
    };
    assert!(wait_until(|| folders.iter().all(|folder| lines(folder) > 5)), "no lines");
    launched.signal("KILL");
    launched.finish_task();
    assert!(wait_until(|| crate::support::processes_of(&run.path).is_empty()), "a process is left");
    for folder in folders {
        assert!(resources(&run.file(folder)).1.len() >= 5, "{folder}");
    }
}

#[test]
fn resources_are_sampled_only_on_request() {
    let sandbox = Sandbox::new();
    let run = sandbox.train("run", &["observe.sample_ms=0", "train.stop={steps=5}"]);
    assert!(!run.file("worker_0/resources.csv").exists());
    assert!(run.task("worker:0").get("resources").is_none());
    assert!(run.summary()["verdict"]["text"].is_string(), "there is a verdict all the same");
}
