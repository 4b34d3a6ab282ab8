#include "kiln/ir/generalize.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "argument.hpp"
#include "kiln/base/error.hpp"
#include "kiln/ir/print.hpp"
#include "shape_rules.hpp"
#include "trace_structure.hpp"

namespace kiln::ir {
namespace {

using Integers = std::vector<std::int64_t>;

std::optional<double> double_of(const Argument& argument) {
  const auto* real = std::get_if<double>(&argument);
  return real != nullptr ? std::optional(*real) : std::nullopt;
}

bool has_same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

std::string joined(std::span<const std::int64_t> numbers) {
  std::string text;
  for (const std::int64_t number : numbers) {
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  }
  return text;
}

bool is_empty(const TensorMeta& meta) {
  return std::ranges::any_of(meta.sizes, [](const Expr& size) { return size == Expr(0); });
}

// Whether a stride decides where elements are.
bool stride_matters(const TensorMeta& meta, std::size_t dimension) {
  return !is_empty(meta) && !(meta.sizes[dimension] == Expr(1));
}

class Generalizer {
 public:
  Generalizer(std::vector<const Graph*> traces, ExprFitter& fitter, bool is_nested = false)
      : traces_(std::move(traces)),
        fitter_(fitter),
        graph_(*traces_.front()),
        is_nested_(is_nested) {}

  Graph run() {
    for (const Input& input : graph_.inputs()) {
      value(input.value, "input '" + input.name + "'");
    }
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      node(i);
    }
    return std::move(graph_);
  }

 private:
  void node(std::size_t position) {
    const std::string place = print_place(graph_, position);
    Node& made = graph_.node(NodeId(static_cast<std::uint32_t>(position)));
    for (std::size_t a = 0; a < made.arguments.size(); ++a) {
      std::size_t index = 0;
      for_each_integer(made.arguments[a], [&](Expr& integer) {
        const auto at = [&](const Graph& trace) {
          std::size_t other = 0;
          Expr found;
          for_each_integer(trace.nodes()[position].arguments[a], [&](const Expr& candidate) {
            found = other++ == index ? candidate : found;
          });
          return found;
        };
        integer = fitted(at, place + ", the argument " + argument_name(made, a));
        ++index;
      });
      if (const auto* body = std::get_if<SubgraphRef>(&made.arguments[a])) {
        subgraph(position, a, body->index);
      } else if (double_of(made.arguments[a])) {
        made.arguments[a] = real_number(position, a);
      }
    }
    offer_result_sizes(graph_, made, fitter_);
    for (const ValueId result : made.results) {
      if (result.valid()) {
        value(result, place);
      }
    }
  }

  Argument real_number(std::size_t position, std::size_t argument) {
    std::vector<double> values;
    for (const Graph* trace : traces_) {
      values.push_back(*double_of(trace->nodes()[position].arguments[argument]));
    }
    const auto is_first = [&](double value) { return has_same_bits(value, values.front()); };
    if (std::ranges::all_of(values, is_first)) {
      return values.front();
    }
    if (std::optional<RealExpr> found = fitter_.fit(values)) {
      return argument_of(*std::move(found));
    }
    const Node& node = graph_.nodes()[position];
    const auto other = std::ranges::find_if_not(values, is_first);
    TraceDifference none{.what = print_place(graph_, position) + ": the argument " +
                                 argument_name(node, argument) + " is " +
                                 print_argument(graph_, values.front()) + ", and " +
                                 print_argument(graph_, *other) + " at other sizes",
                         .undecided = fitter_.undecided()};
    // A number that comes back is chosen by the size, rather than computed from it.
    if (std::ranges::count_if(values, is_first) > 1 && !is_nested_) {
      none.trace = static_cast<std::size_t>(other - values.begin());
      none.number = {.node = position, .argument = argument};
    }
    throw none;
  }

  void subgraph(std::size_t position, std::size_t argument, std::uint32_t index) {
    std::vector<const Graph*> bodies;
    for (const Graph* trace : traces_) {
      const auto& body = std::get<SubgraphRef>(trace->nodes()[position].arguments[argument]);
      bodies.push_back(&trace->subgraphs()[body.index]);
    }
    graph_.subgraphs()[index] = Generalizer(std::move(bodies), fitter_, true).run();
  }

