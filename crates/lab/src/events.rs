//! TensorBoard event files: read to their end, and again when there is more.
//!
//! A file that ends in the middle of a record is what a killed process leaves, or one that is
//! still at work: what stands before the break is good, and what comes after it is waited for.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use paceline_tfrecord::proto::{ProtoFields, packed_floats};
use paceline_tfrecord::split_record;

/// A record longer than this is no scalar, and none of ours.
const MAX_RECORD_BYTES: u64 = 16 << 20;
/// How much is read at a time. A longer record is read by itself.
const PIECE_BYTES: u64 = 4 << 20;

/// `SessionLog.START`.
const SESSION_START: u64 = 1;

/// Something that an event file says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FileEvent<'a> {
    /// A scalar of this tag.
    Scalar(&'a str, ScalarPoint),
    /// Training goes on from this step: what was said of it and later ones is void.
    Start(u64),
}

/// An event file, and how far it has been read.
#[derive(Debug)]
pub(crate) struct EventFileReader {
    path: PathBuf,
    offset: u64,
    /// It cannot be read beyond the offset.
    is_broken: bool,
    bytes: Vec<u8>,
}

impl EventFileReader {
    /// A file that is to be read from its beginning.
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), offset: 0, is_broken: false, bytes: Vec::new() }
    }

    /// Hands over each event that has been written whole since the last call, of this many bytes
    /// or a little more; says whether there is more to read.
    pub(crate) fn read(&mut self, most_bytes: u64, mut each: impl FnMut(FileEvent<'_>)) -> bool {
        let until = self.offset.saturating_add(most_bytes);
        while !self.is_broken && self.offset < until {
            match self.read_piece(&mut each) {
                Ok(true) => {}
                Ok(false) | Err(_) => return false,
            }
        }
        !self.is_broken
    }

    /// Reads a piece of the file; says whether it held a whole record.
    fn read_piece(&mut self, each: &mut impl FnMut(FileEvent<'_>)) -> io::Result<bool> {
        let mut file = File::open(&self.path)?;
        let there = file.metadata()?.len();
        if there <= self.offset {
            return Ok(false);
        }
        file.seek(SeekFrom::Start(self.offset))?;
        let mut most = PIECE_BYTES;
        loop {
            self.bytes.clear();
            file.by_ref().take(most).read_to_end(&mut self.bytes)?;
            let taken = self.take_records(each);
            if taken > 0 || self.is_broken {
                self.offset += taken;
                // A buffer of the usual size is kept, for a file that grows.
                self.bytes.shrink_to(PIECE_BYTES as usize);
                return Ok(taken > 0);
            }
            if most > MAX_RECORD_BYTES || self.offset + most >= there {
                return Ok(false);
            }
            most = 2 * MAX_RECORD_BYTES;
            file.seek(SeekFrom::Start(self.offset))?;
        }
    }

    /// Hands over what the bytes hold; how many of them were whole records.
    fn take_records(&mut self, each: &mut impl FnMut(FileEvent<'_>)) -> u64 {
        let mut rest = &self.bytes[..];
        loop {
            match split_record(rest, MAX_RECORD_BYTES) {
                Ok(Some(split)) => {
                    rest = split.rest;
                    split.data.and_then(event).into_iter().for_each(&mut *each);
                }
                Ok(None) => break,
                Err(_) => {
                    self.is_broken = true;
                    break;
                }
            }
        }
        (self.bytes.len() - rest.len()) as u64
    }
}

/// A value of a scalar and when it was written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ScalarPoint {
    /// Seconds since 1970.
    pub(crate) wall_seconds: f64,
    pub(crate) step: u64,
    pub(crate) value: f32,
}

/// The scalars of a file whose tags are wanted, and the time of the first scalar of any tag.
#[derive(Debug, Default)]
pub(crate) struct Scalars {
    pub(crate) begin_seconds: Option<f64>,
    pub(crate) points: BTreeMap<String, Vec<ScalarPoint>>,
}

/// Reads what can be read of an event file.
pub(crate) fn read(path: &Path, wanted: impl Fn(&str) -> bool) -> Scalars {
    let mut scalars = Scalars::default();
    EventFileReader::new(path).read(u64::MAX, |event| {
        let FileEvent::Scalar(tag, point) = event else { return };
        scalars.begin_seconds.get_or_insert(point.wall_seconds);
        if wanted(tag) {
            match scalars.points.get_mut(tag) {
                Some(points) => points.push(point),
                None => drop(scalars.points.insert(tag.to_owned(), vec![point])),
            }
        }
    });
    scalars
}

/// What an event says, as far as it matters here. The numbers are the fields of TensorFlow's
/// `FileEvent`, `SessionLog`, `Summary` and `TensorProto`.
fn event(event: &[u8]) -> Option<FileEvent<'_>> {
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
        return Some(FileEvent::Start(step));
    }
    let (_, value) = ProtoFields::new(summary?).next()?.ok()?;
    let (mut tag, mut number) = ("", None);
    for field in ProtoFields::new(value.as_bytes()?) {
        match field.ok()? {
            (1, value) => tag = value.as_str()?,
            (2, value) => number = value.as_float(),
            (8, value) => number = tensor(value.as_bytes()?),
            _ => {}
        }
    }
    Some(FileEvent::Scalar(tag, ScalarPoint { wall_seconds, step, value: number? }))
}

