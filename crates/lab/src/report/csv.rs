//! One line a run, unrounded, for programs.

use crate::cell;
use crate::figure::FIGURES;
use crate::report_data::ReportData;

/// The runs as CSV (RFC 4180): settings, figures, and the seconds of each phase of all workers.
pub fn csv(data: &ReportData) -> String {
    let keys = cell::keys(&data.cells);
    let phases = phases(data);
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
            let figure =
                |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
            row.extend(FIGURES.iter().map(|f| figure(f.of(summary))));
            row.extend(phases.iter().map(|phase| {
                let all = summary.workers().flat_map(|task| &task.phases);
                all.filter(|(name, _)| name == phase).map(|(_, s)| s).sum::<f64>().to_string()
            }));
            text.push_str(&line(&row));
        }
    }
    text
}

fn phases(data: &ReportData) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let runs = data.cells.iter().flat_map(|cell| &cell.runs);
    for (phase, _) in runs.flat_map(|run| run.summary.workers()).flat_map(|task| &task.phases) {
        if !names.contains(phase) {
            names.push(phase.clone());
        }
    }
    names
}

fn line(cells: &[String]) -> String {
    let quoted = cells.iter().map(|cell| match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.clone(),
    });
    quoted.collect::<Vec<_>>().join(",") + "\r\n"
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
