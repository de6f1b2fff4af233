//! Opens tables: learns the featuriser, or finds the one of an earlier run, and caches the rows.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use memchr::memchr_iter;
use paceline_data::sparse::{SparseSpec, files_identity, open_rows, row_cache_path, source_files};
use paceline_data::unpack::Unpacked;
use paceline_data::{
    DataError, HoldOut, OnBad, OpenObserver, OpenProgress, OpenReport, SparseKind, SparseRows,
    TrainTest, make_private_dir,
};
use serde::{Deserialize, Serialize};

use crate::column::{ColumnChoice, ColumnSpec};
use crate::featurizer::{Cross, Featurizer};
use crate::fit::Fit;
use crate::format_choice::FormatChoice;
use crate::infer::{ColumnPlanner, PlannedColumn};
use crate::sample::TableSample;
use crate::table_file::open_table_file;
use crate::table_reader::{TableReader, of_file};
use crate::table_text::TableText;
use crate::text_format::TextFormat;

/// The extension of a cached featuriser, beside the rows.
const CACHED: &str = "paceline-columns";
/// The largest cached featuriser that is read, in bytes.
const MOST_CACHED_BYTES: u64 = 1 << 30;
/// How much is read between two reports, in bytes.
const REPORTED_BYTES: u64 = 1 << 20;

/// A table, as a job describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSpec {
    /// The training rows: a file, a directory, or a pattern such as `data/part-*.csv`.
    pub path: PathBuf,
    /// The test rows, likewise.
    pub test_path: Option<PathBuf>,
    /// How the text is written, as far as the job says.
    pub format: FormatChoice,
    /// The declared columns; the first rows decide on the others.
    pub columns: Vec<ColumnSpec>,
    /// Combinations of columns, by name or number.
    pub crosses: Vec<Vec<String>>,
    /// Bits of a hash, and of a vocabulary's size, unless a column says otherwise.
    pub bits: u32,
    /// Whether the field of each key is stored too: its column or cross.
    pub with_fields: bool,
    /// Whether each number is a field of its own, for a model that takes it as it is.
    pub number_fields: bool,
    /// What to do about bad rows.
    pub on_bad: OnBad,
    /// Test rows to hold out if there is no `test_path`.
    pub hold_out: Option<usize>,
    /// Which rows are held out.
    pub split: HoldOut,
    /// The seed of held-out rows.
    pub seed: u64,
    /// The directory for caches; `None` means that of all rows.
    pub cache_dir: Option<PathBuf>,
}

impl TableSpec {
    /// A table with the defaults of a job.
    pub fn at(path: impl AsRef<Path>) -> Self {
        Self {
            path: path.as_ref().into(),
            test_path: None,
            format: FormatChoice::default(),
            columns: Vec::new(),
            crosses: Vec::new(),
            bits: 18,
            with_fields: false,
            number_fields: false,
            on_bad: OnBad::Fail,
            hold_out: None,
            split: HoldOut::Stratified,
            seed: 0,
            cache_dir: None,
        }
    }

    /// The cached rows of the table.
    pub fn rows_spec(&self) -> SparseSpec {
        SparseSpec {
            path: Some(self.path.clone()),
            test_path: self.test_path.clone(),
            with_fields: self.with_fields,
            on_bad: self.on_bad,
            test_examples: self.hold_out,
            split: self.split,
            seed: self.seed,
            cache_dir: self.cache_dir.clone(),
            ..SparseSpec::new(SparseKind::Table)
        }
    }

    /// What the featuriser depends on besides the files, a line for each setting.
    fn options(&self) -> String {
        let mut text = format!("format {:?}\nbits {}\n", self.format, self.bits);
        for ColumnSpec { column, choice } in &self.columns {
            let _ = writeln!(text, "column {column:?} {choice:?}");
        }
        for cross in &self.crosses {
            let _ = writeln!(text, "cross {cross:?}");
        }
        if self.number_fields {
            text += "number fields\n";
        }
        text
    }
}

