#include "symbol_writer.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "expr_parts.hpp"
#include "kiln/base/error.hpp"
#include "kiln/ir/symbol_sources.hpp"

namespace kiln::exporter {
namespace {

using Kind = ExprPart::Kind;

// What Python calls sizes: a letter of its own, then a number. Others may mean something else to
// it.
bool is_python_name(std::string_view name) {
  return name.size() > 1 && name[0] == 's' &&
         std::ranges::all_of(name.substr(1), [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::string_view sympy_name(Kind kind) {
  switch (kind) {
    case Kind::kAdd: return "Add";
    case Kind::kMultiply: return "Mul";
    case Kind::kFloorDiv: return "FloorDiv";
    case Kind::kMod: return "Mod";
    case Kind::kMin: return "Min";
    default: return "Max";
  }
}

std::string_view python_operator(Kind kind) {
  switch (kind) {
    case Kind::kAdd: return "_operator.add";
    case Kind::kMultiply: return "_operator.mul";
    case Kind::kFloorDiv: return "_operator.floordiv";
    case Kind::kMod: return "_operator.mod";
    case Kind::kMin: return "torch.sym_min";
    default: return "torch.sym_max";
  }
}

std::string sympy_float(double number) {
  std::array<char, 40> digits{};
  std::snprintf(digits.data(), digits.size(), "%.17g", number);
  return "Float('" + std::string(digits.data()) + "', precision=53)";
}

template <class SymbolText>
std::string sympy_text(const ExprPart& part, const SymbolText& symbol_text) {
  if (part.operands.empty()) {
    return part.kind == Kind::kSymbol ? symbol_text(part.symbol)
                                      : "Integer(" + std::to_string(part.constant) + ")";
  }
  std::string operands;
  for (const ExprPart& operand : part.operands) {
    operands += (operands.empty() ? "" : ", ") + sympy_text(operand, symbol_text);
  }
  return std::string(sympy_name(part.kind)) + "(" + operands + ")";
}

}  // namespace

SymbolWriter::SymbolWriter(const ExportedProgram& program) : graph_(program.graph) {
  if (!graph_.guards().empty()) {
    throw Error(ErrorCode::kUnsupported,
                "a program that is valid where '" + graph_.guards().front().to_string() +
                    "' cannot be saved yet");
  }
  for (const ir::Value& value : graph_.values()) {
    taken_.insert(value.name);
  }
  std::vector<const at::Tensor*> samples;
  std::size_t user = 0;
  for (const ir::Input& input : graph_.inputs()) {
    const bool is_user = input.kind == ir::InputKind::kUser;
    samples.push_back(is_user ? &program.sample_inputs.at(user++) : nullptr);
  }
  std::set<std::string> names;
  for (const auto& [symbol, range] : graph_.symbols()) {
    names.insert(symbol);
  }
  int next = 0;
  for (const auto& [symbol, range] : graph_.symbols()) {
    std::string name = symbol;
    while (!is_python_name(name)) {
      const std::string made = "s" + std::to_string(next++);
      name = names.insert(made).second ? made : name;
    }
    python_names_[symbol] = name;
  }
  for (const ir::SymbolSource& source : ir::find_symbol_sources(graph_)) {
    if (source.dimension < 0 || samples[source.input] == nullptr) {
      throw Error(ErrorCode::kUnsupported,
                  "the symbol '" + source.symbol + "' is no size of an input: it cannot be saved");
    }
    const std::int64_t size = samples[source.input]->size(source.dimension);
    hints_[source.symbol] = (size - source.shift) / source.scale;
    const std::string& input = graph_.value(graph_.inputs()[source.input].value).name;
    const std::string read = call(
        "torch.ops.aten.sym_size.int",
        "as_sym_int",
        {{"self", {{"as_tensor", {{"name", input}}}}}, {"dim", {{"as_int", source.dimension}}}});
    const ir::Expr symbol = ir::Expr::symbol(source.symbol);
    const ir::Expr whole = symbol * ir::Expr(source.scale) + ir::Expr(source.shift);
    integers_[read] = size_of(whole);
    known_[whole.to_string()] = read;
    std::string name = read;
    const auto reduce = [&](const char* target, std::int64_t by, const ir::Expr& value) {
      name = call(target,
                  "as_sym_int",
                  {{"a", {{"as_sym_int", {{"as_name", name}}}}}, {"b", {{"as_int", by}}}});
      integers_[name] = size_of(value);
      known_[value.to_string()] = name;
    };
    if (source.shift != 0) {
      reduce("_operator.sub", source.shift, symbol * ir::Expr(source.scale));
    }
    if (source.scale != 1) {
      reduce("_operator.floordiv", source.scale, symbol);
    }
  }
}

std::string SymbolWriter::symbol_text(const std::string& symbol) const {
  const bool is_positive = graph_.symbols().find(symbol)->second.low > 0;
  return "Symbol('" + python_names_.find(symbol)->second + "', " +
         (is_positive ? "positive=True, integer=True)" : "nonnegative=True, integer=True)");
}

Json SymbolWriter::size_of(const ir::Expr& expr) const {
  if (const auto constant = expr.constant()) {
    return {{"as_int", *constant}};
  }
  const auto text = [this](const std::string& symbol) { return symbol_text(symbol); };
  return {{"as_expr",
           {{"expr_str", sympy_text(parts_of(expr), text)},
            {"hint", {{"as_int", expr.evaluate(hints_)}}}}}};
}

std::string SymbolWriter::call(const std::string& target,
                               const char* tag,
                               const std::vector<std::pair<std::string, Json>>& arguments) {
  std::string name;
  do {
    name = "size_" + std::to_string(next_++);
  } while (!taken_.insert(name).second);
  Json inputs = Json::array();
  for (const auto& [formal, argument] : arguments) {
    inputs.push_back({{"name", formal}, {"arg", argument}, {"kind", 1}});
  }
  nodes_.push_back({{"target", target},
                    {"inputs", std::move(inputs)},
                    {"outputs", Json::array({Json{{tag, {{"as_name", name}}}}})},
                    {"metadata", Json::object()},
                    {"is_hop_single_tensor_return", nullptr},
                    {"name", nullptr}});
  return name;
}

// Two operands at a time, as Python's operators take them.
std::string SymbolWriter::name_of(const ir::Expr& expr) {
  if (const auto known = known_.find(expr.to_string()); known != known_.end()) {
    return known->second;
  }
  const ExprPart part = parts_of(expr);
  ensure(part.operands.size() > 1, "a symbol is read from an input");
  ir::Expr value = expr_of(part.operands.front());
  for (std::size_t i = 1; i < part.operands.size(); ++i) {
    const ir::Expr next = expr_of(part.operands[i]);
    const ir::Expr both =
        expr_of({.kind = part.kind, .operands = {parts_of(value), parts_of(next)}});
    if (!known_.contains(both.to_string())) {
      const Json a = integer(value), b = integer(next);
      const std::string name =
          call(std::string(python_operator(part.kind)), "as_sym_int", {{"a", a}, {"b", b}});
      integers_[name] = size_of(both);
      known_[both.to_string()] = name;
    }
    value = both;
  }
  return known_.at(value.to_string());
}

Json SymbolWriter::integer(const ir::Expr& expr) {
  if (const auto constant = expr.constant()) {
    return {{"as_int", *constant}};
  }
  return {{"as_sym_int", {{"as_name", name_of(expr)}}}};
}

Json SymbolWriter::integers_of(const std::vector<ir::Expr>& exprs) {
  Json items = Json::array();
  for (const ir::Expr& expr : exprs) {
    const auto constant = expr.constant();
    items.push_back(constant ? Json{{"as_int", *constant}} : Json{{"as_name", name_of(expr)}});
  }
  return {{"as_sym_ints", std::move(items)}};
}

std::string SymbolWriter::text_of(const ir::RealExpr& real) const {
  using Op = ir::RealExpr::Op;
  const auto operands = [&](const std::string& function) {
    std::string text;
    for (const ir::RealExpr& operand : real.operands()) {
      text += (text.empty() ? "" : ", ") + text_of(operand);
    }
    return function + "(" + text + ")";
  };
  const auto text = [this](const std::string& symbol) { return symbol_text(symbol); };
  switch (real.op()) {
    case Op::kConstant: return sympy_float(*real.constant());
    case Op::kFloat: return "ToFloat(" + sympy_text(parts_of(real.integer()), text) + ")";
    case Op::kAdd: return operands("Add");
    case Op::kSubtract:
      return "Add(" + text_of(real.operands()[0]) + ", Mul(Integer(-1), " +
             text_of(real.operands()[1]) + "))";
    case Op::kMultiply: return operands("Mul");
    case Op::kDivide: return operands("FloatTrueDiv");
    case Op::kSqrt: return operands("OpaqueUnaryFn_sqrt");
    case Op::kRoundToFloat: break;
  }
  throw Error(ErrorCode::kUnsupported,
              "a number that depends on sizes and is rounded to float cannot be saved: " +
                  real.to_string());
}

Json SymbolWriter::real(const ir::RealExpr& real) {
  using Op = ir::RealExpr::Op;
  if (const auto constant = real.constant()) {
    return {{"as_float", write_double(*constant)}};
  }
  std::string& name = known_[real.to_string()];
  if (name.empty()) {
    const std::string text = text_of(real);
    std::vector<std::pair<std::string, Json>> arguments;
    if (real.op() == Op::kFloat) {
      arguments.emplace_back("a", integer(real.integer()));
    }
    for (const ir::RealExpr& operand : real.operands()) {
      arguments.emplace_back(arguments.empty() ? "a" : "b", this->real(operand));
    }
    const char* target = real.op() == Op::kFloat      ? "torch.sym_float"
                         : real.op() == Op::kAdd      ? "_operator.add"
                         : real.op() == Op::kSubtract ? "_operator.sub"
                         : real.op() == Op::kMultiply ? "_operator.mul"
                         : real.op() == Op::kDivide   ? "_operator.truediv"
                                                      : "torch._sym_sqrt";
    name = call(target, "as_sym_float", arguments);
    reals_[name] = {
        {"as_expr",
         {{"expr_str", text}, {"hint", {{"as_float", write_double(real.evaluate(hints_))}}}}}};
  }
  return {{"as_sym_float", {{"as_name", name}}}};
}

Json SymbolWriter::range_constraints() const {
  Json constraints = Json::object();
  const auto add = [&](const std::string& name, const ir::Range& range) {
    constraints[name] = {{"min_val", range.low},
                         {"max_val", range.high == INT64_MAX ? Json() : Json(range.high)}};
  };
  for (const auto& [symbol, range] : graph_.symbols()) {
    add(python_names_.find(symbol)->second, range);
  }
  // PyTorch only compares sizes with ranges of their own.
  for (const ir::Input& input : graph_.inputs()) {
    const ir::Value& value = graph_.value(input.value);
    for (const ir::Expr& size :
         value.is_tensor() ? value.tensor().sizes : std::vector<ir::Expr>()) {
      const std::optional<ir::LinearForm> form = ir::linear_form(size);
      if (form && form->scale > 0) {
        const ir::Range& range = graph_.symbols().find(form->symbol)->second;
        const auto value_at = [&](std::int64_t symbol) {
          return form->scale * symbol + form->shift;
        };
        add(python_text(*form),
            {value_at(range.low), range.high == INT64_MAX ? INT64_MAX : value_at(range.high)});
      }
    }
  }
  return constraints;
}

// As sympy prints it.
std::string SymbolWriter::python_text(const ir::LinearForm& form) const {
  std::string text = form.scale == 1 ? "" : std::to_string(form.scale) + "*";
  text += python_names_.find(form.symbol)->second;
  if (form.shift != 0) {
    text += (form.shift < 0 ? " - " : " + ") + std::to_string(std::abs(form.shift));
  }
  return text;
}

}  // namespace kiln::exporter
