//! The verdict and the ranking of a run that has not ended, from its curves so far and by the same
//! rules as at the end.

use paceline_observe::{
    Facts, GradientTime, Phase, Rank, ServerFacts, Verdict, WorkerFacts, ranking, verdict,
};
use paceline_record::names::{
    FIRST_SERVER_FOLDER, columns, has_role, roles, tags, task_folder, task_of_folder,
};

use super::run_reader::RunReader;
use super::series::Series;

/// What limits the run so far; none before its workers have recorded their phases.
pub(crate) fn verdict_so_far(run: &RunReader, mode: &str) -> Option<Verdict> {
    let workers: Vec<_> = run.tasks().filter_map(|task| worker_facts(run, task)).collect();
    if workers.is_empty() {
        return None;
    }
    let mean_over_workers = |of: &dyn Fn(&str) -> Option<f64>| {
        let means = workers.iter().filter_map(|worker| of(&task_folder(&worker.task)));
        let (sum, count) = means.fold((0.0, 0.0), |(sum, count), mean| (sum + mean, count + 1.0));
        (count > 0.0).then(|| sum / count)
    };
    let disk_wait = mean_over_workers(&|task| resource_share(run, task, columns::CPU_WAIT_PERCENT));
    let cores_busy = mean_over_workers(&|task| cores_busy(run, task));
    let others_load = mean_over_workers(&|task| busy_cores(run, task)).and_then(|busy_cores| {
        let cpu = |task| resource_share(run, task, columns::TASK_CPU_PERCENT);
        let own_cores: f64 = run.tasks().filter_map(cpu).sum();
        (busy_cores > 0.0).then(|| (1.0 - own_cores / busy_cores).clamp(0.0, 1.0))
    });
    let count = workers.len() as f64;
    Some(verdict(&Facts {
        mode: mode.to_owned(),
        servers: run.tasks().filter_map(|task| server_facts(run, task, count)).collect(),
        workers,
        cores_busy,
        others_load: others_load.unwrap_or_default(),
        disk_wait: disk_wait.unwrap_or_default(),
        staleness: mean(run, FIRST_SERVER_FOLDER, tags::STALENESS),
        final_test_s: 0.0,
    }))
}

/// The workers by their latest time to a gradient, the slowest first.
pub(crate) fn ranking_so_far(run: &RunReader) -> Vec<Rank> {
    let compute = tags::phase_percent(Phase::Compute.name());
    let workers = run.tasks().filter(|task| run.series(task, &compute).is_some());
    let times = workers.filter_map(|task| {
        let measured = server_measurement(run, task, tags::WORKER_GRADIENT_MS);
        let latest = measured.and_then(Series::last);
        let latest = latest.or_else(|| run.series(task, tags::GRADIENT_MS)?.last())?;
        Some(GradientTime::new(task_of_folder(task), latest.mean.into()))
    });
    ranking(times.collect())
}

