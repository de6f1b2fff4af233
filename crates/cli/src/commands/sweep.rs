//! `paceline sweep`: makes the runs of a job's `[sweep]`, and writes the report.

use std::fs;
use std::io::BufRead;
use std::path::{Path, PathBuf};

use paceline_lab::{FIGURES, Figure, ReportData};

use super::output::print;
use super::read_job::read_job;
use super::report;
use paceline_place::{PlaceFlags, Placement, may_create_networks};

use crate::Failure;
use crate::cli::SweepArgs;
use crate::interrupt::Interrupt;
use crate::job_args::JobArgs;
use crate::placed::find_placement;
use crate::progress::write_line;
use crate::sweep::{self, PreparedSweep, SweepTally};
use paceline_job::{CellJob, RawJob};
use paceline_record::RunDir;
use paceline_terminal::{fitted, output_width};

/// The signal that the end of standard input stands for: the sweep's process is gone.
const GONE: i32 = signal_hook::consts::SIGTERM;
/// The default parent of sweep directories.
const SWEEPS: &str = "sweeps";

/// Refuses to start one of several equal sweeps.
fn check_alone() -> Result<(), Failure> {
    let why = match find_placement(&PlaceFlags::default()) {
        Ok(Placement::Listed(_)) => {
            "TF_CONFIG is set, but a sweep runs on this machine only; unset it".to_owned()
        }
        Ok(Placement::Ranked(place)) => format!(
            "{} starts {} processes, but a sweep runs on one machine only; start one process",
            place.describe(),
            place.size
        ),
        // The script of a batch job may start a sweep.
        Ok(Placement::Local) | Err(_) => return Ok(()),
    };
    Err(Failure::Usage(why))
}

/// Runs the sweeps that the arguments name.
pub(super) fn sweep(args: &SweepArgs) -> Result<(), Failure> {
    check_alone()?;
    if let Some(dir) = &args.resume {
        let interrupt = Interrupt::listen()?;
        return conclude(vec![run(&PreparedSweep::open(dir)?, args, &interrupt)?], &interrupt);
    }
    let mut files = job_files(args)?;
    let jobs: Vec<RawJob> = files.iter().map(|file| job(args, file)).collect::<Result<_, _>>()?;
    if args.dry_run {
        return jobs.iter().try_for_each(|job| print(&sweep::list(job, args.quick)?));
    }
    // All jobs are checked before the first runs.
    let jobs = runnable(jobs, &mut files, args.quick)?;
    let dirs = directories(args, &jobs)?;
    let interrupt = Interrupt::listen()?;
    let mut tallies = Vec::new();
    for ((job, file), dir) in jobs.iter().zip(&files).zip(&dirs) {
        let sweep = PreparedSweep::prepare(job, file, dir, args.quick)?;
        tallies.push(run(&sweep, args, &interrupt)?);
        if interrupt.signal().is_some() {
            break;
        }
    }
    conclude(tallies, &interrupt)
}

/// The jobs that this process can run. If there are several and this process lacks the rights to
/// emulate hosts, those that need them are left out; a single job reports the error itself.
fn runnable(
    jobs: Vec<RawJob>,
    files: &mut Vec<PathBuf>,
    quick: bool,
) -> Result<Vec<RawJob>, Failure> {
    let several = jobs.len() > 1;
    let mut kept = Vec::new();
    let all = std::mem::take(files);
    for (job, file) in jobs.into_iter().zip(all) {
        let cells = job.cells(quick)?;
        let emulates =
            |cell: &CellJob| cell.job.check().is_ok_and(|plan| plan.cluster.emulate.is_some());
        if several && !may_create_networks() && cells.iter().any(emulates) {
            let name = file.display();
            write_line(&format!("{name} is skipped: it emulates hosts, which needs root"));
            continue;
        }
        kept.push(job);
        files.push(file);
    }
    Ok(kept)
}

/// The job files that the arguments name: one, or all in a directory.
fn job_files(args: &SweepArgs) -> Result<Vec<PathBuf>, Failure> {
    let Some(path) = &args.job.file else {
        return Err(Failure::Usage(
            "name a job file with a [sweep] section, or use --continue DIR".into(),
        ));
    };
    if !path.is_dir() {
        return Ok(vec![path.clone()]);
    }
    let entries = fs::read_dir(path).map_err(Failure::at("read", path))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut files: Vec<_> =
        paths.filter(|path| path.extension() == Some("toml".as_ref())).collect();
    files.sort();
    if files.is_empty() {
        return Err(Failure::Usage(format!("{}: it contains no job files", path.display())));
    }
    Ok(files)
}