/// An opened table.
#[derive(Clone, Debug)]
pub struct OpenTable {
    /// The rows as keys and values.
    pub rows: TrainTest<SparseRows>,
    /// How they were made.
    pub featurizer: Arc<Featurizer>,
}

/// A featuriser in the cache.
#[derive(Serialize, Deserialize)]
struct CachedFeaturizer {
    /// The settings and files it was learnt from.
    identity: String,
    featurizer: Featurizer,
    /// What was decided without the job, in words; reported to every process.
    decisions: Vec<String>,
}

/// Opens a table: decides how its columns are used, learns from the training rows what that needs,
/// and caches the rows.
///
/// # Errors
/// If a file or a row cannot be read, a declared column is not there, or the cache cannot be
/// written.
pub fn open_table(
    spec: &TableSpec,
    observer: &mut dyn OpenObserver,
) -> Result<OpenTable, DataError> {
    let featurizer = table_featurizer(spec, observer)?;
    let (on_bad, options) = (spec.on_bad, spec.options());
    let reader = TableReader { featurizer: &featurizer, on_bad, options };
    let features = Some(featurizer.features());
    let rows = open_rows(&SparseSpec { features, ..spec.rows_spec() }, &reader, observer)?;
    Ok(OpenTable { rows, featurizer: Arc::new(featurizer) })
}

/// The featuriser of a table: that of an earlier run on the same files with the same settings, or
/// else one that is learnt now.
///
/// # Errors
/// As [`open_table`].
pub fn table_featurizer(
    spec: &TableSpec,
    observer: &mut dyn OpenObserver,
) -> Result<Featurizer, DataError> {
    let options = spec.options();
    let files = source_files(&spec.path)?;
    let cached = row_cache_path(&spec.rows_spec(), &options)?.with_extension(CACHED);
    // Another version may decide otherwise on columns that the job does not mention.
    let version = env!("CARGO_PKG_VERSION");
    let more = format!("on_bad {:?}\nversion {version}\n", spec.on_bad);
    let identity = options + &more + &files_identity("train", &files)?;
    if let Some(CachedFeaturizer { featurizer, decisions, .. }) = read_cached(&cached, &identity) {
        for decision in &decisions {
            let _ = observer.report(OpenReport::Decision(decision));
        }
        return Ok(featurizer);
    }
    let mut decisions = Decisions { observer, made: Vec::new() };
    let featurizer = learn(spec, &files, &mut decisions)?;
    let entry = CachedFeaturizer { identity, featurizer, decisions: decisions.made };
    write_cached(&cached, &entry)?;
    Ok(entry.featurizer)
}

/// Reports decisions, and keeps them for later runs.
struct Decisions<'o> {
    observer: &'o mut dyn OpenObserver,
    made: Vec<String>,
}

impl Decisions<'_> {
    fn add(&mut self, text: String) {
        // A request to stop takes effect at the next report of progress.
        let _ = self.observer.report(OpenReport::Decision(&text));
        self.made.push(text);
    }
}

fn read_cached(path: &Path, identity: &str) -> Option<CachedFeaturizer> {
    if fs::metadata(path).ok()?.len() > MOST_CACHED_BYTES {
        return None;
    }
    let text = fs::read_to_string(path).ok()?;
    let entry: CachedFeaturizer = serde_json::from_str(&text).ok()?;
    let featurizer = Featurizer::from_json(&entry.featurizer.to_json()).ok()?;
    (entry.identity == identity).then_some(CachedFeaturizer { featurizer, ..entry })
}

fn write_cached(path: &Path, entry: &CachedFeaturizer) -> Result<(), DataError> {
    let text = serde_json::to_string(entry).map_err(io::Error::other);
    let part = path.with_extension(format!("{CACHED}.{}", std::process::id()));
    let write = || {
        if let Some(dir) = path.parent() {
            make_private_dir(dir)?;
        }
        fs::write(&part, text?)?;
        fs::rename(&part, path)
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&part);
        DataError::RowCache { what: format!("cannot write {}: {error}", path.display()) }
    })
}

