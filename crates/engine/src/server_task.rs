//! What a server does: it holds a shard of the parameters until the run is over.

use std::net::TcpListener;
use std::sync::Arc;

use paceline_exchange::{
    Generation, ModeConfig, OnLoss, ResumeState, RosterConfig, Server, ServerConfig, Store,
};
use paceline_model::{KeyPart, Layout, Model};
use paceline_net::{ServeEnd, ServerTrace, serve};

use crate::checkpoint::{
    Checkpoint, CheckpointDir, CheckpointWriter, DenseShard, GenerationStart, PlanOrigin,
    ResumePoint, ServerNumber, layout_digest,
};
use crate::checkpoint_spec::{PlanPosition, ShardPlace, checkpoint_spec};
use crate::context::{NoteLevel, TaskContext};
use crate::error::{TrainError, record_failure};
use crate::initial_params::initial_shard;
use crate::server_link::overlaps;
use crate::server_reporter::ServerReporter;
use crate::settings::{Mode, OnWorkerLoss, TrainSettings};
use crate::sparse::empty_table;
use crate::task_place::{TaskPlace, incarnation, key_places};
use crate::training_task::start_writer;
use crate::workload::{ModelSizing, ModelSource};

/// A task that holds a shard of the parameters.
pub struct ServerTask<'a> {
    /// What all tasks of the run agree on.
    pub settings: &'a TrainSettings,
    /// Builds the model, for its layout and initial parameters.
    pub model: &'a ModelSource,
    /// The server's place in the run.
    pub place: &'a TaskPlace,
    /// Its log, recorder and requests to stop.
    pub context: Arc<dyn TaskContext>,
    /// Where checkpoints and generations are kept; `None` if a lost server ends the run.
    pub checkpoints: Option<&'a CheckpointDir>,
    /// The checkpoint the run resumes from.
    pub from: Option<&'a ResumePoint>,
    /// What a process that joins later must know of the run; empty if none may join.
    pub join_info: Vec<u8>,
}

/// Serves a shard until the coordinator ends the run.
pub fn run_server(task: &ServerTask<'_>, listener: &TcpListener) -> Result<(), TrainError> {
    let model = task.build_model()?;
    let layout = model.layout();
    let config = task.config(layout)?;
    let order = key_places(&*model, task.place.servers.len());
    let keys = order.part(task.place.index);
    let shard = layout.params_of(config.shard());
    let slots = task.place.slots;
    let steps = task.settings.step_layout(slots);
    // If the keys of a server are not one range, they may be in any shard.
    let needed = if order.is_plain() { shard.clone() } else { 0..usize::MAX };
    let checkpoints = task.checkpoints.map(|dir| dir.clone().needing(needed));
    let checkpoints = checkpoints.as_ref();
    let GenerationStart { mut generation, mut checkpoint } = task.claim(checkpoints)?;
    let mut reporter =
        task.reporter(&config, layout, !order.is_plain())?.with_record(checkpoints.cloned());
    // Each pass is one generation: a server that hears of a newer one starts again from there.
    loop {
        let start = checkpoint.take().map(|checkpoint| ResumePoint::new(checkpoint, steps));
        let store = task.store(&*model, keys, start.as_ref())?;
        let mut server = Server::new(config.clone(), store);
        let mut carried = 0;
        if let Some(start) = &start {
            let mut state =
                start.server_state(&shard, !order.is_plain(), server.chunk_count(), slots);
            // This session need not stop where an earlier one stopped.
            let started_at = task.from.map_or(0, ResumePoint::step);
            state.stop_at = start.stop_at().filter(|_| start.step() > started_at);
            carried = if task.from.is_none() { push_count(&state) } else { 0 };
            server.resume(&state);
            for slot in 0..slots {
                if let Some(known) = start.known_gradient(slot, shard.clone())? {
                    server.restore_known(slot, &known);
                }
            }
        }
        server.enter_generation(generation);
        reporter.enter_generation(generation, carried);
        let served = serve(listener, &mut server, &task.place.credentials, &mut reporter);
        if let Ok(ServeEnd::Rewind(to)) = served {
            (generation, checkpoint) = (to, task.follow(checkpoints, to)?);
            continue;
        }
        let recorded = reporter.finish(server.stats());
        if reporter.is_unneeded(&server) {
            let text = format!("interrupted while waiting for {}", server.missing());
            return Err(TrainError::Interrupted(text));
        }
        if served.is_err() && reporter.was_interrupted() {
            let text = "interrupted before the end of the run, which needs this server";
            return Err(TrainError::Interrupted(text.into()));
        }
        served.map_err(|error| TrainError::Lost(error.to_string()))?;
        return recorded.map_err(record_failure);
    }
}

