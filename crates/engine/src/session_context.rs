//! What surrounds the tasks of a session.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use paceline_model::OpNode;
use paceline_observe::{BestTest, Recorder, ServerRecorder, Summary};

use crate::context::{FinalModel, LongWork, NoteLevel, TaskContext, VisitPiece};
use crate::error::TrainError;
use crate::settings::Mode;

/// What a [`Session`](crate::Session) trains, for its recorders.
#[derive(Clone, Debug)]
pub struct SessionDescription {
    /// The run's name.
    pub name: String,
    /// The name of the model's type; `model` if a function builds it.
    pub model: String,
    /// The form of the data: `images`, `examples` or `rows`.
    pub data: &'static str,
    /// Where the data comes from, as text for people.
    pub data_origin: String,
    /// Every random choice is drawn from this.
    pub seed: u64,
    /// Examples per worker and step.
    pub batch: usize,
    /// How workers share the parameters.
    pub mode: Mode,
    /// Workers.
    pub workers: usize,
    /// Parameter servers.
    pub servers: usize,
    /// The model's operations, for a graph.
    pub graph: Vec<OpNode>,
}

/// A task of a session that is about to start.
#[derive(Clone, Copy, Debug)]
pub struct SessionTask<'a> {
    /// Its name, such as `worker:0` or `ps:1`.
    pub name: &'a str,
    /// The session it belongs to.
    pub session: &'a SessionDescription,
}

/// Creates the context of a task.
pub type ContextFactory =
    dyn Fn(SessionTask<'_>) -> Result<Arc<dyn TaskContext>, TrainError> + Send + Sync + 'static;

/// Recorders that a program gave to its session, until worker 0 takes them.
pub(crate) type Recorders = Mutex<Vec<Box<dyn Recorder + Send>>>;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A worker's context that also reports to the session's recorders and keeps the final parameters.
pub(crate) struct SessionContext {
    pub(crate) context: Arc<dyn TaskContext>,
    /// Empty except for worker 0.
    pub(crate) recorders: Recorders,
    pub(crate) trained: Arc<Mutex<TrainedParams>>,
}

/// The parameters that a session returns.
#[derive(Debug, Default)]
pub(crate) struct TrainedParams {
    /// The final ones.
    pub(crate) last: Vec<f32>,
    /// Those of the best test; empty unless they are kept.
    pub(crate) best: Vec<f32>,
}

/// All parameters of a model.
fn all_params(model: FinalModel<'_>) -> Result<Vec<f32>, TrainError> {
    let mut params = Vec::with_capacity(model.layout.len());
    model.for_each_piece(&mut |piece| {
        params.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(params)
}

/// Every method that is not named here but in [`TaskContext`] would fall back to its default.
impl TaskContext for SessionContext {
    fn note(&self, level: NoteLevel, text: &str) {
        self.context.note(level, text);
    }

    fn waiting(&self, text: Option<&str>) {
        self.context.waiting(text);
    }

    fn working(&self, work: LongWork) {
        self.context.working(work);
    }

    fn recorder(&self) -> Result<Box<dyn Recorder + Send>, TrainError> {
        let mut all: Vec<Box<dyn Recorder + Send>> = vec![self.context.recorder()?];
        all.append(&mut lock(&self.recorders));
        Ok(Box::new(all))
    }

    fn server_recorder(&self) -> Result<Box<dyn ServerRecorder>, TrainError> {
        self.context.server_recorder()
    }

    fn stop_signal(&self) -> Option<i32> {
        self.context.stop_signal()
    }

    fn is_run_ending(&self) -> bool {
        self.context.is_run_ending()
    }

    fn should_leave(&self) -> bool {
        self.context.should_leave()
    }

    fn is_run_over(&self) -> bool {
        self.context.is_run_over()
    }

    fn separate_run(&self) -> Option<String> {
        self.context.separate_run()
    }

    fn reopen_run(&self) -> Result<(), TrainError> {
        self.context.reopen_run()
    }

    fn save_model(&self, model: FinalModel<'_>) -> Result<(), TrainError> {
        let (layout, step) = (model.layout, model.step);
        let params = all_params(model)?;
        let mut again = |visit: &mut VisitPiece<'_>| visit(&params);
        self.context.save_model(FinalModel::new(layout, step, &mut again))?;
        lock(&self.trained).last = params;
        Ok(())
    }

    fn save_best(&self, model: FinalModel<'_>, best: &BestTest) -> Result<(), TrainError> {
        let (layout, step) = (model.layout, model.step);
        let params = all_params(model)?;
        let mut again = |visit: &mut VisitPiece<'_>| visit(&params);
        self.context.save_best(FinalModel::new(layout, step, &mut again), best)?;
        lock(&self.trained).best = params;
        Ok(())
    }

    fn kept_best(&self) -> Result<Option<BestTest>, TrainError> {
        self.context.kept_best()
    }

    fn save_summary(&self, summary: &Summary, has_timeline: bool) -> Result<(), TrainError> {
        self.context.save_summary(summary, has_timeline)
    }
}

#[cfg(test)]
mod tests;
