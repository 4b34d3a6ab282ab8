#include "recorder.hpp"

#include <ATen/Functions.h>
#include <ATen/SequenceNumber.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>

#include "arguments.hpp"
#include "kiln/base/error.hpp"
#include "kiln/capture/convert.hpp"
#include "nested.hpp"

namespace kiln::capture {
namespace {

// Every tensor among `arguments`, with the position of its argument.
template <class Visit>
void for_each_tensor(const c10::IValue* arguments, std::size_t count, Visit&& visit) {
  for (std::uint32_t i = 0; i < count; ++i) {
    if (arguments[i].isTensor()) {
      if (arguments[i].toTensor().defined()) {
        visit(arguments[i].toTensor(), i);
      }
    } else if (arguments[i].isList()) {
      for (const c10::IValue& item : arguments[i].toListRef()) {
        if (item.isTensor() && item.toTensor().defined()) {
          visit(item.toTensor(), i);
        }
      }
    }
  }
}

// An operator that only calls others. It arrives whole where autograd did not take it apart
// (inference tensors).
bool is_composite(const c10::OperatorHandle& op, c10::DispatchKeySet below) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
         !op.hasKernelForDispatchKey(below.highestPriorityTypeId());
}

// An operator on lists of tensors, whose plain kernel calls another operator for each of them. Not
// if it takes numbers in a tensor: it reads those without dispatching.
bool is_foreach_operator(const c10::OperatorHandle& op) {
  const auto reads_numbers = [](const c10::Argument& argument) {
    return argument.name() == "scalars" && argument.type()->isSubtypeOf(*c10::TensorType::get());
  };
  const std::vector<c10::Argument>& arguments = op.schema().arguments();
  return op.schema().name().starts_with("aten::_foreach_") &&
         op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) &&
         std::none_of(arguments.begin(), arguments.end(), reads_numbers);
}

bool has_mask(const c10::IValue* arguments, std::size_t count) {
  bool mask = false;
  for_each_tensor(arguments, count, [&](const at::Tensor& tensor, std::uint32_t argument) {
    const bool boolean = tensor.scalar_type() == at::kBool || tensor.scalar_type() == at::kByte;
    mask = mask || (argument == 1 && boolean);
  });
  return mask;
}

}  // namespace

Recorder::Recorder(const RecordOptions& options)
    : options_(options),
      key_(options.pre_dispatch ? kPreDispatchKey : kTracerKey),
      graph_("recorded"),
      grad_mode_(c10::GradMode::is_enabled()) {}

Recorder* Recorder::current() {
  return static_cast<Recorder*>(c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::TEST_INFO_2));
}

const OperatorFacts& Recorder::facts(const c10::OperatorHandle& op) {
  const auto [entry, fresh] = facts_.try_emplace(&op.schema());
  if (fresh) {
    entry->second = facts_of(op);
  }
  return entry->second;
}

// Below autograd all composite operators are decomposed. Above it they stay whole, unless they
// mutate or return a view: then the operators they call say which argument.
bool Recorder::decomposes(const c10::OperatorHandle& op,
                          c10::DispatchKeySet below,
                          const torch::jit::Stack& stack) {
  if (!options_.pre_dispatch) {
    return is_composite(op, below);
  }
  if (!op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) {
    return false;
  }
  const OperatorFacts& known = facts(op);
  const c10::IValue* arguments = stack.data() + stack.size() - op.schema().arguments().size();
  return !known.may_alias.empty() || hides_mutations(known.target, arguments);
}

void Recorder::check_frozen(const OperatorFacts& facts, const at::Tensor& tensor) const {
  if (frozen_.contains(memory_of(tensor)) && !facts.in_place_view) {
    throw Error(ErrorCode::kInvalidArgument,
                "cannot mutate tensors with frozen storage: " + facts.target +
                    " writes to a result that may alias its operator's argument");
  }
}

// Captured tensors are the caller's own even when tracing on shadow inputs (`on_shadow_inputs`):
// their elements can be restored, their metadata cannot.
void Recorder::check_captured_metadata(const OperatorFacts& facts, const at::Tensor& tensor) const {
  if (!options_.on_shadow_inputs || !facts.in_place_view) {
    return;
  }
  for (const at::Tensor& captured : captured_) {
    if (captured.is_same(tensor)) {
      throw Error(ErrorCode::kInvalidArgument,
                  "Can't call metadata mutations on a captured tensor: " + facts.target +
                      " changes its shape or storage; pass the tensor as an input");
    }
  }
}

