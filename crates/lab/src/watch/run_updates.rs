//! What the page receives of a run: everything at first, then what has changed.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::ops::Range;

use paceline_observe::{BatchSize, JobBatches, ModeKind};
use paceline_record::StoredSummary;
use paceline_record::names::task_of_folder;
use serde_json::{Value, json};

use super::curve_json::CurveWriter;
use super::live_verdict::{ranking_so_far, verdict_so_far};
use super::page_limits::{rounded_quiet_seconds, seconds_since_1970, unexpected_end};
use super::run_reader::{CurveKey, RunReader};
use super::series::{CurveAxis, SentMark};
use crate::job_keys::parse_job;

/// Most points of a curve in the first message, or in an answer to a zoom.
pub(crate) const MAX_POINTS: usize = 1_500;
/// Most points of a curve in a later message.
const MAX_NEW_POINTS: usize = 60;

/// How much of a run a reader has received.
#[derive(Debug, Default)]
pub(crate) struct SentState {
    about: String,
    marks: HashMap<CurveKey, SentMark>,
    start_seconds: f64,
}

impl SentState {
    /// Returns what has changed since the last call, as JSON; none if nothing has.
    pub(crate) fn next_update(&mut self, id: &str, run: &RunReader) -> Option<String> {
        let start = run.start_seconds();
        if start != self.start_seconds {
            self.marks.clear();
            self.start_seconds = start;
        }
        let mut curves = CurveWriter::new(format!("{{\"run\":{},", json!(id)), start);
        for (key, series) in run.all_series() {
            let mark = self.marks.get(&key).copied().unwrap_or_default();
            let is_first = mark == SentMark::default();
            let mut new = series.since(mark, if is_first { MAX_POINTS } else { MAX_NEW_POINTS });
            if new.is_replacement {
                new = series.since(SentMark::default(), MAX_POINTS);
            } else if new.buckets.is_empty() {
                continue;
            }
            curves.add(&key, &new.buckets, new.is_replacement);
            self.marks.insert(key, new.mark);
        }
        let about = about_run(run).to_string();
        let is_changed = about != self.about;
        let has_update = is_changed || !curves.is_empty();
        let mut json = curves.finish();
        if is_changed {
            let _ = write!(json, ",\"about\":{about}");
            self.about = about;
        }
        json.push('}');
        has_update.then_some(json)
    }
}

/// The curves of a run between two positions of an axis, as JSON and as fine as recorded.
pub(crate) fn zoom(run: &RunReader, axis: CurveAxis, range: Range<f64>) -> String {
    let start = run.start_seconds();
    let range = match axis {
        CurveAxis::Step => range,
        CurveAxis::Time => range.start + start..range.end + start,
    };
    let mut curves = CurveWriter::new(String::from("{"), start);
    for (key, series) in run.all_series() {
        curves.add(&key, &series.between(axis, range.clone(), MAX_POINTS), true);
    }
    curves.finish() + "}"
}

/// Everything about a run except its curves.
fn about_run(run: &RunReader) -> Value {
    let job = parse_job(run.job());
    let word = |key: &str| job.get(key).map(String::as_str).unwrap_or_default();
    let summary = run.summary();
    let verdict = match summary {
        Some(summary) => stored_verdict(summary),
        None => json!(verdict_so_far(run, word("cluster.mode"))),
    };
    let ranking = match summary {
        Some(summary) => summary.fields().get("ranking").cloned().unwrap_or_default(),
        None => json!(ranking_so_far(run)),
    };
    let failure = run.failure().filter(|_| summary.is_none());
    let ended_at = match summary {
        Some(_) => None,
        None if failure.is_some() => run.written().and_then(seconds_since_1970),
        None => unexpected_end(&job, run.written(), run.is_sampled()),
    };
    let machines: BTreeMap<_, _> = run.tasks().map(|task| (task, run.machine(task))).collect();
    let quiet = if summary.is_some() { 0 } else { run.quiet_time().as_secs() };
    let log = |task: &str| json!({"task": task_of_folder(task), "lines": run.log(task)});
    json!({
        "name": word("name"),
        "is_over": summary.is_some(),
        "quiet_s": rounded_quiet_seconds(quiet),
        "ended_at": ended_at,
        "failure": failure,
        "machines": machines,
        "job_text": run.job(),
        "job": job,
        "examples_per_step": examples_per_step(&job, summary),
        "summary": summary.map(StoredSummary::fields),
        "evaluation": run.evaluation(),
        "tasks": run.tasks().collect::<Vec<_>>(),
        "verdict": verdict,
        "ranking": ranking,
        "logs": run.tasks().map(log).collect::<Vec<_>>(),
    })
}

