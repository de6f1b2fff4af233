//! Tables as a program opens them: from files to rows.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

use std::fs;
use std::io::Write;
use std::ops::ControlFlow;

use paceline_data::sparse::{CachedRows, FieldMap};
use paceline_data::{Examples, OnBad, OpenReport};
use paceline_table::{
    CodeChoice, ColumnChoice, ColumnSpec, Featurizer, ScaleChoice, TableSpec, describe_table,
};

mod table_files;

use table_files::{Tables, declare, open, rows};

const PEOPLE: &str = "age,city,buys\n30,Paris,no\n50,Rome,yes\n,Paris,yes\n40,,no\n";

#[test]
fn a_table_becomes_rows_without_being_described() {
    let table = Tables::new().open(PEOPLE).unwrap();
    assert_eq!(table.featurizer.classes(), ["no", "yes"]);
    // age missing, age, city missing, other city, Paris, Rome
    let names: Vec<_> = (0..6).map(|at| table.featurizer.feature_name(at).unwrap()).collect();
    let expected = ["age missing", "age", "city missing", "city=other", "city=Paris", "city=Rome"];
    assert_eq!(names, expected);
    let scaled = 10.0 / (200.0f32 / 3.0).sqrt();
    let found = rows(&table);
    assert_eq!(found[0], (0, vec![1, 4], vec![-scaled, 1.0]));
    assert_eq!(found[1], (1, vec![1, 5], vec![scaled, 1.0]));
    assert_eq!(found[2], (1, vec![0, 4], vec![1.0, 1.0]));
    // The mean is 0, so its key is left out.
    assert_eq!(found[3], (0, vec![2], vec![1.0]));
}

#[test]
fn delimiters_quotes_line_ends_gzip_and_several_files_make_no_difference() {
    let dir = Tables::new();
    let expected = rows(&dir.open(PEOPLE).unwrap());
    let tabs = PEOPLE.replace(',', "\t");
    assert_eq!(rows(&dir.open(tabs).unwrap()), expected);
    let windows = format!("\u{feff}{}", PEOPLE.replace('\n', "\r\n").replace("Paris", "\"Paris\""));
    assert_eq!(rows(&dir.open(windows).unwrap()), expected);
    assert_eq!(rows(&dir.open(PEOPLE.trim_end()).unwrap()), expected);

    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(PEOPLE.as_bytes()).unwrap();
    assert_eq!(rows(&dir.open(packed.finish().unwrap()).unwrap()), expected);

    let (first, second) = PEOPLE.split_at(PEOPLE.find("50,").unwrap());
    dir.write("part-1.csv", first);
    dir.write("part-2.csv", format!("age,city,buys\n{second}"));
    let columns = vec![ColumnSpec::label("buys")];
    let parts = TableSpec { columns, ..dir.spec(&dir.0.path().join("part-*.csv")) };
    assert_eq!(rows(&open(&parts).unwrap()), expected);
}

#[test]
fn columns_without_a_header_have_numbers() {
    let dir = Tables::new();
    let path = dir.write("table.csv", "0,3,x\n1,4,y\n1,5,x\n0,3,y\n");
    let label = ColumnChoice::Label { classes: Vec::new() };
    let raw = ColumnChoice::Number(ScaleChoice::Raw);
    let columns = vec![declare("1", label), declare("2", raw)];
    let table = open(&TableSpec { columns, ..dir.spec(&path) }).unwrap();
    assert_eq!(rows(&table)[1], (1, vec![1, 5], vec![4.0, 1.0]));
    assert_eq!(table.featurizer.label(), Some("1"));
}

