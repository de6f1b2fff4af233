//! The verdict on a run and the ranking of its workers, from the tasks' reports.
//!
//! Each task reports its part: a worker how long its exchanges took, server 0 how long each worker
//! took for a gradient and waited for others, the coordinator how long it tested. This module
//! combines the parts for [`verdict()`](crate::verdict()).

use crate::pace::{GradientTime, Rank, ranking};
use crate::phases::{IDLE, Phase};
use crate::resources::column;
use crate::task_summary::{TaskSummary, WorkerTiming};
use crate::verdict::{Facts, ServerFacts, Verdict, WorkerFacts, verdict};

/// What limited a run, and which of its workers were slow.
#[derive(Clone, Debug)]
pub struct RunVerdict {
    /// What limited the run.
    pub verdict: Verdict,
    /// The workers by their time to a gradient, the slowest first.
    pub ranking: Vec<Rank>,
}

/// Assigns server 0's timings to the workers, judges the run and ranks the workers.
pub fn judge(mode: &str, tasks: &mut [TaskSummary]) -> RunVerdict {
    assign_timings(tasks);
    let (workers, servers): (Vec<_>, Vec<_>) = tasks.iter().partition(|task| computes(task));
    let times = workers.iter().map(|task| GradientTime {
        task: task.task.clone(),
        mean_ms: task.gradient_ms.unwrap_or(0.0),
    });
    let ranking = ranking(times.collect());
    let trained_s = workers.iter().map(|task| task.training_seconds()).fold(0.0, f64::max);
    let facts = Facts {
        mode: mode.to_owned(),
        workers: workers.iter().map(|task| worker_facts(task)).collect(),
        servers: servers.iter().map(|task| server_facts(task, trained_s)).collect(),
        cores_busy: mean(workers.iter().filter_map(|task| cores_busy(task))),
        others_load: others_load(&workers, tasks).unwrap_or(0.0),
        disk_wait: mean(workers.iter().filter_map(|task| share(task, column::CPU_WAIT_PERCENT)))
            .unwrap_or(0.0),
        staleness: mean(servers.iter().filter_map(|task| task.staleness_mean)),
        final_test_s: workers.iter().filter_map(|task| task.final_test_seconds).fold(0.0, f64::max),
    };
    RunVerdict { verdict: verdict(&facts), ranking }
}

/// Whether the task has the phases of a worker.
fn computes(task: &TaskSummary) -> bool {
    task.phases.contains_key(Phase::Compute.name())
}

/// Assigns server 0's timings to the workers; the mean if a worker fills several slots.
fn assign_timings(tasks: &mut [TaskSummary]) {
    let seen: Vec<WorkerTiming> =
        tasks.iter_mut().flat_map(|task| std::mem::take(&mut task.workers)).collect();
    for task in tasks.iter_mut().filter(|task| computes(task)) {
        let steps = task.steps.max(1) as f64;
        // Tests between steps are not part of the worker's pace.
        let tested_ms = 1e3 * tested_between_steps(task) / steps;
        let own_s = phase(task, Phase::Input) + phase(task, Phase::Compute);
        let own_ms = 1e3 * own_s / steps;
        let seen = || seen.iter().filter(|seen| seen.task == task.task);
        let gradient_ms = mean(seen().map(|seen| seen.gradient_ms));
        let seen_ms = gradient_ms.map(|gradient_ms| (gradient_ms - tested_ms).max(0.0));
        task.gradient_ms = Some(seen_ms.filter(|ms| *ms > 0.0).unwrap_or(own_ms));
        task.held_seconds = mean(seen().map(|seen| seen.held_seconds));
    }
}

/// How long the coordinator tested before its last step, in seconds.
fn tested_between_steps(task: &TaskSummary) -> f64 {
    let final_test = task.final_test_seconds.unwrap_or(0.0);
    (task.evaluation_seconds.unwrap_or(0.0) - final_test).max(0.0)
}

fn worker_facts(task: &TaskSummary) -> WorkerFacts {
    WorkerFacts {
        task: task.task.clone(),
        input_s: phase(task, Phase::Input),
        compute_s: phase(task, Phase::Compute),
        exchange_s: [Phase::Pull, Phase::Push, Phase::Wait]
            .map(|one| phase(task, one))
            .iter()
            .sum(),
        evaluation_s: tested_between_steps(task),
        held_s: task.held_seconds.unwrap_or(0.0),
        run_delay_s: task.run_delay_seconds.unwrap_or(0.0),
        compute_delay_s: task.compute_delay_seconds.unwrap_or(0.0),
        loop_cpu_s: task.loop_cpu_seconds,
        gradient_ms: task.gradient_ms.unwrap_or(0.0),
        sent_bytes_per_s: task.sent_bytes as f64 / seconds(task),
    }
}

