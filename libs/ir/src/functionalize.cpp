#include "kiln/ir/functionalize.hpp"

#include <algorithm>
#include <ranges>
#include <span>
#include <string_view>

#include "functional_signature.hpp"
#include "functionalizer.hpp"
#include "geometry.hpp"
#include "kiln/base/error.hpp"
#include "kiln/ir/verify.hpp"

namespace kiln::ir {
namespace {

bool has_mutation(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
    return !node.mutates.empty();
  });
}

/// What `node`, of `graph`, is computed from.
std::vector<const TensorMeta*> tensors_of(const Graph& graph, const Node& node) {
  std::vector<const TensorMeta*> tensors;
  for_each_operand(node, [&](ValueId id) {
    if (graph.value(id).is_tensor()) {
      tensors.push_back(&graph.tensor(id));
    }
  });
  return tensors;
}

/// A literal number, for operators that fill.
bool is_number(const Argument& argument) {
  return std::holds_alternative<Expr>(argument) || std::holds_alternative<double>(argument) ||
         std::holds_alternative<RealExpr>(argument) || std::holds_alternative<bool>(argument) ||
         std::holds_alternative<std::complex<double>>(argument);
}

/// `signature` ("Tensor self,Tensor out->Tensor") without the parameters at `dropped`.
std::string without_parameters(std::string_view signature, std::span<const std::uint32_t> dropped) {
  const std::size_t arrow = signature.find("->");
  std::string result;
  std::uint32_t position = 0;
  for (const auto part : std::views::split(signature.substr(0, arrow), ',')) {
    if (std::ranges::find(dropped, position++) == dropped.end()) {
      result += result.empty() ? "" : ",";
      result.append(part.begin(), part.end());
    }
  }
  return arrow == std::string_view::npos ? result : result.append(signature.substr(arrow));
}

}  // namespace

Functionalizer::Functionalizer(const Graph& source)
    : source_(source),
      rewriter_(source),
      writer_(rewriter_.graph(),
              [this](const Argument& argument) { return rewriter_.mapped(argument); }),
      places_(source.values().size()) {}

Graph Functionalizer::run() {
  find_written();
  for (const Input& input : source_.inputs()) {
    place(input.value).made = rewriter_.mapped(input.value);
  }
  place_inputs();
  for (std::size_t i = 0; i < source_.nodes().size(); ++i) {
    visit(NodeId(i));
  }
  add_outputs();
  return std::move(rewriter_.graph());
}

Argument Functionalizer::read_argument(const Argument& argument) {
  if (const auto* value = std::get_if<ValueId>(&argument)) {
    return value->valid() ? read(*value) : ValueId();
  }
  if (const auto* values = std::get_if<std::vector<ValueId>>(&argument)) {
    std::vector<ValueId> made;
    made.reserve(values->size());
    for (const ValueId value : *values) {
      made.push_back(value.valid() ? read(value) : ValueId());
    }
    return made;
  }
  return argument;
}

void Functionalizer::visit(NodeId id) {
  const Node& node = source_.node(id);
  writer_.set_context(node);
  if (is_in_place_view(node)) {
    visit_in_place_view(id);
    return;
  }
  if (!node.mutates.empty()) {
    visit_mutation(id);
    return;
  }
  if (is_stale_view(node)) {
    for (const ValueId result : node.results) {
      if (result.valid()) {
        place_result(result, id);
        materialize_as(result);
      }
    }
    return;
  }
  Node made = node;
  for (Argument& argument : made.arguments) {
    argument = read_argument(argument);
  }
  rewriter_.replace(id, std::move(made));
  for (const ValueId result : node.results) {
    if (result.valid()) {
      place(result).made = rewriter_.mapped(result);
      place_result(result, id);
    }
  }
}

/// Whether `node` only views memory that has been written, so that the recorded view is stale.
bool Functionalizer::is_stale_view(const Node& node) {
  std::size_t stale = 0;
  for (const Alias& alias : node.aliases) {
    const auto* argument = std::get_if<ValueId>(&node.arguments[alias.argument]);
    const bool written = argument != nullptr && place(*argument).memory != kUntracked &&
                         memories_[place(*argument).memory].version > 0;
    stale += written ? 1 : 0;
  }
  return stale > 0 && stale == node.results.size() && !node.effectful && !node.random;
}

