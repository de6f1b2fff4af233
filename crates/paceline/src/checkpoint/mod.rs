//! Checkpoints: what a run must have kept to go on as if nothing had happened.
//!
//! A checkpoint is a directory, `checkpoints/step-<step>/` in the run directory: a safetensors file
//! for each server (or for the one worker of `single`) with its shard of the parameters and the
//! optimizer's slots ([`shard`]), and a manifest ([`manifest`]) that tells sizes, checksums and how
//! far everybody had come. The manifest appears last, by rename: without it there is no
//! checkpoint. Parameters are copied between two updates and written by a thread of its own
//! ([`keeper`]). [`generation`] counts how often a run with
//! servers has gone back to one. [`shelf`] finds the newest that is sound, and [`resumption`] makes of it the
//! beginning of a run, whatever its mode and its number of tasks.

pub mod generation;
pub mod keeper;
pub mod manifest;
pub mod resumption;
pub mod shard;
pub mod shelf;
#[cfg(test)]
mod tests;

pub use keeper::{Keeper, Terms, copy_store};
pub use manifest::{About, Manifest, Origin};
pub use resumption::{Resumption, Shape};
pub use shelf::{Checkpoint, Shelf};