  void value(ValueId id, const std::string& place) {
    Value& made = graph_.value(id);
    if (!made.is_tensor()) {
      Expr& expr = std::get<SymIntMeta>(made.meta).expr;
      expr = fitted(
          [&](const Graph& trace) { return std::get<SymIntMeta>(trace.value(id).meta).expr; },
          place);
      return;
    }
    TensorMeta& meta = made.tensor();
    for (std::size_t d = 0; d < meta.sizes.size(); ++d) {
      meta.sizes[d] = fitted([&](const Graph& trace) { return trace.tensor(id).sizes[d]; },
                             place + ", dimension " + std::to_string(d));
      fitter_.offer(meta.sizes[d]);
    }
    if (!lay_out_densely(id, meta)) {
      for (std::size_t d = 0; d < meta.sizes.size(); ++d) {
        if (std::optional<Expr> stride = stride_of_viewed(id, d)) {
          meta.strides[d] = *std::move(stride);
          continue;
        }
        meta.strides[d] =
            fitted([&](const Graph& trace) { return trace.tensor(id).strides[d]; },
                   place + ", the stride of dimension " + std::to_string(d),
                   [&](const Graph& trace) { return stride_matters(trace.tensor(id), d); });
      }
    }
    meta.offset = fitted([&](const Graph& trace) { return trace.tensor(id).offset; },
                         place + ", its offset",
                         [&](const Graph& trace) { return !is_empty(trace.tensor(id)); });
  }

  // Most strides of a view are those of the tensor that it is a view of. They are products of more
  // factors than are looked for where the tensor has many dimensions.
  [[nodiscard]] std::optional<Expr> stride_of_viewed(ValueId id, std::size_t d) const {
    const NodeId producer = graph_.value(id).producer;
    if (!producer.valid()) {
      return std::nullopt;
    }
    for (const Argument& argument : graph_.node(producer).arguments) {
      const auto* viewed = std::get_if<ValueId>(&argument);
      if (viewed == nullptr || !graph_.value(*viewed).is_tensor() ||
          graph_.tensor(*viewed).storage != graph_.tensor(id).storage) {
        continue;
      }
      for (const Expr& stride : graph_.tensor(*viewed).strides) {
        if (is_stride(id, d, stride)) {
          return stride;
        }
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] bool is_stride(ValueId id, std::size_t d, const Expr& stride) const {
    for (std::size_t t = 0; t < traces_.size(); ++t) {
      const TensorMeta& traced = traces_[t]->tensor(id);
      if (stride_matters(traced, d) &&
          stride.evaluate(fitter_.samples()[t]) != traced.strides[d].constant()) {
        return false;
      }
    }
    return true;
  }

  // Strides that are products of the sizes of inner dimensions, in the order of the first trace.
  bool lay_out_densely(ValueId id, TensorMeta& meta) {
    std::vector<std::size_t> order(meta.sizes.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const auto& strides = traces_.front()->tensor(id).strides;
      return *strides[a].constant() > *strides[b].constant();
    });
    std::vector<Expr> strides(meta.sizes.size());
    Expr next = 1;
    for (auto d = order.rbegin(); d != order.rend(); ++d) {
      strides[*d] = next;
      next = next * meta.sizes[*d];
    }
    for (std::size_t d = 0; d < strides.size(); ++d) {
      if (!is_stride(id, d, strides[d])) {
        return false;
      }
    }
    meta.strides = std::move(strides);
    return true;
  }

  template <class At>
  Expr fitted(const At& at, const std::string& what) {
    return fitted(at, what, [](const Graph&) { return true; });
  }

  template <class At, class Matters>
  Expr fitted(const At& at, const std::string& what, const Matters& matters) {
    Integers values;
    std::vector<bool> which;
    for (const Graph* trace : traces_) {
      const std::optional<std::int64_t> value = at(*trace).constant();
      ensure(value.has_value(), "a trace has sizes that are numbers");
      values.push_back(*value);
      which.push_back(matters(*trace));
    }
    if (std::optional<Expr> found = fitter_.fit(values, which)) {
      return *std::move(found);
    }
    throw TraceDifference{.what = what + ": no expression of the symbols gives " + joined(values)};
  }

  std::vector<const Graph*> traces_;
  ExprFitter& fitter_;
  Graph graph_;
  bool is_nested_;
};

class Comparison {
 public:
  explicit Comparison(const Bindings& sample) : sample_(sample) {}

