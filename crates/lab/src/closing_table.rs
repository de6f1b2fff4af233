//! The table at the end of a run.

use std::fmt::Write;
use std::path::Path;

use paceline_observe::pace::BEHIND;
use paceline_observe::{BestTest, Rank, StopTest, VerdictKind, short_seconds};

use paceline_record::names::files;
use paceline_record::{Summary, TaskSummary};

use paceline_terminal::{counted, fitted_tables, grouped, wrap};

/// The most columns of a line of text: longer ones are hard to read.
const MAX_WIDTH: usize = 100;
/// Columns of a label, and the space after it.
const LABEL: usize = 13;
/// The columns of the tables that a narrow terminal does not show, the least important first.
const DROPPABLE: [&str; 7] =
    ["peak MB", "CPU s", "dropped", "sent MB", "staleness", "seconds", "steps"];
/// The most workers that the table names; the summary has all of them.
const MAX_RANKS: usize = 4;

/// Renders a summary as text, for a terminal of `width` columns; `None` for no limit.
pub fn closing_table(summary: &Summary, run: &Path, width: Option<usize>) -> String {
    let mut text = String::new();
    let columns = width.unwrap_or(MAX_WIDTH).min(MAX_WIDTH);
    let mut line = |name: &str, value: String| {
        let value = wrap(&value, columns.saturating_sub(LABEL), "").replace('\n', NEXT_LINE);
        let _ = writeln!(text, "{name:<12} {value}");
    };
    line("run", run.display().to_string());
    line(
        "stopped by",
        format!(
            "{} after {}, {}, {} s",
            summary.stop_reason,
            steps_text(summary),
            counted(summary.examples, "example"),
            short_seconds(summary.seconds)
        ),
    );
    if !summary.steps_per_second.is_nan() {
        let steps = rate(summary.steps_per_second);
        line("speed", format!("{steps} steps/s, {} examples/s", rate(summary.examples_per_second)));
    }
    if summary.lost_pushes > 0 {
        let lost = counted(summary.lost_pushes, "gradient");
        line("lost", format!("{lost}, with a server; computed again"));
    }
    line("train loss", loss_text(summary.train_loss));
    if let Some(StopTest { step, loss, accuracy }) = summary.stop_test {
        let (step, percent) = (grouped(step), 100.0 * accuracy);
        line("stop test", format!("step {step}: loss {loss:.4}, accuracy {percent:.2} %"));
    }
    if let Some(StopTest { loss, accuracy, .. }) = summary.validation {
        line("validation", format!("loss {loss:.4}, accuracy {:.2} %", 100.0 * accuracy));
    }
    line("test", test_line(summary));
    if let Some(BestTest { step, metric, value }) = &summary.best {
        let (step, file) = (grouped(*step), files::BEST_MODEL);
        line("best", format!("{metric} {value:.4} at step {step}, in {file}"));
    }
    if let Some(verdict) = &summary.verdict {
        line("verdict", verdict.text.clone());
    }
    let is_short =
        summary.verdict.as_ref().is_some_and(|verdict| verdict.kind == VerdictKind::TooShort);
    if summary.ranking.len() > 1 && !is_short {
        line("slowest", slowest(&summary.ranking));
    }
    text.push('\n');
    text.push_str(&tasks_table(summary, width));
    text
}

/// The steps of this session, whose examples and seconds the summary counts, and those of the
/// sessions before it if there were any.
fn steps_text(summary: &Summary) -> String {
    let all = summary.global_steps;
    match summary.resumed_from {
        None => counted(all, "step"),
        Some(from) => {
            let own = counted(all.saturating_sub(from), "step");
            format!("{own} of this session ({} in all)", grouped(all))
        }
    }
}

/// The mean loss of the last steps, if there are any.
fn loss_text(loss: f64) -> String {
    if loss.is_nan() { "none: no step was made".into() } else { format!("{loss:.4}") }
}

/// A number a second: steps of a large network take longer than one.
fn rate(per_second: f64) -> String {
    match per_second {
        few if few < 10.0 => format!("{few:.2}"),
        many => grouped(many.round() as u64),
    }
}

/// The end of a line of text, and the space below the label.
const NEXT_LINE: &str = "\n             ";

/// The last test. A run that is interrupted may end without one of its final parameters.
fn test_line(summary: &Summary) -> String {
    if summary.test_loss.is_nan() {
        return "skipped because the run was interrupted".into();
    }
    let test = format!(
        "loss {:.4}, accuracy {:.2} %{}",
        summary.test_loss,
        100.0 * summary.test_accuracy,
        auc_text(summary.test_auc.flatten(), summary.test_auc_undefined.as_deref())
    );
    match summary.test_step {
        None => test,
        Some(step) => format!(
            "{test} at step {}; the final test was skipped because the run was interrupted",
            grouped(step)
        ),
    }
}