// A node with the current grad mode, autocast state and provenance. Nodes run by autograd take the
// provenance of the forward node that caused them.
ir::Node Recorder::make_node() {
  ir::Node node;
  node.grad_mode = c10::GradMode::is_enabled();
  node.autocast =
      at::autocast::is_autocast_enabled(at::kCPU) || at::autocast::is_autocast_enabled(at::kCUDA);
  node.backward = backward;
  node.provenance.module_path = module_path;
  node.provenance.source = source;
  if (const auto cause = torch::autograd::get_current_node()) {
    const auto sequence = static_cast<std::int64_t>(cause->sequence_nr());
    if (const auto origin = origins_.find(sequence); origin != origins_.end()) {
      node.provenance = origin->second;
    }
  } else {
    node.provenance.sequence = static_cast<std::int64_t>(at::sequence_number::peek()) - 1;
    origins_.try_emplace(node.provenance.sequence, node.provenance);
  }
  return node;
}

void Recorder::set_grad_mode(bool enabled) {
  grad_mode_ = enabled;
  if (!options_.pre_dispatch) {
    return;
  }
  ir::Node node = make_node();
  node.target = kSetGradMode;
  node.signature = "bool enabled->";
  node.arguments = {enabled};
  node.effectful = true;
  graph_.add_node(std::move(node), {});
}

// " at net.cpp:12 in layers.0", as far as it is known.
std::string Recorder::place() const {
  return (source.empty() ? "" : " at " + source) +
         (module_path.empty() ? "" : " in " + module_path);
}

// For users: which operator reads, where, and what to write instead.
std::string Recorder::value_read_message(const std::string& target) const {
  const bool is_item = target == "aten._local_scalar_dense.default";
  const std::string text = "the program reads a tensor's value with " +
                           (is_item ? "item() (" + target + ")" : target) + place();
  if (const auto node = torch::autograd::get_current_node()) {
    return text + ", in libtorch's own " + node->name() +
           ": keep that operator out of what is differentiated (detach()), or out of the function";
  }
  return text +
         ", and compiled code cannot depend on data that it has not seen: keep it a tensor "
         "(torch::where(condition, a, b) instead of if), or read it before the call and pass it as "
         "an argument";
}

void Recorder::refuse(const c10::OperatorHandle& op,
                      const OperatorFacts& facts,
                      const torch::jit::Stack& stack) const {
  const std::size_t count = op.schema().arguments().size();
  const c10::IValue* arguments = stack.data() + stack.size() - count;
  if (facts.reads_value && !options_.allow_value_reads && facts.target != kEqual) {
    throw Error(ErrorCode::kUnsupported, value_read_message(facts.target));
  }
  const bool indexes =
      facts.target == "aten.index.Tensor" || facts.target == "aten.index.Tensor_out";
  if (facts.shape_from_data && (!indexes || has_mask(arguments, count))) {
    const std::string where = place();
    throw Error(ErrorCode::kUnsupported,
                facts.target +
                    " has a data-dependent output shape, and compiled code cannot: keep the shape "
                    "(torch::where(mask, a, b), or multiply by the mask), or do this before the "
                    "call and pass its result" +
                    (where.empty() ? "" : ". It is called" + where));
  }
}

