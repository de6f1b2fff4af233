//! Copies of checkpoints and results in another place (`checkpoint.to`): a directory, or an object
//! store that speaks the protocol of S3.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::{
    ENDLESS, RunningProcess, SMALL_DATA, Sandbox, assert_says, python_command, wait_until,
};

/// The names of all files below a directory, in order.
fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = walk(dir);
    names.sort();
    names
}

fn walk(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let found = entries.flat_map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() {
            walk(&entry.path()).into_iter().map(|file| format!("{name}/{file}")).collect()
        } else {
            vec![name]
        }
    });
    found.collect()
}

/// A run of two workers in `sync`, with its checkpoints copied to a place.
fn settings(to: &str, stop: &str) -> Vec<String> {
    let to = format!("checkpoint.to={to}");
    let own = ["cluster.mode=sync", "cluster.workers=2", "checkpoint.every_steps=20", stop, &to];
    let own = own.into_iter().chain(["checkpoint.keep=2"]);
    SMALL_DATA.into_iter().chain(own).map(String::from).collect()
}

fn train(sandbox: &Sandbox, args: &[&str], settings: &[String]) -> Command {
    let mut command = sandbox.command(&[&["train"], args].concat());
    command.args(settings.iter().flat_map(|setting| ["--set", setting]));
    command
}

#[test]
fn a_run_whose_disk_is_lost_continues_from_its_copy_to_the_same_bits() {
    let sandbox = Sandbox::new();
    let to = sandbox.path("copies");
    let to_text = to.to_str().unwrap();
    let run = sandbox.path("run");
    let mut command =
        train(&sandbox, &["--run-dir", run.to_str().unwrap()], &settings(to_text, ENDLESS));
    let running = RunningProcess::start(&mut command, run.clone());
    let is_copied = || names(&to).iter().filter(|name| name.ends_with("manifest.json")).count() > 0;
    assert!(wait_until(is_copied), "{}", running.stderr());
    running.signal("TERM");
    let output = running.finish();
    assert_eq!(output.code, Some(143), "{output:?}");
    // The last checkpoint is copied too, and only as many are kept as in the run's directory.
    let manifests = |dir: &Path| -> Vec<String> {
        names(dir).into_iter().filter(|name| name.ends_with("/manifest.json")).collect()
    };
    let kept = manifests(&to);
    assert_eq!(kept.last(), manifests(&run.join("checkpoints")).last());
    assert!(kept.len() <= 2, "{kept:?}");
    let last: u64 = kept[kept.len() - 1][5..17].parse().unwrap();
    // Another run cannot use the place.
    let other = sandbox.fails(
        2,
        &[
            "train",
            "--set",
            &format!("checkpoint.to={to_text}"),
            "--set",
            "checkpoint.every_steps=5",
        ],
    );
    assert_says(&other, &["checkpoint.to", "copies of another run", &format!("step {last}")]);
    // The machine is replaced by one with an empty disk.
    fs::remove_dir_all(&run).unwrap();
    fs::create_dir(&run).unwrap();
    let stop = format!("train.stop={{steps={}}}", last + 30);
    let job = to.join("job.toml");
    let args = [job.to_str().unwrap(), "--resume", run.to_str().unwrap()];
    let resumed =
        RunningProcess::start(&mut train(&sandbox, &args, &settings(to_text, &stop)), run).finish();
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    assert_says(&resumed.stderr, &[&format!("restored the checkpoint of step {last}")]);
    let whole = ["cluster.workers=2", stop.as_str()];
    let whole = sandbox.train_cluster("whole", "sync", &whole);
    assert_eq!(sandbox.run_folder("run").model(), whole.model());
    // The result is in the place, too.
    assert_eq!(fs::read(to.join("model.safetensors")).unwrap(), whole.model());
    assert!(to.join("summary.json").is_file());
}

/// An object store in a process of its own.
struct ObjectStore {
    child: Child,
    url: String,
}

impl ObjectStore {
    fn start() -> Self {
        let mut command = python_command("python/serve_s3.py");
        command.args(["key", "a secret/with+signs", "eu-test-1"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self { child, url: url.trim().to_owned() }
    }

    /// Lets a command use the store.
    fn serve<'c>(&self, command: &'c mut Command, secret: &str) -> &'c mut Command {
        command
            .env("AWS_ENDPOINT_URL", &self.url)
            .env("AWS_ACCESS_KEY_ID", "key")
            .env("AWS_SECRET_ACCESS_KEY", secret)
            .env("AWS_REGION", "eu-test-1")
    }
}

impl Drop for ObjectStore {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn processes_of_a_launcher_continue_from_an_object_store_on_new_machines() {
    let store = ObjectStore::start();
    let settings = |stop: &str| {
        let settings = settings("s3://bucket/some/run 1", stop).into_iter();
        settings.filter(|setting| !setting.starts_with("cluster.workers")).collect::<Vec<_>>()
    };
    // Both starts have the same job. The first is slow, so that there is time to end it.
    let stop = "train.stop={steps=400}";
    let start = |sandbox: &Sandbox, slow: bool, secret: &str| {
        [0, 1].map(|rank: usize| {
            let (rank, run) = (rank.to_string(), sandbox.path("run"));
            let args = ["--run-dir", run.to_str().unwrap(), "--rank", &rank, "--size", "2"];
            let mut command = train(sandbox, &args, &settings(stop));
            command.envs(slow.then_some(("PACELINE_TEST_SLOW", "*:300")));
            RunningProcess::start(store.serve(&mut command, secret), run)
        })
    };
    let wrong = Sandbox::new();
    let [refused, other] = start(&wrong, false, "another secret");
    let output = refused.finish_task();
    assert_eq!(output.code, Some(2), "{output:?}");
    assert_says(&output.stderr, &["checkpoint.to", "403", "the signature does not match"]);
    drop(other);
    let secret = "a secret/with+signs";
    let first = Sandbox::new();
    let tasks = start(&first, true, secret);
    let run = first.run_folder("run");
    assert!(wait_until(|| run.log("worker:0").contains("copied the checkpoint of step")));
    for task in tasks {
        task.signal("KILL");
        drop(task.finish_task());
    }
    // Both machines are replaced by others with empty disks.
    let second = Sandbox::new();
    let [coordinator, worker] = start(&second, false, secret).map(RunningProcess::finish_task);
    assert_eq!((coordinator.code, worker.code), (Some(0), Some(0)), "{coordinator:?}");
    assert_says(
        &coordinator.stderr,
        &["restored the checkpoint of step", "resuming from the checkpoint of step"],
    );
    let whole = second.train_cluster("whole", "sync", &["cluster.workers=2", stop]);
    assert_eq!(second.run_folder("run").model(), whole.model());
    // A finished run is known as such wherever it is started again.
    let third = Sandbox::new();
    let [again, worker] = start(&third, false, secret).map(RunningProcess::finish_task);
    assert_eq!((again.code, worker.code), (Some(0), Some(0)), "{again:?}");
    assert_says(&again.stderr, &["is finished"]);
    assert_eq!(third.run_folder("run").model(), whole.model());
}
