#include "serialized_reals.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "kiln/base/error.hpp"
#include "kiln/base/log.hpp"
#include "serialized_symbols.hpp"

namespace kiln::exporter {
namespace {

class RealReader {
 public:
  explicit RealReader(const Json& graph) : graph_(graph) {}

  std::vector<ir::RealExpr> run() {
    std::vector<ir::RealExpr> found;
    for (const Json& node : graph_.at("nodes")) {
      const Json& outputs = node.at("outputs");
      if (outputs.size() != 1 || read_union(outputs.front()).tag != "as_sym_float") {
        continue;
      }
      const auto [form, name] = read_union(read_union(outputs.front()).value);
      if (form != "as_name") {
        continue;
      }
      if (std::optional<ir::RealExpr> real = result_of(node)) {
        found.push_back(*real);
        by_name_.emplace(name.get<std::string>(), *std::move(real));
      }
    }
    return found;
  }

 private:
  std::optional<ir::RealExpr> result_of(const Json& node) const {
    std::vector<ir::RealExpr> operands;
    for (const Json& input : node.at("inputs")) {
      std::optional<ir::RealExpr> operand = number(input.at("arg"));
      if (!operand) {
        return std::nullopt;
      }
      operands.push_back(*std::move(operand));
    }
    const auto target = node.at("target").get<std::string>();
    if (operands.size() == 1) {
      if (target == "torch.sym_float" || target == "_operator.pos") {
        return operands[0];
      }
      if (target == "torch._sym_sqrt" || target == "torch.sym_sqrt") {
        return sqrt(operands[0]);
      }
      if (target == "_operator.neg") {
        return ir::RealExpr(-1.0) * operands[0];
      }
    } else if (operands.size() == 2) {
      if (target == "_operator.add") {
        return operands[0] + operands[1];
      }
      if (target == "_operator.sub") {
        return operands[0] - operands[1];
      }
      if (target == "_operator.mul") {
        return operands[0] * operands[1];
      }
      if (target == "_operator.truediv") {
        return operands[0] / operands[1];
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<ir::RealExpr> number(const Json& argument) const {
    const auto [tag, value] = read_union(argument);
    if (tag == "as_int") {
      return ir::RealExpr(ir::Expr(value.get<std::int64_t>()));
    }
    if (tag == "as_float") {
      return ir::RealExpr(value.get<double>());
    }
    if (tag != "as_sym_int" && tag != "as_sym_float") {
      return std::nullopt;
    }
    const auto [form, held] = read_union(value);
    if (form != "as_name") {
      return number(value);
    }
    const auto name = held.get<std::string>();
    if (const auto known = by_name_.find(name); known != by_name_.end()) {
      return known->second;
    }
    return tag == "as_sym_int" ? integer(name) : std::nullopt;
  }

  [[nodiscard]] std::optional<ir::RealExpr> integer(const std::string& name) const {
    const auto [tag, value] = read_union(graph_.at("sym_int_values").at(name));
    if (tag != "as_expr") {
      return ir::RealExpr(ir::Expr(value.get<std::int64_t>()));
    }
    try {
      return ir::RealExpr(parse_srepr(value.at("expr_str").get<std::string>()));
    } catch (const Error& error) {
      KILN_LOG(kDebug, "export", "not used to name numbers: " << error.what());
      return std::nullopt;
    }
  }

  const Json& graph_;
  std::map<std::string, ir::RealExpr> by_name_;
};

}  // namespace

std::vector<ir::RealExpr> read_real_expressions(const Json& graph) {
  return RealReader(graph).run();
}

}  // namespace kiln::exporter
