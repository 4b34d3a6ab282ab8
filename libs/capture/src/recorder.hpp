// One trace in progress: the graph so far and what its values are.

#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "escaped_tensors.hpp"
#include "initialization.hpp"
#include "kiln/capture/record.hpp"
#include "kiln/ir/graph.hpp"
#include "operator_facts.hpp"
#include "randomness.hpp"
#include "value_table.hpp"
#include "valueless_tensors.hpp"

namespace kiln::capture {

/// The dispatch keys that the tracer lives on: below autograd and autocast and above the backends,
/// or, before dispatch, above all of them. Neither has a fallback of libtorch's own. Named here and
/// nowhere else.
inline constexpr c10::DispatchKey kTracerKey = c10::DispatchKey::Fake;
inline constexpr c10::DispatchKey kPreDispatchKey = c10::DispatchKey::DeferredInit;
inline constexpr c10::DispatchKeySet kTracerKeys({kTracerKey, kPreDispatchKey});

/// The operator that a program asks with whether two tensors are equal (compare.cpp).
inline constexpr const char* kEqual = "aten.equal.default";

/// Reached through thread-local state that the autograd engine carries to its threads.
class Recorder : public c10::DebugInfoBase {
 public:
  explicit Recorder(const RecordOptions& options);

  /// The recorder of the calling thread, if it is recording.
  static Recorder* current();

  /// The key that this trace records on.
  [[nodiscard]] c10::DispatchKey key() const { return key_; }
  [[nodiscard]] const RecordOptions& options() const { return options_; }

  void add_input(const at::Tensor& tensor, ir::InputKind kind);
  void add_argument(const at::Tensor& tensor);
  void add_output(const at::Tensor& tensor);
  void note_use(const at::Tensor& tensor) { value_of(tensor); }

  [[nodiscard]] bool is_written(const c10::Storage& storage) const {
    return written_.contains(storage.unsafeGetStorageImpl());
  }

  /// Runs `op` and writes it down.
  void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack);

  /// Runs `op`, which arrives above autograd in a trace below it. If it is composite and its parts
  /// do not account for its results, it is written down whole.
  void call_above_autograd(const c10::OperatorHandle& op,
                           c10::DispatchKeySet below,
                           torch::jit::Stack& stack);

  /// Writes down that grad mode is now `enabled`, in a trace before dispatch.
  void set_grad_mode(bool enabled);

  /// Writes down a call of `target` on `arguments`, nested `bodies` and then `lists` of operands,
  /// as one node that returned `results`.
  void call_region(std::string target,
                   std::vector<ir::Argument> arguments,
                   std::vector<ir::Graph> bodies,
                   const std::vector<Tensors>& lists,
                   const Tensors& results);
  /// Some tensor in the layout of `tensor`: ones, or without elements where none are computed.
  at::Tensor make_placeholder_like(const at::Tensor& tensor);
  /// As the functions of record.hpp.
  [[nodiscard]] std::vector<std::size_t> references_to_borrowed() const;
  void require_lasting_memory(const std::vector<std::size_t>& held) const;
  /// A copy, with its elements where it has some.
  at::Tensor copy_of(const at::Tensor& tensor);

  /// The value of `tensor` in this trace, captured if it is new.
  ir::ValueId value_of(const at::Tensor& tensor);

  /// Runs `call` with the private generator in the place of the default one, if the trace runs on
  /// shadows.
  void run_privately(const std::function<void()>& call);

  /// Gives captured tensors that were written their old contents back.
  void restore_captured();

  [[nodiscard]] const Tensors& captured() const { return captured_; }
  ir::Graph take_graph() { return std::move(graph_); }
  Tensors take_captured() { return std::move(captured_); }
  /// What operators have returned.
  EscapedTensors& escaped() { return escaped_; }
  [[nodiscard]] const ir::Graph& graph() const { return graph_; }
  [[nodiscard]] bool deferred_effects() const { return deferred_effects_; }
  std::vector<std::string> take_repeated_effects() { return std::move(repeated_effects_); }

  bool backward = false;
  bool effects = false;  // What is recorded has an effect, whatever the operator.
  std::string module_path;
  std::string source;

 private:
  struct Snapshot {
    at::Tensor target;  // Bytes of the storage.
    at::Tensor copy;
  };

