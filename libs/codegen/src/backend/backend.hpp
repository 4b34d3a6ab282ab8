// The interface between planning and a device: what a backend decides, and what it writes.
//
// Passes, scheduling and the memory plan are device-independent. They ask a backend which operators
// it has library kernels for and how much may be fused; given the schedule, the backend emits its
// loop nests and library calls as source, once for each of its targets, and says how the program
// around them allocates and launches.

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

/// What an argument of a kernel is called.
struct LibraryField {
  std::string name = {};
  bool is_real = false;  ///< The argument is the bits of a double.
};

/// A call of a kernel that a backend brings for an operator. Its source is the same for all shapes.
struct LibraryCall {
  std::string operation = {};                 ///< "packed_gemm": one of the backend's.
  std::vector<std::int64_t> constants = {};   ///< Compile-time parameters of its source.
  std::vector<ir::Expr> parameters = {};      ///< Run-time arguments.
  std::span<const LibraryField> fields = {};  ///< Their names, for people; none, or as many.
  ir::Expr scratch = 0;  ///< float32 elements of workspace, passed after the operands.
};

/// A node as such a call.
struct LibraryMatch {
  LibraryCall call;
  std::vector<StridedView> operands = {};  ///< Inputs, then results.
  std::size_t results = 1;                 ///< How many of the operands are results.
};

/// What a backend looks at to match a node.
struct MatchContext {
  const ir::Graph& graph;
  const ir::Uses& uses;
  const LoopProgram& program;
};

/// How much one kernel may do.
struct FusionLimits {
  std::size_t max_operands = 0;       ///< Per kernel; more do not fit in registers.
  std::int64_t max_row_elements = 0;  ///< Longer rows of reductions do not stay in the cache.
  int max_loads = 0;                  ///< Per expression; beyond this it is split.
  int max_recompute_cost = 0;         ///< Values at most this expensive are recomputed, not stored.
};

/// How the loops of a kernel are divided among threads, and what they keep in fast memory. Fewer
/// elements than it says are not worth the trouble.
struct LoopPolicy {
  /// Reductions over the rows, and of everything: each part of the rows has accumulators of its
  /// own, and they are combined in an epilogue.
  struct Splits {
    std::int64_t min_elements = 1 << 15;
    std::int64_t rows_of_part = 8;
    std::int64_t max_parts = 16;
    std::int64_t max_accumulators = std::int64_t{1} << 62;  ///< Of more than 8 parts.
    bool inside_rows = false;  ///< A reduction of everything is split inside a row, too,
    std::int64_t elements_of_part = 4096;  ///< in parts of so many elements.
  };
  /// Loads across the rows are transposed in tiles.
  struct Transposes {
    std::int64_t min_side = 8;
    std::int64_t min_elements = 1 << 12;
    std::size_t max_loads = 4;  ///< As many tiles have to be in fast memory at once.
  };
  /// Values of a row that later phases read back; otherwise each phase computes them again.
  struct RowBuffers {
    std::int64_t max_bytes = 0;  ///< Of a row, beyond what is stored anyway; 0: nothing is kept.
    int max_recompute_cost = 4;  ///< Values at most this expensive are not kept.
  };
  Splits splits = {};
  Transposes transposes = {};
  RowBuffers row_buffers = {};
  /// Segments of one length that read the same memory are visited together (merge_segments.hpp).
  bool merges_segments = false;
};

/// A kernel as source text.
struct KernelSource {
  /// The definition of `extern "C" void KILN_KERNEL(void* const* buffers, const long long* sizes)`;
  /// the word KILN_KERNEL is replaced by a name made of the text's digest, which deduplicates
  /// kernels.
  std::string source;
  /// For a device: `source` defines what runs there, and this the function above, which takes two
  /// more arguments, `void* stream, const char** error`, and leaves in `error` why a launch failed.
  std::string launcher = {};
  std::vector<std::string> entries = {};  ///< What it launches: "KILN_KERNEL_rows".
  std::string comment = {};               ///< The ops and module paths it came from.
  /// After its operands it takes an `int*` and sets it to 1 if it finds an index out of range.
  bool checks_indices = false;
  /// Its source is independent of shapes and so shared by many models; a precompiled object may
  /// exist.
  bool shape_generic = false;
  bool uses_openmp = false;  ///< The library is linked with it.
};