/// Learns the featuriser from the training files.
fn learn(
    spec: &TableSpec,
    files: &[PathBuf],
    decisions: &mut Decisions<'_>,
) -> Result<Featurizer, DataError> {
    let planned = plan_columns(spec, &files[0], true, decisions.observer)?;
    let PlannedTable { format, columns, crosses, .. } = &planned;
    for PlannedColumn { name, choice, why, doubt } in columns {
        if let (ColumnChoice::Label { .. }, Some(why)) = (choice, why) {
            decisions.add(format!("the label is the column {name:?} ({why})"));
        }
        if let Some(doubt) = doubt {
            let text = format!("warning: values of the column {name:?} are codes, but {doubt}");
            decisions.add(text);
        }
    }
    let mut fit = Fit::new(*format, columns, spec.on_bad);
    if fit.needs_rows() {
        let all = files.iter().map(|file| fs::metadata(file).map_or(0, |about| about.len())).sum();
        let mut done = 0;
        for file in files {
            let mut text = open_content(file, all, &mut done, decisions.observer)?;
            let read = open_table_file(file, &mut text, &(*format).into())
                .and_then(|table| fit.read(file, table));
            read.map_err(interrupted)?;
        }
    }
    let columns = fit.finish(1 << spec.bits).map_err(|error| of_file(&files[0], error))?;
    let featurizer = Featurizer::new(*format, columns, crosses.clone())?;
    if let Some(doubt) = featurizer.label_doubt() {
        decisions.add(format!("warning: {doubt}"));
    }
    Ok(if spec.number_fields { featurizer.with_number_fields() } else { featurizer })
}

/// How a table is written and how its columns are used.
pub(crate) struct PlannedTable {
    pub(crate) format: TextFormat,
    pub(crate) columns: Vec<PlannedColumn>,
    pub(crate) crosses: Vec<Cross>,
    /// The label, if there is one.
    pub(crate) label: Option<SampledLabel>,
    /// The rows of the sample with another number of fields, in words.
    pub(crate) uneven: Option<String>,
}

/// The label of a table, as far as its first rows show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledLabel {
    /// The column's name.
    pub column: String,
    /// The number of classes.
    pub classes: usize,
}

/// The label that a table would have, by its first rows.
///
/// # Errors
/// If the first file cannot be read, or a declared column is not there.
pub fn sample_label(
    spec: &TableSpec,
    observer: &mut dyn OpenObserver,
) -> Result<Option<SampledLabel>, DataError> {
    let files = source_files(&spec.path)?;
    Ok(plan_columns(spec, &files[0], false, observer)?.label)
}

/// Decides how the columns of a table are used, from the first rows of its first file.
pub(crate) fn plan_columns(
    spec: &TableSpec,
    first: &Path,
    needs_label: bool,
    observer: &mut dyn OpenObserver,
) -> Result<PlannedTable, DataError> {
    let mut done = 0;
    let mut text = open_content(first, 0, &mut done, observer)?;
    let table = open_table_file(first, &mut text, &spec.format).map_err(interrupted)?;
    plan_table(spec, &table, needs_label).map_err(|error| of_file(first, error))
}

