//! Data: where examples come from.
//!
//! Everything a worker reads passes through this room: generated digits ([`digits()`]), IDX
//! files ([`idx`]), the known data sets ([`catalog`]), where they are kept ([`places`]), and
//! fetching those with checksums ([`fetch`]). Small grey images end in an [`ImageSet`]: bytes in
//! memory with labels. Colour pictures, which may be too many for that, are read from folders
//! ([`pictures`]) or made up ([`FakeImages`]) one by one, ahead of the step, by a [`Loader`];
//! both are a [`DenseSource`], and so are images in memory. Data of which most is zero is kept as
//! rows instead ([`sparse`]), and may be larger than memory too. What comes from a file or from
//! the network is bounded and checked before it is believed, and every error names the file and
//! what to do.
//!
//! This room must not know models, parameters or tasks: it hands out examples and does not
//! ask what for. The only socket is the one the download client opens.

mod batch;
pub mod catalog;
mod digits;
mod error;
mod fake_images;
pub mod fetch;
mod glyphs;
pub mod idx;
mod images;
mod kept;
mod loader;
mod lock;
mod maker;
mod npm;
mod on_bad;
mod patches;
pub mod pictures;
pub mod places;
mod plan;
pub mod random;
mod source;
pub mod sparse;
mod store;
mod unpack;

pub use batch::BatchBuffer;
pub use catalog::{Known, Spec, load, locate, status};
pub use digits::{TEST_EXAMPLES, TRAIN_EXAMPLES, digits};
pub use error::DataError;
pub use fake_images::{FakeImages, Part};
pub use images::{ImageSet, Images};
pub use kept::kept_digits;
pub use loader::{Loader, LoaderOptions, ReadWatch};
pub use maker::Skipped;
pub use on_bad::OnBad;
pub use patches::{Patches, SharedWords};
pub use pictures::{PictureOptions, PictureSet, Pictures};
pub use places::{Location, Place, Places, Status, cache_dir};
pub use plan::BatchPlan;
pub use random::Random;
pub use source::DenseSource;
pub use sparse::{
    IndexBase, SparseBuffer, SparseKind, SparseRow, SparseRows, SparseSet, SparseSpec, open_sparse,
};
