//! Bad rows and bad files: an error that says where, or a count; never a panic.

use std::path::Path;
use std::sync::LazyLock;

use paceline_data::sparse::{
    Clicks, MAX_LINE_BYTES, ReadCounts, ReadOptions, SparseFormat, read_rows, write_clicks,
};
use paceline_data::{DataError, OnBad, SparseKind};
use paceline_tfrecord::write_record;
use proptest::prelude::*;

use crate::{DataDir, gzip, ones, open};

const FORMATS: [SparseFormat; 3] =
    [SparseFormat::Libsvm, SparseFormat::TfRecord, SparseFormat::Criteo];

/// Reads bytes, and checks what every reader promises of a row.
fn read(bytes: &[u8], format: SparseFormat, on_bad: OnBad) -> Result<ReadCounts, DataError> {
    let options = ReadOptions { format, features: Some(1 << 20), first_index: 0, on_bad };
    read_rows(bytes, Path::new("rows"), &options, &mut |row| {
        assert!(row.label < 2 && row.keys.is_sorted());
        assert!(row.keys.iter().all(|&key| key < 1 << 20));
        assert!(row.values.is_empty() || row.values.len() == row.keys.len());
        assert!(row.values.iter().all(|value| value.is_finite()));
        Ok(())
    })
}

/// Five rows.
fn made_up(format: SparseFormat) -> Vec<u8> {
    static CLICKS: LazyLock<Clicks> = LazyLock::new(|| Clicks::new(1 << 20, 1));
    let mut bytes = Vec::new();
    write_clicks(&CLICKS, 0..5, format, &mut bytes, &mut |_| true).unwrap();
    bytes
}

proptest! {
    #[test]
    fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        for format in FORMATS {
            let _ = read(&bytes, format, OnBad::Fail);
            let _ = read(&bytes, format, OnBad::Skip);
        }
    }

    #[test]
    fn random_text_does_no_harm(text in "([-+0-9a-f:.#eE \t\r]{0,30}\n?){0,20}") {
        for format in [SparseFormat::Libsvm, SparseFormat::Criteo] {
            let skipping = read(text.as_bytes(), format, OnBad::Skip).unwrap();
            prop_assert_eq!(skipping.bytes, text.len() as u64);
            let failing = read(text.as_bytes(), format, OnBad::Fail);
            prop_assert_eq!(failing.is_err(), skipping.skipped > 0);
        }
    }

    #[test]
    fn damaged_and_truncated_files_do_no_harm(
        at: prop::sample::Index, byte: u8, cut: prop::sample::Index, truncate: bool,
    ) {
        for format in FORMATS {
            let mut bytes = made_up(format);
            let at = at.index(bytes.len());
            let same = bytes[at] == byte;
            bytes[at] = byte;
            if truncate {
                bytes.truncate(cut.index(bytes.len()));
            }
            let found = read(&bytes, format, OnBad::Skip);
            if format == SparseFormat::TfRecord && !truncate && !same {
                // Nothing gets past the checksums.
                prop_assert!(found.is_err() || found.is_ok_and(|tally| tally.skipped == 1));
            }
        }
    }
}

#[test]
fn a_bad_row_is_named_or_skipped() {
    let dir = DataDir::new();
    dir.file("rows.svm", "1 1:1\n\n# comment\n1 1:nan\n3 1:1\n0 2:1\n");
    let mut spec = dir.spec(SparseKind::Libsvm, "rows.svm");
    let error = open(&spec).unwrap_err().to_string();
    assert!(error.contains("rows.svm: line 4: a value is infinite or not a number"), "{error}");
    assert!(error.contains("data.on_bad"), "{error}");
    spec.on_bad = OnBad::Skip;
    let set = open(&spec).unwrap();
    assert_eq!(
        (crate::all(&set.train), set.train.skipped()),
        (vec![ones(1, &[0]), ones(0, &[1])], 2)
    );
    // The count is remembered with the rows.
    assert_eq!(open(&spec).unwrap().train.skipped(), 2);
}

