//! The tests of the protocol.

mod beliefs;
mod breaches;
mod checkpoints;
mod cut_short;
mod frames;
mod harness;
mod replicas;
mod roster;
mod simulation;
mod waits;