// Tracing on shadow inputs is not the call, so effects without results are deferred to the compiled
// program. Assertions run anyway if their operands were computed.
void Recorder::run(const c10::OperatorHandle& op,
                   const OperatorFacts& facts,
                   c10::DispatchKeySet below,
                   const ir::Node& node,
                   torch::jit::Stack& stack) {
  const std::size_t count = op.schema().arguments().size();
  if (node.effectful && options_.on_shadow_inputs) {
    const std::vector<at::Tensor> operands = tensors_among(std::span(stack).last(count));
    const bool computed = std::none_of(operands.begin(), operands.end(), [&](const auto& operand) {
      return valueless_.contains(operand);
    });
    if (facts.returns_nothing && !(facts.asserts && computed)) {
      deferred_effects_ = deferred_effects_ || !facts.asserts;
      stack.resize(stack.size() - count);
      return;
    }
    if (!facts.asserts) {
      repeated_effects_.push_back(facts.target);
    }
  }
  const auto dispatch = [&] {
    if (!options_.without_values) {
      op.redispatchBoxed(below, &stack);
      return;
    }
    const bool by_autograd = torch::autograd::get_current_node() != nullptr;
    valueless_.call({op, facts, below, node.mutates, by_autograd}, stack, external_);
  };
  if (node.random && options_.on_shadow_inputs) {
    generator_.run(stack, count, facts.generator, dispatch);
  } else {
    dispatch();
  }
}

void Recorder::call(const c10::OperatorHandle& op,
                    c10::DispatchKeySet below,
                    torch::jit::Stack& stack) {
  if (decomposes(op, below, stack)) {
    op.redispatchBoxed(below, &stack);
    return;
  }
  if (!options_.pre_dispatch && is_foreach_operator(op)) {
    op.callBoxedForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd, stack);
    return;
  }

  if (facts(op).target == kEqual && !options_.allow_value_reads) {
    compare(op, below, stack);
    return;
  }
  if (assumes_close(op, stack)) {
    return;
  }

  const c10::impl::ExcludeDispatchKeyGuard not_recorded(kTracerKeys);
  if (options_.pre_dispatch && c10::GradMode::is_enabled() != grad_mode_) {
    set_grad_mode(!grad_mode_);
  }
  const OperatorFacts& known = facts(op);
  const std::vector<c10::Argument>& parameters = op.schema().arguments();
  const std::size_t count = parameters.size();
  const std::size_t base = stack.size() - count;
  const c10::IValue* arguments = stack.data() + base;
  check_reads(known, std::span(stack).last(count));
  const bool of_numbers = is_of_numbers(std::span(stack).last(count));
  if (known.reads_value && of_numbers) {
    op.redispatchBoxed(below, &stack);
    return;
  }
  refuse(op, known, stack);

  ir::Node node = make_node();
  node.target = known.target;
  node.signature = known.signature;
  for (std::size_t i = 0; i < count; ++i) {
    node.arguments.push_back(
        to_argument(arguments[i], *parameters[i].real_type(), [this](const at::Tensor& tensor) {
          return value_of(tensor);
        }));
  }
  node.mutates = known.mutates;
  for (const std::uint32_t argument : undeclared_mutations(known.target, arguments)) {
    node.mutates.push_back(argument);
  }
  node.effectful = known.effectful || effects;
  node.random = known.random && !(known.dropout && arguments[*known.dropout].toDouble() == 0);

  // Storages of the arguments before the call, because set_ replaces its own. One tensor of a list
  // is enough to tell what a result is a view of.
  std::vector<const c10::StorageImpl*> memories(count);
  Tensors written;
  for_each_tensor(arguments, count, [&](const at::Tensor& tensor, std::uint32_t argument) {
    if (std::find(node.mutates.begin(), node.mutates.end(), argument) != node.mutates.end()) {
      check_frozen(known, tensor);
      check_captured_metadata(known, tensor);
      snapshot(tensor);
      written.push_back(tensor);
      if (!known.in_place_view && tensor.has_storage()) {
        written_.insert(tensor.storage().unsafeGetStorageImpl());
      }
    }
    if (memories[argument] == nullptr) {
      memories[argument] = memory_of(tensor);
    }
  });
  const std::size_t bytes =
      known.in_place_view && memories[0] != nullptr ? memories[0]->nbytes() : 0;

  run(op, known, below, node, stack);
  const std::span<const c10::IValue> returned = std::span(stack).subspan(base);
  if (known.in_place_view && !written.empty() && memory_of(written[0]) == memories[0] &&
      memories[0] != nullptr && memories[0]->nbytes() > bytes) {
    initialization_.note_growth(written[0], bytes, allocation_by(known.target));
  }
  note_memory(known, written, returned);
  note_numbers(of_numbers && !node.random && !node.effectful && !allocates_uninitialized(known),
               written,
               returned);
  add_results(std::move(node), !known.may_alias.empty(), returned, memories);
}