#[test]
fn buckets_lists_texts_and_crosses_become_features() {
    let dir = Tables::new();
    let text = "n,tags,words,a,label\n1,x|y,Red car,p,0\n2,y,a red house,q,1\n3,,,p,1\n4,x,,q,0\n";
    let path = dir.write("table.csv", text);
    let words = CodeChoice { min_count: Some(1), bits: None };
    let spec = TableSpec {
        columns: vec![
            declare("n", ColumnChoice::Number(ScaleChoice::Buckets(2))),
            declare("tags", ColumnChoice::List { separator: '|', codes: words }),
            declare("words", ColumnChoice::Text { bits: Some(4), ngrams: 2 }),
            declare("a", ColumnChoice::Category(words)),
        ],
        crosses: vec![vec!["a".into(), "n".into()]],
        bits: 3,
        ..dir.spec(&path)
    };
    let table = open(&spec).unwrap();
    let featurizer = &table.featurizer;
    // n: missing and 2 buckets; tags: missing, other, x, y; words: missing and 16; a: 4; cross: 8.
    assert_eq!(featurizer.features(), 3 + 4 + 17 + 4 + 8);
    let found = rows(&table);
    assert_eq!(found[0].1[..3], [1, 5, 6]);
    assert_eq!(found[2].1[..3], [2, 3, 7]);
    // Fields are the columns with features, then the crosses; the label is none.
    let starts = [0, 3, 7, 24, 28].map(|key| (key, false));
    assert_eq!(featurizer.fields(), FieldMap::new(starts));
    assert!(table.rows.train.row(0).fields.is_empty());
    let with_fields = open(&TableSpec { with_fields: true, ..spec }).unwrap();
    let first = with_fields.rows.train.row(0);
    assert_eq!((&first.keys, first.fields.len()), (&found[0].1, found[0].1.len()));
    assert_eq!(first.fields[..4], [0, 1, 1, 2]);
    assert_eq!(first.fields[first.fields.len() - 2..], [3, 4]);
    // Three features of the text "Red car", of equal length.
    let of_text = |row: usize| {
        let pairs = found[row].1.iter().zip(&found[row].2);
        pairs.filter(|(key, _)| (8..24).contains(*key)).map(|(_, value)| value).sum::<f32>()
    };
    assert!((of_text(0) - 3.0f32.sqrt()).abs() < 1e-6);
    let cross = |row: usize| *found[row].1.last().unwrap();
    assert!((0..4).all(|row| (28..36).contains(&cross(row))));
    assert_ne!(cross(0), cross(1));
}

#[test]
fn numbers_can_have_fields_of_their_own_after_those_of_the_columns() {
    let dir = Tables::new();
    // The last number is missing in every row.
    let text = "a,n,b,m,label\np,1.5,2,,0\nq,3,2,NA,1\np,,4,,1\nq,2,4,,0\n";
    let path = dir.write("table.csv", text);
    let raw = |name: &str| declare(name, ColumnChoice::Number(ScaleChoice::Raw));
    let words = CodeChoice { min_count: Some(1), bits: None };
    let spec = TableSpec {
        columns: vec![
            declare("a", ColumnChoice::Category(words)),
            raw("n"),
            declare("b", ColumnChoice::Number(ScaleChoice::Buckets(2))),
            raw("m"),
        ],
        with_fields: true,
        number_fields: true,
        ..dir.spec(&path)
    };
    let table = open(&spec).unwrap();
    // a: 4 features; n: missing and the number; b: missing and 2 buckets; m: as n.
    let ranges = [(0, false), (4, false), (5, true), (6, false), (9, false), (10, true)];
    let fields = table.featurizer.fields();
    assert_eq!(fields, FieldMap::new(ranges));
    assert_eq!((fields.len(), fields.numbers()), (6, 2));
    let train = &table.rows.train;
    assert_eq!((train.fields(), train.number_fields()), (6, 2), "no row has the last field");
    let row = train.row(0);
    assert_eq!((&row.keys[..], &row.values[..]), (&[2, 5, 7, 9][..], &[1.0, 1.5, 1.0, 1.0][..]));
    assert_eq!(row.fields, [0, 4, 2, 3]);
    let row = train.row(2);
    assert_eq!((&row.keys[..], &row.fields[..]), (&[2, 4, 8, 9][..], &[0, 1, 2, 3][..]));
    // Older programs would mistake the fields; they refuse the version.
    let json = table.featurizer.to_json();
    assert!(json.contains("\"version\":2") && json.contains("\"number_fields\":true"), "{json}");
    assert_eq!(Featurizer::from_json(&json).unwrap(), *table.featurizer);
    let plain = open(&TableSpec { number_fields: false, ..spec }).unwrap();
    assert!(plain.featurizer.to_json().contains("\"version\":1"), "the same as before");
    assert_eq!(plain.rows.train.row(0).fields, [0, 1, 2, 3]);
    assert_eq!(plain.rows.train.number_fields(), 0);
}

