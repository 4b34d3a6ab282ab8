// One trace in progress: the graph so far and what its values are.

#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "kiln/capture/record.hpp"
#include "kiln/ir/graph.hpp"
#include "operator_facts.hpp"
#include "randomness.hpp"
#include "value_table.hpp"

namespace kiln::capture {

/// The dispatch key that the tracer lives on: below autograd and autocast, above the backends, and
/// without a fallback of libtorch's own. Named here and nowhere else.
inline constexpr c10::DispatchKey kTracerKey = c10::DispatchKey::Fake;

/// Reached through thread-local state that the autograd engine carries to its threads.
class Recorder : public c10::DebugInfoBase {
 public:
  explicit Recorder(const RecordOptions& options) : options_(options), graph_("recorded") {}

  /// The recorder of the calling thread, if it is recording.
  static Recorder* current();

  void add_input(const at::Tensor& tensor, ir::InputKind kind = ir::InputKind::kUser);
  void add_output(const at::Tensor& tensor);
  void note_use(const at::Tensor& tensor) { value_of(tensor); }

  [[nodiscard]] bool is_written(const c10::Storage& storage) const {
    return written_.contains(storage.unsafeGetStorageImpl());
  }

  /// Runs `op` and writes it down.
  void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack);

  /// Gives captured tensors that were written their old contents back.
  void restore_captured();

  [[nodiscard]] const Tensors& captured() const { return captured_; }
  ir::Graph take_graph() { return std::move(graph_); }
  Tensors take_captured() { return std::move(captured_); }

  bool backward = false;
  std::string module_path;

 private:
  struct Snapshot {
    at::Tensor target;  // Bytes of the storage.
    at::Tensor copy;
  };

  const OperatorFacts& facts(const c10::OperatorHandle& op);
  ir::ValueId value_of(const at::Tensor& tensor);
  ir::ValueId capture(const at::Tensor& tensor);
  ir::ValueId literal(const at::Tensor& tensor);
  ir::ValueId window(const at::Tensor& tensor, ir::ValueId on);
  ir::TensorMeta describe(const at::Tensor& tensor);
  void refuse(const c10::OperatorHandle& op,
              const OperatorFacts& facts,
              const torch::jit::Stack& stack) const;
  void snapshot(const at::Tensor& tensor);
  void add_results(ir::Node node,
                   std::span<const c10::IValue> returned,
                   std::span<const c10::StorageImpl* const> memories);
  std::string next_name() { return std::to_string(names_++); }

  RecordOptions options_;
  ir::Graph graph_;
  ValueTable values_;
  Tensors captured_;
  std::unordered_set<const c10::StorageImpl*> external_;
  std::unordered_set<const c10::StorageImpl*> written_;
  std::unordered_map<const c10::StorageImpl*, Snapshot> snapshots_;
  std::unordered_map<const c10::FunctionSchema*, OperatorFacts> facts_;
  PrivateGenerator generator_;
  std::size_t names_ = 0;
};

}  // namespace kiln::capture
