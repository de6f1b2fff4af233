//! Tests of recognising files.

use super::*;

#[test]
fn kinds_are_recognised_by_their_first_bytes() {
    let record = {
        let mut bytes = Vec::new();
        paceline_tfrecord::append_record(&mut bytes, |record| record.push(7));
        bytes
    };
    let criteo = format!("1{}\n", "\t5".repeat(39));
    let cases: [(&[u8], FileKind); 32] = [
        (b"", FileKind::Empty),
        (b"\x93NUMPY\x01\x00v\x00", FileKind::Npy),
        (b"PK\x03\x04\x14", FileKind::Zip),
        (&[b"PK\x03\x04".as_slice(), &[0; 26], b"xl/workbook.xml"].concat(), FileKind::Office),
        (b"BZh91AY&SY\x00\x01", FileKind::Packed),
        (b"\xfd7zXZ\x00\x00\x04", FileKind::Packed),
        (b"\x28\xb5\x2f\xfd\x04", FileKind::Packed),
        (b"PAR1\x15\x04", FileKind::Parquet),
        (&record, FileKind::TfRecord),
        (b"\x00\x00\x08\x03\x00\x00\xea\x60", FileKind::Idx),
        (b"\xff\xd8\xff\xe0", FileKind::Jpeg),
        (b"\x89PNG\r\n\x1a\n\x00", FileKind::Png),
        (b"\xff\xfea\x00,\x00", FileKind::Utf16),
        (b"\x1f\x8b\x08", FileKind::Gzip),
        (b"# a comment\n-1 qid:3 1:0.5 7:1e-3 # more\n+1\n", FileKind::Libsvm),
        (b"1 0:3:1 12:7:0.5\n-1\n0 2:1:1e-3 # more\n", FileKind::Libffm),
        (b"1 0:3:1 12:7\n", FileKind::Text),
        (b"1 0:3:1:4\n", FileKind::Text),
        (criteo.as_bytes(), FileKind::Criteo),
        (b"age,income\n31,20000\n44,", FileKind::Table(b',')),
        (b"\xef\xbb\xbfa;b\n1;2\n", FileKind::Table(b';')),
        (b"a\tb\n1\t2\n", FileKind::Table(b'\t')),
        (b"{\"a\": 1}\n", FileKind::Json),
        (b"[\n  {\"a\": 1},\n", FileKind::Json),
        (b"[{\"a\": 1, \"b\": 2}]", FileKind::Json),
        (b"<!DOCTYPE html>\n<html lang=en>", FileKind::Html),
        (b"hello world\n", FileKind::Text),
        (b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b", FileKind::Binary),
        (b"1 2 3\n4 5 6\n", FileKind::Text),
        (b"a,b\r1,2\r", FileKind::CarriageReturns),
        (b"1 1:2\r0 3:1", FileKind::CarriageReturns),
        (b"a,b\r", FileKind::Table(b',')),
    ];
    for (bytes, kind) in cases {
        assert_eq!(sniff(bytes), kind, "{}", bytes.escape_ascii());
    }
}

#[test]
fn a_known_kind_comes_with_advice() {
    let advice = FileKind::Parquet.advice().unwrap();
    assert_eq!(advice, "it is a Parquet file; set data.kind = \"table\"");
    let advice = FileKind::Table(b',').advice().unwrap();
    assert!(advice.starts_with("it looks like a table with columns separated by commas"));
    assert_eq!(FileKind::Binary.advice(), None);
}

#[test]
fn a_model_whose_header_is_longer_than_what_is_looked_at_is_no_table() {
    let columns = "{\"name\":\"a\",\"as\":\"number\"},".repeat(5_000);
    let header = format!("{{\"__metadata__\":{{\"columns\":[{columns}]}}}}");
    let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
    assert_eq!(sniff(&file[..SNIFF_BYTES]), FileKind::Binary);
}
