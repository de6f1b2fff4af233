//! Reads TensorBoard event files, also while they grow.
//!
//! A file ends in the middle of a record if its process was killed, or has not written the rest
//! yet. The reader returns the records before that point and continues there at the next call.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use paceline_tfrecord::proto::{ProtoFields, packed_floats};
use paceline_tfrecord::split_record;

use crate::regular_file::open_regular;

/// No scalar has a longer record.
const MAX_RECORD_BYTES: u64 = 16 << 20;
/// Bytes read at a time. A longer record is read with a second, larger read.
const BLOCK_BYTES: u64 = 4 << 20;

/// `SessionLog.START` of TensorFlow's `event.proto`.
const SESSION_START: u64 = 1;

/// An event that this crate uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FileEvent<'a> {
    /// A value of a tag.
    Scalar { tag: &'a str, point: ScalarPoint },
    /// Training restarts at this step: earlier events of this and later steps are void.
    SessionStart { step: u64 },
}

/// Reads an event file from where it stopped before.
#[derive(Debug)]
pub(crate) struct EventFileReader {
    path: PathBuf,
    offset: u64,
    /// Whether the file is corrupt at the offset.
    is_corrupt: bool,
    bytes: Vec<u8>,
}

impl EventFileReader {
    /// Creates a reader that starts at the beginning of the file.
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), offset: 0, is_corrupt: false, bytes: Vec::new() }
    }

    /// Passes on the complete events that were added since the last call, and stops after about
    /// `max_bytes`.
    pub(crate) fn read_new(&mut self, max_bytes: u64, mut on_event: impl FnMut(FileEvent<'_>)) {
        let until = self.offset.saturating_add(max_bytes);
        while !self.is_corrupt && self.offset < until {
            if !matches!(self.read_block(&mut on_event), Ok(true)) {
                return;
            }
        }
    }

    /// Reads a block of the file; returns whether it held a complete record.
    fn read_block(&mut self, on_event: &mut impl FnMut(FileEvent<'_>)) -> io::Result<bool> {
        let mut file = open_regular(&self.path)?;
        let file_bytes = file.metadata()?.len();
        if file_bytes <= self.offset {
            return Ok(false);
        }
        file.seek(SeekFrom::Start(self.offset))?;
        let mut block_bytes = BLOCK_BYTES;
        loop {
            self.bytes.clear();
            file.by_ref().take(block_bytes).read_to_end(&mut self.bytes)?;
            let taken = self.take_records(on_event);
            if taken > 0 || self.is_corrupt {
                self.offset += taken;
                // Keep a buffer of the usual size for the next call.
                self.bytes.shrink_to(BLOCK_BYTES as usize);
                return Ok(taken > 0);
            }
            if block_bytes > MAX_RECORD_BYTES || self.offset + block_bytes >= file_bytes {
                return Ok(false);
            }
            block_bytes = 2 * MAX_RECORD_BYTES;
            file.seek(SeekFrom::Start(self.offset))?;
        }
    }

    /// Passes on the events of the buffer; returns how many bytes were complete records.
    fn take_records(&mut self, on_event: &mut impl FnMut(FileEvent<'_>)) -> u64 {
        let mut rest = &self.bytes[..];
        loop {
            match split_record(rest, MAX_RECORD_BYTES) {
                Ok(Some(split)) => {
                    rest = split.rest;
                    split.data.and_then(parse_event).into_iter().for_each(&mut *on_event);
                }
                Ok(None) => break,
                Err(_) => {
                    self.is_corrupt = true;
                    break;
                }
            }
        }
        (self.bytes.len() - rest.len()) as u64
    }
}

/// One value of a scalar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ScalarPoint {
    /// When it was recorded, in seconds since 1970.
    pub(crate) wall_seconds: f64,
    pub(crate) step: u64,
    pub(crate) value: f32,
}

/// Scalars of some tags of a file.
#[derive(Debug, Default)]
pub(crate) struct Scalars {
    /// When the first scalar of any tag was recorded, in seconds since 1970.
    pub(crate) start_seconds: Option<f64>,
    pub(crate) points: BTreeMap<String, Vec<ScalarPoint>>,
}

/// Reads the scalars whose tags are wanted, up to the first corrupt record.
pub(crate) fn read_scalars(path: &Path, is_wanted: impl Fn(&str) -> bool) -> Scalars {
    let mut scalars = Scalars::default();
    EventFileReader::new(path).read_new(u64::MAX, |event| {
        let FileEvent::Scalar { tag, point } = event else { return };
        scalars.start_seconds.get_or_insert(point.wall_seconds);
        if is_wanted(tag) {
            match scalars.points.get_mut(tag) {
                Some(points) => points.push(point),
                None => drop(scalars.points.insert(tag.to_owned(), vec![point])),
            }
        }
    });
    scalars
}

/// Parses an event; returns none if this crate does not use it. The numbers are the field numbers
/// of TensorFlow's `Event`, `SessionLog`, `Summary` and `TensorProto`.
fn parse_event(event: &[u8]) -> Option<FileEvent<'_>> {
    let (mut wall_seconds, mut step, mut summary) = (0.0, 0, None);
    let mut is_start = false;
    for field in ProtoFields::new(event) {
        match field.ok()? {
            (1, value) => wall_seconds = value.as_double()?,
            (2, value) => step = value.as_uint64()?,
            (5, value) => summary = value.as_bytes(),
            (7, value) => {
                let mut log = ProtoFields::new(value.as_bytes()?);
                is_start = log.any(|field| {
                    field.is_ok_and(|(number, value)| {
                        number == 1 && value.as_uint64() == Some(SESSION_START)
                    })
                });
            }
            _ => {}
        }
    }
    if is_start {
        return Some(FileEvent::SessionStart { step });
    }
    let (_, value) = ProtoFields::new(summary?).next()?.ok()?;
    let (mut tag, mut number) = ("", None);
    for field in ProtoFields::new(value.as_bytes()?) {
        match field.ok()? {
            (1, value) => tag = value.as_str()?,
            (2, value) => number = value.as_float(),
            (8, value) => number = single_float(value.as_bytes()?),
            _ => {}
        }
    }
    Some(FileEvent::Scalar { tag, point: ScalarPoint { wall_seconds, step, value: number? } })
}

