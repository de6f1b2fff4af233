//! Models over sparse rows with several numbers for each feature.
//!
//! [`FmShape`] and [`FfmShape`] have the arithmetic of one row. [`FactorMachine`],
//! [`FieldMachine`], [`DeepMachine`] and [`SparseSoftmax`] are models, and [`FactorForm`] builds
//! the models that a job can name.

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
