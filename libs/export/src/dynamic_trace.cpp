#include "kiln/export/dynamic_trace.hpp"

#include <algorithm>
#include <functional>
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
  // Sizes next to each other, between which the program turns to another path.
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

  // Attempts again with a smaller range where the program branches at a size of one symbol. The
  // reason is that of the first attempt.
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

  // Nothing if there is no branch, it is not one symbol's alone, or it leaves one size.
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
    // Where guards leave few of them, the others serve too: what an archive computes has no branch.
    constexpr std::ptrdiff_t kEnough = 6;
    if (std::ranges::count_if(samples, keeps_guards) >= kEnough) {
      std::erase_if(samples, std::not_fn(keeps_guards));
    }

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
    const auto has_structure_of_first = [&](const ir::Bindings& sizes) {
      std::string ignored;
      const std::optional<ir::Graph> trace = program_.trace_at(sizes, &ignored);
      return trace && ir::has_same_structure(traces.front(), *trace);
    };
    auto result = ir::generalize(traces, fitter);
    if (const auto* difference = std::get_if<ir::TraceDifference>(&result)) {
      *reason = difference->what;
      if (difference->trace) {
        *reason += branch_text(has_structure_of_first, used.front(), used[*difference->trace]);
      }
      return std::nullopt;
    }
    auto& graph = std::get<ir::Graph>(result);
    for (const auto& [sizes, trace] : held_out) {
      if (auto difference = ir::find_difference(graph, sizes, trace)) {
        *reason = "where " + text_of(sizes) + ", " + *difference;
        if (!ir::has_same_structure(traces.front(), trace)) {
          *reason += branch_text(has_structure_of_first, used.front(), sizes);
        }
        return std::nullopt;
      }
    }
    graph.symbols() = free;
    if (auto nowhere = narrow_ranges(program_, used, graph, &remarks_)) {
      *reason = *std::move(nowhere);
      return std::nullopt;
    }
    if (free.size() > 1 && !failed.empty() && is_one_size(graph.symbols())) {
      *reason = failed.front().second;  // Some may vary where the others stay.
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

  // With the guards of what varies in it; others hold because they do at the example's sizes.
  [[nodiscard]] ir::Graph guarded(ir::Graph graph) const {
    const auto own = [&](const ir::Expr& expr) {
      return expr.substitute([&](const std::string& name) {
        return graph.symbols().contains(name) ? ir::Expr::symbol(name)
                                              : ir::Expr(program_.hint().at(name));
      });
    };
    for (const ir::Guard& guard : shapes_.guards) {
      if (!is_known(guard, program_.hint())) {
        continue;  // Of a size that is not a symbol's alone, which does not vary.
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

  // Looks at the sizes that the caller wants to be looked at.
  // `inside` is a size where the graph is what the program does.
  bool is_confirmed(const ir::Graph& graph, const ir::Bindings& inside, std::string* reason) {
    for (const ir::Bindings& wanted : shapes_.confirm) {
      ir::Bindings sizes = inside;
      for (auto& [name, size] : sizes) {
        const auto found = wanted.find(name);
        size = found == wanted.end() ? size : found->second;
      }
      if (!is_inside(sizes, graph.symbols()) || !program_.is_affordable(sizes) ||
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

  // Between which sizes the program turns to another path than the one it takes at `here`.
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

std::optional<ir::Ranges> widen_ranges(const TraceProgram& trace,
                                       const RunProgram& run,
                                       const ExportedProgram& dynamic,
                                       const Tensors& example,
                                       const DynamicShapes& shapes) {
  const SampledProgram program(trace, run, dynamic, example, shapes);
  std::string reason;
  if (!program.holds_at(dynamic.graph, program.hint(), &reason)) {
    KILN_LOG(kDebug, "export", "not for other sizes too: " << reason);
    return std::nullopt;
  }
  ir::Ranges ranges = dynamic.graph.symbols();
  for (auto& [name, range] : ranges) {
    const std::int64_t size = program.hint().at(name);
    if (size < range.low) {
      return std::nullopt;  // The range ends there because the program does something else.
    }
    if (size > range.high) {
      // In steps: there may be another path between two sizes that take the same one.
      const std::int64_t end =
          last_affordable(program, name, program.hint(), shapes.symbols.find(name)->second.high);
      ir::Bindings inside = program.hint();
      for (inside[name] = range.high; inside[name] < end;) {
        const std::int64_t next = std::min(end, inside[name] + inside[name] / 2 + 1);
        const std::int64_t reached =
            end_of_range(program, dynamic.graph, name, inside, next, &reason);
        inside[name] = reached;
        if (reached < next) {
          break;
        }
      }
      range.high = inside[name];
      if (range.high < size) {
        return std::nullopt;
      }
    }
  }
  return ranges;
}

}  // namespace kiln::exporter
