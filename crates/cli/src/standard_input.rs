//! Data that a job reads from standard input (`data.path = "-"`).
//!
//! Training reads its data several times, and so may several processes. What arrives on standard
//! input is therefore first saved in the cache, under a name that follows from its content.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use paceline_data::{cache_dir, make_private_dir, sniff};
use paceline_job::RawJob;
use sha2::{Digest as _, Sha256};

use crate::Failure;
use crate::interrupt::Interrupt;

/// How often a signal is looked for.
const POLL: Duration = Duration::from_millis(100);
/// How much is read at a time, in bytes.
const BLOCK_BYTES: usize = 1 << 20;
/// From this size on, the first bytes that arrive must be of a known kind, in bytes.
const SNIFFED_BYTES: usize = 4096;

/// Saves standard input, and makes the job read what was saved.
pub(crate) fn save_standard_input(job: &mut RawJob, interrupt: &Interrupt) -> Result<(), Failure> {
    let dir = cache_dir()?.join("stdin");
    let part = dir.join(format!(".part-{}", std::process::id()));
    let (done, saved) = mpsc::channel();
    // A read of standard input cannot be interrupted, so another thread waits for it.
    let (unfinished, shown) = (part.clone(), dir.clone());
    thread::spawn(move || done.send(save(&dir, &unfinished)));
    loop {
        match saved.recv_timeout(POLL) {
            Ok(path) => {
                let what = format!("standard input, which is saved in {}", shown.display());
                let failed = |source| Failure::Files { what, source };
                job.set(&format!("data.path={}", path.map_err(failed)?.display()));
                return Ok(());
            }
            Err(_) => {
                if let Some(signal) = interrupt.signal() {
                    let _ = fs::remove_file(&part);
                    return Err(Failure::Signal { signal });
                }
            }
        }
    }
}

/// Saves standard input in a directory, and returns the file; until it is whole, it is `part`.
fn save(dir: &Path, part: &Path) -> io::Result<PathBuf> {
    make_private_dir(dir)?;
    let copied = copy(part).and_then(|name| {
        let path = dir.join(name);
        fs::rename(part, &path)?;
        Ok(path)
    });
    copied.inspect_err(|_| {
        let _ = fs::remove_file(part);
    })
}

/// Copies standard input to a file, and returns a name that follows from the content.
fn copy(part: &Path) -> io::Result<String> {
    let (mut file, mut input) = (fs::File::create(part)?, io::stdin().lock());
    let (mut digest, mut block) = (Sha256::new(), vec![0; BLOCK_BYTES]);
    let mut total = 0;
    loop {
        let read = match input.read(&mut block) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if read == 0 {
            break;
        }
        // Endless zeros would fill the disk. A few bytes do not tell what follows.
        let is_unknown = || sniff::sniff(&block[..read]) == sniff::FileKind::Binary;
        if total == 0 && read >= SNIFFED_BYTES && is_unknown() {
            return Err(io::Error::other("it is not text, nor a known format"));
        }
        total += read;
        digest.update(&block[..read]);
        file.write_all(&block[..read])?;
    }
    if total == 0 {
        return Err(io::Error::other("it is empty, but data.path is \"-\""));
    }
    let digest: [u8; 32] = digest.finalize().into();
    let digest: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{digest}.csv"))
}