/// The time of a task's steps, above 0.
fn seconds(task: &TaskSummary) -> f64 {
    task.training_seconds().max(f64::MIN_POSITIVE)
}

/// What a server did, in a run whose workers made their steps in `trained_s` seconds. The bytes are
/// those that the server itself counted: samples of a short run may miss most of them.
fn server_facts(task: &TaskSummary, trained_s: f64) -> ServerFacts {
    let seconds = seconds(task);
    let sent_bytes = task.sent_bytes.saturating_sub(task.sent_before_bytes);
    ServerFacts {
        task: task.task.clone(),
        busy: (1.0 - task.phase_seconds(IDLE) / seconds).clamp(0.0, 1.0),
        run_delay: (task.run_delay_seconds.unwrap_or(0.0) / seconds).clamp(0.0, 1.0),
        cores_busy: cores_busy(task),
        own_load: own_load(task).unwrap_or(0.0),
        sent_bytes_per_s: sent_bytes as f64 / trained_s.max(seconds),
        link_mbit_per_s: task.resources.as_ref().and_then(|used| used.link_mbit_per_s),
    }
}

/// How busy the cores of a task's machine were, from 0 to 1, if it was measured.
fn cores_busy(task: &TaskSummary) -> Option<f64> {
    let waited = share(task, column::CPU_WAIT_PERCENT).unwrap_or(0.0);
    share(task, column::CPU_IDLE_PERCENT).map(|idle| (1.0 - idle - waited).clamp(0.0, 1.0))
}

/// The part of the busy time of the workers' machines that other programs took, 0 to 1, if it was
/// measured. It is a lower bound: it assumes that all tasks of the run were on one machine.
fn others_load(workers: &[&TaskSummary], tasks: &[TaskSummary]) -> Option<f64> {
    let busy_cores = mean(workers.iter().filter_map(|task| busy_cores(task)))?;
    let own_cores: f64 =
        tasks.iter().filter_map(|task| share(task, column::TASK_CPU_PERCENT)).sum();
    (busy_cores > 0.0).then(|| (1.0 - own_cores / busy_cores).clamp(0.0, 1.0))
}

/// The number of cores of a task's machine that were busy on average, if it was measured.
fn busy_cores(task: &TaskSummary) -> Option<f64> {
    Some(cores_busy(task)? * task.resources.as_ref()?.cores)
}

/// The task's own part of what its machine's cores did, from 0 to 1, if it was measured.
fn own_load(task: &TaskSummary) -> Option<f64> {
    let busy_cores = busy_cores(task)?;
    let own_cores = share(task, column::TASK_CPU_PERCENT)?;
    (busy_cores > 0.0).then(|| (own_cores / busy_cores).clamp(0.0, 1.0))
}

/// The mean of a column of percentages, from 0 to 1.
fn share(task: &TaskSummary, column: &str) -> Option<f64> {
    Some(task.resources.as_ref()?.mean_of(column)? / 100.0)
}

fn phase(task: &TaskSummary, phase: Phase) -> f64 {
    task.phase_seconds(phase.name())
}

