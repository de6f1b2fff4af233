//! Process tests: the program as its users run it, with real processes, files and readers.
//!
//! Every test starts the `paceline` binary in a directory of its own, and checks what it prints,
//! what it writes and how it ends. Other programs read the files that are meant for them:
//! TensorBoard's own package, Python's `safetensors`, Perfetto and Chromium, which
//! `cargo xtask setup` installs. No test sleeps to win a race: a test that needs a process in a
//! certain state waits for something visible, with a limit. Every run of the binary is also
//! checked for panics, which no input may cause.
//!
//! Each module tests one subject; [`support`] is the harness.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

mod attacked_files;
mod attacks;
mod chaos;
mod cluster;
mod copies;
mod credentialed_peers;
mod cut_short;
mod data;
mod default_models;
mod defaults;
mod deploy;
mod disk;
mod divergence;
mod docs;
mod elastic;
mod emulate;
mod equality;
mod experiments;
mod explain_tf_config;
mod factors;
mod failures;
mod file_kinds;
mod first_mistakes;
mod golden;
mod held_out;
mod hostile_peers;
mod interruptions;
mod ipv6;
mod jobs;
mod large_networks;
mod layers;
mod lost_tasks;
mod metrics;
mod mirrored;
mod mirrored_layers;
mod mirrored_losses;
mod model_file;
mod mpi;
mod networks;
mod no_shared_disk;
mod observe;
mod onnx;
mod perfetto;
mod placed;
mod predict;
mod predict_arrays;
mod predict_files;
mod predict_tables;
mod refusals;
mod report_page;
mod restarts;
mod resume;
mod row_cache;
mod rows;
mod secret_files;
mod servers;
mod signals;
mod slurm;
mod stopped_workers;
mod stopping;
mod support;
mod sweep;
mod tables;
mod tensorboard;
mod terminal;
mod tf_config;
mod tls;
mod trace;
mod train;
mod training;
mod unused_keys;
mod verdicts;
mod watch;
mod watch_page;
mod wire;