/// Reads `old`; if that takes a new node, its value gets the recorded name.
ValueId Functionalizer::materialize_as(ValueId old) {
  const std::size_t before = rewriter_.graph().values().size();
  const ValueId value = read(old);
  set_made(old, value);
  if (value.index() >= before) {
    rewriter_.graph().rename(value, source_.value(old).name);
  }
  return value;
}

/// Whether `node` resizes a tensor that the graph has made and that had no elements.
bool Functionalizer::resizes_empty_storage(const Node& node) {
  const std::string_view name = operator_name(node.target);
  const auto* base = std::get_if<ValueId>(&node.arguments[0]);
  if ((name != "resize_" && name != "resize_as_") || base == nullptr ||
      place(*base).memory == kUntracked) {
    return false;
  }
  const Memory& memory = memories_[place(*base).memory];
  return memory.inputs.empty() && memory.root.valid() &&
         element_count(memory.geometry.sizes) == Expr(0);
}

/// `value` in newly allocated memory. Its contents are unspecified; zeros will do.
void Functionalizer::allocate_zeros(ValueId value) {
  TensorMeta meta = copy_of(source_.tensor(value));
  meta.strides = contiguous_strides(meta.sizes);
  const ValueId zeros =
      writer_.compute("aten.full.default",
                      {meta.sizes, Expr(0), meta.dtype, Layout::kStrided, meta.device, false},
                      meta);
  place(value).made = writer_.laid_out(zeros, source_.tensor(value));
  new_memory(value);
}

void Functionalizer::visit_in_place_view(NodeId id) {
  const Node& node = source_.node(id);
  const ValueId result = node.results.empty() ? ValueId() : node.results[0];
  if (!result.valid()) {
    return;
  }
  if (written_[memory_ids_[result.index()]]) {
    if (resizes_empty_storage(node)) {
      allocate_zeros(result);
      return;
    }
    place_result(result, id);
    materialize_as(result);
    return;
  }
  // Nothing writes this memory: the operator is a plain view of self, or, for set_, of its source.
  const bool set = operator_name(node.target) == "set_";
  const auto* base = node.arguments.size() > (set ? 1 : 0)
                         ? std::get_if<ValueId>(&node.arguments[set ? 1 : 0])
                         : nullptr;
  if (base == nullptr || memory_ids_[base->index()] != memory_ids_[result.index()]) {
    throw Error(ErrorCode::kUnsupported,
                node.target + " uses storage that no graph input or node owns");
  }
  const TensorMeta& from = source_.tensor(*base);
  const TensorMeta& meta = source_.tensor(result);
  const ViewStep step = set ? ViewStep() : view_step(source_, node, 0, 0);
  const auto old_extent = extent_of(from);
  const auto new_extent = extent_of(meta);
  ValueId value = read(*base);
  if (same_geometry(from, meta) || step.kind == ViewStep::Kind::kIdentity) {
    set_made(result, value);
    return;
  }
  if (step.kind != ViewStep::Kind::kStrided) {
    value = writer_.replay(step, meta, from, value);
  } else if (from.conjugate != meta.conjugate || from.negative != meta.negative) {
    // The result inherits the conjugate and negative bits, and would apply them to other elements.
    throw Error(ErrorCode::kUnsupported, node.target + " on a conjugated or negated view");
  } else if (old_extent && new_extent && new_extent->begin >= old_extent->begin &&
             new_extent->end <= old_extent->end) {
    value = writer_.view(
        "aten.as_strided.default", {value, meta.sizes, meta.strides, meta.offset}, meta);
  } else {
    throw Error(ErrorCode::kUnsupported,
                node.target + " grows the tensor beyond its original storage");
  }
  rewriter_.graph().rename(value, source_.value(result).name);
  set_made(result, value);
}

ValueId Functionalizer::cast(ValueId value, DType dtype) {
  TensorMeta meta = rewriter_.graph().tensor(value);
  if (meta.dtype == dtype) {
    return value;
  }
  meta.dtype = dtype;
  meta.strides = strides_like(meta);
  meta.offset = 0;
  meta.conjugate = meta.negative = false;
  return writer_.compute(
      "aten._to_copy.default",
      {value, dtype, std::monostate(), std::monostate(), std::monostate(), false, std::monostate()},
      std::move(meta));
}

