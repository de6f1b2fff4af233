//! The run directory: everything that one training leaves behind. Nothing in it is ever
//! overwritten by another training.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use paceline_filemap::{make_private_dir, read_regular};
use paceline_model::Layout;
use paceline_observe::{BestTest, unix_seconds};

use crate::error::RunFileError;
use crate::model_description::ModelDescription;
use crate::model_file::ModelWriter;
use crate::names::{files, folders, task_folder};
use crate::utc_time::UtcTime;
use crate::whole_file::{write_secret, write_whole};

/// The longest record of a test that is read, in bytes.
const MAX_TEST_BYTES: u64 = 1 << 20;

/// A directory that belongs to one run.
#[derive(Clone, Debug)]
pub struct RunDir {
    path: PathBuf,
    /// An earlier session of the run has left files in it.
    is_reopened: bool,
    /// Held by the process that leads the run, so that no other process resumes it meanwhile.
    _lock: Option<Arc<fs::File>>,
}

impl RunDir {
    /// Creates the directory of a new run, which must be absent or empty.
    pub fn create(wanted: impl AsRef<Path>) -> Result<Self, RunFileError> {
        let wanted = wanted.as_ref();
        let refused = |why: &str| {
            RunFileError::Refused(format!(
                "run directory {}: {why}, and a run never overwrites another; name a new directory",
                wanted.display()
            ))
        };
        if wanted.exists() && !wanted.is_dir() {
            return Err(refused("this is a file"));
        }
        if let Some(file) = wanted.ancestors().skip(1).find(|above| above.is_file()) {
            return Err(RunFileError::Refused(format!(
                "run directory {}: {} is a file, and not a directory; name another directory",
                wanted.display(),
                file.display()
            )));
        }
        if fs::read_dir(wanted).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(refused("it is not empty"));
        }
        make_private_dir(wanted).map_err(unwritable(wanted))?;
        // Two runs may get here at once; the one that creates the first file owns the directory.
        match fs::File::create_new(wanted.join(files::JOB)) {
            Ok(_) => Self { path: wanted.to_owned(), is_reopened: false, _lock: None }.locked(),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(refused("another run has just begun in it"))
            }
            Err(error) => Err(unwritable(wanted)(error)),
        }
    }

    /// Creates `runs/<name>-<time>`, with a number behind it if that exists.
    pub fn create_in_runs(name: &str) -> Result<Self, RunFileError> {
        Self::create_named(Path::new(folders::RUNS), name)
    }

    /// Creates `<name>-<time>` within `parent`, with a number behind it if that exists.
    pub fn create_named(parent: &Path, name: &str) -> Result<Self, RunFileError> {
        fs::create_dir_all(parent).map_err(unwritable(parent))?;
        let stamp = UtcTime::at(unix_seconds() as u64).stamp();
        for attempt in 1u32.. {
            let suffix = if attempt == 1 { String::new() } else { format!("-{attempt}") };
            let path = parent.join(format!("{name}-{stamp}{suffix}"));
            match private().create(&path) {
                Ok(()) => return Self { path, is_reopened: false, _lock: None }.locked(),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(unwritable(&path)(error)),
            }
        }
        unreachable!("some number is free")
    }

    /// Opens the directory of a run to resume it. Nothing in it changes before
    /// [`begin_session`](Self::begin_session).
    pub fn reopen(path: impl AsRef<Path>) -> Result<Self, RunFileError> {
        let path = path.as_ref();
        let run = Self { path: path.to_owned(), is_reopened: true, _lock: None }.locked()?;
        if !path.join(files::JOB).is_file() {
            return Err(RunFileError::Refused(format!(
                "{}: this is not a run directory",
                path.display()
            )));
        }
        Ok(run)
    }

    /// Begins a session: call this when training starts. In a run that was reopened, the results of
    /// the session before move into `sessions/`, and its job is copied there.
    pub fn begin_session(&self) -> Result<(), RunFileError> {
        if !self.is_reopened {
            return Ok(());
        }
        let (job, sessions) = (self.path.join(files::JOB), self.path.join(folders::SESSIONS));
        let free = (1u32..).map(|n| sessions.join(n.to_string())).find(|place| !place.exists());
        let Some(place) = free else { unreachable!("some number is free") };
        fs::create_dir_all(&place).map_err(RunFileError::at("make the folder", &place))?;
        fs::copy(&job, place.join(files::JOB)).map_err(RunFileError::at("copy", &job))?;
        for name in [files::SUMMARY, files::MODEL, files::EVALUATION, files::TIMELINE] {
            let file = self.path.join(name);
            if file.exists() {
                fs::rename(&file, place.join(name)).map_err(RunFileError::at("move", &file))?;
            }
        }
        Ok(())
    }

    /// Locks the directory for as long as the value lives. The system unlocks it if the process
    /// dies.
    fn locked(self) -> Result<Self, RunFileError> {
        let dir = fs::File::open(&self.path).map_err(RunFileError::at("open", &self.path))?;
        match dir.try_lock() {
            Err(fs::TryLockError::WouldBlock) => {
                let path = self.path.display();
                Err(RunFileError::Refused(format!("{path}: another process is using this run")))
            }
            // On a file system without locks the run proceeds unprotected.
            Ok(()) | Err(fs::TryLockError::Error(_)) => {
                Ok(Self { _lock: Some(Arc::new(dir)), ..self })
            }
        }
    }

    /// Joins a run in which this task may have taken part before: its folder may exist.
    pub fn rejoin(path: &Path, task: &str) -> Result<Self, RunFileError> {
        let run = Self { path: path.to_owned(), is_reopened: false, _lock: None };
        let folder = run.task(task);
        make_private_dir(path).map_err(RunFileError::at("make the run directory", path))?;
        fs::create_dir_all(&folder).map_err(RunFileError::at("make the folder", &folder))?;
        Ok(run)
    }

    /// The directory of a run whose tasks join it later. It is created if it does not exist.
    pub fn prepare(path: &Path) -> Result<Self, RunFileError> {
        make_private_dir(path).map_err(RunFileError::at("make the run directory", path))?;
        Ok(Self { path: path.to_owned(), is_reopened: false, _lock: None })
    }

    /// Joins a run that several tasks share: the directory may exist, this task's folder must
    /// not.
    pub fn join(path: &Path, task: &str) -> Result<Self, RunFileError> {
        Self::prepare(path)?.with_task(task)
    }

    /// The directory in which a worker that joins a run late creates its folder: `wanted` if the
    /// user names one, else the run's own if `is_same_run` finds that run at this path on this
    /// machine, else a new one.
    pub fn for_late_worker(
        run: &Path,
        wanted: Option<&Path>,
        name: &str,
        is_same_run: impl FnOnce(&Path) -> bool,
    ) -> Result<Self, RunFileError> {
        match wanted.or_else(|| Some(run).filter(|run| is_same_run(run))) {
            Some(path) => Ok(Self { path: path.to_owned(), is_reopened: false, _lock: None }),
            None => Self::create_in_runs(name),
        }
    }

    /// Creates the folder of a task, which must not exist.
    pub fn with_task(self, task: &str) -> Result<Self, RunFileError> {
        let folder = self.task(task);
        match fs::create_dir(&folder) {
            Ok(()) => Ok(self),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(RunFileError::Refused(format!(
                    "{}: {task} already has a folder in this run, and files are never overwritten; \
                     name a new directory",
                    folder.display()
                )))
            }
            Err(error) => Err(RunFileError::at("make the folder", &folder)(error)),
        }
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A task's own folder, such as `worker_0`.
    pub fn task(&self, task: &str) -> PathBuf {
        self.path.join(task_folder(task))
    }

    /// Whether the run has ended: its coordinator writes the summary last.
    pub fn has_ended(&self) -> bool {
        self.path.join(files::SUMMARY).exists()
    }

    /// Removes the summary of a run that continues after its summary was written.
    pub fn remove_summary(&self) -> Result<(), RunFileError> {
        let path = self.path.join(files::SUMMARY);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(RunFileError::at("remove", &path)(error))
            }
            _ => Ok(()),
        }
    }

    /// Where the run's checkpoints belong.
    pub fn checkpoints(&self) -> PathBuf {
        self.path.join(folders::CHECKPOINTS)
    }

    /// Starts the file of the run's trained model, with the parameters of global step `step`.
    pub fn model_writer(
        &self,
        layout: &Layout,
        step: u64,
        description: Option<&ModelDescription>,
    ) -> Result<ModelWriter, RunFileError> {
        ModelWriter::create(&self.path.join(files::MODEL), layout, step, description)
    }

    /// Starts the file of the run's best model, with the parameters of global step `step`. Complete
    /// it with [`write_best_test`](Self::write_best_test).
    pub fn best_model_writer(
        &self,
        layout: &Layout,
        step: u64,
        description: Option<&ModelDescription>,
    ) -> Result<ModelWriter, RunFileError> {
        ModelWriter::create(&self.path.join(files::BEST_MODEL), layout, step, description)
    }

    /// Records the test of the best model, once the model's file is complete.
    pub fn write_best_test(&self, best: &BestTest) -> Result<(), RunFileError> {
        let json = serde_json::to_string_pretty(best).unwrap_or_default();
        self.write(files::BEST_TEST, format!("{json}\n").as_bytes())
    }

    /// The test of the best model that the run has kept so far, if it has kept one.
    pub fn best_test(&self) -> Result<Option<BestTest>, RunFileError> {
        let path = self.path.join(files::BEST_TEST);
        let text = match self.read(files::BEST_TEST, MAX_TEST_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(RunFileError::at("read", &path))?,
        };
        serde_json::from_slice(&text).map(Some).map_err(|error| {
            RunFileError::Refused(format!(
                "{}: {error}; remove it to let the next test be the best one",
                path.display()
            ))
        })
    }

    /// The content of a file of the run.
    ///
    /// # Errors
    /// If it cannot be read, is not a regular file, or has more than `most` bytes.
    pub fn read(&self, name: &str, most: u64) -> io::Result<Vec<u8>> {
        read_regular(&self.path.join(name), most)
    }

    /// Writes a file of the run unless it exists.
    pub fn write_new(&self, name: &str, contents: &[u8]) -> Result<(), RunFileError> {
        let path = self.path.join(name);
        if path.exists() {
            return Ok(());
        }
        // Another process may write it at the same time.
        self.write(name, contents).or_else(|error| if path.exists() { Ok(()) } else { Err(error) })
    }

    /// Writes a file that only its owner can read. The file is complete or absent.
    pub fn write_secret(&self, name: &str, contents: &[u8]) -> Result<(), RunFileError> {
        write_secret(&self.path.join(name), contents)
    }

    /// Writes a file of the run. The file is complete or absent.
    pub fn write(&self, name: &str, contents: &[u8]) -> Result<(), RunFileError> {
        write_whole(&self.path.join(name), |temporary| fs::write(temporary, contents))
    }
}

