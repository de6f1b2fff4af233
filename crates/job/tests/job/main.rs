//! Job files: which are valid, and what is said about the others.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

mod columns;
mod jobs;
mod layers;
mod meant;
mod sweeps;
mod training;
mod unused;
