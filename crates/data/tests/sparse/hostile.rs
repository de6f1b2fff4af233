//! Bad rows and files are an error that says where, or are counted; they never panic.

use std::io::{Read as _, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::LazyLock;

use flate2::Compression;
use flate2::write::GzEncoder;

use paceline_data::sparse::{
    Clicks, MAX_LINE_BYTES, ReadCounts, ReadOptions, SparseFormat, read_rows, write_clicks,
};
use paceline_data::{DataError, OnBad, OpenReport, SparseKind, open_sparse};
use paceline_tfrecord::write_record;
use proptest::prelude::*;

use crate::{DataDir, gzip, ones, open};

const FORMATS: [SparseFormat; 4] =
    [SparseFormat::Libsvm, SparseFormat::Libffm, SparseFormat::TfRecord, SparseFormat::Criteo];

/// Reads bytes, and checks what every reader guarantees about a row.
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

/// Five generated rows.
fn generated(format: SparseFormat) -> Vec<u8> {
    static CLICKS: LazyLock<Clicks> = LazyLock::new(|| Clicks::new(1 << 20, 1));
    let mut bytes = Vec::new();
    write_clicks(&CLICKS, 0..5, format, &mut bytes, &mut |_| true).unwrap();
    bytes
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        for format in FORMATS {
            let _ = read(&bytes, format, OnBad::Fail);
            let _ = read(&bytes, format, OnBad::Skip);
        }
    }

    #[test]
    fn random_text_never_panics(text in "([-+0-9a-f:.#eE \t\r]{0,30}\n?){0,20}") {
        for format in [SparseFormat::Libsvm, SparseFormat::Libffm, SparseFormat::Criteo] {
            let skipping = read(text.as_bytes(), format, OnBad::Skip).unwrap();
            prop_assert_eq!(skipping.bytes, text.len() as u64);
            let failing = read(text.as_bytes(), format, OnBad::Fail);
            prop_assert_eq!(failing.is_err(), skipping.skipped > 0);
        }
    }

    #[test]
    fn damaged_and_truncated_files_never_panic(
        at: prop::sample::Index, byte: u8, cut: prop::sample::Index, truncate: bool,
    ) {
        for format in FORMATS {
            let mut bytes = generated(format);
            let at = at.index(bytes.len());
            let same = bytes[at] == byte;
            bytes[at] = byte;
            if truncate {
                bytes.truncate(cut.index(bytes.len()));
            }
            let found = read(&bytes, format, OnBad::Skip);
            if format == SparseFormat::TfRecord && !truncate && !same {
                // The checksums detect every change.
                prop_assert!(found.is_err() || found.is_ok_and(|counts| counts.skipped == 1));
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
    assert!(
        error.contains("rows.svm: line 4: a value is infinite, beyond 3.4e38 or not a number"),
        "{error}"
    );
    assert!(error.contains("data.on_bad"), "{error}");
    spec.on_bad = OnBad::Skip;
    let set = open(&spec).unwrap();
    assert_eq!(
        (crate::all(&set.train), set.train.skipped()),
        (vec![ones(1, &[0]), ones(0, &[1])], 2)
    );
    // The cache stores the count with the rows.
    assert_eq!(open(&spec).unwrap().train.skipped(), 2);
}

#[test]
fn a_record_that_fails_its_checksum_or_is_cut_short_is_skipped_and_the_rest_read() {
    let bytes = generated(SparseFormat::TfRecord);
    let mut damaged = bytes.clone();
    damaged[40] ^= 1;
    let error = read(&damaged, SparseFormat::TfRecord, OnBad::Fail).unwrap_err().to_string();
    assert!(error.contains("record 0 (from 0): the data fails its checksum"), "{error}");
    let counts = read(&damaged, SparseFormat::TfRecord, OnBad::Skip).unwrap();
    assert_eq!((counts.rows, counts.skipped, counts.bytes), (4, 1, bytes.len() as u64));
    let cut = &bytes[..bytes.len() - 3];
    let counts = read(cut, SparseFormat::TfRecord, OnBad::Skip).unwrap();
    assert_eq!((counts.rows, counts.skipped), (4, 1));
    // After a damaged length, the number of lost rows is unknown, so it is an error.
    damaged[0] ^= 1;
    let error = read(&damaged, SparseFormat::TfRecord, OnBad::Skip).unwrap_err().to_string();
    assert!(error.contains("the length fails its checksum"), "{error}");
}

#[test]
fn an_index_that_no_model_can_have_is_an_error_that_names_its_line() {
    let dir = DataDir::new();
    for (rows, problem) in [
        ("0 1:1\n1 4294967295:1\n", "line 2: key 4294967294 (from 0) is not below"),
        ("0 1:1\n1 4294967296:1\n", "line 2: "),
    ] {
        dir.file("rows.svm", rows);
        let error = open(&dir.spec(SparseKind::Libsvm, "rows.svm")).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}

#[test]
fn a_greatest_index_that_the_rows_hardly_explain_must_be_confirmed() {
    let dir = DataDir::new();
    dir.file("rows.svm", "0 1:1\n1 2000000000:1\n0 2:1\n");
    let spec = dir.spec(SparseKind::Libsvm, "rows.svm");
    let error = open(&spec).unwrap_err().to_string();
    for part in ["rows.svm", "the greatest index is 2000000000", "8.0 GB", "only 3 entries"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(error.contains("set data.features = 2000000000 if"), "{error}");
    let confirmed = paceline_data::SparseSpec { features: Some(2_000_000_000), ..spec };
    assert_eq!(open(&confirmed).unwrap().train.features(), 2_000_000_000);
}

#[test]
fn lengths_above_the_limits_are_errors() {
    let mut long = vec![b'1'; MAX_LINE_BYTES + 1];
    long.extend(b"\n1 1:1\n");
    let error = read(&long, SparseFormat::Libsvm, OnBad::Fail).unwrap_err().to_string();
    assert!(error.contains("line 1: longer than"), "{error}");
    let counts = read(&long, SparseFormat::Libsvm, OnBad::Skip).unwrap();
    assert_eq!((counts.rows, counts.skipped), (1, 1));

    let mut record = Vec::new();
    write_record(&mut record, &vec![0; (16 << 20) + 1]).unwrap();
    let error = read(&record, SparseFormat::TfRecord, OnBad::Skip).unwrap_err().to_string();
    assert!(error.contains("above the limit"), "{error}");

    // A record within its limit with more entries than a row may have.
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
fn a_line_without_end_is_given_up_with_its_number() {
    let endless = b"1 1:1\n"[..].chain(std::io::repeat(b'7'));
    let options = ReadOptions {
        format: SparseFormat::Libsvm,
        features: None,
        first_index: 1,
        on_bad: OnBad::Skip,
    };
    let error = read_rows(endless, Path::new("rows.svm"), &options, &mut |_| Ok(())).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("rows.svm: line 2: longer than 2147483648 bytes"), "{error}");
    assert!(error.contains("remove the line"), "{error}");
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_row() {
    let counts = read(b"\xef\xbb\xbf1 1:1\n0 2:1\n", SparseFormat::Libsvm, OnBad::Fail).unwrap();
    assert_eq!((counts.rows, counts.skipped), (2, 0));
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
    for (name, text, says) in
        [("empty.svm", "", "an empty file"), ("comments.svm", "# nothing\n\n", "no rows")]
    {
        dir.file(name, text);
        let error = open(&dir.spec(SparseKind::Libsvm, name)).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    // An empty file fails before anything is built, packed or not.
    let remarks = |spec: &paceline_data::SparseSpec| {
        let mut count = 0;
        let mut observer = |_: OpenReport<'_>| {
            count += 1;
            ControlFlow::Continue(())
        };
        assert!(open_sparse(spec, &mut observer).is_err());
        count
    };
    dir.file("empty.svm.gz", gzip(b""));
    for name in ["empty.svm", "empty.svm.gz"] {
        assert_eq!(remarks(&dir.spec(SparseKind::Libsvm, name)), 0, "{name}");
    }
}

#[test]
fn a_file_of_another_kind_is_named() {
    let dir = DataDir::new();
    let criteo = generated(SparseFormat::Criteo);
    let record = generated(SparseFormat::TfRecord);
    let cases: [(&[u8], SparseKind, &str); 9] = [
        (b"\x93NUMPY\x01\x00v\x00{'descr'", SparseKind::Libsvm, "set data.kind = \"numpy\""),
        (b"PAR1\x15\x04\x15", SparseKind::Criteo, "set data.kind = \"table\""),
        (b"PAR1\x15\x04\x15", SparseKind::TfRecord, "a Parquet file"),
        (b"\xff\xfe1\x00 \x00", SparseKind::Libsvm, "iconv -f UTF-16"),
        (b"age,income\n31,20000\n", SparseKind::Libsvm, "columns separated by commas"),
        (&criteo, SparseKind::Libsvm, "set data.kind = \"criteo\""),
        (&record, SparseKind::Criteo, "set data.kind = \"tfrecord\""),
        (b"1 3:1\n0 2:1\n", SparseKind::TfRecord, "set data.kind = \"libsvm\""),
        (b"1 3:1\n0 2:1\n", SparseKind::Criteo, "set data.kind = \"libsvm\""),
    ];
    for (bytes, kind, says) in cases {
        for (name, bytes) in [("file", bytes.to_vec()), ("file.gz", gzip(bytes))] {
            dir.file(name, bytes);
            let mut spec = dir.spec(kind, name);
            spec.features = Some(1 << 20);
            let error = open(&spec).unwrap_err().to_string();
            assert!(error.contains(says) && error.contains(name), "{error}");
        }
    }
}

#[test]
fn a_line_of_a_gigabyte_and_a_gzip_bomb_are_read_in_little_memory() {
    let dir = DataDir::new();
    // A gigabyte of one digit, a megabyte when packed.
    let mut bomb = GzEncoder::new(Vec::new(), Compression::fast());
    bomb.write_all(b"1 1:1\n").unwrap();
    let digits = vec![b'7'; 1 << 20];
    (0..1024).for_each(|_| bomb.write_all(&digits).unwrap());
    bomb.write_all(b"\n0 2:1\n").unwrap();
    dir.file("rows.svm.gz", bomb.finish().unwrap());
    let mut spec = dir.spec(SparseKind::Libsvm, "rows.svm.gz");
    let error = open(&spec).unwrap_err().to_string();
    assert!(error.contains("line 2: longer than"), "{error}");
    spec.on_bad = OnBad::Skip;
    let set = open(&spec).unwrap();
    assert_eq!((set.train.len(), set.train.skipped()), (2, 1));
    let peak = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = peak.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    let kib: u64 = peak.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(kib < 500_000, "{peak}");
}
