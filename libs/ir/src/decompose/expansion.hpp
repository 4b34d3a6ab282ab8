// What an expansion is written in: terms, which are values of the graph under construction.
//
// Every operator and function of terms adds one core operator to the graph, with the type and the
// strides that libtorch would give its result.

#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "../view_writer.hpp"
#include "kiln/ir/graph.hpp"

namespace kiln::ir {

class Expansion;

/// A tensor in an expansion.
struct Term {
  Expansion* expansion = nullptr;
  ValueId id = {};

  [[nodiscard]] const TensorMeta& meta() const;
  [[nodiscard]] std::size_t rank() const { return meta().sizes.size(); }
};

/// One call that is being expanded.
class Expansion {
 public:
  /// `node` has operands of `graph`, and `results` as they were recorded.
  Expansion(Graph& graph, const Node& node, std::vector<std::optional<TensorMeta>> results);

  // Arguments, by position; one beyond the end is absent. Those that read a number throw `Error`
  // with `kUnsupported` where it is symbolic: then the call stays whole.
  [[nodiscard]] bool has(std::size_t i) const;
  /// A tensor, in single precision where it is in half.
  [[nodiscard]] Term tensor(std::size_t i);
  /// The same, in the type of the first result where it has integers and the result has none.
  [[nodiscard]] Term promoted(std::size_t i);
  /// A tensor as it is.
  [[nodiscard]] Term raw(std::size_t i);
  [[nodiscard]] std::vector<Term> tensors(std::size_t i);
  [[nodiscard]] double number(std::size_t i, double absent = 0) const;
  [[nodiscard]] Expr integer(std::size_t i, Expr absent = 0) const;
  [[nodiscard]] std::vector<Expr> integers(std::size_t i) const;
  [[nodiscard]] bool flag(std::size_t i, bool absent = false) const;
  [[nodiscard]] std::string_view text(std::size_t i) const;
  [[nodiscard]] const Argument& argument(std::size_t i) const { return node_.arguments[i]; }
  /// A dimension of `rank`, counted from the front.
  [[nodiscard]] std::size_t dimension(std::size_t i,
                                      std::size_t rank,
                                      std::int64_t absent = 0) const;
  /// A list of them; all if it is absent or empty.
  [[nodiscard]] std::vector<std::size_t> dimensions(std::size_t i, std::size_t rank) const;

  /// The number that `number` is, if it is known.
  [[nodiscard]] std::int64_t constant(const Expr& number) const;
  [[noreturn]] void refuse_size(const std::string& number) const;

  // What was recorded of the results.
  [[nodiscard]] std::size_t result_count() const { return results_.size(); }
  [[nodiscard]] bool wants(std::size_t i) const { return results_[i].has_value(); }
  [[nodiscard]] const TensorMeta& result(std::size_t i) const { return *results_[i]; }

  // New nodes.
  /// An elementwise operator: `arguments` hold tensors and numbers. Its type is the promoted one if
  /// it is not given.
  Term pointwise(std::string target,
                 std::vector<Argument> arguments,
                 std::optional<DType> dtype = {});
  /// An operator with a result of its own, whose metadata is known.
  Term compute(std::string target, std::vector<Argument> arguments, TensorMeta meta);
  /// A view of its first argument, whose metadata is known.
  Term view(std::string target, std::vector<Argument> arguments, TensorMeta meta);
  Term full(std::vector<Expr> sizes, double value, DType dtype, Device device);
  /// The same of a number that was an argument, with all the digits of an integer.
  Term full_of(std::vector<Expr> sizes, Argument value, DType dtype, Device device);
  Term cast(Term term, DType dtype);
  /// `term` with type and strides of `meta`, which must be dense.
  Term like(Term term, const TensorMeta& meta);

  [[nodiscard]] Graph& graph() { return graph_; }

