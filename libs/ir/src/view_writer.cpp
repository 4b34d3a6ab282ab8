#include "view_writer.hpp"

#include <utility>

#include "functional_signature.hpp"
#include "geometry.hpp"
#include "kiln/base/error.hpp"

namespace kiln::ir {

using Kind = ViewStep::Kind;

void ViewWriter::set_context(const Node& node) {
  context_ = Node();
  context_.grad_mode = node.grad_mode;
  context_.autocast = node.autocast;
  context_.backward = node.backward;
  context_.provenance = node.provenance;
}

Node ViewWriter::made(std::string target, std::vector<Argument> arguments) const {
  Node node = context_;
  node.target = std::move(target);
  node.signature = functional_signature(node.target);
  node.arguments = std::move(arguments);
  return node;
}

ValueId ViewWriter::compute(std::string target, std::vector<Argument> arguments, TensorMeta meta) {
  meta.storage = graph_.new_storage();
  std::vector<std::optional<ValueMeta>> metas;
  metas.emplace_back(std::move(meta));
  const NodeId node =
      graph_.add_node(made(std::move(target), std::move(arguments)), std::move(metas));
  return graph_.node(node).results[0];
}

ValueId ViewWriter::view(std::string target, std::vector<Argument> arguments, TensorMeta meta) {
  Node node = made(std::move(target), std::move(arguments));
  node.aliases = {{0, 0}};
  meta.storage = graph_.tensor(std::get<ValueId>(node.arguments[0])).storage;
  std::vector<std::optional<ValueMeta>> metas;
  metas.emplace_back(std::move(meta));
  const NodeId id = graph_.add_node(std::move(node), std::move(metas));
  return graph_.node(id).results[0];
}

ValueId ViewWriter::contiguous(ValueId value) {
  TensorMeta meta = graph_.tensor(value);
  if (is_contiguous(meta)) {
    return value;
  }
  meta.strides = contiguous_strides(meta.sizes);
  meta.offset = 0;
  meta.conjugate = meta.negative = false;
  return compute("aten.clone.default", {value, MemoryFormat::kContiguous}, std::move(meta));
}

ValueId ViewWriter::resolved(ValueId value) {
  const TensorMeta& meta = graph_.tensor(value);
  if (!meta.conjugate && !meta.negative) {
    return value;
  }
  return compute("aten.clone.default", {value, std::monostate()}, copy_of(meta));
}

ValueId ViewWriter::laid_out(ValueId value, const TensorMeta& like) {
  if (same_strides(graph_.tensor(value), like)) {
    return value;
  }
  if (is_contiguous(like)) {
    return contiguous(value);
  }
  // Dimensions in the order they shall have in memory, copied row by row, and back in their places.
  const std::vector<std::size_t> order = memory_order(like);
  std::vector<Expr> forward(order.size());
  std::vector<Expr> back(order.size());
  TensorMeta permuted = graph_.tensor(value);
  TensorMeta restored = permuted;
  for (std::size_t i = 0; i < order.size(); ++i) {
    forward[i] = static_cast<std::int64_t>(order[i]);
    back[order[i]] = static_cast<std::int64_t>(i);
    permuted.sizes[i] = restored.sizes[order[i]];
    permuted.strides[i] = restored.strides[order[i]];
  }
  const ValueId outer = view("aten.permute.default", {value, forward}, permuted);
  const ValueId dense = contiguous(outer);
  restored.strides = like.strides;
  restored.offset = graph_.tensor(dense).offset;
  return view("aten.permute.default", {dense, back}, restored);
}

std::vector<Argument> ViewWriter::with_base(ValueId base,
                                            const std::vector<Argument>& recorded) const {
  std::vector<Argument> arguments = {base};
  for (const Argument& argument : recorded) {
    arguments.push_back(mapped_(argument));
  }
  return arguments;
}

ValueId ViewWriter::replay(const ViewStep& step,
                           const TensorMeta& recorded,
                           const TensorMeta& recorded_base,
                           ValueId base) {
  if (step.kind == Kind::kReal || step.kind == Kind::kComplex || step.kind == Kind::kReinterpret) {
    base = resolved(base);
  }
  std::optional<TensorMeta> meta = replay_meta(step, recorded, recorded_base, graph_.tensor(base));
  if (!meta) {
    base = contiguous(base);
    meta = replay_meta(step, recorded, recorded_base, graph_.tensor(base));
    ensure(meta.has_value(), "a contiguous tensor can be viewed in every way");
  }
  return view(step.target, with_base(base, step.arguments), *std::move(meta));
}

ValueId ViewWriter::scatter(std::string target, const ViewStep& step, ValueId base, ValueId value) {
  std::vector<Argument> arguments = with_base(base, step.arguments);
  arguments.insert(arguments.begin() + 1, value);
  return compute(std::move(target), std::move(arguments), copy_of(graph_.tensor(base)));
}

ValueId ViewWriter::undo_reshape(const ViewStep& step,
                                 const TensorMeta& recorded_base,
                                 ValueId value) {
  std::optional<std::vector<Expr>> strides =
      view_strides(graph_.tensor(value), recorded_base.sizes);
  if (!strides) {
    value = contiguous(value);
    strides = contiguous_strides(recorded_base.sizes);
  }
  TensorMeta meta = graph_.tensor(value);
  if (meta.sizes == recorded_base.sizes) {
    return value;
  }
  meta.sizes = recorded_base.sizes;
  meta.strides = *std::move(strides);
  if (step.target == "aten.unsqueeze.default") {
    return view("aten.squeeze.dim", with_base(value, step.arguments), std::move(meta));
  }
  if (step.target == "aten.squeeze.dim") {
    return view("aten.unsqueeze.default", with_base(value, step.arguments), std::move(meta));
  }
  return view("aten.view.default", {value, recorded_base.sizes}, std::move(meta));
}

ValueId ViewWriter::undo(const ViewStep& step,
                         const TensorMeta& recorded,
                         const TensorMeta& recorded_base,
                         const std::function<ValueId()>& old_base,
                         ValueId value) {
  TensorMeta meta = graph_.tensor(value);
  switch (step.kind) {
    case Kind::kIdentity: return value;
    case Kind::kReshape: return undo_reshape(step, recorded_base, value);
    case Kind::kPermute: {
      const TensorMeta from = meta;
      std::vector<Expr> inverse(step.order.size());
      bool is_own_inverse = true;
      for (std::size_t i = 0; i < step.order.size(); ++i) {
        meta.sizes[step.order[i]] = from.sizes[i];
        meta.strides[step.order[i]] = from.strides[i];
        inverse[step.order[i]] = static_cast<std::int64_t>(i);
        is_own_inverse &= step.order[step.order[i]] == i;
      }
      if (is_own_inverse) {
        return view(step.target, with_base(value, step.arguments), std::move(meta));
      }
      return view("aten.permute.default", {value, inverse}, std::move(meta));
    }
    case Kind::kSelect: return scatter("aten.select_scatter.default", step, old_base(), value);
    case Kind::kSlice:
      if (recorded.sizes == recorded_base.sizes && step.step == Expr(1)) {
        return value;
      }
      return scatter("aten.slice_scatter.default", step, old_base(), value);
    case Kind::kDiagonal: return scatter("aten.diagonal_scatter.default", step, old_base(), value);
    case Kind::kExpand:
      if (element_count(recorded.sizes) != element_count(recorded_base.sizes)) {
        throw Error(ErrorCode::kUnsupported, "a write through aten.expand, where elements repeat");
      }
      return undo_reshape(step, recorded_base, value);
    case Kind::kReinterpret: {
      value = contiguous(resolved(value));
      meta = graph_.tensor(value);
      meta.offset = floor_div(meta.offset * Expr(size_of(recorded.dtype)),
                              Expr(size_of(recorded_base.dtype)));
      meta.dtype = recorded_base.dtype;
      meta.sizes = recorded_base.sizes;
      meta.strides = contiguous_strides(meta.sizes);
      return view("aten.view.dtype", {value, recorded_base.dtype}, std::move(meta));
    }
    case Kind::kReal:
    case Kind::kComplex: {
      const ViewStep inverse{.kind = step.kind == Kind::kReal ? Kind::kComplex : Kind::kReal,
                             .target = step.kind == Kind::kReal ? "aten.view_as_complex.default"
                                                                : "aten.view_as_real.default"};
      return replay(inverse, recorded_base, recorded, value);
    }
    case Kind::kConjugate:
    case Kind::kNegative:
      meta.strides = strides_like(meta);
      meta.offset = 0;
      meta.conjugate = meta.negative = false;
      return compute(
          step.kind == Kind::kConjugate ? "aten.conj_physical.default" : "aten.neg.default",
          {value},
          std::move(meta));
    case Kind::kStrided: break;
  }
  throw Error(ErrorCode::kInternal, "a view by geometry is undone from the root of its memory");
}

}  // namespace kiln::ir
