//! A model file whose description claims what the file does not have is refused, and costs neither
//! memory nor a panic.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

use std::fs;

use paceline_model::{Model, Softmax};
use paceline_record::model_file::ModelWriter;
use paceline_record::{InputDescription, InputKind, ModelDescription, ModelForm};
use paceline_score::{BadRows, PredictOptions, ScoreInput, TextSource, TrainedModel, predict};
use paceline_table::{CategoryCodes, Column, ColumnRole, Featurizer, NumberScale, TextFormat};

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

/// A model of a city with one word and of a raw number, with this many fields and numbers.
fn deep(table: &Featurizer, fields: usize, numbers: usize) -> Result<TrainedModel, String> {
    let features = table.features();
    let form = ModelForm::Deep { features, fields, numbers, rank: 1, hidden: vec![2], pairs: true };
    let model = form.factors().unwrap().build(1.0);
    let kind = InputKind::Table { table: table.to_json().parse().unwrap() };
    let names = ["0", "1"].map(String::from).to_vec();
    let description = ModelDescription { input: InputDescription::new(kind, names), form };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.safetensors");
    let layout = model.layout();
    let mut file = ModelWriter::create(&path, layout, 1, Some(&description)).unwrap();
    file.write(&vec![0.5; layout.len()]).unwrap();
    file.finish().unwrap();
    TrainedModel::load(&path).map_err(|error| error.to_string())
}

#[test]
fn fields_that_a_model_of_a_table_lacks_are_refused_or_bad_rows() {
    let words = CategoryCodes::Vocabulary { words: vec!["Bonn".into()] };
    let column = |name: &str, role| Column { name: name.into(), role };
    let columns = || {
        let age = column("age", ColumnRole::Number(NumberScale::Raw));
        vec![age, column("city", ColumnRole::Category(words.clone()))]
    };
    let plain = Featurizer::new(TextFormat::default(), columns(), vec![]).unwrap();
    let numbered = plain.clone().with_number_fields();
    for (table, fields, numbers, given) in [
        (&numbered, 3, 0, "3 fields, 1"),
        (&plain, 1, 1, "2 fields, 0"),
        (&numbered, 1, 1, "3 fields, 1"),
    ] {
        let error = deep(table, fields, numbers).unwrap_err();
        let takes = format!("takes {}, {numbers} of them numbers", fields + numbers);
        assert!(error.contains(given) && error.contains(&takes), "{error}");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows.csv");
    fs::write(&path, "age,city\n3,Bonn\n,Bonn\n").unwrap();
    let input = ScoreInput::Text(vec![TextSource::File(path)]);
    let options = PredictOptions { bad_rows: BadRows::Mark, ..PredictOptions::default() };
    for (model, bad) in
        [(deep(&numbered, 2, 1), 0), (deep(&plain, 2, 0), 0), (deep(&plain, 1, 0), 2)]
    {
        let mut out = Vec::new();
        let counts = predict(&model.unwrap(), &input, &options, &mut out, &|_| false).unwrap();
        assert_eq!((counts.rows, counts.bad), (2 - bad, bad), "{counts:?}");
        let first = counts.first_bad.unwrap_or_default();
        assert!(bad == 0 || first.contains("field 1, but the model has 1"), "{first}");
    }
}
