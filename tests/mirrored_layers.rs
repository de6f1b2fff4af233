//! Mode `mirrored` with networks that are exchanged layer by layer, and with factors in place of
//! gradients: the bits are those of `sync`, whatever dies.

use crate::support::{LossyRun, Sandbox, assert_says};

const LENET: [&str; 4] =
    ["model.kind=lenet", "train.batch=10", "train.optimizer.rate=0.01", "data.test_examples=20"];
const FACTORS: &str = "cluster.factors=always";

#[test]
fn factors_in_place_of_gradients_give_the_bits_of_sync() {
    for (workers, more) in [
        ("cluster.workers=2", &["train.stop={steps=20}", "train.evaluate.every=5"][..]),
        ("cluster.workers=3", &["train.stop={steps=20}", "train.optimizer.kind=momentum"]),
        // The last step has 10 examples for one worker, 7 for another and none for the third.
        ("cluster.workers=3", &["train.stop={epochs=2}"]),
    ] {
        let sandbox = Sandbox::new();
        let settings = [&LENET[..], &["data.train_examples=107", workers], more].concat();
        let sync = sandbox.train_cluster("sync", "sync", &settings);
        let always = [&settings[..], &[FACTORS]].concat();
        let mirrored = sandbox.train_cluster("mirrored", "mirrored", &always);
        assert!(sync.model() == mirrored.model(), "{settings:?}: the bytes differ");
        for figure in ["global_steps", "examples", "stop_reason"] {
            assert_eq!(sync.summary()[figure], mirrored.summary()[figure], "{figure}");
        }
    }
}

#[test]
fn a_run_with_factors_ends_with_the_same_bits_whichever_worker_is_killed() {
    for (workers, killed) in [
        ("cluster.workers=2", &["worker:1"][..]),
        ("cluster.workers=3", &["worker:2", "worker:0", "worker:1"]),
    ] {
        let sandbox = Sandbox::new();
        let stop = "train.stop={steps=120}";
        let momentum = "train.optimizer.kind=momentum";
        let settings = [&LENET[..], &[workers, FACTORS, stop, momentum]].concat();
        let run = LossyRun {
            mode: "mirrored",
            slowdown: 8,
            settings: &settings,
            recovery: &["cluster.on_worker_loss=wait"],
            killed,
        };
        run.ends_with_the_same_bits(&sandbox);
    }
}

#[test]
fn a_run_with_factors_continues_from_a_checkpoint_with_the_same_bits() {
    let sandbox = Sandbox::new();
    let settings = [&LENET[..], &[FACTORS, "train.optimizer.kind=momentum"]].concat();
    sandbox.resumes_with_the_same_bits("mirrored", &settings);
}

#[test]
fn explain_shows_how_each_layer_travels() {
    let sandbox = Sandbox::new();
    let explain = |more: &[&str]| {
        let settings = ["model.kind=alexnet", "data.kind=fake-images", "cluster.mode=mirrored"];
        let sets = settings.iter().chain(more).flat_map(|set| ["--set", set]);
        sandbox.ok(&["explain"].into_iter().chain(sets).collect::<Vec<_>>()).stdout
    };
    let auto = explain(&["train.batch=32"]);
    // The table of layers comes before that of their exchange.
    let line = |text: &str, layer: &str| {
        text.lines().rfind(|line| line.contains(layer)).unwrap_or_default().to_owned()
    };
    assert!(line(&auto, "classifier.1").contains("factors"), "{auto}");
    assert!(line(&auto, "features.3").contains("gradient"), "{auto}");
    let never = explain(&["cluster.factors=never"]);
    assert!(line(&never, "classifier.1").contains("gradient"), "{never}");
    let small = explain(&["model.kind=lenet", "data.kind=digits"]);
    assert!(small.contains("because the model is small"), "{small}");
}

#[test]
fn factors_need_mirrored() {
    let sandbox = Sandbox::new();
    let said = sandbox.fails(2, &["explain", "--set", "cluster.mode=sync", "--set", FACTORS]);
    assert_says(&said, &["cluster.factors applies only with cluster.mode"]);
}
