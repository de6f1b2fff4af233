//! Many sweeps in one Markdown file, such as `experiments/README.md`: what each sweep is, how long
//! it took, and how it compares with published figures and findings.

use std::fmt::Write;
use std::path::Path;

use super::table::{ReportTable, plain};
use super::tables::{findings, predictions, references};
use crate::finding_check::check_findings;
use crate::report_data::ReportData;

/// First line of the file, which warns against editing it by hand.
pub const GENERATED_NOTICE: &str =
    "<!-- Written by `paceline report SWEEPS --index`; change the job files, not this. -->";

/// What an index says besides the results, and where it is.
#[derive(Clone, Debug)]
pub struct IndexConfig<'a> {
    /// Markdown before the tables: a heading and what the sweeps are about.
    pub introduction: &'a str,
    /// Directory of the index and of the job files beside it, as the user names it.
    pub jobs: &'a Path,
}

/// Writes the sweeps as Markdown.
pub fn index(sweeps: &[ReportData], config: &IndexConfig<'_>) -> String {
    let mut text = format!("{GENERATED_NOTICE}\n\n{}\n\n", config.introduction.trim());
    if let Some(plan) = sweeps.iter().find_map(|sweep| sweep.plan.as_ref()) {
        let _ = writeln!(
            text,
            "Measured on a machine with {} threads ({}), by version {}.",
            plan.machine.threads, plan.machine.processor, plan.version
        );
        if sweeps.iter().any(|sweep| sweep.plan.as_ref().is_some_and(|plan| plan.quick)) {
            text.push_str(
                "Some runs were shortened (`--quick`): only rates are compared with the reports.\n",
            );
        }
    }
    text.push('\n');
    text.push_str(&overview(sweeps).to_markdown());
    sweeps.iter().for_each(|sweep| write_section(&mut text, sweep, config.jobs));
    text
}

/// One row for each sweep.
fn overview(sweeps: &[ReportData]) -> ReportTable {
    let head = ["file", "cells", "runs", "duration", "findings that hold"];
    let row = |sweep: &ReportData| {
        let checked = check_findings(sweep);
        let held = checked.iter().filter(|checked| checked.result.holds == Some(true)).count();
        let holds = match checked.len() {
            0 => "–".to_owned(),
            all => format!("{held} of {all}"),
        };
        let name = &sweep.name;
        let counts = [sweep.cells.len(), sweep.run_count()].map(|count| count.to_string());
        let [cells, runs] = counts;
        vec![format!("[{name}]({name}.toml)"), cells, runs, duration(sweep.wall_seconds), holds]
    };
    ReportTable {
        head: head.map(String::from).to_vec(),
        rows: sweeps.iter().map(row).collect(),
        word_columns: 1,
    }
}

fn write_section(text: &mut String, sweep: &ReportData, jobs: &Path) {
    let name = &sweep.name;
    let _ = writeln!(text, "\n## {name}\n");
    if let Some(plan) = &sweep.plan {
        let about = plan.job.lines().take_while(|line| line.starts_with('#'));
        let about: Vec<_> = about.map(|line| line.trim_start_matches('#').trim()).collect();
        let quick = if plan.quick { " --quick" } else { "" };
        let _ = writeln!(text, "{}\n", about.join("\n"));
        let _ = writeln!(
            text,
            "`paceline sweep {}{quick}`: {} runs in {}.",
            jobs.join(format!("{name}.toml")).display(),
            sweep.run_count(),
            duration(sweep.wall_seconds)
        );
    }
    for failure in &sweep.failures {
        let _ = writeln!(text, "{} failed: {}.", plain(&failure.id), plain(&failure.why));
    }
    for table in [references(sweep), findings(sweep), predictions(sweep)] {
        if !table.rows.is_empty() {
            let _ = write!(text, "\n{}", table.to_markdown());
        }
    }
}

/// Seconds below 100, else minutes.
fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 100.0 => format!("{s:.0} s"),
        s => format!("{:.0} min", s / 60.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{Finding, FindingCheck};
    use crate::sweep_plan::SweepPlan;

    #[test]
    fn a_section_has_the_description_the_command_and_the_findings() {
        let finding = Finding {
            says: "sync workers do equal steps".into(),
            check: FindingCheck::EqualSteps,
            ..Finding::default()
        };
        let job = "# Report R0.\n# Two lines.\nname = \"a\"\n# further down\n".into();
        let plan =
            SweepPlan { name: "a".into(), job, findings: vec![finding], ..SweepPlan::default() };
        let sweep = ReportData {
            name: "a".into(),
            plan: Some(plan),
            wall_seconds: 150.0,
            ..ReportData::default()
        };
        let introduction = "# Trials\n\nOf one model.\n";
        let config = IndexConfig { introduction, jobs: "experiments".as_ref() };
        let text = index(&[sweep], &config);
        assert!(text.starts_with(&format!("{GENERATED_NOTICE}\n\n{introduction}\n")), "{text}");
        for part in [
            "| [a](a.toml) | 0 | 0 | 2 min | 0 of 1 |",
            "## a\n\nReport R0.\nTwo lines.\n",
            "`paceline sweep experiments/a.toml`: 0 runs in 2 min.",
            "| sync workers do equal steps | – | not measured |",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("further down"));
    }
}
