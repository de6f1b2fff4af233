//! The IDX reader with good files, every kind of bad file, and random bytes.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use paceline_data::DataError;
use paceline_data::idx::{
    IdxFault, read_images, read_labels, read_pair, write_images, write_labels,
};
use proptest::prelude::*;
use tempfile::TempDir;

/// A temporary directory for the files of a test.
struct IdxDir {
    root: TempDir,
}

impl IdxDir {
    fn new() -> Self {
        IdxDir { root: TempDir::new().expect("a temporary directory") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        fs::write(self.path(name), bytes).expect("writable");
        self.path(name)
    }
}

/// Three images of 2 x 2 as an IDX file.
fn images_file() -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 2];
    bytes.extend(0..12);
    bytes
}

/// Three labels as an IDX file.
fn labels_file() -> Vec<u8> {
    vec![0, 0, 8, 1, 0, 0, 0, 3, 7, 0, 9]
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn fault<T: std::fmt::Debug>(result: Result<T, DataError>, path: &Path) -> IdxFault {
    let error = result.expect_err("a bad file");
    assert!(error.to_string().contains(path.to_str().expect("utf-8")), "{error} names no file");
    match error {
        DataError::Content { fault, .. } => fault,
        other => panic!("not about content: {other}"),
    }
}

#[test]
fn gzip_and_plain_files_give_equal_images_whatever_their_name() {
    let dir = IdxDir::new();
    for (name, bytes) in [
        ("plain", images_file()),
        ("plain.gz", images_file()),
        ("packed.gz", gzip(&images_file())),
        ("packed", gzip(&images_file())),
    ] {
        let images = read_images(&dir.file(name, &bytes)).unwrap();
        assert_eq!((images.count, images.rows, images.cols), (3, 2, 2), "{name}");
        assert_eq!(images.pixels, (0..12).collect::<Vec<u8>>(), "{name}");
    }
    let labels = dir.file("labels", &gzip(&labels_file()));
    assert_eq!(read_labels(&labels).unwrap(), [7, 0, 9]);
}

#[test]
fn each_kind_of_bad_images_file_has_its_own_fault() {
    let dir = IdxDir::new();
    let check = |bytes: &[u8], expected: IdxFault| {
        let path = dir.file("images", bytes);
        assert_eq!(fault(read_images(&path), &path), expected);
    };
    let good = images_file();
    let claim = |count: u32, rows: u32, cols: u32| {
        let mut bytes = good[..4].to_vec();
        [count, rows, cols].iter().for_each(|word| bytes.extend(word.to_be_bytes()));
        bytes
    };
    check(&[], IdxFault::NoHeader { got: 0, need: 16 });
    check(&good[..3], IdxFault::NoHeader { got: 3, need: 16 });
    check(&good[..15], IdxFault::NoHeader { got: 15, need: 16 });
    check(b"<!DOCTYPE html>", IdxFault::Magic { found: 0x3c21_444f, expected: 0x803 });
    check(&labels_file(), IdxFault::LabelsNotImages);
    check(&gzip(&labels_file()), IdxFault::LabelsNotImages);
    check(&good[..27], IdxFault::Short { got: 11, expected: 12 });
    check(&[&good[..], &[0]].concat(), IdxFault::Long { expected: 12 });
    check(&gzip(&good[..20]), IdxFault::Short { got: 4, expected: 12 });
    check(&gzip(&[&good[..], &[0; 9]].concat()), IdxFault::Long { expected: 12 });
    for (count, rows, cols) in
        [(0, 28, 28), (1, 0, 28), (1, 28, 0), (1, 4097, 1), (u32::MAX, 4096, 4096)]
    {
        check(&claim(count, rows, cols), IdxFault::Shape { count, rows, cols });
    }
    // A header within the limits but without content must not cost two gigabytes.
    check(&claim(128, 4096, 4096), IdxFault::Short { got: 0, expected: 128 << 24 });
}

#[test]
fn each_kind_of_bad_labels_file_has_its_own_fault() {
    let dir = IdxDir::new();
    let check = |bytes: &[u8], expected: IdxFault| {
        let path = dir.file("labels", bytes);
        assert_eq!(fault(read_labels(&path), &path), expected);
    };
    check(&images_file(), IdxFault::ImagesNotLabels);
    check(&labels_file()[..10], IdxFault::Short { got: 2, expected: 3 });
    check(&[labels_file(), vec![1]].concat(), IdxFault::Long { expected: 3 });
    check(&[0, 0, 8, 1, 0, 0, 0, 0], IdxFault::NoLabels);
    check(&[0, 0, 8, 1, 255, 255, 255, 255], IdxFault::Short { got: 0, expected: u32::MAX.into() });
}

#[test]
fn damaged_gzip_has_its_own_fault() {
    let dir = IdxDir::new();
    let good = gzip(&images_file());
    let mut wrong_checksum = good.clone();
    let at = wrong_checksum.len() - 8;
    wrong_checksum[at] ^= 1;
    for bytes in
        [&good[..good.len() - 3], &good[..14], &wrong_checksum, &[&good[..], b"tail"].concat()]
    {
        let path = dir.file("images.gz", bytes);
        assert!(matches!(fault(read_images(&path), &path), IdxFault::Gzip { .. }));
    }
}

#[test]
fn a_missing_file_and_a_directory_are_named() {
    let dir = IdxDir::new();
    let missing = read_labels(&dir.path("nothing")).unwrap_err().to_string();
    assert!(missing.contains("cannot open") && missing.contains("nothing"), "{missing}");
    let directory = read_images(dir.root.path()).unwrap_err().to_string();
    assert!(directory.contains("it is a directory, not a file"), "{directory}");
}

#[test]
fn a_pair_must_belong_together() {
    let dir = IdxDir::new();
    let (images, labels) = (dir.path("images"), dir.path("labels"));
    write_images(&images, 2, 2, &[5; 12]).unwrap();
    write_labels(&labels, &[7, 0, 9]).unwrap();
    let pair = read_pair(&images, &labels, 10).unwrap();
    assert_eq!((pair.len(), pair.classes(), pair.label(2)), (3, 10, 9));

    let expected = IdxFault::Label { index: 2, value: 9, classes: 9 };
    assert_eq!(fault(read_pair(&images, &labels, 9), &labels), expected);

    write_labels(&labels, &[7, 0]).unwrap();
    let error = read_pair(&images, &labels, 10).unwrap_err().to_string();
    assert!(error.contains("3 images and 2 labels"), "{error}");
    // Known from the headers, so that labels which a small file claims need no memory.
    let claims = [&[0, 0, 8, 1], &u32::MAX.to_be_bytes()[..], &[0; 2]].concat();
    fs::write(&labels, gzip(&claims)).unwrap();
    let error = read_pair(&images, &labels, 10).unwrap_err().to_string();
    assert!(error.contains("3 images and 4294967295 labels"), "{error}");
    assert!(write_images(&images, 2, 2, &[5; 11]).is_err());
}

proptest! {
    #[test]
    fn images_and_labels_come_back_as_written(
        rows in 1usize..9, cols in 1usize..9, count in 1usize..20, seed in any::<u64>(),
    ) {
        let dir = IdxDir::new();
        let mut random = paceline_data::Random::keyed(&[seed]);
        let mut bytes = |n: usize| (0..n).map(|_| random.next_u64() as u8).collect::<Vec<u8>>();
        let (pixels, labels) = (bytes(rows * cols * count), bytes(count));
        write_images(&dir.path("images"), rows, cols, &pixels).unwrap();
        write_labels(&dir.path("labels"), &labels).unwrap();
        let pair = read_pair(&dir.path("images"), &dir.path("labels"), 256).unwrap();
        prop_assert_eq!(pair.labels(), &labels[..]);
        prop_assert_eq!((pair.rows(), pair.cols()), (rows, cols));
        prop_assert_eq!(pair.image(count - 1), &pixels[rows * cols * (count - 1)..]);
    }

    #[test]
    fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let dir = IdxDir::new();
        let path = dir.file("garbage", &bytes);
        // Random bytes are rarely a valid file, but they may be.
        let _ = (read_images(&path), read_labels(&path));
        let headed = dir.file("headed", &[&images_file()[..4], &bytes[..]].concat());
        let _ = read_images(&headed);
        let packed = dir.file("packed", &[&[0x1f, 0x8b, 8, 0], &bytes[..]].concat());
        prop_assert!(read_images(&packed).is_err());
    }

    #[test]
    fn a_cut_file_is_never_accepted(cut in 0.0..1.0f64, packed in any::<bool>()) {
        let dir = IdxDir::new();
        let whole = if packed { gzip(&images_file()) } else { images_file() };
        let path = dir.file("cut", &whole[..(whole.len() as f64 * cut) as usize]);
        prop_assert!(read_images(&path).is_err());
    }

    #[test]
    fn a_flipped_byte_never_panics_and_never_passes_gzip(
        at in any::<prop::sample::Index>(), flip in 1u8.., packed in any::<bool>(),
    ) {
        let dir = IdxDir::new();
        let good = images_file();
        let mut bytes = if packed { gzip(&good) } else { good.clone() };
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        if let Ok(images) = read_images(&dir.file("flipped", &bytes)) {
            // Plain pixels have no checksum; a gzip header has bytes without meaning.
            prop_assert!(!packed && at >= 16 || packed && images.pixels == good[16..]);
        }
    }
}
