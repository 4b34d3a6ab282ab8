// Runs model libraries and packages: Kiln's own, and those of PyTorch's AOTInductor.

#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "kiln/base/runtime_file.hpp"

namespace kiln::container_runtime {

/// Tensors in the order of a model's inputs or outputs.
using Tensors = std::vector<at::Tensor>;

/// Whether runs on a GPU are captured as graphs, which cost the host one launch when they are
/// replayed.
enum class CudaGraphs : std::uint8_t {
  kOff,   ///< Never.
  kOn,    ///< Captured in the second run of a shape. Without libkiln-cuda-graphs.so an error.
  kAuto,  ///< Captured in the third run, for four shapes at most, where that library is.
};

/// How a model is loaded.
struct RunnerOptions {
  /// Calls that may run at once, others wait; 0: what the package says, else one for each core.
  std::size_t instances = 0;
  std::string device = {};           ///< "cpu", "cuda:1"; empty: what the package says, else "cpu".
  std::string model_name = "model";  ///< Which of a package's models.
  bool single_threaded = false;      ///< Without locks, for a caller who never overlaps calls.
  /// Read all weights and compare their checksum, too, before anything runs; else only that of the
  /// code. A bare library has none, and is refused.
  bool verify_weights = false;
  CudaGraphs cuda_graphs = CudaGraphs::kAuto;  ///< On a GPU. What cannot be captured runs plainly.
  std::size_t queue_capacity = 1024;  ///< Calls of `run_async` that may wait; then it blocks.
};

/// What a constant is, in AOTInductor's numbers.
enum class ConstantKind : std::int32_t {
  kUnknown = 0,
  kParameter = 1,
  kBuffer = 2,
  kTensor = 3,  ///< A literal of the program.
  kFolded = 4,  ///< Computed from the others.
};

/// A constant of a model.
struct Constant {
  std::string name;      ///< The model's own.
  std::string fqn;       ///< The user's: "fc1.weight".
  at::ScalarType dtype;  ///< Of its elements.
  ConstantKind kind;     ///< What it is.
  std::size_t bytes;     ///< 0 if the library is too old to tell.
};

/// Tensors by the user's names (or the model's own).
using NamedTensors = std::unordered_map<std::string, at::Tensor>;

/// Which constants are updated, and how.
struct UpdateOptions {
  bool inactive = false;      ///< The set that `swap_constants` will make active.
  bool full = false;          ///< A parameter that is missing is an error.
  bool user_managed = false;  ///< Work on the given memory instead of a copy.
  bool from_cpu = false;      ///< Accept tensors on the CPU for a model on another device.
};

/// The shape of a call, as PyTorch's `treespec_dumps` writes it.
struct CallSpec {
  std::string inputs;   ///< Of the arguments.
  std::string outputs;  ///< Of the results.
};

/// How long calls took: bucket i counts those of 2^i up to 2^(i+1) nanoseconds.
struct LatencyHistogram {
  std::array<std::size_t, 40> buckets = {};  ///< How many calls each holds.

  void add(std::chrono::nanoseconds latency);  ///< Counts one call.
  /// An upper bound of what a `share` of the calls (0.5: the median) took; 0 if there was none.
  [[nodiscard]] std::chrono::nanoseconds percentile(double share) const;
};

/// What `run_async` and `run_multiple` are doing.
struct RunStatistics {
  std::size_t queued = 0;         ///< Waiting for an instance.
  std::size_t running = 0;        ///< At this moment.
  std::size_t finished = 0;       ///< Failed ones included.
  std::size_t failed = 0;         ///< Ended with an error.
  LatencyHistogram latency = {};  ///< Of those that finished, without the time in the queue.
};

/// What became of runs on a GPU.
struct CudaGraphStatistics {
  std::size_t captures = 0;                ///< Graphs made.
  std::size_t replays = 0;                 ///< Runs that replayed one.
  std::size_t plain_runs = 0;              ///< The others.
  std::vector<std::string> refusals = {};  ///< Why what could not be captured could not.
};

/// A loaded model. All members may be called from many threads, unless `single_threaded`. After a
/// move they throw `Error` with `kInvalidArgument`.
class Runner {
 public:
  /// Opens a library (`.so`), a package (`.pt2`), or a folder that a package was unpacked into.
  ///
  /// Throws `Error`: `kIo`, `kCorrupt` (truncated, damaged, wrong layout), `kIncompatible` (other
  /// machine or device, entries missing), `kInvalidArgument` (the library refuses the options).
  explicit Runner(const std::filesystem::path& path, RunnerOptions options = {});

  /// Waits for calls that run; queued ones fail.
  ~Runner();
  Runner(Runner&&) noexcept;             ///< Leaves the other empty.
  Runner& operator=(Runner&&) noexcept;  ///< Leaves the other empty.

  /// Runs the model once and waits. `stream` is the device's, where there is one.
  ///
  /// Throws `Error` with the library's reason.
  [[nodiscard]] Tensors run(const Tensors& inputs, void* stream = nullptr);

  /// The same, and lets go of the inputs: what is not held elsewhere can be freed during the run.
  [[nodiscard]] Tensors run_boxed(Tensors&& inputs, void* stream = nullptr);

  /// Queues a call; blocks while `queue_capacity` calls wait. On a GPU the work is queued in the
  /// stream that is the caller's current one now, and may not be done when the future is ready.
  [[nodiscard]] std::future<Tensors> run_async(Tensors inputs);

  /// Runs the model on every element, as many at once as there are instances and cores. On a GPU
  /// all of it is queued in the caller's current stream.
  [[nodiscard]] std::vector<Tensors> run_multiple(const std::vector<Tensors>& inputs);

  /// Makes every queued call fail and returns how many there were.
  std::size_t cancel_queued();

  [[nodiscard]] RunStatistics statistics() const;  ///< Since it was opened.

  [[nodiscard]] CudaGraphStatistics cuda_graphs() const;  ///< Since it was opened.

  /// In the order of `run`.
  [[nodiscard]] const std::vector<std::string>& input_names() const;
  /// In the order of `run`.
  [[nodiscard]] const std::vector<std::string>& output_names() const;
  [[nodiscard]] CallSpec call_spec() const;  ///< How arguments and results are nested.

  /// What the package says of the model; empty for a bare library.
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const;

  /// How many calls may run at once: what the options say, else the package, else one for each
  /// core.
  [[nodiscard]] std::size_t instances() const;

  /// Of the model, folded ones included.
  [[nodiscard]] const std::vector<Constant>& constants() const;

  /// The values of a set by the user's names; folded ones are left out. They share the model's
  /// memory.
  [[nodiscard]] NamedTensors constant_values(bool inactive = false) const;

  /// Gives constants other values: all that are named or, where this throws, none.
  ///
  /// Throws `Error` for a name that the model does not have.
  void update_constants(const NamedTensors& values, UpdateOptions options = {});

  /// Computes the folded constants of a set now; else the next run does.
  void run_const_fold(bool inactive = false, void* stream = nullptr);

  /// Makes the inactive constants the active ones. No run sees a mixture of both.
  void swap_constants();

  /// Gives up the memory of the inactive constants.
  void free_inactive();

 private:
  class Model;
  [[nodiscard]] Model& model() const;
  std::unique_ptr<Model> model_;
};

}  // namespace kiln::container_runtime
