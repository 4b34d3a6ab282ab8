#include "dynamic_trace.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "kiln/base/log.hpp"
#include "kiln/ir/generalize.hpp"
#include "kiln/ir/verify.hpp"
#include "sample_sizes.hpp"
#include "sampled_program.hpp"
#include "size_text.hpp"
#include "valid_ranges.hpp"

namespace kiln::exporter {
namespace {

class DynamicTracer {
 public:
  DynamicTracer(const SampledProgram& program,
                const ExportedProgram& fixed,
                const DynamicShapes& shapes)
      : program_(program), fixed_(fixed), shapes_(shapes) {}

  DynamicTrace run() {
    ir::Ranges free;
    for (const auto& [name, range] : shapes_.symbols) {
      if (program_.hint().contains(name) && range.high > range.low) {
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
    return "'" + name + "' is " + std::to_string(program_.hint().at(name)) + ": " + reason;
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

  std::optional<ir::Graph> attempt(const ir::Ranges& free, std::string* reason) {
    remarks_.clear();
    ir::Bindings hint;
    for (const auto& [name, range] : free) {
      hint[name] = program_.hint().at(name);
    }
    const std::vector<ir::Bindings> samples = sample_sizes(
        free, hint, [&](const ir::Bindings& sizes) { return program_.is_affordable(sizes); });

    // Every fourth sample only confirms.
    std::vector<ir::Bindings> used;
    std::vector<ir::Graph> traces;
    std::vector<std::pair<ir::Bindings, ir::Graph>> held_out;
    std::vector<std::pair<ir::Bindings, std::string>> failed;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      std::string why;
      if (std::optional<ir::Graph> graph = program_.trace_at(samples[i], &why)) {
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
    if (auto nowhere = narrow_ranges(program_, used, graph, &remarks_)) {
      *reason = *std::move(nowhere);
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
      const std::optional<ir::Graph> between = program_.trace_at(middle, &ignored);
      (between && ir::has_same_structure(trace, *between) ? here : there) = middle;
    }
    return " (where " + text_of(here) + ", and where " + text_of(there) + ")";
  }

  void offer_known(ir::ExprFitter& fitter, const ir::Ranges& free) const {
    const auto offer = [&](const ir::Expr& expr) {
      const ir::Expr own = expr.substitute([&](const std::string& name) {
        const auto value = program_.hint().find(name);
        return free.contains(name) || value == program_.hint().end() ? ir::Expr::symbol(name)
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

  const SampledProgram& program_;
  const ExportedProgram& fixed_;
  const DynamicShapes& shapes_;
  std::vector<std::string> remarks_;
};

}  // namespace

DynamicTrace trace_dynamic(const TraceProgram& trace,
                           const RunProgram& run,
                           const ExportedProgram& fixed,
                           const Tensors& example,
                           const DynamicShapes& shapes) {
  const SampledProgram program(trace, run, fixed, example, shapes);
  DynamicTrace result = DynamicTracer(program, fixed, shapes).run();
  for (const std::string& remark : result.remarks) {
    KILN_LOG(kDebug, "export", remark);
  }
  return result;
}

}  // namespace kiln::exporter
