//! One fetch at a time: a lock that many processes can wait for.
//!
//! It is a lock of the operating system on a file beside the data set, so it ends with the
//! process that holds it, however that dies; the file itself stays and means nothing. Waiting
//! is by looking again and again rather than by a blocking call, because every wait here must
//! have a limit and say whom it is for: the holder writes its process number into the file.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::DataError;
use crate::fetch::Progress;

/// How often one who waits looks whether the lock is free.
const POLL: Duration = Duration::from_millis(50);

/// The right to write to the cache; given up when dropped, and by the system if we die.
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock, or waits for whoever has it; says so once, and gives up in the end.
    pub(crate) fn take(
        path: &Path,
        timeout: Duration,
        report: &mut dyn FnMut(Progress),
    ) -> Result<Self, DataError> {
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(DataError::io("open", path))?;
        let start = Instant::now();
        let mut told = false;
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
            if !told {
                report(Progress::Waiting { holder: holder(path) });
                told = true;
            }
            thread::sleep(POLL);
        }
        // Who we are is only for the words of those who wait, so a failure does not matter.
        let _ = file.set_len(0).and_then(|()| file.rewind());
        let _ = write!(file, "process {}", std::process::id());
        Ok(Lock { _file: file })
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
