//! Parquet files: they give the rows that CSV files give.

#![cfg(feature = "parquet")]
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use paceline_data::{DataError, OpenReport};
use paceline_table::{ColumnChoice, ColumnSpec, OpenTable, ScaleChoice, TableSpec, open_table};
use parquet::basic::{Compression, Encoding};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DoubleType, FloatType, Int32Type, Int64Type,
};
use parquet::file::properties::{
    EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterVersion,
};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

const SCHEMA: &str = "message people {
    OPTIONAL DOUBLE age;
    REQUIRED BYTE_ARRAY city (UTF8);
    REQUIRED INT32 price (DECIMAL(9, 2));
    REQUIRED INT64 count;
    REQUIRED FLOAT rate;
    REQUIRED BOOLEAN buys;
}";

fn write(path: &Path, compression: Compression) {
    write_with(path, WriterProperties::builder().set_compression(compression));
}

/// Writes the same three rows in each of two groups.
fn write_with(path: &Path, properties: WriterPropertiesBuilder) {
    let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
    let properties = Arc::new(properties.build());
    let file = File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, properties).unwrap();
    for _ in 0..2 {
        let mut group = writer.next_row_group().unwrap();
        macro_rules! column {
            ($kind:ty, $values:expr, $levels:expr) => {
                let mut column = group.next_column().unwrap().unwrap();
                column.typed::<$kind>().write_batch($values, $levels, None).unwrap();
                column.close().unwrap();
            };
        }
        let cities = ["Paris", "Split, \"HR\"\nnew", "Paris"].map(ByteArray::from);
        column!(DoubleType, &[39.5, 50.0], Some(&[1, 0, 1]));
        column!(ByteArrayType, &cities, None);
        column!(Int32Type, &[1250, -5, 7], None);
        column!(Int64Type, &[1 << 40, -3, 0], None);
        column!(FloatType, &[0.1, 1e-9, 3.0], None);
        column!(BoolType, &[true, false, true], None);
        group.close().unwrap();
    }
    writer.close().unwrap();
}

const TEXT: &str = "age,city,price,count,rate,buys
39.5,Paris,12.50,1099511627776,0.1,true
,\"Split, \"\"HR\"\"\nnew\",-0.05,-3,1e-9,false
50,Paris,0.07,0,3,true
";

fn open(path: PathBuf, more: &[ColumnSpec]) -> Result<OpenTable, DataError> {
    let raw = |column: &str| ColumnSpec {
        column: column.into(),
        choice: ColumnChoice::Number(ScaleChoice::Raw),
    };
    let mut columns = ["age", "price", "count", "rate"].map(raw).to_vec();
    columns.push(ColumnSpec::label("buys"));
    columns.extend_from_slice(more);
    let cache_dir = path.parent().map(|dir| dir.join("cache"));
    let spec = TableSpec { columns, cache_dir, ..TableSpec::at(&path) };
    open_table(&spec, &mut |_: OpenReport<'_>| ControlFlow::Continue(()))
}

#[test]
fn parquet_gives_the_rows_of_the_same_table_as_text() {
    let dir = tempfile::tempdir().unwrap();
    let (header, rows) = TEXT.split_once('\n').unwrap();
    fs::write(dir.path().join("people.csv"), format!("{header}\n{rows}{rows}")).unwrap();
    let text = open(dir.path().join("people.csv"), &[]).unwrap();
    let kinds = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(Default::default()),
        Compression::ZSTD(Default::default()),
        Compression::LZ4_RAW,
    ];
    for (number, compression) in kinds.into_iter().enumerate() {
        let path = dir.path().join(format!("people-{number}.parquet"));
        write(&path, compression);
        let table = open(path, &[]).unwrap();
        assert_eq!(table.featurizer, text.featurizer, "{compression:?}");
        assert_eq!(table.rows.train.len(), 6);
        for row in 0..6 {
            assert_eq!(table.rows.train.row(row), text.rows.train.row(row), "{compression:?}");
        }
    }
}

/// A writer that stores cities as lists of lengths and texts.
fn with_lengths(encoding: Encoding, version: WriterVersion) -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_writer_version(version)
        .set_column_encoding("city".into(), encoding)
}

