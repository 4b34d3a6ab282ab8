#include "backend/cuda/emit/nest_emitter.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "backend/cuda/emit/emit_nest.hpp"
#include "loop/loop_depth.hpp"
#include "text/source_text.hpp"

namespace kiln::codegen::cuda {

using ir::DType;
using ir::Expr;

namespace {

// Numbers below this may be added to each other in 32 bits.
constexpr std::int64_t kNarrow = std::int64_t{1} << 30;

bool is_narrow(const std::vector<Expr>& sizes, const std::vector<Expr>& strides) {
  std::int64_t last = 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto size = sizes[i].constant(), stride = strides[i].constant();
    if (!size || !stride || *size >= kNarrow || *stride >= kNarrow) {
      return false;
    }
    last += *size * *stride;
    if (last >= kNarrow) {
      return false;
    }
  }
  return true;
}

}  // namespace

NestEmitter::NestEmitter(const LoopProgram& program, const LoopNest& nest, std::vector<Expr>& sizes)
    : program_(program), nest_(nest), text_{program, nest, body_, sizes} {
  const auto is_half = [&](std::uint32_t operand) {
    return text_.dtype(operand) == DType::kFloat16 || text_.dtype(operand) == DType::kBFloat16;
  };
  text_.is_approximate =
      !nest.update && std::ranges::all_of(nest.stores, [&](const LoopNest::Store& store) {
        return is_half(store.operand);
      });
  const auto note = [&](ScalarId root) {
    text_.is_approximate = text_.is_approximate && !needs_exact_values(program.pool, root);
    text_.checks_indices = text_.checks_indices || checks_index(program.pool, root);
  };
  const auto note_address = [&](const Index& address) { for_each_computed(address, note); };
  for (const LoopNest::Reduce& reduce : nest.reduces) {
    note(reduce.body);
  }
  for (const LoopNest::Store& store : nest.stores) {
    note(store.value);
    note_address(store.address);
  }
  for (const Segment& segment : nest.segments) {
    std::for_each(segment.values.begin(), segment.values.end(), note);
  }
  if (nest.scan) {
    note(nest.scan->body);
  }
  if (nest.update) {
    note(nest.update->value);
    note_address(nest.update->address);
  }
}

KernelSource NestEmitter::run() {
  if (nest_.scan) {
    emit_scan(*nest_.scan);
  } else if (nest_.stores.empty() && nest_.reduces.empty()) {
    // Nothing but updates.
  } else if (!nest_.transposed_loads.empty() && nest_.reduces.empty() && fills_tiles()) {
    emit_tiles();
  } else if (has(IterationDomain::kRow)) {
    emit_rows();
  } else if (!has(IterationDomain::kColumn)) {
    if (emits_flat()) {
      emit_flat();
    } else {
      emit_elements();
    }
  } else if (has(IterationDomain::kSingle)) {
    emit_rows();
  } else {
    emit_columns();
  }
  if (nest_.has_epilogue()) {
    emit_totals();
  }
  if (nest_.update) {
    emit_update(*nest_.update);
  }
  const std::size_t buffers =
      nest_.operands.size() + nest_.scratch().size() + (text_.checks_indices ? 1 : 0);
  const std::string arguments =
      code("Arguments<$, $>", buffers, std::max<std::size_t>(text_.sizes.size(), 1));
  CodeWriter launcher;
  {
    const CodeWriter::Scope function = launcher.scope(
        "extern \"C\" void KILN_KERNEL(void* const* buffers, const long long* sizes, void* stream, "
        "const char** error)");
    launcher.line("$ arguments;", arguments);
    launcher.line("for (int i = 0; i < $; ++i) arguments.buffers[i] = buffers[i];", buffers);
    launcher.line("for (int i = 0; i < $; ++i) arguments.sizes[i] = sizes[i];", text_.sizes.size());
    launcher.verbatim(launches_.text());
  }

  KernelSource result;
  for (const std::string& op : nest_.ops) {
    result.source += (result.source.empty() ? "// " : ", ") + op;
  }
  result.source += "\n" + replace_all(body_.text(), "KILN_ARGUMENTS", arguments);
  result.launcher = launcher.text();
  result.entries = std::move(entries_);
  result.checks_indices = text_.checks_indices;
  return result;
}

