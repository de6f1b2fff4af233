//! Data: where examples come from.
//!
//! Everything a worker reads passes through this room: generated digits ([`Digits`]), IDX
//! files ([`idx`]), the known data sets ([`catalog`]), where they are kept ([`DatasetDirs`]), and
//! fetching those with checksums ([`fetch`]). Small grey images end in an [`Images`]: bytes in
//! memory with labels. Colour pictures, which may be too many for that, are read from folders
//! ([`pictures`]) or made up ([`FakeImages`]) one by one, ahead of the step, by a [`Loader`];
//! both are a [`Examples`], and so are images in memory. Data of which most is zero is kept as
//! rows instead ([`sparse`]), and may be larger than memory too. What comes from a file or from
//! the network is bounded and checked before it is believed, and every error names the file and
//! what to do.
//!
//! This room must not know models, parameters or tasks: it hands out examples and does not
//! ask what for. The only socket is the one the download client opens.

mod batch;
mod batch_builder;
pub mod catalog;
mod dataset_dirs;
mod dataset_spec;
mod digits;
mod digits_cache;
mod error;
mod examples;
mod fake_images;
pub mod fetch;
mod fetch_progress;
mod glyphs;
pub mod idx;
mod idx_fault;
mod images;
mod in_memory;
mod loader;
mod lock;
mod npm;
mod on_bad;
mod patches;
pub mod pictures;
mod plan;
pub mod random;
pub mod sparse;
mod store;
mod train_test;
mod unpack;

pub use batch::BatchBuffer;
pub use batch_builder::{SkippedExamples, SlotBatches};
pub use catalog::{DatasetSpec, KnownDataset};
pub use dataset_dirs::{DatasetDirs, DatasetFiles, DirKind, DirStatus, cache_dir};
pub use digits::Digits;
pub use digits_cache::cached_digits;
pub use error::DataError;
pub use examples::Examples;
pub use fake_images::{FakeImages, Split};
pub use images::Images;
pub use in_memory::InMemoryExamples;
pub use loader::{Loader, LoaderOptions, ReadObserver};
pub use on_bad::OnBad;
pub use patches::{Patches, SharedWords};
pub use pictures::{PictureOptions, Pictures};
pub use plan::BatchPlan;
pub use random::Random;
pub use sparse::{
    IndexBase, SparseBuffer, SparseKind, SparseRow, SparseRows, SparseSpec, open_sparse,
};
pub use train_test::TrainTest;
