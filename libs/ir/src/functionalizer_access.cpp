#include <vector>

#include "functionalizer.hpp"
#include "geometry.hpp"
#include "kiln/base/error.hpp"

namespace kiln::ir {
namespace {

bool same_kind(const TensorMeta& a, const TensorMeta& b) {
  return a.dtype == b.dtype && a.conjugate == b.conjugate && a.negative == b.negative;
}

/// Whether `inner` does not reach beyond `outer`, as far as that is known.
bool is_inside(const TensorMeta& inner, const TensorMeta& outer) {
  const auto part = extent_of(inner);
  const auto whole = extent_of(outer);
  return !part || !whole || (part->begin >= whole->begin && part->end <= whole->end);
}

}  // namespace

void Functionalizer::set_made(ValueId old, ValueId made) {
  Place& here = place(old);
  here.made = made;
  if (here.memory != kUntracked) {
    here.version = memories_[here.memory].version;
  }
  rewriter_.map(old, made);
}

/// The view that leads to a place. Only the first value at a place has one.
ViewStep Functionalizer::step_of(const Place& here) {
  if (!here.parent.valid()) {
    return {};
  }
  const Node& node = source_.node(here.view);
  for (const Alias& alias : node.aliases) {
    const auto* argument = std::get_if<ValueId>(&node.arguments[alias.argument]);
    if (argument != nullptr && place(*argument).same == here.parent &&
        node.results[alias.result] == here.same) {
      return view_step(source_, node, alias.result, alias.argument);
    }
  }
  return {};
}

/// A memory that several inputs see in part: one flat tensor, filled from all of them.
ValueId Functionalizer::flat_value(Memory& memory) {
  if (!memory.current.valid()) {
    const TensorMeta& flat = memory.geometry;
    TensorMeta meta = flat;
    meta.offset = 0;
    ValueId value =
        writer_.compute("aten.full.default",
                        {flat.sizes, Expr(0), flat.dtype, Layout::kStrided, flat.device, false},
                        meta);
    for (const ValueId input : memory.inputs) {
      const TensorMeta& part = source_.tensor(input);
      value = writer_.compute(
          "aten.as_strided_scatter.default",
          {value, place(input).made, part.sizes, part.strides, part.offset - flat.offset},
          meta);
    }
    memory.current = value;
  }
  return memory.current;
}

/// What a strided view can be addressed in if the root has elements of another type (real parts of
/// complex ones): the nearest dense base that has the view's type and contains it.
ValueId Functionalizer::base_of_kind(ValueId view) {
  const TensorMeta& wanted = source_.tensor(view);
  if (same_kind(wanted, memories_[place(view).memory].geometry)) {
    return {};
  }
  for (ValueId at = place(view).parent; at.valid(); at = place(at).parent) {
    at = place(at).same;
    const TensorMeta& meta = source_.tensor(at);
    if (same_kind(wanted, meta) && is_dense(meta) && is_inside(wanted, meta)) {
      return at;
    }
  }
  return {};
}

/// The value that `view`, a strided view, is addressed in, and its offset there.
std::pair<ValueId, Expr> Functionalizer::addressed(ValueId view, ValueId base) {
  const TensorMeta& meta = source_.tensor(view);
  const std::uint32_t index = place(view).memory;
  const TensorMeta& recorded = base.valid() ? source_.tensor(base) : memories_[index].geometry;
  const ValueId made =
      base.valid() ? writer_.laid_out(read(base), recorded) : root_value(index, meta);
  return {made, meta.offset - recorded.offset + rewriter_.graph().tensor(made).offset};
}

/// What the memory holds now, laid out as it was recorded, so that `wanted` can be addressed in it.
ValueId Functionalizer::root_value(std::uint32_t index, const TensorMeta& wanted) {
  Memory& memory = memories_[index];
  const TensorMeta& root = memory.geometry;
  const auto outer = extent_of(root);
  if (memory.root.valid() && is_inside(wanted, root) && same_kind(wanted, root) && is_dense(root)) {
    return writer_.laid_out(memory.current, root);
  }
  std::vector<const TensorMeta*> holders;
  for (const ValueId input : memory.inputs) {
    holders.push_back(&source_.tensor(input));
  }
  if (memory.root.valid()) {
    holders = {&root};
  }
  if (!same_kind(wanted, root) || !outer || !hold_elements(holders, wanted)) {
    const ValueId named = memory.root.valid() ? memory.root : memory.inputs[0];
    throw Error(
        ErrorCode::kUnsupported,
        "cannot address a strided view of %" + source_.value(named).name +
            ", whose memory is written: it reaches outside the tensor or reinterprets its dtype");
  }
  if (!memory.root.valid()) {
    return flat_value(memory);
  }
  // The root has gaps, which nothing reads: they are filled with zeros.
  TensorMeta flat = root;
  flat.sizes = {outer->end - outer->begin};
  flat.strides = {1};
  flat.offset = 0;
  const ValueId zeros =
      writer_.compute("aten.full.default",
                      {flat.sizes, Expr(0), flat.dtype, Layout::kStrided, flat.device, false},
                      flat);
  return writer_.compute("aten.as_strided_scatter.default",
                         {zeros, memory.current, root.sizes, root.strides, Expr(0)},
                         flat);
}

ValueId Functionalizer::read(ValueId old) {
  Place& here = place(old);
  if (here.memory == kUntracked) {
    return rewriter_.mapped(old);
  }
  const Memory& memory = memories_[here.memory];
  if (here.made.valid() && here.version == memory.version) {
    return here.made;
  }
  ValueId value;
  if (here.same != old) {
    value = read(here.same);
  } else if (old == memory.root) {
    value = memory.current;
  } else {
    const TensorMeta& meta = source_.tensor(old);
    const ViewStep step = step_of(here);
    if (step.kind == ViewStep::Kind::kIdentity) {
      value = read(here.parent);
    } else if (step.kind != ViewStep::Kind::kStrided) {
      value = writer_.replay(step, meta, source_.tensor(here.parent), read(here.parent));
    } else {
      TensorMeta view = meta;
      const auto [base, offset] = addressed(old, base_of_kind(old));
      view.offset = offset;
      value = writer_.view(
          "aten.as_strided.default", {base, meta.sizes, meta.strides, view.offset}, view);
    }
  }
  set_made(old, value);
  return value;
}

/// Like `read`, with the strides that eager would give: through the views from the root, if need
/// be.
ValueId Functionalizer::read_exactly(ValueId old) {
  const ValueId value = read(old);
  if (place(old).memory == kUntracked ||
      same_strides(rewriter_.graph().tensor(value), source_.tensor(old))) {
    return value;
  }
  const ValueId root = memories_[place(old).memory].root;
  for (ValueId at = old; at.valid() && at != root; at = place(place(at).same).parent) {
    place(at).made = ValueId();
    place(place(at).same).made = ValueId();
  }
  return read(old);
}

void Functionalizer::write(ValueId old, ValueId value) {
  const std::uint32_t index = place(old).memory;
  ensure(index != kUntracked, "a written value has a memory");
  if (element_count(source_.tensor(old).sizes) == Expr(0)) {
    return;
  }
  // What is recorded after this was recorded with the strides of the place, not those of the
  // operator's result.
  const auto restored = [&](const TensorMeta& meta) {
    TensorMeta dense = meta;
    dense.strides = strides_like(meta);
    return writer_.laid_out(value, dense);
  };
  value = restored(source_.tensor(old));
  // From the place up to the root. Each base is read as it was before this write.
  std::vector<std::pair<ValueId, ValueId>> updates;
  ValueId at = place(old).same;
  while (at != memories_[index].root) {
    updates.emplace_back(at, value);
    const ViewStep step = step_of(place(at));
    const TensorMeta& meta = source_.tensor(at);
    // Where elements of the base repeat, a scatter would reach only one of each.
    const bool repeats = place(at).parent.valid() && !may_overlap(meta) &&
                         may_overlap(source_.tensor(place(at).parent));
    if (step.kind == ViewStep::Kind::kStrided || repeats) {
      const ValueId above = base_of_kind(at);
      const auto [base, offset] = addressed(at, above);
      value = writer_.compute("aten.as_strided_scatter.default",
                              {base, value, meta.sizes, meta.strides, offset},
                              TensorMeta(rewriter_.graph().tensor(base)));
      if (above.valid()) {
        at = above;
        continue;
      }
      const TensorMeta& root = memories_[index].geometry;
      if (memories_[index].root.valid() && !is_dense(root)) {
        TensorMeta view = root;
        view.offset = 0;
        value = writer_.view(
            "aten.as_strided.default", {value, root.sizes, root.strides, Expr(0)}, view);
      }
      at = memories_[index].root;
      break;
    }
    const ValueId parent = place(at).parent;
    value = writer_.undo(step, meta, source_.tensor(parent), [&] { return read(parent); }, value);
    at = parent;
  }
  Memory& memory = memories_[index];
  value = restored(memory.geometry);
  memory.current = value;
  owners_.try_emplace(rewriter_.graph().tensor(value).storage, memory_ids_[old.index()]);
  ++memory.version;
  if (memory.root.valid()) {
    set_made(memory.root, value);
  }
  for (const auto& [place_written, made] : updates) {
    set_made(place_written, made);
  }
  set_made(old, read(old));
}

}  // namespace kiln::ir
