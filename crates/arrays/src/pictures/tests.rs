//! JPEG and PNG decoding agrees with Pillow and survives damage of every kind.
//! `tests/python/make_pictures.py` made the golden files.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::decode::decode;
use super::resize::resize;

const ROWS: usize = 26;
const COLS: usize = 39;
const MAX_PIXELS: usize = 1 << 20;

const PICTURES: [&str; 10] = [
    "baseline.jpg",
    "subsampled.jpg",
    "progressive.jpg",
    "grey.jpg",
    "cmyk.jpg",
    "colour.png",
    "grey.png",
    "palette.png",
    "alpha.png",
    "bits.png",
];

fn golden(name: &str) -> Vec<u8> {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    fs::read(folder.join(name)).expect("a golden file")
}

/// The mean and the largest difference.
fn differences(ours: &[u8], theirs: &[u8]) -> (f64, u8) {
    assert_eq!(ours.len(), theirs.len());
    let apart = || ours.iter().zip(theirs).map(|(a, b)| a.abs_diff(*b));
    (apart().map(f64::from).sum::<f64>() / ours.len() as f64, apart().max().unwrap_or(0))
}

#[test]
fn decoded_pictures_agree_with_pillow() {
    for name in PICTURES {
        let picture = decode(&golden(name), MAX_PIXELS).expect(name);
        assert_eq!((picture.rows, picture.cols), (ROWS, COLS), "{name}");
        let theirs = golden(&format!("{}.rgb", name.replace('.', "_")));
        let (mean, most) = differences(&picture.pixels, &theirs);
        // PNG is exact. JPEG decoders may differ in the rounding of the transform and, with
        // subsampled colours, in how they extend the last row.
        let (mean_limit, most_limit) = match name {
            "subsampled.jpg" | "progressive.jpg" => (0.5, 8),
            _ if name.ends_with("jpg") => (0.02, 2),
            _ => (0.0, 0),
        };
        assert!(mean <= mean_limit && most <= most_limit, "{name}: mean {mean}, most {most}");
    }
}

#[test]
fn a_scaled_picture_agrees_with_pillow() {
    let small = resize(&decode(&golden("colour.png"), MAX_PIXELS).unwrap(), 16);
    assert_eq!((small.rows, small.cols), (16, 24));
    let pixel = |at: usize| [0, 1, 2].map(|channel| small.values[channel * 16 * 24 + at]);
    let ours: Vec<u8> = (0..16 * 24).flat_map(pixel).collect();
    let (mean, most) = differences(&ours, &golden("resized.rgb"));
    assert!(mean < 0.1 && most <= 1, "mean {mean}, most {most}");
}

#[test]
fn a_picture_that_ends_early_is_an_error_wherever_it_ends() {
    for name in PICTURES {
        let bytes = golden(name);
        for end in 0..bytes.len() {
            let outcome = decode(&bytes[..end], MAX_PIXELS);
            assert!(outcome.is_err(), "{name} cut to {end} of {} bytes", bytes.len());
        }
    }
}

#[test]
fn a_too_large_picture_is_rejected_before_it_is_decoded() {
    let says = |bytes: &[u8], limit| decode(bytes, limit).unwrap_err();
    for name in ["colour.png", "baseline.jpg", "progressive.jpg"] {
        let error = says(&golden(name), ROWS * COLS - 1);
        assert!(error.contains("39 x 26 pixels, more than the limit of 1013"), "{name}: {error}");
        assert!(decode(&golden(name), ROWS * COLS).is_ok());
    }
    // A header that claims four billion pixels, without data.
    let mut bomb = golden("baseline.jpg");
    let frame = bomb.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap();
    bomb[frame + 5..frame + 9].fill(0xff);
    assert!(says(&bomb, 1 << 26).contains("65535 x 65535 pixels"));
    // Within the limit, but more pixels than a file of this length can have.
    bomb[frame + 5..frame + 9].copy_from_slice(&[0x1f, 0xff, 0x1f, 0xff]);
    assert!(says(&bomb, 1 << 26).contains("damaged JPEG: 8191 x 8191 pixels in"));
}

#[test]
fn a_file_that_is_not_a_picture_is_an_error() {
    for (bytes, says) in [(&b""[..], "empty"), (b"GIF89a", "neither"), (b"\xff", "neither")] {
        assert!(decode(bytes, MAX_PIXELS).unwrap_err().contains(says));
    }
}

/// A thumbnail inside a picture has its own end marker, which is not that of the picture.
#[test]
fn the_end_of_a_thumbnail_is_not_the_end_of_the_picture() {
    let bytes = golden("baseline.jpg");
    let mut thumbnail = vec![0xff, 0xe1, 0x00, 0x06, 0x01, 0x02, 0xff, 0xd9];
    thumbnail.extend_from_slice(&bytes[2..]);
    let whole = [&bytes[..2], &thumbnail].concat();
    assert_eq!(decode(&whole, MAX_PIXELS), decode(&bytes, MAX_PIXELS));
    assert!(decode(&whole[..whole.len() - 2], MAX_PIXELS).unwrap_err().contains("ends early"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn garbage_is_an_error(
        kind in 0usize..3, garbage in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        let start: [&[u8]; 3] = [b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b""];
        let bytes = [start[kind], &garbage].concat();
        prop_assert!(decode(&bytes, MAX_PIXELS).is_err());
    }

    /// A JPEG has no checksum, so a changed byte may go unnoticed. The result must be a picture
    /// within the limit or an error, and the decoder must not panic.
    #[test]
    fn damage_ends_in_a_picture_or_an_error(
        which in 0..PICTURES.len(), at: proptest::sample::Index, byte: u8,
        other: proptest::sample::Index, other_byte: u8,
    ) {
        let mut bytes = golden(PICTURES[which]);
        let (at, other) = (at.index(bytes.len()), other.index(bytes.len()));
        (bytes[at], bytes[other]) = (byte, other_byte);
        match decode(&bytes, MAX_PIXELS) {
            Ok(picture) => {
                prop_assert!(picture.rows * picture.cols <= MAX_PIXELS);
                prop_assert_eq!(picture.pixels.len(), 3 * picture.rows * picture.cols);
            }
            Err(what) => prop_assert!(!what.contains("decoder failed"), "{} at {}", what, at),
        }
    }
}
