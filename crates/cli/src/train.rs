//! `paceline train`: runs the whole job, launches its tasks, or runs one task.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use paceline_engine::checkpoint::{PlanOrigin, ResumePoint, ResumeRequest, ResumedModel};
use paceline_engine::{Mode, TaskPlace, TrainingTask, WorkerEntry, run_worker};
use paceline_place::{Cluster, LauncherChannel, Placement, Role};
use paceline_record::names::files;
use paceline_record::unfinished_files;

use crate::Failure;
use crate::checkpoint_copies;
use crate::data_display::DataDisplay;
use crate::end_limit::TaskActivity;
use crate::interrupt::Interrupt;
use crate::launch::launch;
use crate::load_data::load_data;
use crate::model_memory::{check_model_memory, table_limit};
use crate::placed::{PlacedProcess, find_placement, show_finished, start_of_one_task};
use crate::progress::Progress;
use crate::start_file::open_start;
use crate::stop_source::StopSource;
use crate::task::{TaskStart, run_task};
use crate::task_context::{ProgramContext, TaskIdentity, warn_of_test_set};
use crate::test_hooks;
use crate::train_options::{
    FinishedRun, TrainOptions, announcement, checkpoint_dir, record_failure, resume_line,
};
use crate::workload::build_workload;
use paceline_job::{Plan, RawJob, shape_of};

/// Trains a job: in this process, as the launcher of its tasks, or as one task. A task
/// that was launched has no result to show.
pub fn train(
    job: &RawJob,
    options: &TrainOptions,
    interrupt: &Interrupt,
    channel: Option<&LauncherChannel>,
) -> Result<Option<FinishedRun>, Failure> {
    let placement = find_placement(&options.place)?;
    let job = &job.placed_in(&placement);
    let plan = job.check()?;
    let stop = StopSource { interrupt: interrupt.clone(), channel: channel.cloned() };
    let signals = stop.clone();
    check_placement(&placement, &plan, options)?;
    let mut options = Cow::Borrowed(options);
    if let (Placement::Local, None) = (&placement, channel)
        && let Some(start) = start_of_one_task(job, &plan, &options)?
    {
        if start.is_finished {
            return show_finished(&options, &start.dir).map(Some);
        }
        options = Cow::Owned(options.starting(&start));
    }
    let options = &*options;
    if channel.is_none() {
        checkpoint_copies::prepare(&plan, options, &placement)?;
    }
    let trained = match (plan.cluster.mode, placement) {
        (Mode::Single, _) => train_single(job, &plan, options, stop).map(Some),
        (_, Placement::Listed(cluster)) => {
            let start = TaskStart::listed(cluster, &plan, &stop)?;
            run_task(job, &plan, start, options, stop)
        }
        (_, Placement::Ranked(place)) => PlacedProcess::new(job, &plan, &place, options).run(stop),
        (_, Placement::Local) => launch(job, &plan, options, interrupt).map(Some),
    };
    trained.map_err(|failure| failure.with_signal(signals.signal()))
}

/// Refuses a place that the job or the command line cannot use.
fn check_placement(
    placement: &Placement,
    plan: &Plan,
    options: &TrainOptions,
) -> Result<(), Failure> {
    let is_single = plan.cluster.mode == Mode::Single;
    let source = match placement {
        Placement::Local if plan.cluster.files_port.is_some() => {
            return Err(Failure::Usage(
                "cluster.files_port is for tasks on several machines, which TF_CONFIG or a \
                 scheduler starts; here this command starts all tasks, and they share the run \
                 directory: leave cluster.files_port out"
                    .into(),
            ));
        }
        Placement::Local => return Ok(()),
        Placement::Listed(cluster) if is_single && cluster.slots() > 1 => {
            return Err(Failure::Usage(format!(
                "TF_CONFIG lists {} workers, but cluster.mode is single; choose another mode",
                cluster.slots()
            )));
        }
        Placement::Listed(cluster) if is_single && !is_one_worker(cluster) => {
            return Err(Failure::Usage(format!(
                "cluster.mode is single, which has neither servers nor an evaluator, but \
                 TF_CONFIG lists servers or makes this task an evaluator: it is {}; each task \
                 would train the whole job: choose another mode, or empty TF_CONFIG",
                cluster.task
            )));
        }
        Placement::Listed(_) => "TF_CONFIG".to_owned(),
        Placement::Ranked(place) if is_single => {
            return Err(Failure::Usage(format!(
                "{} starts {} processes, but cluster.mode is single; choose another mode, or add \
                 --local if each process should make its own run",
                place.describe(),
                place.size
            )));
        }
        Placement::Ranked(place) => place.rule.to_string(),
    };
    if options.watch.is_some() {
        return Err(Failure::Usage(format!(
            "--watch is for runs that this command starts, but {source} makes it one task of \
             many; use `paceline watch RUN` on the machine of the run directory"
        )));
    }
    Ok(())
}

