//! Trains models by stochastic gradient descent.

mod batch_reader;
pub mod checkpoint;
mod context;
mod coordinator;
mod dense_worker;
mod error;
mod evaluator;
mod evaluator_task;
mod gradient;
mod lead;
mod link;
mod link_observers;
mod local_link;
mod loop_trace;
mod mesh_link;
mod mirrored;
mod process_state;
mod run_report;
mod server_account;
mod server_link;
mod server_task;
mod server_trace;
mod settings;
mod single;
mod slot_manager;
mod slot_thread;
mod sparse;
mod step_recorder;
mod stop_reason;
mod task_place;
mod test_runner;
mod tracer;
mod trainer;
mod training_task;
mod worker_process;
mod workload;

pub use context::{FinalModel, NoteLevel, ProgressReport, TaskContext, VisitPiece};
pub use error::TrainError;
pub use evaluator::Evaluator;
pub use evaluator_task::{EvaluatorTask, run_evaluator};
pub use run_report::RunReport;
pub use server_task::{ServerTask, run_server};
pub use settings::{
    CheckpointSettings, EvaluateSettings, Mode, OnWorkerLoss, StepLayout, Stop, Timeouts,
    TrainSettings,
};
pub use step_recorder::BARE_VARIABLE;
pub use stop_reason::StopReason;
pub use task_place::{TaskPlace, layout_digest};
pub use training_task::{Threads, TrainingTask};
pub use worker_process::{join_run, run_worker};
pub use workload::{
    BuildModel, BuildSparseModel, ModelSizing, ModelSource, Shuffle, TrainingData, Workload,
};
