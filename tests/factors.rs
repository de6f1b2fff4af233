//! Models with vectors of features: what they learn, what they refuse, and that servers change
//! nothing.

use crate::support::{Sandbox, assert_says};

/// Clicks of which pairs of values explain a third, which a linear model cannot learn.
const CLICKS: [&str; 6] = [
    "data.features=2000",
    "data.interactions=0.3",
    "data.train_examples=20000",
    "data.test_examples=4000",
    "train.batch=50",
    "train.stop={epochs=3}",
];

#[test]
fn one_worker_gives_the_bits_of_a_single_process_for_every_model_of_pairs() {
    for model in ["fm", "ffm", "deepfm", "wide-deep"] {
        let sandbox = Sandbox::new();
        let kind = format!("model.kind={model}");
        let common = [&CLICKS[..5], &[&kind, "model.rank=2", "train.stop={steps=60}"]].concat();
        let single = sandbox.train("single", &common);
        let shared = ["cluster.workers=1", "cluster.servers=2"];
        let sync = sandbox.train_cluster("sync", "sync", &[&common[..], &shared].concat());
        assert!(single.model() == sync.model(), "{model}: the bytes differ");
    }
}

#[test]
fn a_factorization_machine_learns_more_of_pairs_than_a_linear_model() {
    let sandbox = Sandbox::new();
    let loss = |model: &str| {
        let kind = format!("model.kind={model}");
        // Fewer rows would teach the vectors noise.
        let rows = ["data.train_examples=200000", "train.stop={epochs=2}"];
        let settings = ["train.optimizer={kind=\"adagrad\", rate=0.05}", &kind];
        let run = sandbox.train(model, &[&CLICKS[..2], &CLICKS[3..5], &rows, &settings].concat());
        run.summary()["test_loss"].as_f64().unwrap()
    };
    let (linear, machine) = (loss("logistic"), loss("fm"));
    assert!(machine < linear - 0.01, "fm {machine}, logistic {linear}");
}

#[test]
fn what_a_model_of_pairs_cannot_do_is_refused_before_anything_starts() {
    let sandbox = Sandbox::new();
    let check = |settings: &[&str], says: &[&str]| {
        let mut args = vec!["train"];
        args.extend(settings.iter().flat_map(|setting| ["--set", setting]));
        assert_says(&sandbox.fails(2, &args), says);
    };
    for rank in ["model.rank=0", "model.rank=10000"] {
        check(&["model.kind=fm", rank], &["model.rank must be a whole number from 1 to 1024"]);
    }
    check(&["model.kind=logistic", "model.rank=4"], &["model.rank applies only with"]);
    check(&["model.kind=deepfm", "model.hidden=[8, 0]"], &["whole numbers from 1 to 65536"]);
    check(
        &["model.kind=ffm", "data.kind=libsvm", "data.path=rows.svm"],
        &["data.kind is \"libsvm\", but model.kind is \"ffm\", which takes clicks, libffm"],
    );
    check(&["model.kind=fm", "train.optimizer.kind=momentum"], &["use sgd, adagrad, adam or ftrl"]);
    check(&["model.kind=fm", "cluster.mode=mirrored"], &["use async", "sync for a sparse model"]);
}

#[test]
fn a_checkpoint_of_another_rank_is_refused_with_both_shapes() {
    let sandbox = Sandbox::new();
    let own = ["model.kind=fm", "model.rank=3", "checkpoint.every_steps=20"];
    sandbox.train("run", &[&CLICKS[..5], &own, &["train.stop={steps=20}"]].concat());
    let run = sandbox.path("run");
    let args = ["train", "--resume", run.to_str().unwrap(), "--set", "model.rank=4"];
    let more = ["--set", "train.stop.steps=40"];
    let printed = sandbox.fails(2, &[&args[..], &more].concat());
    assert_says(&printed, &["another model", "[2000, 4]", "[2000, 5]"]);
}

#[test]
fn explain_predicts_the_memory_of_the_table() {
    let sandbox = Sandbox::new();
    let printed = sandbox.ok(&["explain", "--set", "model.kind=fm"]).stdout;
    let says =
        ["4 bytes for each feature and 72 bytes for each that occurs", "33,762,578 features"];
    let text = printed.replace("\n# ", " ").split_whitespace().collect::<Vec<_>>().join(" ");
    assert_says(&text, &says);
}
