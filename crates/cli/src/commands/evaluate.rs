//! `paceline evaluate`: tests a trained model again.

use std::sync::{Arc, Mutex, PoisonError};

use paceline_engine::{LongWork, TaskContext, TestWatch};
use paceline_record::model_file;
use paceline_record::names::files;
use serde_json::json;

use super::output::print;
use super::read_job::{keep_split, read_job};
use super::run_path::check_exists;
use crate::Failure;
use crate::cli::{EvaluateArgs, JobArgs};
use crate::closing_table::auc_text;
use crate::data_display::DataDisplay;
use crate::interrupt::Interrupt;
use crate::load_data::load_data;
use crate::progress::Progress;
use crate::stop_source::StopSource;
use crate::terminal::wrap_output;
use crate::text_table::counted;
use crate::workload::build_workload;
use paceline_job::ModelKind;

/// Tests a model on the test examples of a job; by default, the job that trained it.
pub(super) fn evaluate(args: &EvaluateArgs) -> Result<(), Failure> {
    let model_path =
        if args.model.is_dir() { args.model.join(files::MODEL) } else { args.model.clone() };
    check_exists(&args.model)?;
    if !model_path.exists() {
        let path = model_path.display();
        let why = format!("{path}: there is no such file; a run writes its model when it ends");
        return Err(Failure::Usage(why));
    }
    let beside = model_path.with_file_name(files::JOB);
    let own = args.file.is_none().then_some(beside).filter(|beside| beside.is_file());
    let file = args.file.clone().or_else(|| own.clone());
    let mut job = read_job(&JobArgs { file, settings: args.settings.clone() })?;
    keep_split(&mut job, own.as_deref());
    let mut plan = job.check_for_test()?;
    // A signal ends the process at once: it writes nothing but a cache, by rename.
    let stop = StopSource { interrupt: Interrupt::default(), channel: None };
    let data = load_data(&job, &plan, &mut DataDisplay::new(false, &stop))?;
    if plan.model.is_sparse() {
        // The model file holds all parameters, however the model was trained.
        plan.model = ModelKind::Logistic { dense: true };
    }
    let workload = build_workload(&plan, data);
    let params = model_file::load(&model_path, &workload.layout()?)?;
    let examples = plan.evaluate.examples;
    let watch = TestWatch::new(Arc::new(TestProgress::default()));
    let score = workload.evaluator(examples, plan.test_threads())?.test(&params, &watch)?;
    if args.json {
        let mut figures = json!({
            "test_loss": score.loss,
            "test_accuracy": score.accuracy,
            "examples": score.examples,
        });
        if score.is_two_class {
            figures["test_auc"] = serde_json::Value::Null;
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
        return print(&format!("{figures}\n"));
    }
    let text = format!(
        "test loss {:.4}, accuracy {:.2} %{} of {} ({})",
        score.loss,
        100.0 * score.accuracy,
        auc_text(score.auc, score.auc_undefined()),
        counted(score.examples as u64, "example"),
        workload.data.origin()
    );
    print(&format!("{}\n", wrap_output(&text, "  ")))
}

/// Shows how far the test has come.
struct TestProgress(Mutex<Progress>);

impl Default for TestProgress {
    fn default() -> Self {
        Self(Mutex::new(Progress::of_waits(false)))
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
