// Options of a compile, and what it reports.

#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kiln/autograd_dispatch/compiler.hpp"
#include "kiln/container_runtime/runner.hpp"
#include "kiln/export/dynamic_dims.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln {

using container_runtime::CudaGraphs;

/// The stages of a compile, in order.
enum class Stage {
  kTrace,     ///< The program runs once, recorded.
  kSchedule,  ///< The graph is lowered and fused.
  kKernels,   ///< The generated source is compiled.
  kLink,      ///< The library is linked.
  kLoad,      ///< The library is opened.
};
/// The name of a stage in one word: "kernels".
[[nodiscard]] std::string_view to_string(Stage stage);

/// How far a compile has come.
struct Progress {
  Stage stage = Stage::kTrace;  ///< The current stage.
  int done = 0;                 ///< Completed parts of the stage.
  int total = 0;                ///< How many parts the stage has.
};

/// How often a compiled version of a function is checked against the program, by tracing the
/// program again (docs/tracing.md).
enum class Retrace {
  kNever,     ///< Changes after the first trace are not noticed.
  kDoubling,  ///< Before calls 2, 4, 8, 16, … of a version, or later: `retrace_budget`.
  kAlways,    ///< Before every call after the first, whatever it costs.
};

/// What happens to calls once the program differs from the one that was compiled.
enum class OnChange {
  kEager,      ///< They run eagerly from then on, and the first one warns.
  kRecompile,  ///< The version is recompiled; each time counts towards `max_versions`.
  kThrow,      ///< They throw `Error` with `kInvalidArgument`, saying what changed.
};

/// Which calls of a version for a range of sizes are traced, and compared with the version, if
/// their sizes are new to it.
enum class VerifySizes {
  kNever,     ///< None: the samples stand for the whole range.
  kIntegers,  ///< If integers vary: calls in which one is new, or is new beside these sizes.
  kAll,       ///< Calls with new sizes, whatever varies.
};

/// Options of `compile` and `aot_compile`.
struct CompileOptions {
  /// Names the function and its version, so that it is found in the cache without a trace. If you
  /// change the function, or a number in it, change its identity.
  std::string identity = {};
  /// CPU features to compile for: native, x86-64-v2 … v4, neon, sve. Several are separated by
  /// commas, the least demanding first; the model uses the best one that its machine has.
  std::string isa = "native";
  /// The device that `aot_compile` compiles for: "cpu" or "cuda"; if empty, that of the program's
  /// tensors. Compiling for CUDA needs no GPU.
  std::string device = {};
  /// GPUs to compile for: "native", which is the one of this machine, or "sm_80", "sm_90", …; a
  /// model for them also runs on newer ones.
  std::vector<std::string> arch = {"native"};
  /// On a GPU, report an index that is out of range in the run that reads it, which must then wait
  /// for the device; otherwise the next run reports it.
  bool check_indices_now = false;
  /// Calls on a GPU are captured as graphs and replayed, which costs the host one launch.
  CudaGraphs cuda_graphs = CudaGraphs::kAuto;
  bool keep_mutations_in_graph = true;  ///< Graphs write inputs themselves where they can.
  bool check_inputs = true;             ///< A package checks its inputs' metadata at each call.
  /// Before `compile` traces a function, look for values that it reads without going through the
  /// dispatcher (`x.data_ptr<float>()[0]`), by running it on perturbed data, and throw if there are
  /// any. The backward is not checked, nor are functions found in the cache.
  bool check_hidden_reads = false;
  /// A function may return memory that no operator has written (`torch::empty`). Otherwise that is
  /// an error, because a trace cannot tell it from memory that was filled through a raw pointer.
  bool allow_uninitialized = false;
  std::size_t instances = 0;  ///< How many a package is loaded with; 0: one for each core.
  bool profile = false;       ///< Make each kernel a range in PyTorch's profiler.
  bool winograd = true;       ///< Use Winograd's algorithm for 3x3 convolutions (docs/codegen.md).
  /// Names of the tensors among the arguments of a function, in order, for messages and
  /// `dynamic_dims`.
  std::vector<std::string> input_names = {};
  /// When a function is called with other sizes than before, trace it at several sizes, make those
  /// that changed symbols, and compile a version for their whole range (docs/dynamic-shapes.md).
  /// Integers among the arguments vary likewise, but are only traced between values of past calls.
  bool automatic_dynamic = true;
  /// Which calls of a version for a range are traced, but not compiled, before they are served: a
  /// program may branch on sizes that no trace has visited.
  VerifySizes verify_new_sizes = VerifySizes::kIntegers;
  /// Sizes of a function's inputs that are symbols from the first call on.
  std::vector<exporter::DynamicDim> dynamic_dims = {};
  /// All sizes of a function's inputs except 0 and 1, and its integers, are symbols from the first
  /// call on; equal ones share a symbol. The function is then also traced with integers that no
  /// caller passed.
  bool dynamic = false;
  /// If a function cannot be compiled, run it eagerly instead of throwing.
  bool fallback_to_eager = false;
  double memory_budget = 1.0;  ///< Share of the activations that may be saved for backward, 0 … 1.
  /// Limit on the compiled versions of a function. A call that would need one more runs eagerly;
  /// the first such call warns, with the reason for each recompile.
  int max_versions = 8;
  bool error_at_max_versions = false;  ///< Throw past `max_versions` instead.
  /// When to check whether the program has changed: a captured number or flag, a member that was
  /// replaced, `eval()` of a module that only a lambda knows. The function is called once more for
  /// that, on shadow inputs. Versions that were found by `identity` are not checked, nor are
  /// programs with operators that have both an effect and results, because the effect would happen
  /// twice.
  Retrace retrace = Retrace::kDoubling;
  /// Share of the time of calls that these traces may take: a trace that is due waits until the
  /// calls since the last one took long enough. Infinity: it does not wait.
  double retrace_budget = 0.01;
  OnChange on_change = OnChange::kEager;               ///< What to do if it has changed.
  std::function<void(const Progress&)> progress = {};  ///< Called as a compile progresses.

