//! A run directory that a session writes.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

use std::path::Path;

use paceline::prelude::*;

fn session(run: RunDir, steps: u64) -> Session {
    Session::new(Softmax::new(784, 10), Digits::generate(240, 1))
        .name("a \"quoted\" name")
        .batch(20)
        .stop(Stop::steps(steps))
        .checkpoints(&run.checkpoints(), CheckpointSettings::steps(4))
        .record(run)
}

fn job(run: &Path) -> String {
    std::fs::read_to_string(run.join("job.toml")).unwrap()
}

#[test]
fn a_recorded_run_describes_itself_and_can_be_reopened_and_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    session(RunDir::create(&path).unwrap(), 6).run().unwrap();
    for line in ["library = true", r#"name = "a \"quoted\" name""#, r#"kind = "Softmax""#] {
        assert!(job(&path).contains(line), "{line}");
    }
    let refused = RunDir::create(&path).unwrap_err().to_string();
    assert!(refused.contains("a run never overwrites another"), "{refused}");

    let report = session(RunDir::reopen(&path).unwrap(), 10).resume().run().unwrap();
    assert_eq!((report.steps, report.summary.resumed_from), (10, Some(6)));
    for file in ["model.safetensors", "summary.json", "job.toml", "sessions/1/summary.json"] {
        assert!(path.join(file).is_file(), "{file}");
    }
}

#[test]
fn a_run_below_runs_has_a_job_file_too() {
    let dir = tempfile::tempdir().unwrap();
    let run = RunDir::create_named(dir.path(), "mine").unwrap();
    let path = run.path().to_owned();
    session(run, 2).share(Sharing::servers(1).workers(2)).run().unwrap();
    assert!(job(&path).contains("mode = \"sync\"\nworkers = 2\nservers = 1\n"), "{}", job(&path));
}

#[test]
fn a_recorder_and_a_run_directory_both_record() {
    struct CountSteps(std::sync::Arc<std::sync::atomic::AtomicU64>);

    impl Recorder for CountSteps {
        fn step(&mut self, _record: &StepRecord<'_>) -> std::io::Result<()> {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok(())
        }
    }

    let dir = tempfile::tempdir().unwrap();
    let run = RunDir::create(dir.path().join("run")).unwrap();
    let steps = std::sync::Arc::default();
    session(run, 5).recorder(CountSteps(std::sync::Arc::clone(&steps))).run().unwrap();
    assert_eq!(steps.load(std::sync::atomic::Ordering::Relaxed), 5);
    assert!(dir.path().join("run/worker_0/resources.csv").is_file());
}

#[test]
fn a_run_that_has_reached_its_end_keeps_its_results_when_it_is_started_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let first = session(RunDir::create(&path).unwrap(), 6).run().unwrap();
    let results = ["model.safetensors", "summary.json", "evaluation.json"];
    let stored = paceline::record::model_file::load(&path.join(results[0]), &first.layout);
    assert_eq!(stored.unwrap(), first.params);
    std::fs::write(path.join(results[2]), "{}").unwrap();
    let again = session(RunDir::reopen(&path).unwrap(), 6).resume().run().unwrap_err().to_string();
    assert!(again.contains("nothing left to do"), "{again}");
    assert!(results.iter().all(|file| path.join(file).is_file()));
    assert!(!path.join("sessions").exists());

    // An evaluation belongs to the model that was evaluated.
    let servers = Sharing::servers(1).workers(2);
    session(RunDir::reopen(&path).unwrap(), 10).resume().share(servers).run().unwrap();
    assert!(results.iter().all(|file| path.join("sessions/1").join(file).is_file()));
    assert!(!path.join(results[2]).exists() && !path.join("sessions/2").exists());
}
