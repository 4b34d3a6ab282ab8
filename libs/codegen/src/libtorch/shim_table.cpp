#include "libtorch/shim_table.hpp"

#include <algorithm>
#include <array>

namespace kiln::codegen {
namespace {

// Sorted by target. Only what is worth the faster call (libtorch computes these and we do not), and
// only what every supported libtorch has: a library is to load under each of them.
constexpr std::array kShims = std::to_array<ShimFunction>({
    {"aten._adaptive_avg_pool2d.default", "_adaptive_avg_pool2d", "Tensor,int[]->Tensor"},
    {"aten._adaptive_avg_pool2d_backward.default",
     "_adaptive_avg_pool2d_backward",
     "Tensor,Tensor->Tensor"},
    {"aten._adaptive_avg_pool3d.default", "_adaptive_avg_pool3d", "Tensor,int[]->Tensor"},
    {"aten._adaptive_avg_pool3d_backward.default",
     "_adaptive_avg_pool3d_backward",
     "Tensor,Tensor->Tensor"},
    {"aten._addmm_activation.default",
     "_addmm_activation",
     "Tensor,Tensor,Tensor,Scalar,Scalar,bool->Tensor"},
    {"aten._cdist_forward.default", "_cdist_forward", "Tensor,Tensor,float,int?->Tensor"},
    {"aten._embedding_bag.default",
     "_embedding_bag",
     "Tensor,Tensor,Tensor,bool,int,bool,Tensor?,bool,int->Tensor,Tensor,Tensor,Tensor"},
    {"aten._fft_c2c.default", "_fft_c2c", "Tensor,int[],int,bool->Tensor"},
    {"aten._fft_r2c.default", "_fft_r2c", "Tensor,int[],int,bool->Tensor"},
    {"aten._int_mm.default", "_int_mm_out", "Tensor,Tensor->Tensor", true},
    {"aten._scaled_dot_product_flash_attention_for_cpu.default",
     "_scaled_dot_product_flash_attention_for_cpu",
     "Tensor,Tensor,Tensor,float,bool,Tensor?,float?->Tensor,Tensor"},
    {"aten._scaled_dot_product_flash_attention_for_cpu_backward.default",
     "_scaled_dot_product_flash_attention_for_cpu_backward",
     "Tensor,Tensor,Tensor,Tensor,Tensor,Tensor,float,bool,Tensor?,float?->Tensor,Tensor,Tensor"},
    {"aten.adaptive_max_pool2d.default", "adaptive_max_pool2d", "Tensor,int[]->Tensor,Tensor"},
    {"aten.adaptive_max_pool2d_backward.default",
     "adaptive_max_pool2d_backward",
     "Tensor,Tensor,Tensor->Tensor"},
    {"aten.addbmm.default", "addbmm", "Tensor,Tensor,Tensor,Scalar,Scalar->Tensor"},
    {"aten.addmm.default", "addmm_out", "Tensor,Tensor,Tensor,Scalar,Scalar->Tensor", true},
    {"aten.addmv.default", "addmv", "Tensor,Tensor,Tensor,Scalar,Scalar->Tensor"},
    {"aten.avg_pool2d.default", "avg_pool2d", "Tensor,int[],int[],int[],bool,bool,int?->Tensor"},
    {"aten.avg_pool2d_backward.default",
     "avg_pool2d_backward",
     "Tensor,Tensor,int[],int[],int[],bool,bool,int?->Tensor"},
    {"aten.avg_pool3d.default", "avg_pool3d", "Tensor,int[],int[],int[],bool,bool,int?->Tensor"},
    {"aten.avg_pool3d_backward.default",
     "avg_pool3d_backward",
     "Tensor,Tensor,int[],int[],int[],bool,bool,int?->Tensor"},
    {"aten.baddbmm.default", "baddbmm_out", "Tensor,Tensor,Tensor,Scalar,Scalar->Tensor", true},
    {"aten.bmm.default", "bmm_out", "Tensor,Tensor->Tensor", true},
    {"aten.bucketize.Tensor", "bucketize_Tensor", "Tensor,Tensor,bool,bool->Tensor"},
    {"aten.convolution.default",
     "convolution",
     "Tensor,Tensor,Tensor?,int[],int[],int[],bool,int[],int->Tensor"},
    {"aten.convolution_backward.default",
     "convolution_backward",
     "Tensor,Tensor,Tensor,int[]?,int[],int[],int[],bool,int[],int,bool[]->Tensor,Tensor,Tensor"},
    {"aten.cummax.default", "cummax", "Tensor,int->Tensor,Tensor"},
    {"aten.cummin.default", "cummin", "Tensor,int->Tensor,Tensor"},
    {"aten.cumprod.default", "cumprod", "Tensor,int,ScalarType?->Tensor"},
    {"aten.cumsum.default", "cumsum", "Tensor,int,ScalarType?->Tensor"},
    {"aten.grid_sampler_2d_backward.default",
     "grid_sampler_2d_backward",
     "Tensor,Tensor,Tensor,int,int,bool,bool[]->Tensor,Tensor"},
    {"aten.index.Tensor", "index_Tensor", "Tensor,Tensor?[]->Tensor"},
    {"aten.index_put.default", "index_put", "Tensor,Tensor?[],Tensor,bool->Tensor"},
    {"aten.index_reduce.default", "index_reduce", "Tensor,int,Tensor,Tensor,str,bool->Tensor"},
    {"aten.kthvalue.default", "kthvalue", "Tensor,int,int,bool->Tensor,Tensor"},
    {"aten.logcumsumexp.default", "logcumsumexp", "Tensor,int->Tensor"},
    {"aten.masked_scatter.default", "masked_scatter", "Tensor,Tensor,Tensor->Tensor"},
    {"aten.masked_scatter_backward.default",
     "masked_scatter_backward",
     "Tensor,Tensor,int[]->Tensor"},
    {"aten.max_pool2d_with_indices.default",
     "max_pool2d_with_indices",
     "Tensor,int[],int[],int[],int[],bool->Tensor,Tensor"},
    {"aten.max_pool2d_with_indices_backward.default",
     "max_pool2d_with_indices_backward",
     "Tensor,Tensor,int[],int[],int[],int[],bool,Tensor->Tensor"},
    {"aten.max_pool3d_with_indices.default",
     "max_pool3d_with_indices",
     "Tensor,int[],int[],int[],int[],bool->Tensor,Tensor"},
    {"aten.max_pool3d_with_indices_backward.default",
     "max_pool3d_with_indices_backward",
     "Tensor,Tensor,int[],int[],int[],int[],bool,Tensor->Tensor"},
    {"aten.max_unpool2d.default", "max_unpool2d", "Tensor,Tensor,int[]->Tensor"},
    {"aten.median.default", "median", "Tensor->Tensor"},
    {"aten.mm.default", "mm_out", "Tensor,Tensor->Tensor", true},
    {"aten.mode.default", "mode", "Tensor,int,bool->Tensor,Tensor"},
    {"aten.nanmedian.default", "nanmedian", "Tensor->Tensor"},
    {"aten.native_dropout.default", "native_dropout", "Tensor,float,bool?->Tensor,Tensor"},
    {"aten.nonzero_static.default", "nonzero_static", "Tensor,int,int->Tensor"},
    {"aten.polar.default", "polar", "Tensor,Tensor->Tensor"},
    {"aten.rand.default", "rand", "int[],ScalarType?,Layout?,Device?,bool?->Tensor"},
    {"aten.randint.low", "randint_low", "int,int,int[],ScalarType?,Layout?,Device?,bool?->Tensor"},
    {"aten.randn.default", "randn", "int[],ScalarType?,Layout?,Device?,bool?->Tensor"},
    {"aten.randperm.default", "randperm", "int,ScalarType?,Layout?,Device?,bool?->Tensor"},
    {"aten.replication_pad2d_backward.default",
     "replication_pad2d_backward",
     "Tensor,Tensor,int[]->Tensor"},
    {"aten.scatter.src", "scatter_src_out", "Tensor,int,Tensor,Tensor->Tensor", true},
    {"aten.scatter_reduce.two",
     "scatter_reduce_two_out",
     "Tensor,int,Tensor,Tensor,str,bool->Tensor",
     true},
    {"aten.searchsorted.Tensor",
     "searchsorted_Tensor",
     "Tensor,Tensor,bool,bool,str?,Tensor?->Tensor"},
    {"aten.sort.default", "sort", "Tensor,int,bool->Tensor,Tensor"},
    {"aten.sort.stable", "sort_stable", "Tensor,bool?,int,bool->Tensor,Tensor"},
    {"aten.topk.default", "topk", "Tensor,int,int,bool,bool->Tensor,Tensor"},
    {"aten.upsample_bicubic2d_backward.default",
     "upsample_bicubic2d_backward",
     "Tensor,int[],int[],bool,float?,float?->Tensor"},
});

constexpr bool kSorted =
    std::is_sorted(kShims.begin(), kShims.end(), [](const ShimFunction& a, const ShimFunction& b) {
      return a.target < b.target;
    });
static_assert(kSorted);

}  // namespace

std::span<const ShimFunction> shim_functions() {
  return kShims;
}

const ShimFunction* find_shim_function(std::string_view target) {
  const auto found = std::lower_bound(
      kShims.begin(), kShims.end(), target, [](const ShimFunction& row, std::string_view key) {
        return row.target < key;
      });
  return found != kShims.end() && found->target == target ? &*found : nullptr;
}

}  // namespace kiln::codegen
