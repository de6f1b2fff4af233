//! The inner loops that models are built of, from the crate `paceline-kernels`.

pub use paceline_kernels::{
    AlignedBuffer, Compactor, OutputMode, OwnLines, Weighted, add_scaled, all_finite,
    all_finite_bf16, bf16_add, bf16_decode, bf16_encode, bf16_encode_change, dense_backward_bias,
    dense_backward_inputs, dense_backward_weights, dense_forward, each, scale, set_scaled_pair,
    softmax_cross_entropy, weighted_cross_entropy,
};
pub(crate) use paceline_kernels::{
    OUTER_ROWS, OutputGrad, PATCH_BLOCK, PLANE_WIDTH, PatchScratch, PatchView, PlaneConv,
    PlanePool, TOGETHER, exp_below_zero, outer_rows, pack, panels, patches_backward,
    patches_forward, prefetch, relu, relu_gradient, score_of, subtract_highest, tanh, tile,
    vectors, winograd, winograd_filters, winograd_sums,
};
