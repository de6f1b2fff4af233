//! Dense examples in files that other programs write.
//!
//! - [`open_numpy`]: arrays in `.npy` and `.npz` files;
//! - [`open_records`]: `tf.train.Example` records with numbers, raw pixels or encoded pictures
//!   under any names;
//! - [`Pictures`]: JPEG and PNG files, read one by one.
//!
//! All give a training set and a test set of [`Examples`](paceline_data::Examples);
//! [`open_array_inputs`] and [`open_record_inputs`] give those that a trained model predicts from,
//! read in the same way. Files that are stored plain are mapped, so they may be larger than memory.
//!
//! ```
//! use paceline_arrays::{NumpySpec, open_numpy};
//! use paceline_data::Examples;
//! # let dir = std::env::temp_dir().join(format!("paceline-arrays-{}", std::process::id()));
//! # std::fs::create_dir_all(&dir)?;
//! # let npy = |descr: &str, shape: &str, body: &[u8]| {
//! #     let (order, end) = ("'fortran_order': False", "\n");
//! #     let text = format!("{{'descr': '{descr}', {order}, 'shape': {shape}, }}{end}");
//! #     let len = (text.len() as u16).to_le_bytes();
//! #     [b"\x93NUMPY\x01\x00", &len[..], text.as_bytes(), body].concat()
//! # };
//! # std::fs::write(dir.join("x.npy"), npy("|u1", "(4, 2)", &[0, 255, 51, 0, 1, 2, 3, 4]))?;
//! # std::fs::write(dir.join("y.npy"), npy("|u1", "(4,)", &[0, 1, 0, 1]))?;
//!
//! // A directory with x.npy and y.npy; np.savez would make one file of both.
//! let set = open_numpy(&NumpySpec { hold_out: Some(1), ..NumpySpec::at(&dir) })?;
//! assert_eq!((set.train.len(), set.test.len(), set.train.classes()), (3, 1, 2));
//! # std::fs::remove_dir_all(&dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Input is not trusted: sizes are checked before memory is taken for them, and every error names
//! the file and what to do.

// The examples of the README are compiled with the tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod array_source;
mod classes;
mod file_array;
mod npy;
mod numpy;
mod numpy_input;
pub mod pictures;
mod record_index;
mod record_input;
mod records;
mod split_rule;
mod tf_example;
mod zip;

pub use numpy::{ArrayExamples, NumpySpec, open_numpy, open_numpy_observed};
pub use numpy_input::{ArrayInputSpec, ArrayLabels, open_array_inputs};
pub use pictures::{PictureOptions, Pictures};
pub use record_input::{RecordInputSpec, open_record_inputs};
pub use records::{RecordExamples, RecordSpec, open_records};
