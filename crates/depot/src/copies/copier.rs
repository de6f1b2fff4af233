//! The thread that copies checkpoints.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use paceline_checkpoint::{CheckpointDir, Manifest};

use super::stored_run::{StoredRun, folder, is_manifest};

/// How often the thread looks for a new checkpoint.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The pauses after failed attempts: the first, doubled up to the last.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(30);

/// Copies each checkpoint that becomes complete. If several do while one is copied, only the newest
/// of them is.
pub struct Copier {
    shared: Arc<CopierState>,
    thread: Option<JoinHandle<()>>,
}

struct CopierState {
    run: StoredRun,
    checkpoints: CheckpointDir,
    keep: usize,
    /// Files that are copied besides checkpoints, by their names.
    files: Vec<(String, PathBuf)>,
    /// Takes messages for the log.
    note: Box<dyn Fn(&str) + Send + Sync>,
    progress: Mutex<CopyProgress>,
    has_changed: Condvar,
}

/// What the place has, as far as this process has copied it.
#[derive(Default)]
struct Copied {
    /// The manifest of the newest checkpoint.
    manifest: Vec<u8>,
    /// The lengths and times of files.
    files: BTreeMap<String, (u64, Option<SystemTime>)>,
}

#[derive(Default)]
struct CopyProgress {
    /// The run is over: the next copy is the last.
    is_last: bool,
    /// Everything is copied, or why not.
    result: Option<Result<(), String>>,
    is_given_up: bool,
}

impl Copier {
    /// Copies the checkpoints in `checkpoints` and keeps the newest `keep` copies. With each
    /// checkpoint it copies the `files`, by their names, that have changed. `note` takes messages
    /// for the log.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn start(
        run: StoredRun,
        checkpoints: CheckpointDir,
        keep: usize,
        files: Vec<(String, PathBuf)>,
        note: impl Fn(&str) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(CopierState {
            run,
            checkpoints,
            keep,
            files,
            note: Box::new(note),
            progress: Mutex::default(),
            has_changed: Condvar::new(),
        });
        let state = shared.clone();
        let thread = thread::Builder::new().name("copier".into()).spawn(move || state.work())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Copies the last checkpoint and the last state of all files, and waits for it up to `limit`,
    /// or until `gives_up`, which is asked several times a second. The error says why the copy is
    /// not complete.
    pub fn finish(self, limit: Duration, gives_up: &mut dyn FnMut() -> bool) -> Result<(), String> {
        let deadline = Instant::now() + limit;
        let mut progress = self.shared.progress();
        progress.is_last = true;
        self.shared.has_changed.notify_all();
        loop {
            if let Some(result) = progress.result.take() {
                return result;
            }
            let now = Instant::now();
            if now >= deadline || gives_up() {
                return Err("it takes too long".into());
            }
            let slice = LOOK_EVERY.min(deadline - now);
            let waited = self.shared.has_changed.wait_timeout(progress, slice);
            (progress, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        self.shared.progress().is_given_up = true;
        self.shared.has_changed.notify_all();
        // A thread in the middle of a copy ends with the process: a copy without its manifest does
        // not count.
        drop(self.thread.take().filter(JoinHandle::is_finished));
    }
}

impl CopierState {
    fn progress(&self) -> MutexGuard<'_, CopyProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies until the run is over.
    fn work(&self) {
        let mut copied = Copied::default();
        let mut pause = FIRST_PAUSE;
        loop {
            let is_last = self.progress().is_last;
            let result = self.copy_newest(&mut copied, is_last);
            let wait = match &result {
                Ok(()) => LOOK_EVERY,
                Err(error) => {
                    (self.note)(&format!("cannot copy the checkpoint: {error}"));
                    pause = LAST_PAUSE.min(2 * pause);
                    pause / 2
                }
            };
            let mut progress = self.progress();
            if is_last {
                progress.result = Some(result.map_err(|error| error.to_string()));
                self.has_changed.notify_all();
                return;
            }
            if !progress.is_last && !progress.is_given_up {
                let waited = self.has_changed.wait_timeout(progress, wait);
                (progress, _) = waited.unwrap_or_else(PoisonError::into_inner);
            }
            if progress.is_given_up {
                return;
            }
        }
    }

    /// Copies the newest complete checkpoint unless it is copied already, and the files that have
    /// changed with it; in any case if it `is_last`.
    fn copy_newest(&self, copied: &mut Copied, is_last: bool) -> io::Result<()> {
        let complete = |&step: &u64| self.checkpoints.is_complete(step);
        let newest = self.checkpoints.steps().into_iter().find(complete);
        let text = newest.map(|step| fs::read(self.checkpoints.place(step).join(Manifest::FILE)));
        let text = text.transpose()?;
        let is_new = text.as_ref().is_some_and(|text| *text != copied.manifest);
        if is_new || is_last {
            self.copy_files(copied)?;
        }
        let (Some(step), Some(text), true) = (newest, text, is_new) else { return Ok(()) };
        let manifest = self.checkpoints.manifest(step).map_err(io::Error::other)?;
        let place = self.checkpoints.place(step);
        let shards = manifest.shards.iter().map(|shard| shard.file.as_str());
        for file in shards.chain([Manifest::FILE]) {
            self.run.store.put(&format!("{}/{file}", folder(step)), &place.join(file))?;
        }
        copied.manifest = text;
        (self.note)(&format!("copied the checkpoint of step {step}"));
        self.remove_others(step)
    }

    /// Copies the files that have changed since they were copied.
    fn copy_files(&self, copied: &mut Copied) -> io::Result<()> {
        for (name, path) in &self.files {
            let Ok(about) = fs::metadata(path) else { continue };
            let state = (about.len(), about.modified().ok());
            if copied.files.get(name) != Some(&state) {
                self.run.store.put(name, path)?;
                copied.files.insert(name.clone(), state);
            }
        }
        Ok(())
    }

    /// Removes all copies but the newest ones up to `step`. Newer ones are from before the run went
    /// back to an earlier checkpoint.
    fn remove_others(&self, step: u64) -> io::Result<()> {
        let mut found = self.run.checkpoints()?;
        let newer = found.split_off(&step.saturating_add(1));
        let complete = found.iter().rev().filter(|(_, files)| files.iter().any(|f| is_manifest(f)));
        let oldest = complete.map(|(step, _)| *step).take(self.keep).last().unwrap_or(step);
        let older = found.into_iter().filter(|(step, _)| *step < oldest);
        for (_, mut files) in older.chain(newer) {
            // The manifest is removed first, so that what is left of a copy never looks complete.
            files.sort_by_key(|name| !is_manifest(name));
            files.iter().try_for_each(|name| self.run.store.remove(name))?;
        }
        Ok(())
    }
}
