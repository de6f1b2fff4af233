//! Paceline trains models by stochastic gradient descent on one machine or many, shares the
//! parameters in whichever way the user picks, and says where the time went.
//!
//! This crate is the program: it turns a [job file](job) into a checked plan, runs the roles
//! of the plan and leaves a [run directory](paceline_record::RunDir). The ideas are in the crates below it:
//! `paceline-model` (the mathematics), `paceline-data` (examples and their order),
//! `paceline-exchange` and `paceline-net` (how tasks share parameters) and `paceline-observe`
//! (what a run leaves to look at).
//!
//! The loop that everything turns around is in [`worker`].

pub mod account;
mod alone;
pub mod bench;
pub mod build;
pub mod checkpoint;
pub mod chief;
pub mod cli;
pub mod cluster;
pub mod commands;
pub mod examples;
mod failure;
pub mod interrupt;
pub mod job;
pub mod link;
pub mod metrics;
pub mod progress;
pub mod rows;
pub mod source;
pub mod sweep;
pub mod table;
pub mod tester;
pub mod trace;
pub mod train;
pub mod watch;
pub mod worker;

pub use failure::Failure;
