//! Random and mutated input for everything that reads bytes from elsewhere.
//!
//! A [`FuzzTarget`] is a function that takes any bytes and returns: it must neither panic, nor
//! hang, nor take much memory. Its seeds are valid inputs. [`drive`] mutates them, the same for
//! equal seeds of the generator, so that a failure is repeated by its number. The folder `fuzz` of
//! the repository has the same targets for libFuzzer, which finds its way by coverage.
//!
//! ```
//! use paceline_fuzz::{DriveLimit, TARGETS, drive};
//!
//! let target = TARGETS.iter().find(|target| target.name == "header").unwrap();
//! let done = drive(target, DriveLimit::Inputs(1_000), 1);
//! assert_eq!(done.inputs, 1_000);
//! ```

mod cache_target;
mod checkpoint_target;
mod depot_target;
mod drive;
mod file_targets;
mod foreign_threads;
mod frame_stream;
mod meeting_target;
mod mesh_target;
mod mutate;
mod peer_pool;
mod record_target;
mod run_target;
mod scratch;
mod server_target;
mod table_target;
mod target;
mod text_targets;
mod trust_target;

pub use drive::{DriveLimit, DriveResult, drive, drive_from};
pub use target::FuzzTarget;

/// All targets.
pub const TARGETS: &[FuzzTarget] = &[
    target("header", server_target::header, server_target::header_seeds),
    target("messages", server_target::messages, server_target::message_seeds),
    target("server", server_target::server, server_target::server_seeds),
    target("keys", server_target::keys, server_target::key_seeds),
    target("client", server_target::client, server_target::client_seeds),
    target("mesh", mesh_target::mesh, mesh_target::mesh_seeds),
    target("handshake", trust_target::handshake, trust_target::handshake_seeds),
    target("tls", trust_target::tls, trust_target::tls_seeds),
    target("depot", depot_target::depot, depot_target::depot_seeds),
    target("meeting", meeting_target::meeting, meeting_target::meeting_seeds),
    target("guest", meeting_target::guest, meeting_target::guest_seeds),
    target("http", text_targets::http, text_targets::http_seeds),
    target("job", text_targets::job, text_targets::job_seeds),
    target("tf_config", text_targets::tf_config, text_targets::tf_config_seeds),
    target("summary", text_targets::summary, text_targets::summary_seeds),
    target("libsvm", text_targets::libsvm, text_targets::libsvm_seeds),
    target("libffm", text_targets::libffm, text_targets::libffm_seeds),
    target("criteo", text_targets::criteo, text_targets::criteo_seeds),
    target("tfrecord", text_targets::tfrecord, text_targets::tfrecord_seeds),
    target("records", record_target::records, record_target::record_seeds),
    target("row_cache", cache_target::row_cache, cache_target::row_cache_seeds),
    target("csv", text_targets::csv, text_targets::csv_seeds),
    target("idx", file_targets::idx, file_targets::idx_seeds),
    target("npy", file_targets::npy, file_targets::npy_seeds),
    target("npz", file_targets::npz, file_targets::npz_seeds),
    target("picture", file_targets::picture, file_targets::picture_seeds),
    target("model", file_targets::model, file_targets::model_seeds),
    target("checkpoint", checkpoint_target::checkpoint, checkpoint_target::checkpoint_seeds),
    target("parquet", table_target::parquet, table_target::parquet_seeds),
    target("featurizer", table_target::featurizer, table_target::featurizer_seeds),
    target("events", run_target::events, run_target::event_seeds),
    target("timeline", run_target::timeline, run_target::timeline_seeds),
];

const fn target(name: &'static str, run: fn(&[u8]), seeds: fn() -> Vec<Vec<u8>>) -> FuzzTarget {
    FuzzTarget { name, run, seeds }
}
