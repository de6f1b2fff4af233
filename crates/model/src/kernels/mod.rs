//! The inner loops: slices in, slices out.
//!
//! One binary serves every processor: each kernel is written once over `pulp`'s vectors and runs
//! with instructions that are detected at run time, products of matrices with the widest ones
//! (`vectors.rs`). The order of sums depends only on the sizes and the width of the vectors, so
//! equal inputs give equal bits on equal processors.
//! Element-wise kernels (no sums, no fused multiply-add) give equal bits on all.

mod aligned;
mod bf16;
mod bits;
mod dense;
mod elementwise;
mod exp;
mod mean;
mod outer;
mod output_mode;
pub(crate) mod pack;
pub(crate) mod panels;
mod patch_view;
mod patches;
mod prefetch;
pub(crate) mod tile;
pub(crate) mod vectors;
pub(crate) mod winograd;

pub use aligned::AlignedBuffer;
pub use bf16::{bf16_add, bf16_decode, bf16_encode, bf16_encode_change};
pub use dense::{
    dense_backward_bias, dense_backward_inputs, dense_backward_weights, dense_forward,
};
pub use elementwise::each;
pub(crate) use exp::exp_below_zero;
pub use mean::{Weighted, add_scaled, scale, set_scaled_pair};
pub(crate) use outer::{OUTER_ROWS, OutputGrad, outer_rows};
pub use output_mode::OutputMode;
#[cfg(test)]
pub(crate) use patch_view::PATCH;
pub(crate) use patch_view::PatchView;
#[cfg(test)]
pub(crate) use patch_view::pack;
pub(crate) use patches::{PATCH_BLOCK, PatchScratch, patches_backward, patches_forward};
pub(crate) use prefetch::prefetch;
