//! Where an operation finds its gradient and puts the parameters: in one piece, or layer by layer.

use std::ops::Range;

/// The memory that an operation works on. Ranges are of the flat parameters.
pub(super) trait Buffers {
    /// The gradient of a range; `None` if it does not lie in one piece.
    fn gradient(&self, range: &Range<usize>) -> Option<&[f32]>;

    /// The parameters of a range; `None` if they do not lie in one piece.
    fn params(&mut self, range: &Range<usize>) -> Option<&mut [f32]>;

    /// Calls `visit` for each piece of a range with the gradient there.
    fn for_each_gradient(&self, range: &Range<usize>, visit: &mut dyn FnMut(&[f32]));

    /// Calls `visit` for each piece of a range with the parameters there.
    fn for_each_params(&mut self, range: &Range<usize>, visit: &mut dyn FnMut(&mut [f32]));

    /// The parameters of a range have arrived.
    fn arrived(&mut self, _range: &Range<usize>) {}
}

/// A whole gradient, and the parameters of all servers.
pub(super) struct WholeBuffers<'a> {
    pub(super) gradient: &'a [f32],
    pub(super) params: &'a mut [f32],
}

impl Buffers for WholeBuffers<'_> {
    #[inline]
    fn gradient(&self, range: &Range<usize>) -> Option<&[f32]> {
        Some(&self.gradient[range.clone()])
    }

    #[inline]
    fn params(&mut self, range: &Range<usize>) -> Option<&mut [f32]> {
        Some(&mut self.params[range.clone()])
    }

    fn for_each_gradient(&self, range: &Range<usize>, visit: &mut dyn FnMut(&[f32])) {
        visit(&self.gradient[range.clone()]);
    }

    fn for_each_params(&mut self, range: &Range<usize>, visit: &mut dyn FnMut(&mut [f32])) {
        visit(&mut self.params[range.clone()]);
    }
}
