//! The inner loops: slices in, slices out.
//!
//! One binary serves every processor: each kernel is written once over `pulp`'s vectors and
//! run with the widest instructions that the processor at hand has, found out at run time.
//! Sums are taken in an order that depends on nothing but the sizes and that width, so equal
//! inputs give equal bits on equal processors. Element-wise kernels (no sums, no fused
//! multiply-add) give equal bits on all.

mod dense;
mod elementwise;
mod outer;
pub(crate) mod pack;
pub(crate) mod panels;
mod prefetch;
pub(crate) mod tile;

pub use dense::{Onto, dense_backward_weights, dense_forward};
pub use elementwise::each;
pub(crate) use outer::{OUTER_ROWS, outer_rows};
pub use prefetch::prefetch;
