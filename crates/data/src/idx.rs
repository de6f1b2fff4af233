//! IDX, the format of MNIST and similar data sets.
//!
//! A file is a magic number (two zero bytes, the type of an element, the number of dimensions), the
//! dimensions as big-endian 32-bit numbers, then the elements. Only the two kinds that image sets
//! use are supported: bytes in three dimensions (images) and in one (labels).
//!
//! The header is not trusted: memory grows with the bytes that arrive, never with what the header
//! claims, and a file must end exactly where its header says.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use crate::error::DataError;
pub use crate::idx_fault::IdxFault;
use crate::idx_fault::{MAX_BYTES, MAX_SIDE};
use crate::image_bytes::{ImageBytes, MappedBytes};
use crate::images::Images;
use crate::open_observer::{OpenMeter, OpenObserver, ignore_reports};
use crate::unpack;

/// The first four bytes of a file of images.
const IMAGES_MAGIC: u32 = 0x0000_0803;

/// The first four bytes of a file of labels.
const LABELS_MAGIC: u32 = 0x0000_0801;

/// The length of the header of a file of images: the magic number and three dimensions.
const IMAGES_HEADER_BYTES: usize = 16;

/// The most memory that is reserved before content arrives, in bytes.
const RESERVED_BYTES: u64 = 64 << 20;

/// Bytes that are read between two looks at the clock.
const READ_BYTES: u64 = 4 << 20;

/// The content of an images file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdxImages {
    /// The number of images.
    pub count: usize,
    /// The height of each, in pixels.
    pub rows: usize,
    /// The width of each, in pixels.
    pub cols: usize,
    /// All pixels, image after image and row after row.
    pub pixels: Vec<u8>,
}

/// Reads a file of images, plain or gzip.
///
/// # Errors
/// If it cannot be read, or is not a complete file of images and nothing more; see [`IdxFault`].
pub fn read_images(path: &Path) -> Result<IdxImages, DataError> {
    read_images_observed(path, &mut ignore_reports())
}

fn read_images_observed(
    path: &Path,
    observer: &mut dyn OpenObserver,
) -> Result<IdxImages, DataError> {
    let mut file = IdxFile::open(path)?;
    let [count, rows, cols] = image_header(&mut file)?;
    let bytes = count * rows * cols;
    let pixels = file.body(bytes, &mut OpenMeter::new(observer, "reading", path, bytes))?;
    Ok(IdxImages { count: count as usize, rows: rows as usize, cols: cols as usize, pixels })
}

/// Reads the height and width of the images from the header of a file.
///
/// # Errors
/// If it cannot be read or its header is not that of a file of images. The content is not checked.
pub fn read_image_size(path: &Path) -> Result<(usize, usize), DataError> {
    let [_, rows, cols] = image_header(&mut IdxFile::open(path)?)?;
    Ok((rows as usize, cols as usize))
}

/// Count, rows and columns. Their product is checked, so it does not overflow.
fn image_header(file: &mut IdxFile) -> Result<[u64; 3], DataError> {
    let [count, rows, cols] = file.header(IMAGES_MAGIC)?;
    let bytes = u128::from(count) * u128::from(rows) * u128::from(cols);
    let sane = (1..=MAX_SIDE).contains(&rows) && (1..=MAX_SIDE).contains(&cols) && count > 0;
    if sane && bytes <= u128::from(MAX_BYTES) {
        return Ok([count, rows, cols].map(u64::from));
    }
    Err(file.fault(IdxFault::Shape { count, rows, cols }))
}

/// Reads a file of labels, plain or gzip.
///
/// # Errors
/// If it cannot be read, or is not a complete file of labels and nothing more; see [`IdxFault`].
pub fn read_labels(path: &Path) -> Result<Vec<u8>, DataError> {
    let mut file = IdxFile::open(path)?;
    let count = label_header(&mut file)?;
    file.body(count, &mut OpenMeter::new(&mut ignore_reports(), "reading", path, count))
}

/// The number of labels.
fn label_header(file: &mut IdxFile) -> Result<u64, DataError> {
    match file.header(LABELS_MAGIC)? {
        [0] => Err(file.fault(IdxFault::NoLabels)),
        [count] => Ok(count.into()),
    }
}

/// Reads images with their labels, and checks that the two files belong together.
///
/// # Errors
/// As [`read_images`] and [`read_labels`]; also if the files have different numbers of examples, or
/// a label is not below `classes`.
pub fn read_pair(images: &Path, labels: &Path, classes: usize) -> Result<Images, DataError> {
    read_pair_observed(images, labels, classes, &mut ignore_reports())
}

/// As [`read_pair`], but reports its progress, and stops if it is asked to.
///
/// # Errors
/// As [`read_pair`]; also if the observer asks to stop.
pub fn read_pair_observed(
    images: &Path,
    labels: &Path,
    classes: usize,
    observer: &mut dyn OpenObserver,
) -> Result<Images, DataError> {
    // Compared before either is read: a small gzip file may claim and hold billions of labels.
    let labelled = label_header(&mut IdxFile::open(labels)?)?;
    let [count, ..] = image_header(&mut IdxFile::open(images)?)?;
    if count != labelled {
        return Err(DataError::Mismatch {
            first: images.into(),
            second: labels.into(),
            what: format!("{count} images and {labelled} labels"),
        });
    }
    let values = read_labels(labels)?;
    if let Some(index) = values.iter().position(|&label| usize::from(label) >= classes) {
        let fault = IdxFault::Label { index, value: values[index], classes };
        return Err(DataError::Content { path: labels.into(), fault });
    }
    let StoredImages { rows, cols, pixels } = stored_images(images, observer)?;
    Images::of_bytes(rows, cols, classes, pixels, values)
}

