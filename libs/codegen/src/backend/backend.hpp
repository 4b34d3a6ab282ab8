// The seam between planning and a device: what a backend decides, and what it writes.
//
// Passes, scheduling and the memory plan know no device. They ask a backend which operators it has
// kernels of its own for and how much may be fused; once the schedule is there, the backend writes
// its loop nests and library calls as source, once for each of its targets, and says how the
// program around them allocates and launches.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kiln/ir/graph.hpp"
#include "kiln/ir/uses.hpp"
#include "loop/loop_nest.hpp"
#include "loop/loop_program.hpp"
#include "loop/strided_view.hpp"
#include "toolchain/build.hpp"

namespace kiln::codegen {

/// A call of a kernel that a backend brings for an operator. Its source is the same for all shapes.
struct LibraryCall {
  std::string operation = {};                ///< "packed_gemm": one of the backend's.
  std::vector<std::int64_t> constants = {};  ///< What its source is specialised for.
  std::vector<ir::Expr> parameters = {};     ///< What it is told at run time.
  ir::Expr scratch = 0;  ///< Elements of float32 that it wants behind its operands.
};

/// A node as such a call.
struct LibraryMatch {
  LibraryCall call;
  std::vector<StridedView> operands = {};  ///< What it reads, and then its results.
  std::size_t results = 1;                 ///< Of the operands, at the end.
};

/// What a backend looks at to match a node.
struct MatchContext {
  const ir::Graph& graph;
  const ir::Uses& uses;
  const LoopProgram& program;
};

/// How much one kernel may do.
struct FusionLimits {
  std::size_t operands = 0;       ///< Of a kernel; more are no longer held in registers.
  std::int64_t row_elements = 0;  ///< Longer rows of reductions do not stay in the cache.
  int loads = 0;                  ///< Of one expression, before it is cut.
  int recomputed_cost = 0;        ///< Up to so many operations a value is computed again.
  /// Totals over rows are added up in at most so many parts of their own, and no more accumulators.
  int chunks = 16;
  std::int64_t accumulators = std::int64_t{1} << 62;
  bool splits_rows = false;  ///< Parts of what is reduced to one number need not be whole rows.
};

/// A kernel as source text.
struct KernelSource {
  /// The definition of `extern "C" void KILN_KERNEL(void* const* buffers, const long long* sizes)`;
  /// the word KILN_KERNEL is replaced by a name made of the text's digest, so equal kernels are
  /// one.
  std::string source;
  /// For a device: `source` defines what runs there, and this the function above, which is told two
  /// things more, `void* stream, const char** error`, and leaves in `error` why a launch failed.
  std::string launcher = {};
  std::vector<std::string> entries = {};  ///< What it launches: "KILN_KERNEL_rows".
  std::string comment = {};               ///< The ops and module paths it came from.
  /// After its operands it takes an `int*` and sets it to 1 if it finds an index out of range.
  bool checks_indices = false;
  /// Its text knows no sizes, so many models have the same one: it may be there compiled.
  bool shape_generic = false;
  bool uses_openmp = false;  ///< The library is linked with it.
};

/// What became of the kernels of a program for one target.
struct KernelUnits {
  std::vector<Unit> units;
  std::vector<std::string> names;  ///< The function of each kernel.
  int distinct = 0;
  /// Functions `int f(void)` that an instance calls before its first run: 0 on success.
  std::vector<std::string> loaders = {};
};

/// How the program around the kernels speaks to the device, as C++ text.
struct DeviceOperations {
  int device_type = 0;              ///< As libtorch numbers devices.
  std::string device_name = {};     ///< "cpu"
  std::string device_index = "-1";  ///< An expression: which device of that type is current.
  std::string declarations = {};    ///< Of the functions that the others call, a line each.
  /// Defines `unsigned char* allocate(Size bytes)`, which gives null if there is no memory and else
  /// some that begins at a multiple of 64.
  std::string allocate = {};
  std::string free = {};  ///< The function that gives memory of `allocate` back.
  /// Defines `void use_large_pages(void* memory, Size bytes)`, or is empty.
  std::string use_large_pages = {};

  std::string shim_prefix = {};  ///< Of the functions of libtorch's C shim: "aoti_torch_cpu_".
  /// `void* f(const char* name)` that finds those functions when an instance is made; empty: the
  /// library is linked with them.
  std::string find_function = {};

  /// Kernels are put into a stream and run later. They then find indices that are out of range
  /// later, too, in memory that these functions allocate and free; `synchronize(stream)` waits, and
  /// gives null or why the device failed.
  bool asynchronous = false;
  std::string allocate_flags = {};
  std::string free_flags = {};
  std::string synchronize = {};

  /// "0, -1": the type and the index of the device, as arguments of libtorch's shim.
  [[nodiscard]] std::string arguments() const {
    return std::to_string(device_type) + ", " + device_index;
  }
  /// The types that a kernel takes.
  [[nodiscard]] std::string parameters() const {
    return std::string("void* const*, const Int64*") +
           (asynchronous ? ", void*, const char**" : "");
  }
  /// The statements that run `kernel`.
  [[nodiscard]] std::string launch(const std::string& kernel,
                                   const std::string& buffers,
                                   const std::string& sizes) const {
    return kernel + "(" + buffers + ", " + sizes +
           (asynchronous ? ", call.stream, &call.error); if (call.error) return 1;" : ");");
  }
};

/// A device that graphs are compiled for.
class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  /// Where its tensors lie.
  [[nodiscard]] virtual ir::DeviceType device() const = 0;

  /// `graph` in the layouts and operators that the device is best at. What depends on constants
  /// alone is split off afterwards.
  [[nodiscard]] virtual ir::Graph prepare(const ir::Graph& graph, bool bind_constants) const = 0;

  /// `node`, which was not lowered, as a kernel of the backend's own; nothing if there is none, or
  /// none that is faster than libtorch.
  [[nodiscard]] virtual std::optional<LibraryMatch> match(const MatchContext& context,
                                                          const ir::Node& node) const = 0;

  [[nodiscard]] virtual FusionLimits fusion_limits() const = 0;

  /// Kernels are written for so many targets, from which a library takes one when it is loaded.
  [[nodiscard]] virtual std::size_t target_count() const = 0;

  /// What a machine must have for a target, as /proc/cpuinfo names it.
  [[nodiscard]] virtual std::string features(std::size_t target) const = 0;

  /// The source of `nest`. `sizes` are the symbolic numbers that it is told; those that are missing
  /// are added, so that all targets are told the same.
  [[nodiscard]] virtual KernelSource emit(const LoopProgram& program,
                                          const LoopNest& nest,
                                          std::size_t target,
                                          std::vector<ir::Expr>& sizes) const = 0;
  [[nodiscard]] virtual KernelSource emit(const LibraryCall& call, std::size_t target) const = 0;

  [[nodiscard]] virtual DeviceOperations operations() const = 0;

  /// Names the kernels and groups the distinct ones. Those behind the first `often` fold constants:
  /// they run once, so they are compiled in less time.
  [[nodiscard]] virtual KernelUnits units(std::span<const KernelSource> kernels,
                                          std::size_t target,
                                          std::size_t often) const = 0;
};

}  // namespace kiln::codegen
