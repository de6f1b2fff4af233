//! Early stopping, warm starts, weights and validation sets, in every mode.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

use std::sync::{Arc, Mutex};

use paceline_data::{Digits, Images, SparseRows, TrainTest};
use paceline_engine::{
    CheckpointSettings, FinalModel, Mode, Session, SessionReport, Sharing, StartModel, Stop,
    TaskContext, TestMetric, TrainError,
};
use paceline_model::{AdaGrad, Ftrl, Logistic, Model, Momentum, OptimizerSpec, Sgd, Softmax};
use paceline_observe::BestTest;

/// A way of sharing of each mode with exact bits.
fn exact() -> [Sharing; 3] {
    [Sharing::none(), Sharing::servers(2).workers(2), Sharing::mesh(2)]
}

fn digits() -> TrainTest<Images> {
    Digits::generate(240, 1)
}

fn softmax() -> Session {
    Session::new(Softmax::new(784, 10), digits()).optimizer(Sgd::new(0.3)).batch(20).test_every(4)
}

fn rows() -> SparseRows {
    let rows = (0..200u32).map(|i| ([i % 10, 10 + i % 7], [], u32::from(i % 10 < 5)));
    SparseRows::from_rows(20, rows).unwrap()
}

fn sparse(rows: SparseRows) -> Session {
    let rows = rows.hold_out(40, 1).unwrap();
    Session::sparse(Logistic::new(20), rows).optimizer(Sgd::new(0.1)).batch(10).test_every(4)
}

fn bits(params: &[f32]) -> Vec<u32> {
    params.iter().map(|param| param.to_bits()).collect()
}

fn refused(session: Session, says: &str) {
    match session.run() {
        Err(TrainError::Settings(text)) => assert!(text.contains(says), "{text}"),
        other => panic!("{says}: {:?}", other.map(|report| report.steps)),
    }
}

fn patient() -> Stop {
    Stop::epochs(300).or(Stop::patience(3))
}

#[test]
fn a_run_stops_when_tests_do_not_become_better_and_keeps_the_parameters_of_the_best() {
    for sharing in exact() {
        let early = || softmax().share(sharing).metric(TestMetric::Accuracy);
        let report = early().stop(patient()).keep_best().run().unwrap();
        assert_eq!(report.summary.stop_reason, "patience", "{sharing}");
        let best = report.summary.best.clone().unwrap();
        assert_eq!(best.metric, "accuracy");
        assert!(best.value >= report.accuracy && best.step <= report.steps, "{sharing}: {best:?}");
        let again = early().stop(patient()).run().unwrap();
        assert_eq!(bits(&again.params), bits(&report.params), "{sharing}");
        assert!(again.best_params.is_none());
        let only = early().stop(Stop::steps(best.step)).run().unwrap();
        assert_eq!(bits(&only.params), bits(&report.best_params.unwrap()), "{sharing}");
        assert_eq!(only.accuracy, best.value, "{sharing}");
    }
}

#[test]
fn sync_and_mirrored_stop_early_with_the_same_bits() {
    let report = |sharing: Sharing| {
        let session = softmax().share(sharing).metric(TestMetric::Accuracy).keep_best();
        session.stop(patient()).run().unwrap()
    };
    let (sync, mirrored) = (report(Sharing::servers(1).workers(2)), report(Sharing::mesh(2)));
    assert_eq!((sync.steps, &sync.summary.best), (mirrored.steps, &mirrored.summary.best));
    assert_eq!(bits(&sync.params), bits(&mirrored.params));
}

#[test]
fn a_gain_that_is_too_small_does_not_keep_a_run_going() {
    let steps = |min_gain| {
        let session = softmax().stop(Stop::steps(400).or(Stop::patience(2))).min_gain(min_gain);
        session.run().unwrap().steps
    };
    assert!(steps(0.5) < steps(0.0), "{} {}", steps(0.5), steps(0.0));
}

