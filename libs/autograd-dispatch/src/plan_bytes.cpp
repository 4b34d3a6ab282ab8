#include "kiln/autograd_dispatch/plan_bytes.hpp"

#include <type_traits>

#include "kiln/base/error.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/ir/print.hpp"

namespace kiln::autograd_dispatch {
namespace {

constexpr std::string_view kHeader = "kiln plan 6\n";

// Both directions go through `fields`, so that they cannot differ. Integers have eight bytes, least
// significant first; lists and optional values begin with their length; graphs are text.
class Writer {
 public:
  void integer(std::uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) {
      bytes_.push_back(static_cast<char>((value >> shift) & 0xff));
    }
  }
  void text(const std::string& value) {
    integer(value.size());
    bytes_ += value;
  }
  void header() { bytes_ += kHeader; }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  std::uint64_t integer() {
    const std::string_view read = take(8);
    std::uint64_t value = 0;
    for (int i = 7; i >= 0; --i) {
      value = (value << 8) | static_cast<unsigned char>(read[static_cast<std::size_t>(i)]);
    }
    return value;
  }
  // A length, which cannot exceed what is left: a damaged one must not allocate.
  std::size_t length() {
    const std::uint64_t value = integer();
    require(value <= bytes_.size());
    return static_cast<std::size_t>(value);
  }
  std::string text() { return std::string(take(length())); }
  void header() { require(take(kHeader.size()) == kHeader); }
  void end() const { require(bytes_.empty()); }

 private:
  static void require(bool condition) {
    if (!condition) {
      throw Error(ErrorCode::kCorrupt, "not a serialized plan, or one of another version");
    }
  }
  std::string_view take(std::size_t count) {
    require(count <= bytes_.size());
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }

