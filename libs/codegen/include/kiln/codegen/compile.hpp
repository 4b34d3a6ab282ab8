// From a graph to a model library on disk.

#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/base/digest.hpp"
#include "kiln/base/runtime_file.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln::codegen {

/// The stages of a compile, in order.
enum class Stage {
  kSchedule,  ///< Lowering and fusion.
  kKernels,   ///< The source files, compiled.
  kLink,      ///< The library.
};

/// How far a compile has come.
struct Progress {
  Stage stage = Stage::kSchedule;  ///< The one that is under way.
  int done = 0;                    ///< Parts of the stage.
  int total = 0;                   ///< Of so many.
};

/// A store of compiled objects, by the digest of what went into them. Either function may be empty.
struct ObjectStore {
  /// An object that was put, or nothing.
  std::function<std::optional<std::string>(const Digest&)> find;
  std::function<void(const Digest&, std::string_view object)> put;  ///< Keeps an object.
};

/// The bytes of one constant, dense in its recorded strides. Borrowed. Constants whose bytes are
/// the same memory have one place in the library.
struct ConstantData {
  std::span<const std::byte> bytes;  ///< Its elements.
};

/// A version of libtorch.
struct LibtorchVersion {
  int major = 2;   ///< The first number.
  int minor = 13;  ///< The second.

  auto operator<=>(const LibtorchVersion&) const = default;  ///< As versions go.
};

/// What a caller may decide.
struct Options {
  std::string isa = "native";  ///< One, or several with commas between (`resolve_targets`).
  /// GPUs to compile a graph on CUDA for: "native", which is the one of this machine, or "sm_80",
  /// "sm_90", … A library also has PTX for what is newer than all of them.
  std::vector<std::string> arch = {"native"};
  /// The NVRTC that compiles for GPUs; found by `find_nvrtc()` if empty.
  std::string nvrtc = {};
  /// An index that is out of range on a GPU is an error of the very run, which waits for the
  /// device; else it is one of the next run.
  bool check_indices_now = false;
  /// On a GPU, kernels have the same result in every run. Scatters, which are atomic otherwise, are
  /// libtorch's. Whatever libtorch runs is deterministic only where the host asks it to be, before
  /// the run: `at::globalContext().setDeterministicAlgorithms(true, false)`. Neither a library nor
  /// what loads it does.
  bool deterministic = false;
  bool check_inputs = true;  ///< At each call, against what was compiled.
  /// Parameters, buffers and constants of the graph are baked in (their bytes in `constants`, in
  /// the order of those inputs); else they are inputs like any other. `append_weights` then
  /// completes the library.
  bool bind_constants = false;
  std::vector<ConstantData> constants = {};  ///< For `bind_constants`.
  /// What is computed from constants alone stands among the weights too (`Report::folding` computes
  /// it); else every container computes it before its first run.
  bool store_folded = false;
  std::string in_spec = {};   ///< Treespec JSON; made for a flat tuple if empty.
  std::string out_spec = {};  ///< Likewise of the results.
  std::filesystem::path runtime_archive =
      {};  ///< libkiln-container.a; found by `find_runtime_archive()` if empty.
  /// The libtorch that is to run the model. Another one runs it too, but for operators that need
  /// its proxy executor and take a type, a layout or a memory format: versions before 2.12 count
  /// those otherwise, and a run there says so.
  LibtorchVersion libtorch = {};
  /// Where libtorch_cpu.so lies, if the link is to check that it has every function that the model
  /// calls. Takes longer, and nothing needs it.
  std::filesystem::path torch_library_dir = {};
  std::string compiler = {};  ///< Found in $KILN_CXX, $CXX, g++, clang++ if empty.
  std::chrono::milliseconds compiler_timeout = std::chrono::minutes(10);  ///< For each file.
  /// Convolutions of 3x3 taps may be computed in tiles, with less than half of the products. Each
  /// result is then rounded by its largest pixel times its largest weight, also where that pixel
  /// meets a small weight.
  bool winograd = true;
  /// Each step of a run is a range of PyTorch's profiler, under the kernel's name and operators.
  /// Costs a tenth of a microsecond a step when no profiler listens, so nobody has it by default.
  bool record_kernels = false;
  /// Where what is generated is to stay, if anywhere: the source, the graph as it was scheduled
  /// (`graph.kir`; `fold.kir` has what is computed from constants alone) and the plan of buffers,
  /// kernels and steps (`plan.json`).
  std::filesystem::path keep_source = {};
  ObjectStore objects = {};  ///< Where compiled kernels are kept, if anywhere.
  std::function<void(const Progress&)> progress = {};  ///< Told as a compile goes on.
};