#[test]
fn texts_with_lists_of_lengths_are_read_in_both_versions_of_pages() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("people.parquet"), Compression::UNCOMPRESSED);
    let usual = open(dir.path().join("people.parquet"), &[]).unwrap();
    for encoding in [Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY] {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            let path = dir.path().join(format!("{encoding}-{version:?}.parquet"));
            write_with(&path, with_lengths(encoding, version).set_compression(Compression::SNAPPY));
            let table = open(path, &[]).unwrap();
            assert_eq!(table.featurizer, usual.featurizer, "{encoding} {version:?}");
            for row in 0..6 {
                assert_eq!(table.rows.train.row(row), usual.rows.train.row(row), "{encoding}");
            }
        }
    }
}

#[test]
fn a_list_of_more_lengths_than_values_is_refused_before_it_gets_room() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("table.parquet");
    let lists = [(Encoding::DELTA_LENGTH_BYTE_ARRAY, 1), (Encoding::DELTA_BYTE_ARRAY, 2)];
    for (encoding, lists) in lists {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            write_with(&path, with_lengths(encoding, version));
            let mut bytes = fs::read(&path).unwrap();
            // Blocks of 128 lengths in 4 parts, 3 in all. The first in the file are of cities.
            let mut starts =
                (0..bytes.len() - 4).filter(|&at| bytes[at..at + 4] == [0x80, 1, 4, 3]);
            let last_list = starts.nth(lists - 1).unwrap();
            bytes[last_list + 3] = 100;
            fs::write(&path, bytes).unwrap();
            let opened = open(path.clone(), &[]).map(|_| ());
            let error = opened.expect_err(&format!("{encoding} {version:?}")).to_string();
            let says = "it has texts with unsound lists of lengths";
            assert!(error.contains(says), "{encoding} {version:?}: {error}");
        }
    }
}

/// Writes one column of texts.
fn write_texts(path: &Path, texts: &[ByteArray]) {
    let schema = "message m { REQUIRED BYTE_ARRAY text (UTF8); }";
    let properties = WriterProperties::builder()
        .set_dictionary_page_size_limit(2 << 20)
        .set_statistics_enabled(EnabledStatistics::None);
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let file = File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties.build())).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<ByteArrayType>().write_batch(texts, None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
}

/// The bytes of a file's text.
fn text_bytes(path: &Path) -> std::io::Result<u64> {
    let mut text = paceline_table::open_table_stream(path).unwrap();
    std::io::copy(&mut text, &mut std::io::sink())
}

#[test]
fn one_long_text_for_many_rows_is_refused_and_different_long_texts_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("texts.parquet");
    let long = "x".repeat(1 << 20);
    let texts: Vec<_> =
        (0..150).map(|row| ByteArray::from(format!("{row}{long}").as_str())).collect();
    write_texts(&path, &texts);
    assert!(text_bytes(&path).unwrap() > 150 << 20);
    write_texts(&path, &vec![ByteArray::from(long.as_str()); 1000]);
    assert!(fs::metadata(&path).unwrap().len() < 2 << 20);
    let error = text_bytes(&path).unwrap_err().to_string();
    assert!(error.contains("more than 128 MB of text in 1024 rows"), "{error}");
}

#[test]
fn a_damaged_nested_or_bad_parquet_file_is_refused_with_its_row() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("people.parquet");
    write(&path, Compression::SNAPPY);
    let number = |column: &str| ColumnSpec {
        column: column.into(),
        choice: ColumnChoice::Number(ScaleChoice::Raw),
    };
    let error = open(path.clone(), &[number("city")]).unwrap_err().to_string();
    assert!(error.contains("people.parquet: row 1: column 2 (\"city\")"), "{error}");
    let whole = fs::read(&path).unwrap();
    for len in [4, 20, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..len]).unwrap();
        let error = open(path.clone(), &[]).unwrap_err().to_string();
        assert!(error.contains("not a sound Parquet file"), "cut to {len}: {error}");
    }
    let mut flipped = whole.clone();
    flipped[30] ^= 0xff;
    fs::write(&path, flipped).unwrap();
    // Damage may go unnoticed in a value, but must not end the process.
    let _ = open(path.clone(), &[]);

    let nested = "message m { REQUIRED group a { REQUIRED INT32 b; } REQUIRED INT32 y; }";
    let schema = Arc::new(parse_message_type(nested).unwrap());
    let file = File::create(&path).unwrap();
    SerializedFileWriter::new(file, schema, Default::default()).unwrap().close().unwrap();
    let error = open(path, &[]).unwrap_err().to_string();
    assert!(error.contains("the column \"a\" is nested"), "{error}");
}

