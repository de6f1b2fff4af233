//! Keys of early stopping, starts, weights, penalties, schedules and sets.

use std::path::Path;

use paceline_engine::{BestSettings, TestMetric};
use paceline_job::{Plan, RawJob, ValidationPlan};
use paceline_model::Schedule;

fn job(settings: &[&str]) -> RawJob {
    let mut job = RawJob::parse("", Path::new("job.toml")).unwrap();
    settings.iter().for_each(|setting| job.set(setting));
    job
}

fn plan(settings: &[&str]) -> Plan {
    job(settings).check().unwrap_or_else(|problems| panic!("{problems}"))
}

#[track_caller]
fn refused(settings: &[&str], says: &[&str]) {
    let problems = match job(settings).check() {
        Err(problems) => problems.to_string(),
        Ok(_) => panic!("{settings:?} is not refused"),
    };
    says.iter().for_each(|text| assert!(problems.contains(text), "{text}: {problems}"));
}

#[test]
fn patience_keeps_the_best_model_and_tests_at_a_fixed_interval() {
    let early = plan(&["train.stop.patience=5", "train.metric=accuracy"]);
    assert_eq!(early.stop.patience, Some(5));
    assert_eq!(early.evaluate.every, Some(100));
    let expected = BestSettings { metric: TestMetric::Accuracy, min_gain: 0.0, keep: true };
    assert_eq!(early.best, expected);
    assert!(!plan(&["train.stop.patience=5", "train.keep_best=false"]).best.keep);
    assert_eq!(plan(&[]).best, BestSettings::default());
    let every = ["train.stop.patience=5", "train.evaluate.every=auto"];
    refused(&every, &["train.evaluate.every is \"auto\"", "train.stop.patience is set"]);
    let auc = ["train.stop.patience=5", "train.metric=auc"];
    refused(&auc, &["train.metric is \"auc\"", "but softmax does not"]);
    assert!(job(&[&auc[..], &["model.kind=logistic"]].concat()).check().is_ok());
}

#[test]
fn class_weights_are_a_list_of_numbers_that_are_not_negative() {
    assert_eq!(*plan(&["train.class_weights=[1, 2.5]"]).class_weights, [1.0, 2.5]);
    assert!(plan(&[]).class_weights.is_empty());
    for bad in ["2", "[]", "[1, -1]", "[1, nan]", "\"balanced\""] {
        let setting = format!("train.class_weights={bad}");
        refused(&[&setting], &["train.class_weights must be a list of numbers from 0 up"]);
    }
    refused(&["train.class_weights=[\"a\"]"], &["a list of numbers from 0 up, not the list"]);
    let text = job(&["train.class_weights=[1, 2.5]"]).explain();
    assert!(text.contains("class_weights = [1, 2.5]"), "{text}");
}

#[test]
fn penalties_apply_to_weights_and_are_refused_where_they_are_not_exact() {
    let sgd = plan(&["train.optimizer.l1=0.1", "train.optimizer.l2=0.2"]).optimizer;
    assert_eq!((sgd.weights.l1, sgd.weights.decay), (0.1, 0.2));
    assert_eq!((sgd.biases.l1, sgd.biases.decay), (0.0, 0.0));
    let adam = ["train.optimizer.kind=adam", "train.optimizer.l1=0.1"];
    refused(&adam, &["train.optimizer.l1 applies only with train.optimizer.kind = \"sgd\""]);
    let both = ["train.optimizer.l2=0.1", "train.optimizer.decay=0.1"];
    refused(&both, &["train.optimizer.l2 is set, but so is a decay"]);
    let sparse = ["model.kind=logistic", "train.optimizer.l1=0.1"];
    refused(&sparse, &["sgd with l1 would have to touch every parameter", "model.dense = true"]);
    assert!(job(&[&sparse[..], &["model.dense=true"]].concat()).check().is_ok());
    let ftrl = [&sparse[..], &["train.optimizer.kind=ftrl", "train.optimizer.l2=0.2"]].concat();
    assert!(job(&ftrl).check().is_ok());
}

#[test]
fn a_schedule_may_warm_up_and_fall_along_a_cosine() {
    let optimizer = plan(&[
        "train.optimizer.rate=0.5",
        "train.optimizer.schedule={kind=\"cosine\", over=200, end=0.1, warm_up=10}",
    ])
    .optimizer;
    assert_eq!(optimizer.weights.rate, Schedule::Cosine { rate: 0.5, end: 0.1, over: 200 });
    assert_eq!((optimizer.weights.warm_up, optimizer.biases.warm_up), (10, 10));
    let constant = plan(&["train.optimizer.schedule.warm_up=4"]).optimizer;
    assert_eq!((constant.weights.warm_up, constant.weights.rate.at(9)), (4, 0.15));
    let own = plan(&["train.optimizer.biases.schedule={kind=\"cosine\", warm_up=3}"]).optimizer;
    assert_eq!((own.weights.warm_up, own.biases.warm_up), (0, 3));
    let ftrl = ["train.optimizer.kind=ftrl", "train.optimizer.schedule.kind=cosine"];
    refused(&ftrl, &["train.optimizer.schedule.end is 0"]);
}

#[test]
fn sets_are_shares_or_paths() {
    let rows = ["data.kind=libsvm", "data.path=x", "data.index_base=one"];
    let with = |settings: &[&'static str]| plan(&[&rows[..], settings].concat()).data;
    let shares = with(&["data.validation=0.2", "data.test=0.1", "data.negatives=0.5"]);
    assert_eq!(shares.validation, Some(ValidationPlan::Share(0.2)));
    assert_eq!((shares.test_share, shares.negatives), (Some(0.1), Some(0.5)));
    let files = with(&["data.validation=valid.svm", "data.test=test.svm"]);
    let Some(ValidationPlan::Rows(path)) = files.validation else { panic!("not rows") };
    assert!(path.is_absolute() && path.ends_with("valid.svm"));
    assert_eq!(files.test_share, None);
    refused(&["data.validation=1.5"], &["data.validation must be a number between 0 and 1, or"]);
    refused(&["data.validation=x"], &["is a path, but data.kind is \"digits\"; set a share"]);
    let auto = ["data.kind=libsvm", "data.path=x", "data.validation=y"];
    refused(&auto, &["set data.index_base = \"zero\" or \"one\""]);
    let twice = [&rows[..], &["data.test=0.1", "data.hold_out=5"]].concat();
    refused(&twice, &["data.hold_out applies only without data.test"]);
    let softmax = ["data.kind=clicks", "model.kind=softmax", "data.negatives=0.5"];
    refused(&softmax, &["data.negatives applies only with model.kind = \"logistic\""]);
}

#[test]
fn where_a_job_starts_is_part_of_no_digest() {
    let plain = job(&[]);
    assert_eq!(plan(&["train.start=runs/a"]).start.unwrap().file_name().unwrap(), "a");
    assert_eq!(job(&["train.start=runs/a"]).digest(), job(&["train.start=/b/runs/a"]).digest());
    assert_eq!(job(&["train.start=runs/a"]).digest(), plain.digest());
}
