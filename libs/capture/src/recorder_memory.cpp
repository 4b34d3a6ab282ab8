// How a recorder treats memory that is filled without going through the dispatcher.

#include <ATen/ops/clone.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "arguments.hpp"
#include "dry_run.hpp"
#include "kiln/base/error.hpp"
#include "recorder.hpp"

namespace kiln::capture {
namespace {

bool is_composite_above_autograd(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

// All of the memory that `part` lies in: it itself, or elements in a row.
at::Tensor whole_of(const at::Tensor& part) {
  const auto bytes = static_cast<std::int64_t>(part.storage().nbytes());
  const auto size = static_cast<std::int64_t>(part.element_size());
  if (part.is_non_overlapping_and_dense() && part.numel() * size == bytes) {
    return part.detach();
  }
  return at::empty({0}, part.options()).set_(part.storage(), 0, {bytes / size}, {1});
}

// Composite operators that read integers through a pointer, and make shapes of them: of which
// argument.
std::optional<std::size_t> pointer_read_by(std::string_view target) {
  constexpr std::array<std::string_view, 6> kReaders = {
      "aten.tensor_split.tensor_indices_or_sections",
      "aten._pad_packed_sequence.default",
      "aten.lstm.data",
      "aten.gru.data",
      "aten.rnn_tanh.data",
      "aten.rnn_relu.data"};
  return std::find(kReaders.begin(), kReaders.end(), target) != kReaders.end()
             ? std::optional<std::size_t>(1)
             : std::nullopt;
}

std::string at_source(const std::string& source) {
  return source.empty() ? "" : " at " + source;
}

}  // namespace

Allocation Recorder::allocation_by(const std::string& target) {
  // torch::tensor(values) is the one caller that allocates with autograd switched off and nothing
  // else: torch::empty switches ADInplaceOrView off, too.
  const bool by_frontend =
      composites_.empty() && !c10::InferenceMode::is_enabled() &&
      c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutogradOther) &&
      !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::ADInplaceOrView);
  return {.target = target, .source = source, .time = ++clock_, .holds_literals = by_frontend};
}

void Recorder::note_memory(const OperatorFacts& facts,
                           const Tensors& written,
                           std::span<const c10::IValue> results) {
  if (!facts.in_place_view) {
    for (const at::Tensor& tensor : written) {
      initialization_.note_write(tensor);
    }
  }
  if (allocates_uninitialized(facts)) {
    for (const at::Tensor& tensor : tensors_among(results)) {
      initialization_.note_allocation(tensor, allocation_by(facts.target));
    }
  }
}

void Recorder::check_reads(const OperatorFacts& facts, std::span<const c10::IValue> arguments) {
  for (std::uint32_t i = 0; i < arguments.size(); ++i) {
    const ElementAccess access = arguments[i].isTensor() || arguments[i].isList()
                                     ? element_access(facts, i)
                                     : ElementAccess::kNone;
    if (access == ElementAccess::kNone) {
      continue;
    }
    for (const at::Tensor& tensor : tensors_among(arguments.subspan(i, 1))) {
      if (access == ElementAccess::kRead) {
        require_initialized(tensor, facts.target + " reads");
      } else if (const Allocation* allocation = initialization_.find_uninitialized(tensor);
                 allocation != nullptr && allocation->holds_literals &&
                 facts.target != "aten.fill_.Scalar") {
        lift_literals(tensor);  // Before a part of them is overwritten by what is none.
      }
    }
  }
}

// If a composite operator that is still running allocated the memory, it is one that computes
// through raw pointers, and is recorded as a whole when it returns. Else the program did it.
void Recorder::require_initialized(const at::Tensor& tensor, const std::string& reader) {
  const Allocation* allocation = initialization_.find_uninitialized(tensor);
  if (allocation == nullptr || (options_.pre_dispatch && !allocation->holds_literals)) {
    return;
  }
  const auto owner =
      std::find_if(composites_.rbegin(), composites_.rend(), [&](const Composite& composite) {
        return composite.opened < allocation->time;
      });
  if (owner != composites_.rend()) {
    owner->is_opaque = true;
    initialization_.note_write(tensor);
    return;
  }
  if (allocation->holds_literals) {
    lift_literals(tensor);
    return;
  }
  if (options_.allow_uninitialized) {
    return;
  }
  throw Error(ErrorCode::kUnsupported,
              reader + " memory that " + allocation->target + at_source(allocation->source) +
                  " allocated and that no operator has written. If the program fills it through a "
                  "raw pointer (data_ptr, an accessor), a trace cannot see that: fill it with "
                  "operators (copy_, torch::tensor), or outside of the function. If it is meant to "
                  "be uninitialised, set allow_uninitialized");
}

