#include "backend/cuda/cuda_backend.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "backend/cuda/emit/emit_nest.hpp"
#include "backend/cuda/kernel_units.hpp"
#include "backend/cuda/library/product.hpp"
#include "backend/cuda/passes/accumulate_in_float.hpp"
#include "backend/cuda/passes/convolution_epilogues.hpp"
#include "backend/cuda/passes/product_epilogues.hpp"
#include "backend/cuda/passes/space_to_depth.hpp"
#include "backend/cuda/passes/split_products.hpp"
#include "backend/cuda/target/tuning.hpp"
#include "kiln/base/error.hpp"
#include "passes/channels_last.hpp"
#include "passes/unroll_lstm.hpp"

namespace kiln::codegen {
namespace {

constexpr const char* kDeclarations = R"(  HIDDEN int kiln_cuda_device(void);
  HIDDEN void* kiln_cuda_allocate(U64);
  HIDDEN void kiln_cuda_free(void*);
  HIDDEN void* kiln_cuda_allocate_host(U64);
  HIDDEN void kiln_cuda_free_host(void*);
  HIDDEN const char* kiln_cuda_synchronize(void*);
  HIDDEN void* kiln_cuda_function(const char*);
)";

constexpr const char* kAllocate = R"(
static unsigned char* allocate(Size bytes) {
  return (unsigned char*)kiln_cuda_allocate(bytes);
}
)";

// libtorch would refuse them too, but only when the model runs.
void refuse_cpu_operators(const ir::Graph& graph) {
  for (const ir::Node& node : graph.nodes()) {
    const std::string_view target = node.target;
    if (target.find("mkldnn") != std::string_view::npos || target.starts_with("onednn.") ||
        target.starts_with("quantized.") || target.find("_for_cpu") != std::string_view::npos) {
      throw Error(ErrorCode::kUnsupported,
                  node.target + " runs on CPUs only, and the program is compiled for CUDA");
    }
  }
}

// cuDNN's convolutions of half types work in channels-last memory, and convert any other.
bool has_half_convolutions(const ir::Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [&](const ir::Node& node) {
    return node.target == "aten.convolution.default" &&
           ir::is_half(graph.tensor(node.results[0]).dtype);
  });
}

// A block scans a row, which is slow if there is one long row alone. Along other dims each thread
// computes one running total, which is slow if the totals are long and few.
bool has_fast_scan(const ir::Graph& graph, const ir::Node& node) {
  const cuda::ScanTuning& tuning = cuda::kTuning.scans;
  const std::vector<ir::Expr>& sizes = graph.tensor(node.results[0]).sizes;
  const auto* dim = std::get_if<ir::Expr>(&node.arguments.at(1));
  if (sizes.empty() || dim == nullptr || !dim->constant()) {
    return sizes.empty();
  }
  const auto rank = static_cast<std::int64_t>(sizes.size());
  const std::int64_t place = *dim->constant() + (*dim->constant() < 0 ? rank : 0);
  const auto length = sizes.at(static_cast<std::size_t>(place)).constant();
  const auto all = ir::element_count(sizes).constant();
  if (place + 1 == rank) {
    return !length || *length <= tuning.max_single_row || all != length;
  }
  return length.value_or(tuning.max_total_length + 1) <= tuning.max_total_length ||
         (length && all && *all / *length >= tuning.min_totals);
}

// libtorch sorts the addends of these and sums them in float; atomics would round at each step.
bool accumulates_halves_in_float(const ir::Graph& graph, const ir::Node& node) {
  const auto adds = [&] {
    const bool* flag = node.arguments.size() > 3 ? std::get_if<bool>(&node.arguments[3]) : nullptr;
    return flag != nullptr && *flag;
  };
  return ir::is_half(graph.tensor(node.results[0]).dtype) &&
         (node.target == "aten.embedding_dense_backward.default" ||
          (node.target == "aten.index_put.default" && adds()));
}

bool is_scatter(std::string_view target) {
  return target.starts_with("aten.scatter") || target.starts_with("aten.index_add") ||
         target.starts_with("aten.index_copy") || target.starts_with("aten.index_put") ||
         target == "aten.embedding_dense_backward.default";
}

}  // namespace

CudaBackend::CudaBackend(std::vector<std::string> architectures, CudaOptions options)
    : architectures_(std::move(architectures)), options_(std::move(options)) {
  ensure(!architectures_.empty(), "a backend has no target");
}

ir::Graph CudaBackend::prepare(const ir::Graph& graph, bool bind_constants) const {
  ir::Graph prepared = bind_constants ? unroll_lstm(graph) : graph;
  refuse_cpu_operators(prepared);
  if (has_half_convolutions(prepared)) {
    if (bind_constants) {
      prepared = cuda::space_to_depth(prepared);
    }
    prepared = lay_out_channels_last(prepared, bind_constants);
  }
  prepared = cuda::fuse_convolution_epilogues(prepared);
  prepared = cuda::fuse_product_epilogues(prepared);
  if (!options_.deterministic) {
    prepared = cuda::accumulate_in_float(prepared);
  }
  return cuda::split_products(prepared);
}

// Convolutions, attention and other products are libtorch's.
std::optional<LibraryMatch> CudaBackend::match(const MatchContext& context,
                                               const ir::Node& node) const {
  return cuda::match_product(context, node);
}

bool CudaBackend::wants_loops(const ir::Graph& graph, const ir::Node& node) const {
  const std::string_view target = node.target;
  if (target == "aten.cumsum.default" || target == "aten.cumprod.default") {
    return options_.deterministic || has_fast_scan(graph, node);
  }
  if (!is_scatter(target)) {
    return true;
  }
  return !options_.deterministic && !accumulates_halves_in_float(graph, node);
}

FusionLimits CudaBackend::fusion_limits() const {
  return cuda::kTuning.fusion;
}

LoopPolicy CudaBackend::loop_policy() const {
  return cuda::kTuning.loop_policy;
}

KernelSource CudaBackend::emit(const LoopProgram& program,
                               const LoopNest& nest,
                               std::size_t /*target*/,
                               std::vector<ir::Expr>& sizes) const {
  return cuda::emit_nest(program, nest, sizes);
}

KernelSource CudaBackend::emit(const LibraryCall& call, std::size_t /*target*/) const {
  ensure(call.operation == cuda::kProduct, "the CUDA backend has no other library kernel");
  return {.source = {}, .launcher = cuda::product_launcher()};
}

DeviceOperations CudaBackend::operations() const {
  return {.device_type = static_cast<int>(ir::DeviceType::kCuda),
          .device_name = "cuda",
          .device_index = "kiln_cuda_device()",
          .declarations = kDeclarations,
          .allocate = kAllocate,
          .free = "kiln_cuda_free",
          .shim_prefix = "aoti_torch_cuda_",
          .find_function = "kiln_cuda_function",
          .asynchronous = true,
          .allocate_flags = "kiln_cuda_allocate_host",
          .free_flags = "kiln_cuda_free_host",
          .synchronize = "kiln_cuda_synchronize"};
}

KernelUnits CudaBackend::units(std::span<const KernelSource> kernels,
                               std::size_t /*target*/,
                               std::size_t /*often*/) const {
  return cuda::group_kernels(kernels, architectures_, options_.nvrtc);
}

}  // namespace kiln::codegen
