//! The files of a task, as the depot has them.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use paceline_checkpoint::is_plain_name;
use paceline_filemap::append_regular;

use crate::channel::Channel;
use crate::message::KeptFile;
use crate::state::DepotState;

/// The most bytes of one request.
pub(crate) const MAX_APPEND: u64 = 1 << 20;
/// The most bytes that are kept of a task, in all its files. A task records a few megabytes an
/// hour.
const MAX_BYTES: u64 = 4 << 30;
/// The most files that are kept of a task.
const MAX_FILES: usize = 1_000;

/// The folder of a task.
pub(crate) struct TaskFiles<'a> {
    folder: &'a Path,
}

impl<'a> TaskFiles<'a> {
    /// The files of a task of the run.
    pub(crate) fn of(depot: &'a DepotState, task: &str) -> Option<Self> {
        let (_, folder) = depot.config.folders.iter().find(|(name, _)| name == task)?;
        Some(Self { folder })
    }

    /// Whether there is a file of this name, which may be hidden.
    pub(crate) fn has(&self, probe: &str) -> bool {
        let name = probe.strip_prefix('.').unwrap_or(probe);
        is_plain_name(name) && self.folder.join(probe).exists()
    }

    /// The files that there are.
    pub(crate) fn list(&self) -> io::Result<Vec<KeptFile>> {
        let mut files = Vec::new();
        for name in plain_files(self.folder)? {
            let mut content = File::open(self.folder.join(&name))?;
            let (bytes, crc32c) = checksum(&mut content, u64::MAX)?;
            files.push(KeptFile { name, bytes, crc32c });
        }
        Ok(files)
    }

    /// Takes the body of a request as the continuation of a file at a byte. A file that begins anew
    /// is moved aside first, so that nothing is overwritten. The inner error leaves the connection
    /// usable.
    pub(crate) fn append(
        &self,
        channel: &mut Channel,
        name: &str,
        at: u64,
        body: u64,
    ) -> io::Result<Result<(), String>> {
        if !is_plain_name(name) || body > MAX_APPEND || at.saturating_add(body) > MAX_BYTES {
            return Err(io::Error::new(ErrorKind::InvalidData, "a file that is not kept"));
        }
        // The body is read in any case.
        let mut bytes = Vec::with_capacity(body as usize);
        channel.receive_body(&mut bytes, body)?;
        Ok(self.write(name, at, &bytes).map_err(|error| error.to_string()))
    }

    fn write(&self, name: &str, at: u64, bytes: &[u8]) -> io::Result<()> {
        fs::create_dir_all(self.folder)?;
        let path = self.folder.join(name);
        let length = fs::metadata(&path).map_or(0, |about| about.len());
        let is_new = at == 0 && length > 0 && !begins_with(&path, bytes)?;
        if at == 0 && length > 0 && !is_new && length == bytes.len() as u64 {
            // The answer to the same request was lost.
            return Ok(());
        } else if at != length && !is_new {
            let text = format!("{name} has {length} bytes here, and cannot continue at {at}");
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        }
        let (makes_file, names) = (is_new || length == 0, plain_files(self.folder)?);
        if makes_file && names.len() >= MAX_FILES {
            return Err(io::Error::other("the task has too many files"));
        }
        let lengths = names.iter().map(|name| fs::metadata(self.folder.join(name)));
        let kept: u64 = lengths.flatten().map(|about| about.len()).sum();
        if kept.saturating_add(bytes.len() as u64) > MAX_BYTES {
            return Err(io::Error::other("the task's files have become too large"));
        }
        if is_new {
            set_aside(&path)?;
        }
        let mut file = append_regular(&path)?;
        io::Write::write_all(&mut file, bytes)
    }
}

/// Whether a file begins with these bytes.
fn begins_with(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    let mut start = Vec::new();
    File::open(path)?.take(bytes.len() as u64).read_to_end(&mut start)?;
    Ok(start == bytes)
}

/// Moves a file to the first free name with a number behind it.
fn set_aside(path: &Path) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let numbered = (1..).map(|number: u32| path.with_file_name(format!("{name}.{number}")));
    let free: Option<PathBuf> = numbered.into_iter().find(|path| !path.exists());
    free.map_or(Ok(()), |free| fs::rename(path, free))
}

/// The names of the files in a folder that tasks send: neither hidden nor unfinished ones.
pub(crate) fn plain_files(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_file() && is_plain_name(&name) && !name.ends_with(".tmp") {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// The number of bytes, up to `most`, and their checksum.
pub(crate) fn checksum(content: &mut impl Read, most: u64) -> io::Result<(u64, u32)> {
    let (mut content, mut buffer) = (content.take(most), vec![0; 64 << 10]);
    let (mut bytes, mut crc32c) = (0, 0);
    loop {
        match content.read(&mut buffer)? {
            0 => return Ok((bytes, crc32c)),
            read => {
                bytes += read as u64;
                crc32c = crc32c::crc32c_append(crc32c, &buffer[..read]);
            }
        }
    }
}
