// The plan between a graph and its program: which buffers there are, which kernels fill them, and
// which nodes are left to libtorch, in order.
//
// `schedule()` (lowering, fusion, kernel text) makes it; the program emitter turns it into source
// with the container's table. Device-neutral but for the kernels' text.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "graph/cost.hpp"
#include "kiln/base/id.hpp"
#include "kiln/codegen/target.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln::codegen {

/// Memory that exists while a model runs.
struct Buffer {
  /// Whose memory it is.
  enum class Kind {
    kInput,      ///< The caller's tensor.
    kConstant,   ///< A weight.
    kTemporary,  ///< Ours, from its first write to its last use.
    kOutput,     ///< Fresh memory that is handed to the caller.
  };
  Kind kind = Kind::kTemporary;           ///< Whose it is.
  std::uint32_t index = 0;                ///< Position among the model's inputs or constants.
  ir::DType dtype = ir::DType::kFloat32;  ///< Of its elements.
  ir::Device device = {};                 ///< Where it lies.
  std::vector<ir::Expr> sizes = {};       ///< As allocated.
  std::vector<ir::Expr> strides = {};     ///< Dense for what we allocate.
  /// Set by an extern call that allocates its own result; then it has no place in the arena.
  bool external = false;
};
using BufferId = Id<Buffer>;

/// A value as a strided window on a buffer.
struct Location {
  BufferId buffer;                     ///< What it looks at.
  ir::Expr offset = 0;                 ///< In elements, from the buffer's first element.
  std::vector<ir::Expr> sizes = {};    ///< One per dimension.
  std::vector<ir::Expr> strides = {};  ///< One per dimension.
};

/// One fused loop nest as source text.
struct Kernel {
  /// The definition of `extern "C" void KILN_KERNEL(void* const* buffers, const long long* sizes)`;
  /// the word KILN_KERNEL is replaced by a name made of the text's digest, so equal kernels are
  /// one.
  std::string source;
  std::string comment;  ///< The ops and module paths it came from.
  /// After its operands it takes an `int*` and sets it to 1 if it finds an index out of range.
  bool checks_indices = false;
  /// Its text knows no sizes, so many models have the same one: it may be there compiled.
  bool shared = false;
};

/// A kernel applied to buffers: `buffers[i]` points at element `offset` of `operands[i].buffer`.
struct KernelCall {
  /// Where one pointer of a kernel points.
  struct Operand {
    BufferId buffer;       ///< Which memory.
    ir::Expr offset = 0;   ///< In elements.
    bool written = false;  ///< Whether the kernel writes there.
  };
  std::uint32_t kernel = 0;            ///< Position in `Schedule::kernels`.
  std::vector<Operand> operands = {};  ///< In the order of the kernel.
  std::vector<ir::Expr> sizes = {};    ///< What it is told at run time.
  std::vector<ir::NodeId> nodes = {};  ///< What it computes, for people.
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
  std::vector<Kernel> kernels;  ///< What steps call.
  std::vector<Step> steps;      ///< In order.
};

/// Plans `graph`, which must be functional: lowers what has a lowering, fuses, and leaves the rest
/// to libtorch. Graph inputs whose kind is parameter, buffer or constant are constants if
/// `bind_constants`.
///
/// An output of kind `kMutation` is written into the input it mutates by a last step and is no
/// output of the model. Throws `Error` with `kInvalidArgument` if a node mutates, `kUnsupported`
/// for a device.
[[nodiscard]] Schedule schedule(const ir::Graph& graph, const Target& target, bool bind_constants);

}  // namespace kiln::codegen
