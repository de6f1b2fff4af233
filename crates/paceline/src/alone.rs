//! A run without other tasks: mode `single`.

use std::sync::Arc;
use std::thread;

use paceline_data::SparseRows;
use paceline_model::{Layout, Logistic, Model};

use crate::Failure;
use crate::build::{Room, build_dense_worker, build_examiner, build_model, follow_rows};
use crate::checkpoint::{Keeper, Origin, Resumption, Shape, Terms};
use crate::chief::{Chief, Orders, StopReason};
use crate::cluster::{Role, Task};
use crate::interrupt::Interrupt;
use crate::job::{Plan, RawJob};
use crate::link::{Link, Local};
use crate::metrics::Metrics;
use crate::progress::{Progress, write_line};
use crate::rows::{InPlaceWorker, LocalRows, RowWorker, SharedTable};
use crate::source::{Data, load_data};
use crate::tester::{Aside, InBetween, Tests};
use crate::trace::{Tracer, recorded};
use crate::train::{
    Finished, Options, all_steps, announcement, check_unfinished, description, ending,
    event_log_config, resumed, save_model, signal_of, summarise, worker_summary, write_summary,
};
use crate::worker::{Desk, Trainer, Work};
use paceline_observe::{Recorder, RunStart};
use paceline_record::EventLog;
use paceline_record::RunDir;
use paceline_record::TaskLog;
use paceline_record::names::files;
use paceline_record::timeline::finish_timeline;

/// What the one task of a run without others is called.
const ALONE: Task = Task { role: Role::Worker, index: 0 };

/// A whole run in this process.
pub(crate) fn train_single(
    job: &RawJob,
    plan: &Plan,
    options: &Options,
    interrupt: &Interrupt,
) -> Result<Finished, Failure> {
    let progress = Progress::new(options.quiet);
    let data = load_data(job, plan, &mut |text| progress.say(text))?;
    let checkpoint = options.checkpoint()?;
    let slots = if plan.model.is_sparse() { plan.threads_here(1) } else { 1 };
    let shape = Shape::of(plan, slots);
    let from = checkpoint.clone().map(|checkpoint| Resumption::new(checkpoint, shape));
    if let Some(from) = &from {
        check_unfinished(plan, from, data.train_len())?;
        let model = build_model(plan, data.shape(), Room::LEAST)?;
        from.check(model.layout(), &plan.optimizer)?;
    }
    let run = options.open_run(&plan.name, checkpoint.as_ref())?;
    run.write(files::JOB, job.explain().as_bytes())?;
    let progress = progress.with_log(Arc::new(TaskLog::create(&run, ALONE)?));
    progress.say(&announcement(plan, &data, run.path()));
    let from = from.as_ref();
    from.iter().for_each(|from| progress.say(&resumed(from.step())));
    let alone = Alone { job, plan, data: &data, run: &run, interrupt, shape, from };
    match &data {
        Data::Rows(set) if plan.model.is_sparse() => alone.train_rows(&set.train, progress),
        _ => alone.train_dense(progress),
    }
}

/// A run without other tasks.
struct Alone<'a> {
    job: &'a RawJob,
    plan: &'a Plan,
    data: &'a Data,
    run: &'a RunDir,
    interrupt: &'a Interrupt,
    shape: Shape,
    /// What the run goes on from, if it does.
    from: Option<&'a Resumption>,
}

impl<'a> Alone<'a> {
    fn train_dense(&self, progress: Progress) -> Result<Finished, Failure> {
        let batches = self.data.batches(self.plan, 1, self.origin());
        let steps = batches.steps();
        let model = build_model(self.plan, self.data.shape(), Room::LEAST)?;
        let mut link = match self.from {
            None => Local::new(&*model, self.plan.seed, self.plan.optimizer),
            Some(from) => Local::resume(&*model, self.plan.optimizer, from)?,
        };
        link.keep(self.keeper(model.layout())?);
        drop(model);
        let threads = self.plan.threads_here(1);
        let tracer = self.plan.observe_trace.map(Tracer::new);
        let tracer = tracer.as_ref();
        let examiner = build_examiner(self.plan, self.data, self.plan.test_threads())?;
        let tests = InBetween::new(recorded(tracer, examiner));
        let slot = (0, batches);
        let worker =
            build_dense_worker(self.plan, self.data, slot, threads, (self.desk()?, tracer))?;
        let chief = self.chief(steps, Box::new(tests), false, progress);
        self.carry_out(worker, &mut link, chief, |worker, link, chief| worker.run(link, chief))
    }

    /// One thread, or several that share the table without locks. Tests are made on a thread of
    /// their own, while training goes on.
    fn train_rows(&self, rows: &'a SparseRows, progress: Progress) -> Result<Finished, Failure> {
        let threads = self.plan.threads_here(1);
        let batches = self.data.batches(self.plan, threads, self.origin());
        let steps = all_steps(&batches, self.shape, self.origin());
        let model = Logistic::new(rows.features());
        let (optimizer, layout) = (self.plan.optimizer, model.layout());
        let shared = match self.from {
            None => SharedTable::new(optimizer, layout, threads),
            Some(from) => SharedTable::resume(optimizer, layout, threads, from)?,
        };
        if shared.steps_in_place() {
            let worker = |slot, desk| InPlaceWorker::new(slot, batches.clone(), rows, desk);
            self.train_shared(rows, &shared, worker, steps, progress)
        } else {
            let worker = |slot, desk| RowWorker::new(slot, batches.clone(), rows, desk);
            self.train_shared(rows, &shared, worker, steps, progress)
        }
    }

