//! Decodes JPEG and PNG files to pixels.
//!
//! The decoders are external crates; this module adds strict rules. The first bytes of a file
//! decide its format, not its name. A header that claims too large a picture is rejected before
//! memory is taken for it. A picture that ends early or is damaged is an error, never a picture
//! with a grey lower half: training on half a picture would go unnoticed.

use std::io::Cursor;
use std::panic::catch_unwind;

use png::{ColorType, Limits, Transformations};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// A decoded picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rgb {
    /// The height, in pixels.
    pub(super) rows: usize,
    /// The width, in pixels.
    pub(super) cols: usize,
    /// Red, green and blue byte of each pixel, row after row.
    pub(super) pixels: Vec<u8>,
}

/// The greatest height or width of a picture, in pixels: the limit of the JPEG format.
const MAX_SIDE: usize = 65_535;

/// A JPEG has at least one bit for each block of 64 pixels, or half a bit with unusual subsampling
/// of colours. A header that claims more pixels is rejected before memory is taken for them.
const MAX_JPEG_PIXELS_PER_BYTE: usize = 1024;

/// The most memory a PNG decoder may take in addition to the pixels, in bytes.
const PNG_EXTRA_BYTES: usize = 8 << 20;

/// Decodes a JPEG or PNG picture of at most `max_pixels` pixels. Grey becomes equal parts of the
/// three colours; transparency, colour profiles and the camera's orientation are ignored.
///
/// # Errors
/// A clause that says what is wrong with the picture.
pub(super) fn decode(bytes: &[u8], max_pixels: usize) -> Result<Rgb, String> {
    let decoder: fn(&[u8], usize) -> Result<Rgb, String> = match bytes {
        [0xff, 0xd8, ..] => jpeg,
        [0x89, b'P', b'N', b'G', ..] => png,
        [] => return Err("the file is empty".into()),
        _ => return Err("neither a JPEG nor a PNG picture".into()),
    };
    // A decoder that panics on an unusual file must not end the run.
    catch_unwind(|| decoder(bytes, max_pixels))
        .unwrap_or_else(|_| Err("the decoder failed on it".into()))
}

fn jpeg(bytes: &[u8], max_pixels: usize) -> Result<Rgb, String> {
    let damaged = |error| format!("damaged JPEG: {error}");
    let options = DecoderOptions::new_fast()
        .set_strict_mode(true)
        .set_max_width(MAX_SIDE)
        .set_max_height(MAX_SIDE)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(damaged)?;
    let (cols, rows) = decoder.dimensions().ok_or("JPEG without a size")?;
    check_size(rows, cols, max_pixels)?;
    if rows * cols / MAX_JPEG_PIXELS_PER_BYTE > bytes.len() {
        return Err(format!("damaged JPEG: {cols} x {rows} pixels in {} bytes", bytes.len()));
    }
    if !has_end(bytes) {
        return Err("damaged JPEG: it ends early".into());
    }
    let pixels = decoder.decode().map_err(damaged)?;
    if pixels.len() != rows * cols * 3 {
        return Err("JPEG with colours of an unknown kind".into());
    }
    Ok(Rgb { rows, cols, pixels })
}

/// Whether an end marker follows the header of the first scan. The decoder checks for the end of
/// the data only between rows of blocks, so it would accept a picture without its last corner.
fn has_end(bytes: &[u8]) -> bool {
    const SCAN: u8 = 0xda;
    let mut at = 2;
    // Segments before the first scan are skipped: a thumbnail in one has its own end marker.
    while let Some(&[0xff, marker, high, low]) = bytes.get(at..at + 4) {
        if marker == SCAN {
            return bytes[at..].windows(2).any(|pair| pair == [0xff, 0xd9]);
        }
        // Any number of fill bytes may precede a marker.
        let step = if marker == 0xff { 1 } else { 2 + u16::from_be_bytes([high, low]) as usize };
        at += step;
    }
    false
}

fn png(bytes: &[u8], max_pixels: usize) -> Result<Rgb, String> {
    let damaged = |error| format!("damaged PNG: {error}");
    let limits = Limits { bytes: PNG_EXTRA_BYTES };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
    decoder.set_transformations(Transformations::normalize_to_color8());
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let header = decoder.read_header_info().map_err(damaged)?;
    let (rows, cols) = (header.height as usize, header.width as usize);
    check_size(rows, cols, max_pixels)?;
    let mut reader = decoder.read_info().map_err(damaged)?;
    let size = reader.output_buffer_size().ok_or("PNG without a size")?;
    let mut values = vec![0; size];
    let frame = reader.next_frame(&mut values).map_err(damaged)?;
    reader.finish().map_err(damaged)?;
    let pixels = match frame.color_type {
        ColorType::Rgb => values,
        ColorType::Rgba => values.chunks_exact(4).flat_map(|p| [p[0], p[1], p[2]]).collect(),
        ColorType::Grayscale => values.iter().flat_map(|&grey| [grey; 3]).collect(),
        ColorType::GrayscaleAlpha => values.chunks_exact(2).flat_map(|p| [p[0]; 3]).collect(),
        ColorType::Indexed => unreachable!("the decoder is set to expand palettes"),
    };
    if pixels.len() != rows * cols * 3 {
        return Err("PNG whose first frame is not the whole picture".into());
    }
    Ok(Rgb { rows, cols, pixels })
}

fn check_size(rows: usize, cols: usize, max_pixels: usize) -> Result<(), String> {
    if rows == 0 || cols == 0 {
        return Err("a picture without pixels".into());
    }
    if rows > MAX_SIDE || cols > MAX_SIDE || rows * cols > max_pixels {
        return Err(format!(
            "a picture of {cols} x {rows} pixels, more than the limit of {max_pixels}"
        ));
    }
    Ok(())
}
