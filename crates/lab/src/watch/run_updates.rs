//! What the page is sent of a run: once everything, then what has changed.
//!
//! Numbers are written by hand, column by column: most of what is sent is curves, and a tree of
//! values for each of their points would cost more than reading the run did.

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;

use serde_json::{Value, json};

use super::live_verdict::{name, ranking_so_far, verdict_so_far};
use super::run_reader::{CurveKey, RunReader};
use super::series::{Bucket, CurveAxis, SentMark};
use crate::run::flat_job;

/// Points of a curve that are sent at the beginning, or when one comes near.
pub(crate) const MOST_POINTS: usize = 1_500;
/// Points of a curve that are sent at a time while it grows.
const MOST_NEW_POINTS: usize = 60;

/// How far somebody has been told of a run.
#[derive(Debug, Default)]
pub(crate) struct SentState {
    about: String,
    curves: HashMap<CurveKey, SentMark>,
    begin_seconds: f64,
}

impl SentState {
    /// What is new of a run, as JSON; none if nothing is.
    pub(crate) fn news(&mut self, id: &str, run: &RunReader) -> Option<String> {
        let begin = run.begin_seconds();
        if begin != self.begin_seconds {
            self.curves.clear();
            self.begin_seconds = begin;
        }
        let about = about(id, run).to_string();
        let is_changed = about != self.about;
        let mut out = format!("{{\"run\":{},\"curves\":[", json!(id));
        let before = out.len();
        for (key, series) in run.all_series() {
            let mark = self.curves.get(&key).copied().unwrap_or_default();
            let most = if mark == SentMark::default() { MOST_POINTS } else { MOST_NEW_POINTS };
            let (mut buckets, is_anew, now) = series.since(mark, most);
            if is_anew {
                (buckets, ..) = series.since(SentMark::default(), MOST_POINTS);
            } else if buckets.is_empty() {
                continue;
            }
            write_curve(&mut out, &key, &buckets, begin, is_anew);
            out.push(',');
            self.curves.insert(key, now);
        }
        let has_curves = out.len() > before;
        if has_curves {
            out.pop();
        }
        out.push(']');
        if is_changed {
            let _ = write!(out, ",\"about\":{about}");
            self.about = about;
        }
        out.push('}');
        (has_curves || is_changed).then_some(out)
    }
}

/// The curves of a run between two places of an axis, as fine as they can be drawn.
pub(crate) fn zoom(run: &RunReader, axis: CurveAxis, range: Range<f64>) -> String {
    let begin = run.begin_seconds();
    let range = match axis {
        CurveAxis::Step => range,
        CurveAxis::Time => range.start + begin..range.end + begin,
    };
    let mut out = String::from("{\"curves\":[");
    for (key, series) in run.all_series() {
        let buckets = series.between(axis, range.clone(), MOST_POINTS);
        write_curve(&mut out, &key, &buckets, begin, true);
        out.push(',');
    }
    if out.ends_with(',') {
        out.pop();
    }
    out.push_str("]}");
    out
}

/// Everything about a run but its curves.
fn about(id: &str, run: &RunReader) -> Value {
    let job = flat_job(run.job());
    let word = |key: &str| job.get(key).map(String::as_str).unwrap_or_default();
    let summary = run.summary();
    let is_over = summary.is_some();
    let verdict = match summary {
        Some(summary) => summary["verdict"].clone(),
        None => json!(verdict_so_far(run, word("cluster.mode"))),
    };
    let ranking = match summary {
        Some(summary) => summary["ranking"].clone(),
        None => json!(ranking_so_far(run)),
    };
    let quiet = run.quiet().as_secs();
    let logs = run.tasks().map(|task| json!({"task": name(task), "lines": run.log(task)}));
    json!({
        "id": id,
        "name": word("name"),
        "is_over": is_over,
        // In steps, so that a quiet run is not news every second.
        "quiet_s": if is_over || quiet < 15 { 0 } else { quiet / 15 * 15 },
        "begin_s": run.begin_seconds(),
        "job_text": run.job(),
        "job": job,
        "examples_per_step": examples_per_step(&job, summary),
        "summary": summary,
        "tasks": run.tasks().collect::<Vec<_>>(),
        "verdict": verdict,
        "ranking": ranking,
        "logs": logs.collect::<Vec<_>>(),
    })
}

/// How many examples a global step is made of: what the summary says or, before there is one, what
/// follows from the job.
fn examples_per_step(
    job: &std::collections::BTreeMap<String, String>,
    summary: Option<&Value>,
) -> Option<f64> {
    if let Some(summary) = summary {
        let made =
            summary["global_steps"].as_f64()? - summary["resumed_from"].as_f64().unwrap_or(0.0);
        return (made > 0.0).then_some(summary["examples"].as_f64()? / made);
    }
    let number = |key: &str| job.get(key).and_then(|value| value.parse::<f64>().ok());
    let workers = number("cluster.workers").unwrap_or(1.0);
    let batch = number("train.global_batch").map(|all| all / workers).or(number("train.batch"))?;
    match job.get("cluster.mode").map(String::as_str) {
        Some("sync") => Some(batch * number("cluster.quorum").unwrap_or(workers)),
        Some("mirrored") => Some(batch * workers),
        _ => Some(batch),
    }
}