std::string NestEmitter::index_type() const {
  bool narrow = is_narrow(nest_.extents, {1, 1, 1});
  Expr count = 1;
  for (const Expr& extent : nest_.extents) {
    count = count * extent;
  }
  narrow = narrow && is_narrow({count}, {1});
  if (nest_.update) {
    Expr updates = 1;
    for (const Expr& extent : nest_.update->extents) {
      updates = updates * extent;
    }
    narrow = narrow && is_narrow({updates}, {1});
  }
  for (const LoopNest::Operand& operand : nest_.operands) {
    const Tensor& tensor = program_[operand.tensor];
    narrow = narrow && is_narrow(tensor.sizes, tensor.strides);
  }
  return narrow ? "int" : "long long";
}

bool NestEmitter::has(IterationDomain domain) const {
  return std::ranges::any_of(nest_.reduces,
                             [&](const auto& reduce) { return reduce.result == domain; }) ||
         (domain == IterationDomain::kRow &&
          std::ranges::any_of(nest_.stores,
                              [&](const auto& store) { return store.domain == domain; }));
}

int NestEmitter::phase_count() const {
  int phases = 1;
  for (const LoopNest::Reduce& reduce : nest_.reduces) {
    phases = std::max(phases, reduce.phase + 1);
  }
  for (const LoopNest::Store& store : nest_.stores) {
    phases = std::max(phases, store.domain == IterationDomain::kFull ? store.phase + 1 : 1);
  }
  return phases;
}

std::string NestEmitter::extent(int variable) const {
  return text_.size(nest_.extents[static_cast<std::size_t>(variable)]);
}

std::string NestEmitter::row_length() const {
  return text_.size(nest_.extents[kMiddle] * nest_.extents[kInner]);
}

// Choices.

bool NestEmitter::is_packed(const Index& address) const {
  const int vector = is_flat_ ? 1 : block_.vector;
  if (vector == 1 || !along_ || !divides(vector, address.constant())) {
    return false;
  }
  const LoopDepth depth = along_ == kInner ? LoopDepth::kInner : LoopDepth::kMiddle;
  LoopDepths depths(program_.pool, nest_);
  bool is_contiguous = false;
  for (const Index::Term& term : address.terms()) {
    const Atom& atom = *term.atom;
    if (atom.kind == Atom::Kind::kVariable && atom.variable == *along_) {
      is_contiguous = term.factor == Expr(1);
      if (!is_contiguous) {
        return false;
      }
    } else if (depths.of(Index::of(term.atom)) >= depth || !divides(vector, term.factor)) {
      return false;
    }
  }
  return is_contiguous;
}

std::int64_t NestEmitter::smallest_element() const {
  std::int64_t smallest = 8;
  for (const LoopNest::Operand& operand : nest_.operands) {
    smallest = std::min<std::int64_t>(smallest, ir::size_of(program_[operand.tensor].dtype));
  }
  return smallest;
}

// Elements in one access: with more, the threads of a warp would leave gaps between what they
// store, and each 32 bytes of memory would be written twice. What is loaded twice is in the cache.
std::int64_t NestEmitter::max_stored_vector() const {
  std::int64_t vector = 16;
  for (const LoopNest::Store& store : nest_.stores) {
    if (store.domain == IterationDomain::kFull) {
      vector = std::min<std::int64_t>(vector, 16 / ir::size_of(text_.dtype(store.operand)));
    }
  }
  return std::max<std::int64_t>(vector, 1);
}

// As many elements as fill 16 bytes of the smallest type, if whole vectors fill a row.
int NestEmitter::choose_vector() const {
  std::int64_t vector = std::min({std::int64_t{8}, 16 / smallest_element(), max_stored_vector()});
  while (!divides(vector, nest_.extents[along_.value_or(kInner)])) {
    vector /= 2;
  }
  return static_cast<int>(vector);
}