  // A composite operator that is running: its parts are recorded meanwhile.
  struct Composite {
    const c10::OperatorHandle& op;
    std::span<const c10::IValue> arguments;
    std::uint64_t opened;
    std::size_t first_node;  // Of its parts.
    bool is_opaque = false;  // One of its parts reads memory that none of them wrote.
  };

  const OperatorFacts& facts(const c10::OperatorHandle& op);
  [[nodiscard]] bool decomposes(const c10::OperatorHandle& op,
                                c10::DispatchKeySet below,
                                const torch::jit::Stack& stack);
  ir::Node make_node();
  void check_captured_metadata(const OperatorFacts& facts, const at::Tensor& tensor) const;
  void check_frozen(const OperatorFacts& facts, const at::Tensor& tensor) const;
  ir::ValueId capture(const at::Tensor& tensor);
  void prefer_leaf(const at::Tensor& tensor, ir::ValueId value);
  ir::ValueId literal(const at::Tensor& tensor);
  ir::ValueId window(const at::Tensor& tensor, ir::ValueId on);
  ir::TensorMeta describe(const at::Tensor& tensor);
  [[nodiscard]] bool is_of_numbers(std::span<const c10::IValue> arguments) const;
  void note_numbers(bool of_numbers, const Tensors& written, std::span<const c10::IValue> results);
  [[nodiscard]] std::string place() const;
  [[nodiscard]] std::string value_read_message(const std::string& target) const;
  void refuse(const c10::OperatorHandle& op,
              const OperatorFacts& facts,
              const torch::jit::Stack& stack) const;
  void compare(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack& stack);
  bool assumes_close(const c10::OperatorHandle& op, torch::jit::Stack& stack);
  void snapshot(const at::Tensor& tensor);
  void run(const c10::OperatorHandle& op,
           const OperatorFacts& facts,
           c10::DispatchKeySet below,
           const ir::Node& node,
           torch::jit::Stack& stack);
  void check_reads(const OperatorFacts& facts, std::span<const c10::IValue> arguments);
  void require_initialized(const at::Tensor& tensor, const std::string& reader);
  void note_memory(const OperatorFacts& facts,
                   const Tensors& written,
                   std::span<const c10::IValue> results);
  Allocation allocation_by(const std::string& target);
  void lift_literals(const at::Tensor& part);
  [[nodiscard]] bool accounts_for(const Composite& composite, const at::Tensor& result) const;
  void record_whole(const Composite& composite, std::span<const c10::IValue> results);
  void add_results(ir::Node node,
                   bool declares_aliases,
                   std::span<const c10::IValue> returned,
                   std::span<const c10::StorageImpl* const> memories);
  std::string next_name() { return std::to_string(names_++); }

  RecordOptions options_;
  c10::DispatchKey key_;
  ir::Graph graph_;
  ValueTable values_;
  Tensors captured_;
  // Captured tensors whose memory is not theirs, and how many references to each are ours.
  std::vector<std::pair<at::Tensor, std::size_t>> borrowed_;
  std::unordered_set<const c10::StorageImpl*> external_;
  std::unordered_set<const c10::StorageImpl*> written_;
  // Of what is computed from numbers of the program alone: its sizes, and those in its text.
  std::unordered_set<const c10::StorageImpl*> of_numbers_;
  // Of results that are their operator's argument, although its schema does not say so.
  std::unordered_set<const c10::StorageImpl*> frozen_;
  bool grad_mode_;
  std::unordered_map<const c10::StorageImpl*, Snapshot> snapshots_;
  std::unordered_map<const c10::FunctionSchema*, OperatorFacts> facts_;
  PrivateGenerator generator_;
  ValuelessTensors valueless_;
  EscapedTensors escaped_;
  InitializationTracker initialization_;
  std::vector<Composite> composites_;  // Innermost last.
  std::uint64_t clock_ = 0;            // Counts allocations and composite operators.
  bool deferred_effects_ = false;
  std::vector<std::string> repeated_effects_;
  // What a node of the forward said of itself, by autograd's number.
  std::unordered_map<std::int64_t, ir::Provenance> origins_;
  std::size_t names_ = 0;
};

}  // namespace kiln::capture