/// What a compile did and how long it took.
struct Report {
  int kernels = 0;                ///< Distinct.
  int kernel_calls = 0;           ///< In one run.
  int extern_calls = 0;           ///< Calls of libtorch in one run.
  int objects_reused = 0;         ///< Files that were found in `Options::objects`.
  double schedule_ms = 0;         ///< Lowering and fusion.
  double emit_ms = 0;             ///< Source text.
  double compile_ms = 0;          ///< The compiler.
  double link_ms = 0;             ///< The linker.
  std::size_t arena_bytes = 0;    ///< Temporaries of one instance.
  std::size_t library_bytes = 0;  ///< Of the file.
  /// The file beside the library ("model.json") that hosts must find there, because some operators
  /// are called through their proxy executor. Empty: there is none.
  std::filesystem::path extern_nodes = {};
  /// With `Options::store_folded`: from the inputs of the graph, of which it reads constants, to
  /// the values that are to stand behind them. Nothing if there are none.
  std::optional<ir::Graph> folding = {};
  std::string source = {};  ///< What calls the kernels, for people to read.
  std::string plan = {};    ///< `plan.json`, if source is kept or kernels are recorded.
};

/// The kind of device that `graph` is compiled for: that of its first tensor. One whose tensors are
/// on several is refused.
[[nodiscard]] ir::DeviceType device_of(const ir::Graph& graph);

/// Compiles the functional `graph` into the model library `library` (a shared object with the
/// AOTInductor ABI).
///
/// Throws `Error`: `kUnsupported` for a device or type that nothing handles, `kIo` where the
/// toolchain or the disk fails (with the compiler's first lines and the path of the kept source).
/// Leaves nothing behind then.
Report compile(const ir::Graph& graph,
               const std::filesystem::path& library,
               const Options& options = {});

/// What `compile` makes of a program before it calls the compiler.
struct Description {
  std::string plan;  ///< `plan.json`.
  ir::Graph graph;   ///< `graph.kir`, whose values the plan names.
};

/// What `compile` would leave, without compiling anything.
[[nodiscard]] Description describe(const ir::Graph& graph, const Options& options = {});

/// Writes the values of the constants behind a library that was compiled with
/// `Options::bind_constants`, which cannot be loaded before.
///
/// Apart from `compile`, which looks only at where the constants lie: a library is compiled once
/// for all values. `folded`: with `Options::store_folded`, what `Report::folding` computes from
/// them. Throws `Error` with `kIo`.
void append_weights(const std::filesystem::path& library,
                    std::span<const ConstantData> constants,
                    std::span<const ConstantData> folded = {});

/// What `append_weights` would write, without copying it: views of `constants` and of what lies
/// between them.
class WeightsImage {
 public:
  /// `code_bytes`: the size of the library, or of the room that is left for it.
  WeightsImage(std::uint64_t code_bytes,
               std::span<const ConstantData> constants,
               std::span<const ConstantData> folded = {});

  /// In the order of the file. They live as long as this and what it was made of do.
  [[nodiscard]] const std::vector<std::span<const std::byte>>& parts() const { return parts_; }

  /// Those of them that are the constants, which do not depend on what is folded,
  [[nodiscard]] std::span<const std::span<const std::byte>> constants() const {
    return std::span(parts_).first(constants_end_).last(constants_end_ - constants_begin_);
  }
  /// and those behind them.
  [[nodiscard]] std::span<const std::span<const std::byte>> rest() const {
    return std::span(parts_).subspan(constants_end_);
  }

 private:
  std::vector<std::byte> trailer_;
  std::vector<std::span<const std::byte>> parts_;
  std::size_t constants_begin_ = 0;
  std::size_t constants_end_ = 0;
};

/// Where each of `constants` begins in the weights: with their sizes, all that `compile` wants to
/// know of them.
[[nodiscard]] std::vector<std::uint64_t> weight_offsets(std::span<const ConstantData> constants);

/// The compiler that `options` lead to, by what it says of its version and the flags that are part
/// of its command ($KILN_CXX="g++ -ffast-math"): a part of any cache key.
///
/// Throws `Error` with `kIo` if there is none.
[[nodiscard]] std::string compiler_version(const Options& options);

/// The linker that this compiler calls for models: "gold", or "the compiler's default" and, where
/// gold is there but fails, how. The first call in a process tries it on a small library.
///
/// Throws `Error` with `kIo` if none works.
[[nodiscard]] std::string linker_name(const Options& options);

/// Removes what a compile has left in `folder` (`Options::keep_source`), and no other file. One
/// that keeps its source does so by itself.
void remove_kept_source(const std::filesystem::path& folder);

/// What tells that compiler from another without running it: its command, and the path, size and
/// time of each program in it. Nothing if there is no compiler.
[[nodiscard]] std::optional<std::string> compiler_stamp(const Options& options);

/// The archive that is linked into models for a device (libkiln-container.a,
/// libkiln-container-cuda.a), wherever `find_runtime_file` finds it.
[[nodiscard]] std::filesystem::path find_runtime_archive(
    ir::DeviceType device = ir::DeviceType::kCpu);

/// The NVRTC that would compile for GPUs: what $KILN_NVRTC names, beside the libtorch of this
/// process, or in the CUDA Toolkit; a name for the dynamic linker if it is in none of them.
[[nodiscard]] std::string find_nvrtc();

/// The NVRTC that `options` lead to, opened: "13.0, /usr/…/libnvrtc.so.13". Throws `Error` with
/// `kUnsupported` if there is none.
[[nodiscard]] std::string nvrtc_version(const Options& options);

/// What tells the NVRTC of `options` from another without opening it: its path, size and time.
[[nodiscard]] std::string nvrtc_stamp(const Options& options);

}  // namespace kiln::codegen