/// `target` after copy_.
ValueId Functionalizer::copied(const Node& node, ValueId target) {
  const ValueId from = read(std::get<ValueId>(node.arguments[1]));
  const TensorMeta source = rewriter_.graph().tensor(from);
  TensorMeta meta = source_.tensor(target);
  const bool plain = !source.conjugate && !source.negative && !meta.conjugate && !meta.negative;
  if (plain && source.device == meta.device && source.sizes == meta.sizes) {
    TensorMeta result = source;
    result.dtype = meta.dtype;
    if ((source.dtype == meta.dtype ? source.strides : strides_like(result)) == meta.strides) {
      return cast(from, meta.dtype);
    }
  }
  const ValueId old = read(target);
  meta = copy_of(rewriter_.graph().tensor(old));
  Argument non_blocking = node.arguments.size() > 2 ? node.arguments[2] : Argument(false);
  return writer_.compute(
      "aten.copy.default", {old, from, std::move(non_blocking)}, std::move(meta));
}

/// The new value of `target` for operators that need nothing of the old one; invalid for the
/// others.
ValueId Functionalizer::overwritten(NodeId id, ValueId target) {
  const Node& node = source_.node(id);
  const std::string_view name = operator_name(node.target);
  const TensorMeta& meta = source_.tensor(target);
  if (name == "copy_") {
    return copied(node, target);
  }
  if (name == "conj_physical_" && !is_complex(meta.dtype)) {
    return read(target);  // Its functional form returns its very argument then.
  }
  if (name.ends_with('_') && node.results.size() <= 1 && element_count(meta.sizes) == Expr(0)) {
    return read(target);  // There is nothing to write.
  }
  const bool zero = name == "zero_";
  if ((!zero && name != "fill_") || (!zero && !is_number(node.arguments[1]))) {
    return {};
  }
  const Argument number = zero ? Argument(Expr(0)) : node.arguments[1];
  TensorMeta result = meta;
  result.offset = 0;
  result.conjugate = result.negative = false;
  if (is_contiguous(meta)) {
    result.strides = contiguous_strides(meta.sizes);
    return writer_.compute("aten.full.default",
                           {meta.sizes, number, meta.dtype, Layout::kStrided, meta.device, false},
                           result);
  }
  const ValueId old = read(target);
  result.strides = strides_like(rewriter_.graph().tensor(old));
  return writer_.compute("aten.fill.Scalar", {old, number}, result);
}

void Functionalizer::visit_mutation(NodeId id) {
  const Node& node = source_.node(id);
  std::vector<ValueId> targets;
  for (const std::uint32_t argument : node.mutates) {
    for_each_value(node.arguments[argument], [&](ValueId value) { targets.push_back(value); });
  }
  const bool aten = node.target.starts_with("aten.");
  if (targets.size() == 1 && aten) {
    if (const ValueId value = overwritten(id, targets[0]); value.valid()) {
      write(targets[0], value);
      for (const ValueId result : node.results) {
        if (result.valid()) {
          place_result(result, id);
          materialize_as(result);
        }
      }
      return;
    }
  }

  const FunctionalOperator functional = functional_operator(source_, node);
  Node made = node;
  made.target = functional.target;
  // A separate functional operator, such as batch norm's, has its own arguments and results.
  if (std::string signature = functional_signature(made.target); !signature.empty()) {
    made.signature = std::move(signature);
  } else if (functional.drops_mutated) {
    made.signature = without_parameters(made.signature, node.mutates);
  }
  made.mutates.clear();
  made.aliases.clear();
  made.arguments.clear();
  for (std::uint32_t i = 0; i < node.arguments.size(); ++i) {
    const bool mutated =
        std::find(node.mutates.begin(), node.mutates.end(), i) != node.mutates.end();
    if (!mutated || !functional.drops_mutated) {
      made.arguments.push_back(read_argument(node.arguments[i]));
    }
  }

  // Results that are not a mutated argument, then the mutated arguments.
  std::vector<std::optional<ValueMeta>> metas;
  std::vector<std::string> names;
  std::vector<ValueId> kept;
  std::vector<ValueId> returned;
  for (std::uint32_t i = 0; i < node.results.size(); ++i) {
    const bool aliased =
        std::any_of(node.aliases.begin(), node.aliases.end(), [&](const Alias& alias) {
          return alias.result == i &&
                 std::find(node.mutates.begin(), node.mutates.end(), alias.argument) !=
                     node.mutates.end();
        });
    if (aliased) {
      returned.push_back(node.results[i]);
      continue;
    }
    kept.push_back(node.results[i]);
    const bool defined = node.results[i].valid();
    metas.push_back(defined ? std::optional(source_.value(node.results[i]).meta) : std::nullopt);
    names.push_back(defined ? source_.value(node.results[i]).name : std::string());
  }
  for (std::size_t i = 0; i < targets.size(); ++i) {
    // An out= argument may have been resized: the result then says what was written.
    const bool named = i < returned.size() && returned[i].valid();
    TensorMeta meta = source_.tensor(functional.drops_mutated && named ? returned[i] : targets[i]);
    if (functional.order == FunctionalOperator::Order::kRowMajor) {
      meta.strides = contiguous_strides(meta.sizes);
    } else if (functional.order == FunctionalOperator::Order::kPointwise) {
      meta.strides = pointwise_strides(meta.sizes, tensors_of(rewriter_.graph(), made));
    } else {
      meta.strides = rewriter_.graph().tensor(read(targets[i])).strides;
      meta.strides = strides_like(meta);
    }
    meta.requires_grad = named && source_.tensor(returned[i]).requires_grad;
    meta.dtype = functional.dtype.value_or(meta.dtype);
    meta.offset = 0;
    meta.conjugate = meta.negative = false;
    meta.storage = rewriter_.graph().new_storage();
    metas.emplace_back(std::move(meta));
    names.push_back(named ? source_.value(returned[i]).name : std::string());
  }
  const NodeId call = rewriter_.graph().add_node(std::move(made), std::move(metas), names);
  const std::vector<ValueId> results = rewriter_.graph().node(call).results;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (kept[i].valid()) {
      set_made(kept[i], results[i]);
      place_result(kept[i], id);
    }
  }
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const ValueId value = results[kept.size() + i];
    const TensorMeta& target = source_.tensor(targets[i]);
    if (i < returned.size() && returned[i].valid() &&
        source_.tensor(returned[i]).sizes != target.sizes) {
      throw Error(ErrorCode::kUnsupported, node.target + " resizes its out argument");
    }
    write(targets[i], cast(value, target.dtype));
  }
  for (const ValueId result : returned) {
    if (result.valid()) {
      place_result(result, id);
      materialize_as(result);
    }
  }
}

