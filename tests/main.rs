//! The program as its users meet it: real processes, real files, real readers.
//!
//! Everything here starts the `paceline` binary in a directory of its own and looks at what
//! it says, what it leaves behind and how it ends. What it leaves for other programs is read
//! by those programs: TensorBoard's own package and Python's `safetensors`, which
//! `cargo xtask setup` installs. No test sleeps to win a race: where a process must be caught in the middle, the test waits for something it
//! can see, and not for ever. Each run of the binary, in every test, is also checked for
//! panics, which no input may cause.
//!
//! One module for each thing that must hold; [`support`] is what they share.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod browser;
mod by_hand;
mod chaos;
mod chromium;
mod cluster;
mod data;
mod disk;
mod docs;
mod elastic;
mod emulate;
mod experiments;
mod failures;
mod faults;
mod golden;
mod jobs;
mod mirror;
mod mirrored;
mod mirrored_losses;
mod model_file;
mod networks;
mod observe;
mod perfetto;
mod restarts;
mod resume;
mod rows;
mod servers;
mod stopping;
mod support;
mod sweep;
mod tensorboard;
mod tf_config;
mod trace;
mod train;
mod watch;
