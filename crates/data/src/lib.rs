//! Data: where examples come from.
//!
//! Everything a worker reads passes through this room: generated digits ([`digits()`]), IDX
//! files ([`idx`]), the known data sets ([`catalog`]), where they are kept ([`places`]), and
//! fetching those with checksums ([`fetch`]). All of it ends in an [`ImageSet`]: bytes in
//! memory with labels. Data of which most is zero is kept as rows instead ([`sparse`]), and
//! may be larger than memory. What comes from a file or from the network is bounded and checked
//! before it is believed, and every error names the file and what to do.
//!
//! This room must not know models, parameters or tasks: it hands out examples and does not
//! ask what for. The only socket is the one the download client opens.

mod batch;
pub mod catalog;
mod digits;
mod error;
pub mod fetch;
mod glyphs;
pub mod idx;
mod images;
mod lock;
mod npm;
pub mod places;
mod plan;
pub mod random;
pub mod sparse;
mod store;
mod unpack;

pub use batch::BatchBuffer;
pub use catalog::{Known, Spec, load, locate, status};
pub use digits::{TEST_EXAMPLES, TRAIN_EXAMPLES, digits};
pub use error::DataError;
pub use images::{ImageSet, Images};
pub use places::{Location, Place, Places, Status, cache_dir};
pub use plan::BatchPlan;
pub use random::Random;
pub use sparse::{
    IndexBase, OnBad, SparseBuffer, SparseKind, SparseRow, SparseRows, SparseSet, SparseSpec,
    open_sparse,
};
