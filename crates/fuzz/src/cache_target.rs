//! A cache of sparse rows.
//!
//! Most changes would end at a checksum. So every input is read as it is, and once more with the
//! checksums that belong to its bytes, as an attacker would write them.

use std::fs;

use paceline_data::sparse::{SparseKind, SparseSpec, open_row_cache, open_sparse};
use paceline_data::{SparseBuffer, ignore_reports};

use crate::scratch::{scratch_dir, scratch_file};

/// The lengths of the headers of a cache and of a segment, and the multiple at which parts begin.
const HEADER_BYTES: usize = 128;
const ALIGN: usize = 64;
/// The zeros behind the rows of a segment.
const SLACK_BYTES: usize = 320;

/// Opens the bytes as a cache, and reads the rows.
pub(crate) fn row_cache(bytes: &[u8]) {
    read_cache(bytes);
    let mut sealed = bytes.to_vec();
    if seal(&mut sealed).is_some() {
        read_cache(&sealed);
    }
}

fn read_cache(bytes: &[u8]) {
    let path = scratch_file("rows.cache", bytes);
    let Ok(rows) = open_row_cache(&path, &mut ignore_reports()) else { return };
    let some = rows.len().min(64);
    let mut batch = SparseBuffer::default();
    batch.fill(&rows, 0..some);
    let keys_are_known = batch.keys.iter().all(|&key| (key as usize) < rows.features());
    assert!(keys_are_known, "a key beyond the features");
    assert!(batch.values.is_empty() || batch.values.len() == batch.keys.len(), "lost values");
    let fields_are_known = batch.fields.iter().all(|&field| usize::from(field) < rows.fields());
    assert!(fields_are_known, "a field beyond them");
    assert!(batch.fields.is_empty() || batch.fields.len() == batch.keys.len(), "lost fields");
    for row in 0..some {
        let read = rows.row(row);
        assert_eq!(read.label, batch.labels[row]);
    }
    let _ = (rows.class_counts(), rows.entries(), rows.skipped());
    if let Ok(set) = rows.hold_out(some / 2, 1) {
        batch.fill(&set.test, 0..set.test.len().min(8));
    }
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let word = bytes.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*word) as usize)
}

fn put(bytes: &mut [u8], at: usize, checksum: u32) -> Option<()> {
    *bytes.get_mut(at..)?.first_chunk_mut::<4>()? = checksum.to_le_bytes();
    Some(())
}

/// Gives all parts that are where their headers say the checksums of their bytes, and the file its
/// length.
fn seal(bytes: &mut [u8]) -> Option<()> {
    let (identity, popular) = (word(bytes, 20)?, word(bytes, 24)?);
    let keys_at = (HEADER_BYTES + identity).next_multiple_of(ALIGN);
    let keys_end = keys_at + 4 * popular;
    let checksum = crc32c::crc32c(bytes.get(HEADER_BYTES..HEADER_BYTES + identity)?);
    let checksum = crc32c::crc32c_append(checksum, bytes.get(keys_at..keys_end)?);
    put(bytes, 28, checksum)?;
    let mut at = keys_end.next_multiple_of(ALIGN);
    while let Some(len) = segment_len(bytes.get(at..)?) {
        let Some(segment) = bytes.get_mut(at..at + len) else { break };
        let checksum = crc32c::crc32c(&segment[..4]);
        let checksum = crc32c::crc32c_append(checksum, &segment[8..]);
        put(segment, 4, checksum)?;
        at += len;
    }
    let len = bytes.len() as u64;
    *bytes.get_mut(88..)?.first_chunk_mut::<8>()? = len.to_le_bytes();
    let checksum = crc32c::crc32c(bytes.get(..HEADER_BYTES - 4)?);
    put(bytes, HEADER_BYTES - 4, checksum)
}

fn segment_len(segment: &[u8]) -> Option<usize> {
    let (rows, row_bytes, flags) = (word(segment, 8)?, word(segment, 12)?, word(segment, 16)?);
    let weights_at = (HEADER_BYTES + 5 * rows + 4).next_multiple_of(4);
    let weights = if flags & 2 != 0 { 4 * rows } else { 0 };
    Some((weights_at + weights + row_bytes + SLACK_BYTES).next_multiple_of(ALIGN))
}

/// Caches of some rows, written by the conversion of text.
pub(crate) fn row_cache_seeds() -> Vec<Vec<u8>> {
    let texts = [
        (SparseKind::Libsvm, "1 1:1 3:1\n0 2:1\n1 3:1 900:1\n0 1:1\n".to_owned()),
        (SparseKind::Libsvm, "1 1:0.5 3:-2\n0 2:1 7:1e3\n1 1:4\n0 5:1\n".to_owned()),
        (SparseKind::Libffm, "1 0:1:0.5 3:7:-2e-3\n0 1:2:1\n1 0:3:1 300:4:1\n0 1:2:1\n".to_owned()),
        (SparseKind::Libsvm, "1 1:1 2:1 3:1 4:1 5:1 6:1 7:1 8:1 9:1\n0 1:1 2:1\n".repeat(60)),
    ];
    texts.into_iter().filter_map(|(kind, text)| cache_of(kind, &text)).collect()
}

fn cache_of(kind: SparseKind, text: &str) -> Option<Vec<u8>> {
    let path = scratch_file("rows.txt", text.as_bytes());
    let dir = scratch_dir().join("row-caches");
    let _ = fs::remove_dir_all(&dir);
    let with_fields = kind.has_fields();
    let cache_dir = Some(dir.clone());
    let spec = SparseSpec { cache_dir, with_fields, ..SparseSpec::at(kind, path) };
    open_sparse(&spec, &mut ignore_reports()).ok()?;
    let files = fs::read_dir(&dir).ok()?.flatten().map(|entry| entry.path());
    let mut caches = files.filter_map(|path| fs::read(path).ok());
    caches.find(|bytes| bytes.starts_with(b"PACEROWS"))
}