#[test]
fn a_resumed_run_stops_early_where_one_without_interruption_does() {
    for sharing in exact() {
        let early = || softmax().share(sharing).metric(TestMetric::Accuracy);
        let whole = early().stop(patient()).run().unwrap();
        // Right before a test, at one, and after it: at each the state differs.
        for back in [1, 4, 6, 13] {
            let dir = tempfile::tempdir().unwrap();
            let checkpoints = CheckpointSettings::steps(3);
            let until = whole.steps - back;
            let first = early().checkpoints(dir.path(), checkpoints);
            let first = first.stop(Stop::steps(until).or(Stop::patience(1_000)));
            assert_eq!(first.run().unwrap().steps, until, "{sharing}");
            let resumed = early().checkpoints(dir.path(), checkpoints).stop(patient()).resume();
            let resumed = resumed.run().unwrap();
            assert_eq!(resumed.summary.stop_reason, "patience", "{sharing}, {back} back");
            assert_eq!(resumed.steps, whole.steps, "{sharing}, {back} back");
            assert_eq!(bits(&resumed.params), bits(&whole.params), "{sharing}, {back} back");
        }
    }
}

#[test]
fn asynchronous_and_bounded_runs_stop_early_too() {
    for mode in [Mode::Async, Mode::Bounded { staleness: 2 }] {
        let session = softmax().metric(TestMetric::Accuracy).keep_best().stop(patient());
        let report = session.share(Sharing::servers(1).workers(2).mode(mode)).run().unwrap();
        let best = report.summary.best.unwrap();
        assert!(best.value > 0.5 && report.best_params.is_some(), "{mode:?}: {best:?}");
    }
}

#[test]
fn a_sparse_model_stops_early_by_its_auc_and_keeps_all_parameters_of_the_best() {
    for sharing in [Sharing::none(), Sharing::servers(2).workers(2)] {
        let early = || sparse(rows()).metric(TestMetric::Auc).share(sharing);
        let report = early().stop(patient()).keep_best().run().unwrap();
        assert_eq!(report.summary.stop_reason, "patience", "{sharing}");
        let best = report.summary.best.unwrap();
        let only = early().stop(Stop::steps(best.step)).run().unwrap();
        assert_eq!(bits(&only.params), bits(&report.best_params.unwrap()), "{sharing}");
    }
    refused(softmax().metric(TestMetric::Auc).stop(patient()), "not one of two classes");
}

#[test]
fn the_best_parameters_are_replaced_by_better_ones_only_even_over_processes() {
    #[derive(Default)]
    struct Keeping(Arc<Mutex<Vec<BestTest>>>);

    impl TaskContext for Keeping {
        fn save_best(&self, _model: FinalModel<'_>, best: &BestTest) -> Result<(), TrainError> {
            self.0.lock().unwrap().push(best.clone());
            Ok(())
        }

        fn kept_best(&self) -> Result<Option<BestTest>, TrainError> {
            Ok(self.0.lock().unwrap().last().cloned())
        }
    }

    let kept = Arc::new(Mutex::new(Vec::new()));
    let session = |steps| {
        let kept = kept.clone();
        let session = softmax().keep_best().stop(Stop::steps(steps));
        session.contexts(move |_| Ok(Arc::new(Keeping(kept.clone()))))
    };
    session(40).run().unwrap();
    let first = kept.lock().unwrap().clone();
    assert!(first.len() > 1 && first.is_sorted_by(|a, b| a.value > b.value), "{first:?}");
    // The same losses again: none is better.
    session(40).run().unwrap();
    assert_eq!(*kept.lock().unwrap(), first);
}

fn started(start: &SessionReport) -> StartModel {
    StartModel::of_params(&start.layout, start.params.clone())
}

#[test]
fn a_run_starts_from_the_parameters_of_a_trained_model_in_every_mode() {
    let optimizers = || [Sgd::new(0.1), Momentum::new(0.1, 0.9), Ftrl::new(0.5)];
    for sharing in exact() {
        for optimizer in optimizers() {
            let session = || softmax().share(sharing).optimizer(optimizer.clone());
            let first = session().stop(Stop::steps(20)).run().unwrap();
            let second = session().start(started(&first)).stop(Stop::steps(1)).run().unwrap();
            let name = optimizer.optimizer().name();
            assert!(second.test_loss < 1.2 * first.test_loss, "{sharing} {name}");
            assert_ne!(bits(&second.params), bits(&first.params), "{sharing} {name}");
        }
    }
}