/// As [`plan_columns`], for a table that is open.
pub(crate) fn plan_table(
    spec: &TableSpec,
    table: &TableText<'_>,
    needs_label: bool,
) -> Result<PlannedTable, DataError> {
    let (format, names) = (table.format(), table.names());
    let sample = TableSample::of_text(table.first_text(), format, names.len());
    if sample.rows == 0 {
        let what = if table.first_text().trim_ascii().is_empty() {
            "there are no rows below the names of the columns".to_owned()
        } else {
            format!("no row has as many fields as there are columns, {}", names.len())
        };
        return Err(DataError::Sparse { path: table.path().into(), what });
    }
    let planner = ColumnPlanner { names, sample: &sample, bits: spec.bits, needs_label };
    let columns = planner.plan(&spec.columns)?;
    let crosses = spec.crosses.iter().map(|cross| {
        let places = cross.iter().map(|column| planner.find(column));
        let columns = places.map(|place| place.map(|place| names[place].clone()));
        Ok(Cross { columns: columns.collect::<Result<_, DataError>>()?, bits: spec.bits })
    });
    let crosses = crosses.collect::<Result<Vec<_>, DataError>>()?;
    let label = columns.iter().zip(&sample.columns).find_map(|(column, sample)| {
        let ColumnChoice::Label { classes } = &column.choice else { return None };
        let classes = if classes.is_empty() { sample.values.len() } else { classes.len() };
        Some(SampledLabel { column: column.name.clone(), classes })
    });
    let uneven = (sample.uneven > 0).then(|| {
        let before = &table.first_text()[..sample.first_uneven];
        let line = 1 + usize::from(format.header) + memchr_iter(b'\n', before).count();
        let rows = sample.uneven + sample.rows;
        let have = if sample.uneven == 1 { "does not have" } else { "do not have" };
        format!(
            "{} of the first {rows} rows {have} {} fields, the first in line {line}: training ends \
             there, unless data.on_bad = \"skip\"",
            sample.uneven,
            names.len()
        )
    });
    Ok(PlannedTable { format, columns, crosses, label, uneven })
}

/// Opens a file for reading its content, unpacked, with reports of progress.
pub(crate) fn open_content<'o>(
    file: &Path,
    total: u64,
    done: &'o mut u64,
    observer: &'o mut dyn OpenObserver,
) -> Result<impl Read + 'o, DataError> {
    let about = fs::metadata(file).map_err(DataError::io("open", file))?;
    if !about.is_file() {
        let error = io::Error::other("it is not a regular file");
        return Err(DataError::io("open", file)(error));
    }
    let opened = File::open(file).map_err(DataError::io("open", file))?;
    let what = file.file_name().map(|name| name.to_string_lossy().into_owned());
    let (what, started) = (what.unwrap_or_default(), Instant::now());
    let reported = *done;
    let read = ObservedRead { file: opened, observer, what, total, done, reported, started };
    Unpacked::new(BufReader::with_capacity(256 << 10, read)).map_err(DataError::io("read", file))
}

/// Reports how much of the files has been read.
struct ObservedRead<'o> {
    file: File,
    observer: &'o mut dyn OpenObserver,
    what: String,
    total: u64,
    done: &'o mut u64,
    /// The bytes at the last report.
    reported: u64,
    started: Instant,
}

impl Read for ObservedRead<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        *self.done += read as u64;
        if *self.done - self.reported >= REPORTED_BYTES {
            self.reported = *self.done;
            let report = OpenReport::Progress(OpenProgress {
                action: "learning the columns of",
                what: &self.what,
                share: (*self.done as f64 / self.total.max(1) as f64).min(1.0),
                rows: 0,
                rows_before: 0,
                share_before: 0.0,
                elapsed: self.started.elapsed(),
            });
            if let ControlFlow::Break(()) = self.observer.report(report) {
                return Err(io::Error::other(DataError::Interrupted));
            }
        }
        Ok(read)
    }
}

/// Recovers the request to stop, which passed through the readers as one of their errors.
fn interrupted(error: DataError) -> DataError {
    let is_wish = |source: &io::Error| {
        let inner = source.get_ref().and_then(|inner| inner.downcast_ref());
        matches!(inner, Some(DataError::Interrupted))
    };
    match error {
        DataError::Io { source, .. } if is_wish(&source) => DataError::Interrupted,
        other => other,
    }
}