/// The value to return for `old`: cloned if copy_ let it share another tensor's storage.
ValueId Functionalizer::returned_value(ValueId old) {
  const ValueId value = read_exactly(old);
  if (place(old).memory == kUntracked) {
    return value;
  }
  TensorMeta meta = rewriter_.graph().tensor(value);
  const auto owner = owners_.find(meta.storage);
  if (!meta.storage.valid() || owner == owners_.end() ||
      owner->second == memory_ids_[old.index()]) {
    return value;
  }
  meta.strides = strides_like(meta);
  meta.offset = 0;
  meta.conjugate = meta.negative = false;
  const ValueId copy =
      writer_.compute("aten.clone.default", {value, std::monostate()}, std::move(meta));
  owners_[rewriter_.graph().tensor(copy).storage] = memory_ids_[old.index()];
  return copy;
}

void Functionalizer::add_outputs() {
  Graph& graph = rewriter_.graph();
  for (std::uint32_t i = 0; i < source_.inputs().size(); ++i) {
    const ValueId input = source_.inputs()[i].value;
    const Place& here = place(input);
    if (here.memory == kUntracked || memories_[here.memory].version == 0) {
      continue;
    }
    const ValueId value = read(input);
    if (value != graph.inputs()[i].value) {
      if (is_expanded(source_.tensor(input))) {
        throw Error(ErrorCode::kUnsupported,
                    "%" + source_.value(input).name +
                        " is an expanded input and is written through a view, so results cannot "
                        "be copied back into it; pass the tensor it was expanded from");
      }
      graph.add_output({.value = value, .kind = OutputKind::kMutation, .input = i});
    }
  }
  for (Output output : source_.outputs()) {
    output.value = output.value.valid() ? returned_value(output.value) : ValueId();
    graph.add_output(std::move(output));
  }
}

Graph functionalize(Graph graph) {
  for (Graph& subgraph : graph.subgraphs()) {
    subgraph = functionalize(std::move(subgraph));
    for (const Output& output : subgraph.outputs()) {
      if (output.kind == OutputKind::kMutation) {
        throw Error(ErrorCode::kUnsupported,
                    "the nested graph " + subgraph.name() + " writes to its inputs");
      }
    }
  }
  if (!has_mutation(graph)) {
    return graph;
  }
  Graph result = Functionalizer(graph).run();
  debug_verify(result);
  return result;
}

}  // namespace kiln::ir
