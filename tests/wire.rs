//! `cluster.wire = "bf16"`: half the bytes, the same accuracy, and the same bits however often
//! tasks die, with servers and in `mirrored`.

use serde_json::json;

use crate::support::{
    ENDLESS, LossyRun, ManualRun, RunFolder, Sandbox, assert_says, first_error, free_ports,
    signal_to,
};

const ROUNDED: &str = "cluster.wire=bf16";
const MOMENTUM: &str = "train.optimizer.kind=momentum";
const TASKS: [&str; 2] = ["cluster.workers=3", "cluster.servers=2"];

fn accuracy(run: &RunFolder) -> f64 {
    run.summary()["test_accuracy"].as_f64().unwrap()
}

fn sent_bytes(run: &RunFolder, task: &str) -> f64 {
    run.task(task)["sent_bytes"].as_f64().unwrap()
}

/// Trains with both formats; rounding may cost 0.5 % of accuracy, and the bytes must halve.
fn compare_with_f32(mode: &str, settings: &[&str]) {
    let sandbox = Sandbox::new();
    let exact = sandbox.train_cluster("exact", mode, settings);
    let rounded = sandbox.train_cluster("rounded", mode, &[settings, &[ROUNDED]].concat());
    let (left, right) = (accuracy(&exact), accuracy(&rounded));
    assert!(left > 0.8, "{mode}: {left} with f32");
    assert!(left - right <= 0.005, "{mode}: {left} with f32, {right} with bf16");
    if ["sync", "mirrored"].contains(&mode) {
        let tasks = if mode == "sync" { ["worker:0", "ps:0"] } else { ["worker:0", "worker:1"] };
        for task in tasks {
            let share = sent_bytes(&rounded, task) / sent_bytes(&exact, task);
            assert!((0.49..0.52).contains(&share), "{task} sends {share} of the bytes");
        }
    }
}

#[test]
fn lenet_is_as_accurate_with_half_the_bytes() {
    // The rate falls to zero: at a constant one, formats or seeds differ by up to a percent.
    let settings = [
        "model.kind=lenet",
        "train.optimizer={kind=\"momentum\", rate=0.02, schedule={kind=\"cosine\", over=600}}",
        "train.batch=32",
        "train.stop={steps=600}",
        "data.train_examples=4000",
        "data.test_examples=2000",
    ];
    for mode in ["sync", "mirrored"] {
        compare_with_f32(mode, &settings);
    }
}

#[test]
fn softmax_is_as_accurate_in_every_mode() {
    for mode in ["sync", "async", "bounded", "mirrored"] {
        let examples = ["data.train_examples=20000", "data.test_examples=5000"];
        compare_with_f32(mode, &[&examples[..], &["train.stop={steps=3000}"]].concat());
    }
}

/// Checks that a `sync` run ends like an undisturbed one after these tasks died.
fn check_equal_bits(settings: &[&str], killed: &[&str]) {
    let sandbox = Sandbox::new();
    let same = ["train.stop.steps=600", MOMENTUM, "train.batch=20", ROUNDED];
    let same = [&TASKS[..], &same].concat();
    let run = LossyRun { mode: "sync", slowdown: 100, settings: &same, recovery: settings, killed };
    run.ends_with_the_same_bits(&sandbox);
}

#[test]
fn workers_that_die_do_not_change_the_bits_of_sync() {
    check_equal_bits(&["cluster.on_worker_loss=wait"], &["worker:1", "worker:0", "worker:2"]);
}

#[test]
fn servers_that_die_do_not_change_the_bits_of_sync() {
    check_equal_bits(&["checkpoint.every_steps=50"], &["ps:1", "ps:0"]);
}

const LENET: [&str; 5] = [
    "model.kind=lenet",
    "train.batch=10",
    "train.optimizer={kind=\"momentum\", rate=0.01}",
    "data.test_examples=20",
    ROUNDED,
];

#[test]
fn mirrored_ends_with_the_same_bits_when_a_worker_dies() {
    // One at a time: two lost workers take what only they knew with them.
    for (workers, killed, more) in [
        ("cluster.workers=2", "worker:1", "seed=2"),
        ("cluster.workers=2", "worker:0", "checkpoint.every_steps=20"),
        ("cluster.workers=3", "worker:2", "checkpoint.every_steps=20"),
        ("cluster.workers=3", "worker:0", "cluster.factors=always"),
    ] {
        let sandbox = Sandbox::new();
        let settings = [&LENET[..], &[workers, more, "train.stop={steps=100}"]].concat();
        let run = LossyRun {
            mode: "mirrored",
            slowdown: 8,
            settings: &settings,
            recovery: &["cluster.on_worker_loss=wait"],
            killed: &[killed],
        };
        run.ends_with_the_same_bits(&sandbox);
    }
}

#[test]
fn a_rounded_mirrored_run_continues_from_a_checkpoint_with_the_same_bits() {
    for more in [&["cluster.workers=3"][..], &["cluster.workers=2", "cluster.factors=always"]] {
        let sandbox = Sandbox::new();
        sandbox.resumes_with_the_same_bits("mirrored", &[&LENET[..], more].concat());
    }
}

#[test]
fn two_workers_that_are_lost_at_once_end_a_rounded_mirrored_run_with_a_reason() {
    let sandbox = Sandbox::new();
    let settings = ["cluster.workers=3", ROUNDED, "cluster.on_worker_loss=wait", ENDLESS];
    let mut launched = sandbox.launch("run", "mirrored", &settings);
    launched.wait_for_steps();
    let tasks = ["worker:1", "worker:2"].map(|task| launched.task(task));
    tasks.into_iter().for_each(|pid| signal_to(pid, "STOP"));
    tasks.into_iter().for_each(|pid| signal_to(pid, "KILL"));
    let output = launched.finish();
    assert_ne!(output.code, Some(0), "{output:?}");
    let why = "worker:1 and worker:2 were lost at the same time";
    assert_says(first_error(&output.stderr), &[why, "--resume"]);
}

#[test]
fn a_mirrored_worker_with_other_numbers_is_refused_and_both_are_named() {
    let cluster = json!({"worker": free_ports::<2>().map(|port| format!("127.0.0.1:{port}"))});
    let exact = ManualRun::new(cluster.clone(), &["cluster.mode=mirrored"]);
    let rounded = ManualRun::new(cluster, &["cluster.mode=mirrored", ROUNDED]);
    let mut first = exact.start("worker", 0);
    let mut second = rounded.start("worker", 1);
    let text = "it sends gradients as bf16, but this run as f32: cluster.wire differs";
    first.wait_for(text);
    second.wait_for(text);
}

#[test]
fn a_job_that_sends_nothing_rounded_is_refused_with_a_reason() {
    let sandbox = Sandbox::new();
    let sparse = ["cluster.mode=sync", "model.kind=logistic", ROUNDED];
    for (settings, reason) in [
        (&["cluster.mode=single", ROUNDED][..], "applies only with cluster.mode"),
        (&["cluster.mode=sync", "cluster.wire=f16"], "must be"),
        (&sparse, "is \"bf16\", which is for dense models"),
    ] {
        let settings = settings.iter().flat_map(|setting| ["--set", setting]);
        let args: Vec<_> = ["explain"].into_iter().chain(settings).collect();
        assert_says(first_error(&sandbox.fails(2, &args)), &["cluster.wire", reason]);
    }
}
