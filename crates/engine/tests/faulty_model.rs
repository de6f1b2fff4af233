//! Models with faults: a session passes their panics on, in every mode, and never hangs.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use paceline_data::{Digits, InMemoryExamples, SparseRows};
use paceline_engine::{Mode, ModelSizing, Session, Sharing, Stop, TrainError};
use paceline_model::{
    Batch, FactorUpdate, Layer, LayerKind, LayerPiece, LayerSink, Layered, Layout, Logistic, Model,
    Network, OutputMode, PieceParams, Shape, Softmax, SparseModel, StepEvent, Tally,
};

/// Where a model fails.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// It panics in every gradient.
    Gradient,
    /// It panics in gradients of batches with this label.
    GradientOf(u32),
    /// It panics in tests.
    Evaluate,
    /// Its tests count nothing.
    CountsNothing,
}

#[derive(Clone)]
struct Faulty<M>(M, Fault);

impl<M: Model> Model for Faulty<M> {
    fn layout(&self) -> &Layout {
        self.0.layout()
    }

    fn inputs(&self) -> usize {
        self.0.inputs()
    }

    fn gradient(
        &mut self,
        params: &[f32],
        block: Batch<'_>,
        share: f32,
        mode: OutputMode,
        grad: &mut [f32],
    ) -> f32 {
        match self.1 {
            Fault::Gradient => panic!("a fault in gradient"),
            Fault::GradientOf(label) if block.labels.contains(&label) => {
                panic!("a fault in gradient")
            }
            _ => self.0.gradient(params, block, share, mode, grad),
        }
    }

    fn evaluate(&mut self, params: &[f32], block: Batch<'_>, tally: &mut Tally) {
        match self.1 {
            Fault::Evaluate => panic!("a fault in evaluate"),
            Fault::CountsNothing => {}
            _ => self.0.evaluate(params, block, tally),
        }
    }
}

impl<M: SparseModel> SparseModel for Faulty<M> {
    fn shared_keys(&self) -> std::ops::Range<u32> {
        self.0.shared_keys()
    }
}

/// A network that panics when the gradient of its last layer has been handed out.
struct FaultyLayers(Network);

impl Model for FaultyLayers {
    fn layout(&self) -> &Layout {
        self.0.layout()
    }

    fn inputs(&self) -> usize {
        self.0.inputs()
    }

    fn max_block(&self) -> usize {
        self.0.max_block()
    }

    fn gradient(
        &mut self,
        params: &[f32],
        block: Batch<'_>,
        share: f32,
        mode: OutputMode,
        grad: &mut [f32],
    ) -> f32 {
        self.0.gradient(params, block, share, mode, grad)
    }

    fn evaluate(&mut self, params: &[f32], block: Batch<'_>, tally: &mut Tally) {
        self.0.evaluate(params, block, tally);
    }

    fn layered(&mut self) -> Option<&mut dyn Layered> {
        Some(self)
    }
}

impl Layered for FaultyLayers {
    fn pieces(&self) -> Vec<LayerPiece> {
        self.0.pieces()
    }