/// The verdict of a run that has ended, with its evidence even if an older version wrote it.
fn stored_verdict(summary: &StoredSummary) -> Value {
    let mut verdict = summary.fields().get("verdict").cloned().unwrap_or_default();
    if let Some(verdict) = verdict.as_object_mut() {
        verdict.insert("evidence".into(), summary.verdict_evidence().into());
    }
    verdict
}

/// Examples in a global step: what the summary says or, before there is one, what follows from
/// the job.
fn examples_per_step(
    job: &BTreeMap<String, String>,
    summary: Option<&StoredSummary>,
) -> Option<f64> {
    if let Some(summary) = summary {
        return summary.examples_per_step();
    }
    let number = |key: &str| job.get(key)?.parse::<usize>().ok();
    let global = number("train.global_batch").map(BatchSize::Global);
    let batches = JobBatches {
        mode: job
            .get("cluster.mode")
            .map_or(Some(ModeKind::Single), |mode| ModeKind::parse(mode))?,
        workers: number("cluster.workers").unwrap_or(1),
        slots: number("cluster.slots"),
        size: global.or(number("train.batch").map(BatchSize::PerSlot))?,
        quorum: number("cluster.quorum"),
    };
    Some(batches.examples_per_step() as f64)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use paceline_record::EventWriter;

    use super::*;

    #[test]
    fn a_reader_receives_everything_and_then_what_is_new() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("job.toml"), "name = \"a\"\n[train]\nbatch = 10\n").unwrap();
        let mut events = EventWriter::create(&dir.path().join("worker_0")).unwrap();
        let tag = events.tag("train/loss");
        (0..5000).for_each(|step| events.scalar_at(&tag, step, 1.0, 50.0 + step as f64).unwrap());
        events.flush().unwrap();
        let mut run = RunReader::new(dir.path());
        run.refresh();
        let mut sent = SentState::default();
        let all: Value = serde_json::from_str(&sent.next_update("x/a", &run).unwrap()).unwrap();
        assert_eq!((&all["run"], &all["about"]["name"]), (&json!("x/a"), &json!("a")));
        assert_eq!(all["about"]["examples_per_step"], 10.0);
        let curve = &all["curves"][0];
        assert_eq!((&curve["tag"], &curve["replace"]), (&json!("train/loss"), &json!(true)));
        assert!((1000..=MAX_POINTS).contains(&curve["v"].as_array().unwrap().len()));
        assert_eq!(curve["t"][0], 0.0);
        assert!(sent.next_update("x/a", &run).is_none(), "nothing has changed");

        let near: Value = serde_json::from_str(&zoom(&run, CurveAxis::Time, 10.0..19.0)).unwrap();
        assert_eq!(near["curves"][0]["s"], json!([9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]));
    }

    #[test]
    fn examples_per_step_follow_from_the_job_until_there_is_a_summary() {
        let of = |text: &str| examples_per_step(&parse_job(text), None);
        let job = "[train]\nbatch = 10\n[cluster]\nworkers = 4\nmode = ";
        assert_eq!(of(&format!("{job}\"async\"")), Some(10.0));
        assert_eq!(of(&format!("{job}\"mirrored\"")), Some(40.0));
        assert_eq!(of(&format!("{job}\"sync\"\nquorum = 3")), Some(30.0));
        assert_eq!(of(&format!("{job}\"snyc\"")), None, "an unknown mode");
        let summary = r#"{"global_steps": 30, "resumed_from": 10, "examples": 200}"#;
        let summary = StoredSummary::parse(summary).unwrap();
        assert_eq!(examples_per_step(&parse_job(job), Some(&summary)), Some(10.0));
    }

    #[test]
    fn a_verdict_of_any_version_has_its_evidence() {
        let of = |text: &str| stored_verdict(&StoredSummary::parse(text).unwrap());
        let old = of(r#"{"verdict": {"kind": "input", "text": "input: slow; try more"}}"#);
        assert_eq!((&old["kind"], &old["evidence"]), (&json!("input"), &json!("slow")));
        assert_eq!(of(r#"{"verdict": "input: slow"}"#), json!("input: slow"));
        assert_eq!(of("{}"), Value::Null);
    }

    #[test]
    fn a_step_of_an_elastic_run_has_the_examples_of_all_slots() {
        let of = |train: &str, cluster: &str| {
            let job = format!("[train]\n{train}\n[cluster]\nworkers = 2\nslots = 8\n{cluster}");
            examples_per_step(&parse_job(&job), None)
        };
        assert_eq!(of("batch = 10", "mode = \"sync\""), Some(80.0));
        assert_eq!(of("batch = 10", "mode = \"sync\"\nquorum = 6"), Some(60.0));
        assert_eq!(of("global_batch = 160", "mode = \"sync\""), Some(160.0));
        assert_eq!(of("global_batch = 160", "mode = \"async\""), Some(20.0));
        assert_eq!(of("batch = 10", "mode = \"async\""), Some(10.0));
    }
}
