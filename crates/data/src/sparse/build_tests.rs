//! A conversion that is interrupted anywhere continues, and ends with the same file.

use std::fs;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::open_observer::{OpenReport, ignore_reports};
use crate::sparse::row_reader::{RowBlock, RowBlockParser, RowBlocks};

/// Stops at the given report of progress. Reports while nothing moves do not count: how many there
/// are depends on the machine.
struct StopAt {
    reports: usize,
    share: f64,
    stop_at: usize,
    notes: String,
}

impl OpenObserver for StopAt {
    fn report(&mut self, report: OpenReport<'_>) -> ControlFlow<()> {
        match report {
            OpenReport::Note(text) | OpenReport::Decision(text) => self.notes += text,
            OpenReport::Progress(progress) => {
                assert!(progress.share <= 1.0 && progress.share_before <= progress.share);
                self.reports += usize::from(progress.share != self.share);
                self.share = progress.share;
            }
            OpenReport::Waiting { .. } => {}
        }
        if self.reports >= self.stop_at {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

fn stop_at(stop_at: usize) -> StopAt {
    StopAt { reports: 0, share: -1.0, stop_at, notes: String::new() }
}

/// Rows of the numbers in a file, for conversions by a reader of another crate.
struct NumberReader;

impl RowReader for NumberReader {
    fn options(&self) -> String {
        String::new()
    }

    fn identity(&self) -> String {
        String::new()
    }

    fn open<'s>(
        &'s self,
        _file: &'s Path,
        content: &'s mut dyn Read,
    ) -> Result<Box<dyn RowBlocks + 's>, DataError> {
        Ok(Box::new(NumberBlocks { content, offset: 0 }))
    }
}

struct NumberBlocks<'s> {
    content: &'s mut dyn Read,
    offset: u64,
}

impl RowBlocks for NumberBlocks<'_> {
    fn next(&mut self, block: &mut RowBlock) -> Result<bool, DataError> {
        block.bytes.clear();
        let mut next = self.content.take(50_000);
        let read = next.read_to_end(&mut block.bytes).map_err(DataError::io("read", "numbers"))?;
        self.offset += read as u64;
        (block.text, block.end_offset) = (0..read, self.offset);
        block.parser = Some(Arc::new(NumberParser));
        Ok(read > 0)
    }
}

struct NumberParser;

impl RowBlockParser for NumberParser {
    fn parse(
        &self,
        block: &RowBlock,
        take: &mut dyn FnMut(crate::SparseRow<'_>),
    ) -> Result<u64, DataError> {
        for &byte in &block.bytes[block.text.clone()] {
            let keys = [byte.into(), 300];
            let (label, weight) = (u32::from(byte) % 5, f32::from(byte) / 2.0);
            take(crate::SparseRow { label, weight, keys: &keys, values: &[0.5, 1.0], fields: &[] });
        }
        Ok(3)
    }
}

/// Builds a cache without interruption, and then with one at every later report.
fn check(spec: &SparseSpec, sources: &SourceFiles, reader: Option<&dyn RowReader>, dir: &Path) {
    let (whole, part) = (dir.join("whole"), dir.join("part"));
    let inputs = |part| BuildInputs { spec, reader, sources, identity: "identity", part };
    let mut all = stop_at(usize::MAX);
    build(&inputs(&whole), &mut all).unwrap();
    assert!(all.reports > 4, "{}", all.reports);
    let expected = fs::read(&whole).unwrap();
    let mut continued = 0;
    for stop in [1, 2, all.reports / 3, all.reports / 2, all.reports - 1] {
        let _ = fs::remove_file(&part);
        let stopped = build(&inputs(&part), &mut stop_at(stop));
        assert!(matches!(stopped, Err(DataError::Interrupted)), "{stop}: {stopped:?}");
        if let Ok(bytes) = fs::read(&part) {
            // A process that was killed may leave half a segment.
            fs::write(&part, &bytes[..bytes.len() - 7 * usize::from(stop % 2 == 0)]).unwrap();
        }
        let mut second = stop_at(usize::MAX);
        build(&inputs(&part), &mut second).unwrap();
        continued += usize::from(second.notes.contains("continuing after"));
        assert!(fs::read(&part).unwrap() == expected, "stopped at report {stop}");
    }
    assert!(continued > 0, "no conversion was continued");
    // An unfinished cache of other sources is not continued.
    let other = BuildInputs { identity: "other", ..inputs(&part) };
    build(&other, &mut ignore_reports()).unwrap();
    assert!(fs::read(&part).unwrap() != expected);
}

#[test]
fn files_are_converted_to_the_same_bytes_however_often_it_is_interrupted() {
    let dir = tempfile::tempdir().unwrap();
    let mut sources = SourceFiles::default();
    for (number, rows) in [90_000, 3, 0, 120_000].into_iter().enumerate() {
        let path = dir.path().join(format!("{number}.svm"));
        let row = |row: usize| format!("{} {}:1 {}:0.5\n", row % 2, row % 700 + 1, row + 1000);
        fs::write(&path, (0..rows).map(row).collect::<String>() + "bad\n").unwrap();
        if number < 3 { sources.train.push(path) } else { sources.test.push(path) }
    }
    let spec = SparseSpec { on_bad: crate::OnBad::Skip, ..SparseSpec::new(SparseKind::Libsvm) };
    check(&spec, &sources, None, dir.path());
}

#[test]
fn generated_rows_are_converted_to_the_same_bytes_however_often_it_is_interrupted() {
    let dir = tempfile::tempdir().unwrap();
    let spec = SparseSpec {
        features: Some(10_000),
        train_examples: Some(150_000),
        test_examples: Some(20_000),
        ..SparseSpec::new(SparseKind::Clicks)
    };
    check(&spec, &SourceFiles::default(), None, dir.path());
}

#[test]
fn rows_of_another_reader_are_converted_to_the_same_bytes_however_often_it_is_interrupted() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let bytes: Vec<u8> = (0..1_200_000u32).map(|i| (i * 7 % 251) as u8).collect();
    fs::write(path("train"), &bytes).unwrap();
    fs::write(path("test"), &bytes[..300_000]).unwrap();
    let sources = SourceFiles { train: vec![path("train")], test: vec![path("test")] };
    let spec = SparseSpec::new(SparseKind::Table);
    check(&spec, &sources, Some(&NumberReader), dir.path());
}