/// The content of an images file, in memory or mapped.
struct StoredImages {
    rows: usize,
    cols: usize,
    pixels: ImageBytes,
}

/// Maps a file of images that is stored plain, and reads one that is gzip.
fn stored_images(path: &Path, observer: &mut dyn OpenObserver) -> Result<StoredImages, DataError> {
    let mut file = IdxFile::open(path)?;
    if file.content.is_gzip() {
        let IdxImages { rows, cols, pixels, .. } = read_images_observed(path, observer)?;
        return Ok(StoredImages { rows, cols, pixels: ImageBytes::Owned(pixels) });
    }
    let [count, rows, cols] = image_header(&mut file)?;
    let expected = count * rows * cols;
    let mapped = MappedBytes::open(path, IMAGES_HEADER_BYTES);
    let pixels = ImageBytes::Mapped(mapped.map_err(DataError::io("map", path))?);
    match pixels.len() as u64 {
        got if got < expected => return Err(file.fault(IdxFault::Short { got, expected })),
        got if got > expected => return Err(file.fault(IdxFault::Long { expected })),
        _ => OpenMeter::new(observer, "reading", path, expected).add(expected)?,
    }
    Ok(StoredImages { rows: rows as usize, cols: cols as usize, pixels })
}

/// Writes images as a plain (not gzip) IDX file. `pixels` has `rows * cols` pixels for each image.
///
/// # Errors
/// If the file cannot be written, or the pixels do not make up whole images.
pub fn write_images(path: &Path, rows: usize, cols: usize, pixels: &[u8]) -> Result<(), DataError> {
    let area = rows.saturating_mul(cols);
    if area == 0 || !pixels.len().is_multiple_of(area) {
        let what = format!("{} pixels for images of {rows} x {cols}", pixels.len());
        return Err(DataError::Images { what });
    }
    write(path, IMAGES_MAGIC, &[pixels.len() / area, rows, cols], pixels)
}

/// Writes labels as a plain (not gzip) IDX file.
///
/// # Errors
/// If the file cannot be written.
pub fn write_labels(path: &Path, labels: &[u8]) -> Result<(), DataError> {
    write(path, LABELS_MAGIC, &[labels.len()], labels)
}

fn write(path: &Path, magic: u32, dimensions: &[usize], body: &[u8]) -> Result<(), DataError> {
    let write = || -> io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        file.write_all(&magic.to_be_bytes())?;
        for &dimension in dimensions {
            let dimension = u32::try_from(dimension).map_err(io::Error::other)?;
            file.write_all(&dimension.to_be_bytes())?;
        }
        file.write_all(body)?;
        file.flush()
    };
    write().map_err(DataError::io("write", path))
}

/// An open file, and its path for errors.
struct IdxFile<'a> {
    path: &'a Path,
    content: unpack::Unpacked<io::BufReader<File>>,
}

impl<'a> IdxFile<'a> {
    fn open(path: &'a Path) -> Result<Self, DataError> {
        Ok(IdxFile { path, content: unpack::open(path)? })
    }

    fn fault(&self, fault: IdxFault) -> DataError {
        DataError::Content { path: self.path.into(), fault }
    }

    /// Appends `limit` bytes, or fewer if the content ends before. Returns their number.
    fn read(&mut self, limit: u64, bytes: &mut Vec<u8>) -> Result<u64, DataError> {
        match self.content.by_ref().take(limit).read_to_end(bytes) {
            Ok(got) => Ok(got as u64),
            Err(error) if self.content.is_gzip() => {
                Err(self.fault(IdxFault::Gzip { what: error.to_string() }))
            }
            Err(error) => Err(DataError::io("read", self.path)(error)),
        }
    }

    /// Reads the magic number and `N` dimensions.
    fn header<const N: usize>(&mut self, expected: u32) -> Result<[u32; N], DataError> {
        let need = 4 + 4 * N;
        let mut bytes = Vec::with_capacity(need);
        self.read(need as u64, &mut bytes)?;
        let (words, _) = bytes.as_chunks::<4>();
        let mut words = words.iter().map(|word| u32::from_be_bytes(*word));
        // The magic number is checked first, because a labels file may be shorter than the header
        // of an images file.
        match words.next() {
            Some(found) if found == expected => {}
            Some(LABELS_MAGIC) => return Err(self.fault(IdxFault::LabelsNotImages)),
            Some(IMAGES_MAGIC) => return Err(self.fault(IdxFault::ImagesNotLabels)),
            Some(found) => return Err(self.fault(IdxFault::Magic { found, expected })),
            None => return Err(self.fault(IdxFault::NoHeader { got: bytes.len(), need })),
        }
        if bytes.len() < need {
            return Err(self.fault(IdxFault::NoHeader { got: bytes.len(), need }));
        }
        let mut dimensions = [0; N];
        dimensions.iter_mut().zip(words).for_each(|(slot, word)| *slot = word);
        Ok(dimensions)
    }

    /// Reads the elements, which must be exactly `expected` bytes. Reading one byte more makes the
    /// gzip decoder reach the end, where it verifies the checksum.
    fn body(&mut self, expected: u64, meter: &mut OpenMeter<'_>) -> Result<Vec<u8>, DataError> {
        let mut bytes = Vec::with_capacity((expected + 1).min(RESERVED_BYTES) as usize);
        let mut left = expected + 1;
        while left > 0 {
            let got = self.read(left.min(READ_BYTES), &mut bytes)?;
            if got == 0 {
                break;
            }
            left -= got;
            meter.add(got)?;
        }
        match bytes.len() as u64 {
            got if got < expected => Err(self.fault(IdxFault::Short { got, expected })),
            got if got > expected => Err(self.fault(IdxFault::Long { expected })),
            _ => Ok(bytes),
        }
    }
}

#[cfg(test)]
mod tests;