 private:
  Graph& graph_;
  const Node& node_;
  std::vector<std::optional<TensorMeta>> results_;
  ViewWriter writer_;
};

// Arithmetic. Numbers are literals of the operators that take them.
Term operator+(Term a, Term b);
Term operator+(Term a, double b);
Term operator+(double a, Term b);
Term operator-(Term a, Term b);
Term operator-(Term a, double b);
Term operator-(double a, Term b);
Term operator*(Term a, Term b);
Term operator*(Term a, double b);
Term operator*(double a, Term b);
Term operator/(Term a, Term b);
Term operator/(Term a, double b);
Term operator-(Term a);

// Comparisons, which give truth values, and their connectives.
Term operator<(Term a, double b);
Term operator<=(Term a, double b);
Term operator>(Term a, double b);
Term operator>=(Term a, double b);
Term operator<(Term a, Term b);
Term operator<=(Term a, Term b);
Term operator>=(Term a, Term b);
Term operator==(Term a, double b);
Term operator==(Term a, Term b);
Term operator!=(Term a, double b);
Term operator&&(Term a, Term b);
Term operator||(Term a, Term b);
Term operator!(Term a);

/// The elementwise function `name` of core ATen: "exp", "log1p", "sigmoid", …
Term apply(std::string_view name, Term a);
Term exp(Term a);
Term log(Term a);
Term log1p(Term a);
Term sigmoid(Term a);
Term tanh(Term a);
Term abs(Term a);
Term sign(Term a);
Term sqrt(Term a);
Term rsqrt(Term a);
Term is_nan(Term a);
Term is_infinite(Term a);
Term maximum(Term a, Term b);
Term minimum(Term a, Term b);
Term power(Term a, double exponent);
/// Either bound may be absent.
Term clamp(Term a, std::optional<double> low, std::optional<double> high);
Term where(Term condition, Term yes, Term no);
Term where(Term condition, Term yes, double no);
Term where(Term condition, double yes, Term no);

// Reductions over `dimensions`, which stay as 1 if `keep`.
using Dimensions = std::span<const std::size_t>;
/// What a reduction of `a` is: dense, in the order of `a`.
[[nodiscard]] TensorMeta reduced_meta(const Term& a, Dimensions dimensions, bool keep);
Term sum(Term a, Dimensions dimensions, bool keep);
Term mean(Term a, Dimensions dimensions, bool keep);
Term amax(Term a, Dimensions dimensions, bool keep);
Term amin(Term a, Dimensions dimensions, bool keep);
Term sum_all(Term a);
Term mean_all(Term a);

// Views.
Term reshape(Term a, std::vector<Expr> sizes);
Term permute(Term a, Dimensions order);
Term unsqueeze(Term a, std::size_t dimension);
Term squeeze(Term a, std::size_t dimension);
Term slice(Term a, std::size_t dimension, Expr start, Expr end);

/// The parts one after another.
Term cat(std::span<const Term> parts, std::size_t dimension);

/// All dimensions of `a`.
[[nodiscard]] std::vector<std::size_t> all_dimensions(const Term& a);
/// The number of elements as a number; nothing if it has symbols.
[[nodiscard]] std::optional<double> count(const Term& a);

/// The results of an expansion; nothing if the table does not cover the arguments.
using Expanded = std::optional<std::vector<Term>>;

/// The expansion of an operator with one result.
inline Expanded one(Term term) {
  return std::vector<Term>{term};
}

struct Decomposition {
  std::function<Expanded(Expansion&)> expand;
  /// Also for integers; the others are formulas of real numbers.
  bool any_type = false;
};
using Decompositions = std::unordered_map<std::string_view, Decomposition>;

void add_arithmetic_decompositions(Decompositions& table);
void add_activation_decompositions(Decompositions& table);
void add_activation_gradient_decompositions(Decompositions& table);
void add_loss_decompositions(Decompositions& table);
void add_reduction_decompositions(Decompositions& table);
void add_normalization_decompositions(Decompositions& table);
void add_structure_decompositions(Decompositions& table);

}  // namespace kiln::ir
