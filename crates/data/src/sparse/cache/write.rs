//! Writes a cache of rows, segment after segment, and continues one that was interrupted.
//!
//! An unfinished cache is valid up to its last whole segment: every segment has a checksum and says
//! where in the source files it ends. So a conversion that was interrupted, however it ended,
//! continues after that segment. Nothing is flushed to the disk: if a power failure damages the
//! file, the checksums reveal it.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::header::CacheHeader;
use super::map::map;
use super::prefix::{CachePrefix, prefix_bytes};
use crate::error::DataError;
use crate::sparse::limits::MAX_ROWS;
use crate::sparse::segment::{KeyCode, SegmentHeader, SourcePosition, is_sound};

/// Writes a cache.
pub(crate) struct CacheWriter {
    path: PathBuf,
    file: File,
    code: KeyCode,
    header: CacheHeader,
    /// Where the source continues after the segments so far.
    position: SourcePosition,
    /// One more than the greatest key so far.
    features_needed: u64,
}

impl CacheWriter {
    /// Creates a cache at a temporary path. An existing file is overwritten.
    pub(crate) fn create(
        path: &Path,
        identity: &str,
        code: KeyCode,
        first_index: u32,
    ) -> Result<Self, DataError> {
        let (mut header, prefix) = prefix_bytes(identity, &code, first_index);
        header.file_bytes = prefix.len() as u64;
        let begin = || -> io::Result<File> {
            // A new file, in case another process has mapped the old one.
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = File::create_new(path)?;
            file.write_all(&prefix)?;
            Ok(file)
        };
        let file = begin().map_err(DataError::io("write", path))?;
        let (path, position) = (path.into(), SourcePosition::default());
        Ok(CacheWriter { path, file, code, header, position, features_needed: 0 })
    }

    /// Continues the unfinished cache at a path, if there is one with this identity.
    pub(crate) fn resume(path: &Path, identity: &str) -> Option<Self> {
        let file = File::options().read(true).write(true).open(path).ok()?;
        let mapped = map(&file, path).ok()?;
        let prefix = CachePrefix::from_bytes(&mapped).ok()?;
        if prefix.header.is_complete || prefix.identity != identity.as_bytes() {
            return None;
        }
        let CachePrefix { header, code, len, .. } = prefix;
        let (path, position) = (path.to_owned(), SourcePosition::default());
        let mut writer = CacheWriter { path, file, code, header, position, features_needed: 0 };
        writer.header.file_bytes = len as u64;
        let mut rest = &mapped[len..];
        while let Some(segment) = SegmentHeader::from_bytes(rest) {
            let (bytes, after) = rest.split_at(segment.len());
            if !is_sound(&segment, bytes) {
                break;
            }
            writer.count(&segment);
            rest = after;
        }
        writer.file.set_len(writer.header.file_bytes).ok()?;
        writer.file.seek(SeekFrom::End(0)).ok()?;
        (writer.header.segments > 0).then_some(writer)
    }

    /// How keys are stored.
    pub(crate) fn code(&self) -> &KeyCode {
        &self.code
    }

    /// The index that the source files give the first feature.
    pub(crate) fn first_index(&self) -> u32 {
        self.header.first_index
    }

    /// Where the source continues after the segments so far.
    pub(crate) fn position(&self) -> SourcePosition {
        self.position
    }

    /// The number of rows so far.
    pub(crate) fn rows(&self) -> u64 {
        self.header.rows
    }

    /// Appends a segment.
    pub(crate) fn append(
        &mut self,
        segment: &SegmentHeader,
        bytes: &[u8],
    ) -> Result<(), DataError> {
        if self.header.rows + u64::from(segment.rows) > MAX_ROWS {
            let what = format!("more than {MAX_ROWS} rows");
            return Err(DataError::Sparse { path: self.path.clone(), what });
        }
        self.file.write_all(bytes).map_err(DataError::io("write", &*self.path))?;
        self.count(segment);
        Ok(())
    }

    fn count(&mut self, segment: &SegmentHeader) {
        let header = &mut self.header;
        header.segments += 1;
        header.rows += u64::from(segment.rows);
        header.train_rows += if segment.is_test { 0 } else { u64::from(segment.rows) };
        header.entries += segment.entries;
        header.skipped += segment.skipped;
        header.file_bytes += segment.len() as u64;
        self.position = segment.end;
        self.features_needed = self.features_needed.max(segment.features_needed);
    }

    /// Completes the file. Without `features`, there are as many as the greatest key needs.
    pub(crate) fn close(mut self, features: Option<usize>) -> Result<(), DataError> {
        self.header.is_complete = true;
        self.header.features =
            features.map_or(self.features_needed.max(1), |features| features as u64);
        let header = self.header.to_bytes();
        let written = self.file.rewind().and_then(|()| self.file.write_all(&header));
        written.map_err(DataError::io("write", &*self.path))
    }
}
