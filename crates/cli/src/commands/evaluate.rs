//! `paceline evaluate`: tests a trained model again, on its job's test set or on any labelled file.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use paceline_engine::{LongWork, TaskContext, TestWatch};
use paceline_lab::closing_table::auc_text;
use paceline_model::{Score, ScoreFeed, ScoreObserver};
use paceline_record::model_file;
use paceline_record::names::files;
use paceline_score::{
    EvaluateOptions, Evaluation, EvaluationBuilder, InputFiles, ScoreError,
    evaluate as evaluate_input, evaluation_tables, open_input,
};
use serde_json::{Value, json};

use super::output::print;
use super::predict::scoring_text;
use super::read_job::{keep_defaults, read_job};
use super::trained_model::{load_trained, model_path, score_failure, test_set};
use crate::Failure;
use crate::data_display::DataDisplay;
use crate::describe_model::describe_model;
use crate::interrupt::Interrupt;
use crate::job_args::JobArgs;
use crate::load_data::load_data;
use crate::predict_args::{EvaluateArgs, OnBadName};
use crate::progress::{Progress, write_line};
use crate::stop_source::StopSource;
use crate::workload::whole_workload;
use paceline_data::OnBad;
use paceline_job::check_same_features;
use paceline_terminal::{counted, wrap_output};

/// The matrix of more classes is not kept in the run directory.
const MOST_KEPT_CLASSES: usize = 100;

/// The probability above which an example counts as one of the second class.
const DEFAULT_THRESHOLD: f64 = 0.5;

/// Tests a model on labelled files, or on the test examples of a job; by default, the job that
/// trained it.
pub(super) fn evaluate(args: &EvaluateArgs) -> Result<(), Failure> {
    let is_job = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "toml");
    let (jobs, inputs): (Vec<_>, Vec<_>) = args.inputs.iter().cloned().partition(is_job);
    if jobs.len() > 1 || !jobs.is_empty() && !inputs.is_empty() {
        let text = "evaluate on one job's test set, or on files, but not on both";
        return Err(Failure::Usage(text.into()));
    }
    let evaluated = if inputs.is_empty() {
        evaluate_job(args, jobs.into_iter().next())?
    } else if args.settings.is_empty() {
        evaluate_files(args, inputs)?
    } else {
        let text = "--set changes a job, and files are evaluated without one";
        return Err(Failure::Usage(text.into()));
    };
    record(args, &evaluated);
    if args.json {
        return print(&format!("{}\n", evaluated.json()));
    }
    let text = wrap_output(&evaluated.sentence(), "  ");
    print(&format!("{text}\n{}", evaluation_tables(&evaluated.figures)))
}

/// The result of an evaluation.
struct Evaluated {
    /// As a test while training gives it.
    score: Score,
    figures: Evaluation,
}

impl Evaluated {
    fn sentence(&self) -> String {
        format!(
            "test loss {:.4}, accuracy {:.2} %{} of {} ({})",
            self.score.loss,
            100.0 * self.score.accuracy,
            auc_text(self.score.auc, self.score.auc_undefined()),
            counted(self.score.examples, "example"),
            self.figures.data
        )
    }

    fn json(&self) -> Value {
        let score = &self.score;
        let mut figures = json!({
            "test_loss": score.loss,
            "test_accuracy": score.accuracy,
            "examples": score.examples,
        });
        if score.is_two_class {
            figures["test_auc"] = Value::Null;
        }
        if let Some(why) = score.auc_undefined() {
            figures["test_auc_undefined"] = why.into();
        }
        let two_class = [
            ("test_log_loss", score.is_two_class.then_some(score.loss)),
            ("test_auc", score.auc),
            ("test_precision", score.precision),
        ];
        for (name, figure) in two_class {
            if let Some(figure) = figure {
                figures[name] = figure.into();
            }
        }
        if let (Some(all), Value::Object(more)) = (figures.as_object_mut(), json!(self.figures)) {
            more.into_iter().for_each(|(name, figure)| {
                all.entry(name).or_insert(figure);
            });
        }
        figures
    }
}

