//! Models over sparse rows with several numbers for each feature.
//!
//! [`FmShape`] and [`FfmShape`] have the arithmetic of one row. [`FactorMachine`],
//! [`FieldMachine`], [`DeepMachine`] and [`SparseSoftmax`] are models, and [`FactorForm`] builds
//! the models that a job can name.
//!
//! ```
//! use paceline_factor::FactorMachine;
//! use paceline_model::{AdaGrad, Batch, Model, OutputMode, ParamTable, Rows};
//!
//! // A million features and a bias, with a weight and a vector of 8 numbers each.
//! let mut model = FactorMachine::new(1_000_000, 8);
//! let table = ParamTable::new(AdaGrad::new(0.1), &model, 0..1_000_001, 1);
//!
//! // A step on one row of class 1 with the features 3 and 999,999.
//! let keys = [3, 999_999, 1_000_000];
//! let rows = Rows { starts: &[0, 2], places: &[0, 1], values: &[] };
//! let (mut numbers, mut grad) = (vec![0.0; 27], vec![0.0; 27]);
//! table.read(&keys, &mut numbers);
//! model.gradient(&numbers, Batch::sparse(rows, &[1]), 1.0, OutputMode::Overwrite, &mut grad);
//! table.update(0, &keys, &grad);
//! assert_eq!(table.entries(), Some(3));
//! ```

// The examples of the README are compiled with the tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod deep_machine;
mod factor_form;
mod factor_machine;
mod factorization;
mod sparse_softmax;
mod split_row;

pub use deep_machine::{DeepMachine, DeepShape};
pub use factor_form::FactorForm;
pub use factor_machine::{EntryScore, FactorMachine, Factorization, FieldMachine};
pub use factorization::{FfmShape, FmShape, RowEntries};
pub use sparse_softmax::SparseSoftmax;
