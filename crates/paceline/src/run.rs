//! The run directory: everything that one training leaves behind, and never over another's.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::Failure;
use crate::job::RawJob;

/// The run in numbers, which is written when everything else is there.
pub(crate) const SUMMARY: &str = "summary.json";

/// A directory that belongs to one run.
#[derive(Clone, Debug)]
pub struct RunDir {
    path: PathBuf,
    /// Held by whoever leads the run, so that nobody resumes it meanwhile.
    _lock: Option<Arc<fs::File>>,
}

impl RunDir {
    /// Makes the directory for a new run: `wanted`, which must not hold anything yet, or else
    /// `runs/<name>-<time>`.
    pub fn create(wanted: Option<&Path>, name: &str) -> Result<Self, Failure> {
        let Some(wanted) = wanted else { return Self::create_named(Path::new("runs"), name) };
        let refused = |why: &str| {
            Failure::Usage(format!(
                "--run-dir {}: {why}, and a run never overwrites another; name a new directory",
                wanted.display()
            ))
        };
        if wanted.exists() && !wanted.is_dir() {
            return Err(refused("this is a file"));
        }
        if fs::read_dir(wanted).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(refused("there is something in it already"));
        }
        fs::create_dir_all(wanted).map_err(Failure::at("make the run directory", wanted))?;
        // Two runs may get here at once; whoever makes the first file has the directory.
        match fs::File::create_new(wanted.join("job.toml")) {
            Ok(_) => Self { path: wanted.to_owned(), _lock: None }.locked(),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(refused("another run has just begun in it"))
            }
            Err(error) => Err(Failure::at("write to the run directory", wanted)(error)),
        }
    }

    /// Makes a new directory of this name and the time within `parent`.
    pub(crate) fn create_named(parent: &Path, name: &str) -> Result<Self, Failure> {
        fs::create_dir_all(parent).map_err(Failure::at("make the directory", parent))?;
        let stamp = utc_stamp(SystemTime::now());
        for attempt in 1u32.. {
            let suffix = if attempt == 1 { String::new() } else { format!("-{attempt}") };
            let path = parent.join(format!("{name}-{stamp}{suffix}"));
            match fs::create_dir(&path) {
                Ok(()) => return Self { path, _lock: None }.locked(),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(Failure::at("make the run directory", &path)(error)),
            }
        }
        unreachable!("some number is free")
    }

    /// Opens the directory of a run that is to go on. What a session before has left as its
    /// result moves into `sessions/`, and its job is copied there.
    pub fn reopen(path: &Path) -> Result<Self, Failure> {
        let run = Self { path: path.to_owned(), _lock: None }.locked()?;
        let job = path.join("job.toml");
        if !job.is_file() {
            return Err(Failure::Usage(format!("{}: this is no run directory", path.display())));
        }
        let sessions = path.join("sessions");
        let free = (1u32..).map(|n| sessions.join(n.to_string())).find(|place| !place.exists());
        let Some(place) = free else { unreachable!("some number is free") };
        fs::create_dir_all(&place).map_err(Failure::at("make the folder", &place))?;
        fs::copy(&job, place.join("job.toml")).map_err(Failure::at("copy", &job))?;
        for name in [SUMMARY, "model.safetensors", "trace.json"] {
            let file = path.join(name);
            if file.exists() {
                fs::rename(&file, place.join(name)).map_err(Failure::at("move", &file))?;
            }
        }
        Ok(run)
    }

    /// Locks the directory for as long as this lives. The system unlocks it if the process dies.
    fn locked(self) -> Result<Self, Failure> {
        let dir = fs::File::open(&self.path).map_err(Failure::at("open", &self.path))?;
        match dir.try_lock() {
            Err(fs::TryLockError::WouldBlock) => {
                let path = self.path.display();
                Err(Failure::Usage(format!("{path}: another process is at work on this run")))
            }
            // Where there are no locks, nobody can be kept out.
            Ok(()) | Err(fs::TryLockError::Error(_)) => {
                Ok(Self { _lock: Some(Arc::new(dir)), ..self })
            }
        }
    }

    /// Joins a run again, in which this task may have been before.
    pub fn rejoin(path: &Path, task: &str) -> Result<Self, Failure> {
        let run = Self { path: path.to_owned(), _lock: None };
        let folder = run.task(task);
        fs::create_dir_all(&folder).map_err(Failure::at("make the folder", &folder))?;
        Ok(run)
    }

    /// Joins a run that several tasks share: the directory may be there, but not this task's
    /// folder in it.
    pub fn join(path: &Path, task: &str) -> Result<Self, Failure> {
        fs::create_dir_all(path).map_err(Failure::at("make the run directory", path))?;
        Self { path: path.to_owned(), _lock: None }.with_task(task)
    }

    /// The directory in which somebody who comes later makes its folder: the one it is told to, or
    /// the run's own if that is on this machine, or a new one.
    pub fn of_newcomer(
        run: &Path,
        wanted: Option<&Path>,
        job: &RawJob,
        name: &str,
    ) -> Result<Self, Failure> {
        let is_its_own = |there: &RawJob| there.digest() == job.digest();
        let is_here = || RawJob::read(&run.join("job.toml")).is_ok_and(|there| is_its_own(&there));
        match wanted.or_else(|| Some(run).filter(|_| is_here())) {
            Some(path) => Ok(Self { path: path.to_owned(), _lock: None }),
            None => Self::create(None, name),
        }
    }

    /// Makes the folder of a task, which must be new.
    pub fn with_task(self, task: &str) -> Result<Self, Failure> {
        let folder = self.task(task);
        match fs::create_dir(&folder) {
            Ok(()) => Ok(self),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(Failure::Usage(format!(
                    "{}: {task} has been in this run already, and nothing is overwritten; \
                     name a new directory",
                    folder.display()
                )))
            }
            Err(error) => Err(Failure::at("make the folder", &folder)(error)),
        }
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A task's own folder, such as `worker_0`.
    pub fn task(&self, task: &str) -> PathBuf {
        self.path.join(task.replace(':', "_"))
    }

    /// Whether the run has come to its end here: the summary is what its chief writes last.
    pub fn has_ended(&self) -> bool {
        self.path.join(SUMMARY).exists()
    }

    /// The run has not ended after all: it has gone on since somebody wrote its summary.
    pub fn goes_on(&self) -> Result<(), Failure> {
        let path = self.path.join(SUMMARY);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Failure::at("remove", &path)(error))
            }
            _ => Ok(()),
        }
    }

    /// Writes a file of the run unless it is there already.
    pub fn write_new(&self, name: &str, contents: &[u8]) -> Result<(), Failure> {
        if self.path.join(name).exists() { Ok(()) } else { self.write(name, contents) }
    }

    /// Writes a file that only its owner may read, whole or not at all.
    pub fn write_secret(&self, name: &str, contents: &[u8]) -> Result<(), Failure> {
        let mut options = fs::File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        write_whole(&self.path.join(name), |temporary| options.open(temporary)?.write_all(contents))
    }

    /// Writes a file of the run, whole or not at all.
    pub fn write(&self, name: &str, contents: &[u8]) -> Result<(), Failure> {
        write_whole(&self.path.join(name), |temporary| fs::write(temporary, contents))
    }
}

