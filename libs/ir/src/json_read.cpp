#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "kiln/base/error.hpp"
#include "kiln/ir/json.hpp"

namespace kiln::ir {
namespace {

using Json = nlohmann::ordered_json;

/// A part of the document, and where it is.
class Cursor {
 public:
  Cursor(const Json& json, std::string path) : json_(&json), path_(std::move(path)) {}

  [[noreturn]] void fail(const std::string& expected) const {
    throw Error(ErrorCode::kInvalidArgument,
                (path_.empty() ? "the document" : path_) + ": expected " + expected);
  }

  [[nodiscard]] bool is_null() const { return json_->is_null(); }
  [[nodiscard]] bool has(const char* key) const {
    return json_->is_object() && json_->contains(key);
  }

  [[nodiscard]] Cursor at(const char* key) const {
    if (!has(key)) {
      fail(std::string("an object with \"") + key + "\"");
    }
    return {(*json_)[key], path_.empty() ? key : path_ + "." + key};
  }

  [[nodiscard]] std::vector<Cursor> items() const {
    if (!json_->is_array()) {
      fail("a list");
    }
    std::vector<Cursor> items;
    for (std::size_t i = 0; i < json_->size(); ++i) {
      items.emplace_back((*json_)[i], path_ + "[" + std::to_string(i) + "]");
    }
    return items;
  }

  [[nodiscard]] std::vector<std::pair<std::string, Cursor>> members() const {
    if (!json_->is_object()) {
      fail("an object");
    }
    std::vector<std::pair<std::string, Cursor>> members;
    for (const auto& [key, value] : json_->items()) {
      members.emplace_back(key, Cursor(value, path_.empty() ? key : path_ + "." + key));
    }
    return members;
  }

  [[nodiscard]] std::string text() const {
    if (!json_->is_string()) {
      fail("a string");
    }
    return json_->get<std::string>();
  }

  [[nodiscard]] bool boolean() const {
    if (!json_->is_boolean()) {
      fail("true or false");
    }
    return json_->get<bool>();
  }

  [[nodiscard]] std::int64_t integer() const {
    if (!json_->is_number_integer() ||
        (json_->is_number_unsigned() && json_->get<std::uint64_t>() > INT64_MAX)) {
      fail("an integer");
    }
    return json_->get<std::int64_t>();
  }

  [[nodiscard]] std::uint32_t index() const {
    const std::int64_t value = integer();
    if (value < 0 || value >= 0xffffffff) {
      fail("a position");
    }
    return static_cast<std::uint32_t>(value);
  }

  [[nodiscard]] double real() const {
    if (json_->is_number()) {
      return json_->get<double>();
    }
    const std::string word = json_->is_string() ? text() : std::string();
    if (word == "nan") {
      return std::numeric_limits<double>::quiet_NaN();
    }
    if (word == "inf" || word == "-inf") {
      return word == "inf" ? HUGE_VAL : -HUGE_VAL;
    }
    fail("a number, \"inf\", \"-inf\" or \"nan\"");
  }

  [[nodiscard]] Expr expr() const {
    if (!json_->is_string()) {
      return integer();
    }
    try {
      return Expr::parse(text());
    } catch (const Error& error) {
      fail(std::string("an expression (") + error.what() + ")");
    }
  }

  [[nodiscard]] Argument real_expr() const {
    try {
      return argument_of(RealExpr::parse(text()));
    } catch (const Error& error) {
      fail(std::string("a number that depends on sizes (") + error.what() + ")");
    }
  }

  template <class Parse>
  [[nodiscard]] auto word(Parse parse, const char* expected) const {
    const auto parsed = parse(text());
    if (!parsed) {
      fail(expected);
    }
    return *parsed;
  }

  template <class Read>
  [[nodiscard]] auto list(Read read) const {
    std::vector<decltype(read(*this))> result;
    for (const Cursor& item : items()) {
      result.push_back(read(item));
    }
    return result;
  }

 private:
  const Json* json_;
  std::string path_;
};

class Reader {
 public:
  Graph graph(const Cursor& json) {
    Graph& graph = graph_;
    graph.set_name(json.at("name").text());
    for (const auto& [name, range] : json.at("symbols").members()) {
      const std::vector<Cursor> ends = range.items();
      if (ends.size() != 2 && ends.size() != 3) {
        range.fail("two or three integers");
      }
      graph.symbols()[name] = {ends[0].integer(), ends[1].integer()};
      if (ends.size() == 3) {
        graph.hints()[name] = ends[2].integer();
      }
    }
    for (const Cursor& guard : json.at("guards").items()) {
      const std::string text = guard.text();
      try {
        graph.guards().push_back(Guard::parse(text));
      } catch (const Error&) {
        guard.fail("a relation between two sizes");
      }
    }
    for (const Cursor& subgraph : json.at("subgraphs").items()) {
      graph.add_subgraph(Reader().graph(subgraph));
    }
    for (const Cursor& input : json.at("inputs").items()) {
      const std::string name = input.at("value").text();
      define(
          input,
          name,
          graph.add_input(
              name, type(input.at("type")), input_kind(input.at("kind")), input.at("name").text()));
    }
    for (const Cursor& item : json.at("nodes").items()) {
      node(item);
    }
    for (const Cursor& output : json.at("outputs").items()) {
      graph.add_output({.value = value(output.at("value")),
                        .kind = output_kind(output.at("kind")),
                        .input = output.at("input").index(),
                        .name = output.at("name").text()});
    }
    return std::move(graph_);
  }

 private:
  void define(const Cursor& where, const std::string& name, ValueId id) {
    if (graph_.value(id).name != name || !values_.emplace(name, id).second) {
      where.fail("a value whose name is legal and not taken");
    }
  }

