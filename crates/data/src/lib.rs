//! Where training examples come from, and in which order they are used.
//!
//! ```
//! use paceline_data::{BatchBuffer, BatchPlan, Digits, Examples, InMemoryExamples};
//!
//! // Generated digits: a training set, a test set, and where they came from.
//! let digits = Digits::generate(600, 1);
//! assert_eq!(digits.origin, "generated from seed 1");
//!
//! // The examples of the first step: 20 for each of 2 workers, shuffled.
//! let mut plan = BatchPlan::new(digits.train.len(), 20, 2).shuffled(7);
//! let (mut examples, mut batch) = (Vec::new(), BatchBuffer::default());
//! plan.batch(0, 1, &mut examples);
//! batch.fill(&digits.train, examples.iter().map(|&example| example as usize));
//! assert_eq!((batch.inputs.len(), batch.labels.len()), (20 * 784, 20));
//!
//! // Data that a program already has, from any iterator.
//! let points = (0..100).map(|i| ([i as f32, 1.0], u32::from(i > 50)));
//! let data = InMemoryExamples::from_rows(points)?.hold_out(20, 1)?;
//! assert_eq!((data.train.len(), data.train.classes()), (80, 2));
//! # Ok::<(), paceline_data::DataError>(())
//! ```
//!
//! *Dense* examples are rows of numbers of one size, each with a class. They implement
//! [`Examples`], which is also how a program adds a source of its own. The crate has:
//!
//! - [`Images`]: small grey images in memory, generated ([`Digits`]), read from IDX files
//!   ([`idx`]), such as MNIST, which the crate `paceline-fetch` downloads and checks;
//! - [`InMemoryExamples`]: rows of any iterator;
//! - [`FakeImages`]: generated colour pictures of any size and number.
//!
//! *Sparse* rows store only the features that are not zero, and may be larger than memory: see
//! [`sparse`].
//!
//! A [`TrainTest`] pairs a training set with its test set. A [`BatchPlan`] says which examples each
//! *slot* (the place of a worker in a run) takes at each step, as a function of the seed, the step
//! and the slot. A [`Loader`] builds the batches of the next steps on other threads.
//!
//! Input from files and from the network is limited and checked before use, and every error names
//! the file and what to do. Equal seeds give equal bits on every machine. The crate does not know
//! models, parameters or tasks, and opens no socket.

// The examples of the README are compiled with the tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod batch;
mod batch_builder;
mod batch_weights;
mod cache_dir;
mod digits;
mod digits_cache;
mod error;
mod examples;
mod fake_images;
mod file_kind;
mod hold_out;
pub mod idx;
mod idx_fault;
mod image_bytes;
mod images;
mod in_memory;
mod loader;
mod lock;
mod on_bad;
mod open_observer;
mod patches;
mod plan;
mod selected;
mod shared_patches;
pub mod sniff;
pub mod sparse;
mod train_test;
pub mod unpack;

pub use batch::BatchBuffer;
pub use batch_builder::{SkippedExamples, SlotBatches};
pub use batch_weights::BatchWeights;
pub use cache_dir::{UNFINISHED_PREFIX, cache_dir, unfinished};
pub use digits::Digits;
pub use digits_cache::cached_digits;
pub use error::DataError;
pub use examples::{ElementForm, Examples};
pub use fake_images::{FakeImages, Split};
pub use hold_out::{ChosenExamples, HoldOut};
pub use images::Images;
pub use in_memory::InMemoryExamples;
pub use loader::{Loader, LoaderOptions, ReadObserver};
pub use lock::CacheLock;
pub use on_bad::OnBad;
pub use open_observer::{OpenMeter, OpenObserver, OpenProgress, OpenReport, ignore_reports};
pub use paceline_filemap::make_private_dir;
pub use paceline_generate::random::{self, Random};
pub use patches::{Patches, SharedWords};
pub use plan::{BatchPlan, PlannedExample};
pub use selected::SelectedExamples;
pub use sparse::{
    IndexBase, SparseBuffer, SparseKind, SparseRow, SparseRows, SparseSpec, open_sparse,
};
pub use train_test::TrainTest;
