//! Tables in Parquet files, and what a model's file says about the columns of a table.

use std::panic;
use std::path::Path;
use std::sync::{Arc, Once};

use paceline_data::ignore_reports;
use paceline_table::{ColumnSpec, EncodedRow, Featurizer, TableSpec, open_table, table_featurizer};
use parquet::basic::Compression;
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FloatType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use crate::scratch::{scratch_dir, scratch_file, written};

/// The longest list of names that a row is encoded for.
const MOST_COLUMNS: usize = 100;

const SCHEMA: &str = "message people {
    OPTIONAL DOUBLE age;
    REQUIRED BYTE_ARRAY city (UTF8);
    REQUIRED INT32 price (DECIMAL(9, 2));
    REQUIRED INT64 count;
    REQUIRED FLOAT rate;
    REQUIRED BOOLEAN buys;
}";

fn spec(path: &Path) -> TableSpec {
    let cache_dir = Some(scratch_dir().join("cache"));
    TableSpec { cache_dir, columns: vec![ColumnSpec::label("buys")], ..TableSpec::at(path) }
}

/// A Parquet file.
pub(crate) fn parquet(bytes: &[u8]) {
    hide_library_panics();
    let path = scratch_file("table.parquet", bytes);
    let _ = open_table(&spec(&path), &mut ignore_reports());
}

/// Keeps panics of the library, which the reader makes errors, from filling the terminal and from
/// ending libFuzzer.
fn hide_library_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |about| {
            let file = about.location().map_or("", |location| location.file());
            if !file.contains("/parquet-") {
                before(about);
            }
        }));
    });
}

/// Files of two groups of rows, packed in each way.
pub(crate) fn parquet_seeds() -> Vec<Vec<u8>> {
    let packed = [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::LZ4_RAW];
    let file = |compression| {
        written("seed.parquet", |path| write(path, compression).expect("a Parquet file"))
    };
    let mut seeds: Vec<_> = packed.into_iter().map(file).collect();
    seeds.push(file(Compression::GZIP(Default::default())));
    seeds.push(file(Compression::ZSTD(Default::default())));
    seeds
}

fn write(path: &Path, compression: Compression) -> Result<(), ParquetError> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
    let mut writer = SerializedFileWriter::new(std::fs::File::create(path)?, schema, properties)?;
    for _ in 0..2 {
        let mut group = writer.next_row_group()?;
        let cities = ["Paris", "Split, \"HR\"\nnew", "Paris"].map(ByteArray::from);
        put::<DoubleType>(&mut group, &[39.5, 50.0], Some(&[1, 0, 1]))?;
        put::<ByteArrayType>(&mut group, &cities, None)?;
        put::<Int32Type>(&mut group, &[1250, -5, 7], None)?;
        put::<Int64Type>(&mut group, &[1 << 40, -3, 0], None)?;
        put::<FloatType>(&mut group, &[0.1, 1e-9, 3.0], None)?;
        put::<BoolType>(&mut group, &[true, false, true], None)?;
        group.close()?;
    }
    writer.close().map(drop)
}

fn put<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, std::fs::File>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("a column is missing".into());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}

/// A featuriser, of a model's file or a cache, and a row that it encodes.
pub(crate) fn featurizer(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(featurizer) = Featurizer::from_json(&text) else { return };
    let features = featurizer.features();
    let _ = (featurizer.fields(), featurizer.feature_name(0), featurizer.feature_name(features));
    let columns = featurizer.columns.iter().take(MOST_COLUMNS);
    let names: Vec<String> = columns.map(|column| column.name.clone()).collect();
    let Ok(encoder) = featurizer.encoder_without_label(&names) else { return };
    let mut row = EncodedRow::default();
    for text in ["1,2.5,red,1e30,-7", ",,,,", "x y z,\"a;b\",nan,inf,0", "3,3,3,3,3"] {
        if encoder.encode_text(text.as_bytes(), featurizer.format, &mut row).is_ok() {
            let is_known = |&key: &u32| (key as usize) < features;
            assert!(row.keys.iter().all(is_known), "a key beyond the features");
        }
    }
}

pub(crate) fn featurizer_seeds() -> Vec<Vec<u8>> {
    let rows = "yes,20,Paris,\"a few words\",3\nno,30,Rome,more words,5\n\
                yes,,Paris,words,1\nno,1e3,Oslo,,2\n";
    let text = format!("buys,age,city,text,count\n{}", rows.repeat(5));
    let path = scratch_file("people.csv", text.as_bytes());
    let crosses = vec![vec!["city".into(), "age".into()]];
    let specs = [spec(&path), TableSpec { crosses, number_fields: true, ..spec(&path) }];
    let learn = |spec| table_featurizer(spec, &mut ignore_reports()).expect("a sound table");
    specs.iter().map(|spec| learn(spec).to_json().into_bytes()).collect()
}