/// Evaluates on the test examples of a job. The loss and the accuracy are computed by the
/// trainer's own test, so they have its bits.
fn evaluate_job(args: &EvaluateArgs, file: Option<PathBuf>) -> Result<Evaluated, Failure> {
    let path = model_path(&args.model)?;
    let beside = path.with_file_name(files::JOB);
    let own = file.is_none().then_some(beside).filter(|beside| beside.is_file());
    let file = file.or_else(|| own.clone());
    let mut job = read_job(&JobArgs { file, settings: args.settings.clone() })?;
    keep_defaults(&mut job, own.as_deref());
    let mut plan = job.check_for_test()?;
    if args.on_bad != OnBadName::Fail {
        plan.data.on_bad = OnBad::Skip;
    }
    // A signal ends the process at once: it writes nothing but a cache, by rename.
    let stop = StopSource { interrupt: Interrupt::default(), channel: None };
    let data = load_data(&job, &plan, &mut DataDisplay::new(false, &stop))?;
    let description = describe_model(&plan, &data)?;
    check_same_features(&path, &plan, &description)?;
    // The model file holds all parameters, however the model was trained.
    let workload = whole_workload(&plan, data);
    let params = model_file::load(&path, &workload.layout()?)?;
    let threshold = threshold(args, description.input.class_names.len())?;
    let scores = Arc::new(TestScores::new(&description.input.class_names, threshold));
    let mut watch = TestWatch::new(Arc::new(TestProgress::default()));
    watch.scores = ScoreFeed::to(scores.clone());
    let examples = plan.evaluate.examples;
    let score = workload.evaluator(examples, plan.test_threads())?.test(&params, &watch)?;
    drop(watch);
    let test = test_set(&workload.data);
    let tested = examples.map_or(test.len(), |examples| examples.min(test.len())) as u64;
    let figures = scores.finish(&test.origin, tested - score.examples);
    Ok(Evaluated { score, figures: figures.map_err(|e| score_failure(e, &Interrupt::default()))? })
}

/// Makes an evaluation of what a test judges.
struct TestScores(Mutex<EvaluationBuilder>);

impl TestScores {
    fn new(classes: &[String], threshold: f64) -> Self {
        Self(Mutex::new(EvaluationBuilder::new(classes, threshold)))
    }

    fn finish(&self, data: &str, skipped: u64) -> Result<Evaluation, ScoreError> {
        let mut builder = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let empty = EvaluationBuilder::new(&[], 0.5);
        std::mem::replace(&mut *builder, empty).finish(data, skipped)
    }
}

impl ScoreObserver for TestScores {
    fn scored(&self, scores: &[f32], labels: &[u32]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).add(scores, labels);
    }
}

/// Evaluates on labelled files.
fn evaluate_files(args: &EvaluateArgs, paths: Vec<PathBuf>) -> Result<Evaluated, Failure> {
    let failed = |error| score_failure(error, &Interrupt::default());
    let model = load_trained(&args.model)?.model;
    let on_bad = if args.on_bad == OnBadName::Fail { OnBad::Fail } else { OnBad::Skip };
    // A signal ends the process at once.
    let stop = StopSource { interrupt: Interrupt::default(), channel: None };
    let input = open_input(
        &model,
        &InputFiles { paths, labels: args.labels.clone(), needs_labels: true, on_bad },
        &mut DataDisplay::new(false, &stop),
    );
    let input = input.map_err(failed)?;
    let options = EvaluateOptions {
        threshold: threshold(args, model.class_names().len())?,
        bad_rows: args.on_bad.into(),
        ..EvaluateOptions::default()
    };
    let display = RefCell::new(DataDisplay::new(false, &stop));
    let start = Instant::now();
    let observer = |rows| {
        let elapsed = start.elapsed();
        let text = scoring_text("testing", &input, rows, elapsed);
        display.borrow_mut().show(&text, elapsed);
        false
    };
    let evaluated = evaluate_input(&model, &input, &options, &observer);
    drop(display);
    let figures = evaluated.map_err(failed)?;
    if figures.skipped > 0 {
        write_line(&format!("warning: {} skipped", counted(figures.skipped, "bad row")));
    }
    Ok(Evaluated { score: figures.score(), figures })
}

/// The threshold of the second class, which only a model of two classes has.
fn threshold(args: &EvaluateArgs, classes: usize) -> Result<f64, Failure> {
    match args.threshold {
        Some(_) if classes > 2 => Err(Failure::Usage(format!(
            "--threshold is for two classes, but the model has {classes}; leave it out"
        ))),
        threshold => Ok(threshold.unwrap_or(DEFAULT_THRESHOLD)),
    }
}

/// Keeps the evaluation of a run in its directory, for the page.
fn record(args: &EvaluateArgs, evaluated: &Evaluated) {
    if !args.model.is_dir() {
        return;
    }
    let path = args.model.join(files::EVALUATION);
    let mut figures = json!(evaluated.figures);
    if evaluated.figures.classes.len() > MOST_KEPT_CLASSES {
        figures["confusion"] = Value::Null;
    }
    let text = format!("{figures}\n");
    let written = paceline_record::write_whole(&path, |part| std::fs::write(part, text));
    if let Err(error) = written {
        write_line(&format!("warning: {error}; the page will not show this evaluation"));
    }
}

/// Shows how far the test has come.
struct TestProgress(Mutex<Progress>);

impl Default for TestProgress {
    fn default() -> Self {
        Self(Mutex::new(Progress::new(false)))
    }
}

impl TaskContext for TestProgress {
    fn working(&self, work: LongWork) {
        let mut progress = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        progress.show_work(work);
        if work.is_done() {
            progress.finish();
        }
    }
}
