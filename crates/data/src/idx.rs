//! IDX, the format of MNIST and of its many relatives.
//!
//! A file is a magic number (two zero bytes, the type of an element, how many dimensions),
//! the dimensions as big-endian 32-bit numbers, then the elements. Only the two shapes that
//! image sets use are read: bytes in three dimensions (images) and in one (labels).
//!
//! A header is a claim by a stranger. It is believed only as far as the content bears it out:
//! memory grows with the bytes that arrive, never with what the header says, and a file must
//! end exactly where its header says.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use crate::error::DataError;
pub use crate::idx_fault::IdxFault;
use crate::idx_fault::{MAX_BYTES, MAX_SIDE};
use crate::images::Images;
use crate::unpack;

/// How a file of images begins.
const IMAGES_MAGIC: u32 = 0x0000_0803;

/// How a file of labels begins.
const LABELS_MAGIC: u32 = 0x0000_0801;

/// Memory set aside before the first byte is seen, in bytes; more only as bytes arrive.
const FIRST_BYTES: u64 = 64 << 20;

/// The content of an images file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdxImages {
    /// How many images there are.
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
/// If it cannot be read, or is not exactly one whole file of images; see [`IdxFault`].
pub fn read_images(path: &Path) -> Result<IdxImages, DataError> {
    let mut file = IdxFile::open(path)?;
    let [count, rows, cols] = image_header(&mut file)?;
    let pixels = file.body(count * rows * cols)?;
    Ok(IdxImages { count: count as usize, rows: rows as usize, cols: cols as usize, pixels })
}

/// Reads no more than the header of a file of images: the height and width of each.
///
/// # Errors
/// If it cannot be read or is no file of images; what comes after the header is not looked at.
pub fn read_image_size(path: &Path) -> Result<(usize, usize), DataError> {
    let [_, rows, cols] = image_header(&mut IdxFile::open(path)?)?;
    Ok((rows as usize, cols as usize))
}

/// Count, rows and columns, whose product is then known to be small enough.
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
/// If it cannot be read, or is not exactly one whole file of labels; see [`IdxFault`].
pub fn read_labels(path: &Path) -> Result<Vec<u8>, DataError> {
    let mut file = IdxFile::open(path)?;
    let [count] = file.header(LABELS_MAGIC)?;
    if count == 0 {
        return Err(file.fault(IdxFault::NoLabels));
    }
    file.body(u64::from(count))
}

/// Reads images with their labels, and checks that the two files belong together.
///
/// # Errors
/// As [`read_images`] and [`read_labels`]; also if the files hold different numbers of
/// examples, or a label is not below `classes`.
pub fn read_pair(images: &Path, labels: &Path, classes: usize) -> Result<Images, DataError> {
    let values = read_labels(labels)?;
    if let Some(index) = values.iter().position(|&label| usize::from(label) >= classes) {
        let fault = IdxFault::Label { index, value: values[index], classes };
        return Err(DataError::Content { path: labels.into(), fault });
    }
    let idx = read_images(images)?;
    if idx.count != values.len() {
        return Err(DataError::Mismatch {
            first: images.into(),
            second: labels.into(),
            what: format!("{} images and {} labels", idx.count, values.len()),
        });
    }
    Images::new(idx.rows, idx.cols, classes, idx.pixels, values)
}

/// Writes images as an IDX file, not packed. `pixels` holds whole images of `rows * cols`.
///
/// # Errors
/// If the file cannot be written, or the sizes do not make up whole images.
pub fn write_images(path: &Path, rows: usize, cols: usize, pixels: &[u8]) -> Result<(), DataError> {
    let area = rows.saturating_mul(cols);
    if area == 0 || !pixels.len().is_multiple_of(area) {
        let what = format!("{} pixels for images of {rows} x {cols}", pixels.len());
        return Err(DataError::Images { what });
    }
    write(path, IMAGES_MAGIC, &[pixels.len() / area, rows, cols], pixels)
}

/// Writes labels as an IDX file, not packed.
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

/// An open file, with its name for errors.
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

    /// Reads at most `limit` bytes, fewer only where the content ends.
    fn read(&mut self, limit: u64) -> Result<Vec<u8>, DataError> {
        let mut bytes = Vec::with_capacity(limit.min(FIRST_BYTES) as usize);
        match self.content.by_ref().take(limit).read_to_end(&mut bytes) {
            Ok(_) => Ok(bytes),
            Err(error) if self.content.is_gzip() => {
                Err(self.fault(IdxFault::Gzip { what: error.to_string() }))
            }
            Err(error) => Err(DataError::io("read", self.path)(error)),
        }
    }

    /// Reads the magic number and `N` dimensions.
    fn header<const N: usize>(&mut self, expected: u32) -> Result<[u32; N], DataError> {
        let need = 4 + 4 * N;
        let bytes = self.read(need as u64)?;
        let (words, _) = bytes.as_chunks::<4>();
        let mut words = words.iter().map(|word| u32::from_be_bytes(*word));
        // The magic number is judged first: a labels file is shorter than an images header.
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

    /// Reads the elements, which must be exactly this many bytes. Asking for one more makes
    /// gzip reach its end, where its checksum is.
    fn body(&mut self, expected: u64) -> Result<Vec<u8>, DataError> {
        let bytes = self.read(expected + 1)?;
        match bytes.len() as u64 {
            got if got < expected => Err(self.fault(IdxFault::Short { got, expected })),
            got if got > expected => Err(self.fault(IdxFault::Long { expected })),
            _ => Ok(bytes),
        }
    }
}
