//! Whether a task still records: a full disk costs the records, not the run.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::RunFileError;

/// Free space that records leave beside that of the model and a checkpoint.
const MARGIN_BYTES: u64 = 16 << 20;

/// Receives a warning.
#[derive(Clone)]
pub struct Notice(Arc<dyn Fn(&str) + Send + Sync>);

impl Notice {
    /// Passes warnings to a function.
    pub fn new(warn: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(warn))
    }
}

impl Default for Notice {
    /// Ignores warnings.
    fn default() -> Self {
        Self::new(|_| {})
    }
}

impl fmt::Debug for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notice")
    }
}

/// Ends a task's records, events and resource samples alike, when they cannot be written or when
/// the disk has no more room than the model needs. Says so once.
#[derive(Clone, Debug)]
pub(crate) struct Telemetry {
    state: Arc<TelemetryState>,
}

#[derive(Debug)]
struct TelemetryState {
    dir: PathBuf,
    /// Free bytes that the model and a checkpoint need.
    reserve_bytes: u64,
    notice: Notice,
    is_over: AtomicBool,
}

impl Telemetry {
    /// The records in `dir`, a task's folder.
    pub(crate) fn new(dir: &Path, reserve_bytes: u64, notice: Notice) -> Self {
        let (dir, is_over) = (dir.to_owned(), AtomicBool::new(false));
        Self { state: Arc::new(TelemetryState { dir, reserve_bytes, notice, is_over }) }
    }

    /// Whether nothing more may be written.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.state.is_over.load(Ordering::Relaxed)
    }

    /// Ends the records if the disk has too little free space. Returns whether they continue.
    pub(crate) fn has_room(&self) -> bool {
        let TelemetryState { dir, reserve_bytes, .. } = &*self.state;
        // A file system that does not say how much is free fails by itself when it is full.
        if let Ok(disk) = rustix::fs::statvfs(dir) {
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            let needed = reserve_bytes.saturating_add(MARGIN_BYTES);
            if free < needed {
                self.end(&format!(
                    "{} has only {:.1} MB free, and the model and a checkpoint may need {} MB",
                    dir.display(),
                    free as f64 / 1e6,
                    needed.div_ceil(1_000_000),
                ));
            }
        }
        !self.is_over()
    }

    /// Ends the records if this failed.
    pub(crate) fn check(&self, action: &str, written: io::Result<()>) {
        if let Err(error) = written {
            self.end(&RunFileError::at(action, &self.state.dir)(error).to_string());
        }
    }

    fn end(&self, why: &str) {
        if !self.state.is_over.swap(true, Ordering::Relaxed) {
            (self.state.notice.0)(&format!(
                "{why}; the task records no more events and resource samples, and continues"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Telemetry that reserves this much, and what it says.
    fn telemetry(reserve_bytes: u64) -> (Telemetry, Arc<Mutex<Vec<String>>>, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let sink = said.clone();
        let notice = Notice::new(move |text| sink.lock().unwrap().push(text.to_owned()));
        (Telemetry::new(dir.path(), reserve_bytes, notice), said, dir)
    }

    #[test]
    fn short_space_ends_the_records_and_is_said_once() {
        let (enough, said, _dir) = telemetry(0);
        assert!(enough.has_room() && said.lock().unwrap().is_empty());
        let (short, said, _dir) = telemetry(u64::MAX);
        assert!(!short.has_room() && !short.has_room() && short.is_over());
        let said = said.lock().unwrap();
        assert!(said.len() == 1 && said[0].contains("MB free"), "{said:?}");
    }

    #[test]
    fn a_failed_write_ends_the_records_and_names_the_folder() {
        let (telemetry, said, dir) = telemetry(0);
        telemetry.check("write the events in", Ok(()));
        assert!(!telemetry.is_over());
        telemetry.check("write the events in", Err(io::ErrorKind::StorageFull.into()));
        telemetry.check("write the events in", Err(io::ErrorKind::StorageFull.into()));
        let said = said.lock().unwrap();
        let path = dir.path().display().to_string();
        assert!(telemetry.is_over() && said.len() == 1 && said[0].contains(&path), "{said:?}");
    }
}
