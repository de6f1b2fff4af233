//! The inner loops: slices in, slices out.
//!
//! ```
//! use paceline_kernels::dense_forward;
//!
//! // Two examples of three inputs, one output.
//! let (x, weights, bias) = ([1.0, 2.0, 3.0, 0.0, 1.0, 0.0], [1.0, 0.5, 0.0], [0.25]);
//! let mut out = [0.0; 2];
//! dense_forward(3, &x, &weights, &bias, &mut out);
//! assert_eq!(out, [2.25, 0.75]);
//! ```
//!
//! One binary serves every processor: each kernel is written once over `pulp`'s vectors and runs
//! with instructions that are detected at run time, products of matrices with the widest ones
//! (`vectors.rs`). The order of sums depends only on the sizes and the width of the vectors, so
//! equal inputs give equal bits on equal processors.
//! Element-wise kernels (no sums, no fused multiply-add) give equal bits on all.
//!
//! The crate knows no layers, models or parameters: those are in `paceline-model`, which is built
//! of these loops.

// The examples of the README are compiled with the tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod aligned;
mod bf16;
mod bits;
mod cross_entropy;
mod dense;
mod elementwise;
mod exp;
mod finite;
mod key_places;
mod keys;
mod mean;
mod outer;
mod output_mode;
mod own_lines;
pub mod pack;
pub mod panels;
mod patch_view;
mod patches;
mod plane_conv;
mod plane_pool;
mod prefetch;
mod relu;
mod tanh;
pub mod tile;
pub mod vectors;
pub mod winograd;
pub mod winograd_filters;
pub mod winograd_sums;

pub use aligned::AlignedBuffer;
pub use bf16::{bf16_add, bf16_decode, bf16_encode, bf16_encode_change};
pub use cross_entropy::{
    TOGETHER, score_of, softmax_cross_entropy, subtract_highest, weighted_cross_entropy,
};
pub use dense::{
    dense_backward_bias, dense_backward_inputs, dense_backward_weights, dense_forward,
};
pub use elementwise::each;
pub use exp::exp_below_zero;
pub use finite::{all_finite, all_finite_bf16};
pub use key_places::{KeyPart, KeyPlaces, KeyRun};
pub use keys::{Compactor, RowLayout};
pub use mean::{Weighted, add_scaled, scale, set_scaled_pair};
pub use outer::{OUTER_ROWS, OutputGrad, outer_rows};
pub use output_mode::OutputMode;
pub use own_lines::OwnLines;
pub use patch_view::{PATCH, PatchView};
pub use patches::{PATCH_BLOCK, PatchScratch, patches_backward, patches_forward};
pub use plane_conv::{PLANE_WIDTH, PlaneConv};
pub use plane_pool::PlanePool;
pub use prefetch::prefetch;
pub use relu::{relu, relu_gradient};
pub use tanh::tanh;
