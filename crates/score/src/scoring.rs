//! Scores an input with a model on all cores.

use std::ops::Range;

use paceline_data::Patches;

use crate::error::ScoreError;
use crate::example_scorer::{ExampleInput, ExampleScorer, ExampleSource};
use crate::pipeline::{DoPortion, NextPortion, StopFn, run_in_order, thread_count};
use crate::scored_rows::ScoredRows;
use crate::text_chunks::{TextChunk, TextChunks, TextLayout, TextSource};
use crate::text_scorer::{TextScorer, text_featurizer};
use crate::trained_model::TrainedModel;

/// What to score.
#[derive(Clone)]
pub enum ScoreInput {
    /// Lines of text, read from these sources one after another.
    Text(Vec<TextSource>),
    /// Examples that are found by their index.
    Examples(ExampleInput),
}

impl ScoreInput {
    /// Whether rows arrive on standard input.
    pub(crate) fn is_stream(&self) -> bool {
        match self {
            ScoreInput::Examples(_) => false,
            ScoreInput::Text(sources) => sources.contains(&TextSource::StandardInput),
        }
    }

    /// Where rows come from, for messages.
    pub fn origin(&self) -> String {
        match self {
            ScoreInput::Examples(input) => input.origin.to_string(),
            ScoreInput::Text(sources) => match &sources[..] {
                [one] => one.name(),
                [first, ..] => format!("{} and {} more", first.name(), sources.len() - 1),
                [] => "no input".into(),
            },
        }
    }
}

/// How rows are scored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HowToScore {
    /// Threads that score; by default as many as there are cores.
    pub(crate) threads: Option<usize>,
    /// Whether a row of a table needs a label of the model.
    pub(crate) needs_labels: bool,
}

/// Scores of the input's rows, in order; `map` runs on the threads that score, and `take` on the
/// caller's. `take` also learns whether no other result is ready yet.
///
/// # Errors
/// If the input cannot be read or does not fit the model, `stop` asks to stop, or `map` or `take`
/// fails.
pub(crate) fn score<R: Send + 'static>(
    model: &TrainedModel,
    input: &ScoreInput,
    how: HowToScore,
    stop: StopFn<'_>,
    map: impl FnMut(ScoredRows) -> Result<R, ScoreError> + Clone + Send + 'static,
    take: &mut dyn FnMut(R, bool) -> Result<(), ScoreError>,
) -> Result<(), ScoreError> {
    let threads = thread_count(how.threads);
    match input {
        ScoreInput::Text(sources) => {
            let mut chunks = TextChunks::new(sources.clone(), text_layout(model));
            let next: NextPortion<TextChunk> = Box::new(move || chunks.next());
            let worker = || -> Result<DoPortion<TextChunk, R>, ScoreError> {
                let featurizer = text_featurizer(model, how.needs_labels);
                let featurizer = featurizer.ok_or_else(|| takes_no_text(model))?;
                let mut scorer = TextScorer::new(featurizer, model.scorer()?);
                let mut map = map.clone();
                Ok(Box::new(move |chunk| scorer.score(chunk).and_then(&mut map)))
            };
            let workers: Result<Vec<_>, _> = (0..threads).map(|_| worker()).collect();
            run_in_order(next, workers?, stop, take)
        }
        ScoreInput::Examples(input) => {
            check_examples(model, input)?;
            let (all, len) = (input.len(), input.portion_len());
            let mut starts = (0..all).step_by(len);
            let next: NextPortion<Range<usize>> =
                Box::new(move || Ok(starts.next().map(|start| start..(start + len).min(all))));
            let first = model.scorer()?;
            let patches = match &input.source {
                ExampleSource::Images(images) if first.takes_patches() => Patches::of(images),
                _ => None,
            };
            let worker = |scorer| -> DoPortion<Range<usize>, R> {
                let mut scorer = ExampleScorer::new(input, patches.as_ref(), scorer);
                let mut map = map.clone();
                Box::new(move |which| scorer.score(which).and_then(&mut map))
            };
            let mut workers = vec![worker(first)];
            for _ in 1..threads.min(all.div_ceil(len).max(1)) {
                workers.push(worker(model.scorer()?));
            }
            run_in_order(next, workers, stop, take)
        }
    }
}

/// Checks that examples have the model's size and form.
fn check_examples(model: &TrainedModel, input: &ExampleInput) -> Result<(), ScoreError> {
    let is_sparse = matches!(input.source, ExampleSource::Rows(_));
    let fits = if is_sparse {
        // Features beyond those of the rows have no value anywhere.
        model.is_sparse() && input.inputs() <= model.inputs()
    } else {
        !model.is_sparse() && input.inputs() == model.inputs()
    };
    if let (ExampleSource::Rows(rows), fields @ 1..) = (&input.source, model.fields())
        && !(1..=fields).contains(&rows.fields())
    {
        return Err(ScoreError::Refused(format!(
            "{}: its rows have {} fields, but the model has {fields}",
            input.origin,
            rows.fields()
        )));
    }
    if fits {
        return Ok(());
    }
    let unit = |is_sparse| if is_sparse { "features" } else { "values" };
    Err(ScoreError::Refused(format!(
        "{}: its examples have {} {}, but the model takes {} {}",
        input.origin,
        input.inputs(),
        unit(is_sparse),
        model.inputs(),
        unit(model.is_sparse())
    )))
}

/// How the text that the model takes is cut.
fn text_layout(model: &TrainedModel) -> TextLayout {
    let table = model.table_featurizer();
    table.map_or(TextLayout::Lines, |table| TextLayout::Table(table.clone()))
}

fn takes_no_text(model: &TrainedModel) -> ScoreError {
    let kind = model.description().input.kind.name();
    ScoreError::Refused(format!("the model takes input of kind {kind:?}, not lines of text"))
}