fn job(args: &SweepArgs, file: &Path) -> Result<RawJob, Failure> {
    let mut job = read_job(&JobArgs { file: Some(file.to_owned()), ..args.job.clone() })?;
    if !job.has_sweep() {
        return Err(Failure::Usage(format!(
            "{}: it has no [sweep] section; `paceline train` makes a single run",
            file.display()
        )));
    }
    if let Some(repeats) = args.repeats {
        job.set_repeats(repeats);
    }
    Ok(job)
}

/// The directory of each job's sweep.
fn directories(args: &SweepArgs, jobs: &[RawJob]) -> Result<Vec<PathBuf>, Failure> {
    let whole = args.job.file.as_deref().filter(|path| path.is_dir());
    let name = match (whole, jobs) {
        (None, [job]) => job.name(),
        _ => whole.and_then(Path::file_name).unwrap_or("sweep".as_ref()).to_string_lossy().into(),
    };
    let dir = match &args.sweep_dir {
        Some(dir) => dir.clone(),
        None => RunDir::create_named(Path::new(SWEEPS), &name)?.path().to_owned(),
    };
    Ok(match whole {
        None => vec![dir],
        Some(_) => jobs.iter().map(|job| dir.join(job.name())).collect(),
    })
}

/// Makes the missing runs, and the report of all runs.
fn run(
    sweep: &PreparedSweep,
    args: &SweepArgs,
    interrupt: &Interrupt,
) -> Result<SweepTally, Failure> {
    let tally = sweep.run(args.retry_failed, args.quiet, interrupt)?;
    let data = ReportData::read(sweep.dir()).map_err(Failure::at("read", sweep.dir()))?;
    let page = report::write(&data, sweep.dir())?;
    if !args.quiet {
        if tally.done > 0 {
            print(&closing_table(&data))?;
        }
        write_line(&format!("{}; report in {}", tally.text(), page.display()));
    }
    if interrupt.signal().is_some() {
        write_line(&format!("resume with: paceline sweep --continue {}", sweep.dir().display()));
    }
    Ok(tally)
}

fn conclude(tallies: Vec<SweepTally>, interrupt: &Interrupt) -> Result<(), Failure> {
    if let Some(signal) = interrupt.signal() {
        return Err(Failure::Unfinished { signal, why: "; completed runs are kept".into() });
    }
    let failed: usize = tallies.iter().map(|tally| tally.failed).sum();
    let all: usize = tallies.iter().map(|tally| tally.all).sum();
    match failed {
        0 => Ok(()),
        _ => Err(Failure::Training(format!(
            "{failed} of {all} runs failed; the report gives the reasons, and --retry-failed \
             repeats them"
        ))),
    }
}

/// The main figures of the cells; the report has more.
fn closing_table(data: &ReportData) -> String {
    const SHOWN: [&str; 5] =
        ["seconds", "global_steps", "examples_per_second", "test_loss", "test_accuracy"];
    let figures: Vec<&Figure> = FIGURES.iter().filter(|f| SHOWN.contains(&f.name)).collect();
    let mut rows = vec![vec!["cell".to_owned(), "runs".to_owned()]];
    rows[0].extend(figures.iter().map(|figure| figure.title.to_owned()));
    for cell in data.cells.iter().filter(|cell| !cell.runs.is_empty()) {
        let label = if cell.label.is_empty() { &data.name } else { &cell.label };
        let mut row = vec![label.clone(), cell.runs.len().to_string()];
        row.extend(figures.iter().map(|figure| cell.format(figure)));
        rows.push(row);
    }
    fitted(&rows, &["runs", "steps", "examples/s"], output_width())
}

/// Ends the run of this process when its sweep asks on standard input, or when the sweep is gone.
pub(super) fn stop_on_standard_input(interrupt: &Interrupt) {
    let interrupt = interrupt.clone();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if let Some(signal) = line.strip_prefix("stop ") {
                interrupt.record(signal.parse().unwrap_or(GONE));
                return;
            }
        }
        interrupt.record(GONE);
    });
}
