//! The roles of tasks: what a task's name begins with, as in `TF_CONFIG`.

/// The coordinator, where it has a name of its own. It trains like worker 0.
pub const CHIEF: &str = "chief";
/// A task that computes gradients.
pub const WORKER: &str = "worker";
/// A parameter server.
pub const PS: &str = "ps";
/// A task that only tests.
pub const EVALUATOR: &str = "evaluator";

/// The roles of tasks that train, the coordinator's first.
pub const TRAINING: [&str; 2] = [CHIEF, WORKER];