  ValueId value(const Cursor& json) {
    if (json.is_null()) {
      return {};
    }
    const auto found = values_.find(json.text());
    if (found == values_.end()) {
      json.fail("a value that is defined before");
    }
    return found->second;
  }

  static InputKind input_kind(const Cursor& json) {
    for (int i = 0; i <= static_cast<int>(InputKind::kSaved); ++i) {
      if (to_string(static_cast<InputKind>(i)) == json.text()) {
        return static_cast<InputKind>(i);
      }
    }
    json.fail("user, parameter, buffer, constant, tangent, seed or saved");
  }

  static OutputKind output_kind(const Cursor& json) {
    for (int i = 0; i <= static_cast<int>(OutputKind::kSaved); ++i) {
      if (to_string(static_cast<OutputKind>(i)) == json.text()) {
        return static_cast<OutputKind>(i);
      }
    }
    json.fail("user, mutation, gradient or saved");
  }

  static ValueMeta type(const Cursor& json) {
    if (json.has("int")) {
      return SymIntMeta{json.at("int").expr()};
    }
    const auto flag = [&](const char* key) { return json.has(key) && json.at(key).boolean(); };
    const auto exprs = [&](const char* key) {
      return json.at(key).list([](const Cursor& item) { return item.expr(); });
    };
    TensorMeta meta;
    meta.dtype = json.at("dtype").word(parse_dtype, "an element type such as \"f32\"");
    meta.device = json.at("device").word(parse_device, "a device such as \"cpu\"");
    meta.sizes = exprs("sizes");
    meta.strides = exprs("strides");
    meta.offset = json.at("offset").expr();
    meta.storage = json.has("storage") ? StorageId(json.at("storage").index()) : StorageId();
    meta.requires_grad = flag("requires_grad");
    meta.conjugate = flag("conjugate");
    meta.negative = flag("negative");
    return meta;
  }

  Argument argument(const Cursor& json) {
    if (json.is_null()) {
      return std::monostate();
    }
    const auto members = json.members();
    if (members.size() != 1) {
      json.fail("null or an object with one member, such as {\"int\": 3}");
    }
    const auto& [kind, held] = members[0];
    if (kind == "value")
      return value(held);
    if (kind == "values")
      return held.list([this](const Cursor& item) { return value(item); });
    if (kind == "int")
      return held.expr();
    if (kind == "ints")
      return held.list([](const Cursor& item) { return item.expr(); });
    if (kind == "float")
      return held.real();
    if (kind == "real")
      return held.real_expr();
    if (kind == "floats")
      return held.list([](const Cursor& item) { return item.real(); });
    if (kind == "bool")
      return held.boolean();
    if (kind == "bools")
      return held.list([](const Cursor& item) { return item.boolean(); });
    if (kind == "string")
      return held.text();
    if (kind == "strings")
      return held.list([](const Cursor& item) { return item.text(); });
    if (kind == "dtype")
      return held.word(parse_dtype, "an element type");
    if (kind == "device")
      return held.word(parse_device, "a device");
    if (kind == "layout")
      return held.word(parse_layout, "a layout");
    if (kind == "memory_format")
      return held.word(parse_memory_format, "a memory format");
    if (kind == "subgraph")
      return SubgraphRef{held.index()};
    if (kind == "complex") {
      const std::vector<double> parts = held.list([](const Cursor& item) { return item.real(); });
      if (parts.size() == 2) {
        return std::complex<double>(parts[0], parts[1]);
      }
      held.fail("two numbers");
    }
    json.fail("a kind of argument, not \"" + kind + "\"");
  }

  void node(const Cursor& json) {
    const auto flag = [&](const char* key) { return json.has(key) && json.at(key).boolean(); };
    Node node;
    node.target = json.at("target").text();
    for (const Cursor& item : json.at("arguments").items()) {
      node.arguments.push_back(argument(item));
    }
    if (json.has("mutates")) {
      node.mutates = json.at("mutates").list([](const Cursor& item) { return item.index(); });
    }
    if (json.has("views")) {
      for (const Cursor& item : json.at("views").items()) {
        const auto pair = item.list([](const Cursor& part) { return part.index(); });
        if (pair.size() != 2) {
          item.fail("a result and an argument");
        }
        node.aliases.push_back({pair[0], pair[1]});
      }
    }
    node.random = flag("random");
    node.effectful = flag("effectful");
    node.backward = flag("backward");
    node.grad_mode = !flag("nograd");
    node.autocast = flag("autocast");
    node.provenance.module_path = json.has("module") ? json.at("module").text() : std::string();
    node.provenance.source = json.has("source") ? json.at("source").text() : std::string();
    node.provenance.sequence = json.has("sequence") ? json.at("sequence").integer() : -1;

    std::vector<std::optional<ValueMeta>> metas;
    std::vector<std::string> names;
    for (const Cursor& result : json.at("results").items()) {
      metas.push_back(result.is_null() ? std::nullopt : std::optional(type(result.at("type"))));
      names.push_back(result.is_null() ? std::string() : result.at("value").text());
    }
    const NodeId id = graph_.add_node(std::move(node), std::move(metas), names);
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (graph_.node(id).results[i].valid()) {
        define(json, names[i], graph_.node(id).results[i]);
      }
    }
  }

  Graph graph_;
  std::map<std::string, ValueId> values_;
};

}  // namespace

Graph from_json(std::string_view text) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::kInvalidArgument, error.what());
  }
  return Reader().graph(Cursor(json, ""));
}

}  // namespace kiln::ir
