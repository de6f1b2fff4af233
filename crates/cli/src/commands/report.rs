//! `paceline report`: the results of the runs in a directory as a page, a table and a text.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use paceline_lab::report::IndexConfig;
use paceline_lab::{ReportData, RunFailure, report as documents, sweep_plan};
use paceline_record::write_whole;

use super::output::print;
use super::run_path::check_dir;
use crate::Failure;
use crate::cli::ReportArgs;
use crate::progress::write_line;

/// The introduction of an index, beside the index.
const INTRODUCTION_FILE: &str = "INTRODUCTION.md";

/// Writes the report of a directory, and prints its path.
pub(super) fn report(args: &ReportArgs) -> Result<(), Failure> {
    check_dir(&args.dir)?;
    if let Some(file) = &args.index {
        return write_index(&args.dir, file);
    }
    let data = ReportData::read(&args.dir).map_err(Failure::at("read the runs in", &args.dir))?;
    for RunFailure { id, why } in &data.failures {
        write_line(&format!("warning: the report has no results of {id}: {why}"));
    }
    if data.cells.is_empty() {
        let complete = if data.failures.is_empty() { "" } else { "complete " };
        return Err(Failure::Usage(format!(
            "{}: it contains no {complete}runs; a run has a summary.json",
            args.dir.display()
        )));
    }
    let page = write(&data, args.to.as_deref().unwrap_or(&args.dir))?;
    print(&format!("{}\n", page.display()))
}

/// Writes an index of the sweeps in a directory.
fn write_index(dir: &Path, file: &Path) -> Result<(), Failure> {
    let entries = fs::read_dir(dir).map_err(Failure::at("read", dir))?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.join(sweep_plan::PLAN_FILE).is_file());
    paths.sort();
    if paths.is_empty() {
        let why = format!("{}: it contains no sweeps", dir.display());
        return Err(Failure::Usage(why));
    }
    let read =
        |path: &PathBuf| ReportData::read(path).map_err(Failure::at("read the runs in", path));
    let sweeps = paths.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let jobs = file.parent().unwrap_or(Path::new(""));
    let introduction = read_introduction(&jobs.join(INTRODUCTION_FILE))?;
    let config = IndexConfig { introduction: &introduction, jobs };
    let text = documents::index(&sweeps, &config);
    write_whole(file, |temporary| fs::write(temporary, &text))?;
    print(&format!("{}\n", file.display()))
}

/// What an index of sweeps begins with: the user's introduction, or a heading.
fn read_introduction(path: &Path) -> Result<String, Failure> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok("# Sweeps".into()),
        text => text.map_err(Failure::at("read", path)),
    }
}

/// Writes all three documents into a directory and replaces earlier ones. Returns the page's path.
pub(super) fn write(data: &ReportData, to: &Path) -> Result<PathBuf, Failure> {
    fs::create_dir_all(to).map_err(Failure::at("make the directory", to))?;
    let page = to.join("report.html");
    for (path, text) in [
        (page.clone(), documents::html(data)),
        (to.join("report.csv"), documents::csv(data)),
        (to.join("report.md"), documents::markdown(data)),
    ] {
        write_whole(&path, |temporary| fs::write(temporary, &text))?;
    }
    Ok(page)
}
