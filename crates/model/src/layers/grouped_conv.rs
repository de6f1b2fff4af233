//! A convolution whose channels form groups: each group of outputs sees its own inputs alone.
//!
//! A group is an ordinary convolution between buffers that hold its channels and no others; its
//! part of the input is copied there, and its part of the output back. Copies cost little next to
//! the arithmetic if a group has many channels. With one channel in each group they are most of
//! the time.

use super::conv::Conv;
use super::layer_op::{BackwardInputs, BufferedLayer, LayerPass};
use super::shape::{PaddedShape, Shape};
use super::windows::Windows;
use crate::kernels::OutputMode;
use crate::thread_pool::ThreadPool;

/// A convolution in groups.
pub(crate) struct GroupedConv {
    groups: usize,
    from: PaddedShape,
    to: PaddedShape,
    /// The convolution of one group.
    conv: Conv,
}

/// The buffers of one group.
struct GroupBuffers<'a> {
    x: &'a mut [f32],
    y: &'a mut [f32],
    /// Weights and biases, or the gradient by them.
    params: &'a mut [f32],
    /// The scratch memory of the group's convolution.
    scratch: &'a mut [f32],
}

/// The channels of one group inside the buffer of all channels.
#[derive(Clone, Copy)]
struct GroupView {
    all: PaddedShape,
    part: PaddedShape,
    /// The group's first channel.
    first: usize,
}

impl GroupView {
    /// Calls `work` for every pixel with its offsets in the buffer of all channels and the group's.
    fn pixels(&self, mut work: impl FnMut(usize, usize)) {
        for y in 0..self.part.shape.height {
            for x in 0..self.part.shape.width {
                work(self.all.at(y, x) + self.first, self.part.at(y, x));
            }
        }
    }

    /// Copies the group's channels of some examples, with zeros around them.
    fn gather(&self, pool: &ThreadPool, all: &[f32], part: &mut [f32]) {
        let channels = self.part.shape.channels;
        pool.for_each_piece(part, self.part.len(), |example, part| {
            let all = &all[example * self.all.len()..];
            part.fill(0.0);
            self.pixels(|from, to| {
                part[to..][..channels].copy_from_slice(&all[from..][..channels]);
            });
        });
    }

    /// Copies the group's channels back to those of all groups.
    fn scatter(&self, pool: &ThreadPool, part: &[f32], all: &mut [f32]) {
        let channels = self.part.shape.channels;
        pool.for_each_piece(all, self.all.len(), |example, all| {
            let part = &part[example * self.part.len()..];
            self.pixels(|to, from| {
                all[to..][..channels].copy_from_slice(&part[from..][..channels]);
            });
        });
    }
}

impl GroupedConv {
    /// Plans a convolution in groups, whose number divides the channels of both buffers. The
    /// border of `from` is at least the padding of the windows.
    pub(crate) fn new(from: PaddedShape, to: PaddedShape, windows: Windows, groups: usize) -> Self {
        let part = |all: Shape| Shape { channels: all.channels / groups, ..all };
        let part_from = PaddedShape { shape: part(from.shape), border: from.border };
        let part_to = PaddedShape { shape: part(to.shape), border: [0; 2] };
        Self { groups, from, to, conv: Conv::new(part_from, part_to, windows) }
    }

    /// Weights of one group.
    fn weights(&self) -> usize {
        self.conv.covered() * self.biases()
    }

    /// Biases of one group, one for each output.
    fn biases(&self) -> usize {
        self.conv.to.shape.channels
    }

    fn inputs(&self, group: usize) -> GroupView {
        let part = self.conv.from;
        GroupView { all: self.from, part, first: group * part.shape.channels }
    }

    fn outputs(&self, group: usize) -> GroupView {
        let part = self.conv.to;
        GroupView { all: self.to, part, first: group * part.shape.channels }
    }

