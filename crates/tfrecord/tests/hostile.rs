//! The readers survive every cut, every flipped bit and random bytes.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

use paceline_tfrecord::proto::{self, ProtoFields, ProtoValue, ProtoWriter};
use paceline_tfrecord::{
    RecordErrorKind, RecordReader, append_record, crc, split_record, write_record,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// All records of `file`, or those before the first error and the error's kind.
fn read_all(file: &[u8], max_len: u64) -> (Vec<Vec<u8>>, Option<RecordErrorKind>) {
    let mut reader = RecordReader::with_max_len(file, max_len);
    let (mut records, mut record) = (Vec::new(), Vec::new());
    loop {
        match reader.next(&mut record) {
            Ok(true) => records.push(record.clone()),
            Ok(false) => return (records, None),
            Err(error) => {
                assert_eq!(error.record, records.len() as u64);
                let before: usize = records.iter().map(|r| r.len() + 16).sum();
                assert_eq!(error.offset, before as u64);
                assert!(error.to_string().starts_with(&format!("record {}", error.record)));
                return (records, Some(error.kind));
            }
        }
    }
}

fn file_of(records: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for record in records {
        write_record(&mut file, record).unwrap();
    }
    file
}

#[test]
fn a_record_is_laid_out_as_tensorflow_does() {
    // The first record of an event file that TensorFlow wrote begins with these bytes: a
    // length of 24 and its checksum.
    let mut file = Vec::new();
    append_record(&mut file, |out| out.extend_from_slice(&[7; 24]));
    assert_eq!(file[..12], [24, 0, 0, 0, 0, 0, 0, 0, 0xa3, 0x7f, 0x4b, 0x22]);
    assert_eq!(file.len(), 12 + 24 + 4);
}

#[test]
fn an_absurd_length_is_refused_without_the_memory() {
    for len in [1 << 40, u64::MAX] {
        let mut file = len.to_le_bytes().to_vec();
        file.extend_from_slice(&crc::masked(&len.to_le_bytes()).to_le_bytes());
        file.extend_from_slice(b"short");
        let (_, kind) = read_all(&file, 1 << 30);
        assert!(matches!(kind, Some(RecordErrorKind::TooLong { .. })), "{kind:?}");
        // Even a reader without a limit takes memory only for bytes that arrive.
        let mut record = Vec::new();
        let error = RecordReader::with_max_len(&file[..], u64::MAX).next(&mut record).unwrap_err();
        assert!(matches!(error.kind, RecordErrorKind::Truncated { got: 5, .. }), "{error}");
        assert!(record.capacity() < 1 << 16);
    }
}

#[test]
fn every_cut_is_an_error_except_between_records() {
    let records = vec![b"first".to_vec(), Vec::new(), vec![9; 40]];
    let file = file_of(&records);
    let ends = [0, 21, 37, 93];
    for cut in 0..=file.len() {
        let (read, kind) = read_all(&file[..cut], 1000);
        let whole = ends.iter().filter(|&&end| end <= cut).count() - 1;
        assert_eq!(read, records[..whole], "cut at {cut}");
        assert_eq!(kind.is_none(), ends.contains(&cut), "cut at {cut}: {kind:?}");
    }
}

#[test]
fn every_flipped_bit_is_noticed() {
    let file = file_of(&[b"some data of a record".to_vec()]);
    for bit in 0..file.len() * 8 {
        let mut damaged = file.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let (read, kind) = read_all(&damaged, 1000);
        assert!(read.is_empty() && kind.is_some(), "bit {bit}");
    }
}

#[test]
fn a_varint_of_more_than_64_bits_is_an_error() {
    let mut bytes = vec![0x08];
    bytes.extend([0xff; 9]);
    let last = bytes.len();
    bytes.push(0x01);
    assert_eq!(ProtoFields::new(&bytes).next(), Some(Ok((1, ProtoValue::Varint(u64::MAX)))));
    bytes[last] = 0x02;
    assert_eq!(ProtoFields::new(&bytes).next(), Some(Err(proto::ProtoError::Varint)));
}

/// A generated field of any kind.
#[derive(Clone, Debug)]
enum TestField {
    Int(i64),
    Float(f32),
    Double(f64),
    Bytes(Vec<u8>),
    Floats(Vec<f32>),
    Doubles(Vec<f64>),
    Ints(Vec<i64>),
    Nested(Vec<i64>),
}

fn any_field() -> impl Strategy<Value = TestField> {
    prop_oneof![
        any::<i64>().prop_map(TestField::Int),
        any::<f32>().prop_map(TestField::Float),
        any::<f64>().prop_map(TestField::Double),
        vec(any::<u8>(), 0..300).prop_map(TestField::Bytes),
        vec(any::<f32>(), 0..50).prop_map(TestField::Floats),
        vec(any::<f64>(), 0..50).prop_map(TestField::Doubles),
        vec(any::<i64>(), 0..50).prop_map(TestField::Ints),
        vec(any::<i64>(), 0..50).prop_map(TestField::Nested),
    ]
}

fn write(w: &mut ProtoWriter<'_>, field: u32, value: &TestField) {
    match value {
        TestField::Int(v) => w.int64(field, *v),
        TestField::Float(v) => w.float(field, *v),
        TestField::Double(v) => w.double(field, *v),
        TestField::Bytes(v) => w.bytes(field, v),
        TestField::Floats(v) => w.packed_floats(field, v),
        TestField::Doubles(v) => w.packed_doubles(field, v),
        TestField::Ints(v) => w.packed_uint64s(field, v.iter().map(|&v| v as u64)),
        TestField::Nested(v) => w.message(field, |m| v.iter().for_each(|&v| m.int64(1, v))),
    }
}

/// Whether the field that was read is the one that was written, to the bit.
fn same(made: &TestField, read: ProtoValue<'_>) -> bool {
    let bytes = || read.as_bytes().unwrap();
    match made {
        TestField::Int(v) => read.as_uint64() == Some(*v as u64),
        TestField::Float(v) => read.as_float().unwrap().to_bits() == v.to_bits(),
        TestField::Double(v) => read.as_double().unwrap().to_bits() == v.to_bits(),
        TestField::Bytes(v) => bytes() == v,
        TestField::Floats(v) => proto::packed_floats(bytes())
            .unwrap()
            .map(f32::to_bits)
            .eq(v.iter().map(|v| v.to_bits())),
        TestField::Doubles(v) => bytes().chunks(8).eq(v.iter().map(|v| v.to_le_bytes())),
        TestField::Ints(v) => {
            let mut rest = bytes();
            v.iter().all(|&v| proto::take_varint(&mut rest) == Ok(v as u64)) && rest.is_empty()
        }
        TestField::Nested(v) => ProtoFields::new(bytes())
            .map(|f| f.unwrap().1.as_uint64().unwrap())
            .eq(v.iter().map(|&v| v as u64)),
    }
}

proptest! {
    #[test]
    fn records_come_back(records in vec(vec(any::<u8>(), 0..200), 0..10)) {
        let file = file_of(&records);
        let (read, error) = read_all(&file, 200);
        prop_assert!(error.is_none());
        prop_assert_eq!(&read, &records);
        let mut rest = &file[..];
        for record in &records {
            let first = split_record(rest, 200).unwrap().unwrap();
            prop_assert_eq!(first.data, Some(&record[..]));
            let len = rest.len() - first.rest.len();
            for cut in 0..len {
                prop_assert_eq!(split_record(&rest[..cut], 200).unwrap(), None);
            }
            rest = first.rest;
        }
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn noise_is_never_a_record(noise in vec(any::<u8>(), 1..200)) {
        let (read, error) = read_all(&noise, 1 << 20);
        prop_assert!(read.is_empty() && error.is_some());
        prop_assert!(!matches!(split_record(&noise, 1 << 20), Ok(Some(_))));
    }

    #[test]
    fn fields_come_back_and_every_cut_is_survived(
        fields in vec((1_u32..1 << 29, any_field()), 0..6)
    ) {
        let mut bytes = Vec::new();
        let mut writer = ProtoWriter::new(&mut bytes);
        for (field, value) in &fields {
            write(&mut writer, *field, value);
        }
        let read: Vec<_> = ProtoFields::new(&bytes).map(Result::unwrap).collect();
        prop_assert_eq!(read.len(), fields.len());
        for ((field, made), (number, read)) in fields.iter().zip(read) {
            prop_assert!(*field == number && same(made, read), "{made:?} became {read:?}");
        }
        for cut in 0..bytes.len() {
            for _ in ProtoFields::new(&bytes[..cut]) {}
        }
    }

    #[test]
    fn noise_as_a_message_ends(noise in vec(any::<u8>(), 0..200)) {
        // Each step consumes at least one byte or ends the iteration.
        prop_assert!(ProtoFields::new(&noise).count() <= noise.len());
        let _ = proto::packed_floats(&noise).map(Iterator::count);
        let _ = proto::take_varint(&mut &noise[..]);
    }
}