#[test]
fn a_record_that_fails_its_checksum_or_is_cut_short_is_skipped_and_the_rest_read() {
    let bytes = made_up(SparseFormat::TfRecord);
    let mut damaged = bytes.clone();
    damaged[40] ^= 1;
    let error = read(&damaged, SparseFormat::TfRecord, OnBad::Fail).unwrap_err().to_string();
    assert!(error.contains("record 0 (from 0): the data fails its checksum"), "{error}");
    let tally = read(&damaged, SparseFormat::TfRecord, OnBad::Skip).unwrap();
    assert_eq!((tally.rows, tally.skipped, tally.bytes), (4, 1, bytes.len() as u64));
    let cut = &bytes[..bytes.len() - 3];
    let tally = read(cut, SparseFormat::TfRecord, OnBad::Skip).unwrap();
    assert_eq!((tally.rows, tally.skipped), (4, 1));
    // A broken length is another matter: nobody knows what it cost.
    damaged[0] ^= 1;
    let error = read(&damaged, SparseFormat::TfRecord, OnBad::Skip).unwrap_err().to_string();
    assert!(error.contains("the length fails its checksum"), "{error}");
}

#[test]
fn absurd_lengths_are_refused() {
    let mut long = vec![b'1'; MAX_LINE_BYTES + 1];
    long.extend(b"\n1 1:1\n");
    let error = read(&long, SparseFormat::Libsvm, OnBad::Fail).unwrap_err().to_string();
    assert!(error.contains("line 1: longer than"), "{error}");
    let tally = read(&long, SparseFormat::Libsvm, OnBad::Skip).unwrap();
    assert_eq!((tally.rows, tally.skipped), (1, 1));

    let mut record = Vec::new();
    write_record(&mut record, &vec![0; (16 << 20) + 1]).unwrap();
    let error = read(&record, SparseFormat::TfRecord, OnBad::Skip).unwrap_err().to_string();
    assert!(error.contains("above the limit"), "{error}");

    // Fewer bytes than a line may have, more entries than a row may have.
    let mut entries = Vec::new();
    paceline_tfrecord::proto::ProtoWriter::new(&mut entries).message(1, |features| {
        features.message(1, |entry| {
            entry.string(1, "label");
            entry.message(2, |feature| feature.message(3, |list| list.int64(1, 1)));
        });
        features.message(1, |entry| {
            entry.string(1, "index");
            entry.message(2, |feature| {
                feature.message(3, |list| list.packed_uint64s(1, (0..(1 << 20) + 1).map(|_| 5)));
            });
        });
    });
    let mut record = Vec::new();
    write_record(&mut record, &entries).unwrap();
    let error = read(&record, SparseFormat::TfRecord, OnBad::Fail).unwrap_err().to_string();
    assert!(error.contains("more than 1048576 entries"), "{error}");
}

#[test]
fn a_gzip_file_that_is_cut_short_is_an_error_even_if_bad_rows_are_skipped() {
    let dir = DataDir::new();
    let packed = gzip("1 1:1 2:1\n".repeat(1000).as_bytes());
    dir.file("rows.svm.gz", &packed[..packed.len() - 9]);
    let mut spec = dir.spec(SparseKind::Libsvm, "rows.svm.gz");
    spec.on_bad = OnBad::Skip;
    assert!(open(&spec).unwrap_err().to_string().contains("rows.svm.gz"));
}

#[test]
fn a_file_without_rows_is_an_error() {
    let dir = DataDir::new();
    for (name, text) in [("empty.svm", ""), ("comments.svm", "# nothing\n\n")] {
        dir.file(name, text);
        let error = open(&dir.spec(SparseKind::Libsvm, name)).unwrap_err().to_string();
        assert!(error.contains("no rows"), "{error}");
    }
}