  // Of numbers that are no integers.
  [[nodiscard]] std::optional<SampleDifference> between_reals(const Graph& general,
                                                              const Graph& trace) const {
    for (std::size_t i = 0; i < general.nodes().size(); ++i) {
      const Node& node = general.nodes()[i];
      for (std::size_t a = 0; a < node.arguments.size(); ++a) {
        if (!agrees_in_reals(node.arguments[a], trace.nodes()[i].arguments[a])) {
          return SampleDifference{.what = other_argument(general, i, a),
                                  .of_real = true,
                                  .of_constant = double_of(node.arguments[a]).has_value()};
        }
      }
    }
    for (std::size_t i = 0; i < general.subgraphs().size(); ++i) {
      if (auto within = between_reals(general.subgraphs()[i], trace.subgraphs()[i])) {
        return within;
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<SampleDifference> between(const Graph& general,
                                                        const Graph& trace) const {
    for (const Input& input : general.inputs()) {
      if (!agrees(general.value(input.value), trace.value(input.value))) {
        return SampleDifference{"input '" + input.name + "' has another geometry"};
      }
    }
    for (std::size_t i = 0; i < general.nodes().size(); ++i) {
      const Node& node = general.nodes()[i];
      for (std::size_t a = 0; a < node.arguments.size(); ++a) {
        if (!agrees(node.arguments[a], trace.nodes()[i].arguments[a])) {
          return SampleDifference{other_argument(general, i, a)};
        }
        if (const auto* body = std::get_if<SubgraphRef>(&node.arguments[a])) {
          const auto& traced = std::get<SubgraphRef>(trace.nodes()[i].arguments[a]);
          if (auto within =
                  between(general.subgraphs()[body->index], trace.subgraphs()[traced.index])) {
            return SampleDifference{print_place(general, i) + ": " + within->what};
          }
        }
      }
      for (const ValueId result : node.results) {
        if (result.valid() && !agrees(general.value(result), trace.value(result))) {
          return SampleDifference{print_place(general, i) +
                                  ": its result has another geometry than at other sizes"};
        }
      }
    }
    return std::nullopt;
  }

 private:
  static std::string other_argument(const Graph& general, std::size_t node, std::size_t argument) {
    return print_place(general, node) + ": the argument " +
           argument_name(general.nodes()[node], argument) + " is another than at other sizes";
  }

  [[nodiscard]] bool agrees(const Expr& general, const Expr& traced) const {
    return general.evaluate(sample_) == traced.constant();
  }

  [[nodiscard]] bool agrees_in_reals(const Argument& general, const Argument& traced) const {
    const std::optional<double> wanted = double_of(traced);
    if (!wanted) {
      return true;
    }
    const auto* varying = std::get_if<RealExpr>(&general);
    return has_same_bits(varying != nullptr ? varying->evaluate(sample_) : *double_of(general),
                         *wanted);
  }

  [[nodiscard]] bool agrees(const Argument& general, const Argument& traced) const {
    std::vector<const Expr*> wanted;
    for_each_integer(traced, [&](const Expr& integer) { wanted.push_back(&integer); });
    std::size_t next = 0;
    bool same = true;
    for_each_integer(general,
                     [&](const Expr& integer) { same = same && agrees(integer, *wanted[next++]); });
    return same;
  }

  [[nodiscard]] bool agrees(const Value& general, const Value& traced) const {
    if (!general.is_tensor()) {
      return agrees(std::get<SymIntMeta>(general.meta).expr,
                    std::get<SymIntMeta>(traced.meta).expr);
    }
    const TensorMeta& meta = general.tensor();
    const TensorMeta& wanted = traced.tensor();
    for (std::size_t d = 0; d < meta.sizes.size(); ++d) {
      if (!agrees(meta.sizes[d], wanted.sizes[d]) ||
          (stride_matters(wanted, d) && !agrees(meta.strides[d], wanted.strides[d]))) {
        return false;
      }
    }
    return is_empty(wanted) || agrees(meta.offset, wanted.offset);
  }

  const Bindings& sample_;
};

}  // namespace

bool has_same_structure(const Graph& a, const Graph& b) {
  return !structural_difference(a, b);
}

bool is_on_path_of(const Graph& first, const TraceDifference& difference, const Graph& trace) {
  if (!has_same_structure(first, trace)) {
    return false;
  }
  if (!difference.number) {
    return true;
  }
  const auto [node, argument] = *difference.number;
  return identical(first.nodes()[node].arguments[argument],
                   trace.nodes()[node].arguments[argument]);
}

std::variant<Graph, TraceDifference> generalize(std::span<const Graph> traces, ExprFitter& fitter) {
  ensure(traces.size() == fitter.samples().size(), "one trace for each sample");
  std::vector<const Graph*> pointers;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    if (auto difference = structural_difference(traces.front(), traces[i])) {
      return TraceDifference{.trace = i, .what = *std::move(difference)};
    }
    pointers.push_back(&traces[i]);
  }
  try {
    return Generalizer(std::move(pointers), fitter).run();
  } catch (TraceDifference& none) {
    return std::move(none);
  }
}

std::optional<SampleDifference> find_difference(const Graph& general,
                                                const Bindings& sample,
                                                const Graph& trace) {
  if (auto difference = structural_difference(general, trace)) {
    return SampleDifference{*std::move(difference)};
  }
  try {
    const Comparison comparison(sample);
    const std::optional<SampleDifference> of_real = comparison.between_reals(general, trace);
    return of_real ? of_real : comparison.between(general, trace);
  } catch (const Error& error) {
    return SampleDifference{std::string("a size cannot be computed: ") + error.what()};
  }
}

}  // namespace kiln::ir
