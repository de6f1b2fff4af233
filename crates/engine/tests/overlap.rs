//! Networks that are exchanged layer by layer end with the bits of those that are not.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

use std::path::Path;

use paceline_data::Digits;
use paceline_engine::{
    CheckpointSettings, FactorChoice, Mode, ModelSizing, Session, SessionReport, Sharing, Stop,
    TrainError, WireFormat,
};
use paceline_model::{Layer, LayerKind, Model, Momentum, Network, Shape, Softmax, Windows};

/// Enough parameters to be exchanged in pieces: 642,228.
fn session() -> Session {
    let build = |sizing: ModelSizing| {
        let layers = vec![
            Layer::conv("conv", 8, 5, 1, 2),
            Layer::new("relu", LayerKind::Relu),
            Layer::new("pool", LayerKind::MaxPool(Windows::square(2, 2))),
            Layer::new("flatten", LayerKind::Flatten),
            Layer::dense("hidden", 400),
            Layer::new("tanh", LayerKind::Tanh),
            Layer::new("dropout", LayerKind::Dropout { rate: 0.2 }),
            Layer::dense("scores", 34),
        ];
        let network =
            Network::new(Shape::image(1, 28, 28), layers, sizing.block.min(64), sizing.threads);
        Ok(Box::new(network.unwrap()) as Box<dyn Model>)
    };
    // The last step has 8 examples for one worker, 3 for another and none for the others.
    Session::with_builder(build, Digits::generate(75, 1))
        .optimizer(Momentum::new(0.05, 0.9).decay(1e-3))
        .batch(8)
        .threads(1)
        .stop(Stop::epochs(2))
}

fn bits(report: &SessionReport) -> Vec<u32> {
    report.params.iter().map(|param| param.to_bits()).collect()
}

#[test]
fn exchanged_layer_by_layer_with_or_without_factors_a_run_has_the_bits_of_sync() {
    for workers in [2, 3, 4] {
        let sync = Sharing::servers(1).workers(workers).mode(Mode::SYNC);
        let sync = session().share(sync).run().unwrap();
        for factors in [FactorChoice::Auto, FactorChoice::Always, FactorChoice::Never] {
            let mesh = session().share(Sharing::mesh(workers)).factors(factors).run().unwrap();
            assert_eq!(mesh.steps, sync.steps, "{workers} {factors:?}");
            assert_eq!(mesh.summary.examples, sync.summary.examples, "{workers} {factors:?}");
            assert!(bits(&mesh) == bits(&sync), "{workers} workers, {factors:?}: bits differ");
        }
    }
}

#[test]
fn tests_and_a_limit_of_steps_do_not_change_the_bits() {
    let plain = |factors| session().share(Sharing::mesh(2)).factors(factors);
    for factors in [FactorChoice::Always, FactorChoice::Never] {
        let limited = plain(factors).stop(Stop::steps(5)).run().unwrap();
        let tested = plain(factors).stop(Stop::steps(5)).test_every(1).run().unwrap();
        assert_eq!((limited.steps, tested.steps), (5, 5));
        assert!(bits(&limited) == bits(&tested), "{factors:?}");
    }
}

#[test]
fn a_run_that_is_resumed_from_a_checkpoint_has_the_bits_of_one_that_is_not() {
    for (factors, wire) in [
        (FactorChoice::Always, WireFormat::F32),
        (FactorChoice::Never, WireFormat::F32),
        (FactorChoice::Auto, WireFormat::Bf16),
        (FactorChoice::Never, WireFormat::Bf16),
    ] {
        let mesh = |dir: &Path| {
            let session = session().share(Sharing::mesh(3).wire(wire)).factors(factors);
            session.checkpoints(dir, CheckpointSettings::steps(3))
        };
        let (whole, cut) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let whole = mesh(whole.path()).stop(Stop::steps(7)).run().unwrap();
        mesh(cut.path()).stop(Stop::steps(4)).run().unwrap();
        let resumed = mesh(cut.path()).resume().stop(Stop::steps(7)).run().unwrap();
        assert_eq!(resumed.steps, 7);
        assert!(bits(&whole) == bits(&resumed), "{factors:?} {wire:?}: bits differ");
    }
}

#[test]
fn rounded_gradients_give_equal_bits_and_nearly_the_same_loss() {
    for workers in [2, 3] {
        let mesh = |wire, factors| {
            session().share(Sharing::mesh(workers).wire(wire)).factors(factors).run().unwrap()
        };
        let exact = mesh(WireFormat::F32, FactorChoice::Never);
        let rounded = mesh(WireFormat::Bf16, FactorChoice::Never);
        assert!(bits(&rounded) == bits(&mesh(WireFormat::Bf16, FactorChoice::Never)));
        assert!(bits(&rounded) != bits(&exact), "nothing was rounded");
        let difference = (rounded.test_loss - exact.test_loss).abs();
        assert!(difference < 0.02 * exact.test_loss, "{difference} of {}", exact.test_loss);
        let bytes = |report: &SessionReport| report.summary.tasks[1].sent_bytes as f64;
        let share = bytes(&rounded) / bytes(&exact);
        assert!((0.49..0.52).contains(&share), "worker:1 sends {share} of the bytes");
    }
}

#[test]
fn factors_that_cannot_travel_are_refused() {
    let refused = |session: Session, says: &str| match session.run() {
        Err(TrainError::Settings(text)) => assert!(text.contains(says), "{text}"),
        other => panic!("{says}: {:?}", other.map(|report| report.steps)),
    };
    for factors in [FactorChoice::Always, FactorChoice::Never] {
        refused(session().factors(factors), "factors are for Sharing::mesh");
        let servers = session().share(Sharing::servers(1).workers(2)).factors(factors);
        refused(servers, "factors are for Sharing::mesh");
    }
    let mesh = || session().share(Sharing::mesh(2)).factors(FactorChoice::Always);
    refused(mesh().batch(65), "a batch of 65 is computed in blocks of 64");
    let softmax = Session::new(Softmax::new(784, 10), Digits::generate(75, 1))
        .share(Sharing::mesh(2))
        .factors(FactorChoice::Always);
    refused(softmax, "this model has no layers");
}