impl ServerTask<'_> {
    fn number(&self) -> ServerNumber {
        ServerNumber { index: self.place.index, count: self.place.servers.len() }
    }

    fn build_model(&self) -> Result<Box<dyn Model>, TrainError> {
        match self.model {
            ModelSource::Dense { build, .. } => build(ModelSizing::LEAST),
            ModelSource::Sparse(build) => Ok(build()),
        }
    }

    fn config(&self, layout: &Layout) -> Result<ServerConfig, TrainError> {
        let Self { settings, place, .. } = self;
        let (slots, processes) = (place.slots, place.processes.len());
        let name = |slot: usize| match place.processes.get(slot) {
            Some(name) => name.clone(),
            None => format!("slot {slot}"),
        };
        let (on_loss, rejoin_ms) = match settings.on_worker_loss {
            OnWorkerLoss::Fail => (OnLoss::Fail, 0),
            OnWorkerLoss::Continue => (OnLoss::Continue, 0),
            // While a worker may still return it is not lost.
            OnWorkerLoss::Wait => (OnLoss::Fail, settings.timeouts.rejoin.as_millis() as u64),
        };
        let config = ServerConfig {
            index: place.index,
            servers: place.servers.len(),
            names: (0..slots).map(name).collect(),
            stop_steps: settings.stop.steps,
            on_loss,
            rejoin_ms,
            stall_ms: settings.timeouts.stall.as_millis() as u64,
            job: settings.job.clone(),
            layout_digest: layout_digest(layout),
            wire: settings.wire,
            started_us: incarnation(),
            roster: RosterConfig {
                processes,
                join_info: self.join_info.clone(),
                reassigns_at_once: place.is_not_restarted,
            },
            width: layout.width(),
            // The keys of a dense model are its parameters.
            ..ServerConfig::new(self.mode(), slots, layout.keys())
        };
        config.check().map_err(|error| TrainError::Settings(error.to_string()))?;
        Ok(config)
    }

    fn mode(&self) -> ModeConfig {
        match self.settings.mode {
            Mode::Sync { quorum } => {
                ModeConfig::Sync { quorum: quorum.unwrap_or(self.place.slots) }
            }
            Mode::Bounded { staleness } => {
                // A worker that pulls ahead is one step further than its last answer says.
                let is_sparse = matches!(self.model, ModelSource::Sparse(_));
                let ahead = u64::from(is_sparse && overlaps(self.settings.mode));
                ModeConfig::Bounded { staleness: staleness - ahead }
            }
            Mode::Single | Mode::Async | Mode::Mirrored => ModeConfig::Async,
        }
    }

    /// Where this server starts.
    fn claim(&self, checkpoints: Option<&CheckpointDir>) -> Result<GenerationStart, TrainError> {
        let known = self.from.map(ResumePoint::checkpoint);
        match checkpoints {
            Some(checkpoints) => Ok(checkpoints.claim(self.number(), known, &mut |text| {
                self.context.note(NoteLevel::Warning, text);
            })?),
            None => {
                let generation = Generation { number: 1, base: None };
                Ok(GenerationStart { generation, checkpoint: None })
            }
        }
    }

    /// The checkpoint that a generation another server has claimed starts from.
    fn follow(
        &self,
        checkpoints: Option<&CheckpointDir>,
        to: Generation,
    ) -> Result<Option<Checkpoint>, TrainError> {
        match checkpoints {
            Some(checkpoints) => Ok(checkpoints.follow(self.number(), to)?),
            None => Err(TrainError::Lost("the run was rewound, but keeps no checkpoints".into())),
        }
    }

    fn reporter(
        &self,
        config: &ServerConfig,
        layout: &Layout,
        is_spread: bool,
    ) -> Result<ServerReporter, TrainError> {
        let Self { settings, place, context, .. } = self;
        let checkpoints = self.checkpoint_writer(layout, is_spread)?;
        let recorder = context.server_recorder()?;
        let (name, timeout) = (place.name.clone(), settings.timeouts.start);
        let reporter = ServerReporter::new(name, context.clone(), recorder, checkpoints, timeout);
        let workers = config.names.clone();
        let trace = settings
            .trace
            .map(|window| ServerTrace::new(window, config.shard().len(), workers.clone()));
        let reporter = reporter.with_trace(trace).with_hooks(settings.test_hooks);
        // Server 0 reports on the workers for all servers.
        Ok(if place.index == 0 { reporter.with_workers(workers) } else { reporter })
    }

    fn checkpoint_writer(
        &self,
        layout: &Layout,
        is_spread: bool,
    ) -> Result<Option<CheckpointWriter>, TrainError> {
        let Some(dir) = self.checkpoints.filter(|_| self.settings.checkpoint.is_some()) else {
            return Ok(None);
        };
        let origin = self.from.map_or(PlanOrigin::default(), ResumePoint::origin);
        let plan = PlanPosition { slots: self.place.slots, origin };
        let ServerNumber { index, count } = self.number();
        let shard = ShardPlace { index, count, is_spread, task: &self.place.name };
        let spec = checkpoint_spec(dir, self.settings, layout, plan, shard);
        start_writer(spec, self.context.clone()).map(Some)
    }

    /// The server's shard: the model's initial parameters, or those of a checkpoint.
    fn store(
        &self,
        model: &dyn Model,
        keys: &KeyPart,
        from: Option<&ResumePoint>,
    ) -> Result<Store, TrainError> {
        let (layout, optimizer) = (model.layout(), self.settings.optimizer.clone());
        if let ModelSource::Sparse(build) = self.model {
            let table = empty_table(self.settings, &*build(), keys.clone())?;
            return match from {
                None => {
                    if let Some(start) = &self.settings.start {
                        start.fill(model, &table)?;
                    }
                    Ok(Store::sparse(table))
                }
                Some(from) => Ok(Store::sparse(from.fill(layout, table)?)),
            };
        }
        let shard = keys.places();
        let DenseShard { params, optimizer } = match from {
            Some(from) => from.dense(layout, optimizer, shard)?,
            None => initial_shard(model, self.settings, shard)?,
        };
        Ok(Store::dense(params, optimizer))
    }
}

/// Pushes of all slots that a server starts with.
fn push_count(state: &ResumeState) -> u64 {
    let first = state.chunks.first().map_or(&[][..], |chunk| &chunk.slots);
    first.iter().map(|mark| mark.last_sequence).sum()
}
