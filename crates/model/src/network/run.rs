//! A step through the planned tasks: forward, the loss, and back.

use super::memory::Memory;
use super::plan::{Task, Work};
use crate::crew::Crew;
use crate::kernels::OutputMode;
use crate::layers::Place;
use crate::layers::flatten::take_in;
use crate::layers::loss::{count, softmax_cross_entropy};
use crate::layers::stage::{Pass, Seen};
use crate::{Batch, Descent, StepEvent, Tally};

/// A call at every event of a step.
pub(super) type Observer<'a> = &'a mut (dyn FnMut(StepEvent<'_>) + Send);

/// The tasks and all the memory they need.
pub(super) struct Machine {
    tasks: Vec<Task>,
    places: Vec<Place>,
    /// The buffers' values.
    values: Vec<Memory>,
    /// Gradients by the buffers: one is read while the other is written.
    slopes: [Memory; 2],
    scratch: Memory,
    /// A piece of the gradient, for [`Sink::Parameters`].
    piece: Memory,
}

/// The parameters of a step, and where the gradient goes.
pub(super) enum Sink<'a> {
    /// Onto a slice.
    Gradient { params: &'a [f32], mode: OutputMode, grad: &'a mut [f32] },
    /// Into the parameters themselves, by their optimizer.
    Parameters(Descent<'a>),
}

impl Sink<'_> {
    /// The parameters as they are now.
    fn params(&self) -> &[f32] {
        match self {
            Sink::Gradient { params, .. } => params,
            Sink::Parameters(descent) => descent.params,
        }
    }
}

impl Machine {
    /// Sets out memory for blocks of so many examples and so many threads.
    pub(super) fn new(tasks: Vec<Task>, places: Vec<Place>, block: usize, threads: usize) -> Self {
        // Nothing is to be known of the input's gradient.
        let slopes = |parity: usize| {
            places.iter().enumerate().skip(1).filter(move |(index, _)| index % 2 == parity)
        };
        let largest = |parity: usize| slopes(parity).map(|(_, place)| place.len()).max();
        let piece = tasks.iter().map(|task| match &task.work {
            Work::Stage(stage) => stage.piece(task.params.len(), threads),
            Work::Map(_) => 0,
        });
        let scratch = tasks.iter().map(|task| match &task.work {
            Work::Stage(stage) => stage.scratch(block),
            Work::Map(_) => 0,
        });
        Self {
            scratch: Memory::new(scratch.max().unwrap_or(0)),
            values: places.iter().map(|place| Memory::new(block * place.len())).collect(),
            slopes: [0, 1].map(|parity| Memory::new(block * largest(parity).unwrap_or(0))),
            piece: Memory::new(piece.max().unwrap_or(0)),
            tasks,
            places,
        }
    }

    /// Takes a block through all layers.
    fn forward(
        &mut self,
        crew: &Crew,
        params: &[f32],
        (block, draw): (Batch<'_>, Option<u64>),
        observe: Observer<'_>,
    ) {
        let Self { tasks, places, values, scratch, .. } = self;
        let (count, place) = (block.len(), places[0]);
        crew.each(&mut values[0][..count * place.len()], place.len(), |example, inside| {
            let len = place.shape.values();
            take_in(place, &block.values()[example * len..][..len], inside);
        });
        observe(StepEvent::Input);
        let mut pass = Pass { crew, count, draw, scratch };
        let mut buffer = 0;
        for task in tasks {
            match &task.work {
                Work::Map(map) => {
                    map.forward(&mut pass, &mut values[buffer][..count * places[buffer].len()]);
                }
                Work::Stage(stage) => {
                    let (before, after) = values.split_at_mut(buffer + 1);
                    let params = &params[task.params.clone()];
                    stage.forward(&mut pass, params, &before[buffer], &mut after[0]);
                    buffer += 1;
                }
            }
            observe(StepEvent::Forward { layer: task.layer });
        }
    }

    /// The scores that the last forward pass over so many examples has left.
    fn scores(&mut self, count: usize) -> &mut [f32] {
        let last = self.places.len() - 1;
        &mut self.values[last][..count * self.places[last].len()]
    }

    /// Counts losses and hits of a block.
    pub(super) fn evaluate(
        &mut self,
        crew: &Crew,
        params: &[f32],
        block: Batch<'_>,
        tally: &mut Tally,
    ) {
        self.forward(crew, params, (block, None), &mut |_| {});
        count(self.scores(block.len()), block, tally);
    }

    /// Share of the loss of a block; its gradient goes into the sink.
    pub(super) fn gradient(
        &mut self,
        crew: &Crew,
        (block, share): (Batch<'_>, f32),
        sink: Sink<'_>,
        observe: Observer<'_>,
    ) -> f32 {
        self.forward(crew, sink.params(), (block, Some(block.draw)), observe);
        let last = self.places.len() - 1;
        let (count, classes) = (block.len(), self.places[last].len());
        let delta = &mut self.slopes[last % 2][..count * classes];
        delta.copy_from_slice(&self.values[last][..count * classes]);
        let loss = softmax_cross_entropy(delta, block.labels, share);
        observe(StepEvent::Loss);
        self.back(crew, block, sink, observe);
        loss * share
    }

    /// From the gradient by the scores to the one by the parameters, the last layer's first.
    fn back(&mut self, crew: &Crew, block: Batch<'_>, mut sink: Sink<'_>, observe: Observer<'_>) {
        let Self { tasks, places, values, slopes, scratch, piece } = self;
        let count = block.len();
        let mut pass = Pass { crew, count, draw: Some(block.draw), scratch };
        let mut buffer = places.len() - 1;
        // Before the first layer with parameters nothing is left to be known.
        let Some(first) = tasks.iter().position(|task| !task.params.is_empty()) else { return };
        for (index, task) in tasks.iter().enumerate().skip(first).rev() {
            let [even, odd] = &mut *slopes;
            let (dy, dx) = if buffer % 2 == 0 { (even, odd) } else { (odd, even) };
            match &task.work {
                Work::Map(map) => {
                    let len = count * places[buffer].len();
                    map.back(&mut pass, &values[buffer][..len], &mut dy[..len]);
                }
                Work::Stage(stage) => {
                    let (x, range) = (&values[buffer - 1], task.params.clone());
                    if let (Sink::Gradient { mode, grad, .. }, false) =
                        (&mut sink, range.is_empty())
                    {
                        let grad = &mut grad[range.clone()];
                        stage.slope(&mut pass, x, dy, *mode, grad);
                        observe(StepEvent::Final { range: range.clone(), values: grad });
                    }
                    if index > first {
                        let seen = Seen { x, y: &values[buffer], dy };
                        stage.back(&mut pass, &sink.params()[range.clone()], seen, dx);
                    }
                    // Only now are the parameters as they were not needed any more.
                    if let (Sink::Parameters(descent), false) = (&mut sink, range.is_empty()) {
                        let piece = &mut piece[..stage.piece(range.len(), crew.threads())];
                        let hand_on = &mut |from: usize, grad: &[f32]| {
                            descent.update(crew, range.start + from, grad);
                        };
                        stage.slope_in_pieces(&mut pass, x, dy, piece, hand_on);
                    }
                    buffer -= 1;
                }
            }
            observe(StepEvent::Backward { layer: task.layer });
        }
    }
}