    /// What the convolution of one group works with. A group's part is not finished by itself.
    fn group_pass<'a>(
        &self,
        pool: &'a ThreadPool,
        count: usize,
        scratch: &'a mut [f32],
    ) -> LayerPass<'a> {
        LayerPass { pool, count, scratch, finish: &|_, _| {} }
    }

    /// Cuts scratch memory into the buffers of a group, for `count` examples.
    fn buffers<'s>(&self, count: usize, scratch: &'s mut [f32]) -> GroupBuffers<'s> {
        let (x, rest) = scratch.split_at_mut(count * self.conv.from.len());
        let (y, rest) = rest.split_at_mut(count * self.conv.to.len());
        let (params, scratch) = rest.split_at_mut(self.weights() + self.biases());
        GroupBuffers { x, y, params, scratch }
    }

    /// Copies a group's weights and biases, which lie apart, behind each other.
    fn gather_params(&self, group: usize, params: &[f32], part: &mut [f32]) {
        let (weights, biases) = params.split_at(self.groups * self.weights());
        let (part_weights, part_biases) = part.split_at_mut(self.weights());
        part_weights.copy_from_slice(&weights[group * self.weights()..][..self.weights()]);
        part_biases.copy_from_slice(&biases[group * self.biases()..][..self.biases()]);
    }

    /// Writes the gradient by a group's weights and biases where those of all groups are.
    fn scatter_gradient(&self, group: usize, part: &[f32], mode: OutputMode, grad: &mut [f32]) {
        let (weights, biases) = grad.split_at_mut(self.groups * self.weights());
        let (part_weights, part_biases) = part.split_at(self.weights());
        let weights = &mut weights[group * self.weights()..][..self.weights()];
        let biases = &mut biases[group * self.biases()..][..self.biases()];
        for (to, from) in [(weights, part_weights), (biases, part_biases)] {
            mode.prepare(to);
            to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        }
    }
}

impl BufferedLayer for GroupedConv {
    fn scratch(&self, count: usize) -> usize {
        let buffers = count * (self.conv.from.len() + self.conv.to.len());
        buffers + self.weights() + self.biases() + self.conv.scratch(count)
    }

    fn forward(&self, pass: &mut LayerPass<'_>, params: &[f32], x: &[f32], y: &mut [f32]) {
        let y = &mut y[..pass.count * self.to.len()];
        for group in 0..self.groups {
            let part = self.buffers(pass.count, pass.scratch);
            self.inputs(group).gather(pass.pool, x, part.x);
            self.gather_params(group, params, part.params);
            let pass = &mut self.group_pass(pass.pool, pass.count, part.scratch);
            self.conv.forward(pass, part.params, part.x, part.y);
            self.outputs(group).scatter(pass.pool, part.y, y);
        }
        pass.pool.for_each_piece(y, self.to.len(), pass.finish);
    }

    fn param_gradient(
        &self,
        pass: &mut LayerPass<'_>,
        x: &[f32],
        dy: &[f32],
        mode: OutputMode,
        grad: &mut [f32],
    ) {
        for group in 0..self.groups {
            let part = self.buffers(pass.count, pass.scratch);
            self.inputs(group).gather(pass.pool, x, part.x);
            self.outputs(group).gather(pass.pool, dy, part.y);
            let pass = &mut self.group_pass(pass.pool, pass.count, part.scratch);
            let overwrite = OutputMode::Overwrite;
            self.conv.param_gradient(pass, part.x, part.y, overwrite, part.params);
            self.scatter_gradient(group, part.params, mode, grad);
        }
    }

    fn input_gradient(
        &self,
        pass: &mut LayerPass<'_>,
        params: &[f32],
        inputs: BackwardInputs<'_>,
        dx: &mut [f32],
    ) {
        let dx = &mut dx[..pass.count * self.from.len()];
        for group in 0..self.groups {
            let part = self.buffers(pass.count, pass.scratch);
            self.outputs(group).gather(pass.pool, inputs.dy, part.y);
            self.gather_params(group, params, part.params);
            let pass = &mut self.group_pass(pass.pool, pass.count, part.scratch);
            // A convolution needs neither its input nor its output for this.
            let inputs = BackwardInputs { x: &[], y: &[], dy: part.y };
            self.conv.input_gradient(pass, part.params, inputs, part.x);
            self.inputs(group).scatter(pass.pool, part.x, dx);
        }
        pass.pool.for_each_piece(dx, self.from.len(), pass.finish);
    }
}