  bool use_cache = true;  ///< Look in the disk cache first, and store what was compiled.
  std::filesystem::path cache_directory =
      {};  ///< $KILN_CACHE_DIR or the user's cache directory if empty.
  /// Folder for the generated source, if it is to be kept. The cache is not used then.
  std::filesystem::path keep_source = {};

  autograd_dispatch::Compiler forward_compiler = {};    ///< Empty: code generation.
  autograd_dispatch::Compiler backward_compiler = {};   ///< Empty: the forward's.
  autograd_dispatch::Compiler inference_compiler = {};  ///< Empty: the forward's.
  autograd_dispatch::PartitionFunction partition = {};  ///< Empty: the minimum cut.
};

/// The compile of one graph.
struct GraphReport {
  std::string name;        ///< "forward", "backward", "inference"
  int nodes = 0;           ///< In the graph.
  int kernels = 0;         ///< Generated, distinct.
  int extern_calls = 0;    ///< Left to libtorch.
  bool cache_hit = false;  ///< It was found in the cache, not compiled.
  std::string cache_miss_reason =
      {};                 ///< The first key component that differs from the nearest entry.
  double trace_ms = 0;    ///< To read and trace an archive; 0 if that was not needed.
  int traces = 0;         ///< How often an archive was traced, at all sizes together; 0 likewise.
  double compile_ms = 0;  ///< Code generation, compiler and linker; 0 on a hit.
  double load_ms = 0;     ///< To open the library.
  /// Sizes that an archive lets vary and that are fixed here, with reasons
  /// (`ExportedProgram::specialisations`).
  std::vector<std::string> specialisations = {};
};

/// Where a compiled version of a function came from.
enum class Origin {
  kTraced,       ///< It was traced, and each of its graphs compiled or found in the cache.
  kCachedTrace,  ///< It was traced, and found in the cache by that trace.
  kCached,       ///< It was found in the cache without a trace.
  kEager,        ///< It could not be compiled, and runs eagerly.
};
/// An origin in words: "traced", "trace found in the cache", "found in the cache", "eager".
[[nodiscard]] std::string_view to_string(Origin origin);

/// One compiled version of a function.
struct VersionReport {
  Origin origin = Origin::kTraced;  ///< Where it came from.
  std::string reason = {};          ///< Why no earlier version could be used.
  std::vector<std::string> guards;  ///< The conditions on a call, in words.
  /// Sizes that are fixed, or vary less than requested, with reasons.
  std::vector<std::string> specialisations;
  /// Sizes that vary: "'s0' in 0 … 1024: input 0, dimension 0".
  std::vector<std::string> symbols = {};
  /// Tensors that the function uses with hooks on their gradients, which autograd runs as in eager
  /// mode: after the compiled backward.
  std::vector<std::string> hooks = {};
  /// Tensors that the function uses and that are not arguments: "'fc.weight', f32[10, 64]". Without
  /// a name, the operator that first uses the tensor is given.
  std::vector<std::string> captured = {};
  /// Numbers that are fixed since the trace, by operator: "aten.mul at train.cpp:42: 0.5".
  std::vector<std::string> constants = {};
};

/// What was compiled for a function so far.
struct CompileReport {
  int versions = 0;                         ///< Compiled versions.
  int traces = 0;                           ///< How often the function was traced, at all sizes.
  int compiles = 0;                         ///< Graphs that were compiled, not found in the cache.
  double trace_ms = 0;                      ///< All traces.
  double partition_ms = 0;                  ///< To split joint graphs into forward and backward.
  double lookup_ms = 0;                     ///< To find functions in the cache, and to load them.
  int retraces = 0;                         ///< How often a version was compared with its program.
  double retrace_ms = 0;                    ///< All of these traces.
  std::vector<std::string> changes = {};    ///< The changes that they found, in order.
  std::vector<GraphReport> graphs = {};     ///< In the order in which they were compiled.
  std::vector<VersionReport> details = {};  ///< One for each version.
};

/// The options that `compile` and `aot_compile` use on this thread if none are given.
[[nodiscard]] const CompileOptions& default_options();

/// Replaces the default options of this thread during its lifetime.
class DefaultOptions {
 public:
  explicit DefaultOptions(CompileOptions options);  ///< From now on.
  ~DefaultOptions();
  DefaultOptions(const DefaultOptions&) = delete;
  DefaultOptions& operator=(const DefaultOptions&) = delete;

 private:
  CompileOptions previous_;
};

}  // namespace kiln
