// The functions for the CPU of the generated C shim of libtorch 2.11, the oldest that is supported:
// what stands behind "aoti_torch_cpu_", as `nm -D libtorch_cpu.so` lists them.

#pragma once

namespace kiln::codegen::testing {

/// Each with a blank behind it.
inline constexpr const char* kShimOfOldestLibtorch =
    "_adaptive_avg_pool2d _adaptive_avg_pool2d_backward _adaptive_avg_pool3d "
    "_adaptive_avg_pool3d_backward _addmm_activation _c10d_functional_all_reduce "
    "_c10d_functional_all_reduce_ _c10d_functional_wait_tensor _cdist_backward _cdist_forward "
    "_dyn_quant_matmul_4bit _dyn_quant_pack_4bit_weight _efficientzerotensor _embedding_bag "
    "_embedding_bag_dense_backward _embedding_bag_forward_only "
    "_embedding_bag_per_sample_weights_backward _fft_c2c _fft_r2c "
    "_fused_moving_avg_obs_fq_helper _fused_moving_avg_obs_fq_helper_functional _fused_rms_norm "
    "_histogramdd_from_bin_cts _int_mm_out _linear_pointwise _linear_pointwise_binary "
    "_mkl_linear _pdist_backward _pdist_forward _qconv2d_pointwise_binary_tensor "
    "_qconv_pointwise_tensor _qlinear_pointwise_binary_tensor _qlinear_pointwise_tensor "
    "_scaled_dot_product_flash_attention_for_cpu "
    "_scaled_dot_product_flash_attention_for_cpu_backward "
    "_scaled_dot_product_fused_attention_overrideable "
    "_scaled_dot_product_fused_attention_overrideable_backward _scaled_mm _scaled_mm_out "
    "_segment_reduce_backward _to_sparse _trilinear _weight_int4pack_mm_cpu_tensor "
    "_weight_int8pack_mm _wrapped_linear_prepack _wrapped_quantized_linear_prepacked abs "
    "adaptive_max_pool2d adaptive_max_pool2d_backward adaptive_max_pool3d "
    "adaptive_max_pool3d_backward add_Scalar add_Tensor addbmm addmm_out addmv angle avg_pool2d "
    "avg_pool2d_backward avg_pool3d avg_pool3d_backward baddbmm_out bernoulli__Tensor "
    "bernoulli__float bmm_out bucketize_Tensor cat cholesky_inverse cholesky_solve convolution "
    "convolution_backward cummax cummin cumprod cumsum exponential fill__Scalar "
    "fractional_max_pool2d fractional_max_pool2d_backward fractional_max_pool3d "
    "fractional_max_pool3d_backward gcd geqrf grid_sampler_2d_backward hann_window histc "
    "histogram_bin_ct index_Tensor index_put index_reduce kthvalue logcumsumexp lu_unpack "
    "masked_scatter masked_scatter_backward masked_select max_pool2d_with_indices "
    "max_pool2d_with_indices_backward max_pool3d_with_indices max_pool3d_with_indices_backward "
    "max_unpool2d max_unpool3d median mkldnn__convolution_pointwise "
    "mkldnn__convolution_pointwise_binary mkldnn__convolution_pointwise_binary_ "
    "mkldnn__convolution_transpose_pointwise mkldnn_rnn_layer mm_out mode mul_Scalar mul_Tensor "
    "nanmedian narrow native_dropout nonzero nonzero_static normal_functional ormqr pad permute "
    "polar pow_Scalar pow_Tensor_Scalar pow_Tensor_Tensor rand rand_generator randint "
    "randint_generator randint_low randint_low_out randn randn_generator randperm "
    "repeat_interleave_Tensor replication_pad1d_backward replication_pad2d_backward reshape "
    "resize_ resize_as_ scatter_reduce_two_out scatter_src_out scatter_value_out "
    "searchsorted_Scalar searchsorted_Tensor segment_reduce set__source_Tensor slice_Tensor "
    "soft_margin_loss_backward sort sort_stable squeeze_dim to_sparse topk triangular_solve "
    "uniform upsample_bicubic2d_backward upsample_linear1d_backward "
    "upsample_trilinear3d_backward view_as_complex view_as_real view_dtype "
    "wrapped_fbgemm_linear_fp16_weight wrapped_fbgemm_pack_gemm_matrix_fp16 ";

}  // namespace kiln::codegen::testing
