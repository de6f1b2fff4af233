//! `model.safetensors`: Python and `paceline evaluate` read it, and a damaged file is refused.

use std::fs;

use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use serde_json::{Value, json};

use crate::support::{SMALL_DATA, Sandbox, assert_says, python_json};

#[test]
fn python_reads_the_same_names_shapes_and_values() {
    let sandbox = Sandbox::new();
    let run = sandbox.train("run", &[]);
    let bytes = run.model();
    let ours = SafeTensors::deserialize(&bytes).unwrap();
    let theirs = python_json("python/read_model.py", &[run.file("model.safetensors").as_os_str()]);
    assert_eq!(theirs.as_object().unwrap().len(), 2);
    for (name, shape) in [("weight", json!([10, 784])), ("bias", json!([10]))] {
        assert_eq!((&theirs[name]["dtype"], &theirs[name]["shape"]), (&json!("float32"), &shape));
        let values = theirs[name]["values"].as_array().unwrap();
        let values = values.iter().map(|value| value.as_f64().unwrap() as f32);
        let ours = ours.tensor(name).unwrap();
        let (words, _) = ours.data().as_chunks::<4>();
        assert!(values.eq(words.iter().map(|word| f32::from_le_bytes(*word))), "{name}");
    }
    let trained = theirs["weight"]["values"].as_array().unwrap().iter().any(|v| *v != json!(0.0));
    assert!(trained, "weights start at zero and must have moved");
}

#[test]
fn evaluate_gives_exactly_the_figures_of_the_summary() {
    let sandbox = Sandbox::new();
    let run =
        sandbox.train("run", &["data.test_examples=350", "train.evaluate.examples=270", "seed=5"]);
    let (model, job) = (run.file("model.safetensors"), run.file("job.toml"));
    // A copy of the model without a job file beside it.
    fs::create_dir(sandbox.path("elsewhere")).unwrap();
    fs::copy(&model, sandbox.path("elsewhere/m.safetensors")).unwrap();
    let job = job.to_str().unwrap();
    let mut arguments = vec![vec![run.str()], vec![model.to_str().unwrap()]];
    arguments.push(vec!["elsewhere/m.safetensors", job]);
    for arguments in arguments {
        let printed = sandbox.ok(&[&["evaluate", "--json"], &arguments[..]].concat()).stdout;
        let figures: Value = serde_json::from_str(&printed).unwrap();
        for figure in ["test_loss", "test_accuracy"] {
            assert_eq!(figures[figure], run.summary()[figure], "{arguments:?}");
        }
        assert_eq!(figures["examples"], 270, "{arguments:?}");
    }
    let text = sandbox.ok(&["evaluate", "run"]).stdout;
    let accuracy = 100.0 * run.summary()["test_accuracy"].as_f64().unwrap();
    assert_says(&text, &[&format!("accuracy {accuracy:.2} %"), "270 examples"]);
}

/// Checks that evaluating a file with this content fails with exit code 2 and these messages.
#[track_caller]
fn check(content: &[u8], says: &[&str]) {
    let sandbox = Sandbox::new();
    sandbox.write("model.safetensors", content);
    let [train, test] = SMALL_DATA;
    let args = ["evaluate", "model.safetensors", "--set", train, "--set", test];
    let printed = sandbox.fails(2, &args);
    assert_says(&printed, &["model.safetensors: "]);
    assert_says(&printed, says);
}

/// A model file with these tensors, all zero.
fn file(tensors: &[(&str, &[usize], Dtype)]) -> Vec<u8> {
    let zeros = vec![0; 8 * 7_850];
    let views = tensors.iter().map(|(name, shape, dtype)| {
        let bytes = shape.iter().product::<usize>() * dtype.bitsize() / 8;
        (*name, TensorView::new(*dtype, shape.to_vec(), &zeros[..bytes]).unwrap())
    });
    serialize(views, None).unwrap()
}

#[test]
fn a_model_that_does_not_fit_the_job_is_refused_with_the_tensor_named() {
    let bias = ("bias", &[10][..], Dtype::F32);
    let weight = ("weight", &[10, 784][..], Dtype::F32);
    check(
        &file(&[("weight", &[10, 30], Dtype::F32), bias]),
        &["\"weight\"", "[10, 30]", "[10, 784]"],
    );
    check(&file(&[("weight", &[784, 10], Dtype::F32), bias]), &["\"weight\"", "[784, 10]"]);
    check(&file(&[weight, ("bias", &[10], Dtype::F64)]), &["\"bias\"", "F64", "F32"]);
    check(&file(&[bias]), &["no tensor \"weight\"", "it has: bias"]);
    check(&file(&[weight, bias, ("extra", &[1], Dtype::F32)]), &["3 tensors", "2"]);
}

#[test]
fn a_damaged_model_file_is_refused_with_its_name() {
    let good = file(&[("weight", &[10, 784], Dtype::F32), ("bias", &[10], Dtype::F32)]);
    let unsound = &["not a sound safetensors file"];
    check(&[], &["not a sound safetensors file: it is empty"]);
    check(&good[..7], &["not a sound safetensors file: it ends within its header"]);
    check(&good[..good.len() - 1], unsound);
    check(&[&good[..], &[0]].concat(), unsound);
    check(&[0xff; 100], unsound);
    check(b"\x80\x04\x95 this is a pickle, which could be anything", unsound);
}

#[test]
fn a_path_that_is_no_model_is_named() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("empty")).unwrap();
    assert_says(&sandbox.fails(2, &["evaluate", "nowhere"]), &["nowhere: "]);
    let empty = sandbox.fails(2, &["evaluate", "empty"]);
    assert_says(&empty, &["empty: this is not the directory of a run: it has neither job.toml"]);
    fs::create_dir_all(sandbox.path("odd/model.safetensors")).unwrap();
    assert_says(&sandbox.fails(2, &["evaluate", "odd"]), &["odd/model.safetensors: ", "directory"]);
}

#[test]
fn a_run_is_suggested_for_a_directory_of_runs_and_data_is_no_model() {
    let sandbox = Sandbox::new();
    sandbox.train("runs/first", &[]);
    let runs = sandbox.fails(2, &["evaluate", "runs"]);
    assert_says(&runs, &["runs: this is not the directory of a run; ", "such as runs/first"]);
    sandbox.write("people.csv", "age,bought\n31,no\n27,yes\n");
    let data = sandbox.fails(2, &["predict", "people.csv", "people.csv"]);
    assert_says(&data, &["people.csv: this is not a model: it looks like a table", "run first"]);
}