/// Has a file written under a temporary name, and renames it once it is complete and on disk.
pub(crate) fn write_whole(
    path: &Path,
    write: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<(), Failure> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    let temporary = path.with_file_name(name);
    let written = write(&temporary)
        .and_then(|()| fs::File::open(&temporary)?.sync_all())
        .and_then(|()| fs::rename(&temporary, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&temporary);
        Failure::at("write", path)(error)
    })
}

/// A moment as `YYYYMMDD-HHMMSS` in UTC, by Hinnant's algorithm for the civil calendar.
fn utc_stamp(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second) = ((seconds / 86_400) as i64, seconds % 86_400);
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn stamps_are_utc_dates() {
        for (seconds, stamp) in [
            (0, "19700101-000000"),
            (951_782_400, "20000229-000000"),
            (1_709_251_199, "20240229-235959"),
            (1_791_763_200, "20261012-000000"),
        ] {
            assert_eq!(utc_stamp(UNIX_EPOCH + Duration::from_secs(seconds)), stamp);
        }
    }

    #[test]
    fn two_runs_of_one_second_get_directories_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let first = RunDir::create_named(dir.path(), "a").unwrap();
        let second = RunDir::create_named(dir.path(), "a").unwrap();
        assert_ne!(first.path(), second.path());
    }

    #[test]
    fn of_many_that_want_one_directory_at_the_same_moment_one_gets_it() {
        let dir = tempfile::tempdir().unwrap();
        for round in 0..200 {
            let wanted = dir.path().join(round.to_string());
            let ready = std::sync::Barrier::new(4);
            let claim = || {
                ready.wait();
                RunDir::create(Some(&wanted), "a").map_err(|refused| refused.exit_code())
            };
            let claims = std::thread::scope(|scope| {
                let threads = [(); 4].map(|()| scope.spawn(claim));
                threads.map(|thread| thread.join().unwrap())
            });
            assert_eq!(claims.iter().filter(|claim| claim.is_ok()).count(), 1);
            assert!(claims.iter().all(|claim| !matches!(claim, Err(code) if *code != 2)));
        }
    }

    #[test]
    fn a_directory_with_something_in_it_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        RunDir::create(Some(dir.path()), "a").unwrap().write("x", b"1").unwrap();
        let refused = RunDir::create(Some(dir.path()), "a").unwrap_err();
        assert_eq!(refused.exit_code(), 2);
        assert_eq!(fs::read(dir.path().join("x")).unwrap(), b"1");
    }
}
