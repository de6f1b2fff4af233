//! Trains models by stochastic gradient descent, and shares the parameters between workers.
//!
//! ```
//! use paceline_data::Digits;
//! use paceline_engine::{Mode, Session, Sharing, Stop};
//! use paceline_model::{Sgd, Softmax};
//!
//! let report = Session::new(Softmax::new(784, 10), Digits::generate(600, 1))
//!     .optimizer(Sgd::new(0.1))
//!     .stop(Stop::steps(100))
//!     .share(Sharing::servers(1).workers(2).mode(Mode::Async))
//!     .run()?;
//! println!("{:.1} %, verdict: {}", 100.0 * report.accuracy, report.verdict);
//! # Ok::<(), paceline_engine::TrainError>(())
//! ```
//!
//! A [`Session`] runs all tasks as threads of one process. A program whose tasks are processes, on
//! one machine or many, calls [`run_worker`], [`run_server`] and [`run_evaluator`] with a
//! [`TaskPlace`] each: that is what the `paceline` program does.
//!
//! # How it works
//!
//! The core of every run is three lines, in `dense_worker.rs` and, for sparse models, in
//! `sparse/worker.rs`:
//!
//! ```text
//! examples = batches.begin_step(link.next_step())            // input
//! loss     = batch_gradient(model, link.params(), &mut grad) // compute
//! link.push(examples, &grad)                                 // push, wait and pull
//! ```
//!
//! Each mode is an implementation of `Link`: parameters in this process (`local_link.rs`,
//! `sparse/table_link.rs`), on servers (`server_link.rs`), or in a replica that all workers keep
//! equal (`mesh_link.rs`). Worker 0 is also the coordinator (`run_coordinator.rs`,
//! `coordinator.rs`): it tests, requests checkpoints, stops the run and ends it.
//!
//! # Words
//!
//! - A [`Workload`] is a model and the data it is trained and tested on.
//! - A *slot* is a share of every step. A worker process fills one or more (`slot_manager.rs`).
//! - A [checkpoint] is everything a run needs to continue with the same bits. A run that loses a
//!   server is *rewound* to its newest checkpoint and continues from there.
//! - A [`TaskContext`] is what surrounds a task: its log, its recorders, requests to stop, and
//!   where results are kept. The engine knows no files except checkpoints.

// The examples of the README are compiled with the tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod batch_reader;
mod best_model;
mod checkpoint_spec;
mod context;
mod coordinator;
mod data_check;
mod dense_worker;
mod error;
mod evaluator;
mod evaluator_task;
mod exchange_observer;
mod gradient;
mod initial_params;
mod kept_params;
mod link;
mod link_observers;
mod local_link;
mod loop_trace;
mod mesh_link;
mod mirrored;
mod overlap;
mod overlapped_worker;
mod process_state;
mod push_outcome;
mod rewind;
mod run_coordinator;
mod run_report;
mod server_link;
mod server_overlap;
mod server_reporter;
mod server_task;
mod session;
mod session_context;
mod session_run;
mod settings;
mod sharing;
mod single;
mod slot_manager;
mod slot_thread;
mod sparse;
mod step_pieces;
mod step_recorder;
mod step_stop;
mod task_place;
mod test_history;
mod test_runner;
mod test_set;
mod test_watch;
mod train_slot;
mod trainer;
mod training_task;
mod worker_process;
mod workload;

pub use paceline_checkpoint as checkpoint;
pub use paceline_checkpoint::{FeatureMove, StartModel, StartTensor, StepLayout, layout_digest};
pub use paceline_exchange::{FactorChoice, JobIdentity, WireFormat};
pub use paceline_net::LossReport;
pub use paceline_observe::{BestSettings, Divergence, StopReason, TestMetric};

pub use context::{FinalModel, LongWork, NoteLevel, TaskContext, VisitPiece};
pub use error::TrainError;
pub use evaluator::Evaluator;
pub use evaluator_task::{EvaluatorTask, run_evaluator};
pub use run_report::RunReport;
pub use server_task::{ServerTask, run_server};
pub use session::{Session, SessionReport};
pub use session_context::{ContextFactory, SessionDescription, SessionTask};
pub use settings::{
    CheckpointSettings, EvaluateSettings, Mode, OnDivergence, OnWorkerLoss, Slowdown, Stop,
    TestHooks, Timeouts, TrainSettings,
};
pub use sharing::Sharing;
pub use slot_manager::EnrolledWorker;
pub use step_pieces::exchange_conditions;
pub use task_place::TaskPlace;
pub use test_watch::TestWatch;
pub use training_task::{Threads, TrainingTask};
pub use worker_process::{WorkerEntry, run_worker};
pub use workload::{
    BuildModel, BuildSparseModel, ModelSizing, ModelSource, Shuffle, TrainingData, Workload,
};
