//! Copies of a run's checkpoints and results in another place (`checkpoint.to`).
//!
//! The coordinator makes them. A place has the copies of one run: another one is refused before it
//! starts, and a run that continues on a machine without its files gets them back.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use paceline_depot::{Copier, StoredRun, open_store};
use paceline_engine::checkpoint::TestLog;
use paceline_job::{Plan, RawJob};
use paceline_place::Placement;
use paceline_record::names::files;
use paceline_record::{RunDir, TaskLog};

use crate::Failure;
use crate::launch::read_summary;
use crate::progress::write_line;
use crate::stop_source::StopSource;
use crate::train_options::{TrainOptions, checkpoint_dir};

/// The files in a run's directory that are copied.
const COPIED: [&str; 5] =
    [files::JOB, files::SUMMARY, files::MODEL, files::BEST_MODEL, files::BEST_TEST];
/// How long the last copy may take.
const LAST_LIMIT: Duration = Duration::from_secs(600);
/// The same after a signal.
const SIGNAL_LIMIT: Duration = Duration::from_millis(2_500);
/// How long the servers of a run may take to write the last checkpoint after its end.
const SERVERS_LIMIT: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// After how long people learn that the run's end waits for the copy.
const NOTE_AFTER: Duration = Duration::from_secs(1);

/// The copies of the run of a plan, if it makes any, and the name of their place.
fn copies(plan: &Plan) -> Result<Option<(StoredRun, &str)>, Failure> {
    let Some(to) = plan.checkpoint_to.as_deref() else { return Ok(None) };
    Ok(Some((StoredRun::new(open_store(to).map_err(cannot_use(to))?), to)))
}

fn cannot_use(to: &str) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::Usage(format!("checkpoint.to = {to:?}: {error}"))
}

/// Before a run: brings its files back if it is resumed, and refuses the place of another run. For
/// processes of a launcher, [`restore_own`] does so.
pub(crate) fn prepare(
    plan: &Plan,
    options: &TrainOptions,
    placement: &Placement,
) -> Result<(), Failure> {
    let leads = match placement {
        Placement::Local => true,
        Placement::Listed(cluster) => cluster.slot() == Some(0),
        Placement::Ranked(_) => false,
    };
    let Some((copies, to)) = copies(plan)?.filter(|_| leads) else { return Ok(()) };
    if let Some(run) = &options.resume {
        return restore(&copies, to, run, options);
    }
    match copies.newest().map_err(cannot_use(to))? {
        None => Ok(()),
        Some(step) => Err(Failure::Usage(format!(
            "checkpoint.to = {to:?} has the copies of another run, up to step {step}; name another \
             place, or continue that run: `paceline train JOB.toml --resume DIR`, where DIR may be \
             an empty directory"
        ))),
    }
}

/// Brings back the files of this job's run to its directory on a machine that has none, before a
/// launcher's processes look for an earlier start of it.
pub(crate) fn restore_own(
    job: &RawJob,
    plan: &Plan,
    dir: &Path,
    options: &TrainOptions,
) -> Result<(), Failure> {
    let Some((copies, to)) = copies(plan)? else { return Ok(()) };
    if copies.newest().map_err(cannot_use(to))?.is_none() {
        return Ok(());
    }
    let copied = dir.join("job-copied.toml");
    copies.restore_file(files::JOB, &copied).map_err(cannot_use(to))?;
    let is_same = RawJob::read(&copied).is_ok_and(|copied| job.is_same_as(&copied));
    let _ = std::fs::remove_file(&copied);
    if !is_same {
        return Err(Failure::Usage(format!(
            "checkpoint.to = {to:?} has the copies of a run of another job; name another place"
        )));
    }
    restore(&copies, to, dir, options)
}

fn restore(
    copies: &StoredRun,
    to: &str,
    run: &Path,
    options: &TrainOptions,
) -> Result<(), Failure> {
    let checkpoints = checkpoint_dir(run);
    let Some(step) = copies.restore(&checkpoints)? else { return Ok(()) };
    options.say(&format!("restored the checkpoint of step {step} from {to}"));
    let beside = COPIED.iter().map(|name| (*name, run.join(name)));
    for (name, path) in beside.chain([(TestLog::FILE, checkpoints.test_log_path())]) {
        copies.restore_file(name, &path).map_err(cannot_use(to))?;
    }
    Ok(())
}

/// Copies the checkpoints of the run that this process coordinates.
pub(crate) fn start(
    plan: &Plan,
    run: &RunDir,
    log: Arc<TaskLog>,
) -> Result<Option<RunCopier>, Failure> {
    let Some((copies, to)) = copies(plan)? else { return Ok(None) };
    let checkpoints = checkpoint_dir(run.path());
    let mut beside: Vec<_> =
        COPIED.iter().map(|name| ((*name).to_owned(), run.path().join(name))).collect();
    beside.push((TestLog::FILE.to_owned(), checkpoints.test_log_path()));
    let keep = plan.checkpoint.map_or(1, |checkpoint| checkpoint.keep);
    let note = move |text: &str| log.info(text);
    let copier = Copier::start(copies, checkpoints, keep, beside, note).map_err(cannot_use(to))?;
    let takes_checkpoints = plan.checkpoint.is_some();
    Ok(Some(RunCopier { copier, to: to.to_owned(), run: run.clone(), takes_checkpoints }))
}

/// Copies the checkpoints of a run while it trains.
pub(crate) struct RunCopier {
    copier: Copier,
    to: String,
    run: RunDir,
    takes_checkpoints: bool,
}

impl RunCopier {
    /// Copies what the run has left, at its end.
    pub(crate) fn finish(self, stop: &StopSource) {
        let started = Instant::now();
        let limit = || if stop.signal().is_some() { SIGNAL_LIMIT } else { SERVERS_LIMIT };
        while self.awaits_checkpoint() && started.elapsed() < limit() {
            thread::sleep(LOOK_EVERY);
        }
        let Self { copier, to, .. } = self;
        let mut is_noted = false;
        let mut gives_up = || {
            if started.elapsed() >= NOTE_AFTER && !is_noted {
                is_noted = true;
                write_line(&format!("copying the last files to {to}"));
            }
            stop.signal().is_some() && started.elapsed() >= SIGNAL_LIMIT
        };
        if let Err(why) = copier.finish(LAST_LIMIT, &mut gives_up) {
            write_line(&format!("warning: the copy in {to} is not complete: {why}"));
        }
    }

    /// Whether servers still write the checkpoint of the last step.
    fn awaits_checkpoint(&self) -> bool {
        let last = read_summary(&self.run).map(|summary| summary.global_steps);
        let is_missing = |step| step > 0 && !checkpoint_dir(self.run.path()).is_complete(step);
        self.takes_checkpoints && last.is_ok_and(is_missing)
    }
}