/// The area under the ROC curve, or why there is none, as the end of a list of figures; nothing for
/// models that have none.
pub fn auc_text(auc: Option<f64>, undefined: Option<&str>) -> String {
    match (auc, undefined) {
        (Some(auc), _) => format!(", AUC {auc:.4}"),
        (None, Some(why)) => format!(", AUC undefined ({why})"),
        (None, None) => String::new(),
    }
}

/// The slowest workers, by their time per gradient.
fn slowest(ranking: &[Rank]) -> String {
    let name = |rank: &Rank| {
        let behind = match rank.behind {
            behind if behind > BEHIND => format!(" ({behind:.1} times the others)"),
            _ => String::new(),
        };
        format!("{} {}{behind}", rank.task, short_time(rank.gradient_ms))
    };
    let first: Vec<_> = ranking.iter().take(MAX_RANKS).map(name).collect();
    let more = ranking.len() - first.len();
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{} to a gradient{rest}", first.join(", "))
}

/// The time of a gradient.
fn short_time(ms: f64) -> String {
    match ms {
        long if long >= 1_000.0 => format!("{:.2} s", long / 1e3),
        ms if ms >= 100.0 => format!("{ms:.1} ms"),
        ms => format!("{ms:.3} ms"),
    }
}

/// One row per task: its work, and its time by phase in percent. Workers and servers have different
/// phases, so each has a separate table.
fn tasks_table(summary: &Summary, width: Option<usize>) -> String {
    // The first row of each table is its titles.
    let mut tables: Vec<Vec<Vec<String>>> = Vec::new();
    for task in &summary.tasks {
        let (titles, row): (Vec<_>, Vec<_>) = cells(task).into_iter().unzip();
        match tables.iter_mut().find(|rows| rows[0] == titles) {
            Some(rows) => rows.push(row),
            None => tables.push(vec![titles, row]),
        }
    }
    for rows in &mut tables {
        drop_if_none(rows, &["dropped"], "0");
        // A run of one process exchanges nothing.
        drop_if_none(rows, &["pull", "push", "wait"], NO_SHARE);
        drop_if_none(rows, &["sent MB"], "0.0");
    }
    fitted_tables(&tables, &DROPPABLE, width)
}

/// A share of the time in percent that is nothing.
const NO_SHARE: &str = "0.0 %";

/// Removes columns that have nothing but zeros.
fn drop_if_none(rows: &mut [Vec<String>], titles: &[&str], zero: &str) {
    let is_named = |title: &String| titles.contains(&title.as_str());
    let named: Vec<_> = (0..rows[0].len()).rev().filter(|&at| is_named(&rows[0][at])).collect();
    if rows[1..].iter().all(|row| named.iter().all(|&at| row[at] == zero)) {
        rows.iter_mut().for_each(|row| named.iter().for_each(|&at| drop(row.remove(at))));
    }
}

/// The cells of a task's row, each with its column's title.
fn cells(task: &TaskSummary) -> Vec<(String, String)> {
    let unknown = || "?".to_owned();
    let mut cells = vec![
        ("task", task.task.clone()),
        ("steps", grouped(task.steps)),
        ("dropped", grouped(task.dropped)),
        ("seconds", short_seconds(task.seconds)),
    ];
    for (phase, seconds) in &task.phases {
        let share = seconds.as_f64().unwrap_or_default() / task.seconds;
        cells.push((phase, format!("{:.1} %", 100.0 * share)));
    }
    if let (Some(mean), Some(max)) = (task.staleness_mean, task.staleness_max) {
        cells.push(("staleness", format!("{mean:.2}, max {}", grouped(max))));
    }
    let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
    cells.extend([
        ("sent MB", megabytes(task.sent_bytes)),
        ("CPU s", task.cpu_seconds.map_or_else(unknown, |seconds| format!("{seconds:.2}"))),
        ("peak MB", task.peak_memory_bytes().map_or_else(unknown, megabytes)),
    ]);
    cells.into_iter().map(|(head, cell)| (head.to_owned(), cell)).collect()
}

#[cfg(test)]
mod tests {
    use paceline_observe::{GradientTime, Shares, Verdict, ranking};

    use super::*;