#[test]
fn new_features_of_a_sparse_model_start_at_zero_in_every_mode() {
    let first = sparse(rows()).stop(Stop::epochs(3)).run().unwrap();
    let wider = |optimizer: OptimizerSpec, sharing| {
        // The new keys are in no row: their parameters stay as they start.
        let rows = (0..200u32).map(|i| ([i % 10, 10 + i % 7], [], u32::from(i % 10 < 5)));
        let rows = SparseRows::from_rows(30, rows).unwrap().hold_out(40, 1).unwrap();
        let session = Session::sparse(Logistic::new(30), rows).optimizer(optimizer).batch(10);
        session.start(started(&first)).share(sharing).stop(Stop::steps(1)).run().unwrap()
    };
    for sharing in [Sharing::none(), Sharing::servers(2).workers(2)] {
        for optimizer in [Sgd::new(1e-9), AdaGrad::new(1e-9), Ftrl::new(0.1)] {
            let report = wider(optimizer.clone(), sharing);
            let [old, new, bias] = [0..20, 20..30, 30..31].map(|range| &report.params[range]);
            let name = optimizer.optimizer().name();
            assert!(new.iter().all(|&param| param == 0.0), "{sharing} {name}: {new:?}");
            let near = |(ours, start): (&f32, &f32)| (ours - start).abs() < 0.1;
            assert!(old.iter().zip(&first.params).all(near), "{sharing} {name}: {old:?}");
            assert!(near((&bias[0], &first.params[20])), "{sharing} {name}");
        }
    }
    let narrow = Session::sparse(Logistic::new(12), narrow_rows()).start(started(&first));
    refused(narrow, "tensor \"weight\" is [20], but the model has [12]");
}

fn narrow_rows() -> TrainTest<SparseRows> {
    let rows = (0..100u32).map(|i| ([i % 12], [], i % 2));
    SparseRows::from_rows(12, rows).unwrap().hold_out(20, 1).unwrap()
}

#[test]
fn servers_start_from_a_model_with_the_bits_of_a_single_process() {
    let first = softmax().stop(Stop::steps(20)).run().unwrap();
    let one = softmax().start(started(&first)).stop(Stop::steps(5));
    let two = softmax().start(started(&first)).stop(Stop::steps(5));
    let shared = two.share(Sharing::servers(2).workers(1)).run().unwrap();
    assert_eq!(bits(&one.run().unwrap().params), bits(&shared.params));
}

#[test]
fn weights_of_examples_and_classes_give_the_same_bits_in_every_exact_mode() {
    let weights: Vec<f32> = (0..200).map(|i| 0.5 + (i % 4) as f32).collect();
    let weighted = || rows().with_weights(weights.clone()).unwrap();
    let run = |session: Session| bits(&session.stop(Stop::epochs(3)).run().unwrap().params);
    let plain = run(sparse(rows()));
    let one = run(sparse(weighted()));
    assert_ne!(one, plain);
    assert_eq!(run(sparse(weighted()).share(Sharing::servers(2).workers(1))), one);
    // The same through the compact slice of another optimizer that steps equally.
    assert_eq!(run(sparse(rows()).class_weights([1.0, 1.0])), plain);
    let classes = run(sparse(rows()).class_weights([1.0, 3.0]));
    let by_row = (0..200).map(|i| if i % 10 < 5 { 3.0 } else { 1.0 }).collect();
    assert_eq!(run(sparse(rows().with_weights(by_row).unwrap())), classes);
    let dense = |session: Session| bits(&session.stop(Stop::steps(10)).run().unwrap().params);
    let of_classes = [1.0, 2.0, 0.5, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 4.0];
    let one = dense(softmax().class_weights(of_classes));
    assert_ne!(one, dense(softmax()));
    assert_eq!(dense(softmax().class_weights(of_classes).share(Sharing::servers(2))), one);
    refused(
        softmax().class_weights([1.0, 2.0]),
        "class_weights has 2 numbers, but the data has 10 classes",
    );
}

