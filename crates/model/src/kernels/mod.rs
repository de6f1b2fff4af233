//! The inner loops: slices in, slices out.
//!
//! One binary serves every processor: each kernel is written once over `pulp`'s vectors and
//! run with the widest instructions that the processor at hand has, found out at run time.
//! Sums are taken in an order that depends on nothing but the sizes and that width, so equal
//! inputs give equal bits on equal processors. Element-wise kernels (no sums, no fused
//! multiply-add) give equal bits on all.

mod dense;
mod elementwise;
mod exp;
mod lines;
mod outer;
mod output_mode;
pub(crate) mod pack;
pub(crate) mod panels;
mod patches;
mod prefetch;
pub(crate) mod tile;

pub use dense::{dense_backward_weights, dense_forward};
pub use elementwise::each;
pub(crate) use exp::exp_below_zero;
pub(crate) use lines::Lines;
pub(crate) use outer::{OUTER_ROWS, outer_rows};
pub use output_mode::OutputMode;
#[cfg(test)]
pub(crate) use patches::pack;
pub use patches::{PATCH, PATCH_BLOCK, PatchScratch, PatchView, patches_backward, patches_forward};
pub use prefetch::prefetch;
