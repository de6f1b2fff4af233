//! Predictions: scores an input and writes an answer for each row.

use std::cell::Cell;
use std::io::Write;

use crate::answer::{AnswerStyle, Answerer};
use crate::answer_rows::{AnswerBlock, AnswerLayout, AnswerRows, AnswerSink};
use crate::error::ScoreError;
use crate::output_rows::{IdValue, OutputFormat};
use crate::scored_rows::{BadRow, ScoredRows};
use crate::scoring::{HowToScore, ScoreInput, score};
use crate::table_featurizer::id_columns;
use crate::text_chunks::RowNumbering;
use crate::trained_model::TrainedModel;

/// What happens to rows that cannot be scored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BadRows {
    /// The first one ends the prediction with an error.
    #[default]
    Fail,
    /// They are left out and counted.
    Skip,
    /// They get a line with the error in place of an answer, and are counted.
    Mark,
}

/// How predictions are made and written.
#[derive(Clone, Debug, Default)]
pub struct PredictOptions {
    /// What is written for each row.
    pub style: AnswerStyle,
    /// The format of the output.
    pub format: OutputFormat,
    /// What happens to rows that cannot be scored.
    pub bad_rows: BadRows,
    /// Threads; as many as cores if `None`.
    pub threads: Option<usize>,
}

/// How many rows were scored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PredictCounts {
    /// Rows with an answer.
    pub rows: u64,
    /// Rows that could not be scored.
    pub bad: u64,
    /// The first of them, with its place.
    pub first_bad: Option<String>,
}

/// Learns how many rows are done, several times a second, and says whether to stop.
pub type PredictObserver<'a> = &'a dyn Fn(u64) -> bool;

/// Scores every row of an input and writes an answer for each to `out`, in the order of the input.
/// The output is flushed whenever no other answer is ready, so a line of a stream is answered as
/// it arrives.
///
/// # Errors
/// If the input cannot be read, does not fit the model or has no row, a row cannot be scored and
/// must not be skipped, the output cannot be written, or `observer` asks to stop.
pub fn predict(
    model: &TrainedModel,
    input: &ScoreInput,
    options: &PredictOptions,
    out: &mut dyn Write,
    observer: PredictObserver<'_>,
) -> Result<PredictCounts, ScoreError> {
    if options.format == OutputFormat::Parquet && cfg!(not(feature = "parquet")) {
        let what = "this program was built without the feature parquet and writes no Parquet \
                    files; build it again with `--features parquet`, or choose `--format csv` or \
                    `--format jsonl`";
        return Err(ScoreError::Refused(what.into()));
    }
    let ids = IdColumns::of(model, input);
    let answerer = Answerer::new(options.style, model.class_names());
    let layout = AnswerLayout {
        style: options.style,
        ids: &ids.names,
        number: ids.has_number.then_some(usize::from(ids.has_file)),
        answers: &answerer.columns(model.outputs()),
        classes: model.class_names(),
        has_errors: options.bad_rows == BadRows::Mark,
    };
    let rows = AnswerRows::new(options.format, &layout);
    // The first answers start it: a file that does not fit the model leaves no header. A program
    // that asks through a pipe may wait for the header.
    let mut sink = input.is_stream().then(|| AnswerSink::start(&rows, out)).transpose()?;
    let mut writer = AnswerWriter { ids, answerer, rows: rows.clone(), bad_rows: options.bad_rows };
    let write = move |scored| writer.write(&scored);
    let mut counts = skipped_before(input);
    let done = Cell::new(0);
    let mut take = |answers: Answers, is_last: bool| {
        counts.rows += answers.counts.rows;
        counts.bad += answers.counts.bad;
        done.set(counts.rows + counts.bad);
        counts.first_bad = counts.first_bad.take().or(answers.counts.first_bad);
        if sink.is_none() {
            sink = Some(AnswerSink::start(&rows, out)?);
        }
        if let Some(sink) = &mut sink {
            sink.write(answers.block, out)?;
        }
        if is_last { out.flush().map_err(ScoreError::output) } else { Ok(()) }
    };
    let how = HowToScore { threads: options.threads, needs_labels: false };
    score(model, input, how, &|| observer(done.get()), write, &mut take)?;
    if counts.rows + counts.bad == 0 {
        return Err(ScoreError::Refused(format!("{}: there are no rows", input.origin())));
    }
    let sink = sink.map_or_else(|| AnswerSink::start(&rows, out), Ok)?;
    sink.finish(out)?;
    Ok(counts)
}

