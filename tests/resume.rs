//! Checkpoints and `--resume`: a resumed run ends like an undisturbed one.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{
    ENDLESS, PACELINE, RunFolder, RunningProcess, SHARED_MODES, SMALL, Sandbox, assert_says,
    finish, points, processes_of, python_json, start, wait_until,
};

/// The steps of a run's complete checkpoints, the newest first.
fn complete(run: &Path) -> Vec<u64> {
    let entries = fs::read_dir(run.join("checkpoints")).into_iter().flatten().flatten();
    let mut steps: Vec<u64> = entries
        .filter(|entry| entry.path().join("manifest.json").exists())
        .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("step-")?.parse().ok())
        .collect();
    steps.sort_unstable_by(|left, right| right.cmp(left));
    steps
}

fn checkpoint_path(run: &Path, step: u64) -> PathBuf {
    run.join(format!("checkpoints/step-{step:012}"))
}

/// Kills a run and all its tasks once it has a checkpoint. Returns the step of the newest.
fn kill_after_checkpoint(mut launched: RunningProcess, run: &Path) -> u64 {
    assert!(
        wait_until(|| !complete(run).is_empty() || launched.has_ended()),
        "{}",
        launched.stderr()
    );
    let processes = processes_of(run).into_iter().map(|pid| pid.to_string());
    let kill = format!("kill -KILL {} 2>/dev/null; true", processes.collect::<Vec<_>>().join(" "));
    assert!(std::process::Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    assert!(wait_until(|| processes_of(run).is_empty()));
    assert_eq!(launched.finish().code, None, "killed");
    complete(run)[0]
}

/// Resumes a run, which must succeed.
fn resume(sandbox: &Sandbox, name: &str, settings: &[&str]) -> RunFolder {
    let run = sandbox.path(name);
    let mut command = sandbox.command(&["train", "--resume", run.to_str().unwrap()]);
    command.args(settings.iter().flat_map(|setting| ["--set", setting]));
    let output = RunningProcess::start(&mut command, run).finish();
    assert_eq!(output.code, Some(0), "{settings:?}: {output:?}");
    sandbox.run_folder(name)
}

/// Checks that a run whose processes were all killed, and which was then resumed, ends with the
/// model of an undisturbed run.
fn check_equal_bits(mode: &str, settings: &[&str]) {
    let sandbox = Sandbox::new();
    let every = ["checkpoint.every_steps=50"];
    let endless = [settings, &every, &[ENDLESS]].concat();
    let launched = sandbox.launch("run", mode, &endless);
    let step = kill_after_checkpoint(launched, &sandbox.path("run"));
    let stop = format!("train.stop.steps={}", step + 73);
    let resumed = resume(&sandbox, "run", &[&stop]);
    let undisturbed =
        sandbox.train_cluster("undisturbed", mode, &[settings, &every, &[&stop]].concat());
    assert_eq!(resumed.summary()["resumed_from"], step, "{mode} {settings:?}");
    assert_eq!(resumed.summary()["global_steps"], step + 73);
    assert!(resumed.model() == undisturbed.model(), "{mode} {settings:?} from step {step}");
    assert_eq!(complete(&resumed.path)[0], step + 73, "a checkpoint at the end");
    assert!(complete(&resumed.path).len() <= 3, "three checkpoints are kept");
}

#[test]
fn a_resumed_single_run_ends_with_the_same_bits() {
    for optimizer in ["momentum", "adam"] {
        check_equal_bits("single", &[&format!("train.optimizer.kind={optimizer}")]);
    }
}

#[test]
fn a_resumed_sync_run_ends_with_the_same_bits() {
    let tasks = ["cluster.workers=3", "cluster.servers=2", "train.optimizer.kind=momentum"];
    check_equal_bits("sync", &tasks);
}

#[test]
fn a_resumed_mirrored_run_ends_with_the_same_bits() {
    for (workers, optimizer) in [(1, "adam"), (2, "momentum"), (3, "momentum")] {
        let workers = format!("cluster.workers={workers}");
        let optimizer = format!("train.optimizer.kind={optimizer}");
        check_equal_bits("mirrored", &[&workers, &optimizer]);
    }
    let recovers = ["cluster.workers=3", "cluster.on_worker_loss=wait"];
    check_equal_bits("mirrored", &[&recovers[..], &["train.optimizer.kind=momentum"]].concat());
}

#[test]
fn sync_resumes_as_mirrored_and_mirrored_as_sync_with_the_same_bits() {
    let common = ["cluster.workers=3", "train.optimizer.kind=momentum", "train.batch=20"];
    let sandbox = Sandbox::new();
    let undisturbed = sandbox.train_cluster(
        "undisturbed",
        "sync",
        &[&common[..], &["train.stop.steps=90"]].concat(),
    );
    for (before, after) in [("sync", "mirrored"), ("mirrored", "sync")] {
        let settings = ["checkpoint.every_steps=1000", "train.stop.steps=40"];
        sandbox.train_cluster(before, before, &[&common[..], &settings].concat());
        let mode = format!("cluster.mode={after}");
        let run = resume(&sandbox, before, &[&mode, "train.stop.steps=90"]);
        assert_eq!(run.summary()["resumed_from"], 40, "{after}");
        assert!(run.model() == undisturbed.model(), "{before}, then {after}: the bytes differ");
        assert_eq!(complete(&run.path), [90, 40], "{after}: a checkpoint at each end");
    }
}

#[test]
fn a_deep_model_resumes_wherever_its_perceptron_was_with_the_same_bits() {
    // Replicas write ranges of keys, as servers of earlier versions did. Several servers have an
    // equal part of the perceptron each.
    let common = [
        "model={kind=\"deepfm\", rank=2, hidden=[8, 4], min_count=2}",
        "data.features=5000",
        "cluster.workers=2",
        "checkpoint.every_steps=1000",
    ];
    let sandbox = Sandbox::new();
    let all = ["cluster.servers=2", "train.stop.steps=100"];
    let undisturbed = sandbox.train_cluster("all", "sync", &[&common[..], &all].concat());
    sandbox.train_cluster("run", "mirrored", &[&common[..], &["train.stop.steps=25"]].concat());
    let sessions = [("sync", "servers=2", 50), ("sync", "servers=3", 75), ("mirrored", "", 100)];
    for (mode, servers, steps) in sessions {
        let (stop, comma) = (format!("train.stop.steps={steps}"), ["", ", "][servers.len().min(1)]);
        let cluster = format!("cluster={{mode=\"{mode}\", workers=2{comma}{servers}}}");
        let run = resume(&sandbox, "run", &[&cluster, &stop]);
        assert_eq!(run.summary()["resumed_from"], steps - 25, "{mode}");
    }
    let run = sandbox.run_folder("run");
    assert!(run.model() == undisturbed.model(), "the bytes differ");
}

#[test]
fn a_resumed_run_on_sparse_rows_ends_with_the_same_bits() {
    let rows = ["model.kind=logistic", "data.features=5000"];
    for (mode, optimizer) in [("single", "ftrl"), ("sync", "ftrl"), ("sync", "adagrad")] {
        let kind = format!("train.optimizer.kind={optimizer}");
        check_equal_bits(mode, &[&rows[..], &[&kind]].concat());
    }
    for (mode, optimizer) in [("single", "adagrad"), ("sync", "adam"), ("sync", "ftrl")] {
        let machine = ["model={kind=\"fm\", rank=3}", "data.features=5000", "cluster.servers=2"];
        let machine = if mode == "single" { &machine[..2] } else { &machine[..] };
        let kind = format!("train.optimizer.kind={optimizer}");
        check_equal_bits(mode, &[machine, &[&kind]].concat());
    }
    let decay = ["train.optimizer.decay=0.01", "train.optimizer.rate=0.1"];
    check_equal_bits("sync", &[&rows[..], &decay, &["cluster.servers=2"]].concat());
}

#[test]
fn a_killed_run_resumes_in_async_and_bounded() {
    for mode in ["async", "bounded"] {
        let sandbox = Sandbox::new();
        let settings = ["cluster.servers=2", "checkpoint.every_steps=100", ENDLESS];
        let launched = sandbox.launch("run", mode, &settings);
        let step = kill_after_checkpoint(launched, &sandbox.path("run"));
        let stop = format!("train.stop.steps={}", step + 500);
        let summary = resume(&sandbox, "run", &[&stop]).summary();
        let from = summary["resumed_from"].as_u64().unwrap();
        assert!(from >= step, "{mode}: the checkpoint is named after the coordinator's step");
        assert!(summary["global_steps"].as_u64().unwrap() >= step + 500, "{mode}");
        assert!(summary["test_accuracy"].as_f64().unwrap() > 0.5, "{mode}");
    }
}

#[test]
fn an_epoch_is_completed_after_a_kill_and_no_example_comes_twice() {
    // The examples before the checkpoint and after the resumption make up the epochs.
    let sandbox = Sandbox::new();
    let settings = ["train.stop.epochs=400", "checkpoint.every_steps=100", "train.batch=10"];
    let launched = sandbox.launch("run", "sync", &settings);
    let step = kill_after_checkpoint(launched, &sandbox.path("run"));
    let summary = resume(&sandbox, "run", &[]).summary();
    assert_eq!(summary["stop_reason"], "epochs");
    assert_eq!(summary["global_steps"], 400 * 600 / 20);
    let examples = summary["examples"].as_u64().unwrap();
    assert_eq!(examples + summary["resumed_from"].as_u64().unwrap() * 20, 400 * 600);
    assert!(summary["resumed_from"] == step);
}

#[test]
fn a_checkpoint_resumes_in_any_mode_with_any_number_of_tasks() {
    let sandbox = Sandbox::new();
    let settings = [
        "cluster.workers=2",
        "cluster.servers=3",
        "train.optimizer.kind=momentum",
        "train.batch=30",
        "checkpoint.every_steps=40",
        "train.stop.steps=80",
    ];
    sandbox.train_cluster("run", "sync", &settings);
    let mut steps = 80;
    for (mode, workers, servers) in [
        ("single", 1, 0),
        ("sync", 3, 1),
        ("mirrored", 2, 0),
        ("async", 2, 2),
        ("mirrored", 3, 0),
        ("bounded", 3, 2),
        ("sync", 2, 3),
    ] {
        steps += 40;
        let mut settings =
            vec![format!("cluster={{mode=\"{mode}\"}}"), format!("train.stop.steps={steps}")];
        if mode != "single" {
            settings.push(format!("cluster.workers={workers}"));
        }
        if servers > 0 {
            settings.push(format!("cluster.servers={servers}"));
        }
        let settings: Vec<_> = settings.iter().map(String::as_str).collect();
        let summary = resume(&sandbox, "run", &settings).summary();
        assert_eq!(summary["mode"], mode);
        let made = summary["global_steps"].as_u64().unwrap();
        assert!((steps..steps + 40).contains(&made), "{mode}: {made} of {steps}");
        steps = made;
    }
    // The results of every earlier session are kept.
    for session in 1..=7 {
        for file in ["job.toml", "summary.json", "model.safetensors"] {
            assert!(sandbox.path(&format!("run/sessions/{session}/{file}")).is_file(), "{session}");
        }
    }
}

#[test]
fn two_sync_workers_resume_as_one_with_twice_the_batch() {
    // The plan continues at the same example, so only the order of sums differs.
    let sandbox = Sandbox::new();
    let settings = ["train.batch=15", "checkpoint.every_steps=50", "train.stop.steps=50"];
    for name in ["two", "one"] {
        sandbox.train_cluster(name, "sync", &settings);
    }
    let two = resume(&sandbox, "two", &["train.stop.steps=100"]);
    let single = ["train.stop.steps=100", "cluster.mode=single", "train.batch=30"];
    let one = resume(&sandbox, "one", &single);
    let apart = two.params().into_iter().zip(one.params()).map(|(a, b)| (a - b).abs());
    assert!(apart.fold(0.0, f32::max) < 1e-5);
}

#[test]
fn numpy_reads_a_checkpoint_by_name_from_any_number_of_servers() {
    for (mode, servers) in [("single", 0), ("sync", 1), ("sync", 3), ("mirrored", 0)] {
        let sandbox = Sandbox::new();
        let mut settings = vec![
            "train.optimizer.kind=momentum",
            "train.stop.steps=20",
            "checkpoint.every_steps=1000",
        ];
        let number = format!("cluster.servers={servers}");
        if servers > 0 {
            settings.push(&number);
        }
        let run = sandbox.train_cluster("run", mode, &settings);
        let read =
            python_json("python/read_checkpoint.py", &[checkpoint_path(&run.path, 20).as_os_str()]);
        let names: Vec<_> = read.as_object().unwrap().keys().collect();
        let slots = ["optimizer.momentum.weight", "optimizer.momentum.bias"];
        assert_eq!(names, ["weight", "bias", slots[0], slots[1]]);
        assert_eq!(read["weight"]["shape"], serde_json::json!([10, 784]));
        let values = |name: &str| -> Vec<f32> {
            let values = read[name]["values"].as_array().unwrap();
            values.iter().map(|value| value.as_f64().unwrap() as f32).collect()
        };
        assert_eq!([values("weight"), values("bias")].concat(), run.params(), "{mode} {servers}");
        assert!(values("optimizer.momentum.bias").iter().any(|&value| value != 0.0));
    }
}

#[test]
fn a_damaged_checkpoint_is_named_and_the_one_before_it_is_used() {
    let sandbox = Sandbox::new();
    let run = sandbox.train("run", &["checkpoint.every_steps=1000", "train.stop.steps=40"]);
    for stop in ["train.stop.steps=80", "train.stop.steps=100"] {
        resume(&sandbox, "run", &[stop]);
    }
    assert_eq!(complete(&run.path), [100, 80, 40]);
    let listed = sandbox.ok(&["checkpoint", "list", "run"]).stdout;
    assert_says(&listed, &["100", "80", "40", "single"]);
    sandbox.ok(&["checkpoint", "verify", "run"]);

    let file = checkpoint_path(&run.path, 100).join("worker-0.safetensors");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 16;
    fs::write(&file, &bytes).unwrap();
    let verify = sandbox.run(&["checkpoint", "verify", "run"]);
    assert_eq!(verify.code, Some(1));
    assert_says(
        &verify.stdout,
        &["step 100: worker-0.safetensors: its checksum", "step 80: sound"],
    );

    let undisturbed = sandbox.train("undisturbed", &["train.stop.steps=130"]);
    let more = ["train", "--resume", "run", "--quiet", "--set", "train.stop.steps=130"];
    let output = sandbox.ok(&more);
    assert_says(&output.stderr, &["step 100", "worker-0.safetensors", "checksum"]);
    assert_eq!(sandbox.run_folder("run").summary()["resumed_from"], 80);
    assert!(sandbox.run_folder("run").model() == undisturbed.model());
    // The damaged checkpoint was moved aside, and a sound one is in its place.
    sandbox.ok(&["checkpoint", "verify", "run"]);
    assert!(sandbox.path("run/checkpoints/step-000000000100.aside-1").is_dir());
}

#[test]
fn what_cannot_be_resumed_is_refused_with_the_reason() {
    let sandbox = Sandbox::new();
    sandbox.train("bare", &["train.stop.steps=10"]);
    assert_says(&sandbox.fails(2, &["train", "--resume", "bare"]), &["no complete checkpoint"]);
    assert_says(&sandbox.fails(2, &["train", "--resume", "nowhere"]), &["nowhere"]);
    let says = "error: .: this is not the directory of a run: it has no job.toml";
    assert_says(&sandbox.fails(2, &["train", "--resume", "."]), &[says]);
    assert_says(&sandbox.fails(2, &["checkpoint", "list", "bare"]), &["no checkpoints"]);

    sandbox.train("run", &["train.stop.steps=10", "checkpoint.every_steps=5"]);
    let before = sandbox.tree();
    assert_says(&sandbox.fails(2, &["train", "--resume", "run"]), &["step 10", "nothing left"]);
    let more = ["train", "--resume", "run", "--set", "train.stop.steps=20", "--set"];
    let changed = [&more[..], &["train.optimizer.kind=adam"]].concat();
    assert_says(&sandbox.fails(2, &changed), &["\"mean\"", "optimizer"]);
    let changed = [&more[..], &["model.kind=lenet"]].concat();
    assert_says(&sandbox.fails(2, &changed), &["another model"]);
    assert_eq!(sandbox.tree(), before, "files were changed");
}

#[test]
fn a_run_in_progress_is_not_resumed() {
    let sandbox = Sandbox::new();
    let settings = ["checkpoint.every_steps=50", ENDLESS];
    let launched = sandbox.launch("run", "async", &settings);
    assert!(wait_until(|| !complete(&sandbox.path("run")).is_empty()));
    let printed = sandbox.fails(2, &["train", "--resume", "run"]);
    assert_says(&printed, &["another process is using this run"]);
    launched.signal("INT");
    assert_eq!(launched.finish().code, Some(130));
}

#[test]
fn curves_continue_from_the_checkpoint() {
    for mode in ["single", "sync"] {
        let sandbox = Sandbox::new();
        let settings = ["checkpoint.every_steps=50", ENDLESS];
        let launched = sandbox.launch("run", mode, &settings);
        let step = kill_after_checkpoint(launched, &sandbox.path("run"));
        let stop = format!("train.stop.steps={}", step + 30);
        let events = resume(&sandbox, "run", &[&stop]).worker_events();
        let steps: Vec<_> = points(&events, "train/loss").into_iter().map(|(at, _)| at).collect();
        assert!(steps.windows(2).all(|pair| pair[0] < pair[1]), "{mode}: no step twice");
        assert!(steps.ends_with(&[step + 27, step + 28, step + 29]), "{mode}: {steps:?}");
    }
}

#[test]
fn checkpoints_are_also_taken_by_the_clock() {
    for mode in ["single", "mirrored"].into_iter().chain(SHARED_MODES) {
        let sandbox = Sandbox::new();
        let settings =
            ["cluster.servers=2", "checkpoint.every_seconds=0.05", "checkpoint.keep=100"];
        let settings = [&settings[..], &["train.stop.seconds=0.6"]].concat();
        let settings = match mode {
            "single" | "mirrored" => &settings[1..],
            _ => &settings[..],
        };
        let run = sandbox.train_cluster("run", mode, settings);
        let count = complete(&run.path).len();
        assert!((2..=14).contains(&count), "{mode}: {count}");
        sandbox.ok(&["checkpoint", "verify", "run"]);
    }
}

#[test]
fn a_full_disk_costs_checkpoints_and_not_the_run() {
    let sandbox = Sandbox::new();
    let mut args = vec!["train", "--run-dir", "run", "--set", "train.stop.steps=20"];
    args.extend(SMALL);
    args.extend(["--set", "checkpoint.every_steps=10", "--set", "train.optimizer.kind=momentum"]);
    // The model takes 31 kB and a checkpoint twice as much; files may have 45 kB.
    let limited = format!("trap '' XFSZ; ulimit -f 90; exec {PACELINE} {}", args.join(" "));
    let output = finish(start(sandbox.program("sh").args(["-c", &limited])));
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_says(&output.stderr, &["warning: cannot write the checkpoint of step 10"]);
    assert!(complete(&sandbox.path("run")).is_empty());
    assert_eq!(sandbox.run_folder("run").summary()["global_steps"], 20);
}

#[test]
fn the_seconds_of_training_count_over_all_starts_of_a_run() {
    let sandbox = Sandbox::new();
    let settings = ["train.stop={seconds=3}", "checkpoint.every_seconds=1"];
    let launched = sandbox.launch("run", "sync", &settings);
    let run = sandbox.run_folder("run");
    assert!(wait_until(|| run.has_checkpoint()), "{}", launched.stderr());
    launched.signal("TERM");
    assert_eq!(launched.finish().code, Some(143));
    let first = run.summary();
    assert!(first["seconds"].as_f64().unwrap() >= 1.0, "{first}");
    let second = resume(&sandbox, "run", &[]).summary();
    assert_eq!(second["stop_reason"], "seconds");
    let number = |key: &str| second[key].as_f64().unwrap();
    assert!(number("seconds") < 2.5, "{second}");
    let steps = number("global_steps") - number("resumed_from");
    let speed = number("steps_per_second") * number("seconds");
    assert!((steps - speed).abs() < 1.0, "{second}");
    // A run that has trained for its time ends again at once.
    let third = resume(&sandbox, "run", &[]).summary();
    assert!(third["seconds"].as_f64().unwrap() < 0.5, "{third}");
}
