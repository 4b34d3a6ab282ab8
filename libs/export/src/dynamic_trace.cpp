#include "kiln/export/dynamic_trace.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "equal_sizes.hpp"
#include "kiln/base/log.hpp"
#include "kiln/ir/generalize.hpp"
#include "kiln/ir/symbol_sources.hpp"
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
        if (!program_.trusts_large_sizes()) {
          free[name].high = last_affordable(program_, name, program_.hint(), range.high);
        }
      }
    }
    if (free.empty()) {
      return {fixed_.graph, {}};
    }
    const ir::Ranges explored = free;
    std::string reason;
    if (std::optional<ir::Graph> graph = attempt_on_one_path(&free, &reason)) {
      return {guarded(*std::move(graph)), std::move(remarks_), explored};
    }
    std::vector<std::string> reasons;
    if (free.size() > 1) {
      reason = keep_those_that_vary_alone(&free, &reasons);
      if (!free.empty()) {
        if (std::optional<ir::Graph> graph = attempt_on_one_path(&free, &reason)) {
          remarks_.insert(remarks_.end(), reasons.begin(), reasons.end());
          return {guarded(*std::move(graph)), std::move(remarks_), explored};
        }
      }
    }
    for (const auto& [name, range] : free) {
      reasons.push_back(fixed_text(name, reason));
    }
    return {fixed_.graph, std::move(reasons)};
  }

 private:
  // Adjacent sizes between which the program changes its path.
  struct Branch {
    ir::Bindings here, there;
  };

  [[nodiscard]] std::string fixed_text(const std::string& name, const std::string& reason) const {
    return "'" + name + "' is " + std::to_string(program_.hint().at(name)) + ": " + reason;
  }

  std::string keep_those_that_vary_alone(ir::Ranges* free, std::vector<std::string>* reasons) {
    std::string reason = "not together with other sizes that vary";
    for (auto symbol = free->begin(); symbol != free->end();) {
      std::string why;
      ir::Ranges alone = {*symbol};
      const std::optional<ir::Graph> graph = attempt_on_one_path(&alone, &why);
      if (graph) {
        reasons->insert(reasons->end(), remarks_.begin(), remarks_.end());
      } else {
        reasons->push_back(fixed_text(symbol->first, why));
      }
      if (graph && !is_one_size(graph->symbols())) {
        symbol->second = alone.begin()->second;
        ++symbol;
      } else {
        symbol = free->erase(symbol);
      }
    }
    return reason;
  }

  // If the program branches at a size of one symbol, tries again with a smaller range. `reason` is
  // that of the first attempt.
  std::optional<ir::Graph> attempt_on_one_path(ir::Ranges* free, std::string* reason) {
    constexpr int kMaxAttempts = 5;
    std::vector<std::string> narrowed;
    std::string later;
    for (int i = 0; i < kMaxAttempts; ++i) {
      branch_.reset();
      std::string& why = i == 0 ? *reason : later;
      if (std::optional<ir::Graph> graph = attempt(*free, &why)) {
        remarks_.insert(remarks_.begin(), narrowed.begin(), narrowed.end());
        return graph;
      }
      const std::optional<std::string> remark = end_before_branch(free, why);
      if (!remark) {
        break;
      }
      narrowed.push_back(*remark);
    }
    return std::nullopt;
  }

  // Ends the range of a symbol before the branch, and returns a remark. Nothing if there is no
  // branch, it depends on several symbols, or only one size would remain.
  std::optional<std::string> end_before_branch(ir::Ranges* free, const std::string& reason) const {
    if (!branch_) {
      return std::nullopt;
    }
    std::string name;
    for (const auto& [symbol, size] : branch_->here) {
      if (size != branch_->there.at(symbol)) {
        if (!name.empty()) {
          return std::nullopt;
        }
        name = symbol;
      }
    }
    const auto [below, above] = std::minmax(branch_->here.at(name), branch_->there.at(name));
    ir::Range& range = free->find(name)->second;
    const ir::Range wanted = range;
    (program_.hint().at(name) <= below ? range.high : range.low) =
        program_.hint().at(name) <= below ? below : above;
    if (range == wanted || range.low == range.high) {
      range = wanted;
      return std::nullopt;
    }
    return "'" + name + "' in " + text_of(range) + ", not " + text_of(wanted) + ": " + reason;
  }

  std::optional<ir::Graph> attempt(const ir::Ranges& free, std::string* reason) {
    remarks_.clear();
    ir::Bindings hint;
    for (const auto& [name, range] : free) {
      hint[name] = program_.hint().at(name);
    }
    const auto is_affordable = [&](const ir::Bindings& sizes) {
      return program_.is_affordable(sizes);
    };
    std::vector<ir::Bindings> samples = sample_sizes(free, hint, is_affordable);
    const auto keeps_guards = [&](const ir::Bindings& sizes) {
      return program_.keeps_guards(sizes);
    };
    // If guards exclude most samples, the excluded ones serve too: an archive has no branches.
    constexpr std::ptrdiff_t kEnough = 6;
    if (std::ranges::count_if(samples, keeps_guards) >= kEnough) {
      std::erase_if(samples, std::not_fn(keeps_guards));
    }

    // Every fourth sample is held out, to confirm the fit.
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
    const auto is_alike = [&](const ir::Bindings& sizes, const auto& predicate) {
      std::string ignored;
      const std::optional<ir::Graph> trace = program_.trace_at(sizes, &ignored);
      return trace && predicate(*trace);
    };
    auto result = generalize_decided(free, &used, &traces);
    if (const auto* difference = std::get_if<ir::TraceDifference>(&result)) {
      *reason = difference->what;
      if (difference->trace) {
        const auto is_on_path = [&](const ir::Graph& trace) {
          return ir::is_on_path_of(traces.front(), *difference, trace);
        };
        *reason +=
            branch_text([&](const ir::Bindings& sizes) { return is_alike(sizes, is_on_path); },
                        used.front(),
                        used[*difference->trace]);
      }
      return std::nullopt;
    }
    auto& graph = std::get<ir::Graph>(result);
    if (has_real_numbers(graph)) {
      add_confirming(free, used, &held_out);
    }
    for (const auto& [sizes, trace] : held_out) {
      if (const auto difference = ir::find_difference(graph, sizes, trace)) {
        *reason = "where " + text_of(sizes) + ", " + difference->what;
        if (difference->of_constant || !ir::has_same_structure(traces.front(), trace)) {
          const auto holds = [&](const ir::Bindings& between) {
            return is_alike(between, [&](const ir::Graph& other) {
              const auto found = ir::find_difference(graph, between, other);
              return !found || (!found->of_constant && ir::has_same_structure(graph, other));
            });
          };
          *reason += branch_text(holds, used.front(), sizes);
        }
        return std::nullopt;
      }
    }
    graph.symbols() = free;
    graph.hints() = hint;
    if (auto nowhere = narrow_ranges(program_, used, graph, &remarks_)) {
      *reason = *std::move(nowhere);
      return std::nullopt;
    }
    if (free.size() > 1 && !failed.empty() && is_one_size(graph.symbols())) {
      *reason = failed.front().second;  // Some may vary while the others are fixed.
      return std::nullopt;
    }
    for (const auto& [sizes, why] : failed) {
      if (is_inside(sizes, graph.symbols()) && keeps_guards(sizes)) {
        *reason = why;
        return std::nullopt;
      }
    }
    if (!is_confirmed(graph, used.front(), reason)) {
      return std::nullopt;
    }
    ir::verify(graph);
    return std::move(graph);
  }

  // If several formulas give the traced numbers, traces the program at sizes where they differ.
  std::variant<ir::Graph, ir::TraceDifference> generalize_decided(const ir::Ranges& free,
                                                                  std::vector<ir::Bindings>* used,
                                                                  std::vector<ir::Graph>* traces) {
    constexpr int kRounds = 4;
    constexpr std::size_t kPerRound = 4;
    for (int round = 0;; ++round) {
      ir::ExprFitter fitter(*used, free);
      offer_known(fitter, free);
      auto result = ir::generalize(*traces, fitter);
      const auto* difference = std::get_if<ir::TraceDifference>(&result);
      if (difference == nullptr || difference->undecided.empty() || round == kRounds) {
        return result;
      }
      const std::size_t before = used->size();
      for (const ir::Bindings& sizes : difference->undecided) {
        if (used->size() < before + kPerRound) {
          trace_also(sizes, used, traces);
        }
      }
      if (used->size() == before) {
        return result;
      }
    }
  }

  void trace_also(const ir::Bindings& sizes,
                  std::vector<ir::Bindings>* used,
                  std::vector<ir::Graph>* traces) const {
    std::string ignored;
    if (!program_.is_affordable(sizes) || !program_.keeps_guards(sizes)) {
      return;
    }
    if (std::optional<ir::Graph> trace = program_.trace_at(sizes, &ignored)) {
      used->push_back(sizes);
      traces->push_back(*std::move(trace));
    }
  }

  static bool has_real_numbers(const ir::Graph& graph) {
    return std::ranges::any_of(graph.nodes(),
                               [](const ir::Node& node) {
                                 return std::ranges::any_of(
                                     node.arguments, [](const ir::Argument& argument) {
                                       return std::holds_alternative<ir::RealExpr>(argument);
                                     });
                               }) ||
           std::ranges::any_of(graph.subgraphs(), has_real_numbers);
  }

  // With another order of operations, the last bits of a formula differ only at some sizes.
  void add_confirming(const ir::Ranges& free,
                      const std::vector<ir::Bindings>& used,
                      std::vector<std::pair<ir::Bindings, ir::Graph>>* held_out) const {
    constexpr std::int64_t kConfirming = 16;
    std::vector<ir::Bindings> sizes;
    std::vector<ir::Graph> traces;
    for (std::int64_t i = 0; i < kConfirming; ++i) {
      ir::Bindings wanted;
      std::int64_t step = 3;
      for (const auto& [name, range] : free) {
        // Each symbol grows in different steps, from the smallest size that is not special.
        const std::int64_t low = std::max<std::int64_t>(range.low, 2);
        wanted[name] = std::min(range.high, low + 1 + i * step);
        step += 4;
      }
      if (std::ranges::find(used, wanted) == used.end()) {
        trace_also(wanted, &sizes, &traces);
      }
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      held_out->emplace_back(sizes[i], std::move(traces[i]));
    }
  }

  // `graph` with the guards of its symbols. Guards of fixed sizes hold, because they hold for the
  // example.
  [[nodiscard]] ir::Graph guarded(ir::Graph graph) const {
    // Where only the example could be traced, its sizes are numbers.
    const std::vector<ir::SymbolSource> sources = ir::find_symbol_sources(graph);
    std::erase_if(graph.symbols(), [&](const auto& symbol) {
      return std::ranges::find(sources, symbol.first, &ir::SymbolSource::symbol) == sources.end();
    });
    std::erase_if(graph.hints(),
                  [&](const auto& hint) { return !graph.symbols().contains(hint.first); });
    const auto own = [&](const ir::Expr& expr) {
      return expr.substitute([&](const std::string& name) {
        return graph.symbols().contains(name) ? ir::Expr::symbol(name)
                                              : ir::Expr(program_.hint().at(name));
      });
    };
    for (const ir::Guard& guard : shapes_.guards) {
      if (!is_known(guard, program_.hint())) {
        continue;  // About a size that depends on several symbols, which does not vary.
      }
      ir::Guard mine{own(guard.left), guard.relation, own(guard.right)};
      if (!mine.is_constant()) {
        graph.guards().push_back(std::move(mine));
      }
    }
    return graph;
  }

  static bool is_one_size(const ir::Ranges& ranges) {
    return std::ranges::all_of(
        ranges, [](const auto& entry) { return entry.second.low == entry.second.high; });
  }

  static bool is_inside(const ir::Bindings& sizes, const ir::Ranges& ranges) {
    return std::ranges::all_of(sizes, [&](const auto& entry) {
      const ir::Range& range = ranges.find(entry.first)->second;
      return entry.second >= range.low && entry.second <= range.high;
    });
  }

  // Compares the graph with the program at the sizes that the caller wants confirmed, and where
  // sizes are equal. `inside` are sizes at which the two agree.
  bool is_confirmed(const ir::Graph& graph, const ir::Bindings& inside, std::string* reason) {
    std::vector<ir::Bindings> all = equal_sizes(graph.symbols(), program_.hint(), fixed_.graph);
    all.insert(all.end(), shapes_.confirm.begin(), shapes_.confirm.end());
    std::set<ir::Bindings> seen = {inside};
    for (const ir::Bindings& wanted : all) {
      ir::Bindings sizes = inside;
      for (auto& [name, size] : sizes) {
        const auto found = wanted.find(name);
        size = found == wanted.end() ? size : found->second;
      }
      if (!seen.insert(sizes).second || !is_inside(sizes, graph.symbols()) ||
          !program_.is_affordable(sizes) || !program_.keeps_guards(sizes) ||
          program_.holds_at(graph, sizes, reason)) {
        continue;
      }
      *reason += branch_text(
          [&](const ir::Bindings& between) {
            std::string ignored;
            return program_.holds_at(graph, between, &ignored);
          },
          inside,
          sizes);
      return false;
    }
    return true;
  }

  // The adjacent sizes between which the program leaves the path that it takes at `here`.
  std::string branch_text(const std::function<bool(const ir::Bindings&)>& is_on_path,
                          ir::Bindings here,
                          ir::Bindings there) {
    const auto middle_of = [&] {
      ir::Bindings middle = here;
      for (auto& [name, size] : middle) {
        size += (there.at(name) - size) / 2;
      }
      return middle;
    };
    for (ir::Bindings middle = middle_of(); middle != here; middle = middle_of()) {
      (is_on_path(middle) ? here : there) = middle;
    }
    branch_ = {here, there};
    return " (where " + text_of(here) + ", and where " + text_of(there) + ")";
  }

  void offer_known(ir::ExprFitter& fitter, const ir::Ranges& free) const {
    const auto value_of = [&](const std::string& name) {
      const auto value = program_.hint().find(name);
      return free.contains(name) || value == program_.hint().end() ? ir::Expr::symbol(name)
                                                                   : ir::Expr(value->second);
    };
    const auto offer = [&](const auto& expr) {
      const auto own = expr.substitute(value_of);
      if (std::ranges::all_of(own.symbols(),
                              [&](const std::string& name) { return free.contains(name); })) {
        fitter.offer(own);
      }
    };
    for (const std::vector<ir::Expr>& sizes : shapes_.input_sizes) {
      std::ranges::for_each(sizes, offer);
    }
    std::ranges::for_each(shapes_.known, offer);
    std::ranges::for_each(shapes_.known_reals, offer);
  }

  const SampledProgram& program_;
  const ExportedProgram& fixed_;
  const DynamicShapes& shapes_;
  std::vector<std::string> remarks_;
  std::optional<Branch> branch_;  // What the last attempt failed at.
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
