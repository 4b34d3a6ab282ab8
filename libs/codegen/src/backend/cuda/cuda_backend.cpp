#include "backend/cuda/cuda_backend.hpp"

#include <utility>

#include "backend/cuda/emit/emit_nest.hpp"
#include "kiln/base/error.hpp"

namespace kiln::codegen {
namespace {

constexpr const char* kNoPrograms =
    "there are CUDA kernels, but no program for CUDA that calls them yet: compile for the CPU";

}  // namespace

CudaBackend::CudaBackend(std::vector<std::string> architectures)
    : architectures_(std::move(architectures)) {
  ensure(!architectures_.empty(), "a backend has no target");
}

ir::Graph CudaBackend::prepare(const ir::Graph& graph, bool /*bind_constants*/) const {
  return graph;
}

std::optional<LibraryMatch> CudaBackend::match(const MatchContext& /*context*/,
                                               const ir::Node& /*node*/) const {
  return std::nullopt;  // Products, convolutions and attention are libtorch's.
}

FusionLimits CudaBackend::fusion_limits() const {
  return {.operands = 24,
          .row_elements = 1 << 17,
          .loads = 24,
          .recomputed_cost = 3,
          .chunks = 1056,  // Eight blocks for each multiprocessor of an H200.
          .accumulators = 1 << 18,
          .splits_rows = true};
}

KernelSource CudaBackend::emit(const LoopProgram& program,
                               const LoopNest& nest,
                               std::size_t /*target*/,
                               std::vector<ir::Expr>& sizes) const {
  return cuda::emit_nest(program, nest, sizes);
}

KernelSource CudaBackend::emit(const LibraryCall& call, std::size_t /*target*/) const {
  throw Error(ErrorCode::kInternal, "the CUDA backend has no kernel " + call.operation);
}

DeviceOperations CudaBackend::operations() const {
  throw Error(ErrorCode::kUnsupported, kNoPrograms);
}

KernelUnits CudaBackend::units(std::span<const KernelSource> /*kernels*/,
                               std::size_t /*target*/,
                               std::size_t /*often*/) const {
  throw Error(ErrorCode::kUnsupported, kNoPrograms);
}

}  // namespace kiln::codegen