BlockShape NestEmitter::choose_rows() const {
  BlockShape shape{.vector = choose_vector()};
  const std::optional<std::int64_t> row =
      (nest_.extents[kMiddle] * nest_.extents[kInner]).constant();
  if (!row) {
    return shape;
  }
  const auto vectors = static_cast<std::uint64_t>(std::max<std::int64_t>(*row / shape.vector, 1));
  const BlockTuning& tuning = kTuning.blocks;
  const bool is_many =
      nest_.extents[kOuter].constant().value_or(tuning.many_rows) >= tuning.many_rows;
  const std::int64_t elements =
      is_many ? tuning.bytes_of_many / smallest_element() : tuning.elements_of_few;
  const auto wanted = std::bit_ceil(static_cast<std::uint64_t>((*row + elements - 1) / elements));
  shape.width = static_cast<int>(std::clamp<std::uint64_t>(
      wanted, std::min<std::uint64_t>(32, std::bit_ceil(vectors)), tuning.max_row_threads));
  shape.rows = std::max(1, tuning.threads / shape.width);
  const auto trips =
      static_cast<std::int64_t>((vectors + static_cast<std::uint64_t>(shape.width) - 1) /
                                static_cast<std::uint64_t>(shape.width));
  shape.trips = trips <= tuning.max_trips ? static_cast<int>(trips) : 0;
  if (shape.trips == 0 && has(IterationDomain::kColumn)) {
    shape.rows = 1;  // Its totals are in memory, which one row at a time adds to.
  }
  return shape;
}

BlockShape NestEmitter::choose_columns() const {
  BlockShape shape{.vector = choose_vector(), .trips = 1};
  const std::optional<std::int64_t> row =
      (nest_.extents[kMiddle] * nest_.extents[kInner]).constant();
  const auto vectors = static_cast<std::uint64_t>(
      std::max<std::int64_t>(row.value_or(32 * shape.vector) / shape.vector, 1));
  shape.width = static_cast<int>(std::min<std::uint64_t>(32, std::bit_ceil(vectors)));
  shape.rows = kTuning.blocks.threads / shape.width;
  return shape;
}

// Kernels and launches.

std::string divided_up(const std::string& count, const std::string& by) {
  return code("((long long)$ + $ - 1) / $", count, by, by);
}

void NestEmitter::open_kernel(const std::string& name, int threads) {
  body_.open(
      "extern \"C\" __global__ void __launch_bounds__($) KILN_KERNEL_$(const "
      "KILN_ARGUMENTS arguments)",
      threads,
      name);
  body_.line("typedef $ Int;", index_type());
  body_.line("const long long* const sizes = arguments.sizes;");
  const auto name_buffer = [&](const std::string& type, const std::string& buffer, std::size_t i) {
    body_.line("$* const $ = ($*)arguments.buffers[$];", type, buffer, type, i);
  };
  std::string packed;
  for (std::uint32_t i = 0; i < nest_.operands.size(); ++i) {
    const std::string type(memory_type(text_.dtype(i)));
    name_buffer((nest_.operands[i].written ? "" : "const ") + type, text_.operand(i), i);
    packed +=
        (packed.empty() ? "(unsigned long long)" : " | (unsigned long long)") + text_.operand(i);
  }
  std::size_t next = nest_.operands.size();
  for (std::size_t i = 0; i < nest_.reduces.size(); ++i) {
    if (nest_.reduces[i].result != IterationDomain::kRow) {
      name_buffer(
          std::string(compute_type(nest_.reduces[i].dtype)), "partial" + std::to_string(i), next++);
    }
  }
  if (text_.checks_indices) {
    name_buffer("int", "failed", next);
  }
  if (block_.vector > 1) {
    body_.line("const bool aligned = (($) & 15) == 0;", packed);
  }
}

void NestEmitter::add_launch(const std::string& kernel,
                             const std::string& grid_x,
                             const std::string& grid_y,
                             int width,
                             int rows) {
  entries_.push_back("KILN_KERNEL_" + kernel);
  launches_.line("  KILN_LAUNCH(KILN_KERNEL_$, $, $, $, $);", kernel, grid_x, grid_y, width, rows);
}

KernelSource emit_nest(const LoopProgram& program, const LoopNest& nest, std::vector<Expr>& sizes) {
  return NestEmitter(program, nest, sizes).run();
}

}  // namespace kiln::codegen::cuda
