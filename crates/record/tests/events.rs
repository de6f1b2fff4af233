//! The bytes of event files, read by this workspace's own reader.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use paceline_record::EventWriter;
use paceline_tfrecord::RecordReader;
use paceline_tfrecord::proto::{ProtoFields, ProtoValue};
use tempfile::TempDir;

/// The event files of a directory, in the order of their names.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    files
}

/// The records of a directory's only file.
fn records(dir: &Path) -> Vec<Vec<u8>> {
    let [file] = files(dir).try_into().unwrap();
    let mut reader = RecordReader::new(File::open(file).unwrap());
    let (mut records, mut record) = (Vec::new(), Vec::new());
    while reader.next(&mut record).unwrap() {
        records.push(record.clone());
    }
    records
}

/// The first value at this path of field numbers.
fn at<'a>(message: &'a [u8], path: &[u32]) -> Option<ProtoValue<'a>> {
    let (first, rest) = path.split_first()?;
    let mut fields = ProtoFields::new(message).map(Result::unwrap);
    let value = fields.find(|(number, _)| number == first)?.1;
    if rest.is_empty() { Some(value) } else { at(value.as_bytes()?, rest) }
}

#[test]
fn a_file_is_named_as_tensorboard_expects_and_says_its_version_at_once() {
    let dir = TempDir::new().unwrap();
    let run = dir.path().join("a/new/directory");
    let writer = EventWriter::create(&run).unwrap();
    let name = files(&run)[0].file_name().unwrap().to_str().unwrap().to_owned();
    let parts = name.strip_prefix("events.out.tfevents.").unwrap();
    let (seconds, rest) = parts.split_once('.').unwrap();
    assert!(seconds.len() == 10 && seconds.parse::<u64>().is_ok(), "{name}");
    assert!(rest.contains(&format!(".{}.", std::process::id())) && rest.ends_with(".v2"), "{name}");
    // The writer is still alive and has not been asked to flush.
    assert_eq!(at(&records(&run)[0], &[3]).unwrap().as_str(), Some("brain.Event:2"));
    drop(writer);
}

#[test]
fn only_the_first_event_of_a_tag_carries_its_metadata() {
    let dir = TempDir::new().unwrap();
    let mut writer = EventWriter::create(dir.path()).unwrap();
    let loss = writer.tag("loss");
    assert_eq!(loss, writer.tag("loss"));
    let rate = writer.tag("rate");
    for step in 0..3 {
        writer.scalar_at(&loss, step, 0.5, 1.0).unwrap();
        writer.scalar_at(&rate, step, 2.0, 1.0).unwrap();
    }
    drop(writer);

    let records = records(dir.path());
    assert_eq!(records.len(), 1 + 6);
    for (i, record) in records[1..].iter().enumerate() {
        let (tag, value) = [("loss", 0.5_f32), ("rate", 2.0)][i % 2];
        assert_eq!(at(record, &[1]).unwrap().as_double(), Some(1.0));
        assert_eq!(at(record, &[2]).unwrap().as_uint64(), Some(i as u64 / 2));
        assert_eq!(at(record, &[5, 1, 1]).unwrap().as_str(), Some(tag));
        assert_eq!(at(record, &[5, 1, 8, 5]).unwrap().as_bytes(), Some(&value.to_le_bytes()[..]));
        let plugin = at(record, &[5, 1, 9, 1, 1]).and_then(ProtoValue::as_str);
        assert_eq!(plugin, (i < 2).then_some("scalars"));
    }
    assert!(records[3].len() < 40, "{} bytes", records[3].len());
}

#[test]
fn events_reach_the_file_in_whole_records_and_without_a_flush() {
    let dir = TempDir::new().unwrap();
    let mut writer = EventWriter::create(dir.path()).unwrap();
    let loss = writer.tag("train/loss");
    let mut seen = 1;
    for step in 0..20_000 {
        writer.scalar(&loss, step, step as f32).unwrap();
        if step % 500 == 0 {
            // `records` would fail on a record cut in two.
            let now = records(dir.path()).len();
            assert!(now >= seen && now as u64 <= step + 2);
            seen = now;
        }
    }
    assert!(seen > 10_000, "a full buffer goes out by itself: {seen}");

    assert!(records(dir.path()).len() < 20_001);
    // An event of a time after the last flush, or before it, takes the others along.
    let later = 4e9;
    writer.scalar_at(&loss, 20_000, 0.0, later).unwrap();
    assert_eq!(records(dir.path()).len(), 20_002);
    writer.scalar_at(&loss, 20_001, 0.0, 1.0).unwrap();
    assert_eq!(records(dir.path()).len(), 20_003);
    writer.session_start(7).unwrap();
    writer.flush().unwrap();
    let records = records(dir.path());
    assert_eq!(at(records.last().unwrap(), &[7, 1]).unwrap().as_uint64(), Some(1));
}

#[test]
fn a_directory_that_cannot_be_is_an_error() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(EventWriter::create(&file).is_err());
}

#[test]
#[should_panic(expected = "the tag belongs to another writer")]
fn a_tag_of_another_writer_is_refused() {
    let dir = TempDir::new().unwrap();
    let mut one = EventWriter::create(dir.path()).unwrap();
    let mut two = EventWriter::create(dir.path()).unwrap();
    let tag = one.tag("loss");
    two.tag("loss");
    let _ = two.scalar(&tag, 0, 0.0);
}
