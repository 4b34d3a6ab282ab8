#include "kiln/ir/parse.hpp"

#include <optional>
#include <string>
#include <unordered_map>

#include "kiln/base/error.hpp"
#include "scanner.hpp"
#include "term_parser.hpp"

namespace kiln::ir {
namespace {

class GraphParser {
 public:
  GraphParser(Scanner& scanner, int depth)
      : scanner_(scanner),
        terms_(scanner, [this] { return parse_value_or_none(); }),
        depth_(depth) {}

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
    ValueMeta meta = terms_.type();
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
          metas.emplace_back(terms_.type());
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
      node.arguments.push_back(terms_.argument());
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
  TermParser terms_;
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
