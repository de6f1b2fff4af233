//! What a plan calls for: its model, its examples, its worker and its tests.

use std::sync::Arc;

use paceline_data::{BatchPlan, Images, LoaderOptions, Patches};
use paceline_model::{AlexNet, Logistic, Model, Softmax, SparseModel, lenet};

use crate::Failure;
use crate::examples::{
    Examples, ImageExamples, PatchyExamples, PictureExamples, RowExamples, Walk,
};
use crate::job::{ModelKind, Plan};
use crate::link::{DenseLink, RowLink};
use crate::rows::{RowTester, RowWorker};
use crate::source::{Data, Shape};
use crate::tester::{Examiner, PatchyTester, SourceTester, Tester};
use crate::trace::{Following, Tracer, read_watch};
use crate::worker::{Desk, Trainer, Worker};

/// Examples that the networks work on at a time: their memory grows with it, and beyond this
/// their speed does not.
const LENET_BLOCK: usize = 128;
const ALEXNET_BLOCK: usize = 64;

/// How much a model works on at a time.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Examples of a block.
    pub block: usize,
    /// Threads.
    pub threads: usize,
}

impl Room {
    /// For a model of which only the layout matters.
    pub const LEAST: Room = Room { block: 1, threads: 1 };

    /// For training with a plan's batch, or for tests.
    fn of(plan: &Plan, threads: usize) -> Self {
        Room { block: plan.batch, threads }
    }
}

/// The model of a plan, for examples of this shape.
pub fn build_model(plan: &Plan, shape: Shape, room: Room) -> Result<Box<dyn Model>, Failure> {
    let block = |most: usize| room.block.clamp(1, most);
    let network = match plan.model {
        ModelKind::Softmax => return Ok(Box::new(Softmax::new(shape.inputs(), shape.classes))),
        ModelKind::Logistic { .. } => return Ok(build_sparse_model(plan, shape.inputs())),
        ModelKind::LeNet => lenet(block(LENET_BLOCK), room.threads),
        ModelKind::AlexNet { dropout } => {
            let sizes =
                AlexNet { classes: shape.classes, size: shape.planes[1], ..AlexNet::default() };
            AlexNet { dropout, ..sizes }.network(block(ALEXNET_BLOCK), room.threads)
        }
    };
    match network {
        Ok(network) => Ok(Box::new(network)),
        Err(error) => Err(unfit(plan, &error)),
    }
}

/// The sparse model of a plan.
pub(crate) fn build_sparse_model(_plan: &Plan, features: usize) -> Box<dyn SparseModel> {
    Box::new(Logistic::new(features))
}

fn unfit(plan: &Plan, error: &dyn std::fmt::Display) -> Failure {
    Failure::Usage(format!("model.kind = {:?}: {error}", plan.model.name()))
}

/// The images as softmax regression likes them best, if they are mostly empty.
fn patches_of(plan: &Plan, images: &Images) -> Option<Patches> {
    (plan.model == ModelKind::Softmax).then(|| Patches::of(images)).flatten()
}

/// The plan's softmax regression, for images that are mostly empty.
fn build_patchy(plan: &Plan, shape: Shape, threads: usize) -> Result<Box<dyn Model>, Failure> {
    match Softmax::for_patches(shape.inputs(), shape.classes, threads) {
        Ok(model) => Ok(Box::new(model)),
        Err(error) => Err(unfit(plan, &error)),
    }
}

/// Who tests the plan's model, with so many threads.
pub(crate) fn build_examiner<'a>(
    plan: &Plan,
    data: &'a Data,
    threads: usize,
) -> Result<Box<dyn Examiner + 'a>, Failure> {
    let examples = plan.evaluate.examples;
    let model = || build_model(plan, data.shape(), Room { block: usize::MAX, threads });
    Ok(match data {
        Data::Images(set) => match patches_of(plan, &set.test) {
            Some(patches) => {
                let model = build_patchy(plan, data.shape(), threads)?;
                Box::new(PatchyTester::new(patches, examples, model))
            }
            None => Box::new(Tester::new(&set.test, examples, model()?)),
        },
        Data::Pictures(set) => {
            Box::new(SourceTester::new(set.test.clone(), examples, plan.data.on_bad, model()?))
        }
        Data::Rows(set) => {
            let model = build_sparse_model(plan, set.test.features());
            let tester = RowTester::new(&set.test, examples, model);
            match plan.model.is_sparse() {
                true => Box::new(tester),
                false => Box::new(tester.of_all_parameters()),
            }
        }
    })
}

/// The examples of a slot of a dense model.
fn build_examples<'a>(
    plan: &Plan,
    data: &'a Data,
    walk: Walk,
    tracer: Option<&Arc<Tracer>>,
) -> Box<dyn Examples + 'a> {
    match data {
        Data::Images(set) => Box::new(ImageExamples::new(walk, &set.train)),
        Data::Rows(set) => Box::new(RowExamples::new(walk, &set.train)),
        Data::Pictures(set) => {
            let options = LoaderOptions { on_bad: plan.data.on_bad, ..LoaderOptions::default() };
            let watch = read_watch(tracer, plan);
            Box::new(PictureExamples::new(walk, set.train.clone(), options, watch))
        }
    }
}

/// A worker of the plan's model, by whichever loop that needs.
pub(crate) fn build_worker<'a, L: DenseLink + RowLink>(
    plan: &Plan,
    data: &'a Data,
    (slot, batches): (usize, BatchPlan),
    threads: usize,
    (mut desk, tracer): (Desk, Option<&Arc<Tracer>>),
) -> Result<Box<dyn Trainer<L> + 'a>, Failure> {
    Ok(match data {
        Data::Rows(set) if plan.model.is_sparse() => {
            let model = build_sparse_model(plan, set.train.features());
            desk.trace =
                tracer.map(|tracer| Following::new(tracer.clone(), "steps", plan.batch, &*model));
            Box::new(RowWorker::new(slot, batches, &set.train, model, desk))
        }
        _ => Box::new(build_dense_worker(plan, data, (slot, batches), threads, (desk, tracer))?),
    })
}

/// A worker of a dense model.
pub(crate) fn build_dense_worker<'a>(
    plan: &Plan,
    data: &'a Data,
    (slot, batches): (usize, BatchPlan),
    threads: usize,
    (mut desk, tracer): (Desk, Option<&Arc<Tracer>>),
) -> Result<Worker<'a>, Failure> {
    let walk = Walk::new(batches, slot, plan.seed);
    if let Data::Images(set) = data
        && let Some(patches) = patches_of(plan, &set.train)
    {
        let model = build_patchy(plan, data.shape(), threads)?;
        desk.trace =
            tracer.map(|tracer| Following::new(tracer.clone(), "steps", plan.batch, &*model));
        return Ok(Worker { examples: Box::new(PatchyExamples::new(walk, patches)), model, desk });
    }
    let model = build_model(plan, data.shape(), Room::of(plan, threads))?;
    desk.trace = tracer.map(|tracer| Following::new(tracer.clone(), "steps", plan.batch, &*model));
    Ok(Worker { examples: build_examples(plan, data, walk, tracer), model, desk })
}