void Recorder::add_results(ir::Node node,
                           bool declares_aliases,
                           std::span<const c10::IValue> returned,
                           std::span<const c10::StorageImpl* const> memories) {
  const bool freezes = options_.pre_dispatch && !declares_aliases;
  Tensors results;
  for (const c10::IValue& item : returned) {
    if (item.isTensor()) {
      results.push_back(item.toTensor());
    } else if (item.isTensorList()) {
      for (const at::Tensor& tensor : item.toTensorVector()) {
        results.push_back(tensor);
      }
    }
  }

  std::vector<std::optional<ir::ValueMeta>> metas;
  for (std::uint32_t i = 0; i < results.size(); ++i) {
    const at::Tensor& result = results[i];
    if (!result.defined()) {
      metas.emplace_back(std::nullopt);
      continue;
    }
    const c10::StorageImpl* memory = memory_of(result);
    const auto lies_there = [&](std::uint32_t argument) {
      return memory != nullptr && memories[argument] == memory;
    };
    // Prefer a mutated argument: it is what the operator returns.
    const auto written = std::find_if(node.mutates.begin(), node.mutates.end(), lies_there);
    std::uint32_t argument = written != node.mutates.end() ? *written : 0;
    while (argument < memories.size() && !lies_there(argument)) {
      ++argument;
    }
    if (argument < memories.size()) {
      node.aliases.push_back({i, argument});
      if (freezes) {
        frozen_.insert(memory);
      }
    }
    metas.emplace_back(describe(result));
  }
  // In-place operators return the same tensor object.
  const bool makes_objects = node.mutates.empty();
  const ir::NodeId id = graph_.add_node(std::move(node), std::move(metas));
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].defined()) {
      continue;
    }
    const ir::ValueId value = graph_.node(id).results[i];
    // A second name for the same view of the same memory changes nothing: the first stays.
    const bool is_second = values_.find(results[i]).has_value();
    if (!is_second) {
      values_.set(results[i], value);
    }
    if (!is_second || makes_objects) {
      escaped_.watch(results[i], value, !valueless_.contains(results[i]));
    }
  }
}

void Recorder::call_region(std::string target,
                           std::vector<ir::Argument> arguments,
                           std::vector<ir::Graph> bodies,
                           const std::vector<Tensors>& lists,
                           const Tensors& results) {
  ir::Node node = make_node();
  node.target = std::move(target);
  node.arguments = std::move(arguments);
  for (ir::Graph& body : bodies) {
    for (const ir::Node& inner : body.nodes()) {
      node.random = node.random || inner.random;
      node.effectful = node.effectful || inner.effectful;
    }
    node.arguments.emplace_back(ir::SubgraphRef{graph_.add_subgraph(std::move(body))});
  }
  for (const Tensors& list : lists) {
    std::vector<ir::ValueId> values;
    for (const at::Tensor& operand : list) {
      values.push_back(value_of(operand));
    }
    node.arguments.emplace_back(std::move(values));
  }
  std::vector<std::optional<ir::ValueMeta>> metas;
  for (const at::Tensor& result : results) {
    metas.emplace_back(describe(result));
  }
  const ir::NodeId id = graph_.add_node(std::move(node), std::move(metas));
  for (std::size_t i = 0; i < results.size(); ++i) {
    values_.set(results[i], graph_.node(id).results[i]);
  }
}

at::Tensor Recorder::make_placeholder_like(const at::Tensor& tensor) {
  const c10::impl::ExcludeDispatchKeyGuard not_recorded(kTracerKeys);
  const at::NoGradGuard no_grad;
  const at::Tensor detached = tensor.detach();
  return options_.without_values
             ? valueless_.make_like(at::empty_like(detached, detached.options().device(at::kMeta)))
             : at::ones_like(detached);
}

at::Tensor Recorder::copy_of(const at::Tensor& tensor) {
  return options_.without_values ? make_placeholder_like(tensor) : tensor.detach().clone();
}

void Recorder::run_privately(const std::function<void()>& call) {
  if (!options_.on_shadow_inputs) {
    call();
    return;
  }
  torch::jit::Stack none;
  generator_.run(none, 0, std::nullopt, call);
}

}  // namespace kiln::capture
