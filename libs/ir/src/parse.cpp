#include "kiln/ir/parse.hpp"

#include <charconv>
#include <optional>
#include <string>
#include <system_error>
#include <unordered_map>

#include "kiln/base/error.hpp"
#include "scanner.hpp"

namespace kiln::ir {
namespace {

std::optional<double> parse_double(std::string_view text) {
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

/// "(1.0+2.0j)"
std::optional<std::complex<double>> parse_complex(std::string_view text) {
  if (text.size() < 6 || text.front() != '(' || !text.ends_with("j)")) {
    return std::nullopt;
  }
  text = text.substr(1, text.size() - 3);
  double real = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), real);
  if (error != std::errc()) {
    return std::nullopt;
  }
  std::string_view rest = text.substr(static_cast<std::size_t>(stop - text.data()));
  rest.remove_prefix(rest.starts_with('+') ? 1 : 0);
  const std::optional<double> imaginary = parse_double(rest);
  return imaginary ? std::optional(std::complex<double>(real, *imaginary)) : std::nullopt;
}

class GraphParser {
 public:
  GraphParser(Scanner& scanner, int depth) : scanner_(scanner), depth_(depth) {}

  Graph parse() {
    if (depth_ > 50) {
      scanner_.fail("fewer nested graphs");
    }
    if (!scanner_.accept_word("graph")) {
      scanner_.fail("'graph'");
    }
    graph_.set_name(scanner_.peek() == '"' ? scanner_.quoted() : std::string(name("a name")));
    scanner_.expect('{');
    scanner_.end_of_statement();
    while (scanner_.peek() != '}') {
      parse_statement();
    }
    scanner_.expect('}');
    scanner_.end_of_statement();
    return std::move(graph_);
  }

 private:
  std::string_view name(std::string_view expected) {
    const std::string_view result = scanner_.word();
    if (result.empty()) {
      scanner_.fail(expected);
    }
    return result;
  }

  void parse_statement() {
    const std::size_t begin = scanner_.position();
    const std::string_view word = scanner_.peek_word();
    if (word == "symbol") {
      parse_symbol();
    } else if (word == "guard") {
      parse_guard();
    } else if (word == "input") {
      parse_input();
    } else if (word == "output") {
      parse_output();
    } else if (word == "graph") {
      graph_.add_subgraph(GraphParser(scanner_, depth_ + 1).parse());
      return;
    } else if (scanner_.peek() == '%' || !word.empty()) {
      parse_node();
    } else {
      scanner_.fail_at(begin, "a statement or '}'");
    }
    scanner_.end_of_statement();
  }

  void parse_symbol() {
    (void)scanner_.word();
    scanner_.expect('%');
    const std::string symbol(name("a symbol's name"));
    if (!scanner_.accept_word("in")) {
      scanner_.fail("'in'");
    }
    scanner_.expect('[');
    Range range;
    range.low = scanner_.integer("an integer");
    scanner_.expect(',');
    range.high = scanner_.integer("an integer");
    scanner_.expect(']');
    graph_.symbols()[symbol] = range;
    if (scanner_.accept_word("hint")) {
      graph_.hints()[symbol] = scanner_.integer("an integer");
    }
  }

  void parse_guard() {
    (void)scanner_.word();
    const std::size_t begin = scanner_.start();
    const std::string text = scanner_.quoted();
    try {
      graph_.guards().push_back(Guard::parse(text));
    } catch (const Error&) {
      scanner_.fail_at(begin, "a relation between two sizes");
    }
  }

  void parse_input() {
    (void)scanner_.word();
    const std::size_t position = scanner_.start();
    const std::string_view value_name = new_value_name();
    scanner_.expect(':');
    ValueMeta meta = parse_type();
    std::optional<InputKind> kind;
    for (const InputKind candidate : {InputKind::kUser,
                                      InputKind::kParameter,
                                      InputKind::kBuffer,
                                      InputKind::kConstant,
                                      InputKind::kTangent,
                                      InputKind::kSeed,
                                      InputKind::kSaved}) {
      if (!kind && scanner_.accept_word(to_string(candidate))) {
        kind = candidate;
      }
    }
    if (!kind) {
      scanner_.fail("user, parameter, buffer, constant, tangent, seed or saved");
    }
    std::string user_name = scanner_.peek() == '"' ? scanner_.quoted() : std::string();
    if (auto* tensor = std::get_if<TensorMeta>(&meta); tensor && scanner_.accept_word("grad")) {
      tensor->requires_grad = true;
    }
    define(value_name,
           position,
           graph_.add_input(std::string(value_name), std::move(meta), *kind, std::move(user_name)));
  }

  void parse_output() {
    (void)scanner_.word();
    Output output{.value = parse_value_or_none()};
    if (scanner_.accept_word("mutation")) {
      output.kind = OutputKind::kMutation;
    } else if (scanner_.accept_word("gradient")) {
      output.kind = OutputKind::kGradient;
    } else if (scanner_.accept_word("saved")) {
      output.kind = OutputKind::kSaved;
    } else if (!scanner_.accept_word("user")) {
      scanner_.fail("user, mutation, gradient or saved");
    }
    if (output.kind == OutputKind::kMutation || output.kind == OutputKind::kGradient) {
      output.input = scanner_.index("the position of an input");
    }
    if (scanner_.peek() == '"') {
      output.name = scanner_.quoted();
    }
    graph_.add_output(std::move(output));
  }