/// The value of a tensor that holds one float.
fn tensor(bytes: &[u8]) -> Option<f32> {
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
        let scalars = read(&write(dir.path()), |tag| tag.starts_with("test/"));
        let points = &scalars.points["test/accuracy"];
        let seen: Vec<_> = points.iter().map(|point| (point.step, point.value)).collect();
        assert_eq!(seen, [(0, 0.0), (10, 0.1), (20, 0.2)]);
        assert!(!scalars.points.contains_key("train/loss"));
        assert!(scalars.begin_seconds.unwrap() <= points[0].wall_seconds);
    }

    /// Whatever a reader finds half-written it waits for, and nothing is read twice.
    #[test]
    fn a_file_that_grows_byte_by_byte_is_read_record_by_record() {
        let dir = tempfile::tempdir().unwrap();
        let whole = fs::read(write(dir.path())).unwrap();
        let growing = dir.path().join("growing");
        let mut tail = EventFileReader::new(&growing);
        let mut steps = Vec::new();
        assert!(!tail.read(u64::MAX, |_| ()), "it is not there yet");
        for len in (0..whole.len()).step_by(7).chain([whole.len()]) {
            fs::write(&growing, &whole[..len]).unwrap();
            tail.read(u64::MAX, |event| {
                if let FileEvent::Scalar("train/loss", point) = event {
                    steps.push(point.step);
                }
            });
        }
        assert_eq!(steps, (0..30).collect::<Vec<_>>());
    }

    #[test]
    fn a_session_that_starts_again_is_told_of() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = EventWriter::create(dir.path()).unwrap();
        writer.session_start(40).unwrap();
        writer.flush().unwrap();
        let path = fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
        let mut starts = Vec::new();
        EventFileReader::new(&path).read(u64::MAX, |event| match event {
            FileEvent::Start(step) => starts.push(step),
            FileEvent::Scalar(..) => {}
        });
        assert_eq!(starts, [40, 40]);
    }

    #[test]
    fn what_stands_before_a_break_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = write(dir.path());
        let whole = fs::metadata(&path).unwrap().len();
        for cut in [whole - 1, whole / 2, 20, 3, 0] {
            OpenOptions::new().write(true).open(&path).unwrap().set_len(cut).unwrap();
            let count = read(&path, |_| true).points.values().map(Vec::len).sum::<usize>();
            assert!(count < 33, "{cut}: {count}");
        }
        assert!(read(&dir.path().join("none"), |_| true).points.is_empty());
    }
}
