//! Writes a cache of rows whose number is not known in advance.
//!
//! Keys, the largest section, go directly to the file. The other sections go to temporary files
//! without a name, so that nothing is left of them if the process dies, and are appended at the
//! end. Values are written only from the first one that is not 1. Nothing is flushed to the disk:
//! if a power failure damages the file, its checksums reveal it, and the cache is rebuilt.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::header::{CacheHeader, HEADER_BYTES, SECTIONS};
use crate::error::DataError;
use crate::open_observer::OpenMeter;
use crate::sparse::limits::MAX_ROWS;
use crate::sparse::row::SparseRow;

/// The size of a section's write buffer, in bytes.
const BUFFER_BYTES: usize = 256 * 1024;

/// How much of a section is copied at a time, in bytes.
const COPY_BYTES: u64 = 16 << 20;

/// Writes a cache.
pub(crate) struct CacheWriter {
    path: PathBuf,
    keys: SectionWriter,
    values: Option<SectionWriter>,
    starts: SectionWriter,
    labels: SectionWriter,
    header: CacheHeader,
    /// One more than the greatest key so far.
    features_needed: u64,
}

impl CacheWriter {
    /// Creates a cache at a temporary path. An existing file is overwritten.
    pub(crate) fn create(path: &Path) -> Result<Self, DataError> {
        let begin = || -> io::Result<[SectionWriter; 3]> {
            let mut keys = SectionWriter::new(File::create(path)?);
            keys.file.seek(SeekFrom::Start(HEADER_BYTES as u64))?;
            let mut starts = SectionWriter::unnamed(path, "starts")?;
            starts.put(&0u64.to_le_bytes())?;
            Ok([keys, starts, SectionWriter::unnamed(path, "labels")?])
        };
        let [keys, starts, labels] = begin().map_err(DataError::io("write", path))?;
        let (header, path) = (CacheHeader::default(), path.into());
        Ok(CacheWriter { path, keys, values: None, starts, labels, header, features_needed: 0 })
    }

    /// Appends a row.
    pub(crate) fn push(&mut self, row: SparseRow<'_>) -> Result<(), DataError> {
        if self.header.rows >= MAX_ROWS {
            let what = format!("more than {MAX_ROWS} rows");
            return Err(DataError::Sparse { path: self.path.clone(), what });
        }
        self.put(row).map_err(DataError::io("write", &*self.path))
    }

    fn put(&mut self, row: SparseRow<'_>) -> io::Result<()> {
        if let Some(&greatest) = row.keys.last() {
            self.features_needed = self.features_needed.max(u64::from(greatest) + 1);
        }
        if !row.values.is_empty() && self.values.is_none() {
            self.start_values()?;
        }
        self.keys.put(bytemuck::cast_slice(row.keys))?;
        if let Some(values) = &mut self.values {
            match row.values {
                [] => values.put_ones(row.keys.len() as u64)?,
                some => values.put(bytemuck::cast_slice(some))?,
            }
        }
        self.header.rows += 1;
        self.header.entries += row.keys.len() as u64;
        self.starts.put(&self.header.entries.to_le_bytes())?;
        self.labels.put(&[row.label as u8])
    }

    /// Starts the section of values, with a 1 for every key so far.
    #[cold]
    fn start_values(&mut self) -> io::Result<()> {
        let mut values = SectionWriter::unnamed(&self.path, "values")?;
        values.put_ones(self.header.entries)?;
        self.values = Some(values);
        Ok(())
    }

    /// The number of rows so far.
    pub(crate) fn rows(&self) -> u64 {
        self.header.rows
    }

    /// Ends the training set; the rows that follow are the test set.
    pub(crate) fn end_training_set(&mut self) {
        self.header.train_rows = self.header.rows;
    }

    /// Records the index of the first feature in the source.
    pub(crate) fn set_first_index(&mut self, first_index: u32) {
        self.header.first_index = first_index;
    }

    /// Completes the file. Without `features`, there are as many as the greatest key needs.
    pub(crate) fn close(
        mut self,
        features: Option<usize>,
        skipped: u64,
        identity: &str,
        meter: &mut OpenMeter<'_>,
    ) -> Result<(), DataError> {
        self.header.features =
            features.map_or(self.features_needed.max(1), |features| features as u64);
        self.header.skipped = skipped;
        self.header.identity_bytes = identity.len() as u64;
        self.header.has_values = self.values.is_some();
        let path = self.path.clone();
        let interrupted = Cell::new(false);
        let mut copied = |bytes| {
            interrupted.set(meter.add(bytes).is_err());
            if interrupted.get() { Err(io::ErrorKind::Other.into()) } else { Ok(()) }
        };
        self.assemble(identity, &mut copied).map_err(|error| match interrupted.get() {
            true => DataError::Interrupted,
            false => DataError::io("write", path)(error),
        })
    }

    fn assemble(
        self,
        identity: &str,
        copied: &mut dyn FnMut(u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let CacheWriter { path, mut keys, values, starts, labels, mut header, .. } = self;
        let mut last = SectionWriter::unnamed(&path, "identity")?;
        last.put(identity.as_bytes())?;
        keys.flush()?;
        header.checksums[0] = keys.checksum;
        let Some(positions) = header.sections() else {
            return Err(io::ErrorKind::FileTooLarge.into());
        };
        let mut file = keys.file;
        let rest: [Option<SectionWriter>; SECTIONS - 1] =
            [values, Some(starts), Some(labels), Some(last)];
        for (number, (section, position)) in rest.into_iter().zip(&positions[1..]).enumerate() {
            let Some(mut section) = section else { continue };
            section.flush()?;
            section.file.rewind()?;
            file.seek(SeekFrom::Start(position.start))?;
            let mut part = section.file.take(COPY_BYTES);
            while io::copy(&mut part, &mut file)? > 0 {
                copied(0)?;
                part.set_limit(COPY_BYTES);
            }
            header.checksums[number + 1] = section.checksum;
        }
        file.rewind()?;
        file.write_all(&header.to_bytes())
    }
}

/// Writes one section to a file and computes its checksum.
struct SectionWriter {
    file: File,
    buffer: Vec<u8>,
    checksum: u32,
}

impl SectionWriter {
    fn new(file: File) -> Self {
        SectionWriter { file, buffer: Vec::with_capacity(BUFFER_BYTES), checksum: 0 }
    }

    /// A section in a file beside `path` that is unlinked at once.
    fn unnamed(path: &Path, what: &str) -> io::Result<Self> {
        let mut name = path.to_path_buf().into_os_string();
        name.push(format!(".{what}"));
        // A process killed between the next two calls leaves the file behind. The holder of the
        // lock, which this process is, may remove it.
        let _ = fs::remove_file(&name);
        let file = File::options().read(true).write(true).create_new(true).open(&name)?;
        fs::remove_file(&name)?;
        Ok(Self::new(file))
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.flush()?;
            if bytes.len() > BUFFER_BYTES {
                self.checksum = crc32c::crc32c_append(self.checksum, bytes);
                return self.file.write_all(bytes);
            }
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn put_ones(&mut self, count: u64) -> io::Result<()> {
        (0..count).try_for_each(|_| self.put(&1f32.to_le_bytes()))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.checksum = crc32c::crc32c_append(self.checksum, &self.buffer);
        self.file.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}
