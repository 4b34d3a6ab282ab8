#include "dynamic_trace.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "kiln/base/error.hpp"
#include "kiln/base/log.hpp"
#include "kiln/capture/replay.hpp"
#include "kiln/ir/generalize.hpp"
#include "kiln/ir/symbol_sources.hpp"
#include "kiln/ir/verify.hpp"
#include "resize_input.hpp"
#include "sample_sizes.hpp"

namespace kiln::exporter {
namespace {

constexpr std::int64_t kMaxElements = std::int64_t{1} << 22;  // Of one input of a sample.

// The values that symbols have in `example`, where an input's size is a line in one of them.
ir::Bindings hint_of(const DynamicShapes& shapes, const Tensors& example) {
  ir::Bindings hint;
  for (std::size_t i = 0; i < shapes.input_sizes.size(); ++i) {
    const std::vector<ir::Expr>& sizes = shapes.input_sizes[i];
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      const std::optional<ir::LinearForm> form = ir::linear_form(sizes[d]);
      const std::int64_t size = example[i].size(static_cast<std::int64_t>(d));
      if (form && (size - form->shift) % form->scale == 0) {
        hint.try_emplace(form->symbol, (size - form->shift) / form->scale);
      }
    }
  }
  return hint;
}

std::string text_of(const ir::Bindings& sizes) {
  std::string text;
  for (const auto& [name, size] : sizes) {
    text += (text.empty() ? "'" : ", '") + name + "' is " + std::to_string(size);
  }
  return text;
}

std::string text_of(const ir::Range& range) {
  const bool bounded = range.high < INT64_MAX - 1;  // PyTorch's infinity is one less.
  return "[" + std::to_string(range.low) + ", " +
         (bounded ? std::to_string(range.high) + "]" : "inf)");
}

class DynamicTracer {
 public:
  DynamicTracer(const TraceProgram& trace,
                const RunProgram& run,
                const ExportedProgram& fixed,
                const Tensors& example,
                const DynamicShapes& shapes)
      : trace_(trace), run_(run), fixed_(fixed), example_(example), shapes_(shapes) {}

  DynamicTrace run() {
    hint_ = hint_of(shapes_, example_);
    ir::Ranges free;
    for (const auto& [name, range] : shapes_.symbols) {
      if (hint_.contains(name) && range.high > range.low) {
        free[name] = range;
      }
    }
    if (free.empty()) {
      return {fixed_.graph, {}};
    }
    std::string reason;
    if (std::optional<ir::Graph> graph = attempt(free, &reason)) {
      return {*std::move(graph), std::move(remarks_)};
    }
    std::vector<std::string> reasons;
    if (free.size() > 1) {
      reason = keep_those_that_vary_alone(&free, &reasons);
      if (!free.empty()) {
        if (std::optional<ir::Graph> graph = attempt(free, &reason)) {
          remarks_.insert(remarks_.end(), reasons.begin(), reasons.end());
          return {*std::move(graph), std::move(remarks_)};
        }
      }
    }
    for (const auto& [name, range] : free) {
      reasons.push_back(fixed_text(name, reason));
    }
    return {fixed_.graph, std::move(reasons)};
  }

 private:
  [[nodiscard]] std::string fixed_text(const std::string& name, const std::string& reason) const {
    return "'" + name + "' is " + std::to_string(hint_.at(name)) + ": " + reason;
  }

  std::string keep_those_that_vary_alone(ir::Ranges* free, std::vector<std::string>* reasons) {
    std::string reason = "not together with other sizes that vary";
    for (auto symbol = free->begin(); symbol != free->end();) {
      std::string why;
      if (attempt({*symbol}, &why)) {
        ++symbol;
      } else {
        reasons->push_back(fixed_text(symbol->first, why));
        symbol = free->erase(symbol);
      }
    }
    return reason;
  }

  [[nodiscard]] ir::Bindings completed(ir::Bindings sizes) const {
    sizes.insert(hint_.begin(), hint_.end());
    return sizes;
  }

