#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "kiln/base/error.hpp"
#include "program/emit.hpp"
#include "program/expression.hpp"
#include "text/source_text.hpp"

namespace kiln::codegen {
namespace {

// The local variable that holds a symbol, or with an expression its symbols, until all are checked.
constexpr const char* kRead = "read_";

std::string in_quotes(const std::string& text) {
  return "'" + text + "'";
}

bool is_symbolic(const ir::Expr& expr) {
  return !expr.is_constant();
}

// Reads the symbols from the inputs, and checks each size and stride that mentions one: kernels
// take what the symbols say for the extent of all of them, so that one that disagrees would be read
// past its end. Sizes that are fixed are the container's to check.
class SymbolEmitter {
 public:
  explicit SymbolEmitter(Emission& emission)
      : emission_(emission), program_(emission.program()), text_(emission.text()) {}

  void run() {
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
      fetch(i);
    }
    for (const ir::SymbolSource& source : program_.symbols) {
      read(source);
    }
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
      check(i);
    }
    if (!program_.dynamic()) {
      return;
    }
    for (const ir::Guard& guard : program_.graph->guards()) {
      check_guard(guard);
    }
    take_over();
  }

 private:
  [[nodiscard]] const ir::Value& value(std::size_t input) const {
    return program_.graph->value(program_.inputs[input].value);
  }

  [[nodiscard]] static bool mentions_symbols(const ir::Value& value) {
    if (!value.is_tensor()) {
      return is_symbolic(std::get<ir::SymIntMeta>(value.meta).expr);
    }
    const ir::TensorMeta& meta = value.tensor();
    return std::ranges::any_of(meta.sizes, is_symbolic) ||
           std::ranges::any_of(meta.strides, is_symbolic);
  }

  // Names for people, with the signs of a format escaped.
  [[nodiscard]] std::string input_text(std::size_t input) const {
    std::string name;
    for (const char c : program_.inputs[input].name) {
      name += c == '%' ? "%%" : std::string(1, c);
    }
    return "input " + std::to_string(input) + " " + in_quotes(name);
  }

  [[nodiscard]] std::string place_text(std::size_t input, std::int32_t dimension) const {
    return dimension < 0 ? input_text(input)
                         : input_text(input) + ", dimension " + std::to_string(dimension);
  }

  [[nodiscard]] std::size_t input_of(const ir::SymbolSource& source) const {
    const auto port = std::ranges::find(program_.inputs, source.input, &Port::graph);
    ensure(port != program_.inputs.end(), "a symbol is read from a constant");
    return static_cast<std::size_t>(port - program_.inputs.begin());
  }

  // A size, or the integer that the input is, as an expression.
  [[nodiscard]] static std::string actual(std::size_t input, std::int32_t dimension) {
    return dimension < 0 ? "integer" + std::to_string(input)
                         : "sizes" + std::to_string(input) + "[" + std::to_string(dimension) + "]";
  }

  // If `condition`, ends the run with a message; `arguments` are what its %lld stand for.
  void refuse_if(const std::string& condition,
                 const std::string& message,
                 const std::vector<std::string>& arguments) {
    std::string list;
    for (const std::string& argument : arguments) {
      list += ", " + argument;
    }
    text_.line("if ($) REFUSE($$);", condition, string_literal(message), list);
  }

  void fetch(std::size_t input) {
    const ir::Value& meta = value(input);
    if (!mentions_symbols(meta) && !program_.is_fixed_integer(input)) {
      return;
    }
    const std::string number = std::to_string(input);
    const std::string handle = code("call.inputs[$]", number);
    if (!meta.is_tensor()) {
      emission_.declare("aoti_torch_item_int64", "Handle, Int64*");
      text_.line("Int64 integer$ = 0;", number);
      text_.line("TRY(aoti_torch_item_int64($, &integer$));", handle, number);
      return;
    }
    const std::string rank = std::to_string(meta.tensor().sizes.size());
    text_.line("Int64 rank$ = 0, *sizes$, *strides$;", number, number, number);
    text_.line("TRY(aoti_torch_get_dim($, &rank$));", handle, number);
    refuse_if("rank" + number + " != " + rank,
              input_text(input) + ": expected rank " + rank + ", but got %lld",
              {"rank" + number});
    text_.line("TRY(aoti_torch_get_sizes($, &sizes$));", handle, number);
    text_.line("TRY(aoti_torch_get_strides($, &strides$));", handle, number);
  }