/// The bad rows that were left out when the input was opened.
fn skipped_before(input: &ScoreInput) -> PredictCounts {
    let (bad, origin) = match input {
        ScoreInput::Examples(input) => (input.skipped, &*input.origin),
        ScoreInput::Text(_) => (0, ""),
    };
    let first_bad = (bad > 0).then(|| format!("{origin}: {bad} records cannot be read"));
    PredictCounts { bad, first_bad, ..PredictCounts::default() }
}

/// The columns that identify a row.
#[derive(Clone, Debug)]
struct IdColumns {
    names: Vec<String>,
    /// Whether the first is the file.
    has_file: bool,
    /// Whether there is a number.
    has_number: bool,
}

impl IdColumns {
    fn of(model: &TrainedModel, input: &ScoreInput) -> Self {
        let own = model.table_featurizer().map(|table| id_columns(table)).unwrap_or_default();
        if !own.is_empty() && matches!(input, ScoreInput::Text(_)) {
            return Self { names: own, has_file: false, has_number: false };
        }
        let (names, has_file, has_number) = match input {
            ScoreInput::Examples(input) if input.names.is_some() => (vec!["file"], false, false),
            ScoreInput::Examples(_) => (vec!["row"], false, true),
            ScoreInput::Text(sources) => {
                let has_lines = sources.iter().any(|source| source.unit() == RowNumbering::Line);
                let unit = if has_lines { RowNumbering::Line } else { RowNumbering::Row };
                match sources.len() {
                    0 | 1 => (vec![unit.name()], false, true),
                    _ => (vec!["file", unit.name()], true, true),
                }
            }
        };
        let names = names.into_iter().map(String::from).collect();
        Self { names, has_file, has_number }
    }
}

/// Some answers, ready to be written.
struct Answers {
    block: AnswerBlock,
    counts: PredictCounts,
}

/// Turns scored rows into answers.
#[derive(Clone)]
struct AnswerWriter {
    ids: IdColumns,
    answerer: Answerer,
    rows: AnswerRows,
    bad_rows: BadRows,
}

impl AnswerWriter {
    fn write(&mut self, scored: &ScoredRows) -> Result<Answers, ScoreError> {
        let (mut block, mut counts) = (self.rows.block(), PredictCounts::default());
        let mut bad = scored.bad.iter().peekable();
        let mut ids = Vec::new();
        let texts = scored.ids.len() / scored.numbers.len().max(1);
        for (index, scores) in scored.rows().enumerate() {
            while let Some(row) = bad.next_if(|row| row.before <= index) {
                self.write_bad(scored, row, &mut counts, &mut block)?;
            }
            ids.clear();
            self.put_place(scored, scored.numbers[index], &mut ids);
            let own = &scored.ids[index * texts..][..texts];
            ids.extend(own.iter().map(|id| IdValue::Text(id)));
            self.rows.push(&ids, Ok(self.answerer.answer(scores)), &mut block);
            counts.rows += 1;
        }
        for row in bad {
            self.write_bad(scored, row, &mut counts, &mut block)?;
        }
        Ok(Answers { block, counts })
    }

    /// Appends the file and the number of a row, if they identify it.
    fn put_place<'s>(&self, scored: &'s ScoredRows, number: u64, ids: &mut Vec<IdValue<'s>>) {
        if self.ids.has_file {
            ids.push(IdValue::Text(&scored.source));
        }
        if self.ids.has_number {
            ids.push(IdValue::Number(number));
        }
    }

    fn write_bad(
        &self,
        scored: &ScoredRows,
        row: &BadRow,
        counts: &mut PredictCounts,
        block: &mut AnswerBlock,
    ) -> Result<(), ScoreError> {
        let place = scored.place(row);
        if self.bad_rows == BadRows::Fail {
            return Err(ScoreError::Refused(place));
        }
        counts.bad += 1;
        counts.first_bad.get_or_insert(place);
        if self.bad_rows == BadRows::Mark {
            let mut ids = Vec::new();
            self.put_place(scored, row.number, &mut ids);
            ids.extend(row.ids.iter().map(|id| IdValue::Text(id)));
            let name = row.name.as_deref().unwrap_or_default();
            ids.resize(self.ids.names.len(), IdValue::Text(name));
            self.rows.push(&ids, Err(&row.what), block);
        }
        Ok(())
    }
}
