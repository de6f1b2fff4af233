//! Writing a cache of rows, of which nobody knows beforehand how many there will be.
//!
//! Keys, which are most of it, go straight into the file. The other sections go into files of
//! their own that have no name, so that nothing is left of them whatever happens, and are
//! appended at the end; values only from the first one that is not 1. Nothing is flushed to
//! the disk: should a power cut damage the file, its checksums tell, and it is made again.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::header::{CacheHeader, HEADER_BYTES, SECTIONS};
use crate::error::DataError;
use crate::sparse::limits::MAX_ROWS;
use crate::sparse::row::SparseRow;

/// How much of a section is gathered before it is written, in bytes.
const BUFFER_BYTES: usize = 256 * 1024;

/// A cache in the making.
pub(crate) struct CacheWriter {
    path: PathBuf,
    keys: Section,
    values: Option<Section>,
    starts: Section,
    labels: Section,
    header: CacheHeader,
    /// One more than the greatest key so far.
    needed: u64,
}

impl CacheWriter {
    /// Begins a cache under a temporary name; whatever was there is gone.
    pub(crate) fn create(path: &Path) -> Result<Self, DataError> {
        let begin = || -> io::Result<[Section; 3]> {
            let mut keys = Section::new(File::create(path)?);
            keys.file.seek(SeekFrom::Start(HEADER_BYTES as u64))?;
            let mut starts = Section::nameless(path, "starts")?;
            starts.put(&0u64.to_le_bytes())?;
            Ok([keys, starts, Section::nameless(path, "labels")?])
        };
        let [keys, starts, labels] = begin().map_err(DataError::io("write", path))?;
        let (header, path) = (CacheHeader::default(), path.into());
        Ok(CacheWriter { path, keys, values: None, starts, labels, header, needed: 0 })
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
            self.needed = self.needed.max(u64::from(greatest) + 1);
        }
        if !row.values.is_empty() && self.values.is_none() {
            self.begin_values()?;
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

    /// From now on there are values; all before were 1.
    #[cold]
    fn begin_values(&mut self) -> io::Result<()> {
        let mut values = Section::nameless(&self.path, "values")?;
        values.put_ones(self.header.entries)?;
        self.values = Some(values);
        Ok(())
    }

    /// How many rows there are so far.
    pub(crate) fn rows(&self) -> u64 {
        self.header.rows
    }

    /// The rows so far are for training, the rest for testing.
    pub(crate) fn end_of_training(&mut self) {
        self.header.train_rows = self.header.rows;
    }

    /// Completes the file. Without a number of features it is as many as the keys need.
    pub(crate) fn close(
        mut self,
        features: Option<usize>,
        skipped: u64,
        identity: &str,
    ) -> Result<(), DataError> {
        self.header.features = features.map_or(self.needed.max(1), |features| features as u64);
        self.header.skipped = skipped;
        self.header.identity_bytes = identity.len() as u64;
        self.header.has_values = self.values.is_some();
        let path = self.path.clone();
        self.assemble(identity).map_err(DataError::io("write", path))
    }

    fn assemble(self, identity: &str) -> io::Result<()> {
        let CacheWriter { path, mut keys, values, starts, labels, mut header, .. } = self;
        let mut last = Section::nameless(&path, "identity")?;
        last.put(identity.as_bytes())?;
        keys.flush()?;
        header.checksums[0] = keys.checksum;
        let Some(places) = header.sections() else {
            return Err(io::ErrorKind::FileTooLarge.into());
        };
        let mut file = keys.file;
        let rest: [Option<Section>; SECTIONS - 1] =
            [values, Some(starts), Some(labels), Some(last)];
        for (number, (section, place)) in rest.into_iter().zip(&places[1..]).enumerate() {
            let Some(mut section) = section else { continue };
            section.flush()?;
            section.file.rewind()?;
            file.seek(SeekFrom::Start(place.start))?;
            io::copy(&mut section.file, &mut file)?;
            header.checksums[number + 1] = section.checksum;
        }
        file.rewind()?;
        file.write_all(&header.to_bytes())
    }
}

/// One section on its way to a file, with its checksum.
struct Section {
    file: File,
    buffer: Vec<u8>,
    checksum: u32,
}

impl Section {
    fn new(file: File) -> Self {
        Section { file, buffer: Vec::with_capacity(BUFFER_BYTES), checksum: 0 }
    }

    /// A section in a file beside `path` that loses its name at once.
    fn nameless(path: &Path, what: &str) -> io::Result<Self> {
        let mut name = path.to_path_buf().into_os_string();
        name.push(format!(".{what}"));
        // Left behind if we were killed between the next two calls; whoever holds the lock may.
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
