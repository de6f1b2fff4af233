//! `paceline report`: what the runs of a directory say, as a page, a table and a text.

use std::fs;
use std::path::{Path, PathBuf};

use paceline_lab::{Findings, report as documents};

use super::print;
use crate::Failure;
use crate::cli::Report;
use crate::run::write_whole;

/// Writes the report of a directory, and says where it is.
pub(super) fn report(args: &Report) -> Result<(), Failure> {
    let findings = Findings::read(&args.dir).map_err(Failure::at("read the runs in", &args.dir))?;
    if findings.cells.is_empty() {
        return Err(Failure::Usage(format!(
            "{}: there are no runs in it; a run has a summary.json",
            args.dir.display()
        )));
    }
    let page = write(&findings, args.to.as_deref().unwrap_or(&args.dir))?;
    print(&format!("{}\n", page.display()))
}

/// Writes all three documents into a directory, over those of an earlier time; the page's path.
pub(super) fn write(findings: &Findings, to: &Path) -> Result<PathBuf, Failure> {
    fs::create_dir_all(to).map_err(Failure::at("make the directory", to))?;
    let page = to.join("report.html");
    for (path, text) in [
        (page.clone(), documents::html(findings)),
        (to.join("report.csv"), documents::csv(findings)),
        (to.join("report.md"), documents::markdown(findings)),
    ] {
        write_whole(&path, |temporary| fs::write(temporary, &text))?;
    }
    Ok(page)
}
