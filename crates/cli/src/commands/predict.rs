//! `paceline predict`: answers for rows and pictures.

use std::cell::RefCell;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use paceline_score::{
    InputFiles, OutputFile, PredictCounts, PredictOptions, ScoreError, ScoreInput, open_input,
    predict as write_predictions,
};

use super::trained_model::{load_trained, open_test_set, score_failure};
use crate::Failure;
use crate::data_display::DataDisplay;
use crate::interrupt::Interrupt;
use crate::predict_args::{OnBadName, PredictArgs};
use crate::progress::write_line;
use crate::stop_source::StopSource;
use paceline_data::OnBad;
use paceline_terminal::{counted, grouped};

/// Bytes that are collected before they are written.
const WRITE_BYTES: usize = 64 << 10;

/// Scores the inputs and writes the answers.
pub(super) fn predict(args: &PredictArgs) -> Result<(), Failure> {
    let interrupt = Interrupt::listen()?;
    let format = args.output_format().map_err(|error| score_failure(error, &interrupt))?;
    let stop = StopSource { interrupt: interrupt.clone(), channel: None };
    // Answers on standard output are a progress of their own.
    let display = RefCell::new(DataDisplay::new(args.output.is_none(), &stop));
    let trained = load_trained(&args.model)?;
    let input = if args.test {
        ScoreInput::Examples(open_test_set(&trained.path)?)
    } else {
        let on_bad = if args.on_bad == OnBadName::Fail { OnBad::Fail } else { OnBad::Skip };
        let files = InputFiles { paths: args.inputs.clone(), on_bad, ..Default::default() };
        let opened = open_input(&trained.model, &files, &mut *display.borrow_mut());
        opened.map_err(|error| score_failure(error, &interrupt))?
    };
    let options = PredictOptions {
        style: args.style(),
        format,
        bad_rows: args.on_bad.into(),
        threads: args.threads.map(|threads| threads as usize),
    };
    let start = Instant::now();
    let observer = |rows| {
        let elapsed = start.elapsed();
        display.borrow_mut().show(&scoring_text("predicting", &input, rows, elapsed), elapsed);
        interrupt.signal().is_some()
    };
    let run = |out: &mut dyn Write| {
        let mut out = BufWriter::with_capacity(WRITE_BYTES, out);
        write_predictions(&trained.model, &input, &options, &mut out, &observer)
    };
    let predicted = match &args.output {
        None => run(&mut io::stdout().lock()),
        Some(path) => OutputFile::create(path, args.force).and_then(|mut file| {
            interrupt.remove_unfinished(file.part().map(Path::to_owned));
            let counts = run(&mut file).map_err(|error| error.in_file(path))?;
            file.finish()?;
            Ok(counts)
        }),
    };
    let counts = match predicted {
        // A reader that has seen enough is not an error.
        Err(ScoreError::Closed) => return Ok(()),
        predicted => predicted.map_err(|error| score_failure(error, &interrupt))?,
    };
    drop(display);
    report(args, &counts, start.elapsed().as_secs_f64());
    Ok(())
}

/// How far the scoring of an input is, in words; `action` says what for.
pub(super) fn scoring_text(
    action: &str,
    input: &ScoreInput,
    rows: u64,
    elapsed: Duration,
) -> String {
    let rate = grouped((rows as f64 / elapsed.as_secs_f64().max(1e-9)) as u64);
    match input {
        ScoreInput::Examples(all) => {
            let share = 100 * rows / (all.len() as u64).max(1);
            format!("{action} {}: {share} % ({rate} rows/s)", all.origin)
        }
        ScoreInput::Text(_) => {
            format!("{action} {}: {} rows ({rate} rows/s)", input.origin(), grouped(rows))
        }
    }
}

/// Says what was done, on standard error.
fn report(args: &PredictArgs, counts: &PredictCounts, seconds: f64) {
    if let Some(path) = &args.output {
        let rate = grouped((counts.rows as f64 / seconds.max(1e-9)) as u64);
        let rows = counted(counts.rows, "row");
        write_line(&format!("{}: {rows} in {seconds:.2} s ({rate} rows/s)", path.display()));
    }
    if let Some(first) = &counts.first_bad {
        let done = if args.on_bad == OnBadName::Mark { "marked" } else { "skipped" };
        let rows = counted(counts.bad, "bad row");
        write_line(&format!("warning: {rows} {done}; the first: {first}"));
    }
}
