//! What sharing computes: the same as `single`, bit by bit or up to rounding.

use std::collections::BTreeMap;

use crate::support::{RunFolder, SHARED_MODES, Sandbox, points};

/// Checks that two models are equal up to rounding.
#[track_caller]
fn assert_close(left: &RunFolder, right: &RunFolder, what: &str) {
    let (left, right) = (left.params(), right.params());
    assert_eq!(left.len(), right.len());
    let moved = left.iter().filter(|value| **value != 0.0).count();
    assert!(moved > left.len() / 4, "{what}: only {moved} parameters have moved");
    let differ = left.iter().zip(&right).map(|(l, r)| (l - r).abs()).fold(0.0, f32::max);
    assert!(differ <= 1e-5, "{what}: parameters differ by up to {differ}");
}

/// Checks that `sync` with this many workers follows `single` with as many times the batch.
#[track_caller]
fn check_follows_single(workers: usize, settings: &[&str]) {
    let sandbox = Sandbox::new();
    // No batch divides the number of examples, so batches reach over the ends of epochs.
    let common = [&["data.train_examples=607", "train.optimizer.rate=0.01"], settings].concat();
    let batch = format!("train.batch={}", 20 * workers);
    let single = sandbox.train("single", &[&common[..], &[&batch]].concat());
    let workers = format!("cluster.workers={workers}");
    let here = ["train.batch=20", "cluster.servers=2", &workers];
    let sync = sandbox.train_cluster("sync", "sync", &[&common[..], &here].concat());
    for figure in ["global_steps", "examples", "stop_reason"] {
        assert_eq!(single.summary()[figure], sync.summary()[figure], "{figure}");
    }
    assert_close(&single, &sync, &format!("{workers} {settings:?}"));
}

#[test]
fn sync_follows_single_with_as_many_times_the_batch() {
    check_follows_single(2, &["train.stop={steps=200}"]);
    check_follows_single(3, &["train.stop={steps=200}"]);
    check_follows_single(3, &["train.stop={steps=200}", "train.optimizer.kind=momentum"]);
}

#[test]
fn sync_weighs_the_short_batches_at_the_end_of_the_data() {
    // 1,821 examples: the last step has 20 for one worker, 1 for another and none for the third.
    check_follows_single(3, &["train.stop={epochs=3}", "train.optimizer.rate=0.1"]);
}

#[test]
fn sync_runs_stopped_by_their_test_loss_end_at_the_same_step_with_the_same_bytes() {
    let sandbox = Sandbox::new();
    let settings = ["train.stop={test_loss=1.2}", "train.evaluate.every=20"];
    let runs = [1, 2, 3].map(|again| sandbox.train_cluster(&again.to_string(), "sync", &settings));
    for run in &runs {
        assert_eq!(run.summary()["stop_reason"], "test_loss");
        assert_eq!(run.summary()["global_steps"], runs[0].summary()["global_steps"]);
        assert!(run.model() == runs[0].model(), "the bytes differ");
    }
}

#[test]
fn two_sync_runs_of_one_seed_end_with_the_same_bytes() {
    let sandbox = Sandbox::new();
    for (name, settings) in [
        ("plain", &["cluster.servers=1"][..]),
        ("sharded", &["cluster.servers=2"]),
        ("momentum", &["cluster.servers=2", "train.optimizer.kind=momentum"]),
        ("adagrad", &["cluster.servers=1", "train.optimizer.kind=adagrad"]),
        (
            "adam",
            &[
                "cluster.servers=2",
                "train.optimizer={kind=\"adam\", rate=0.003}",
                "train.optimizer.schedule={kind=\"exponential\", every=50}",
            ],
        ),
    ] {
        let settings = [settings, &["cluster.workers=3", "train.stop={steps=150}"]].concat();
        let run = |again| sandbox.train_cluster(&format!("{name}-{again}"), "sync", &settings);
        let (first, second) = (run(1), run(2));
        assert!(first.model() == second.model(), "{name}: the bytes differ");
        let other = [&settings[..], &["seed=2"]].concat();
        let other = sandbox.train_cluster(&format!("{name}-other"), "sync", &other);
        assert!(first.model() != other.model(), "{name}: the seed matters");
    }
}

#[test]
fn the_number_of_servers_does_not_change_a_bit() {
    let sandbox = Sandbox::new();
    let models = [1, 2, 3].map(|servers| {
        let servers = format!("cluster.servers={servers}");
        let settings = ["cluster.workers=2", &servers, "train.stop={steps=100}"];
        sandbox.train_cluster(&servers, "sync", &settings).model()
    });
    assert!(models[0] == models[1] && models[0] == models[2]);
}

#[test]
fn one_worker_in_any_mode_does_exactly_what_single_does() {
    let sandbox = Sandbox::new();
    let settings = ["train.stop={epochs=4}", "train.batch=17", "train.optimizer.kind=momentum"];
    let single = sandbox.train("single", &settings);
    for mode in SHARED_MODES {
        let settings = [&settings[..], &["cluster.workers=1", "cluster.servers=2"]].concat();
        let run = sandbox.train_cluster(mode, mode, &settings);
        assert!(run.model() == single.model(), "{mode}: the bytes differ from single's");
        for figure in ["global_steps", "examples", "test_loss", "train_loss"] {
            assert_eq!(run.summary()[figure], single.summary()[figure], "{mode}: {figure}");
        }
    }
}

#[test]
fn bounded_without_staleness_has_the_loss_curve_of_sync() {
    const WORKERS: u64 = 3;
    let sandbox = Sandbox::new();
    // A round of `bounded` is one update per worker; a round of `sync` is one update of all.
    let curve = |mode: &str, rate: f32, updates: u64, more: &[&str]| {
        let steps = format!("train.stop={{steps={}}}", 240 * updates);
        let every = format!("train.evaluate.every={}", 20 * updates);
        let rate = format!("train.optimizer.rate={rate}");
        let settings = ["cluster.workers=3", "train.batch=20", &steps, &every, &rate];
        let run = sandbox.train_cluster(mode, mode, &[&settings[..], more].concat());
        let tests = points(&run.worker_events(), "test/loss");
        tests.into_iter().map(|(step, loss)| (step / updates, loss)).collect::<BTreeMap<_, _>>()
    };
    let sync = curve("sync", 0.03, 1, &[]);
    let bounded = curve("bounded", 0.01, WORKERS, &["cluster.staleness=0"]);
    // Tests run beside training, so some are made a step later.
    let common: Vec<_> = sync.keys().filter(|step| bounded.contains_key(step)).collect();
    assert!(common.len() >= 6, "{sync:?} {bounded:?}");
    for step in common {
        let difference = (sync[step] - bounded[step]).abs();
        assert!(difference <= 1e-4, "at step {step}: {} and {}", sync[step], bounded[step]);
    }
    let (first, last) = (sync.values().next().unwrap(), sync.values().last().unwrap());
    assert!(first - last > 0.1, "there is a curve: {sync:?}");
}