    fn forward_pass(
        &mut self,
        block: Batch<'_>,
        share: f32,
        params: PieceParams<'_, '_>,
        observe: &mut (dyn FnMut(StepEvent<'_>) + Send),
    ) -> Option<f32> {
        self.0.forward_pass(block, share, params, observe)
    }

    fn backward_pass(
        &mut self,
        sink: &mut dyn LayerSink,
        _: &mut (dyn FnMut(StepEvent<'_>) + Send),
    ) -> bool {
        let last = self.pieces().len() - 1;
        if let Some(gradient) = sink.gradient(last) {
            gradient.fill(0.0);
            sink.gradient_done(last);
        }
        panic!("a fault between two layers");
    }

    fn apply_factors(&mut self, update: FactorUpdate<'_>) {
        self.0.apply_factors(update);
    }
}

fn all_sharing() -> [Sharing; 5] {
    let servers = Sharing::servers(1).workers(2);
    let bounded = servers.mode(Mode::Bounded { staleness: 3 });
    [Sharing::none(), servers, servers.mode(Mode::Async), bounded, Sharing::mesh(2)]
}

/// The message of the panic that `run` ends with.
fn panic_of(run: impl FnOnce() -> Result<u64, TrainError>) -> String {
    let ended = catch_unwind(AssertUnwindSafe(run));
    let panic = ended.map_err(|panic| match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => (*panic.downcast::<&str>().unwrap()).to_owned(),
    });
    panic.unwrap_err()
}

fn softmax(fault: Fault) -> Session {
    let data = Digits::generate(240, 1);
    Session::new(Faulty(Softmax::new(784, 10), fault), data).batch(20).stop(Stop::epochs(2))
}

#[test]
fn a_panic_in_a_model_reaches_the_caller_in_every_mode() {
    for sharing in all_sharing() {
        for (fault, says) in
            [(Fault::Gradient, "a fault in gradient"), (Fault::Evaluate, "a fault in evaluate")]
        {
            let panic = panic_of(|| Ok(softmax(fault).share(sharing).run()?.steps));
            assert_eq!(panic, says, "{sharing}");
        }
    }
}

#[test]
fn a_panic_in_one_worker_reaches_the_caller() {
    // One example of class 1, which one of the workers takes at some step of the epoch.
    for sharing in all_sharing() {
        for at in 0..4 {
            let rows = (0..80u32).map(|i| ([i as f32], u32::from(i == 20 * at)));
            let test = InMemoryExamples::from_rows((0..9).map(|i| ([i as f32], 0))).unwrap();
            let train = InMemoryExamples::from_rows(rows).unwrap();
            let data = paceline_data::TrainTest::new(train, test);
            let model = Faulty(Softmax::new(1, 2), Fault::GradientOf(1));
            let session = Session::new(model, data).batch(20).stop(Stop::epochs(1));
            let panic = panic_of(|| Ok(session.share(sharing).run()?.steps));
            assert_eq!(panic, "a fault in gradient", "{sharing}");
        }
    }
}

#[test]
fn a_panic_between_two_layers_of_a_step_reaches_the_caller() {
    for sharing in [Sharing::servers(1).workers(2), Sharing::mesh(2)] {
        let build = |sizing: ModelSizing| {
            let layers = vec![
                Layer::new("flatten", LayerKind::Flatten),
                Layer::dense("hidden", 700),
                Layer::dense("scores", 10),
            ];
            let shape = Shape::image(1, 28, 28);
            let network =
                Network::new(shape, layers, sizing.block.min(64), sizing.threads).unwrap();
            Ok(Box::new(FaultyLayers(network)) as Box<dyn Model>)
        };
        let session = Session::with_builder(build, Digits::generate(100, 1)).batch(4);
        let panic = panic_of(|| Ok(session.stop(Stop::steps(3)).share(sharing).run()?.steps));
        assert_eq!(panic, "a fault between two layers", "{sharing}");
    }
}

#[test]
fn a_panic_in_a_thread_of_a_sparse_model_stops_the_others() {
    let rows = (0..200u32).map(|i| ([i % 10], [], u32::from(i % 10 < 5)));
    let data = SparseRows::from_rows(20, rows).unwrap().hold_out(40, 1).unwrap();
    let model = Faulty(Logistic::new(20), Fault::Gradient);
    let session = Session::sparse(model, data).batch(10).threads(2).stop(Stop::test_loss(0.0));
    assert_eq!(panic_of(|| Ok(session.run()?.steps)), "a fault in gradient");
}

#[test]
fn data_with_more_classes_than_the_model_is_refused_in_every_mode() {
    let data = || {
        let rows = (0..300u32).map(|i| ([i as f32 / 300.0, 1.0], i % 3));
        InMemoryExamples::from_rows(rows).unwrap().hold_out(30, 1).unwrap()
    };
    let says = "the model tells 2 classes apart, but the data has 3";
    let refusal = |session: Session| match session.run() {
        Err(TrainError::Settings(text)) => text,
        other => panic!("{:?}", other.map(|report| report.steps)),
    };
    for sharing in all_sharing() {
        let softmax = Session::new(Softmax::new(2, 2), data()).share(sharing);
        assert_eq!(refusal(softmax), says, "softmax, {sharing}");
        let network = Session::with_builder(
            |sizing| {
                let layers = vec![
                    Layer::dense("hidden", 8),
                    Layer::new("relu", LayerKind::Relu),
                    Layer::dense("scores", 2),
                ];
                let shape = Shape::flat(2);
                let network = Network::new(shape, layers, sizing.block.min(64), sizing.threads);
                Ok(Box::new(network.unwrap()))
            },
            data(),
        );
        assert_eq!(refusal(network.share(sharing)), says, "network, {sharing}");
    }
}

#[test]
fn a_test_that_counts_nothing_is_refused() {
    for sharing in all_sharing() {
        let error = softmax(Fault::CountsNothing).share(sharing).run().unwrap_err().to_string();
        let says = "Model::evaluate counted none of 40 test examples; let it call Tally::count";
        assert!(error.contains(says), "{sharing}: {error}");
    }
}