#[test]
fn a_featurizer_reads_rows_in_any_order_of_columns_and_survives_its_file() {
    let table = Tables::new().open(PEOPLE).unwrap();
    let read_back = Featurizer::from_json(&table.featurizer.to_json()).unwrap();
    assert_eq!(read_back, *table.featurizer);
    let names = ["city", "more", "age"].map(String::from);
    let encoder = read_back.encoder_without_label(&names).unwrap();
    let mut row = paceline_table::EncodedRow::default();
    encoder.encode_text(b"Rome,x,50", read_back.format, &mut row).unwrap();
    assert_eq!((row.label, &row.keys[..]), (None, &[1, 5][..]));
    let error = read_back.encoder(&names).unwrap_err().to_string();
    assert!(error.contains("there is no column \"buys\""), "{error}");
}

#[test]
fn a_featurizer_that_contradicts_itself_is_refused() {
    let text = Tables::new().open(PEOPLE).unwrap().featurizer.to_json();
    for (from, to, says) in [
        ("\"version\":1", "\"version\":2", "version 2"),
        ("\"kind\":\"table\"", "\"kind\":\"libsvm\"", "libsvm"),
        ("\"mean\":40.0", "\"mean\":1e300", "impossible"),
        ("\"name\":\"city\"", "\"name\":\"age\"", "one name"),
        ("\"crosses\":[]", "\"crosses\":[{\"columns\":[\"x\"],\"bits\":3}]", "\"x\""),
        ("\"crosses\":[]", "\"crosses\":[{\"columns\":[\"age\"],\"bits\":60}]", "60 bits"),
        ("\"as\":\"category\"", "\"as\":\"colour\"", "colour"),
    ] {
        assert!(text.contains(from), "{from}: {text}");
        let error = Featurizer::from_json(&text.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains(says), "{to}: {error}");
    }
}

#[test]
fn a_dense_model_sees_the_same_rows_as_vectors() {
    let table = Tables::new().open(PEOPLE).unwrap();
    let sparse = rows(&table);
    let dense = table.into_dense().unwrap().train;
    assert_eq!((dense.inputs(), dense.classes(), dense.len()), (6, 2, 4));
    let mut vector = [9.0; 6];
    for (index, (label, keys, values)) in sparse.iter().enumerate() {
        assert_eq!(dense.fill(index as u32, 0, &mut vector).unwrap(), *label);
        for (key, value) in (0..).zip(vector) {
            let place = keys.iter().position(|&found| found == key);
            assert_eq!(value, place.map_or(0.0, |place| values[place]));
        }
    }
}

#[test]
fn weights_go_with_their_rows_and_must_be_numbers() {
    let dir = Tables::new();
    let path = dir.write("table.csv", "x,w,y\n1,2.5,0\n2,0,1\n3,1,1\n");
    let columns = vec![declare("w", ColumnChoice::Weight), ColumnSpec::label("y")];
    let table = open(&TableSpec { columns: columns.clone(), ..dir.spec(&path) }).unwrap();
    let weight = |row: usize| table.rows.train.stored_weight(table.rows.train.locate(row));
    assert_eq!((0..3).map(weight).collect::<Vec<_>>(), [Some(2.5), Some(0.0), Some(1.0)]);
    let dense = table.into_dense().unwrap().train;
    assert!(dense.has_weights());
    assert_eq!(dense.weight_of(0), 2.5);
    let path = dir.write("bad.csv", "x,w,y\n1,2.5,0\n2,-1,1\n3,1,1\n");
    let error = open(&TableSpec { columns, ..dir.spec(&path) }).unwrap_err().to_string();
    assert!(error.contains("line 3: column 2 (\"w\"): the weight \"-1\""), "{error}");
}

