//! Job files: which are valid, and what is said about the others.

mod jobs;
mod sweeps;