/// Makes directories that only their owner may read: a job names files, and a model reveals
/// something of its data.
fn private() -> fs::DirBuilder {
    let mut builder = fs::DirBuilder::new();
    builder.mode(0o700);
    builder
}

/// For `map_err`: a run's directory cannot be made or written.
fn unwritable(path: &Path) -> impl FnOnce(io::Error) -> RunFileError {
    move |error| match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            RunFileError::Refused(format!(
                "cannot write to the directory {}: {error}; name one that you can write, with \
                 --run-dir or, for a sweep, --sweep-dir",
                path.display()
            ))
        }
        _ => RunFileError::at("make the run directory", path)(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_the_user_may_not_write_is_refused_with_the_option_that_names_another() {
        for kind in [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem] {
            let error = unwritable(Path::new("/a/run"))(kind.into());
            assert!(matches!(error, RunFileError::Refused(_)), "{error}");
            let text = error.to_string();
            assert!(text.contains("/a/run") && text.contains("--run-dir"), "{text}");
        }
        let error = unwritable(Path::new("/a/run"))(io::ErrorKind::StorageFull.into());
        assert!(matches!(error, RunFileError::Io { .. }), "{error}");
    }

    #[test]
    fn two_runs_within_one_second_get_different_directories() {
        let dir = tempfile::tempdir().unwrap();
        let first = RunDir::create_named(dir.path(), "a").unwrap();
        let second = RunDir::create_named(dir.path(), "a").unwrap();
        assert_ne!(first.path(), second.path());
    }

    #[test]
    fn one_of_many_simultaneous_runs_gets_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        for round in 0..200 {
            let wanted = dir.path().join(round.to_string());
            let ready = std::sync::Barrier::new(4);
            let claim = || {
                ready.wait();
                RunDir::create(&wanted).map_err(|error| matches!(error, RunFileError::Refused(_)))
            };
            let claims = std::thread::scope(|scope| {
                let threads = [(); 4].map(|()| scope.spawn(claim));
                threads.map(|thread| thread.join().unwrap())
            });
            assert_eq!(claims.iter().filter(|claim| claim.is_ok()).count(), 1);
            assert!(claims.iter().all(|claim| !matches!(claim, Err(false))));
        }
    }

    #[test]
    fn a_directory_that_is_not_empty_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        RunDir::create(dir.path()).unwrap().write("x", b"1").unwrap();
        let refused = RunDir::create(dir.path()).unwrap_err();
        assert!(matches!(refused, RunFileError::Refused(_)), "{refused}");
        assert_eq!(fs::read(dir.path().join("x")).unwrap(), b"1");
    }

    #[test]
    fn a_file_on_the_way_to_the_directory_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "1").unwrap();
        let refused = RunDir::create(file.join("run")).unwrap_err().to_string();
        let says = format!("{} is a file, and not a directory", file.display());
        assert!(refused.contains(&says), "{refused}");
    }
}