  [[nodiscard]] std::vector<std::int64_t> sizes_of(std::size_t input,
                                                   const ir::Bindings& all) const {
    std::vector<std::int64_t> sizes;
    const std::vector<ir::Expr>& wanted = shapes_.input_sizes[input];
    for (std::size_t d = 0; d < wanted.size(); ++d) {
      const bool is_known = std::ranges::all_of(
          wanted[d].symbols(), [&](const std::string& name) { return all.contains(name); });
      sizes.push_back(is_known ? wanted[d].evaluate(all)
                               : example_[input].size(static_cast<std::int64_t>(d)));
    }
    return sizes;
  }

  [[nodiscard]] bool is_affordable(const ir::Bindings& sizes) const {
    const ir::Bindings all = completed(sizes);
    for (std::size_t i = 0; i < shapes_.input_sizes.size(); ++i) {
      std::int64_t elements = 1;
      for (const std::int64_t size : sizes_of(i, all)) {
        if (size < 0 || (size > 0 && elements > kMaxElements / size)) {
          return false;
        }
        elements *= size;
      }
    }
    return true;
  }

  [[nodiscard]] Tensors inputs_at(const ir::Bindings& sizes) const {
    const ir::Bindings all = completed(sizes);
    Tensors inputs = example_;
    for (std::size_t i = 0; i < shapes_.input_sizes.size(); ++i) {
      if (!shapes_.input_sizes[i].empty()) {
        inputs[i] = resize_input(example_[i], sizes_of(i, all));
      }
    }
    return inputs;
  }

  // The trace at `sizes`, or nothing and why there is none.
  std::optional<ir::Graph> trace_at(const ir::Bindings& sizes, std::string* reason) const {
    try {
      ExportedProgram traced = trace_(inputs_at(sizes));
      if (!has_same_weights(traced)) {
        *reason = "where " + text_of(sizes) + ", the program has other constants";
        return std::nullopt;
      }
      return std::move(traced.graph);
    } catch (const std::exception& error) {
      const std::string message = error.what();
      *reason = "where " + text_of(sizes) + ", " + message.substr(0, message.find('\n'));
      return std::nullopt;
    }
  }

  [[nodiscard]] bool has_same_weights(const ExportedProgram& traced) const {
    return std::ranges::equal(fixed_.weights, traced.weights, [](const auto& a, const auto& b) {
      return a.first == b.first &&
             (a.second.is_same(b.second) ||
              (a.second.sizes() == b.second.sizes() && a.second.dtype() == b.second.dtype() &&
               at::equal(a.second, b.second)));
    });
  }

  std::optional<ir::Graph> attempt(const ir::Ranges& free, std::string* reason) {
    remarks_.clear();
    ir::Bindings hint;
    for (const auto& [name, range] : free) {
      hint[name] = hint_.at(name);
    }
    const std::vector<ir::Bindings> samples =
        sample_sizes(free, hint, [&](const ir::Bindings& sizes) { return is_affordable(sizes); });

    // Every fourth sample only confirms.
    std::vector<ir::Bindings> used;
    std::vector<ir::Graph> traces;
    std::vector<std::pair<ir::Bindings, ir::Graph>> held_out;
    std::vector<std::pair<ir::Bindings, std::string>> failed;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      std::string why;
      if (std::optional<ir::Graph> graph = trace_at(samples[i], &why)) {
        if (i % 4 == 3) {
          held_out.emplace_back(samples[i], *std::move(graph));
        } else {
          used.push_back(samples[i]);
          traces.push_back(*std::move(graph));
        }
      } else {
        failed.emplace_back(samples[i], std::move(why));
      }
    }
    if (used.empty()) {
      *reason = failed.empty() ? "there are too few sizes in its range" : failed.front().second;
      return std::nullopt;
    }
    ir::ExprFitter fitter(used);
    offer_known(fitter, free);
    auto result = ir::generalize(traces, fitter);
    if (const auto* difference = std::get_if<ir::TraceDifference>(&result)) {
      *reason = difference->what;
      if (difference->trace) {
        *reason += branch_text(traces.front(), used.front(), used[*difference->trace]);
      }
      return std::nullopt;
    }
    auto& graph = std::get<ir::Graph>(result);
    for (const auto& [sizes, trace] : held_out) {
      if (auto difference = ir::find_difference(graph, sizes, trace)) {
        *reason = "where " + text_of(sizes) + ", " + *difference;
        return std::nullopt;
      }
    }
    graph.symbols() = free;
    for (auto& [name, range] : graph.symbols()) {
      range = narrowed(graph, name, range, used);
    }
    if (!check_corner(graph, reason)) {
      return std::nullopt;
    }
    for (const auto& [sizes, why] : failed) {
      const bool is_inside = std::ranges::all_of(sizes, [&](const auto& entry) {
        const ir::Range& range = graph.symbols().find(entry.first)->second;
        return entry.second >= range.low && entry.second <= range.high;
      });
      if (is_inside) {
        *reason = why;
        return std::nullopt;
      }
    }
    ir::verify(graph);
    return std::move(graph);
  }

