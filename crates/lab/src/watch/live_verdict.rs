//! The verdict and the ranking of a run that has not come to its end: from what its tasks tell as
//! they go, by the same rules as at the end.

use paceline_observe::{Facts, Rank, ServerFacts, Verdict, WorkerFacts, ranking, verdict};

use super::run_reader::RunReader;

/// What holds the run back so far; none before its workers have told anything.
pub(crate) fn verdict_so_far(run: &RunReader, mode: &str) -> Option<Verdict> {
    let workers: Vec<_> = run.tasks().filter_map(|task| worker(run, task)).collect();
    if workers.is_empty() {
        return None;
    }
    let mean_of = |of: &dyn Fn(&str) -> Option<f64>| {
        let means = workers.iter().filter_map(|worker| of(&folder(&worker.task)));
        let (sum, count) = means.fold((0.0, 0.0), |(sum, count), mean| (sum + mean, count + 1.0));
        (count > 0.0).then(|| sum / count)
    };
    let disk_wait = mean_of(&|task| share(run, task, "cpu_wait_percent")).unwrap_or_default();
    let cores_busy = mean_of(&|task| cores_busy(run, task));
    let count = workers.len() as f64;
    let servers = run.tasks().filter_map(|task| server(run, task, count)).collect();
    let (mode, staleness) = (mode.to_owned(), mean(run, "ps_0", "pace/staleness"));
    Some(verdict(&Facts { mode, workers, servers, cores_busy, disk_wait, staleness }))
}

/// The workers by their time to a gradient of late, the slowest first.
pub(crate) fn ranking_so_far(run: &RunReader) -> Vec<Rank> {
    let is_worker = |task: &&str| run.series(task, "phases/compute_percent").is_some();
    let times = run.tasks().filter(is_worker).filter_map(|task| {
        let tag = "pace/gradient_ms";
        let seen = seen_by_server(run, task, "gradient_ms").and_then(|series| series.last());
        let last = seen.or_else(|| run.series(task, tag)?.last())?;
        Some((name(task), f64::from(last.mean)))
    });
    ranking(&times.collect::<Vec<_>>())
}

fn worker(run: &RunReader, task: &str) -> Option<WorkerFacts> {
    let share = |phase: &str| mean(run, task, &format!("phases/{phase}_percent"));
    let compute = share("compute")?;
    let series = run.series(task, "phases/compute_percent")?;
    let seconds = (series.last()?.wall_seconds - series.first()?.wall_seconds).max(1.0);
    let spent = |percent: f64| percent / 100.0 * seconds;
    let others = ["pull", "push", "wait"].map(|phase| share(phase).unwrap_or_default());
    let held = seen_by_server(run, task, "held_percent").and_then(|series| series.mean());
    let own = mean(run, task, "pace/gradient_ms");
    let seen = seen_by_server(run, task, "gradient_ms").and_then(|series| series.mean());
    Some(WorkerFacts {
        task: name(task),
        input_s: spent(share("input").unwrap_or_default()),
        compute_s: spent(compute),
        exchange_s: spent(others.iter().sum()),
        evaluation_s: spent(share("evaluation").unwrap_or_default()),
        held_s: spent(held.unwrap_or_default()),
        gradient_ms: seen.filter(|ms| *ms > 0.0).or(own).unwrap_or_default(),
    })
}

/// How busy a server is for a worker is told exactly at the end; until then by its processor time,
/// as nearly all that it does for them costs some.
fn server(run: &RunReader, task: &str, workers: f64) -> Option<ServerFacts> {
    if !task.starts_with("ps_") {
        return None;
    }
    let cpu = mean(run, task, "resources/task_cpu_percent")?;
    let sent = mean(run, task, "resources/task_sent_bytes_per_s").unwrap_or_default();
    let busy = (cpu / 100.0 / workers).clamp(0.0, 1.0);
    Some(ServerFacts {
        task: name(task),
        busy,
        cores_busy: cores_busy(run, task),
        sent_bytes_per_s: sent,
        link_mbit_per_s: None,
    })
}

/// How busy the cores of a task's machine are, 0 to 1, if it looks.
fn cores_busy(run: &RunReader, task: &str) -> Option<f64> {
    let waited = share(run, task, "cpu_wait_percent").unwrap_or_default();
    share(run, task, "cpu_idle_percent").map(|idle| (1.0 - idle - waited).clamp(0.0, 1.0))
}

/// The mean of a resource that is told in percent, as a share.
fn share(run: &RunReader, task: &str, column: &str) -> Option<f64> {
    Some(mean(run, task, &format!("resources/{column}"))? / 100.0)
}

/// What the first server has seen of a worker.
fn seen_by_server<'a>(run: &'a RunReader, worker: &str, what: &str) -> Option<&'a super::Series> {
    run.series("ps_0", &format!("pace/{worker}/{what}"))
}

fn mean(run: &RunReader, task: &str, tag: &str) -> Option<f64> {
    run.series(task, tag)?.mean()
}

/// A task's name from its folder's.
pub(crate) fn name(folder: &str) -> String {
    folder.rsplit_once('_').map_or(folder.into(), |(role, number)| format!("{role}:{number}"))
}

fn folder(task: &str) -> String {
    task.replace(':', "_")
}

#[cfg(test)]
mod tests {
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
    fn a_run_is_judged_while_it_runs_as_it_would_be_at_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let mut run = RunReader::new(dir.path());
        assert!(verdict_so_far(&run, "sync").is_none() && ranking_so_far(&run).is_empty());
        let busy = [("phases/compute_percent", 90.0), ("phases/wait_percent", 10.0)];
        let waits = [("phases/compute_percent", 10.0), ("phases/wait_percent", 90.0)];
        write(dir.path(), "worker_0", &waits);
        write(dir.path(), "worker_1", &waits);
        write(dir.path(), "worker_2", &busy);
        let seen = [
            ("pace/worker_0/gradient_ms", 10.0),
            ("pace/worker_1/gradient_ms", 11.0),
            ("pace/worker_2/gradient_ms", 90.0),
            ("pace/worker_0/held_percent", 85.0),
            ("pace/worker_1/held_percent", 85.0),
        ];
        write(dir.path(), "ps_0", &seen);
        run.refresh();
        let ranks = ranking_so_far(&run);
        assert_eq!((ranks[0].task.as_str(), ranks[0].gradient_ms), ("worker:2", 90.0));
        let verdict = verdict_so_far(&run, "sync").unwrap();
        assert_eq!(verdict.kind, VerdictKind::Stragglers, "{verdict:?}");
    }
}