    fn train_shared<W: for<'t> Trainer<LocalRows<'t>> + Send>(
        &self,
        rows: &'a SparseRows,
        shared: &SharedTable,
        worker: impl Fn(usize, Desk) -> W,
        steps: u64,
        progress: Progress,
    ) -> Result<Finished, Failure> {
        let threads = self.plan.threads_here(1);
        thread::scope(|scope| {
            let tracer = self.plan.observe_trace.map(Tracer::new);
            let tracer = tracer.as_ref();
            let examiner = recorded(tracer, build_examiner(self.plan, self.data, 1)?);
            let tests = Aside::start(scope, examiner);
            // A test that may end the run must be over before the next one is due.
            let reproducible = threads == 1 && self.plan.stop.test_loss.is_some();
            let mut desk = self.desk()?;
            desk.trace = follow_rows(tracer, self.plan, rows.features());
            let first = worker(0, desk);
            let chief = self.chief(steps, Box::new(tests), reproducible, progress);
            let mut link = LocalRows::new(shared, 0);
            link.keep(self.keeper(first.layout())?);
            self.carry_out(first, &mut link, chief, |first, link, chief| {
                let others: Vec<_> = (1..threads)
                    .map(|slot| {
                        let mut other = worker(slot, Desk::open(None, 1.0));
                        let mut link = LocalRows::new(shared, slot);
                        scope.spawn(move || other.run(&mut link, None))
                    })
                    .collect();
                let work = first.run(link, chief);
                if !matches!(&work, Ok(Work { reason: Some(StopReason::Epochs), .. })) {
                    shared.stop();
                }
                others.into_iter().try_fold(work?, |sum, other| {
                    let Ok(work) = other.join() else { unreachable!("a panic ends the scope") };
                    Ok(sum.with(&work?))
                })
            })
        })
    }

    fn desk(&self) -> Result<Desk, Failure> {
        let model = build_model(self.plan, self.data.shape(), Room::LEAST)?;
        let folder = self.run.task(&ALONE.to_string());
        let mut config = event_log_config(self.plan, &ALONE.to_string());
        config.description = Some(description(self.plan, &*model));
        let mut board = EventLog::create(&folder, config)?;
        let start = self.from.map(|from| RunStart::Resumed { step: from.step() });
        board.start(start.unwrap_or(RunStart::New)).map_err(Failure::recording)?;
        let metrics = Metrics::start(self.plan, (&ALONE.to_string(), 0), Vec::new(), &folder)?;
        Ok(Desk { metrics, ..Desk::open(Some(board), 1.0) })
    }

    fn origin(&self) -> Origin {
        self.from.map_or(Origin::default(), Resumption::origin)
    }

    /// Who takes checkpoints, if they are taken.
    fn keeper(&self, layout: &Layout) -> Result<Option<Keeper>, Failure> {
        let (job, walk) = ((self.job, self.plan), (self.shape, self.origin()));
        let terms = Terms::new(self.run, job, layout, walk, (0, 1), "worker-0");
        let warn = |text: &str| write_line(&format!("warning: {text}"));
        let told = move |written: Result<&str, &str>| written.err().into_iter().for_each(warn);
        let keeper = terms.map(|terms| Keeper::start(terms, Box::new(told)));
        keeper.transpose().map_err(|source| Failure::Files {
            what: "cannot start the thread that writes checkpoints".into(),
            source,
        })
    }

    fn chief(
        &self,
        epoch_steps: u64,
        tests: Box<dyn Tests + 'a>,
        reproducible: bool,
        progress: Progress,
    ) -> Chief<'a> {
        let interrupt = self.interrupt;
        Chief::new(Orders {
            joined_at: self.from.map_or(0, Resumption::step),
            stop: self.plan.stop,
            evaluate: self.plan.evaluate,
            checkpoint: self.plan.checkpoint,
            begun_at: self.from.map_or(0, Resumption::step),
            epoch_steps: self.plan.stop.epochs.map(|_| epoch_steps),
            examples_per_step: self.plan.batch,
            tests,
            reproducible,
            progress,
            interrupted: Box::new(|| interrupt.signal()),
        })
    }

    /// Trains, tests for the last time, and leaves everything behind that a run leaves.
    fn carry_out<W: Trainer<L>, L: Link>(
        &self,
        mut worker: W,
        link: &mut L,
        mut chief: Chief<'_>,
        run: impl FnOnce(&mut W, &mut L, Option<&mut Chief<'_>>) -> Result<Work, Failure>,
    ) -> Result<Finished, Failure> {
        let work = run(&mut worker, link, Some(&mut chief));
        chief.finish();
        let work = work.inspect_err(|_| drop(worker.desk().close(false)))?;
        let name = ALONE.to_string();
        let mine = worker_summary(&name, worker.desk(), &work);
        let has_part = worker.desk().leave_trace(&name);
        let score = chief.final_test(link, worker.desk().board.as_mut())?;
        worker.desk().close(true)?;
        chief.final_checkpoint(link)?;
        save_model(self.run, worker.layout(), link)?;
        let (reason, step) = (chief.reason().or(work.reason), link.global_step());
        let summary = summarise(self.plan, (1, 0), reason, step, &chief, score, vec![mine]);
        chief.note(&ending(&summary));
        write_summary(self.run, &summary)?;
        if let Some(window) = self.plan.observe_trace {
            let warnings = finish_timeline(self.run.path(), window, has_part, &[name]);
            warnings.iter().for_each(|warning| write_line(&format!("warning: {warning}")));
        }
        let run = self.run.path().to_owned();
        Ok(Finished { run, summary, signal: signal_of(reason) })
    }
}