  // Between which sizes the program turns to another path than that of `trace`, at `here`.
  [[nodiscard]] std::string branch_text(const ir::Graph& trace,
                                        ir::Bindings here,
                                        ir::Bindings there) const {
    const auto middle_of = [&] {
      ir::Bindings middle = here;
      for (auto& [name, size] : middle) {
        size += (there.at(name) - size) / 2;
      }
      return middle;
    };
    for (ir::Bindings middle = middle_of(); middle != here; middle = middle_of()) {
      std::string ignored;
      const std::optional<ir::Graph> between = trace_at(middle, &ignored);
      (between && ir::has_same_structure(trace, *between) ? here : there) = middle;
    }
    return " (where " + text_of(here) + ", and where " + text_of(there) + ")";
  }

  void offer_known(ir::ExprFitter& fitter, const ir::Ranges& free) const {
    const auto offer = [&](const ir::Expr& expr) {
      const ir::Expr own = expr.substitute([&](const std::string& name) {
        const auto value = hint_.find(name);
        return free.contains(name) || value == hint_.end() ? ir::Expr::symbol(name)
                                                           : ir::Expr(value->second);
      });
      if (std::ranges::all_of(own.symbols(),
                              [&](const std::string& name) { return free.contains(name); })) {
        fitter.offer(own);
      }
    };
    for (const std::vector<ir::Expr>& sizes : shapes_.input_sizes) {
      std::ranges::for_each(sizes, offer);
    }
    std::ranges::for_each(shapes_.known, offer);
  }

  // Whether the program does at `sizes` what the graph says.
  bool holds_at(const ir::Graph& graph, const ir::Bindings& sizes, std::string* reason) const {
    const std::optional<ir::Graph> trace = trace_at(sizes, reason);
    if (!trace) {
      return false;
    }
    const std::optional<std::string> difference = ir::find_difference(graph, sizes, *trace);
    if (difference && !computes_the_same(graph, sizes)) {
      *reason = "where " + text_of(sizes) + ", " + *difference;
      return false;
    }
    return true;
  }

  [[nodiscard]] bool computes_the_same(const ir::Graph& graph, const ir::Bindings& sizes) const {
    const bool is_pure =
        std::ranges::none_of(graph.nodes(),
                             [](const ir::Node& node) { return node.random || node.effectful; }) &&
        std::ranges::all_of(graph.outputs(), [](const ir::Output& output) {
          return output.kind == ir::OutputKind::kUser;
        });
    if (!is_pure) {
      return false;
    }
    try {
      const c10::AutoGradMode no_grad(false);
      Tensors inputs = inputs_at(sizes);
      for (at::Tensor& input : inputs) {
        input = input.is_floating_point() ? at::randn_like(input) : input;
      }
      const Tensors expected = run_(inputs);
      const Tensors found = capture::Interpreter(graph).run(fixed_.graph_inputs(inputs));
      return std::ranges::equal(expected, found, is_close);
    } catch (const std::exception& error) {
      KILN_LOG(kDebug, "export", "where " << text_of(sizes) << ", " << error.what());
      return false;
    }
  }

