//! The files that are mapped now, and what happens when one of them has become shorter.

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};
use std::thread;

use signal_hook::consts::SIGBUS;
use signal_hook::low_level;

/// The exit code of a process that needs a part of a file that is gone.
pub const EXIT_CODE: i32 = 1;

/// The first watched file. The list only grows, so that it is read without a lock in the handler of
/// a signal.
static FIRST: OnceLock<&'static WatchedFile> = OnceLock::new();

/// What adds to the list.
static FILES: LazyLock<Mutex<WatchedFiles>> = LazyLock::new(Mutex::default);

/// Whether a thread has found a file that has become shorter.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// How an error is reported.
static REPORT: OnceLock<fn(&str)> = OnceLock::new();

/// Chooses how this process reports that a mapped file has become shorter, in place of a line on
/// standard error. The process ends when the function returns. The first choice holds.
///
/// The function runs in a signal's handler, on the thread that reads the map. That thread was
/// loading a number, so it holds no lock of the memory allocator or of a stream.
pub fn report_with(report: fn(&str)) {
    let _ = REPORT.set(report);
}

/// A file that is or was mapped.
#[derive(Debug)]
struct WatchedFile {
    path: PathBuf,
    identity: FileVersion,
    /// How often it is mapped now.
    users: AtomicUsize,
    next: OnceLock<&'static WatchedFile>,
}

/// A file as it was when it was mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FileVersion {
    device: u64,
    inode: u64,
    len: u64,
}

impl FileVersion {
    fn of(about: &Metadata) -> Self {
        Self { device: about.dev(), inode: about.ino(), len: about.len() }
    }

    /// Whether this is the same file, but shorter than `before`.
    fn shrank_from(&self, before: &Self) -> bool {
        let is_same = (self.device, self.inode) == (before.device, before.inode);
        is_same && self.len < before.len
    }
}

/// Adds files to the list. A file that is mapped again is there already.
#[derive(Default)]
struct WatchedFiles {
    known: HashMap<(FileVersion, PathBuf), &'static WatchedFile>,
    last: Option<&'static WatchedFile>,
    /// Whether the signal is handled.
    handles_signal: bool,
}

impl WatchedFiles {
    fn find(&mut self, identity: FileVersion, path: PathBuf) -> &'static WatchedFile {
        let Self { known, last, .. } = self;
        known.entry((identity, path)).or_insert_with_key(|(_, path)| {
            let (users, next) = (AtomicUsize::new(0), OnceLock::new());
            let file: &'static WatchedFile =
                Box::leak(Box::new(WatchedFile { path: path.clone(), identity, users, next }));
            let link = last.map_or(&FIRST, |last| &last.next);
            let _ = link.set(file);
            *last = Some(file);
            file
        })
    }

    #[expect(unsafe_code, reason = "an action for a signal has no safe form")]
    fn handle_signal(&mut self) -> io::Result<()> {
        if !self.handles_signal {
            // SAFETY: this changes the disposition of one signal and touches no memory. The
            // handler of the standard library, which looks for overflows of the stack, would run
            // before ours and restore the default action: a second thread that needs the lost part
            // would end the process before the first has said why. On Linux such overflows raise
            // SIGSEGV, so nothing is lost.
            unsafe { libc::signal(SIGBUS, libc::SIG_DFL) };
            // SAFETY: the action must be safe wherever the signal arrives. It takes no lock and
            // looks at files. Only if one has become shorter does it allocate: then the signal is
            // the fault of a load from a map, which interrupts no allocation of its thread, and the
            // process does not continue.
            unsafe { low_level::register(SIGBUS, end_if_a_file_shrank) }?;
            self.handles_signal = true;
        }
        Ok(())
    }
}

/// Keeps a file among those that are watched.
#[derive(Debug)]
pub(crate) struct WatchGuard(&'static WatchedFile);

impl WatchGuard {
    /// Watches a file from now on.
    pub(crate) fn of(file: &File, path: &Path) -> io::Result<Self> {
        let identity = FileVersion::of(&file.metadata()?);
        // The working directory may change before the file is looked at again.
        let path = std::path::absolute(path)?;
        let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
        files.handle_signal()?;
        let file = files.find(identity, path);
        file.users.fetch_add(1, Ordering::Relaxed);
        Ok(Self(file))
    }
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        self.0.users.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Ends the process if a mapped file is shorter than it was. Otherwise the signal has another
/// cause, and its default action follows.
fn end_if_a_file_shrank() {
    let mut next = FIRST.get();
    while let Some(file) = next {
        let is_mapped = file.users.load(Ordering::Relaxed) > 0;
        if is_mapped
            && let Ok(about) = fs::metadata(&file.path)
            && FileVersion::of(&about).shrank_from(&file.identity)
        {
            if IS_ENDING.swap(true, Ordering::Relaxed) {
                // Another thread reports it, and ends the process.
                loop {
                    thread::park();
                }
            }
            report_shrunk(file, about.len());
            low_level::exit(EXIT_CODE);
        }
        next = file.next.get();
    }
    // If that fails, the fault is raised again and again until something ends the process.
    let _ = low_level::emulate_default_handler(SIGBUS);
}

fn report_shrunk(file: &WatchedFile, len: u64) {
    let (path, before) = (file.path.display(), file.identity.len);
    let text = format!(
        "{path} had {before} bytes and has {len} now: another program made it shorter while it was \
         read; start again once it is whole"
    );
    match REPORT.get() {
        Some(report) => report(&text),
        // If this fails, only the exit code is left.
        None => drop(io::stderr().write_all(format!("error: {text}\n").as_bytes())),
    }
}