/// A curve as columns: steps, seconds since the run began, means and, where they differ from
/// these, least and greatest values.
fn write_curve(out: &mut String, key: &CurveKey, buckets: &[Bucket], begin: f64, is_anew: bool) {
    let _ = write!(out, "{{\"task\":{},\"tag\":{}", json!(key.0), json!(key.1));
    if is_anew {
        out.push_str(",\"anew\":true");
    }
    column(out, "s", buckets, |out, bucket| {
        let _ = write!(out, "{}", bucket.step);
    });
    column(out, "t", buckets, |out, bucket| {
        number(out, ((bucket.wall_seconds - begin) * 1e3).round() / 1e3);
    });
    column(out, "v", buckets, |out, bucket| figure(out, bucket.mean));
    if buckets.iter().any(|bucket| bucket.min != bucket.max) {
        column(out, "lo", buckets, |out, bucket| figure(out, bucket.min));
        column(out, "hi", buckets, |out, bucket| figure(out, bucket.max));
    }
    out.push('}');
}

fn column(
    out: &mut String,
    name: &str,
    buckets: &[Bucket],
    write_one: impl Fn(&mut String, &Bucket),
) {
    let _ = write!(out, ",\"{name}\":[");
    for (i, bucket) in buckets.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        write_one(out, bucket);
    }
    out.push(']');
}

/// A value with the digits that can be seen.
fn figure(out: &mut String, value: f32) {
    let value = f64::from(value);
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e15).contains(&size) {
        let _ = write!(out, "{value:.5e}");
    } else if size >= 1e6 {
        number(out, value.round());
    } else {
        let scale = 10f64.powi(5 - size.max(1e-4).log10().floor() as i32);
        number(out, (value * scale).round() / scale);
    }
}

/// A number as JSON has it.
fn number(out: &mut String, value: f64) {
    let _ = match value.is_finite() {
        true => write!(out, "{value}"),
        false => write!(out, "null"),
    };
}

#[cfg(test)]
mod tests {
    use std::fs;

    use paceline_record::EventWriter;

    use super::*;

    #[test]
    fn numbers_are_short_and_right() {
        for (value, text) in [
            (0.0, "0"),
            (0.1, "0.1"),
            (2.345_678, "2.34568"),
            (-1_234.567_9, "-1234.57"),
            (12_345_678.0, "12345678"),
            (1.5e-7, "1.50000e-7"),
            (f32::MAX, "3.40282e38"),
        ] {
            let mut out = String::new();
            figure(&mut out, value);
            assert_eq!(out, text);
            let parsed: f64 = serde_json::from_str(&out).unwrap();
            assert!((parsed - f64::from(value)).abs() <= 1e-5 * f64::from(value).abs());
        }
    }

    #[test]
    fn a_reader_is_told_everything_and_then_what_is_new() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("job.toml"), "name = \"a\"\n[train]\nbatch = 10\n").unwrap();
        let mut events = EventWriter::create(&dir.path().join("worker_0")).unwrap();
        let tag = events.tag("train/loss");
        (0..5000).for_each(|step| events.scalar_at(&tag, step, 1.0, 50.0 + step as f64).unwrap());
        events.flush().unwrap();
        let mut run = RunReader::new(dir.path());
        run.refresh();
        let mut told = SentState::default();
        let all: Value = serde_json::from_str(&told.news("x/a", &run).unwrap()).unwrap();
        assert_eq!((&all["run"], &all["about"]["name"]), (&json!("x/a"), &json!("a")));
        assert_eq!(all["about"]["examples_per_step"], 10.0);
        let curve = &all["curves"][0];
        assert_eq!((&curve["tag"], &curve["anew"]), (&json!("train/loss"), &json!(true)));
        assert!((1000..=MOST_POINTS).contains(&curve["v"].as_array().unwrap().len()));
        assert_eq!(curve["t"][0], 0.0);
        assert!(told.news("x/a", &run).is_none(), "nothing has changed");

        let near: Value = serde_json::from_str(&zoom(&run, CurveAxis::Time, 10.0..19.0)).unwrap();
        assert_eq!(near["curves"][0]["s"], json!([9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]));
    }

    #[test]
    fn what_a_step_is_made_of_follows_from_the_job_until_the_summary_says_it() {
        let of = |text: &str| examples_per_step(&flat_job(text), None);
        let job = "[train]\nbatch = 10\n[cluster]\nworkers = 4\nmode = ";
        assert_eq!(of(&format!("{job}\"async\"")), Some(10.0));
        assert_eq!(of(&format!("{job}\"mirrored\"")), Some(40.0));
        assert_eq!(of(&format!("{job}\"sync\"\nquorum = 3")), Some(30.0));
        let summary = json!({"global_steps": 30, "resumed_from": 10, "examples": 200});
        assert_eq!(examples_per_step(&flat_job(job), Some(&summary)), Some(10.0));
    }
}
