//! `paceline bench parse`: the reading rate of click data, from text and from the mapped cache.

use std::hint::black_box;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{env, fs, process};

use paceline_data::sparse::{Clicks, ReadOptions, SparseFormat, read_rows, write_clicks};
use paceline_data::{
    BatchPlan, DataError, OnBad, OpenReport, SparseBuffer, SparseKind, SparseRows, SparseSpec,
    open_sparse,
};

use crate::error::BenchError;
use paceline_terminal::{aligned, grouped};

const FEATURES: usize = 33_762_578;
const ROWS: usize = 100_000;
const CACHED_ROWS: usize = 1_000_000;
const TURNS: usize = 7;
const BATCH: usize = 1_000;

/// MB/s and rows/s of every reader on one thread, and of the cache: in order, shuffled within
/// windows, and fully shuffled.
pub fn parse() -> Result<String, BenchError> {
    let mut rows = vec![["read from", "MB/s", "rows/s"].map(String::from).to_vec()];
    let formats = [
        ("LIBSVM text", SparseFormat::Libsvm),
        ("Criteo text", SparseFormat::Criteo),
        ("TFRecord", SparseFormat::TfRecord),
    ];
    for (name, format) in formats {
        let rate = read(format)?;
        rows.push(vec![name.into(), grouped((rate.bytes / 1e6) as u64), grouped(rate.rows as u64)]);
    }
    let dir = CacheDir::new();
    let spec = SparseSpec {
        features: Some(FEATURES),
        train_examples: Some(CACHED_ROWS),
        cache_dir: Some(dir.0.clone()),
        ..SparseSpec::new(SparseKind::Clicks)
    };
    let mut observer = |_: OpenReport<'_>| ControlFlow::Continue(());
    let set = open_sparse(&spec, &mut observer)?;
    let start = Instant::now();
    open_sparse(&spec, &mut observer)?;
    let opened = start.elapsed().as_secs_f64();
    let plan = BatchPlan::new(CACHED_ROWS, BATCH, 1);
    let plans = [
        ("cache, in order", plan.clone()),
        ("cache, windows of 65,536", plan.clone().shuffled_within(1, 65_536)),
        ("cache, shuffled", plan.shuffled(1)),
    ];
    for (name, plan) in plans {
        let rate = gather(&set.train, plan);
        rows.push(vec![name.into(), grouped((rate.bytes / 1e6) as u64), grouped(rate.rows as u64)]);
    }
    let title = format!(
        "clicks, 39 of {} features per row, one thread; batches of {BATCH} from a cache of {} \
         rows, which took {:.0} ms to open\n",
        grouped(FEATURES as u64),
        grouped(CACHED_ROWS as u64),
        1e3 * opened
    );
    Ok(title + &aligned(&rows))
}

/// Bytes and rows read per second.
struct ReadRate {
    bytes: f64,
    rows: f64,
}

fn read(format: SparseFormat) -> Result<ReadRate, DataError> {
    let mut text = Vec::new();
    // Writing to memory cannot fail.
    let _ =
        write_clicks(&Clicks::new(FEATURES, 1), 0..ROWS as u64, format, &mut text, &mut |_| true);
    let options =
        ReadOptions { format, features: Some(FEATURES), first_index: 1, on_bad: OnBad::Fail };
    let mut best = f64::MAX;
    for _ in 0..TURNS {
        let start = Instant::now();
        let mut entries = 0;
        read_rows(&text[..], Path::new("memory"), &options, &mut |row| {
            entries += row.keys.len();
            Ok(())
        })?;
        black_box(entries);
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(ReadRate { bytes: text.len() as f64 / best, rows: ROWS as f64 / best })
}

fn gather(rows: &SparseRows, mut plan: BatchPlan) -> ReadRate {
    let (mut examples, mut batch) = (Vec::new(), SparseBuffer::default());
    let steps = (CACHED_ROWS / BATCH) as u64;
    let (mut best, mut entries) = (f64::MAX, 0);
    for turn in 0..TURNS as u64 {
        let start = Instant::now();
        entries = 0;
        for step in turn * steps..(turn + 1) * steps {
            plan.batch(step, 0, &mut examples);
            batch.fill(rows, examples.iter().map(|&example| example as usize));
            entries += black_box(&batch).keys.len();
        }
        best = best.min(start.elapsed().as_secs_f64());
    }
    ReadRate { bytes: 4.0 * entries as f64 / best, rows: CACHED_ROWS as f64 / best }
}

/// A directory for the cache, removed on drop.
struct CacheDir(PathBuf);

impl CacheDir {
    fn new() -> Self {
        CacheDir(env::temp_dir().join(format!("paceline-bench-parse-{}", process::id())))
    }
}

impl Drop for CacheDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
