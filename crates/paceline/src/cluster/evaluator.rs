//! What an evaluator does: pull the parameters now and then, and test them. It takes no part,
//! nobody waits for it, and it ends when the servers do.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use paceline_exchange::PeerRole as ClientRole;
use paceline_model::Score;
use paceline_observe::trace::{Op, PULL};

use super::Cluster;
use super::calling::link_config;
use super::part::SharedLink;
use super::remote::Remote;
use crate::Failure;
use crate::build::{Room, build_examiner, build_model};
use crate::job::{Mode, Plan, RawJob};
use crate::link::Link;
use crate::metrics::Metrics;
use crate::source::load_data;
use crate::trace::{SideTrack, Tracer};
use crate::train::event_log_config;
use crate::worker::visit_traffic;
use paceline_observe::{Recorder, RunPosition, TestRecord};
use paceline_record::RunDir;
use paceline_record::TaskLog;
use paceline_record::timeline::TaskTrace;
use paceline_record::{EventLog, EventLogConfig};

/// How long to wait before looking again whether there is something new to test.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Tests until the run is over.
pub(super) fn run(
    job: &RawJob,
    plan: &Plan,
    cluster: &Cluster,
    run: &RunDir,
    interrupted: &dyn Fn() -> Option<i32>,
) -> Result<(), Failure> {
    let data = load_data(job, plan, &mut |_| {})?;
    let log = TaskLog::create(run, cluster.task)?;
    let model = build_model(plan, data.shape(), Room::LEAST)?;
    let task = cluster.task.to_string();
    let config =
        EventLogConfig { traffic_peers: cluster.others(), ..event_log_config(plan, &task) };
    let mut board = EventLog::create(&run.task(&task), config)?;
    let number = (task.as_str(), cluster.number());
    let mut metrics = Metrics::start(plan, number, cluster.others(), &run.task(&task))?;
    let config = link_config(job, plan, cluster, ClientRole::Evaluator, model.layout())?;
    let mut examiner = build_examiner(plan, &data, 1)?;
    let say = |text: &str| log.info(text);
    let gives_up = || interrupted().is_some();
    let mut link = Remote::start(config, plan.cluster.mode, &say, &gives_up)?;
    let mut follow = Follow::new(plan, cluster.slots(), model.layout().len(), &run.task(&task));
    let begun = Instant::now();
    let (mut next, mut last) = (plan.evaluate.every, None::<Score>);
    while interrupted().is_none() {
        let step = link.global_step();
        if let Some(follow) = &mut follow {
            follow.at_step(step, &task, &log);
        }
        let position =
            RunPosition { global_step: step, traffic: &|visit| visit_traffic(&link, visit) };
        board.poll(&position).map_err(Failure::recording)?;
        if let Some(metrics) = metrics.as_mut().filter(|metrics| metrics.is_due(Instant::now())) {
            metrics.publish(Instant::now(), |figures, _| {
                figures.add("paceline_global_step", step as f64);
                if let Some(score) = last {
                    figures.add("paceline_test_loss", score.loss);
                    figures.add("paceline_test_accuracy_ratio", score.accuracy);
                }
            });
        }
        if step >= next {
            let score = match link.look(examiner.keys().as_deref()) {
                Err(Failure::Rewound) => {
                    link.begin_again()?;
                    continue;
                }
                looked => {
                    let params = looked?;
                    did(&mut follow, Did::Pull);
                    examiner.test(params)?
                }
            };
            last = Some(score);
            let steps_per_second = step as f64 / begun.elapsed().as_secs_f64();
            let record = TestRecord { step, score: &score, steps_per_second };
            board.test(&record).map_err(Failure::recording)?;
            let (loss, accuracy) = (score.loss, 100.0 * score.accuracy);
            log.info(&format!("step {step}: test loss {loss:.4}, accuracy {accuracy:.2} %"));
            next = (step / plan.evaluate.every + 1) * plan.evaluate.every;
            did(&mut follow, Did::Test);
        } else {
            thread::sleep(LOOK_EVERY);
            did(&mut follow, Did::Idle);
        }
        let refreshed = match link.refresh() {
            Err(Failure::Rewound) => link.begin_again(),
            refreshed => refreshed,
        };
        if let Err(error) = refreshed {
            log.info(&format!("the servers are gone: {error}"));
            break;
        }
        did(&mut follow, Did::Pull);
        // Should the run have gone back, what is behind it comes again.
        next = next.min((link.global_step() / plan.evaluate.every + 1) * plan.evaluate.every);
    }
    if let Some(follow) = &mut follow {
        follow.leave(&task, &log);
    }
    board.finish(true).map_err(Failure::recording)
}

fn did(follow: &mut Option<Follow>, what: Did) {
    follow.iter_mut().for_each(|follow| follow.did(what));
}

/// What an evaluator's timeline tells of, in the order of its operations.
#[derive(Clone, Copy)]
enum Did {
    Idle,
    Pull,
    Test,
}

/// An evaluator on the timeline. It leaves its part as soon as the steps are over that are to be
/// recorded: at the end nobody waits for it.
struct Follow {
    side: SideTrack,
    /// How many global steps a worker's step is.
    stride: u64,
    folder: PathBuf,
    /// Until when it is told.
    told: Instant,
}

impl Follow {
    fn new(plan: &Plan, slots: usize, params: usize, folder: &Path) -> Option<Self> {
        let ops = vec![Op::new("idle", &[]), Op::new(PULL, &[params]), Op::new("test", &[])];
        let side = plan.observe_trace.map(Tracer::new)?.side_track("tests", ops);
        let stride = match plan.cluster.mode {
            Mode::Async | Mode::Bounded { .. } => slots as u64,
            _ => 1,
        };
        Some(Self { side, stride, folder: folder.to_owned(), told: Instant::now() })
    }

    /// The run has come to a global step.
    fn at_step(&mut self, step: u64, task: &str, log: &TaskLog) {
        let (tracer, step) = (self.side.tracer(), step / self.stride.max(1));
        match (tracer.is_on(), tracer.window().contains(step)) {
            (false, true) => tracer.turn(true),
            (true, false) => self.leave(task, log),
            _ => {}
        }
        self.side.track().step = step;
    }

    /// All that it has done since it last said so was this.
    fn did(&mut self, what: Did) {
        let begun = std::mem::replace(&mut self.told, Instant::now());
        if self.side.tracer().is_on() {
            self.side.track().span(what as u32, begun, self.told);
        }
    }

    /// Leaves what was recorded, if anything is being.
    fn leave(&mut self, task: &str, log: &TaskLog) {
        let tracer = self.side.tracer();
        if !tracer.is_on() {
            return;
        }
        tracer.turn(false);
        let part = tracer.with_tracks(None, |tracks| TaskTrace::new(task, Vec::new(), tracks, &[]));
        if !part.is_empty()
            && let Err(error) = part.write(&self.folder)
        {
            log.warn(&format!("cannot write the part of the timeline: {error}"));
        }
    }
}