  void read(const ir::SymbolSource& source) {
    const std::size_t input = input_of(source);
    const std::string from = actual(input, source.dimension);
    const std::string place = place_text(input, source.dimension);
    const std::string name = kRead + source.symbol;
    text_.line("Int64 $ = $;", name, from);
    if (source.shift != 0) {
      text_.line("$ -= $LL;", name, source.shift);
    }
    if (source.scale != 1) {
      const std::string scale = std::to_string(source.scale) + "LL";
      refuse_if(name + " % " + scale + " != 0",
                place + ": %lld, must be " + in_quotes(read_expr(input, source.dimension)) +
                    " for an integer " + in_quotes(source.symbol),
                {from});
      text_.line("$ /= $;", name, scale);
    }
    check_range(source.symbol, place);
  }

  [[nodiscard]] std::string read_expr(std::size_t input, std::int32_t dimension) const {
    const ir::Value& meta = value(input);
    return (dimension < 0 ? std::get<ir::SymIntMeta>(meta.meta).expr
                          : meta.tensor().sizes[static_cast<std::size_t>(dimension)])
        .to_string();
  }

  void check_range(const std::string& symbol, const std::string& place) {
    const auto found = program_.graph->symbols().find(symbol);
    if (found == program_.graph->symbols().end()) {
      return;
    }
    const ir::Range& range = found->second;
    // The lowest integer has no literal.
    const bool below = range.low > std::numeric_limits<std::int64_t>::min();
    const bool above = range.high < std::numeric_limits<std::int64_t>::max();
    const std::string name = kRead + symbol;
    const std::string low = std::to_string(range.low);
    const std::string high = std::to_string(range.high);
    const std::string message = code("$: $ is %lld, must be ", place, in_quotes(symbol));
    if (below && above) {
      refuse_if(name + " < " + low + "LL || " + name + " > " + high + "LL",
                message + low + " … " + high,
                {name});
    } else if (below) {
      refuse_if(name + " < " + low + "LL", message + "at least " + low, {name});
    } else if (above) {
      refuse_if(name + " > " + high + "LL", message + "at most " + high, {name});
    }
  }

  void check(std::size_t input) {
    const ir::Value& meta = value(input);
    if (!meta.is_tensor()) {
      check_value(input, -1, std::get<ir::SymIntMeta>(meta.meta).expr);
      return;
    }
    const ir::TensorMeta& tensor = meta.tensor();
    for (std::size_t d = 0; d < tensor.sizes.size(); ++d) {
      check_value(input, static_cast<std::int32_t>(d), tensor.sizes[d]);
    }
    for (std::size_t d = 0; d < tensor.sizes.size(); ++d) {
      if (is_symbolic(tensor.sizes[d]) || is_symbolic(tensor.strides[d])) {
        check_stride(input, d, tensor.strides[d]);
      }
    }
  }

  void check_value(std::size_t input, std::int32_t dimension, const ir::Expr& expr) {
    const bool is_source =
        std::ranges::any_of(program_.symbols, [&](const ir::SymbolSource& source) {
          return source.input == program_.inputs[input].graph && source.dimension == dimension;
        });
    if ((is_symbolic(expr) && !is_source) || program_.is_fixed_integer(input)) {
      const std::string found = actual(input, dimension);
      compare(found + " != ", place_text(input, dimension) + ": %lld", found, expr, dimension < 0);
    }
  }

