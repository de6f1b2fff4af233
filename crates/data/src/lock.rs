//! A lock between processes: one of them fills a cache at a time.
//!
//! The lock is an operating-system lock on a file beside the data, so it is released when the
//! process that holds it ends, however it ends. The file itself stays and means nothing; only the
//! holder of the lock may remove it. A waiting process polls instead of blocking, because every
//! wait must have a limit and name what it waits for: the holder writes its name into the file.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::DataError;

/// How often a waiting process tries to take the lock.
const POLL: Duration = Duration::from_millis(50);

/// The right to write to a cache. Dropping it, or the end of the process, releases the lock.
#[derive(Debug)]
pub struct CacheLock {
    _file: File,
}

impl CacheLock {
    /// Takes the lock for a holder of this name. While another process holds it, polls until the
    /// lock is free or `timeout` has passed, and calls `waiting` every time with the name of that
    /// process; [`ControlFlow::Break`] ends the wait with [`DataError::Interrupted`].
    ///
    /// # Errors
    /// If the file cannot be opened or locked, the wait is too long, or it is interrupted.
    pub fn take(
        path: &Path,
        name: &str,
        timeout: Duration,
        waiting: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Self, DataError> {
        let start = Instant::now();
        loop {
            if let Some(lock) = Self::try_take(path, name)? {
                return Ok(lock);
            }
            if start.elapsed() >= timeout {
                let (lock, waited_s) = (path.into(), start.elapsed().as_secs());
                return Err(DataError::Busy { lock, holder: holder(path), waited_s });
            }
            if waiting(&holder(path)).is_break() {
                return Err(DataError::Interrupted);
            }
            thread::sleep(POLL);
        }
    }

    /// Takes the lock, unless another process holds it.
    ///
    /// # Errors
    /// If the file cannot be opened or locked.
    pub fn try_take(path: &Path, name: &str) -> Result<Option<Self>, DataError> {
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(DataError::io("open", path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::Error(error)) => return Err(DataError::io("lock", path)(error)),
            Err(TryLockError::WouldBlock) => return Ok(None),
        }
        // Its last holder may have removed the file meanwhile. Then other processes lock another
        // file of this name.
        let same = |there: std::fs::Metadata| {
            file.metadata().is_ok_and(|here| (here.dev(), here.ino()) == (there.dev(), there.ino()))
        };
        if !std::fs::metadata(path).is_ok_and(same) {
            return Ok(None);
        }
        // The name only improves the messages of waiting processes, so a failure to write it does
        // not matter.
        let _ = file.set_len(0).and_then(|()| file.rewind());
        let _ = write!(file, "{name}");
        Ok(Some(CacheLock { _file: file }))
    }
}

/// What the holder of a lock wrote about itself.
pub(crate) fn holder(path: &Path) -> String {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(256).read_to_string(&mut text));
    match read {
        Ok(1..) => text,
        _ => String::from("another process"),
    }
}