/// Whether the cluster has nothing but workers, as far as this task can tell.
fn is_one_worker(cluster: &Cluster) -> bool {
    cluster.count(Role::Ps) == 0 && cluster.task.role != Role::Evaluator
}

/// Trains a whole run in this process.
fn train_single(
    job: &RawJob,
    plan: &Plan,
    options: &TrainOptions,
    stop: StopSource,
) -> Result<FinishedRun, Failure> {
    let activity = TaskActivity::default();
    activity.enforce(stop.clone())?;
    let progress = Progress::new(options.quiet);
    let data = load_data(job, plan, &mut DataDisplay::new(options.quiet, &stop))?;
    check_model_memory(job, plan, shape_of(&data))?;
    let workload = build_workload(plan, data);
    let mut settings = plan.settings(job.run_identity(&[]), test_hooks::from_env());
    settings.table_memory = table_limit(settings.table_memory);
    if options.resume.is_none() {
        settings.start = open_start(job, plan, &|text| options.say(text))?;
    }
    let threads = plan.threads(1);
    let place = TaskPlace {
        slots: if workload.is_sparse() { threads.per_loop(1) } else { 1 },
        ..TaskPlace::single()
    };
    let checkpoint = options.checkpoint()?;
    let layout = workload.layout()?;
    let request = ResumeRequest {
        steps: settings.step_layout(place.slots),
        end: settings.stop.planned_end(),
        examples: workload.data.train_len(),
        model: Some(ResumedModel { layout: &layout, optimizer: &settings.optimizer }),
    };
    let from = checkpoint.clone().map(|checkpoint| request.resume_point(checkpoint)).transpose()?;
    let run = options.open_run(&plan.name, checkpoint.as_ref())?;
    stop.interrupt.remove_unfinished(unfinished_files(run.path()));
    run.write(files::JOB, job.explain().as_bytes())?;
    let identity = TaskIdentity { name: place.name.clone(), ..TaskIdentity::default() };
    let signals = stop.clone();
    let context = ProgramContext::new(plan, identity, &run, stop, activity.clone())?
        .with_room_for(&layout)
        .leading(progress, workload.small_model()?.graph(), &workload.data)?;
    context.say(&announcement(plan, &workload.data, run.path()));
    warn_of_test_set(&context, &workload);
    let log = context.log();
    from.iter().for_each(|from| context.say(&resume_line(from.step())));
    let task = TrainingTask {
        run_name: &plan.name,
        settings: &settings,
        workload: &workload,
        place: &place,
        context: Arc::new(context),
        threads,
        test_threads: plan.test_threads(),
        checkpoints: Some(&checkpoint_dir(run.path())),
        origin: from.as_ref().map_or(PlanOrigin::default(), ResumePoint::origin),
        from: from.as_ref(),
        started: Instant::now(),
    };
    activity.start();
    let copier = checkpoint_copies::start(plan, &run, log)?;
    let report = run_worker(&task, WorkerEntry::Planned(None));
    copier.into_iter().for_each(|copier| copier.finish(&signals));
    let report = report.inspect_err(|error| record_failure(&run, error))?;
    let Some(report) = report else { unreachable!("the only worker of a run leads it") };
    Ok(FinishedRun::new(&run, report))
}
