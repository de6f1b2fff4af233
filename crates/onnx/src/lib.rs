//! Exports trained models to ONNX.
//!
//! ```
//! use paceline_record::model_file::ModelWriter;
//! use paceline_record::{InputDescription, InputKind, ModelDescription, ModelForm};
//! use paceline_score::TrainedModel;
//!
//! # let scratch = tempfile::tempdir()?;
//! # let path = scratch.path().join("model.safetensors");
//! // A model of one feature, as `paceline train` writes it.
//! let kind = InputKind::Libsvm { features: 1, first_index: 1 };
//! let description = ModelDescription {
//!     input: InputDescription::new(kind, vec!["no".into(), "yes".into()]),
//!     form: ModelForm::Logistic { features: 1 },
//! };
//! let mut layout = paceline_model::Layout::new();
//! layout.push("weight", &[1], paceline_model::Group::Weights);
//! layout.push("bias", &[1], paceline_model::Group::Biases);
//! let mut file = ModelWriter::create(&path, &layout, 1, Some(&description))?;
//! file.write(&[2.0, 0.5])?;
//! file.finish()?;
//!
//! let exported = paceline_onnx::export(&TrainedModel::load(&path)?)?;
//! assert!(exported.bytes.windows(7).any(|name| name == b"Sigmoid"));
//! assert!(exported.notes[0].contains("keys"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The graph has one or two inputs, whose first dimension is the batch, and three outputs:
//! `probabilities` (a column for each class), `class` (the index of the most likely one) and
//! `scores`. What of the featuriser ONNX can express is in the graph: the scaling of pixels, the
//! normalisation of pictures. The notes say what is left to the caller. The names of the classes
//! and the whole description are in the metadata of the file.
//!
//! `schema.rs` writes the messages of ONNX, with the wire format of `paceline-tfrecord`; `graph.rs`
//! collects nodes and tensors; `layers.rs` translates layers, and `export.rs` whole models.

// The examples of the README are compiled with the tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod columns;
mod export;
mod factors;
mod graph;
mod layers;
mod schema;

pub use export::{Exported, OnnxError, export};
