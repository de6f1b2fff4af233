//! Files that others change, damage or read while a run uses them, and models without memory.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::support::{ENDLESS, RunningProcess, Sandbox, assert_says, finish, start};

/// The program with these arguments and at most this much memory, in kilobytes.
fn limited(sandbox: &Sandbox, kilobytes: u32, args: &[&str]) -> Command {
    let train = sandbox.command(args);
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("ulimit -v {kilobytes}; exec \"$0\" \"$@\""));
    command.arg(train.get_program()).args(train.get_args());
    command.envs(train.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(train.get_current_dir().unwrap());
    command
}

#[test]
fn a_model_that_does_not_fit_into_memory_is_refused_before_the_start() {
    let sandbox = Sandbox::new();
    sandbox.write("rows.svm", "1 1:1\n0 2:1\n".repeat(10));
    let data = "data={kind=\"libsvm\", path=\"rows.svm\", features=3000000000}";
    for mode in ["single", "async"] {
        let mode = format!("cluster.mode={mode}");
        let args = ["train", "--run-dir", "run", "--set", data, "--set", "train.batch=2"];
        let args = [&args[..], &["--set", &mode]].concat();
        let output = finish(start(&mut limited(&sandbox, 8_000_000, &args)));
        assert_eq!(output.code, Some(2), "{output:?}");
        let sum = if mode.ends_with("single") { "24 GB" } else { "12 GB" };
        let needs = format!("3,000,000,001 parameters and needs {sum}");
        assert_says(&output.stderr, &["data.features", &needs, "only 8.2 GB of memory"]);
        assert!(!sandbox.path("run").exists(), "nothing has started");
    }
}

#[test]
fn a_network_whose_updates_do_not_fit_into_memory_is_refused_before_the_start() {
    let sandbox = Sandbox::new();
    let layers = r#"model.layers=[{kind="flatten"},{kind="dense",size=900000},
                                  {kind="dense",size="classes"}]"#;
    for (mode, needs) in [
        ("single", "(2.9 GB for its parameters, 5.7 GB for its optimizer's state and 231 MB for"),
        ("mirrored", "(2.9 GB for its parameters, 2.9 GB for the gradient and 231 MB for"),
    ] {
        let mode = format!("cluster.mode={mode}");
        let args = ["train", "--run-dir", "run", "--set", layers, "--set", &mode];
        let output = finish(start(&mut limited(&sandbox, 4_000_000, &args)));
        assert_eq!(output.code, Some(2), "{output:?}");
        assert_says(&output.stderr, &["model.layers.1 is the largest layer", needs]);
        assert!(!sandbox.path("run").exists(), "nothing has started");
    }
}

#[test]
fn a_cache_that_shrinks_during_a_run_is_an_error_that_names_it() {
    let sandbox = Sandbox::new();
    let cache = sandbox.path("cache");
    let run = sandbox.path("run");
    let mut command = sandbox.command(&["train", "--run-dir", run.to_str().unwrap()]);
    command.env("PACELINE_CACHE", &cache);
    command.args(["--set", "data={kind=\"clicks\", train_examples=200000}"]);
    command.args(["--set", "cluster.mode=single", "--set", ENDLESS]);
    let mut launched = RunningProcess::start(&mut command, run);
    launched.wait_for_steps();
    let rows = fs::read_dir(cache.join("rows")).unwrap().map(|entry| entry.unwrap().path());
    let rows = rows.into_iter().find(|path| path.extension().unwrap() == "paceline-rows").unwrap();
    File::options().write(true).open(&rows).unwrap().set_len(4_096).unwrap();
    let output = launched.finish();
    assert_eq!(output.code, Some(1), "{output:?}");
    let named = format!("error: {} had ", rows.display());
    assert_says(&output.stderr, &[&named, "another program made it shorter"]);
}