fn worker_facts(run: &RunReader, task: &str) -> Option<WorkerFacts> {
    let share = |phase: Phase| mean(run, task, &tags::phase_percent(phase.name()));
    let compute = share(Phase::Compute)?;
    let series = run.series(task, &tags::phase_percent(Phase::Compute.name()))?;
    let seconds = (series.last()?.wall_seconds - series.first()?.wall_seconds).max(1.0);
    let spent = |percent: f64| percent / 100.0 * seconds;
    let exchange = [Phase::Pull, Phase::Push, Phase::Wait];
    let exchange = exchange.map(|phase| share(phase).unwrap_or_default());
    let held = server_measurement(run, task, tags::WORKER_HELD_PERCENT).and_then(Series::mean);
    let tested = mean(run, task, tags::EVALUATION_PERCENT).unwrap_or_default();
    let delayed = mean(run, task, tags::RUN_DELAY_PERCENT).unwrap_or_default();
    // Runs of earlier versions have the sum alone.
    let compute_delayed = mean(run, task, tags::COMPUTE_DELAY_PERCENT).unwrap_or_default();
    let sent = mean(run, task, &tags::resource(columns::TASK_SENT_BYTES_PER_S));
    let own = mean(run, task, tags::GRADIENT_MS);
    let measured = server_measurement(run, task, tags::WORKER_GRADIENT_MS).and_then(Series::mean);
    Some(WorkerFacts {
        task: task_of_folder(task),
        input_s: spent(share(Phase::Input).unwrap_or_default()),
        compute_s: spent(compute),
        // The curve of phase `wait` has the tests too.
        exchange_s: spent((exchange.iter().sum::<f64>() - tested).max(0.0)),
        evaluation_s: spent(tested),
        held_s: spent(held.unwrap_or_default()),
        // The curve has the delay of the threads that compute, too.
        run_delay_s: spent((delayed - compute_delayed).max(0.0)),
        compute_delay_s: spent(compute_delayed),
        loop_cpu_s: mean(run, task, tags::LOOP_CPU_PERCENT).map(spent),
        gradient_ms: measured.filter(|ms| *ms > 0.0).or(own).unwrap_or_default(),
        sent_bytes_per_s: sent.unwrap_or_default(),
    })
}

/// What a server does. In runs of earlier versions, which have no curve of it, its processor time
/// stands in for the share of the time that it works for a worker.
fn server_facts(run: &RunReader, task: &str, workers: f64) -> Option<ServerFacts> {
    if !has_role(task, roles::PS) {
        return None;
    }
    let cpu = mean(run, task, &tags::resource(columns::TASK_CPU_PERCENT))?;
    let sent = mean(run, task, &tags::resource(columns::TASK_SENT_BYTES_PER_S));
    let busy = mean(run, task, tags::SERVER_BUSY_PERCENT).unwrap_or(cpu / workers);
    let busy_cores = busy_cores(run, task).filter(|busy| *busy > 0.0);
    let own_load = busy_cores.map(|busy_cores| (cpu / 100.0 / busy_cores).clamp(0.0, 1.0));
    Some(ServerFacts {
        task: task_of_folder(task),
        busy: (busy / 100.0).clamp(0.0, 1.0),
        run_delay: mean(run, task, tags::RUN_DELAY_PERCENT).unwrap_or_default() / 100.0,
        own_load: own_load.unwrap_or_default(),
        cores_busy: cores_busy(run, task),
        sent_bytes_per_s: sent.unwrap_or_default(),
        link_mbit_per_s: mean(run, task, tags::LINK_MBIT_PER_S),
    })
}

/// How busy the cores of a task's machine are, 0 to 1; none if the task is not sampled.
fn cores_busy(run: &RunReader, task: &str) -> Option<f64> {
    let waiting = resource_share(run, task, columns::CPU_WAIT_PERCENT).unwrap_or_default();
    let idle = resource_share(run, task, columns::CPU_IDLE_PERCENT)?;
    Some((1.0 - idle - waiting).clamp(0.0, 1.0))
}

/// The number of busy cores of a task's machine; none if the task is not sampled.
fn busy_cores(run: &RunReader, task: &str) -> Option<f64> {
    Some(cores_busy(run, task)? * mean(run, task, tags::MACHINE_CORES)?)
}

/// The mean of a resource that is sampled in percent, as a share from 0 to 1.
fn resource_share(run: &RunReader, task: &str, column: &str) -> Option<f64> {
    Some(mean(run, task, &tags::resource(column))? / 100.0)
}

/// What the first server measured of a worker.
fn server_measurement<'a>(run: &'a RunReader, worker: &str, figure: &str) -> Option<&'a Series> {
    run.series(FIRST_SERVER_FOLDER, &tags::worker(worker, figure))
}

