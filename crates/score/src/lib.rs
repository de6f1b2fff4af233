//! Predictions of trained models: scores rows and pictures on all cores, writes answers as CSV,
//! JSON lines or Parquet, and evaluates models on labelled data.
//!
//! ```
//! use paceline_record::model_file::ModelWriter;
//! use paceline_record::{InputDescription, InputKind, ModelDescription, ModelForm};
//! use paceline_score::{PredictOptions, TextSource, TrainedModel, predict};
//!
//! # let scratch = tempfile::tempdir()?;
//! # let dir = scratch.path();
//! // A model of two features, as `paceline train` writes it.
//! let path = dir.join("model.safetensors");
//! let kind = InputKind::Libsvm { features: 2, first_index: 1 };
//! let description = ModelDescription {
//!     input: InputDescription::new(kind, vec!["no".into(), "yes".into()]),
//!     form: ModelForm::Logistic { features: 2 },
//! };
//! let mut layout = paceline_model::Layout::new();
//! layout.push("weight", &[2], paceline_model::Group::Weights);
//! layout.push("bias", &[1], paceline_model::Group::Biases);
//! let mut file = ModelWriter::create(&path, &layout, 100, Some(&description))?;
//! file.write(&[2.0, -1.0, 0.0])?;
//! file.finish()?;
//!
//! // Rows without labels, and an answer for each.
//! let rows = dir.join("rows.svm");
//! std::fs::write(&rows, "1:1 2:2\n1:100\n")?;
//! let model = TrainedModel::load(&path)?;
//! let input = paceline_score::ScoreInput::Text(vec![TextSource::File(rows)]);
//! let mut out = Vec::new();
//! let counts = predict(&model, &input, &PredictOptions::default(), &mut out, &|_| false)?;
//! assert_eq!((counts.rows, counts.bad), (2, 0));
//! assert_eq!(out, b"line,p_yes\n1,0.5\n2,1.0\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - A [`TrainedModel`] is what a model file holds. Its [`Scorer`] computes scores for one thread,
//!   bit for bit those that a test while training judges.
//! - A [`ScoreInput`] is text, or examples that are found by their index; [`open_input`] finds out
//!   what files are, and whether they fit the model.
//! - [`predict`] writes an answer for each row, in the order of the input; [`evaluate`] compares
//!   the answers with labels.
//!
//! Memory has a bound whatever the size of the input, except for IDX files, which are read as a
//! whole. The crate does not train, and knows neither job files nor run directories.

// The examples of the README are compiled with the tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod answer;
#[cfg(feature = "parquet")]
mod answer_columns;
mod answer_rows;
mod calibration;
mod error;
mod evaluation;
mod evaluation_table;
mod example_scorer;
mod file_ending;
mod header_format;
mod open_input;
mod output_file;
mod output_rows;
#[cfg(feature = "parquet")]
mod parquet_output;
mod pipeline;
mod predict;
mod scored_rows;
mod scorer;
mod scoring;
mod table_featurizer;
mod text_chunks;
mod text_rows;
mod text_scorer;
mod text_stream;
mod trained_model;

pub use answer::{AnswerStyle, AnswerValue, Answerer, best_class, probabilities};
pub use calibration::CalibrationBin;
pub use error::ScoreError;
pub use evaluation::{
    ClassFigures, EvaluateOptions, Evaluation, EvaluationBuilder, TwoClassFigures, evaluate,
};
pub use evaluation_table::evaluation_tables;
pub use example_scorer::{ExampleInput, ExampleLabels, ExampleSource};
pub use file_ending::check_onnx_name;
pub use open_input::{InputFiles, open_input};
pub use output_file::OutputFile;
pub use output_rows::{IdValue, OutputFormat, OutputRows};
pub use predict::{BadRows, PredictCounts, PredictObserver, PredictOptions, predict};
pub use scorer::Scorer;
pub use scoring::ScoreInput;
pub use text_chunks::TextSource;
pub use trained_model::TrainedModel;
