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
  Stage stage = Stage::kTrace;  ///< The one that is under way.
  int done = 0;                 ///< Parts of the stage.
  int total = 0;                ///< How many parts the stage has.
};

/// How often a compiled version of a function is checked against the program, by tracing the
/// program again (docs/tracing.md).
enum class Retrace {
  kNever,     ///< What changes after the trace stays unseen.
  kDoubling,  ///< Before calls 2, 4, 8, 16, … of a version, or later: `retrace_budget`.
  kAlways,    ///< Before every call after the first, whatever it costs.
};

/// What happens to a call once the program differs from the one that was compiled.
enum class OnChange {
  kEager,      ///< They run eagerly from then on, and the first one warns.
  kRecompile,  ///< The version is compiled anew; each time counts towards `max_versions`.
  kThrow,      ///< They throw `Error` with `kInvalidArgument`, saying what changed.
};

/// Which calls of a version for a range of sizes are compared with a trace of the function when
/// their sizes are new.
enum class VerifySizes {
  kNever,     ///< Those that were sampled stand for the whole range.
  kIntegers,  ///< If integers vary, calls in which one is new, or is so beside these sizes.
  kAll,       ///< Calls with sizes that are new, whatever varies.
};

/// Options of `compile` and `aot_compile`. Start with the defaults.
struct CompileOptions {
  /// Names the function and its version: one that was compiled before is then found without a
  /// trace. Whoever changes the function, or numbers in it, must change its identity.
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
  std::size_t instances = 0;  ///< That a package is loaded with; 0: one for each core.
  bool profile = false;       ///< Kernels are ranges of PyTorch's profiler, by name.
  bool winograd = true;       ///< 3x3 convolutions may be computed in tiles (docs/codegen.md).
  /// Names of the tensors among the arguments of a function, in order, for messages and
  /// `dynamic_dims`.
  std::vector<std::string> input_names = {};
  /// When a function is called with other sizes than before, trace it at several, make symbols of
  /// those that changed, and compile a version for their whole range (docs/dynamic-shapes.md). So
  /// are integers among the arguments, which are only ever traced between values of calls.
  bool automatic_dynamic = true;
  /// The calls of a version for a range that are traced before they are served, without being
  /// compiled: a program may branch on sizes that no trace has visited.
  VerifySizes verify_new_sizes = VerifySizes::kIntegers;
  /// Sizes of a function's inputs that are symbols from the first call on.
  std::vector<exporter::DynamicDim> dynamic_dims = {};
  /// All sizes of a function's inputs, and its integers, are symbols from the first call on, equal
  /// ones the same, but for sizes of 0 and 1. The function is then traced with integers that nobody
  /// has called it with.
  bool dynamic = false;
  /// Where a function cannot be compiled, run it as it is instead of throwing.
  bool fallback_to_eager = false;
  double memory_budget = 1.0;  ///< Share of the activations that may be saved for backward, 0 … 1.
  /// Compiled versions per function, for all its arguments together. A call for which there would
  /// be one more runs eagerly; the first one warns, with the reason of each recompile.
  int max_versions = 8;
  bool error_at_max_versions = false;  ///< Throw past `max_versions` instead.
  /// When to look whether the program has changed: a captured number or flag, a member that was
  /// replaced, `eval()` of a module that only a lambda knows. It is called once more for that, on
  /// shadow inputs. Not compared are versions that were found by `identity`, and programs with
  /// operators that have an effect and results, which would happen twice.
  Retrace retrace = Retrace::kDoubling;
  /// Share of the time of calls that these traces may take: one that is due waits until the calls
  /// since the last one have paid for it. Infinity: it does not wait.
  double retrace_budget = 0.01;
  OnChange on_change = OnChange::kEager;               ///< What to do where it has changed.
  std::function<void(const Progress&)> progress = {};  ///< Told as a compile goes on.