fn mean(run: &RunReader, task: &str, tag: &str) -> Option<f64> {
    run.series(task, tag)?.mean()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use paceline_observe::VerdictKind;
    use paceline_record::EventWriter;

    use super::*;

    fn write(dir: &std::path::Path, task: &str, figures: &[(&str, f32)]) {
        let mut events = EventWriter::create(&dir.join(task)).unwrap();
        for (tag, figure) in figures {
            let tag = events.tag(tag);
            (0..3).for_each(|i| events.scalar_at(&tag, i, *figure, 100.0 + i as f64).unwrap());
        }
        events.flush().unwrap();
    }

    #[test]
    fn a_running_run_gets_the_verdict_that_it_would_get_at_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let mut run = RunReader::new(dir.path());
        assert!(verdict_so_far(&run, "sync").is_none() && ranking_so_far(&run).is_empty());
        let busy = [("work_phases/compute_percent", 90.0), ("work_phases/wait_percent", 10.0)];
        let waits = [("work_phases/compute_percent", 10.0), ("work_phases/wait_percent", 90.0)];
        write(dir.path(), "worker_0", &waits);
        write(dir.path(), "worker_1", &waits);
        write(dir.path(), "worker_2", &busy);
        let seen = [
            ("work_pace/worker_0/gradient_ms", 10.0),
            ("work_pace/worker_1/gradient_ms", 11.0),
            ("work_pace/worker_2/gradient_ms", 90.0),
            ("work_pace/worker_0/held_percent", 85.0),
            ("work_pace/worker_1/held_percent", 85.0),
        ];
        write(dir.path(), "ps_0", &seen);
        run.refresh();
        let ranks = ranking_so_far(&run);
        assert_eq!((ranks[0].task.as_str(), ranks[0].gradient_ms), ("worker:2", 90.0));
        let verdict = verdict_so_far(&run, "sync").unwrap();
        assert_eq!(verdict.kind, VerdictKind::Stragglers, "{verdict:?}");
    }

    #[test]
    fn a_running_run_gets_every_figure_that_the_verdict_at_its_end_uses() {
        let dir = tempfile::tempdir().unwrap();
        // As a loop that computes while its exchange travels: it only sleeps when it waits.
        let worker = [
            ("work_phases/compute_percent", 60.0),
            ("work_phases/wait_percent", 40.0),
            ("work_pace/run_delay_percent", 35.0),
            ("work_pace/compute_delay_percent", 5.0),
            ("work_pace/loop_cpu_percent", 30.0),
            ("work_pace/machine_cores", 2.0),
        ];
        let server = [
            ("work_pace/busy_percent", 10.0),
            ("work_pace/run_delay_percent", 20.0),
            ("work_pace/machine_cores", 2.0),
            ("work_pace/link_mbit_per_s", 1000.0),
        ];
        for (task, curves, cpu) in
            [("worker_0", &worker[..], 20), ("worker_1", &worker, 20), ("ps_0", &server, 100)]
        {
            write(dir.path(), task, curves);
            let rows: String = (1..4).map(|i| format!("10{i},{i},0,{cpu}\n")).collect();
            let table = format!("time_s,step,cpu_idle_percent,task_cpu_percent\n{rows}");
            fs::write(dir.path().join(task).join("resources.csv"), table).unwrap();
        }
        let mut run = RunReader::new(dir.path());
        run.refresh();
        let seen = worker_facts(&run, "worker_0").unwrap();
        let close = |a: f64, b: f64| (a - b).abs() < 1e-6;
        assert!(close(seen.run_delay_s, 0.6) && close(seen.compute_delay_s, 0.1), "{seen:?}");
        assert!(seen.loop_cpu_s.is_some_and(|cpu| close(cpu, 0.6)), "{seen:?}");
        let served = server_facts(&run, "ps_0", 2.0).unwrap();
        assert!(close(served.busy, 0.1) && close(served.run_delay, 0.2), "{served:?}");
        assert!(close(served.own_load, 0.5), "{served:?}");
        assert_eq!(served.link_mbit_per_s, Some(1000.0));
        // 140 of 200 percent are the run's own.
        let verdict = verdict_so_far(&run, "async").unwrap();
        assert_eq!(verdict.kind, VerdictKind::Cores, "{verdict:?}");
    }
}
