// The plan between a graph and its program: which buffers there are, which kernels fill them, and
// which nodes are left to libtorch, in order.
//
// `schedule()` (lowering, fusion, loop orders) makes it, for a device that it sees only as a
// `Backend`. It holds no source: a backend emits each kernel for each of its targets, and the
// program emitter the code around them.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "backend/backend.hpp"
#include "graph/cost.hpp"
#include "kiln/base/id.hpp"
#include "kiln/ir/graph.hpp"
#include "loop/loop_nest.hpp"
#include "loop/loop_program.hpp"

namespace kiln::codegen {

/// Memory that exists while a model runs.
struct Buffer {
  /// Whose memory it is.
  enum class Kind {
    kInput,      ///< A tensor of the caller.
    kConstant,   ///< A weight.
    kTemporary,  ///< The model's own, from its first write to its last use.
    kOutput,     ///< Allocated by the model and handed to the caller.
  };
  Kind kind = Kind::kTemporary;           ///< Whose it is.
  std::uint32_t index = 0;                ///< Position among the model's inputs or constants.
  ir::DType dtype = ir::DType::kFloat32;  ///< Of its elements.
  ir::Device device = {};                 ///< Where it is allocated.
  std::vector<ir::Expr> sizes = {};       ///< As allocated.
  std::vector<ir::Expr> strides = {};     ///< Dense, unless it is an input or a constant.
};
using BufferId = Id<Buffer>;

/// A value as a strided view of a buffer.
struct Location {
  BufferId buffer;                     ///< What it is a view of.
  ir::Expr offset = 0;                 ///< In elements, from the buffer's first element.
  std::vector<ir::Expr> sizes = {};    ///< One per dimension.
  std::vector<ir::Expr> strides = {};  ///< One per dimension.
};

/// A kernel applied to buffers: `buffers[i]` points at element `offset` of `operands[i].buffer`.
struct KernelCall {
  /// Where one pointer of a kernel points.
  struct Operand {
    BufferId buffer;       ///< Which memory.
    ir::Expr offset = 0;   ///< In elements.
    bool written = false;  ///< Whether the kernel writes there.
  };
  std::variant<LoopNest, LibraryCall> computation = LoopNest();  ///< What it computes.
  std::vector<Operand> operands = {};  ///< In the order of the kernel, then workspace.
  std::vector<ir::NodeId> nodes = {};  ///< The nodes that it computes, for reports.
  Cost cost = {};                      ///< Of this call.
};

/// A node that libtorch runs. Its tensor operands have locations; its results are whole buffers.
struct ExternCall {
  ir::NodeId node;  ///< Of the graph.
};

using Step = std::variant<KernelCall, ExternCall>;

/// A whole program.
struct Schedule {
  std::vector<Buffer> buffers;  ///< By `BufferId`.
  /// By `ValueId`; nothing for a value that lives only inside kernels.
  std::vector<std::optional<Location>> locations;
  std::vector<Step> steps;  ///< In order.
  LoopProgram program;      ///< Whose scalars the loop nests name.
};

/// The nodes of `graph` that `backend` wants as loops, as loops.
[[nodiscard]] LoopProgram lower_for(const Backend& backend, const ir::Graph& graph);

/// Plans `graph`, which must be functional: lowers what has a lowering, fuses, and leaves the rest
/// to the backend's own kernels and to libtorch. Graph inputs whose kind is parameter, buffer or
/// constant are constants if `bind_constants`.
///
/// An output of kind `kMutation` is written into the input it mutates by a last step and is not an
/// output of the model. Throws `Error` with `kInvalidArgument` if a node mutates, `kUnsupported`
/// for a device.
[[nodiscard]] Schedule schedule(const ir::Graph& graph,
                                const Backend& backend,
                                bool bind_constants);

}  // namespace kiln::codegen