  // Of a dimension of one element, or a tensor without any, the stride is never used.
  void check_stride(std::size_t input, std::size_t d, const ir::Expr& expr) {
    const std::string number = std::to_string(input);
    const std::string dimension = code("[$]", d);
    const std::string found = "strides" + number + dimension;
    const std::string used =
        code("sizes$$ != 1 && !is_empty(sizes$, rank$)", number, dimension, number, number);
    compare(used + " && " + found + " != ",
            place_text(input, static_cast<std::int32_t>(d)) + ": stride %lld",
            found,
            expr);
  }

  // With `is_integer`, what is `found` is not a size or a stride, but the input itself.
  void compare(const std::string& condition,
               const std::string& message,
               const std::string& found,
               const ir::Expr& expr,
               bool is_integer = false) {
    const std::string expected = to_source(expr, kRead);
    std::vector<std::string> arguments{found};
    if (expr.is_constant()) {
      refuse_if(condition + "(" + expected + ")",
                message + ", must be " + std::to_string(*expr.constant()) +
                    (is_integer ? ", the only value it was compiled for" : ""),
                arguments);
      return;
    }
    arguments.push_back(expected);
    const std::vector<std::string> symbols = expr.symbols();
    std::string reasons;
    if (expr == ir::Expr::symbol(symbols[0])) {
      reasons = " (" + source_text(symbols[0]) + ")";
    } else {
      for (const std::string& symbol : symbols) {
        reasons += (reasons.empty() ? ", as " : " and ") + in_quotes(symbol) + " is %lld (" +
                   source_text(symbol) + ")";
        arguments.push_back(kRead + symbol);
      }
    }
    refuse_if(condition + "(" + expected + ")",
              message + ", but " + in_quotes(expr.to_string()) + " is %lld" + reasons,
              arguments);
  }

  // What the program was traced under, in the names of the inputs' sizes.
  void check_guard(const ir::Guard& guard) {
    const std::string left = to_source(guard.left, kRead);
    const std::string right = to_source(guard.right, kRead);
    std::vector<std::string> symbols = guard.left.symbols();
    const std::vector<std::string> others = guard.right.symbols();
    symbols.insert(symbols.end(), others.begin(), others.end());
    std::ranges::sort(symbols);
    const auto [first, last] = std::ranges::unique(symbols);
    symbols.erase(first, last);
    std::string places;
    std::vector<std::string> arguments;
    for (const std::string& symbol : symbols) {
      places += (places.empty() ? "" : " and ") + in_quotes(symbol) + " is %lld (" +
                source_text(symbol) + ")";
      arguments.push_back(kRead + symbol);
    }
    std::string relation;
    for (const char c : guard.to_string()) {
      relation += c == '%' ? "%%" : std::string(1, c);
    }
    refuse_if("!((" + left + ") " + std::string(guard.sign()) + " (" + right + "))",
              "the program was traced for sizes with " + in_quotes(relation) + ", but " + places,
              arguments);
  }

  [[nodiscard]] std::string source_text(const std::string& symbol) const {
    const auto source = std::ranges::find(program_.symbols, symbol, &ir::SymbolSource::symbol);
    ensure(source != program_.symbols.end(), "a symbol of an input has no source");
    return place_text(input_of(*source), source->dimension);
  }

  // Only what passed every check is remembered: memory is laid out for it.
  void take_over() {
    text_.line("bool same = m.prepared;");
    for (const ir::SymbolSource& source : program_.symbols) {
      const std::string member = "m.symbol_" + source.symbol;
      text_.line("same &= $ == $$;", member, kRead, source.symbol);
      text_.line("$ = $$;", member, kRead, source.symbol);
    }
    const CodeWriter::Scope branch = text_.scope("if (!same)");
    text_.line("m.prepared = false;");
    {
      const CodeWriter::Scope failure = text_.scope("if (const int error = prepare(m))");
      text_.line("call.error = \"no memory for the temporaries of this size\";");
      text_.line("return error;");
    }
    text_.line("m.prepared = true;");
  }

  Emission& emission_;
  const Program& program_;
  CodeWriter& text_;
};

}  // namespace

void emit_symbols(Emission& emission) {
  SymbolEmitter(emission).run();
}

}  // namespace kiln::codegen