/// The value of a tensor that holds one float.
fn single_float(bytes: &[u8]) -> Option<f32> {
    let floats = ProtoFields::new(bytes).find_map(|field| match field {
        Ok((5, value)) => value.as_bytes(),
        _ => None,
    });
    let mut floats = packed_floats(floats?).ok()?;
    let first = floats.next();
    first.filter(|_| floats.next().is_none())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::fs::OpenOptions;

    use paceline_record::EventWriter;

    use super::*;

    /// An event file with a loss at every step and an accuracy at every tenth.
    fn write(dir: &Path) -> std::path::PathBuf {
        let mut writer = EventWriter::create(dir).unwrap();
        let [loss, accuracy] = ["train/loss", "test/accuracy"].map(|name| writer.tag(name));
        for step in 0..30 {
            writer.scalar(&loss, step, 1.0).unwrap();
            if step % 10 == 0 {
                writer.scalar(&accuracy, step, step as f32 / 100.0).unwrap();
            }
        }
        writer.flush().unwrap();
        fs::read_dir(dir).unwrap().next().unwrap().unwrap().path()
    }

    #[test]
    fn scalars_are_read_as_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        let scalars = read_scalars(&write(dir.path()), |tag| tag.starts_with("test/"));
        let points = &scalars.points["test/accuracy"];
        let seen: Vec<_> = points.iter().map(|point| (point.step, point.value)).collect();
        assert_eq!(seen, [(0, 0.0), (10, 0.1), (20, 0.2)]);
        assert!(!scalars.points.contains_key("train/loss"));
        assert!(scalars.start_seconds.unwrap() <= points[0].wall_seconds);
    }

    /// The reader waits for the rest of a record and reads no record twice.
    #[test]
    fn a_file_that_grows_byte_by_byte_is_read_record_by_record() {
        let dir = tempfile::tempdir().unwrap();
        let whole = fs::read(write(dir.path())).unwrap();
        let growing = dir.path().join("growing");
        let mut reader = EventFileReader::new(&growing);
        let mut steps = Vec::new();
        reader.read_new(u64::MAX, |_| panic!("the file does not exist yet"));
        for len in (0..whole.len()).step_by(7).chain([whole.len()]) {
            fs::write(&growing, &whole[..len]).unwrap();
            reader.read_new(u64::MAX, |event| {
                if let FileEvent::Scalar { tag: "train/loss", point } = event {
                    steps.push(point.step);
                }
            });
        }
        assert_eq!(steps, (0..30).collect::<Vec<_>>());
    }

    #[test]
    fn the_start_of_a_session_is_an_event() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = EventWriter::create(dir.path()).unwrap();
        writer.session_start(40).unwrap();
        writer.flush().unwrap();
        let path = fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
        let mut starts = Vec::new();
        EventFileReader::new(&path).read_new(u64::MAX, |event| match event {
            FileEvent::SessionStart { step } => starts.push(step),
            FileEvent::Scalar { .. } => {}
        });
        assert_eq!(starts, [40, 40]);
    }

    #[test]
    fn records_before_a_truncation_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = write(dir.path());
        let whole = fs::metadata(&path).unwrap().len();
        for cut in [whole - 1, whole / 2, 20, 3, 0] {
            OpenOptions::new().write(true).open(&path).unwrap().set_len(cut).unwrap();
            let count = read_scalars(&path, |_| true).points.values().map(Vec::len).sum::<usize>();
            assert!(count < 33, "{cut}: {count}");
        }
        assert!(read_scalars(&dir.path().join("none"), |_| true).points.is_empty());
    }
}
