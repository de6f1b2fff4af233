//! A run of the program follows the same steps in numpy (`tests/golden/softmax.py`).

use paceline_data::idx::{write_images, write_labels};
use serde_json::Value;

use crate::support::{IDX_FILES, Sandbox, points, python_json, workspace};

const TOLERANCE: f64 = 1e-5;

fn golden() -> Value {
    let text = std::fs::read(workspace().join("tests/golden/softmax.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

#[track_caller]
fn assert_close(what: &str, ours: &[f64], golden: &[f64], tolerance: f64) {
    assert_eq!(ours.len(), golden.len(), "{what}");
    for (i, (ours, golden)) in ours.iter().zip(golden).enumerate() {
        assert!((ours - golden).abs() <= tolerance, "{what} {i}: {ours}, not {golden}");
    }
}

/// The data of `softmax.py`, made by the same formula.
fn make(count: usize, split: usize) -> (Vec<u8>, Vec<u8>) {
    let label = |i: usize| (7 * i + 3 * split + i / 5) % 10;
    let pixel = |i: usize, p: usize| {
        let shade = (37 * i + 11 * p + 17 * (i * p % 13) + 101 * split) % 128;
        (shade + if p % 10 == label(i) { 40 } else { 0 }) as u8
    };
    let pixels = (0..count).flat_map(|i| (0..30).map(move |p| pixel(i, p))).collect();
    (pixels, (0..count).map(|i| label(i) as u8).collect())
}

#[test]
fn a_run_agrees_with_numpy_step_by_step() {
    let sandbox = Sandbox::new();
    let set = sandbox.idx_set("set", 1, 1);
    for (count, split, files) in [(53, 0, &IDX_FILES[..2]), (17, 1, &IDX_FILES[2..])] {
        let (pixels, labels) = make(count, split);
        write_images(&set.join(files[0]), 6, 5, &pixels).unwrap();
        write_labels(&set.join(files[1]), &labels).unwrap();
    }
    let job = "[data]\nkind = \"mnist\"\npath = \"set\"\nshuffle = false\n\
               [train]\nbatch = 7\nstop = { steps = 120 }\noptimizer = { rate = 0.5 }\n\
               [cluster]\nmode = \"single\"\n";
    sandbox.write("golden.toml", job);
    sandbox.ok(&["train", "golden.toml", "--run-dir", "run"]);

    let (run, golden) = (sandbox.run_folder("run"), golden());
    let losses: Vec<_> = points(&run.worker_events(), "train/loss");
    let losses: Vec<_> = losses.iter().map(|(_, loss)| f64::from(*loss)).collect();
    assert_close("train loss", &losses, &numbers(&golden["train_losses"]), TOLERANCE);
    let model = run.file("model.safetensors");
    let model = python_json("python/read_model.py", &[model.as_os_str()]);
    for tensor in ["weight", "bias"] {
        let ours = numbers(&model[tensor]["values"]);
        assert_close(tensor, &ours, &numbers(&golden[tensor]), TOLERANCE);
    }
    let summary = run.summary();
    for figure in ["test_loss", "test_accuracy"] {
        let [ours, golden] = [&summary, &golden].map(|values| values[figure].as_f64().unwrap());
        assert_close(figure, &[ours], &[golden], TOLERANCE);
    }
}

#[test]
fn the_golden_values_are_what_numpy_computes() {
    let (now, then) = (python_json("golden/softmax.py", &[]), golden());
    for values in ["train_losses", "weight", "bias"] {
        assert_close(values, &numbers(&now[values]), &numbers(&then[values]), 1e-12);
    }
    assert_eq!(now["test_accuracy"], then["test_accuracy"]);
}
