//! From the bytes of a JPEG or PNG file to pixels.
//!
//! The decoders are other people's; this file holds them to our rules. What a file is, its first
//! bytes say, not its name. How large a picture is, its header says, and a header that promises
//! too much is refused before there is memory for it. A picture that ends early or whose data
//! cannot be read is an error, never a picture with a grey lower half: training on half a
//! picture would go unnoticed.

use std::io::Cursor;
use std::panic::catch_unwind;

use png::{ColorType, Limits, Transformations};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// The pixels of a picture: red, green and blue byte, row after row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rgb {
    /// The height.
    pub rows: usize,
    /// The width.
    pub cols: usize,
    /// Three bytes for each pixel.
    pub pixels: Vec<u8>,
}

/// No side of a picture may be longer; a JPEG's cannot be.
const MOST_SIDE: usize = 65_535;

/// A JPEG needs at least a bit for each block of 64 pixels, or half of that where colours are
/// stored at less than full size in odd ways. What promises more is refused before memory is
/// taken for it.
const MOST_JPEG_PIXELS_A_BYTE: usize = 1024;

/// What a PNG decoder may take beside the pixels: rows, text, profiles.
const PNG_ASIDE_BYTES: usize = 8 << 20;

/// Reads a JPEG or PNG picture of at most `max_pixels` pixels. Grey becomes equal parts of the
/// three colours; transparency, colour profiles and the camera's orientation are ignored.
///
/// # Errors
/// What is wrong, in words.
pub fn decode(bytes: &[u8], max_pixels: usize) -> Result<Rgb, String> {
    let decoder: fn(&[u8], usize) -> Result<Rgb, String> = match bytes {
        [0xff, 0xd8, ..] => jpeg,
        [0x89, b'P', b'N', b'G', ..] => png,
        [] => return Err("the file is empty".into()),
        _ => return Err("neither a JPEG nor a PNG picture".into()),
    };
    // Should a decoder stumble over a file that nobody has thought of, that is the file's fault.
    catch_unwind(|| decoder(bytes, max_pixels))
        .unwrap_or_else(|_| Err("the decoder failed on it".into()))
}

fn jpeg(bytes: &[u8], max_pixels: usize) -> Result<Rgb, String> {
    let damaged = |error| format!("damaged JPEG: {error}");
    let options = DecoderOptions::new_fast()
        .set_strict_mode(true)
        .set_max_width(MOST_SIDE)
        .set_max_height(MOST_SIDE)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(damaged)?;
    let (cols, rows) = decoder.dimensions().ok_or("JPEG without a size")?;
    check_size(rows, cols, max_pixels)?;
    if rows * cols / MOST_JPEG_PIXELS_A_BYTE > bytes.len() {
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

/// Whether an end marker comes after the first scan's header. The decoder looks for the end of
/// the data only between rows of blocks, so it would take a picture without its last corner.
fn has_end(bytes: &[u8]) -> bool {
    const SCAN: u8 = 0xda;
    let mut at = 2;
    // Segments before the first scan are stepped over: a thumbnail in one has an end of its own.
    while let Some(&[0xff, marker, high, low]) = bytes.get(at..at + 4) {
        if marker == SCAN {
            return bytes[at..].windows(2).any(|pair| pair == [0xff, 0xd9]);
        }
        // Before a marker there may be any number of fill bytes.
        let step = if marker == 0xff { 1 } else { 2 + u16::from_be_bytes([high, low]) as usize };
        at += step;
    }
    false
}

fn png(bytes: &[u8], max_pixels: usize) -> Result<Rgb, String> {
    let damaged = |error| format!("damaged PNG: {error}");
    let limits = Limits { bytes: PNG_ASIDE_BYTES };
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
        ColorType::Indexed => unreachable!("the decoder expands palettes when asked to"),
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
    if rows > MOST_SIDE || cols > MOST_SIDE || rows * cols > max_pixels {
        return Err(format!(
            "a picture of {cols} x {rows} pixels, more than the {max_pixels} that are allowed"
        ));
    }
    Ok(())
}
