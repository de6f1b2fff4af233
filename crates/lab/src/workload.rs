//! Cells that train the same model on the same data. Others cannot be compared.

use std::collections::HashSet;

use crate::cell::Cell;

/// The keys that say what is trained on what.
const KEYS: [&str; 3] = ["model.kind", "data.kind", "data.path"];

/// Cells that train the same model on the same data.
pub(crate) struct WorkloadCells<'a> {
    /// Model and data, such as "softmax on digits"; empty if all cells are of one workload.
    pub(crate) name: String,
    pub(crate) cells: Vec<&'a Cell>,
}

impl WorkloadCells<'_> {
    /// The name as the beginning of a sentence or title; empty if the name is.
    pub(crate) fn prefix(&self) -> String {
        if self.name.is_empty() { String::new() } else { format!("{}: ", self.name) }
    }
}

/// Groups cells by model and data, in the order of their first cells.
pub(crate) fn by_workload<'a>(cells: &[&'a Cell]) -> Vec<WorkloadCells<'a>> {
    let mut workloads: Vec<WorkloadCells<'_>> = Vec::new();
    for &cell in cells {
        let name = name_of(cell);
        match workloads.iter_mut().find(|workload| workload.name == name) {
            Some(workload) => workload.cells.push(cell),
            None => workloads.push(WorkloadCells { name, cells: vec![cell] }),
        }
    }
    if let [only] = workloads.as_mut_slice() {
        only.name.clear();
        return workloads;
    }
    // Without their directories, unless two data sets then have one name.
    let short = workloads.iter().map(|workload| name_without_directory(workload.cells[0]));
    let short: Vec<String> = short.collect();
    if short.iter().collect::<HashSet<_>>().len() == short.len() {
        workloads.iter_mut().zip(short).for_each(|(workload, name)| workload.name = name);
    }
    workloads
}

fn name_of(cell: &Cell) -> String {
    name_with(cell, |path| path)
}

fn name_without_directory(cell: &Cell) -> String {
    name_with(cell, |path| path.trim_end_matches('/').rsplit('/').next().unwrap_or(path))
}

/// Model and data of a cell, with `shown` of the data's path.
fn name_with(cell: &Cell, shown: impl Fn(&str) -> &str) -> String {
    let job = cell.runs.first().map(|run| &run.job);
    let [model, data, path] =
        KEYS.map(|key| job.and_then(|job| job.get(key)).map_or("", String::as_str));
    let path = shown(path);
    let data = format!("{data} {path}");
    match (model, data.trim()) {
        ("", data) => data.to_owned(),
        (model, "") => model.to_owned(),
        (model, data) => format!("{model} on {data}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Run;

    fn cell(model: &str, path: &str) -> Cell {
        let job = [("model.kind", model), ("data.kind", "csv"), ("data.path", path)];
        let job = job.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        Cell { runs: vec![Run { job, ..Run::default() }], ..Cell::default() }
    }

    #[test]
    fn models_and_data_sets_are_kept_apart() {
        let cells = [cell("a", "x"), cell("b", "x"), cell("a", "x"), cell("a", "y")];
        let cells: Vec<&Cell> = cells.iter().collect();
        let found = by_workload(&cells);
        let found: Vec<_> = found.iter().map(|w| (w.name.as_str(), w.cells.len())).collect();
        assert_eq!(found, [("a on csv x", 2), ("b on csv x", 1), ("a on csv y", 1)]);
        assert_eq!(by_workload(&cells[..1])[0].prefix(), "", "nothing to distinguish");
        let names = |paths: [&str; 2]| {
            let cells = paths.map(|path| cell("a", path));
            let found = by_workload(&cells.each_ref());
            found.into_iter().map(|workload| workload.name).collect::<Vec<_>>()
        };
        assert_eq!(names(["/d/x", "/e/y/"]), ["a on csv x", "a on csv y"]);
        assert_eq!(names(["/d/x", "/e/x"]), ["a on csv /d/x", "a on csv /e/x"]);
    }
}