  void parse_node() {
    Node node;
    std::vector<std::optional<ValueMeta>> metas;
    std::vector<std::string> names;
    std::vector<std::size_t> positions;
    if (scanner_.peek() == '%' || scanner_.peek_word() == "none") {
      do {
        positions.push_back(scanner_.start());
        if (scanner_.accept_word("none")) {
          metas.emplace_back();
          names.emplace_back();
        } else {
          names.emplace_back(new_value_name());
          scanner_.expect(':');
          metas.emplace_back(parse_type());
        }
      } while (scanner_.accept(','));
      scanner_.expect('=');
    }
    node.target = name("an operator");
    scanner_.expect('(');
    while (!scanner_.accept(')')) {
      if (!node.arguments.empty()) {
        scanner_.expect(',');
      }
      node.arguments.push_back(parse_argument());
    }
    parse_flags(&node);
    const NodeId id = graph_.add_node(std::move(node), std::move(metas), names);
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (graph_.node(id).results[i].valid()) {
        define(names[i], positions[i], graph_.node(id).results[i]);
      }
    }
  }

  void parse_flags(Node* node) {
    while (true) {
      if (scanner_.accept_word("mutates")) {
        scanner_.expect('(');
        do {
          node->mutates.push_back(scanner_.index("the position of an argument"));
        } while (scanner_.accept(','));
        scanner_.expect(')');
      } else if (scanner_.accept_word("view")) {
        scanner_.expect('(');
        do {
          Alias alias;
          alias.result = scanner_.index("the position of a result");
          scanner_.expect(':');
          alias.argument = scanner_.index("the position of an argument");
          node->aliases.push_back(alias);
        } while (scanner_.accept(','));
        scanner_.expect(')');
      } else if (scanner_.accept_word("random")) {
        node->random = true;
      } else if (scanner_.accept_word("effectful")) {
        node->effectful = true;
      } else if (scanner_.accept_word("backward")) {
        node->backward = true;
      } else if (scanner_.accept_word("nograd")) {
        node->grad_mode = false;
      } else if (scanner_.accept_word("autocast")) {
        node->autocast = true;
      } else if (scanner_.accept_word("module")) {
        node->provenance.module_path = scanner_.quoted();
      } else if (scanner_.accept_word("source")) {
        node->provenance.source = scanner_.quoted();
      } else if (scanner_.accept_word("sequence")) {
        node->provenance.sequence = scanner_.integer("an integer");
      } else {
        return;
      }
    }
  }

  Expr expression() {
    const std::size_t begin = scanner_.start();
    const std::string_view text = scanner_.raw_item();
    return expression_of(text, begin);
  }