#[test]
fn a_model_that_was_changed_after_its_run_is_not_used() {
    let sandbox = Sandbox::new();
    let run = sandbox.train("run", &["train.stop={steps=5}"]);
    sandbox.ok(&["predict", "run", "--test", "-o", "answers.csv"]);
    assert_eq!(run.summary()["model_sha256"].as_str().map(str::len), Some(64));
    let path = sandbox.path("run/model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    let start = "train.start=run/model.safetensors";
    for args in [
        &["predict", "run", "--test"][..],
        &["evaluate", "run"],
        &["export", "run", "-o", "model.onnx"],
        &["train", "--run-dir", "next", "--set", start],
    ] {
        let says = ["run/model.safetensors", "SHA-256", "changed after the run", "restore it"];
        assert_says(&sandbox.fails(2, args), &says);
    }
}

#[test]
fn a_run_directory_is_its_owners_alone() {
    let sandbox = Sandbox::new();
    sandbox.train("named/run", &["train.stop={steps=2}"]);
    let mode = |name: &str| fs::metadata(sandbox.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("named/run"), 0o700);
    assert_ne!(mode("named"), 0o700);
}

#[test]
fn other_users_cannot_read_what_a_run_has_cached() {
    let sandbox = Sandbox::new();
    let rows = "a,b,label\n1,x,0\n2,y,1\n3,x,0\n4,y,1\n";
    sandbox.write("rows.csv", rows.repeat(5));
    let data = "data={kind=\"table\", path=\"rows.csv\"}";
    let mut command = sandbox.command(&["train", "--run-dir", "run", "--set", data]);
    command.args(["--set", "train.batch=2", "--set", "train.stop={steps=2}"]);
    let output = finish(start(command.env("PACELINE_CACHE", "cache")));
    assert_eq!(output.code, Some(0), "{output:?}");
    let rows = sandbox.path("cache/rows");
    assert!(fs::read_dir(&rows).unwrap().count() > 0, "cached rows");
    assert_eq!(fs::metadata(&rows).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_pipe_or_a_device_in_place_of_a_runs_file_does_not_hold_up_a_command() {
    let sandbox = Sandbox::new();
    sandbox.train("run", &["train.stop={steps=4}", "checkpoint={every_steps=2}"]);
    let evaluate: &[&str] = &["evaluate", "copy"];
    let resume: &[&str] = &["train", "--resume", "copy", "--set", "train.stop={steps=6}"];
    let report: &[&str] = &["report", "copy"];
    for (file, command) in [
        ("model.safetensors", evaluate),
        ("summary.json", evaluate),
        ("summary.json", report),
        ("job.toml", report),
        ("worker_0/resources.csv", report),
        ("summary.json", resume),
        ("worker_0/log.txt", resume),
        ("checkpoints/step-000000000004/manifest.json", resume),
        ("checkpoints/step-000000000004/worker-0.safetensors", resume),
    ] {
        for replace in ["mkfifo", "ln -s /dev/zero"] {
            let script = format!("cp -r run copy && rm -f copy/{file} && {replace} copy/{file}");
            let made = finish(start(sandbox.program("sh").args(["-c", &script])));
            assert_eq!(made.code, Some(0), "{made:?}");
            let output = finish(start(&mut limited(&sandbox, 4_000_000, command)));
            let is_known = matches!(output.code, Some(0..=2));
            assert!(is_known, "{replace} {file}: {command:?}: {output:?}");
            fs::remove_dir_all(sandbox.path("copy")).unwrap();
        }
    }
}

#[test]
fn the_file_that_lets_workers_join_ends_with_its_run() {
    let sandbox = Sandbox::new();
    for (signal, code) in [("TERM", 143), ("INT", 130)] {
        let mut launched = sandbox.launch(signal, "async", &[ENDLESS]);
        launched.wait_for_steps();
        let join = sandbox.path(signal).join("join.json");
        assert_eq!(fs::metadata(&join).unwrap().permissions().mode() & 0o777, 0o600);
        launched.signal(signal);
        assert_eq!(launched.finish().code, Some(code));
        assert!(!join.exists(), "after {signal}");
    }
}