/// Numbers of a page's header, in the form that Thrift gives them.
fn thrift(number: u64) -> Vec<u8> {
    thrift_count(number << 1)
}

/// The length of a list, in that form.
fn thrift_count(count: u64) -> Vec<u8> {
    let mut rest = count;
    let mut bytes = Vec::new();
    while rest >= 0x80 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes
}

/// A file with these bytes is refused with an error that says this.
#[track_caller]
fn assert_refused(path: &Path, hostile: &[u8], says: &str) {
    fs::write(path, hostile).unwrap();
    let error = open(path.into(), &[]).unwrap_err().to_string();
    assert!(error.contains(says), "{error}");
}

#[test]
fn a_page_that_claims_much_more_than_it_has_is_refused_before_it_gets_room() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("table.parquet");
    for compression in [Compression::SNAPPY, Compression::LZ4_RAW, Compression::UNCOMPRESSED] {
        write(&path, compression);
        let sound = fs::read(&path).unwrap();
        // The first page is a dictionary of two values: kind, size, packed size, number of values.
        assert!(sound.starts_with(b"PAR1\x15\x04\x15\x20\x15"), "{:?}", &sound[..12]);
        assert_eq!(&sound[10..13], b"\x4c\x15\x04");
        let size = [&sound[..7], &thrift(1 << 30), &sound[8..]].concat();
        let values = [&sound[..12], &thrift(850_000_000), &sound[13..]].concat();
        for (hostile, says) in [
            (size, "pages that would take 1024 MB when they are unpacked"),
            (values, "a dictionary with more values than bytes"),
        ] {
            assert_refused(&path, &hostile, says);
        }
    }
}

/// A field with a list, of whose elements only the number is there.
fn list_of(kind: u8, count: u64) -> Vec<u8> {
    [&[0x09][..], &thrift(99), &[0xf0 | kind], &thrift_count(count)].concat()
}

#[test]
fn lists_of_far_more_elements_than_bytes_are_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("table.parquet");
    write(&path, Compression::SNAPPY);
    let sound = fs::read(&path).unwrap();
    let (rest, end) = sound.split_at(sound.len() - 8);
    let footer_bytes = u32::from_le_bytes(*end.first_chunk().unwrap());
    let (double, flag) = (7, 1);
    for kind in [double, flag] {
        let lists = list_of(kind, 0x7fff_ffff).repeat(100);
        // A header that begins with them.
        let header = [&sound[..4], &lists, &sound[4..]].concat();
        // A footer that ends with them.
        let length = (footer_bytes + lists.len() as u32).to_le_bytes();
        let footer = [&rest[..rest.len() - 1], &lists, &[0], &length, b"PAR1"].concat();
        for (hostile, says) in [(header, "unusual header"), (footer, "unusual footer")] {
            assert_refused(&path, &hostile, says);
        }
    }
}

#[test]
fn a_damaged_file_is_an_error_or_a_table_and_never_a_panic() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows.parquet");
    write(&path, Compression::UNCOMPRESSED);
    let sound = fs::read(&path).unwrap();
    // The pages of the first columns.
    for at in 4..200 {
        for change in [1, 2, 4, 0x80] {
            let mut damaged = sound.clone();
            damaged[at] ^= change;
            fs::write(&path, damaged).unwrap();
            let cache_dir = Some(dir.path().join("cache"));
            let columns = vec![ColumnSpec::label("buys")];
            let spec = TableSpec { cache_dir, columns, ..TableSpec::at(&path) };
            let _ = open_table(&spec, &mut |_: OpenReport<'_>| ControlFlow::Continue(()));
        }
    }
}
