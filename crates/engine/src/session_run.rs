//! A session while it runs: its tasks as threads of this process.

use std::net::TcpListener;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use paceline_net::{Credentials, random_bytes};
use paceline_observe::Recorder;

use crate::checkpoint::{CheckpointDir, PlanOrigin, ResumePoint};
use crate::context::{NoteLevel, TaskContext};
use crate::error::TrainError;
use crate::run_report::RunReport;
use crate::server_task::{ServerTask, run_server};
use crate::session_context::{
    ContextFactory, Recorders, SessionContext, SessionDescription, SessionTask, TrainedParams, lock,
};
use crate::settings::{Mode, TrainSettings};
use crate::sharing::Sharing;
use crate::task_place::TaskPlace;
use crate::training_task::{Threads, TrainingTask};
use crate::worker_process::{WorkerEntry, run_worker};
use crate::workload::Workload;

/// A session while it runs.
pub(crate) struct SessionRun<'a> {
    pub(crate) description: &'a SessionDescription,
    pub(crate) workload: &'a Workload,
    pub(crate) settings: &'a TrainSettings,
    pub(crate) sharing: Sharing,
    pub(crate) slots: usize,
    /// Threads of a training loop.
    pub(crate) threads: usize,
    pub(crate) contexts: &'a ContextFactory,
    /// For worker 0.
    pub(crate) recorders: &'a Recorders,
    /// For the log of worker 0.
    pub(crate) warnings: &'a [String],
    pub(crate) checkpoints: Option<&'a CheckpointDir>,
    pub(crate) from: Option<&'a ResumePoint>,
    /// Receives the final parameters.
    pub(crate) trained: &'a Arc<Mutex<TrainedParams>>,
}

/// The sockets and names of a session's tasks.
struct LocalCluster {
    servers: Vec<TcpListener>,
    workers: Vec<TcpListener>,
    credentials: Credentials,
}

impl LocalCluster {
    fn bind(sharing: Sharing) -> std::io::Result<Self> {
        let bind = |count: usize| -> std::io::Result<Vec<_>> {
            (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect()
        };
        let listening = if sharing.mode == Mode::Mirrored { sharing.workers } else { 0 };
        let credentials = Credentials::with_token(&random_bytes::<16>()?).trusting_loopback();
        Ok(Self { servers: bind(sharing.servers)?, workers: bind(listening)?, credentials })
    }

    fn place(&self, name: String, run: &SessionRun<'_>) -> std::io::Result<TaskPlace> {
        let addresses = |listeners: &[TcpListener]| -> std::io::Result<Vec<String>> {
            listeners.iter().map(|listener| Ok(listener.local_addr()?.to_string())).collect()
        };
        let workers = run.sharing.workers;
        Ok(TaskPlace {
            name,
            slots: run.slots,
            processes: (0..workers).map(|worker| format!("worker:{worker}")).collect(),
            servers: addresses(&self.servers)?,
            workers: addresses(&self.workers)?,
            credentials: self.credentials.clone(),
            ..TaskPlace::default()
        })
    }
}

impl SessionRun<'_> {
    /// Runs all tasks, worker 0 on the calling thread.
    pub(crate) fn run(&self) -> Result<RunReport, TrainError> {
        let cannot = || TrainError::while_doing("cannot listen on loopback");
        let sharing = self.sharing;
        let cluster = LocalCluster::bind(sharing).map_err(cannot())?;
        thread::scope(|scope| {
            let mut others = Vec::new();
            for index in 0..sharing.servers {
                let cluster = &cluster;
                others.push(scope.spawn(move || self.serve(index, cluster)));
            }
            for slot in 1..sharing.workers {
                let cluster = &cluster;
                others.push(scope.spawn(move || self.work(slot, cluster).map(drop)));
            }
            let led = self.work(0, &cluster);
            let failure = first_cause(others);
            match (led, failure) {
                (Ok(Some(report)), _) => Ok(report),
                (Err(TrainError::Lost(_)), Some(cause)) => Err(cause),
                (Err(error), _) => Err(error),
                (Ok(None), _) => unreachable!("worker 0 leads the run"),
            }
        })
    }

    fn context(&self, name: &str) -> Result<Arc<dyn TaskContext>, TrainError> {
        (self.contexts)(SessionTask { name, session: self.description })
    }

    fn take_recorders(&self) -> Vec<Box<dyn Recorder + Send>> {
        std::mem::take(&mut *lock(self.recorders))
    }

    fn serve(&self, index: usize, cluster: &LocalCluster) -> Result<(), TrainError> {
        let cannot = || TrainError::while_doing("cannot listen on loopback");
        let name = format!("ps:{index}");
        let place = TaskPlace { index, ..cluster.place(name, self).map_err(cannot())? };
        let task = ServerTask {
            settings: self.settings,
            model: &self.workload.model,
            context: self.context(&place.name)?,
            place: &place,
            checkpoints: self.checkpoints,
            from: self.from,
            join_info: Vec::new(),
        };
        run_server(&task, &cluster.servers[index])
    }

    fn work(&self, slot: usize, cluster: &LocalCluster) -> Result<Option<RunReport>, TrainError> {
        let cannot = || TrainError::while_doing("cannot listen on loopback");
        let name = format!("worker:{slot}");
        let place = TaskPlace { slot: Some(slot), ..cluster.place(name, self).map_err(cannot())? };
        let listener = cluster.workers.get(slot).map(TcpListener::try_clone).transpose();
        let context = Arc::new(SessionContext {
            context: self.context(&place.name)?,
            recorders: Mutex::new(if slot == 0 { self.take_recorders() } else { Vec::new() }),
            trained: self.trained.clone(),
        });
        if slot == 0 {
            self.warnings.iter().for_each(|text| context.note(NoteLevel::Warning, text));
        }
        let task = TrainingTask {
            run_name: &self.description.name,
            settings: self.settings,
            workload: self.workload,
            place: &place,
            context,
            threads: Threads::Fixed(self.threads),
            test_threads: self.threads,
            checkpoints: self.checkpoints,
            from: self.from,
            origin: self.from.map_or(PlanOrigin::default(), ResumePoint::origin),
            started: Instant::now(),
        };
        run_worker(&task, WorkerEntry::Planned(listener.map_err(cannot())?))
    }
}

/// The first failure of these tasks that is not the loss of another task. Passes a panic on.
fn first_cause(tasks: Vec<ScopedJoinHandle<'_, Result<(), TrainError>>>) -> Option<TrainError> {
    let mut cause = None;
    for task in tasks {
        let ended = task.join().unwrap_or_else(|panic| resume_unwind(panic));
        if let (Err(error), None | Some(TrainError::Lost(_))) = (ended, &cause) {
            cause = Some(error);
        }
    }
    cause
}
