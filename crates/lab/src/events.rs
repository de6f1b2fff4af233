//! The scalars of a TensorBoard event file, as far as a report draws them.
//!
//! A file that ends in the middle of a record is what a killed process leaves: what stands
//! before the break is good.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use paceline_tfrecord::Reader;
use paceline_tfrecord::proto::{Fields, packed_floats};

/// A record longer than this is no scalar, and none of ours.
const MAX_RECORD_BYTES: u64 = 16 << 20;

/// A value of a scalar and when it was written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    /// Seconds since 1970.
    pub(crate) wall_seconds: f64,
    pub(crate) step: u64,
    pub(crate) value: f32,
}

/// The scalars of a file whose tags are wanted, and the time of the first scalar of any tag.
#[derive(Debug, Default)]
pub(crate) struct Scalars {
    pub(crate) begin_seconds: Option<f64>,
    pub(crate) points: BTreeMap<String, Vec<Point>>,
}

/// Reads what can be read of an event file.
pub(crate) fn read(path: &Path, wanted: impl Fn(&str) -> bool) -> Scalars {
    let mut scalars = Scalars::default();
    let Ok(file) = File::open(path) else { return scalars };
    let source = BufReader::with_capacity(1 << 18, file);
    let mut reader = Reader::with_max_len(source, MAX_RECORD_BYTES);
    let mut record = Vec::new();
    while matches!(reader.next(&mut record), Ok(true)) {
        let Some((tag, point)) = scalar(&record) else { continue };
        scalars.begin_seconds.get_or_insert(point.wall_seconds);
        if wanted(tag) {
            match scalars.points.get_mut(tag) {
                Some(points) => points.push(point),
                None => drop(scalars.points.insert(tag.to_owned(), vec![point])),
            }
        }
    }
    scalars
}

/// The scalar of an event, if that is what it is. The numbers are the fields of TensorFlow's
/// `Event`, `Summary` and `TensorProto`.
fn scalar(event: &[u8]) -> Option<(&str, Point)> {
    let (mut wall_seconds, mut step, mut summary) = (0.0, 0, None);
    for field in Fields::new(event) {
        match field.ok()? {
            (1, value) => wall_seconds = value.as_double()?,
            (2, value) => step = value.as_uint64()?,
            (5, value) => summary = value.as_bytes(),
            _ => {}
        }
    }
    let (_, value) = Fields::new(summary?).next()?.ok()?;
    let (mut tag, mut number) = ("", None);
    for field in Fields::new(value.as_bytes()?) {
        match field.ok()? {
            (1, value) => tag = value.as_str()?,
            (2, value) => number = value.as_float(),
            (8, value) => number = tensor(value.as_bytes()?),
            _ => {}
        }
    }
    Some((tag, Point { wall_seconds, step, value: number? }))
}

/// The value of a tensor that holds one float.
fn tensor(bytes: &[u8]) -> Option<f32> {
    let floats = Fields::new(bytes).find_map(|field| match field {
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

    use paceline_observe::EventWriter;

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
