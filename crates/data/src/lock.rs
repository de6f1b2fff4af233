//! A lock between processes: one of them fills a cache at a time.
//!
//! The lock is an operating-system lock on a file beside the data, so it is released when the
//! process that holds it ends, however it ends. The file itself stays and means nothing. A
//! waiting process polls instead of blocking, because every wait must have a limit and name what
//! it waits for: the holder writes its process number into the file.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::DataError;

/// How often a waiting process tries to take the lock.
const POLL: Duration = Duration::from_millis(50);

/// The right to write to a cache. Dropping it, or the end of the process, releases the lock.
pub(crate) struct CacheLock {
    _file: File,
}

impl CacheLock {
    /// Takes the lock. If another process holds it, calls `waiting` once with a description of
    /// that process, then polls until the lock is free or `timeout` has passed.
    pub(crate) fn take(
        path: &Path,
        timeout: Duration,
        waiting: &mut dyn FnMut(String),
    ) -> Result<Self, DataError> {
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(DataError::io("open", path))?;
        let start = Instant::now();
        let mut reported = false;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(error)) => return Err(DataError::io("lock", path)(error)),
                Err(TryLockError::WouldBlock) => {}
            }
            if start.elapsed() >= timeout {
                let (lock, waited_s) = (path.into(), start.elapsed().as_secs());
                return Err(DataError::Busy { lock, holder: holder(path), waited_s });
            }
            if !reported {
                waiting(holder(path));
                reported = true;
            }
            thread::sleep(POLL);
        }
        // The process number only improves the messages of waiting processes, so a failure to
        // write it does not matter.
        let _ = file.set_len(0).and_then(|()| file.rewind());
        let _ = write!(file, "process {}", std::process::id());
        Ok(CacheLock { _file: file })
    }
}

/// What the holder of a lock wrote about itself.
fn holder(path: &Path) -> String {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(64).read_to_string(&mut text));
    match read {
        Ok(1..) => text,
        _ => String::from("another process"),
    }
}
