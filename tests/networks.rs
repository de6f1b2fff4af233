//! Networks and pictures: LeNet learns in every mode, sharing changes only the rounding, and
//! pictures are read from folders.

use std::fs;
use std::path::PathBuf;

use crate::support::{RunFolder, SHARED_MODES, Sandbox, assert_says, workspace};

const LENET: [&str; 5] = [
    "model.kind=lenet",
    "model.init=pytorch",
    "train.optimizer={kind=\"sgd\", rate=0.01}",
    "train.batch=32",
    "train.evaluate.every=100000",
];
const MOMENTUM: &str = "train.optimizer={kind=\"momentum\", rate=0.02}";

fn train(sandbox: &Sandbox, name: &str, mode: &str, settings: &[&str]) -> RunFolder {
    let settings = [&LENET[..], settings].concat();
    match mode {
        "single" => sandbox.train(name, &settings),
        _ => sandbox.train_cluster(name, mode, &settings),
    }
}

/// All parameters of a model, whatever the names of its tensors.
fn params(run: &RunFolder) -> Vec<f32> {
    let bytes = run.model();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let mut names = tensors.names();
    names.sort_unstable();
    let words = names.into_iter().flat_map(|name| tensors.tensor(name).unwrap().data().to_vec());
    words.collect::<Vec<_>>().as_chunks::<4>().0.iter().map(|w| f32::from_le_bytes(*w)).collect()
}

#[track_caller]
fn assert_near(left: &RunFolder, right: &RunFolder, tolerance: f32) {
    let (left, right) = (params(left), params(right));
    assert_eq!(left.len(), right.len());
    let distance = left.iter().zip(&right).map(|(l, r)| (l - r).abs()).fold(0.0, f32::max);
    assert!(distance <= tolerance, "{distance} apart");
}

#[test]
fn lenet_learns_in_every_mode() {
    for mode in ["single", "async", "sync", "bounded"] {
        let sandbox = Sandbox::new();
        let start = "model.init=glorot";
        let settings = ["train.stop={steps=400}", "data.train_examples=4000", MOMENTUM, start];
        let summary = train(&sandbox, "run", mode, &settings).summary();
        let accuracy = summary["test_accuracy"].as_f64().unwrap();
        assert!(accuracy > 0.8, "{mode}: {accuracy}");
    }
}

#[test]
fn sync_follows_single_and_a_global_batch_is_shared_out() {
    let sandbox = Sandbox::new();
    let settings = ["train.stop={steps=50}", MOMENTUM];
    let with = |more: &[&'static str]| [&settings[..], more].concat();
    let one = train(&sandbox, "one", "single", &with(&["train.batch=64"]));
    let two = train(&sandbox, "two", "sync", &with(&["cluster.workers=2"]));
    let lenet = ["model.kind=lenet", "model.init=pytorch"];
    let global = [&lenet[..], &["train.evaluate.every=100000", "train.global_batch=64"]].concat();
    let shared = sandbox.train_cluster("shared", "sync", &with(&global));
    assert_near(&one, &two, 1e-4);
    assert_eq!(two.model(), shared.model());
    assert_eq!(shared.summary()["batch"], 32);
    let says = "train.global_batch is 64, which does not divide evenly among 3 workers";
    let args = ["train", "--set", "train.global_batch=64", "--set", "cluster.workers=3"];
    assert_says(&sandbox.fails(2, &args), &[says]);
}

#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    let sandbox = Sandbox::new();
    let models = ["1", "2", "3"].map(|threads| {
        let threads = format!("train.threads={threads}");
        train(&sandbox, &threads, "single", &["train.stop={steps=30}", &threads]).model()
    });
    assert_eq!(models[0], models[1]);
    assert_eq!(models[0], models[2]);
}

#[test]
fn data_that_does_not_fit_the_model_is_refused() {
    let sandbox = Sandbox::new();
    let check = |model: &str, data: &str, says: &str| {
        let settings = [format!("model.kind={model}"), format!("data.kind={data}")];
        let mut args = vec!["train"];
        args.extend(settings.iter().flat_map(|setting| ["--set", setting]));
        assert_says(&sandbox.fails(2, &args), &[says]);
    };
    check("lenet", "fake-images", "which takes digits, mnist, fashion-mnist");
    check("alexnet", "digits", "which takes fake-images, images");
    check("softmax", "images", "which needs data.path");
    check("alexnet", "images", "which needs data.path");
    let small = ["--set", "model.kind=alexnet", "--set", "data.size=20"];
    let printed =
        sandbox.fails(2, &[&["train", "--set", "cluster.mode=single"][..], &small].concat());
    assert_says(&printed, &["model.kind = \"alexnet\"", "layer "]);
}

/// A folder of two classes, with copies of the pictures from the readers' tests.
fn folder(sandbox: &Sandbox) -> PathBuf {
    let golden = workspace().join("crates/arrays/tests/golden");
    let mut pictures: Vec<_> = fs::read_dir(golden).unwrap().map(|e| e.unwrap().path()).collect();
    pictures.retain(|path| path.extension().is_some_and(|end| end == "jpg" || end == "png"));
    pictures.sort();
    assert!(pictures.len() >= 2);
    for (index, picture) in pictures.iter().cycle().take(24).enumerate() {
        let class = ["tulips", "roses"][index % 2];
        let end = picture.extension().unwrap().to_str().unwrap();
        sandbox.write(&format!("flowers/{class}/{index:02}.{end}"), fs::read(picture).unwrap());
    }
    sandbox.path("flowers")
}

#[test]
fn pictures_are_read_from_folders_and_damaged_ones_are_named_or_skipped() {
    let sandbox = Sandbox::new();
    let folder = folder(&sandbox);
    let path = format!("data.path={}", folder.display());
    let settings = [
        "model.kind=softmax",
        "data.kind=images",
        &path,
        "data.size=12",
        "train.batch=4",
        "train.stop={epochs=2}",
        "data.hold_out=4",
    ];
    let run = sandbox.train("good", &settings);
    assert_eq!(run.summary()["examples"], 40);
    for mode in SHARED_MODES {
        sandbox.train_cluster(mode, mode, &settings);
    }

    let victim = folder.join("roses/07.jpg");
    let victim = if victim.exists() { victim } else { folder.join("roses/07.png") };
    let whole = fs::read(&victim).unwrap();
    fs::write(&victim, &whole[..whole.len() / 2]).unwrap();
    let mut args = vec!["train", "--run-dir", "bad", "--set", "cluster.mode=single"];
    args.extend(settings.iter().flat_map(|setting| ["--set", setting]));
    assert_says(&sandbox.fails(2, &args), &["roses/07."]);
    let run = sandbox.train("skipped", &[&settings[..], &["data.on_bad=skip"]].concat());
    assert_eq!(run.summary()["examples"], 40);
}
