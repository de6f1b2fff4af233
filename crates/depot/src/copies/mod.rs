//! Copies of a run's checkpoints and results in another place (`checkpoint.to`): a directory, such
//! as one on a network disk, or a bucket of an object store that speaks the protocol of S3.
//!
//! A [`Copier`] copies every checkpoint that is complete, the manifest last, and removes old
//! copies. [`StoredRun::restore`] brings the newest one back to a machine whose disk has none.
//!
//! - `store.rs`: what a place can do;
//! - `open_store.rs`, `folder.rs`, `s3.rs`, `s3_request.rs`: the kinds of places;
//! - `stored_run.rs`: the copies in a place;
//! - `copier.rs`: the thread that copies.

mod copier;
mod folder;
mod open_store;
#[cfg(feature = "s3")]
mod s3;
#[cfg(feature = "s3")]
mod s3_request;
mod store;
mod stored_run;
#[cfg(test)]
mod tests;

pub use copier::Copier;
pub use open_store::open_store;
pub use store::FileStore;
pub use stored_run::StoredRun;
