// A schedule with every decision made that its text needs: where each buffer's memory comes from
// and how long it lives, which tensors on it the extern calls want, what the model takes and
// returns.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kiln/ir/graph.hpp"
#include "kiln/ir/symbol_sources.hpp"
#include "program/kernel_table.hpp"
#include "schedule/schedule.hpp"

namespace kiln::codegen {

/// Where the memory of a buffer comes from.
enum class Memory {
  kInput,            ///< Borrowed from the caller.
  kConstant,         ///< Borrowed from the container.
  kArena,            ///< A place in the instance's own memory.
  kAllocated,        ///< Allocated in each run, because it may leave the model.
  kCalleeAllocated,  ///< Allocated by the extern call that computes it.
};

/// What the emitter must know about a buffer.
struct BufferPlan {
  Memory memory = Memory::kArena;
  bool used = false;
  std::uint32_t first = 0;     ///< The step that writes it first.
  std::uint32_t last = 0;      ///< The last step that needs it.
  bool escapes = false;        ///< Some output of the model shares its memory.
  bool needs_pointer = false;  ///< Kernels or tensors are laid on it.
  std::size_t offset = 0;      ///< In the arena, if sizes are fixed.
};

/// A tensor on part of a buffer, kept from run to run while the buffer stays where it is.
struct View {
  BufferId buffer;
  ir::DType dtype = ir::DType::kFloat32;
  ir::Expr offset = 0;
  std::vector<ir::Expr> sizes = {};
  std::vector<ir::Expr> strides = {};
};

/// An input or output of the model as its caller sees it.
struct Port {
  std::string name;
  ir::ValueId value;        ///< Invalid: an output that is None.
  std::uint32_t graph = 0;  ///< Position among the graph's inputs or outputs.
};

/// Everything that the text is made of. Holds on to `graph`, `schedule` and `kernels`.
struct Program {
  const ir::Graph* graph = nullptr;
  const Schedule* schedule = nullptr;
  const KernelTable* kernels = nullptr;
  std::vector<Port> inputs;
  std::vector<Port> constants;
  std::vector<Port> outputs;
  std::vector<ir::SymbolSource> symbols;  ///< Empty: every size is fixed.
  std::vector<BufferPlan> buffers;        ///< By `BufferId`.
  std::vector<View> views;
  std::vector<std::uint32_t>
      mutations;  ///< Outputs of the graph that are still to be copied into its inputs.
  std::size_t arena_bytes = 0;  ///< If sizes are fixed.
  bool mutates_constants = false;

  [[nodiscard]] const Buffer& buffer(BufferId id) const { return schedule->buffers[id.index()]; }
  [[nodiscard]] const BufferPlan& plan(BufferId id) const { return buffers[id.index()]; }
  [[nodiscard]] const std::optional<Location>& location(ir::ValueId id) const {
    return schedule->locations[id.index()];
  }
  /// The kernel that step number `step` calls, and how.
  [[nodiscard]] const KernelUse& use(std::size_t step) const { return kernels->uses[step]; }
  [[nodiscard]] const KernelSource& kernel(std::size_t step) const {
    return kernels->kernels()[use(step).kernel];
  }
  [[nodiscard]] bool dynamic() const { return !symbols.empty(); }
  /// Whether input number `position` is an integer that the user passes and that has one value
  /// only: the container, which knows no values, cannot check it.
  [[nodiscard]] bool is_fixed_integer(std::size_t position) const;
  /// Whether a run looks at its inputs, and may refuse them.
  [[nodiscard]] bool checks_inputs() const;
};

/// Whether `location` is all of its buffer, as the buffer was allocated.
[[nodiscard]] bool is_whole(const Location& location, const Buffer& buffer);

/// Whether a tensor at `location` is not there already, as an input, a constant or a result.
[[nodiscard]] bool needs_view(const Program& program, const Location& location);

/// Bytes from the first to the last element of a tensor.
[[nodiscard]] ir::Expr extent_bytes(const std::vector<ir::Expr>& sizes,
                                    const std::vector<ir::Expr>& strides,
                                    ir::DType dtype);

/// The position in `program.views` of the tensor at `location`. Places in the arena that buffers
/// share have their tensors in common too.
[[nodiscard]] std::optional<std::uint32_t> find_view(const Program& program,
                                                     const Location& location);

/// Decides all of the above. Throws `Error` with `kUnsupported` for what cannot be expressed.
[[nodiscard]] Program plan_program(const ir::Graph& graph,
                                   const Schedule& schedule,
                                   const KernelTable& kernels,
                                   bool bind_constants);

}  // namespace kiln::codegen
