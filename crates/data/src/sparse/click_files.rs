//! Writes generated clicks to files, in every format that can be read.
//!
//! LIBSVM text, LIBFFM text and TFRecords contain exactly the rows that `data.kind = "clicks"`
//! trains on. Criteo text has the same fields and labels, as counts and categories; its keys come
//! from hashing them, as with any file of Criteo's.

use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use paceline_generate::random::mix;
use paceline_generate::{COUNT_FIELDS, ClickRow, Clicks};
use paceline_tfrecord::append_record;

use super::criteo::bucket;
use super::example;
use super::format::SparseFormat;
use super::number::put_decimal;
use super::row::click_row;
use crate::cache_dir::unfinished;
use crate::error::DataError;

/// The size of a write, in bytes.
const WRITE_BYTES: usize = 256 * 1024;

/// Writes these rows to a stream, and returns how many were written. After every 256 KiB it calls
/// `keep_going` with the number of rows so far, and stops if that returns false.
///
/// # Errors
/// If the stream cannot be written.
pub fn write_clicks(
    clicks: &Clicks,
    rows: Range<u64>,
    format: SparseFormat,
    out: &mut dyn Write,
    keep_going: &mut dyn FnMut(u64) -> bool,
) -> io::Result<u64> {
    let mut row = ClickRow::default();
    let mut buffer = Vec::with_capacity(WRITE_BYTES + 4096);
    let counts = representatives();
    for index in rows.clone() {
        clicks.draw(index, &mut row);
        match format {
            SparseFormat::Libsvm => libsvm(&row, &mut buffer),
            SparseFormat::Libffm => libffm(&row, &mut buffer),
            SparseFormat::Criteo => criteo(&row, &counts, &mut buffer),
            SparseFormat::TfRecord => {
                append_record(&mut buffer, |record| example::write(click_row(&row, false), record));
            }
        }
        if buffer.len() >= WRITE_BYTES {
            out.write_all(&buffer)?;
            buffer.clear();
            let so_far = index + 1 - rows.start;
            if !keep_going(so_far) {
                return Ok(so_far);
            }
        }
    }
    out.write_all(&buffer)?;
    Ok(rows.end.saturating_sub(rows.start))
}

/// Writes these rows to a new file, which appears complete or not at all. Returns false, without a
/// file, if `keep_going` returned false.
///
/// # Errors
/// If the file already exists or cannot be written.
pub fn write_clicks_file(
    clicks: &Clicks,
    rows: Range<u64>,
    format: SparseFormat,
    gzip: bool,
    path: &Path,
    keep_going: &mut dyn FnMut(u64) -> bool,
) -> Result<bool, DataError> {
    let taken = || {
        let why = io::Error::new(io::ErrorKind::AlreadyExists, "there is such a file already");
        DataError::io("make", path)(why)
    };
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(DataError::io("make", path)(io::Error::other("it is not a file name")));
    };
    if path.symlink_metadata().is_ok() {
        return Err(taken());
    }
    let part = unfinished(dir, &format!("{}-{}", std::process::id(), name.to_string_lossy()));
    let whole = rows.end.saturating_sub(rows.start);
    let written = File::create_new(&part).and_then(|mut file| {
        let written = if gzip {
            let mut packed = GzEncoder::new(&mut file, Compression::fast());
            let written = write_clicks(clicks, rows, format, &mut packed, keep_going)?;
            packed.finish()?;
            written
        } else {
            write_clicks(clicks, rows, format, &mut file, keep_going)?
        };
        file.sync_all()?;
        Ok(written == whole)
    });
    // Another process may have created the file meanwhile: a link, unlike a rename, never
    // replaces a file.
    let done = match written {
        Ok(true) => match fs::hard_link(&part, path) {
            // Not every file system supports links.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => fs::rename(&part, path),
            linked => linked,
        }
        .map(|()| true),
        other => other,
    };
    let _ = fs::remove_file(&part);
    done.map_err(DataError::io("write", path))
}

fn libsvm(row: &ClickRow, out: &mut Vec<u8>) {
    put_decimal(row.label.into(), out);
    for &key in &row.keys {
        out.push(b' ');
        // Indices count from 1 in LIBSVM's files.
        put_decimal(u64::from(key) + 1, out);
        out.extend_from_slice(b":1");
    }
    out.push(b'\n');
}

fn libffm(row: &ClickRow, out: &mut Vec<u8>) {
    put_decimal(row.label.into(), out);
    for (&key, &field) in row.keys.iter().zip(&row.fields) {
        out.push(b' ');
        put_decimal(field.into(), out);
        out.push(b':');
        put_decimal(key.into(), out);
        out.extend_from_slice(b":1");
    }
    out.push(b'\n');
}

fn criteo(row: &ClickRow, counts: &[Option<u32>], out: &mut Vec<u8>) {
    put_decimal(row.label.into(), out);
    for (field, &rank) in row.ranks.iter().enumerate() {
        out.push(b'\t');
        if field >= COUNT_FIELDS {
            let category = mix((field as u64) << 40 | u64::from(rank)) as u32;
            out.extend((0..8).rev().map(|digit| HEX[(category >> (4 * digit)) as usize & 15]));
        } else if let Some(count) = counts.get(rank as usize).copied().flatten() {
            put_decimal(count.into(), out);
        }
    }
    out.push(b'\n');
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// For each rank a count with a bucket of its own. The rarest rank has none and is left empty.
fn representatives() -> Vec<Option<u32>> {
    let mut counts = Vec::new();
    let mut count = 0;
    while counts.len() < 49 {
        if bucket(count.into()) as usize == counts.len() {
            counts.push(Some(count));
        }
        count += 1;
    }
    counts
}