#[test]
fn a_described_table_is_read_as_the_description_says() {
    let dir = Tables::new();
    let path = dir.write("people.csv", PEOPLE);
    let mut quiet = |_: OpenReport<'_>| ControlFlow::Continue(());
    let text = describe_table(&dir.spec(&path), &mut quiet).unwrap();
    assert!(text.starts_with("[data]\nkind = \"table\"\npath = "), "{text}");
    assert!(text.contains("\nage = \"number\" "), "{text}");
    assert!(text.contains("\ncity = { as = \"category\", min_count = 1 } "), "{text}");
    assert!(text.contains("\nbuys = \"label\" "), "{text}");
    let path = dir.write("people.tsv", PEOPLE.replace(',', "\t"));
    let text = describe_table(&dir.spec(&path), &mut quiet).unwrap();
    assert!(text.contains("\ndelimiter = \"tab\"\n"), "{text}");
}

#[test]
fn every_bad_row_is_named_with_its_line_and_column_or_skipped_and_counted() {
    let good = "age,city,buys\n30,Paris,no\n\n50,Rome,yes\n";
    for (bad, says) in [
        ("1,2", "line 5: 2 fields, but there are 3 columns"),
        ("1,2,yes,no", "line 5: 4 fields, but there are 3 columns"),
        ("\"1,234\",Rome,yes", "line 5: column 1 (\"age\"): \"1,234\" has commas"),
        ("inf,Rome,yes", "line 5: column 1 (\"age\"): \"inf\" is infinite"),
        ("1e39,Rome,yes", "line 5: column 1 (\"age\"): \"1e39\" is infinite"),
        ("old,Rome,yes", "line 5: column 1 (\"age\"): \"old\" is not a number"),
        ("20,Rome,", "line 5: the label is missing"),
    ] {
        let dir = Tables::new();
        let path = dir.write("table.csv", format!("{good}{bad}\n40,Rome,no\n"));
        let age = declare("age", ColumnChoice::Number(ScaleChoice::Standard));
        let spec = TableSpec { columns: vec![age, ColumnSpec::label("buys")], ..dir.spec(&path) };
        let error = open(&spec).unwrap_err().to_string();
        assert!(error.contains("table.csv: ") && error.contains(says), "{bad}: {error}");
        assert!(error.contains("data.on_bad = \"skip\""), "{error}");
        let table = open(&TableSpec { on_bad: OnBad::Skip, ..spec }).unwrap();
        assert_eq!((table.rows.train.len(), table.rows.train.skipped()), (3, 1), "{bad}");
    }
}

#[test]
fn numbers_that_are_not_there_are_missing() {
    let missing = ["", "NaN", "nan", "NA", "n/a", "null", "None", "?", " ", "\\N"];
    let text: String = missing.iter().map(|field| format!("{field},no\n")).collect();
    let table = Tables::new().open(format!("age,buys\n1,yes\n3,no\n{text}")).unwrap();
    let found = rows(&table);
    assert!(found[2..].iter().all(|row| row.1 == [0] && row.2 == [1.0]), "{found:?}");
    assert_eq!(found[0].2, [-1.0]);
}

#[test]
fn an_unseen_label_is_a_bad_row() {
    let dir = Tables::new();
    let path = dir.write("train.csv", "x,y\n1,0\n2,1\n");
    let test = dir.write("test.csv", "x,y\n1,0\n2,7\n");
    let spec = TableSpec { test_path: Some(test), ..dir.spec(&path) };
    let error = open(&spec).unwrap_err().to_string();
    assert!(error.contains("test.csv: line 3: column 2 (\"y\"): the label \"7\""), "{error}");
    assert!(error.contains("classes"), "{error}");
    let table = open(&TableSpec { on_bad: OnBad::Skip, ..spec }).unwrap();
    assert_eq!(table.rows.test.len(), 1);
}

#[test]
fn a_description_that_cannot_be_used_is_refused() {
    let text = r#"{"version":1,"kind":"table","crosses":[],
        "format":{"delimiter":",","quotes":true,"header":true},
        "columns":[{"name":"t","as":"text","bits":4,"ngrams":2}]}"#;
    assert!(Featurizer::from_json(text).is_ok());
    let endless = text.replace("\"ngrams\":2", "\"ngrams\":4000000000");
    let error = Featurizer::from_json(&endless).unwrap_err().to_string();
    assert!(error.contains("the column \"t\" is impossible"), "{error}");
}

