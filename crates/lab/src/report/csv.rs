//! CSV for programs: one line for each run, unrounded.

use crate::cell;
use crate::figure::FIGURES;
use crate::report_data::ReportData;

/// Writes the runs as CSV (RFC 4180): settings, figures, and the seconds that all workers together
/// spent in each phase.
pub fn csv(data: &ReportData) -> String {
    let keys = cell::keys(&data.cells);
    let phases = phase_names(data);
    let mut head = vec!["run".to_owned(), "seed".to_owned()];
    head.extend(keys.iter().cloned());
    head.extend(["mode", "workers", "batch", "stop_reason"].map(String::from));
    head.extend(FIGURES.iter().map(|figure| figure.name.to_owned()));
    head.extend(phases.iter().map(|phase| format!("{phase}_seconds")));
    let mut text = line(&head);
    for cell in &data.cells {
        for run in &cell.runs {
            let summary = &run.summary;
            let mut row = vec![run.name.clone(), run.seed.clone()];
            row.extend(keys.iter().map(|key| cell.setting(key).unwrap_or_default().to_owned()));
            row.extend([summary.mode.clone(), summary.workers.to_string()]);
            row.extend([run.batch().to_string(), summary.stop_reason.clone()]);
            let figures = FIGURES.iter().map(|figure| figure.of(summary));
            row.extend(figures.map(|value| value.map_or(String::new(), |v| v.to_string())));
            row.extend(phases.iter().map(|phase| {
                let seconds = summary.worker_tasks().map(|task| task.phase_seconds(phase));
                seconds.sum::<f64>().to_string()
            }));
            text.push_str(&line(&row));
        }
    }
    text
}

fn phase_names(data: &ReportData) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let runs = data.cells.iter().flat_map(|cell| &cell.runs);
    let workers = runs.flat_map(|run| run.summary.worker_tasks());
    for phase in workers.flat_map(|task| task.phases.keys()) {
        if !names.contains(phase) {
            names.push(phase.clone());
        }
    }
    names
}

fn line(cells: &[String]) -> String {
    let quote = |cell: &String| {
        if cell.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", cell.replace('"', "\"\""))
        } else {
            cell.clone()
        }
    };
    cells.iter().map(quote).collect::<Vec<_>>().join(",") + "\r\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_with_commas_and_quotes_are_quoted() {
        let cells = ["a", "b,c", "d\"e"].map(String::from);
        assert_eq!(line(&cells), "a,\"b,c\",\"d\"\"e\"\r\n");
    }
}
