// The elements that a trace for the graph alone does not compute.

#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "dry_run.hpp"
#include "kiln/capture/record.hpp"
#include "operator_facts.hpp"
#include "value_table.hpp"

namespace kiln::capture {

/// Which tensors of a trace have no elements, and how operators run among such.
///
/// A result that is not computed has geometry and a storage without memory: whoever asks for its
/// elements, an operator or the program itself, gets an exception. So nothing can depend on them.
class ValuelessTensors {
 public:
  /// A call that is about to be made.
  struct Call {
    const c10::OperatorHandle& op;
    const OperatorFacts& facts;
    c10::DispatchKeySet keys;                ///< What a real call dispatches on.
    std::span<const std::uint32_t> mutates;  ///< Arguments that it writes.
    bool by_autograd;                        ///< Part of a gradient.
  };

  /// Replaces the arguments of `call` on `stack` by its results: computed where they do not depend
  /// on an argument of the program or where what comes later may have to look at them (integers and
  /// booleans), else without elements. `external` are storages of the caller's own, which must stay
  /// as they are.
  ///
  /// Throws `Error` with `kUnsupported` where the call looks at elements that there are not.
  void call(const Call& call,
            torch::jit::Stack& stack,
            const std::unordered_set<const c10::StorageImpl*>& external);

  /// Whether elements of `tensor` were not computed.
  [[nodiscard]] bool contains(const at::Tensor& tensor) const;

  /// A tensor like `tensor`, without elements.
  at::Tensor make_like(const at::Tensor& tensor);

  /// What depends on `tensor` need not be computed.
  void add_argument(const at::Tensor& tensor) { varying_.insert(memory_of(tensor)); }

 private:
  using Storages = std::unordered_map<const c10::StorageImpl*, c10::Storage>;

  std::optional<DryRunResult> on_meta(const Call& call, std::span<const c10::IValue> arguments);
  std::optional<DryRunResult> on_zeros(const Call& call, std::span<const c10::IValue> arguments);
  void run(const Call& call,
           torch::jit::Stack& stack,
           const std::unordered_set<const c10::StorageImpl*>& external);
  void forget(const at::Tensor& written,
              const std::unordered_set<const c10::StorageImpl*>& external);
  void apply(const DryRunResult& outcome,
             const std::vector<at::Tensor>& operands,
             const std::vector<at::Tensor>& written,
             torch::jit::Stack& stack,
             const std::unordered_set<const c10::StorageImpl*>& external);
  // On `storages`, by those of the tensors that others were made like: what shares memory goes on
  // doing so.
  at::Tensor make_like(const at::Tensor& tensor, Storages& storages);

  // Addresses stay unique: the trace holds weak references to all of its storages.
  std::unordered_set<const c10::StorageImpl*> storages_;
  // Of what depends on the arguments. The rest is the same in every call, so that a program may
  // keep it: it is computed.
  std::unordered_set<const c10::StorageImpl*> varying_;
  std::unordered_set<const c10::FunctionSchema*> not_on_meta_;
  std::unordered_map<std::string, DryRunResult> dry_runs_;
};

}  // namespace kiln::capture
