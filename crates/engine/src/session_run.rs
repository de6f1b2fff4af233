//! A session while it runs: its tasks as threads of this process.

use std::net::TcpListener;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use paceline_observe::{Recorder, ServerRecorder, Summary};

use crate::checkpoint::{CheckpointDir, PlanOrigin, ResumePoint};
use crate::context::{ContextFactory, FinalModel, NoteLevel, TaskContext, VisitPiece};
use crate::error::TrainError;
use crate::run_report::RunReport;
use crate::server_task::{ServerTask, run_server};
use crate::settings::{Mode, TrainSettings};
use crate::sharing::Sharing;
use crate::task_place::TaskPlace;
use crate::training_task::{Threads, TrainingTask};
use crate::worker_process::run_worker;
use crate::workload::Workload;

/// A session while it runs.
pub(crate) struct SessionRun<'a> {
    pub(crate) name: &'a str,
    pub(crate) workload: &'a Workload,
    pub(crate) settings: &'a TrainSettings,
    pub(crate) sharing: Sharing,
    pub(crate) slots: usize,
    pub(crate) contexts: &'a ContextFactory,
    pub(crate) checkpoints: Option<&'a CheckpointDir>,
    pub(crate) from: Option<&'a ResumePoint>,
    /// Receives the final parameters.
    pub(crate) trained: &'a Arc<Mutex<Vec<f32>>>,
}

/// The sockets and names of a session's tasks.
struct LocalCluster {
    servers: Vec<TcpListener>,
    workers: Vec<TcpListener>,
    token: Vec<u8>,
}

impl LocalCluster {
    fn bind(sharing: Sharing) -> std::io::Result<Self> {
        let bind = |count: usize| -> std::io::Result<Vec<_>> {
            (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect()
        };
        let listening = if sharing.mode == Mode::Mirrored { sharing.workers } else { 0 };
        let mut token = vec![0; 16];
        std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut token)?;
        Ok(Self { servers: bind(sharing.servers)?, workers: bind(listening)?, token })
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
            token: self.token.clone(),
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

    fn serve(&self, index: usize, cluster: &LocalCluster) -> Result<(), TrainError> {
        let cannot = || TrainError::while_doing("cannot listen on loopback");
        let name = format!("ps:{index}");
        let place = TaskPlace { index, ..cluster.place(name, self).map_err(cannot())? };
        let task = ServerTask {
            settings: self.settings,
            model: &self.workload.model,
            context: (self.contexts)(&place.name)?,
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
        let context = (self.contexts)(&place.name)?;
        let context = Arc::new(KeepingContext { context, trained: self.trained.clone() });
        let task = TrainingTask {
            run_name: self.name,
            settings: self.settings,
            workload: self.workload,
            place: &place,
            context,
            threads: Threads::Fixed(1),
            test_threads: 1,
            checkpoints: self.checkpoints,
            from: self.from,
            origin: self.from.map_or(PlanOrigin::default(), ResumePoint::origin),
            started: Instant::now(),
        };
        run_worker(&task, listener.map_err(cannot())?)
    }
}

/// The first failure of these tasks that is not the loss of another task.
fn first_cause(tasks: Vec<ScopedJoinHandle<'_, Result<(), TrainError>>>) -> Option<TrainError> {
    let mut cause = None;
    for task in tasks {
        let Ok(ended) = task.join() else { continue };
        if let (Err(error), None | Some(TrainError::Lost(_))) = (ended, &cause) {
            cause = Some(error);
        }
    }
    cause
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A task's context that also keeps the final parameters.
struct KeepingContext {
    context: Arc<dyn TaskContext>,
    trained: Arc<Mutex<Vec<f32>>>,
}

impl TaskContext for KeepingContext {
    fn note(&self, level: NoteLevel, text: &str) {
        self.context.note(level, text);
    }

    fn recorder(&self) -> Result<Box<dyn Recorder + Send>, TrainError> {
        self.context.recorder()
    }

    fn server_recorder(&self) -> Result<Box<dyn ServerRecorder>, TrainError> {
        self.context.server_recorder()
    }

    fn stop_signal(&self) -> Option<i32> {
        self.context.stop_signal()
    }

    fn should_leave(&self) -> bool {
        self.context.should_leave()
    }

    fn save_model(&self, model: FinalModel<'_>) -> Result<(), TrainError> {
        let (layout, step) = (model.layout, model.step);
        let mut params = Vec::with_capacity(layout.len());
        model.for_each_piece(&mut |piece| {
            params.extend_from_slice(piece);
            Ok(())
        })?;
        let mut again = |visit: &mut VisitPiece<'_>| visit(&params);
        self.context.save_model(FinalModel::new(layout, step, &mut again))?;
        *lock(&self.trained) = params;
        Ok(())
    }

    fn save_summary(&self, summary: &Summary, has_timeline: bool) -> Result<(), TrainError> {
        self.context.save_summary(summary, has_timeline)
    }
}