  std::string_view bytes_;
};

template <class T>
constexpr bool kIsNumber = std::is_integral_v<T> || std::is_enum_v<T>;

template <class T>
void visit(Writer& out, const T& value);
template <class T>
void visit(Reader& in, T& value);

template <class A, class... T>
void visit_all(A& archive, T&... values) {
  (visit(archive, values), ...);
}

/// `Type`, read or written: the fields are listed once for both.
template <class T, class Type>
concept MaybeConst = std::is_same_v<std::remove_const_t<T>, Type>;

template <class A, MaybeConst<Geometry> G>
void fields(A& archive, G& geometry) {
  visit_all(archive, geometry.sizes, geometry.strides, geometry.offset);
}
template <class A, MaybeConst<Window> W>
void fields(A& archive, W& window) {
  visit_all(archive, window.sizes, window.strides, window.offset);
}
template <class A, MaybeConst<ViewPlan> V>
void fields(A& archive, V& view) {
  visit_all(archive, view.history, view.views, view.window);
}
template <class A, MaybeConst<OutputPlan> O>
void fields(A& archive, O& output) {
  visit_all(archive, output.kind, output.index, output.requires_grad, output.view);
}
template <class A, MaybeConst<InputPlan> I>
void fields(A& archive, I& input) {
  visit_all(archive, input.argument, input.base);
}
template <class A, MaybeConst<WritePlan> W>
void fields(A& archive, W& write) {
  visit_all(archive, write.input, write.result, write.visible);
}
template <class A, MaybeConst<ChangePlan> C>
void fields(A& archive, C& change) {
  visit_all(archive,
            change.argument,
            change.geometry,
            change.visible,
            change.memory,
            change.starts_requiring_grad,
            change.touched,
            change.stops_requiring_grad,
            change.bytes);
}
template <class A, MaybeConst<AliasPlan> L>
void fields(A& archive, L& alias) {
  visit_all(archive, alias.first, alias.same_as, alias.offset);
}
template <class A, MaybeConst<OffsetPlan> O>
void fields(A& archive, O& place) {
  visit_all(archive, place.argument, place.offset);
}
template <class A, MaybeConst<ir::Device> D>
void fields(A& archive, D& device) {
  visit_all(archive, device.type, device.index);
}
template <class A, MaybeConst<TangentPlan> T>
void fields(A& archive, T& tangent) {
  visit_all(archive, tangent.sizes, tangent.strides, tangent.dtype, tangent.device);
}
template <class A, MaybeConst<ir::SymbolSource> S>
void fields(A& archive, S& source) {
  visit_all(archive, source.symbol, source.input, source.dimension, source.scale, source.shift);
}
template <class A, MaybeConst<SharedSave> S>
void fields(A& archive, S& shared) {
  visit_all(archive, shared.saved, shared.other);
}
template <class A, MaybeConst<ForwardBackwardPlan> H>
void fields(A& archive, H& plan) {
  visit_all(archive,
            plan.saved,
            plan.tangents,
            plan.symbols,
            plan.saved_sizes,
            plan.has_gradient,
            plan.saves_differentiated,
            plan.saved_on_input,
            plan.saved_on_result);
}
template <class A, MaybeConst<Plan> P>
void fields(A& archive, P& plan) {
  visit_all(archive,
            plan.arguments,
            plan.captured,
            plan.inputs,
            plan.outputs,
            plan.returned,
            plan.computed,
            plan.node_aliases,
            plan.tangents,
            plan.gradients,
            plan.reached_by,
            plan.backward_writes,
            plan.writes,
            plan.changes,
            plan.symbols,
            plan.aliases,
            plan.offsets,
            plan.requires_grad,
            plan.grad_mode_after,
            plan.grad_mode,
            plan.deterministic,
            plan.forward_backward);
}

template <class T>
void visit_list(Writer& out, const std::vector<T>& list) {
  out.integer(list.size());
  for (const T& item : list) {
    visit(out, item);
  }
}
template <class T>
void visit_list(Reader& in, std::vector<T>& list) {
  list.clear();
  for (std::size_t i = in.length(); i > 0; --i) {
    T item = {};
    visit(in, item);
    list.push_back(std::move(item));
  }
}

template <class T>
void visit_optional(Writer& out, const std::optional<T>& value) {
  out.integer(value ? 1 : 0);
  if (value) {
    visit(out, *value);
  }
}
template <class T>
void visit_optional(Reader& in, std::optional<T>& value) {
  value.reset();
  if (in.integer() != 0) {
    visit(in, value.emplace());
  }
}

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <class T>
void visit(Writer& out, const T& value) {
  if constexpr (kIsNumber<T>) {
    out.integer(static_cast<std::uint64_t>(value));
  } else if constexpr (std::is_same_v<T, ir::Graph>) {
    out.text(ir::print(value));
  } else if constexpr (std::is_same_v<T, ir::Expr>) {
    out.text(value.to_string());
  } else if constexpr (std::is_same_v<T, std::string>) {
    out.text(value);
  } else if constexpr (IsVector<T>::value) {
    visit_list(out, value);
  } else if constexpr (IsOptional<T>::value) {
    visit_optional(out, value);
  } else {
    fields(out, value);
  }
}

template <class T>
void visit(Reader& in, T& value) {
  if constexpr (kIsNumber<T>) {
    value = static_cast<T>(in.integer());
  } else if constexpr (std::is_same_v<T, ir::Graph>) {
    value = ir::parse(in.text());
  } else if constexpr (std::is_same_v<T, ir::Expr>) {
    value = ir::Expr::parse(in.text());
  } else if constexpr (std::is_same_v<T, std::string>) {
    value = in.text();
  } else if constexpr (IsVector<T>::value) {
    visit_list(in, value);
  } else if constexpr (IsOptional<T>::value) {
    visit_optional(in, value);
  } else {
    fields(in, value);
  }
}

}  // namespace

std::string to_bytes(const Plan& plan) {
  Writer out;
  out.header();
  visit(out, plan);
  return out.take();
}

Plan plan_from_bytes(std::string_view bytes) {
  Reader in(bytes);
  in.header();
  Plan plan;
  visit(in, plan);
  in.end();
  return plan;
}

}  // namespace kiln::autograd_dispatch
