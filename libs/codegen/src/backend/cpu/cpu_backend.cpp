#include "backend/cpu/cpu_backend.hpp"

#include <utility>

#include "backend/cpu/emit/emit_kernel.hpp"
#include "backend/cpu/kernel_units.hpp"
#include "backend/cpu/library/library.hpp"
#include "backend/cpu/match/match.hpp"
#include "backend/cpu/passes/pack_convolutions.hpp"
#include "backend/cpu/passes/prepare_gemms.hpp"
#include "backend/cpu/target/tuning.hpp"
#include "kiln/base/error.hpp"
#include "passes/channels_last.hpp"
#include "passes/unroll_lstm.hpp"

namespace kiln::codegen {
namespace {

constexpr const char* kDeclarations = R"(  void* aligned_alloc(Size, Size);
  int madvise(void*, Size, int);
)";

constexpr const char* kUseLargePages =
    R"(// Much memory is asked for on large pages: what it takes to get it, and to find an address in it, is
// then little. 14 is Linux's MADV_HUGEPAGE.
static __attribute__((unused)) void use_large_pages(void* memory, Size bytes) {
  const Size page = 2 << 20, end = ((Size)memory + bytes) / page * page;
  const Size begin = ((Size)memory + page - 1) / page * page;
  if (begin < end) madvise((void*)begin, end - begin, 14);
}
)";

constexpr const char* kAllocate = R"(
static unsigned char* allocate(Size bytes) {
  const Size page = 2 << 20;
  if (bytes < 2 * page) return (unsigned char*)aligned_alloc(64, bytes);
  bytes = (bytes + page - 1) / page * page;
  void* const memory = aligned_alloc(page, bytes);
  if (memory) use_large_pages(memory, bytes);
  return (unsigned char*)memory;
}
)";

}  // namespace

CpuBackend::CpuBackend(std::vector<Target> targets, const CpuPolicy& policy)
    : targets_(std::move(targets)), policy_(policy) {
  ensure(!targets_.empty(), "a backend has no target");
}

ir::Graph CpuBackend::prepare(const ir::Graph& graph, bool bind_constants) const {
  const Target& target = targets_[0];
  const bool binds_panels = bind_constants && target.panel_width > 0;
  ir::Graph prepared = binds_panels ? unroll_lstm(graph) : graph;
  prepared = prepare_gemms(prepared, target, bind_constants);
  prepared = lay_out_channels_last(prepared, bind_constants);
  if (binds_panels) {
    prepared = pack_convolutions(prepared, target.panel_width, tuning_of(target).convolution);
  }
  return prepared;
}

std::optional<LibraryMatch> CpuBackend::match(const MatchContext& context,
                                              const ir::Node& node) const {
  std::optional<LibraryMatch> match =
      match_library_call(context, node, targets_[0], policy_.winograd);
  if (match) {
    match->call.fields = argument_fields_of(match->call);
  }
  return match;
}

FusionLimits CpuBackend::fusion_limits() const {
  return tuning_of(targets_[0]).fusion;
}

LoopPolicy CpuBackend::loop_policy() const {
  return tuning_of(targets_[0]).loop_policy;
}

std::string CpuBackend::features(std::size_t target) const {
  return targets_[target].cpu_features;
}

KernelSource CpuBackend::emit(const LoopProgram& program,
                              const LoopNest& nest,
                              std::size_t target,
                              std::vector<ir::Expr>& sizes) const {
  return emit_kernel(program, nest, targets_[target], sizes);
}

KernelSource CpuBackend::emit(const LibraryCall& call, std::size_t target) const {
  return {
      .source = library_source(call, targets_[target]), .shape_generic = true, .uses_openmp = true};
}

DeviceOperations CpuBackend::operations() const {
  return {.device_type = 0,
          .device_name = "cpu",
          .declarations = kDeclarations,
          .allocate = kAllocate,
          .free = "free",
          .use_large_pages = kUseLargePages,
          .shim_prefix = "aoti_torch_cpu_"};
}

KernelUnits CpuBackend::units(std::span<const KernelSource> kernels,
                              std::size_t target,
                              std::size_t hot_count) const {
  // Marks tell the functions and files of further targets from those of the first.
  const std::string mark = target == 0 ? "" : "_" + std::to_string(target) + "_";
  return group_kernels(kernels, targets_[target], mark, hot_count);
}

}  // namespace kiln::codegen
