#include "backend/cpu/emit/emit_kernel.hpp"

#include <algorithm>
#include <set>

#include "backend/cpu/emit/kernel_emitter.hpp"
#include "backend/cpu/kernels/kernel_headers.hpp"
#include "schedule/transpose_tiling.hpp"

namespace kiln::codegen {

using ir::DType;
using ir::Expr;

namespace {

// Vectors of 64-bit numbers have as many lanes as the others. Where that is twice a register GCC
// takes comparisons of them apart, element by element; half as many lanes cost less.
int vector_bytes(const LoopProgram& program, const LoopNest& kernel, const Target& target) {
  if (!is_avx512(target.vector_bytes / 4)) {
    return target.vector_bytes;
  }
  LoopDepths depths(program.pool, kernel);
  const bool is_wide = std::ranges::any_of(loads_of(program.pool, kernel), [&](ScalarId load) {
    return ir::size_of(program.pool[load].dtype) == 8 && depths.of(load) == LoopDepth::kInner;
  });
  return is_wide ? target.vector_bytes / 2 : target.vector_bytes;
}

double element_count_of(const LoopProgram& program, const LoopNest& kernel) {
  return static_cast<double>(program.hint.at_scale(ir::element_count(kernel.extents)));
}

// Rough nanoseconds that one core takes to read and write what `kernel` does, if it is far away.
double memory_nanoseconds(const LoopProgram& program,
                          const LoopNest& kernel,
                          const LoopTuning& tuning) {
  const double elements = element_count_of(program, kernel);
  double bytes = 0;
  for (const LoopNest::Operand& operand : kernel.operands) {
    const Tensor& tensor = program[operand.tensor];
    const auto count = static_cast<double>(program.hint.at_scale(ir::element_count(tensor.sizes)));
    bytes += std::min(count, elements) * static_cast<double>(ir::size_of(tensor.dtype));
  }
  return bytes / tuning.bytes_per_nanosecond;
}

}  // namespace

KernelEmitter::KernelEmitter(const LoopProgram& program,
                             const LoopNest& kernel,
                             const Target& target,
                             std::vector<Expr>& sizes)
    : kernel_(kernel),
      tuning_(tuning_of(target).loops),
      depths_(program.pool, kernel),
      context_{program, kernel, depths_, body_, sizes},
      lanes_(vector_bytes(program, kernel, target) / 4) {
  const double nanoseconds = estimate_nanoseconds(program, kernel, lanes_, tuning_);
  const double longest = std::max(nanoseconds, memory_nanoseconds(program, kernel, tuning_));
  const Expr elements = element_count(kernel.extents);
  parallel_ = longest > tuning_.parallel_threshold;
  if (!elements.is_constant()) {
    // The sizes decide: are there as many elements as take so long?
    constexpr double kLeast = 1e-3;  // Nanoseconds for an element, where nothing was counted.
    const double each =
        std::max(kLeast, longest / static_cast<double>(program.hint.at_scale(elements)));
    parallel_elements_ = static_cast<std::int64_t>(tuning_.parallel_threshold / each);
    parallel_ = true;
  }
  interleaves_ = nanoseconds > tuning_.interleave_threshold;
}

KernelSource KernelEmitter::run() {
  {
    const CodeWriter::Scope function =
        body_.scope("extern \"C\" void KILN_KERNEL(void* const* buffers, const long long* sizes)");
    body_.line("(void)sizes;");
    name_operands();
    if (kernel_.scan) {
      emit_scan();
    } else if (kernel_.stores.empty() && kernel_.reduces.empty()) {
      // Nothing but updates.
    } else if (!kernel_.transposed_loads.empty()) {
      emit_transpose_tiles();
    } else if (is_blocked()) {
      emit_blocks();
    } else {
      emit_rows();
    }
    if (kernel_.has_epilogue()) {
      emit_epilogue();
    }
    if (kernel_.update) {
      emit_updates();
    }
  }
  result_.checks_indices = context_.checks_indices;
  for (const std::string& op : kernel_.ops) {
    result_.source += (result_.source.empty() ? "// " : ", ") + op;
  }
  // Vectors wider than a register are passed between inlined functions only: their ABI does not
  // matter.
  result_.source +=
      "\n#pragma GCC diagnostic ignored \"-Wpsabi\"\nnamespace KILN_KERNEL_parts {\n" +
      with_kernel_headers(std::string(share_source()) + "\n" + body_.text(), lanes_) +
      "}  // namespace KILN_KERNEL_parts\n";
  return std::move(result_);
}

std::string KernelEmitter::extent(int variable) const {
  return context_.text(kernel_.extents[static_cast<std::size_t>(variable)]);
}

std::string KernelEmitter::row_position(const std::string& inner) const {
  return kernel_.extents[kMiddle] == Expr(1) ? inner : "m * " + extent(kInner) + " + " + inner;
}

DType KernelEmitter::operand_dtype(std::uint32_t operand) const {
  return context_.program[kernel_.operands[operand].tensor].dtype;
}

void KernelEmitter::name_operands() {
  for (std::uint32_t i = 0; i < kernel_.operands.size(); ++i) {
    const DType dtype = operand_dtype(i);
    const std::string type =
        (kernel_.operands[i].written ? "" : "const ") + std::string(memory_type(dtype));
    body_.line("$* const $ = ($*)buffers[$];", type, context_.operand(i), type, i);
  }
  std::size_t next = kernel_.operands.size();
  for (std::size_t i = 0; i < kernel_.reduces.size(); ++i) {
    const LoopNest::Reduce& reduce = kernel_.reduces[i];
    if (reduce.result == IterationDomain::kRow) {
      continue;
    }
    const std::string type(memory_type(reduce.dtype));
    body_.line("$* const partial$ = ($*)buffers[$];", type, i, type, next++);
  }
  context_.failure = "buffers[" + std::to_string(next) + "]";
}

bool KernelEmitter::is_blocked() const {
  const std::optional<std::int64_t> outer = kernel_.extents[kOuter].constant();
  const std::optional<std::int64_t> inner = kernel_.extents[kInner].constant();
  const bool is_long = !inner || *inner > tuning_.block;
  const bool uniform = std::ranges::all_of(kernel_.stores, [](const LoopNest::Store& store) {
    return store.domain == IterationDomain::kFull;
  });
  return parallel_ && kernel_.reduces.empty() && kernel_.segments.empty() && uniform && outer &&
         *outer < tuning_.min_rows && is_long && kernel_.extents[kMiddle] == Expr(1);
}

void KernelEmitter::open_blocks(const std::vector<Expr>& extents,
                                std::int64_t block,
                                const std::optional<Threshold>& threads) {
  const Expr blocks = floor_div(extents[kInner] + Expr(block - 1), Expr(block));
  const std::string count = context_.text(blocks);
  const std::string size = std::to_string(block);
  const std::string length = context_.text(extents[kInner]);
  open_tasks("task", context_.text(blocks * extents[kOuter]), threads);
  body_.line("const Index o = task / $;", count);
  body_.line("const Index begin = task % $ * $;", count, size);
  body_.line("const Index end = begin + $ < $ ? begin + $ : $;", size, length, size, length);
  body_.line("(void)o;");
}

void KernelEmitter::emit_blocks() {
  open_blocks(kernel_.extents, tuning_.block, parallel_threshold());
  Block row(context_, nullptr, LoopDepth::kOuter);
  emit_phase(0, row, inner_blocks(tuning_.block));
  close_tasks();
}

void KernelEmitter::emit_rows() {
  if (kernel_.has_epilogue()) {
    const std::string chunks = std::to_string(kernel_.reduction_splits);
    open_tasks("chunk", chunks, kernel_.reduction_splits > 1 ? parallel_threshold() : std::nullopt);
    open_chunk_accumulators();
    emit_chunk(extent(kOuter) + " * chunk / " + chunks,
               extent(kOuter) + " * (chunk + 1) / " + chunks);
    close_chunk_accumulators();
    close_tasks();
    return;
  }
  const bool single = kernel_.extents[kOuter] == Expr(1);
  if (single) {
    body_.open();
    body_.line("const Index o = 0;");
    body_.line("(void)o;");
  } else {
    open_tasks("o", extent(kOuter), parallel_threshold());
  }
  Block outermost(context_, nullptr, LoopDepth::kInvariant);
  emit_row(outermost);
  close_tasks();
}

void KernelEmitter::emit_chunk(const std::string& begin, const std::string& end) {
  if (unrolls_rows()) {
    body_.line("Index o = $;", begin);
    if (emit_unrolled_rows(end)) {
      return;
    }
    body_.open("for (; o < $; ++o)", end);
  } else {
    body_.open("for (Index o = $; o < $; ++o)", begin, end);
  }
  Block chunk(context_, nullptr, LoopDepth::kInvariant);
  emit_row(chunk);
  body_.close();
}

int KernelEmitter::phase_count() const {
  int phases = 1;
  for (const LoopNest::Reduce& reduce : kernel_.reduces) {
    phases = std::max(phases, reduce.phase + 1);
  }
  for (const LoopNest::Store& store : kernel_.stores) {
    if (store.domain == IterationDomain::kFull) {
      phases = std::max(phases, store.phase + 1);
    }
  }
  return phases;
}

double estimate_nanoseconds(const LoopProgram& program,
                            const LoopNest& kernel,
                            int lanes,
                            const LoopTuning& tuning) {
  double operations = 0;
  std::set<ScalarId> seen;
  LoopDepths depths(program.pool, kernel);
  const auto visit = [&](auto&& self, ScalarId id) -> void {
    if (!seen.insert(id).second || depths.of(id) < LoopDepth::kInner) {
      return;
    }
    const Scalar& scalar = program.pool[id];
    operations += operation_cost(scalar.op);
    for (const ScalarId operand : scalar.operands) {
      self(self, operand);
    }
    for (const Index& index : scalar.indices) {
      for_each_computed(index, [&](ScalarId place) {
        operations += depths.of(place) == LoopDepth::kInner ? tuning.vectors_per_nanosecond * lanes
                                                            : 0;  // One by one.
        self(self, place);
      });
    }
  };
  for (const LoopNest::Reduce& reduce : kernel.reduces) {
    operations += 2;
    visit(visit, reduce.body);
  }
  for (const LoopNest::Store& store : kernel.stores) {
    operations += store.domain == IterationDomain::kFull ? 2 : 0;
    visit(visit, store.value);
  }
  return element_count_of(program, kernel) * operations / lanes / tuning.vectors_per_nanosecond;
}

KernelSource emit_kernel(const LoopProgram& program,
                         const LoopNest& kernel,
                         const Target& target,
                         std::vector<Expr>& sizes) {
  return KernelEmitter(program, kernel, target, sizes).run();
}

}  // namespace kiln::codegen