fn mean(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = numbers.fold((0.0, 0), |(sum, count), number| (sum + number, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn task(fields: serde_json::Value) -> TaskSummary {
        let mut all = json!({"task": "", "steps": 100, "dropped": 0, "seconds": 10.0, "phases": {},
            "cpu_seconds": null, "peak_rss_bytes": null, "examples": 0, "sent_bytes": 0,
            "received_bytes": 0, "staleness_mean": null, "staleness_max": null});
        let fields = fields.as_object().unwrap().clone();
        all.as_object_mut().unwrap().extend(fields);
        serde_json::from_value(all).unwrap()
    }

    #[test]
    fn workers_get_what_the_server_has_seen_and_a_chiefs_tests_are_not_its_pace() {
        let phases = json!({"input": 1.0, "pull": 0.0, "compute": 2.0, "push": 0.0, "wait": 7.0});
        let mut coordinator = task(json!({"task": "worker:0", "phases": phases}));
        coordinator.set_tested(6.0);
        let mut tasks = [
            coordinator,
            task(json!({"task": "worker:1", "phases": phases})),
            task(json!({"task": "ps:0", "phases": {"receive": 0.1, "idle": 9.9}, "workers": [
                {"task": "worker:0", "gradient_ms": 95.0, "held_seconds": 0.5},
                {"task": "worker:1", "gradient_ms": 40.0, "held_seconds": 6.5}]})),
        ];
        let RunVerdict { verdict, ranking } = judge("sync", &mut tasks);
        assert_eq!(tasks[0].gradient_ms, Some(35.0));
        assert_eq!((tasks[1].gradient_ms, tasks[1].held_seconds), (Some(40.0), Some(6.5)));
        assert!(tasks[2].workers.is_empty(), "timings are reported once");
        let order: Vec<_> = ranking.iter().map(|rank| rank.task.as_str()).collect();
        assert_eq!(order, ["worker:1", "worker:0"]);
        assert!(verdict.text.starts_with("evaluation: "), "{verdict:?}");
    }

    #[test]
    fn what_a_server_sends_a_second_is_what_it_counted_and_not_what_was_sampled() {
        let mean = json!({"task_sent_bytes_per_s": 0.0});
        let resources = json!({"samples": 1, "cores": 2.0, "mean": mean, "peak": {}});
        let server = task(json!({"sent_bytes": 510_000_000, "sent_before_bytes": 10_000_000,
            "resources": resources}));
        assert_eq!(server_facts(&server, 8.0).sent_bytes_per_s, 5e7);
        assert_eq!(server_facts(&server, 20.0).sent_bytes_per_s, 2.5e7);
    }

    #[test]
    fn the_final_test_is_part_of_the_coordinators_time_and_of_the_verdict() {
        let phases = json!({"input": 0.1, "pull": 0.0, "compute": 1.7, "push": 0.1, "wait": 0.1});
        let fields = json!({"task": "worker:0", "phases": phases, "seconds": 2.0});
        let mut tasks = [task(fields)];
        tasks[0].set_tested(0.0);
        assert_eq!(tasks[0].evaluation_seconds, None);
        tasks[0].add_final_test(38.0);
        assert_eq!((tasks[0].seconds, tasks[0].training_seconds()), (40.0, 2.0));
        assert_eq!(tasks[0].phase_seconds("evaluation"), 38.0);
        let RunVerdict { verdict, ranking } = judge("single", &mut tasks);
        assert_eq!(ranking[0].gradient_ms, 18.0, "a test is not a part of a gradient");
        let text = "evaluation: tests take 95 % of the time; the final test takes 38.0 s, the \
                    steps 2.0 s; try fewer train.evaluate.examples";
        assert_eq!(verdict.text, text);
    }

    #[test]
    fn cores_that_other_programs_use_are_said_to_be_theirs() {
        let phases = json!({"input": 0.0, "pull": 0.0, "compute": 9.0, "push": 0.5, "wait": 0.5});
        let judged = |task_cpu: f64| {
            let mean = json!({"cpu_idle_percent": 0.0, "task_cpu_percent": task_cpu});
            let resources = json!({"samples": 9, "cores": 2.0, "mean": mean, "peak": {}});
            let worker = |name: &str| {
                task(json!({"task": name, "phases": phases, "run_delay_seconds": 7.0,
                    "resources": resources}))
            };
            judge("mirrored", &mut [worker("worker:0"), worker("worker:1")]).verdict.text
        };
        let text = "without a core 70 % of the time; cores are 100 % busy, 80 % of it with other \
                    programs; try fewer other programs on the machine or more cores";
        assert!(judged(20.0).ends_with(text), "{}", judged(20.0));
        let text = "cores are 100 % busy; try fewer tasks on each machine or more cores";
        assert!(judged(90.0).ends_with(text), "{}", judged(90.0));
    }

    #[test]
    fn a_loop_without_a_core_waits_for_cores_and_not_for_the_network() {
        let phases = json!({"input": 0.5, "pull": 0.5, "compute": 3.0, "push": 1.0, "wait": 5.0});
        let worker = |name: &str| {
            let fields = json!({"task": name, "phases": phases, "run_delay_seconds": 4.0});
            task(fields)
        };
        let server = task(json!({"task": "ps:0", "phases": {"receive": 1.0, "idle": 9.0},
            "run_delay_seconds": 1.0}));
        let mut tasks = [worker("worker:0"), worker("worker:1"), server];
        let verdict = judge("async", &mut tasks).verdict;
        let text = "cores: tasks are ready to run but without a core 50 % of the time; try fewer \
                    tasks on each machine or more cores";
        assert_eq!(verdict.text, text);
        assert!((verdict.shares.server - 0.1).abs() < 1e-9, "{verdict:?}");
        // Where the system does not count, nothing is said.
        tasks.iter_mut().for_each(|task| task.run_delay_seconds = None);
        assert_eq!(judge("async", &mut tasks).verdict.shares.cores, 0.0);
    }

    #[test]
    fn without_a_server_the_workers_own_clocks_are_believed() {
        let phases = json!({"input": 1.0, "pull": 0.0, "compute": 8.0, "push": 0.5, "wait": 0.5});
        let mut tasks = [task(json!({"task": "worker:0", "phases": phases}))];
        let RunVerdict { verdict, ranking } = judge("single", &mut tasks);
        assert_eq!((ranking[0].gradient_ms, ranking[0].behind), (90.0, 1.0));
        assert!((verdict.shares.compute - 0.9).abs() < 1e-9, "{verdict:?}");
    }
}