/// The kernels of a program as translation units, for one target.
struct KernelUnits {
  std::vector<Unit> units;
  std::vector<std::string> names;  ///< The function of each kernel.
  int distinct = 0;
  /// Functions `int f(void)` that an instance calls before its first run: 0 on success.
  std::vector<std::string> loaders = {};
};

/// How the program around the kernels uses the device, as C++ source.
struct DeviceOperations {
  int device_type = 0;              ///< As libtorch numbers devices.
  std::string device_name = {};     ///< "cpu"
  std::string device_index = "-1";  ///< An expression: which device of that type is current.
  std::string declarations = {};    ///< Of the functions that the others call, a line each.
  /// Defines `unsigned char* allocate(Size bytes)`, which returns memory aligned to 64 bytes, or
  /// null if there is none.
  std::string allocate = {};
  std::string free = {};  ///< The function that frees memory of `allocate`.
  /// Defines `void use_large_pages(void* memory, Size bytes)`, or is empty.
  std::string use_large_pages = {};

  std::string shim_prefix = {};  ///< Of the functions of libtorch's C shim: "aoti_torch_cpu_".
  /// `void* f(const char* name)` that finds those functions when an instance is made; empty: the
  /// library is linked with them.
  std::string find_function = {};

  /// Kernels are enqueued on a stream. They report indices that are out of range later, too, in
  /// memory that these functions allocate and free; `synchronize(stream)` waits and returns null,
  /// or why the device failed.
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

  /// The device type of its tensors.
  [[nodiscard]] virtual ir::DeviceType device() const = 0;

  /// `graph` in the layouts and operators that the device is best at. What depends on constants
  /// alone is split off afterwards.
  [[nodiscard]] virtual ir::Graph prepare(const ir::Graph& graph, bool bind_constants) const = 0;

  /// `node`, which was not lowered, as a call of a library kernel; nothing if there is none, or
  /// libtorch is faster.
  [[nodiscard]] virtual std::optional<LibraryMatch> match(const MatchContext& context,
                                                          const ir::Node& node) const = 0;

  /// Whether loops of this device are better than libtorch's kernel for `node`, if it has a
  /// lowering.
  [[nodiscard]] virtual bool wants_loops(const ir::Graph& /*graph*/,
                                         const ir::Node& /*node*/) const {
    return true;
  }

  /// Whether a layer norm also sums the differences from its mean, to correct the rounding of that:
  /// worth it where a thread adds up many numbers.
  [[nodiscard]] virtual bool corrects_means() const { return true; }

  [[nodiscard]] virtual FusionLimits fusion_limits() const = 0;
  [[nodiscard]] virtual LoopPolicy loop_policy() const { return {}; }

  /// How many targets (instruction sets) kernels are emitted for; a library picks one at load time.
  [[nodiscard]] virtual std::size_t target_count() const = 0;

  /// The CPU features that a target requires, as /proc/cpuinfo names them.
  [[nodiscard]] virtual std::string features(std::size_t target) const = 0;

  /// The source of `nest`. `sizes` are the symbolic run-time arguments; missing ones are appended,
  /// so that all targets take the same list.
  [[nodiscard]] virtual KernelSource emit(const LoopProgram& program,
                                          const LoopNest& nest,
                                          std::size_t target,
                                          std::vector<ir::Expr>& sizes) const = 0;
  [[nodiscard]] virtual KernelSource emit(const LibraryCall& call, std::size_t target) const = 0;

  [[nodiscard]] virtual DeviceOperations operations() const = 0;

  /// Names kernels and groups the distinct ones into units. Kernels after the first `hot_count`
  /// fold constants: they run once, so they may be compiled with less optimization.
  [[nodiscard]] virtual KernelUnits units(std::span<const KernelSource> kernels,
                                          std::size_t target,
                                          std::size_t hot_count) const = 0;
};

}  // namespace kiln::codegen