// The values that `torch::tensor(values)` copied are a constant of the program. What the program
// does with the tensor, it does with a copy of its own in each call: with all of it, for another
// part may have been written by then.
void Recorder::lift_literals(const at::Tensor& part) {
  const c10::impl::ExcludeDispatchKeyGuard not_recorded(kTracerKeys);
  const at::Tensor tensor = whole_of(part);
  const at::Tensor constant = at::clone(tensor);
  initialization_.note_write(tensor);
  const ir::ValueId source_value = capture(constant);
  values_.forget(tensor);
  ir::Node node = make_node();
  node.target = "aten.clone.default";
  node.signature = "Tensor self,MemoryFormat? memory_format->Tensor";
  node.arguments = {source_value, std::monostate()};
  const ir::NodeId id = graph_.add_node(std::move(node), {describe(tensor)});
  values_.set(tensor, graph_.node(id).results[0]);
  of_numbers_.insert(memory_of(tensor));
}

void Recorder::call_above_autograd(const c10::OperatorHandle& op,
                                   c10::DispatchKeySet below,
                                   torch::jit::Stack& stack) {
  if (!is_composite_above_autograd(op)) {
    op.redispatchBoxed(below, &stack);
    return;
  }
  const std::size_t count = op.schema().arguments().size();
  const std::vector<c10::IValue> arguments(stack.end() - static_cast<std::ptrdiff_t>(count),
                                           stack.end());
  const std::size_t base = stack.size() - count;
  if (const auto read = pointer_read_by(facts(op).target);
      read && !options_.allow_value_reads &&
      !is_of_numbers(std::span(arguments).subspan(*read, 1))) {
    throw Error(ErrorCode::kUnsupported, value_read_message(facts(op).target));
  }
  composites_.push_back(
      {.op = op, .arguments = arguments, .opened = ++clock_, .first_node = graph_.nodes().size()});
  const auto close = [&] { composites_.pop_back(); };
  try {
    op.redispatchBoxed(below, &stack);
  } catch (...) {
    close();
    throw;
  }
  const Composite composite = composites_.back();
  close();
  const std::span<const c10::IValue> results = std::span(stack).subspan(base);
  const std::vector<at::Tensor> tensors = tensors_among(results);
  if (composite.is_opaque ||
      !std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor& result) {
        return accounts_for(composite, result);
      })) {
    record_whole(composite, results);
  }
}

// Whether recorded parts of `composite` made `result`, or it was there before.
bool Recorder::accounts_for(const Composite& composite, const at::Tensor& result) const {
  if (memory_of(result) == nullptr || result.unsafeGetTensorImpl()->is_wrapped_number()) {
    return true;
  }
  if (!values_.knows_storage_of(result)) {
    const std::vector<at::Tensor> arguments = tensors_among(composite.arguments);
    return std::any_of(arguments.begin(), arguments.end(), [&](const at::Tensor& argument) {
      return memory_of(argument) == memory_of(result);
    });
  }
  const Allocation* allocation = initialization_.find_uninitialized(result);
  return allocation == nullptr || allocation->time < composite.opened;
}

void Recorder::record_whole(const Composite& composite, std::span<const c10::IValue> results) {
  const c10::impl::ExcludeDispatchKeyGuard not_recorded(kTracerKeys);
  const OperatorFacts& known = facts(composite.op);
  if (!known.mutates.empty()) {
    throw Error(ErrorCode::kUnsupported,
                known.target +
                    " computes through raw pointers and writes its arguments, which no "
                    "graph can show");
  }
  const auto parts = graph_.nodes().begin() + static_cast<std::ptrdiff_t>(composite.first_node);
  if (std::any_of(parts, graph_.nodes().end(), [](const ir::Node& part) { return part.random; })) {
    throw Error(ErrorCode::kUnsupported,
                known.target +
                    " computes through raw pointers and draws random numbers, which would be "
                    "drawn twice");
  }
  const std::vector<c10::Argument>& parameters = composite.op.schema().arguments();
  ir::Node node = make_node();
  node.target = known.target;
  node.signature = known.signature;
  node.effectful = known.effectful || effects;
  node.random = known.random;
  std::vector<const c10::StorageImpl*> memories(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    node.arguments.push_back(to_argument(
        composite.arguments[i], *parameters[i].real_type(), [this](const at::Tensor& tensor) {
          return value_of(tensor);
        }));
    for (const at::Tensor& tensor : tensors_among(composite.arguments.subspan(i, 1))) {
      memories[i] = memory_of(tensor);
    }
  }
  // The parts that were recorded have no use any more: what they made is another value now.
  for (const at::Tensor& result : tensors_among(results)) {
    initialization_.note_write(result);
    if (std::find(memories.begin(), memories.end(), memory_of(result)) == memories.end()) {
      values_.forget(result);
    }
  }
  add_results(std::move(node), !known.may_alias.empty(), results, memories);
}

}  // namespace kiln::capture