  static bool is_close(const at::Tensor& a, const at::Tensor& b) {
    if (a.sizes() != b.sizes() || a.dtype() != b.dtype()) {
      return false;
    }
    const bool is_half = a.scalar_type() == at::kHalf || a.scalar_type() == at::kBFloat16;
    return at::allclose(a, b, is_half ? 2e-2 : 1e-4, is_half ? 1e-2 : 1e-5, /*equal_nan=*/true);
  }

  // The part of a symbol's range, from the sizes that were used outwards, where the graph holds.
  ir::Range narrowed(const ir::Graph& graph,
                     const std::string& name,
                     const ir::Range& range,
                     const std::vector<ir::Bindings>& used) {
    const auto by_size = [&](const ir::Bindings& a, const ir::Bindings& b) {
      return a.at(name) < b.at(name);
    };
    const auto [least, largest] = std::ranges::minmax_element(used, by_size);
    ir::Range result = range;
    std::string reason;
    result.low = end_of_range(graph, name, *least, range.low, &reason);
    if (result.low < 1) {  // A program that takes no rows may still treat one row in its own way.
      ir::Bindings one = *least;
      one[name] = 1;
      result.low = holds_at(graph, one, &reason) ? result.low : 2;
    }
    result.high = end_of_range(graph, name, *largest, range.high, &reason);
    if (result != range) {
      remarks_.push_back("'" + name + "' in " + text_of(result) + ", not " + text_of(range) + ": " +
                         reason);
    }
    return result;
  }

  // Sizes of 1 are where programs differ, and two of them together may where each alone does not.
  bool check_corner(ir::Graph& graph, std::string* reason) {
    const auto holds_at_lows = [&] {
      ir::Bindings lows;
      for (const auto& [name, range] : graph.symbols()) {
        lows[name] = range.low;
      }
      return holds_at(graph, lows, reason);
    };
    for (auto& [name, range] : graph.symbols()) {
      if (holds_at_lows()) {
        return true;
      }
      if (range.low < 2 && range.high >= 2) {
        remarks_.push_back("'" + name + "' in " + text_of(ir::Range{2, range.high}) + ", not " +
                           text_of(range) + ": " + *reason);
        range.low = 2;
      }
    }
    return holds_at_lows();
  }

  // Looks at the end itself first; if the graph does not hold there, by bisection between there and
  // `inside`, where it does. An end that is too large to be traced is believed.
  std::int64_t end_of_range(const ir::Graph& graph,
                            const std::string& name,
                            const ir::Bindings& inside,
                            std::int64_t end,
                            std::string* reason) const {
    const auto at = [&](std::int64_t size) {
      ir::Bindings sizes = inside;
      sizes[name] = size;
      return sizes;
    };
    std::int64_t good = inside.at(name);
    if (good == end || !is_affordable(at(end)) || holds_at(graph, at(end), reason)) {
      return end;
    }
    std::int64_t bad = end;
    while (std::abs(good - bad) > 1) {
      const std::int64_t middle = good + (bad - good) / 2;
      (holds_at(graph, at(middle), reason) ? good : bad) = middle;
    }
    return good;
  }

  const TraceProgram& trace_;
  const RunProgram& run_;
  const ExportedProgram& fixed_;
  const Tensors& example_;
  const DynamicShapes& shapes_;
  ir::Bindings hint_;
  std::vector<std::string> remarks_;
};

}  // namespace

DynamicTrace trace_dynamic(const TraceProgram& trace,
                           const RunProgram& run,
                           const ExportedProgram& fixed,
                           const Tensors& example,
                           const DynamicShapes& shapes) {
  DynamicTrace result = DynamicTracer(trace, run, fixed, example, shapes).run();
  for (const std::string& remark : result.remarks) {
    KILN_LOG(kDebug, "export", remark);
  }
  return result;
}

}  // namespace kiln::exporter