#[test]
fn what_is_no_table_is_refused_with_a_remedy() {
    let utf16: Vec<u8> = PEOPLE.bytes().flat_map(|byte| [byte, 0]).collect();
    let long = format!("{PEOPLE}{},x,yes\n", "9".repeat(3 << 20));
    let open_quote = format!("{PEOPLE}40,\"Rome,no\n{}", "1,x,no\n".repeat(300_000));
    for (content, says) in [
        (Vec::new(), "empty"),
        (utf16, "convert it first: iconv"),
        (b"+1 3:1 7:1\n-1 2:1\n".to_vec(), "looks like LIBSVM text; set data.kind = \"libsvm\""),
        (b"PARE....".to_vec(), "encrypted Parquet"),
        (b"PAR1 cut short".to_vec(), "Parquet file"),
        (b"\x93NUMPY\x01\x00".to_vec(), "numpy"),
        (long.into_bytes(), "line 6: longer than 1048576 bytes"),
        (open_quote.into_bytes(), "line 6: a quote is opened and not closed"),
        (b"a,y\n1,0\n2,1\n\"open,1\n".to_vec(), "line 4: a quote is opened and not closed"),
        (b"age,buys\n\r\n".to_vec(), "there are no rows below the names of the columns"),
        (b"city,buys\ncaf\xe9,no\nbar,yes\n".to_vec(), "iconv -f WINDOWS-1252 -t UTF-8"),
        (b"age,buys\r1,no\r2,yes\r".to_vec(), "carriage returns alone"),
        (b"a,a,buys\n1,2,no\n2,3,yes\n".to_vec(), "two columns are named \"a\"; rename one"),
        (b"a,y\n1,0\n2,1\n3,1\n4,NaN\n".to_vec(), "line 5: the label is missing"),
        (b"age,buys\n,no\n,yes\n".to_vec(), "no column is used for training"),
        (b"age,buys\n1,no\n2,no\n3,no\n".to_vec(), "no column is the label"),
        (b"age,buys\n1,no\n2,yes\ninf,no\n".to_vec(), "line 4: column 1 (\"age\")"),
    ] {
        let error = Tables::new().open(&content).unwrap_err().to_string();
        let shown = String::from_utf8_lossy(&content[..content.len().min(40)]).into_owned();
        assert!(error.contains(says), "{shown}: {error}");
    }
}

#[test]
fn a_column_that_is_declared_and_has_no_value_is_refused() {
    let dir = Tables::new();
    let path = dir.write("table.csv", "a,b,y\n1,,0\n2,,1\n");
    let columns = vec![declare("b", ColumnChoice::Number(ScaleChoice::Standard))];
    let error = open(&TableSpec { columns, ..dir.spec(&path) }).unwrap_err().to_string();
    assert!(error.contains("\"b\" has no value in any row; declare it \"ignore\""), "{error}");
}

#[test]
fn a_very_wide_table_has_the_header_of_a_narrow_one() {
    let dir = Tables::new();
    let names: Vec<String> = (0..50_000).map(|column| format!("c{column}")).collect();
    let row = |value: &str, label: &str| format!("{}{label}\n", format!("{value},").repeat(50_000));
    let text = format!("{},y\n{}{}", names.join(","), row("1", "0"), row("2", "1"));
    let table = dir.open(text).unwrap();
    assert_eq!(table.featurizer.columns[49_999].name, "c49999");
    assert_eq!(table.featurizer.label(), Some("y"));
}

#[test]
fn columns_of_one_name_are_refused() {
    let dir = Tables::new();
    let path = dir.write("table.csv", "a,a,y\n1,2,0\n3,4,1\n");
    let mut spec = dir.spec(&path);
    spec.format.header = Some(true);
    let error = open(&spec).unwrap_err().to_string();
    assert!(error.contains("two columns are named \"a\"; rename one"), "{error}");
}