#[test]
fn weights_that_a_model_ignores_are_refused() {
    #[derive(Clone)]
    struct Ignoring(Softmax);

    impl Model for Ignoring {
        fn layout(&self) -> &paceline_model::Layout {
            self.0.layout()
        }
        fn inputs(&self) -> usize {
            self.0.inputs()
        }
        fn gradient(
            &mut self,
            params: &[f32],
            block: paceline_model::Batch<'_>,
            share: f32,
            mode: paceline_model::OutputMode,
            grad: &mut [f32],
        ) -> f32 {
            self.0.gradient(params, block, share, mode, grad)
        }
        fn evaluate(
            &mut self,
            params: &[f32],
            block: paceline_model::Batch<'_>,
            tally: &mut paceline_model::Tally,
        ) {
            self.0.evaluate(params, block, tally);
        }
        fn max_block(&self) -> usize {
            self.0.max_block()
        }
    }

    let session = || Session::new(Ignoring(Softmax::new(784, 10)), digits()).batch(20);
    session().stop(Stop::steps(2)).run().unwrap();
    refused(
        session().class_weights([1.0; 10]),
        "the classes have weights, but this model ignores them",
    );
}

#[test]
fn tests_during_training_use_the_validation_set_and_the_last_one_the_test_set() {
    for sharing in exact() {
        let data = digits();
        let [train, validation] = data.train.hold_out(60, 7).unwrap();
        let data = TrainTest { train, ..data }.with_validation(validation);
        let session = Session::new(Softmax::new(784, 10), data).batch(20).share(sharing);
        let report = session.stop(Stop::steps(12)).test_every(4).run().unwrap();
        let validation = report.summary.validation.unwrap();
        assert_eq!(validation.step, 12, "{sharing}");
        assert_ne!(validation.loss, report.test_loss, "{sharing}");
        // The test set alone gives the same final figures.
        let data = digits();
        let [train, _] = data.train.hold_out(60, 7).unwrap();
        let data = TrainTest { train, ..data };
        let session = Session::new(Softmax::new(784, 10), data).batch(20).share(sharing);
        let alone = session.stop(Stop::steps(12)).test_every(4).run().unwrap();
        assert_eq!(bits(&alone.params), bits(&report.params), "{sharing}");
        assert_eq!(alone.test_loss, report.test_loss, "{sharing}");
        assert!(alone.summary.validation.is_none());
    }
    let data = rows().hold_out(40, 1).unwrap();
    let split = data.train.hold_out(30, 2).unwrap();
    let data = TrainTest { train: split.train, ..data }.with_validation(split.test);
    for sharing in [Sharing::none(), Sharing::servers(2).workers(2)] {
        let session = Session::sparse(Logistic::new(20), data.clone()).batch(10).share(sharing);
        let report = session.stop(Stop::epochs(2)).run().unwrap();
        assert!(report.summary.validation.is_some(), "{sharing}");
        assert_eq!(report.summary.examples, 2 * 130, "{sharing}");
    }
}

#[test]
fn penalties_that_cannot_be_exact_are_refused_with_the_reason() {
    refused(softmax().optimizer(Momentum::new(0.1, 0.9).l1(0.01)), "momentum has no exact L1");
    softmax().optimizer(AdaGrad::new(0.1).l1(0.01).l2(0.1)).stop(Stop::steps(2)).run().unwrap();
}

#[test]
fn a_warm_up_and_a_cosine_give_the_same_bits_in_every_exact_mode_and_after_a_resume() {
    let falling = paceline_model::Schedule::Cosine { rate: 0.5, end: 0.01, over: 30 };
    let session = |sharing: Sharing| {
        softmax().share(sharing).optimizer(Momentum::new(falling, 0.9).warm_up(5))
    };
    let whole = session(Sharing::mesh(2)).stop(Stop::steps(20)).run().unwrap();
    for sharing in [Sharing::servers(2).workers(2), Sharing::mesh(2)] {
        let dir = tempfile::tempdir().unwrap();
        let part = |steps| {
            let session = session(sharing).stop(Stop::steps(steps));
            session.checkpoints(dir.path(), CheckpointSettings::steps(3))
        };
        part(4).run().unwrap();
        let resumed = part(20).resume().run().unwrap();
        assert_eq!(bits(&resumed.params), bits(&whole.params), "{sharing}");
    }
}