  bool use_cache = true;  ///< Look in the disk cache first, and store what was compiled.
  std::filesystem::path cache_directory =
      {};  ///< $KILN_CACHE_DIR or the user's cache directory if empty.
  /// Where to keep the generated source, if anywhere. The cache is not used then.
  std::filesystem::path keep_source = {};

  autograd_dispatch::Compiler forward_compiler = {};    ///< Empty: code generation.
  autograd_dispatch::Compiler backward_compiler = {};   ///< Empty: the forward's.
  autograd_dispatch::Compiler inference_compiler = {};  ///< Empty: the forward's.
  autograd_dispatch::PartitionFunction partition = {};  ///< Empty: the minimum cut.
};

/// What one graph's compile did.
struct GraphReport {
  std::string name;        ///< "forward", "backward", "inference"
  int nodes = 0;           ///< In the graph.
  int kernels = 0;         ///< Generated, distinct.
  int extern_calls = 0;    ///< Left to libtorch.
  bool cache_hit = false;  ///< It was found in the cache, not compiled.
  std::string cache_miss_reason =
      {};                 ///< The first key component that differs from the nearest entry.
  double trace_ms = 0;    ///< To read and trace an archive; 0 if that was not needed.
  int traces = 0;         ///< How often an archive was traced, at whatever sizes; 0 likewise.
  double compile_ms = 0;  ///< Code generation, compiler and linker; 0 on a hit.
  double load_ms = 0;     ///< To open the library.
  /// What an archive lets vary and is fixed here, in words (`ExportedProgram::specialisations`).
  std::vector<std::string> specialisations = {};
};

/// Where a compiled version of a function came from.
enum class Origin {
  kTraced,       ///< It was traced, and its graphs compiled or found in the cache one by one.
  kCachedTrace,  ///< It was traced, and the cache had all that is made from such a trace.
  kCached,       ///< The cache had it, and no trace was needed.
  kEager,        ///< It could not be compiled, and runs as it is.
};
/// An origin in words: "traced", "trace found in the cache", "found in the cache", "eager".
[[nodiscard]] std::string_view to_string(Origin origin);

/// One compiled version of a function.
struct VersionReport {
  Origin origin = Origin::kTraced;  ///< Where it came from.
  std::string reason = {};          ///< Why the one before it could not be used.
  std::vector<std::string> guards;  ///< When it is used, in words.
  /// What the program could vary, and is fixed here or varies less than was wanted, with reasons.
  std::vector<std::string> specialisations;
  /// Sizes that vary: "'s0' in 0 … 1024: input 0, dimension 0".
  std::vector<std::string> symbols = {};
  /// Tensors that the function uses with hooks on their gradients, which autograd runs as in eager
  /// mode: after the compiled backward.
  std::vector<std::string> hooks = {};
  /// Tensors that the function uses and that are not arguments: "'fc.weight', f32[10, 64]", or by
  /// the operator that uses them first.
  std::vector<std::string> captured = {};
  /// Numbers that the trace has fixed, by operator: "aten.mul at train.cpp:42: 0.5".
  std::vector<std::string> constants = {};
};

/// What `compile` did for a function so far.
struct CompileReport {
  int versions = 0;                       ///< Compiled versions.
  int traces = 0;                         ///< How often the function was traced, at whatever size.
  int compiles = 0;                       ///< Graphs that were compiled, not found in the cache.
  double trace_ms = 0;                    ///< All traces.
  double partition_ms = 0;                ///< To divide them into forward and backward.
  double lookup_ms = 0;                   ///< To find functions in the cache, and to load those.
  int retraces = 0;                       ///< How often a version was compared with its program.
  double retrace_ms = 0;                  ///< All of these traces.
  std::vector<std::string> changes = {};  ///< What they found, in the order in which they did.
  std::vector<GraphReport> graphs = {};   ///< In the order in which they were compiled.
  std::vector<VersionReport> details = {};  ///< One for each version.
};

/// The options that `compile` and `aot_compile` take on this thread where none are given.
[[nodiscard]] const CompileOptions& default_options();

/// Replaces the default options of this thread for as long as it lives.
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