#[test]
fn a_column_that_is_not_there_is_named_with_a_likely_one() {
    let dir = Tables::new();
    let path = dir.write("table.csv", PEOPLE);
    let columns = vec![declare("cty", ColumnChoice::Ignore)];
    let error = open(&TableSpec { columns, ..dir.spec(&path) }).unwrap_err().to_string();
    assert!(error.contains("table.csv: there is no column \"cty\"; did you mean"), "{error}");
    let path = dir.write("quote.csv", "a,label\n\"1,x\n3,y\n");
    let error = open(&dir.spec(&path)).unwrap_err().to_string();
    assert!(error.contains("quote.csv: line 2: a quote is opened and not closed"), "{error}");
    let path = dir.write("one.csv", "a,label\n1,x\n3,x\n");
    let error = open(&dir.spec(&path)).unwrap_err().to_string();
    assert!(error.contains("one.csv: every label in the column \"label\" is \"x\""), "{error}");
}

#[test]
fn a_packed_line_without_end_takes_little_memory_and_ends() {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(PEOPLE.as_bytes()).unwrap();
    let zeros = vec![b'0'; 1 << 20];
    (0..256).for_each(|_| packed.write_all(&zeros).unwrap());
    let bomb = packed.finish().unwrap();
    let dir = Tables::new();
    let path = dir.write("table.csv.gz", bomb);
    let error = open(&dir.spec(&path)).unwrap_err().to_string();
    assert!(error.contains("line 6: longer than"), "{error}");
    let table = open(&TableSpec { on_bad: OnBad::Skip, ..dir.spec(&path) }).unwrap();
    assert_eq!((table.rows.train.len(), table.rows.train.skipped()), (4, 1));
}

#[test]
fn large_tables_are_read_in_order_on_all_cores() {
    let rows_written = 200_000u32;
    let text: String =
        (0..rows_written).map(|row| format!("{row},\"c{}\",{}\n", row % 7, row % 2)).collect();
    let dir = Tables::new();
    let path = dir.write("table.csv", format!("n,c,y\n{text}"));
    let raw = declare("n", ColumnChoice::Number(ScaleChoice::Raw));
    let table = open(&TableSpec { columns: vec![raw], ..dir.spec(&path) }).unwrap();
    let train = &table.rows.train;
    assert_eq!(train.len() as u32, rows_written);
    for row in (1..rows_written).step_by(997) {
        let found = train.row(row as usize);
        assert_eq!((found.value(0), found.label), (row as f32, row % 2));
        assert_eq!(found.keys, [1, 4 + row % 7]);
    }
}

#[test]
fn cached_rows_are_removed_with_their_featurizer() {
    let dir = Tables::new();
    dir.open(PEOPLE).unwrap();
    let cache = dir.0.path().join("cache");
    let cached = CachedRows::list(&cache).unwrap();
    assert_eq!(cached.len(), 1);
    cached[0].remove().unwrap();
    assert_eq!(fs::read_dir(&cache).unwrap().count(), 0);
}

#[test]
fn the_featurizer_of_an_earlier_run_is_used_again_until_the_file_changes() {
    let dir = Tables::new();
    let first = dir.open(PEOPLE).unwrap();
    let again = open(&dir.spec(&dir.0.path().join("table.csv"))).unwrap();
    assert_eq!(first.featurizer, again.featurizer);
    let more = dir.open(format!("{PEOPLE}60,Oslo,yes\n")).unwrap();
    assert_ne!(first.featurizer, more.featurizer);
    assert_eq!(more.rows.train.len(), 5);
}

#[test]
fn a_label_with_a_value_for_each_row_is_no_class() {
    let rows = |count: u32, label: fn(u32) -> f64| {
        let row = |i: u32| format!("{},{:.2}\n", i % 7, label(i));
        Tables::new().open("size,label\n".to_owned() + &(0..count).map(row).collect::<String>())
    };
    let error = rows(100, |i| f64::from(i) * 1.37).unwrap_err().to_string();
    assert!(error.contains("\"label\" has 100 different values in 100 rows"), "{error}");
    assert_eq!(rows(100, |i| f64::from(i % 50)).unwrap().featurizer.classes().len(), 50);
    assert_eq!(rows(20, f64::from).unwrap().featurizer.classes().len(), 20);
}
