#include "loop/loop_nest.hpp"

#include <algorithm>

namespace kiln::codegen {

using ir::Expr;

std::string_view to_string(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum: return "sum";
    case Reduction::kProduct: return "product";
    case Reduction::kMaximum: return "maximum";
    case Reduction::kMinimum: return "minimum";
    case Reduction::kAny: return "any";
    case Reduction::kAll: return "all";
  }
  return "";
}

bool LoopNest::has_epilogue() const {
  return std::ranges::any_of(
      reduces, [](const Reduce& reduce) { return reduce.result != IterationDomain::kRow; });
}

std::vector<LoopNest::Scratch> LoopNest::scratch() const {
  std::vector<Scratch> scratch;
  for (const Reduce& reduce : reduces) {
    if (reduce.result != IterationDomain::kRow) {
      const Expr row =
          reduce.result == IterationDomain::kColumn ? extents[kMiddle] * extents[kInner] : Expr(1);
      scratch.push_back({reduce.dtype, row * Expr(reduction_splits)});
    }
  }
  return scratch;
}

std::optional<std::int64_t> repetition_of(const Index& address) {
  std::optional<std::int64_t> times;
  for (const Index::Term& term : address.terms()) {
    const Atom& atom = *term.atom;
    if (atom.kind == Atom::Kind::kComputed) {
      return std::nullopt;
    }
    if (!Index::of(term.atom).mentions(kInner)) {
      continue;
    }
    const std::optional<std::int64_t> divisor = atom.divisor.constant();
    if (times || atom.kind != Atom::Kind::kQuotient || !(term.factor == Expr(1)) ||
        !(atom.operand == Index::variable(kInner)) || (divisor != 2 && divisor != 4)) {
      return std::nullopt;
    }
    times = divisor;
  }
  return times;
}

}  // namespace kiln::codegen
