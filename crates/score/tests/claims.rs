//! A model file whose description claims what the file does not have is refused, and costs neither
//! memory nor a panic.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

use paceline_model::{Model, Softmax};
use paceline_record::model_file::ModelWriter;
use paceline_record::{InputDescription, InputKind, ModelDescription, ModelForm};
use paceline_score::TrainedModel;

/// Saves a model of 4 inputs and 3 classes with another description, and loads it.
fn load(form: ModelForm, kind: InputKind) -> Result<TrainedModel, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.safetensors");
    let names = ["a", "b", "c"].map(String::from).to_vec();
    let description = ModelDescription { input: InputDescription::new(kind, names), form };
    let model = Softmax::new(4, 3);
    let layout = model.layout();
    let mut file = ModelWriter::create(&path, layout, 1, Some(&description)).unwrap();
    file.write(&vec![0.5; layout.len()]).unwrap();
    file.finish().unwrap();
    TrainedModel::load(&path).map_err(|error| error.to_string())
}

#[test]
fn sizes_that_the_file_does_not_have_are_refused() {
    let own = || ModelForm::Softmax { inputs: 4, classes: 3 };
    let array = |shape| InputKind::Array { shape };
    assert!(load(own(), array([1, 1, 4])).is_ok());
    let large = ModelForm::Softmax { inputs: 1 << 31, classes: 1 << 20 };
    let error = load(large, array([1, 1, 4])).unwrap_err();
    assert!(error.contains("tensor \"weight\""), "{error}");
    let error = load(own(), array([usize::MAX, 2, 4])).unwrap_err();
    assert!(error.contains("but it takes 4 values"), "{error}");
    let input = [(1 << 32) - 1; 3];
    let network = ModelForm::Network { name: "large".into(), input, layers: Vec::new() };
    let error = load(network, array(input)).unwrap_err();
    assert!(error.contains("impossible size"), "{error}");
}
