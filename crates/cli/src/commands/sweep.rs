//! `paceline sweep`: a job file's matrix, run by run, and the report at its end.

use std::fs;
use std::io::BufRead;
use std::path::{Path, PathBuf};

use paceline_lab::{FIGURES, Figure, ReportData};

use super::{print, raw_job, report};
use paceline_place::may_make_networks;

use crate::Failure;
use crate::cli::Sweep as Args;
use crate::interrupt::Interrupt;
use crate::job::{CellJob, RawJob};
use crate::progress::write_line;
use crate::sweep::{self, Sweep, Tally};
use crate::table::aligned;
use paceline_record::RunDir;

/// What it means when nobody holds the other end of standard input any more.
const GONE: i32 = signal_hook::consts::SIGTERM;
/// Where sweeps go unless somebody says.
const SWEEPS: &str = "sweeps";

/// Runs what the arguments ask for.
pub(super) fn sweep(args: &Args) -> Result<(), Failure> {
    if std::env::var_os(paceline_place::TF_CONFIG).is_some() {
        let why = "TF_CONFIG is set, but a sweep makes its runs on this machine; unset it";
        return Err(Failure::Usage(why.into()));
    }
    if let Some(dir) = &args.resume {
        let interrupt = listen()?;
        return conclude(vec![run(&Sweep::open(dir)?, args, &interrupt)?], &interrupt);
    }
    let mut files = job_files(args)?;
    let jobs: Vec<RawJob> = files.iter().map(|file| job(args, file)).collect::<Result<_, _>>()?;
    if args.dry_run {
        return jobs.iter().try_for_each(|job| print(&sweep::list(job, args.quick)?));
    }
    // All jobs are looked at before the first is run.
    let jobs = runnable(jobs, &mut files, args.quick)?;
    let dirs = directories(args, &jobs)?;
    let interrupt = listen()?;
    let mut tallies = Vec::new();
    for ((job, file), dir) in jobs.iter().zip(&files).zip(&dirs) {
        let sweep = Sweep::prepare(job, file, dir, args.quick)?;
        tallies.push(run(&sweep, args, &interrupt)?);
        if interrupt.signal().is_some() {
            break;
        }
    }
    conclude(tallies, &interrupt)
}

/// The jobs that this process can run: of several, those that need root are passed over by who is
/// not. One alone says itself what it needs.
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
        if several && !may_make_networks() && cells.iter().any(emulates) {
            let name = file.display();
            write_line(&format!("{name} is left out: it emulates hosts, which needs root"));
            continue;
        }
        kept.push(job);
        files.push(file);
    }
    Ok(kept)
}

fn listen() -> Result<Interrupt, Failure> {
    Interrupt::listen()
        .map_err(|error| Failure::Training(format!("cannot listen for signals: {error}")))
}

/// The job files that the arguments name: one, or all of a directory.
fn job_files(args: &Args) -> Result<Vec<PathBuf>, Failure> {
    let Some(path) = &args.job.file else {
        return Err(Failure::Usage("name a job file that has a [sweep], or --continue DIR".into()));
    };
    if !path.is_dir() {
        return Ok(vec![path.clone()]);
    }
    let entries = fs::read_dir(path).map_err(Failure::at("read", path))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut files: Vec<_> =
        paths.filter(|path| path.extension() == Some("toml".as_ref())).collect();
    files.sort();
    match files.is_empty() {
        true => Err(Failure::Usage(format!("{}: there are no job files in it", path.display()))),
        false => Ok(files),
    }
}

fn job(args: &Args, file: &Path) -> Result<RawJob, Failure> {
    let mut job = raw_job(&crate::cli::Job { file: Some(file.to_owned()), ..args.job.clone() })?;
    if !job.has_sweep() {
        return Err(Failure::Usage(format!(
            "{}: there is no [sweep] in it; `paceline train` makes a single run",
            file.display()
        )));
    }
    if let Some(repeats) = args.repeats {
        job.set_repeats(repeats);
    }
    Ok(job)
}

/// Where each job's sweep goes.
fn directories(args: &Args, jobs: &[RawJob]) -> Result<Vec<PathBuf>, Failure> {
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

/// Makes the runs that are still to be made, and the report of all.
fn run(sweep: &Sweep, args: &Args, interrupt: &Interrupt) -> Result<Tally, Failure> {
    let tally = sweep.run(args.retry_failed, args.quiet, interrupt)?;
    let data = ReportData::read(sweep.dir()).map_err(Failure::at("read", sweep.dir()))?;
    let page = report::write(&data, sweep.dir())?;
    if !args.quiet {
        print(&closing_table(&data))?;
        write_line(&format!("{}; report in {}", tally.text(), page.display()));
    }
    if interrupt.signal().is_some() {
        write_line(&format!("go on with: paceline sweep --continue {}", sweep.dir().display()));
    }
    Ok(tally)
}

fn conclude(tallies: Vec<Tally>, interrupt: &Interrupt) -> Result<(), Failure> {
    if let Some(signal) = interrupt.signal() {
        return Err(Failure::Interrupted { signal });
    }
    let failed: usize = tallies.iter().map(|tally| tally.failed).sum();
    let all: usize = tallies.iter().map(|tally| tally.all).sum();
    match failed {
        0 => Ok(()),
        _ => Err(Failure::Training(format!(
            "{failed} of {all} runs failed; the report says why, --retry-failed runs them again"
        ))),
    }
}

/// The cells on one screen; the report has more.
fn closing_table(data: &ReportData) -> String {
    const SHOWN: [&str; 5] =
        ["seconds", "global_steps", "examples_per_second", "test_loss", "test_accuracy"];
    let figures: Vec<&Figure> = FIGURES.iter().filter(|f| SHOWN.contains(&f.name)).collect();
    let mut rows = vec![vec!["cell".to_owned(), "runs".to_owned()]];
    rows[0].extend(figures.iter().map(|figure| figure.title.to_owned()));
    for cell in &data.cells {
        let label = if cell.label.is_empty() { &data.name } else { &cell.label };
        let mut row = vec![label.clone(), cell.runs.len().to_string()];
        row.extend(figures.iter().map(|figure| cell.format(figure)));
        rows.push(row);
    }
    aligned(&rows)
}

/// Has this process end its run when its sweep says so on standard input, or is gone.
pub(super) fn obey_standard_input(interrupt: &Interrupt) {
    let interrupt = interrupt.clone();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if let Some(signal) = line.strip_prefix("stop ") {
                interrupt.note(signal.parse().unwrap_or(GONE));
                return;
            }
        }
        interrupt.note(GONE);
    });
}