    fn summary() -> Summary {
        let phases =
            ["input", "pull", "compute", "push", "wait"].map(|name| (name.into(), 0.2.into()));
        let task = |name: &str| TaskSummary {
            task: name.into(),
            steps: 3_000,
            seconds: 1.0,
            phases: phases.clone().into_iter().collect(),
            sent_bytes: 94_300_000,
            ..TaskSummary::default()
        };
        Summary {
            stop_reason: "epochs".into(),
            global_steps: 6_000,
            examples: 360_000,
            seconds: 0.21,
            test_loss: 0.3561,
            test_accuracy: 0.9152,
            tasks: vec![task("worker:0"), task("worker:1")],
            ..Summary::default()
        }
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in [40, 60, 80, 100, 200] {
            let text = closing_table(&summary(), Path::new("runs/digits"), Some(width));
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= width, "{width}: {text}");
            assert!(text.contains("worker:1"), "{text}");
        }
    }

    #[test]
    fn a_run_of_one_process_has_no_columns_of_exchanges() {
        let phase = |(name, seconds): (&str, f64)| (name.to_owned(), seconds.into());
        let of = |push: f64| {
            let phases = [("input", 0.1), ("pull", 0.0), ("compute", 0.9), ("push", push)];
            let phases = phases.map(phase).into_iter().collect();
            let task = TaskSummary { seconds: 1.0, phases, ..TaskSummary::default() };
            let text = tasks_table(&Summary { tasks: vec![task], ..Summary::default() }, None);
            text.lines().next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of(0.0), "task steps seconds input compute CPU s peak MB");
        assert_eq!(of(0.01), "task steps seconds input pull compute push CPU s peak MB");
    }

    #[test]
    fn no_worker_is_called_slow_in_a_run_that_is_too_short_to_judge() {
        let verdict = |kind| Verdict {
            kind,
            text: "a sentence".into(),
            evidence: String::new(),
            shares: Shares::default(),
            advice: Vec::new(),
        };
        let ranking = ranking(vec![GradientTime::new("w0", 2.0), GradientTime::new("w1", 9.0)]);
        let text = |kind| {
            let judged =
                Summary { ranking: ranking.clone(), verdict: Some(verdict(kind)), ..summary() };
            closing_table(&judged, Path::new("runs/digits"), None)
        };
        assert!(text(VerdictKind::Compute).contains("slowest      w1 9.000 ms (4.5 times"));
        assert!(!text(VerdictKind::TooShort).contains("slowest"));
    }

    #[test]
    fn a_run_of_a_few_milliseconds_takes_some_time() {
        let short = Summary { seconds: 0.0044, ..summary() };
        let text = closing_table(&short, Path::new("runs/digits"), None);
        assert!(text.contains("6,000 steps, 360,000 examples, 0.004 s\n"), "{text}");
    }

    #[test]
    fn the_steps_of_a_resumed_run_are_those_that_its_examples_and_seconds_belong_to() {
        let resumed = Summary { resumed_from: Some(5_400), examples: 36_000, ..summary() };
        let text = closing_table(&resumed, Path::new("runs/digits"), None);
        let says = "600 steps of this session (6,000 in all), 36,000 examples, 0.21 s\n";
        assert!(text.contains(says), "{text}");
    }

    #[test]
    fn a_run_without_a_step_has_neither_speed_nor_loss() {
        let none = Summary { global_steps: 0, examples: 0, seconds: 0.0, ..summary() };
        let text = closing_table(&none, Path::new("runs/digits"), None);
        assert!(text.contains("train loss   none: no step was made\n"), "{text}");
        assert!(!text.contains("speed") && !text.contains("NaN"), "{text}");
    }

    #[test]
    fn slow_steps_have_a_speed() {
        assert_eq!([0.246, 9.5, 10.0, 1_932_196.2].map(rate), ["0.25", "9.50", "10", "1,932,196"]);
    }

    #[test]
    fn times_have_few_digits() {
        assert_eq!([0.057, 126.4, 2_698.0].map(short_time), ["0.057 ms", "126.4 ms", "2.70 s"]);
    }

    #[test]
    fn a_skipped_test_is_said() {
        let skipped = Summary { test_loss: f64::NAN, ..summary() };
        assert_eq!(test_line(&skipped), "skipped because the run was interrupted");
        let older = test_line(&Summary { test_step: Some(4_000), ..summary() });
        assert!(older.starts_with("loss 0.3561, accuracy 91.52 % at step 4,000; "), "{older}");
    }

    #[test]
    fn only_workers_that_are_behind_are_marked() {
        let time = |i: u32| GradientTime::new(format!("w{i}"), f64::from(i * i));
        let text = slowest(&ranking((1..=6).map(time).collect()));
        assert!(text.starts_with("w6 36.000 ms (4.0 times the others), w5 25.000 ms"), "{text}");
        assert!(text.ends_with("w3 9.000 ms to a gradient and 2 more"), "{text}");
    }
}