  Expr expression_of(std::string_view text, std::size_t begin) {
    std::int64_t value = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && stop == text.data() + text.size()) {
      return Expr(value);
    }
    try {
      return Expr::parse(text);
    } catch (const Error& problem) {
      scanner_.fail_at(begin, std::string("an integer expression (") + problem.what() + ")");
    }
  }

  Argument real_expression_of(std::string_view text, std::size_t begin) {
    try {
      return argument_of(RealExpr::parse(text));
    } catch (const Error& problem) {
      scanner_.fail_at(begin,
                       std::string("a number that depends on sizes (") + problem.what() + ")");
    }
  }

  std::vector<Expr> expression_list(char close) {
    std::vector<Expr> items;
    while (!scanner_.accept(close)) {
      if (!items.empty()) {
        scanner_.expect(',');
      }
      items.push_back(expression());
    }
    return items;
  }

  ValueMeta parse_type() {
    if (scanner_.accept_word("int")) {
      scanner_.expect('(');
      SymIntMeta meta{.expr = expression()};
      scanner_.expect(')');
      return meta;
    }
    TensorMeta meta;
    const std::optional<DType> dtype = parse_dtype(scanner_.peek_word());
    if (!dtype) {
      scanner_.fail("a type such as f32[8, 16] or int(s0)");
    }
    (void)scanner_.word();
    meta.dtype = *dtype;
    scanner_.expect('[');
    meta.sizes = expression_list(']');
    meta.strides = scanner_.accept('{') ? expression_list('}') : contiguous_strides(meta.sizes);
    if (scanner_.accept('@')) {
      if (scanner_.accept('(')) {
        meta.offset = expression();
        scanner_.expect(')');
      } else {
        meta.offset = scanner_.integer("an offset: an integer, or an expression in brackets");
      }
    }
    if (scanner_.accept('#')) {
      meta.storage = StorageId(scanner_.index("a storage id"));
    }
    while (true) {
      if (scanner_.accept_word("conj")) {
        meta.conjugate = true;
      } else if (scanner_.accept_word("neg")) {
        meta.negative = true;
      } else if (scanner_.accept_word("grad")) {
        meta.requires_grad = true;
      } else if (parse_device(scanner_.peek_word())) {
        std::string device(scanner_.word());
        if (scanner_.accept(':')) {
          device += ':' + std::to_string(scanner_.index("a device's number"));
        }
        const std::optional<Device> parsed = parse_device(device);
        if (!parsed) {
          scanner_.fail("a device's number");
        }
        meta.device = *parsed;
      } else {
        return meta;
      }
    }
  }

  Argument parse_argument() {
    const char next = scanner_.peek();
    if (next == '%') {
      return parse_value_or_none();
    }
    if (next == '"') {
      return scanner_.quoted();
    }
    if (next == '@') {
      scanner_.expect('@');
      return SubgraphRef{scanner_.index("the position of a nested graph")};
    }
    if (next == '[') {
      return parse_list();
    }
    const std::size_t begin = scanner_.position();
    return scalar(scanner_.raw_item(), begin);
  }

  /// An argument that is neither a value, a string nor a list.
  Argument scalar(std::string_view text, std::size_t begin) {
    if (text.empty()) {
      scanner_.fail_at(begin, "an argument");
    }
    if (text == "none") {
      return std::monostate();
    }
    if (text == "true" || text == "false") {
      return text == "true";
    }
    const char first = text.front();
    if ((first >= 'a' && first <= 'z')) {
      if (const auto dtype = parse_dtype(text)) {
        return *dtype;
      }
      if (const auto device = parse_device(text)) {
        return *device;
      }
      if (const auto format = parse_memory_format(text)) {
        return *format;
      }
      if (const auto layout = parse_layout(text)) {
        return *layout;
      }
    }
    if (RealExpr::is_text(text)) {
      return real_expression_of(text, begin);
    }
    if (const auto complex = parse_complex(text)) {
      return *complex;
    }
    const bool looks_float = text.find_first_of(".e") != std::string_view::npos || text == "inf" ||
                             text == "-inf" || text == "nan";
    if (looks_float) {
      if (const auto value = parse_double(text)) {
        return *value;
      }
    }
    return expression_of(text, begin);
  }

  Argument parse_list() {
    scanner_.expect('[');
    if (scanner_.accept(']')) {
      if (scanner_.accept_word("tensor")) {
        return std::vector<ValueId>();
      }
      if (scanner_.accept_word("float")) {
        return std::vector<double>();
      }
      if (scanner_.accept_word("bool")) {
        return std::vector<bool>();
      }
      if (scanner_.accept_word("string")) {
        return std::vector<std::string>();
      }
      return std::vector<Expr>();
    }
    const std::size_t begin = scanner_.position();
    std::vector<Argument> items;
    do {
      items.push_back(parse_argument());
    } while (scanner_.accept(','));
    scanner_.expect(']');
    return join(std::move(items), begin);
  }

  /// One list of what are all of one kind.
  Argument join(std::vector<Argument> items, std::size_t begin) {
    const auto collect = [&](auto sample) -> std::optional<Argument> {
      using T = decltype(sample);
      std::vector<T> list;
      for (const Argument& item : items) {
        if constexpr (std::is_same_v<T, ValueId>) {
          if (std::holds_alternative<std::monostate>(item)) {
            list.push_back(ValueId());
            continue;
          }
        }
        const T* value = std::get_if<T>(&item);
        if (value == nullptr) {
          return std::nullopt;
        }
        list.push_back(*value);
      }
      return Argument(std::move(list));
    };
    for (auto& list : {collect(ValueId()),
                       collect(Expr()),
                       collect(double()),
                       collect(bool()),
                       collect(std::string())}) {
      if (list) {
        return *list;
      }
    }
    scanner_.fail_at(begin,
                     "a list whose items are all tensors, integers, floats, bools or strings");
  }

  ValueId parse_value_or_none() {
    const std::size_t begin = scanner_.start();
    if (scanner_.accept_word("none")) {
      return ValueId();
    }
    if (!scanner_.accept('%')) {
      scanner_.fail("a value or none");
    }
    const auto found = values_.find(name("a value's name"));
    if (found == values_.end()) {
      scanner_.fail_at(begin, "a value that is defined above");
    }
    return found->second;
  }

  std::string_view new_value_name() {
    scanner_.expect('%');
    return name("a value's name");
  }

  void define(std::string_view value_name, std::size_t position, ValueId id) {
    if (!values_.emplace(graph_.value(id).name, id).second || graph_.value(id).name != value_name) {
      scanner_.fail_at(position, "a name that is not taken (%" + std::string(value_name) + " is)");
    }
  }

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };

  Scanner& scanner_;
  int depth_;
  Graph graph_;
  std::unordered_map<std::string, ValueId, Hash, std::equal_to<>> values_;
};

}  // namespace

Graph parse(std::string_view text) {
  Scanner scanner(text);
  scanner.skip_empty_lines();
  Graph graph = GraphParser(scanner, 0).parse();
  if (scanner.peek() != '\0') {
    scanner.fail("the end of the text");
  }
  return graph;
}

}  // namespace kiln::ir
