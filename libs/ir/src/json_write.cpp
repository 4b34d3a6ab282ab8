#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "kiln/ir/json.hpp"

namespace kiln::ir {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Expr& expr) {
  if (const auto constant = expr.constant()) {
    return *constant;
  }
  return expr.to_string();
}

/// JSON has no infinities: they are strings.
Json json_of(double value) {
  if (std::isfinite(value)) {
    return value;
  }
  return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
}

template <class Items>
Json list_of(const Items& items) {
  Json list = Json::array();
  for (const auto& item : items) {
    list.push_back(json_of(item));
  }
  return list;
}

Json type_of(const ValueMeta& meta) {
  if (const auto* integer = std::get_if<SymIntMeta>(&meta)) {
    return {{"int", json_of(integer->expr)}};
  }
  const auto& tensor = std::get<TensorMeta>(meta);
  Json type = {{"dtype", to_string(tensor.dtype)},
               {"device", to_string(tensor.device)},
               {"sizes", list_of(tensor.sizes)},
               {"strides", list_of(tensor.strides)},
               {"offset", json_of(tensor.offset)}};
  if (tensor.storage.valid()) {
    type["storage"] = tensor.storage.index();
  }
  for (const auto& [name, set] : {std::pair("requires_grad", tensor.requires_grad),
                                  std::pair("conjugate", tensor.conjugate),
                                  std::pair("negative", tensor.negative)}) {
    if (set) {
      type[name] = true;
    }
  }
  return type;
}

Json json_of(const Graph& graph);

class Writer {
 public:
  explicit Writer(const Graph& graph) : graph_(graph) {}

  [[nodiscard]] Json value(ValueId id) const {
    return id.valid() ? Json(graph_.value(id).name) : Json();
  }

  [[nodiscard]] Json argument(const Argument& argument) const {
    return std::visit(
        [this](const auto& held) -> Json {
          using T = std::decay_t<decltype(held)>;
          if constexpr (std::is_same_v<T, std::monostate>) {
            return nullptr;
          } else if constexpr (std::is_same_v<T, ValueId>) {
            return {{"value", value(held)}};
          } else if constexpr (std::is_same_v<T, std::vector<ValueId>>) {
            Json list = Json::array();
            for (const ValueId id : held) {
              list.push_back(value(id));
            }
            return {{"values", list}};
          } else if constexpr (std::is_same_v<T, Expr>) {
            return {{"int", json_of(held)}};
          } else if constexpr (std::is_same_v<T, std::vector<Expr>>) {
            return {{"ints", list_of(held)}};
          } else if constexpr (std::is_same_v<T, double>) {
            return {{"float", json_of(held)}};
          } else if constexpr (std::is_same_v<T, std::vector<double>>) {
            return {{"floats", list_of(held)}};
          } else if constexpr (std::is_same_v<T, bool>) {
            return {{"bool", held}};
          } else if constexpr (std::is_same_v<T, std::vector<bool>>) {
            return {{"bools", held}};
          } else if constexpr (std::is_same_v<T, std::string>) {
            return {{"string", held}};
          } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
            return {{"strings", held}};
          } else if constexpr (std::is_same_v<T, std::complex<double>>) {
            return {{"complex", Json::array({json_of(held.real()), json_of(held.imag())})}};
          } else if constexpr (std::is_same_v<T, DType>) {
            return {{"dtype", to_string(held)}};
          } else if constexpr (std::is_same_v<T, Device>) {
            return {{"device", to_string(held)}};
          } else if constexpr (std::is_same_v<T, Layout>) {
            return {{"layout", to_string(held)}};
          } else if constexpr (std::is_same_v<T, MemoryFormat>) {
            return {{"memory_format", to_string(held)}};
          } else if constexpr (std::is_same_v<T, RealExpr>) {
            return {{"real", held.to_string()}};
          } else {
            return {{"subgraph", held.index}};
          }
        },
        argument);
  }

  [[nodiscard]] Json node(const Node& node) const {
    Json json = {{"target", node.target}};
    json["arguments"] = Json::array();
    for (const Argument& item : node.arguments) {
      json["arguments"].push_back(argument(item));
    }
    json["results"] = Json::array();
    for (const ValueId id : node.results) {
      json["results"].push_back(
          id.valid() ? Json({{"value", value(id)}, {"type", type_of(graph_.value(id).meta)}})
                     : Json());
    }
    if (!node.mutates.empty()) {
      json["mutates"] = node.mutates;
    }
    for (const Alias& alias : node.aliases) {
      json["views"].push_back(Json::array({alias.result, alias.argument}));
    }
    for (const auto& [name, set] : {std::pair("random", node.random),
                                    std::pair("effectful", node.effectful),
                                    std::pair("backward", node.backward),
                                    std::pair("nograd", !node.grad_mode),
                                    std::pair("autocast", node.autocast)}) {
      if (set) {
        json[name] = true;
      }
    }
    if (!node.provenance.module_path.empty()) {
      json["module"] = node.provenance.module_path;
    }
    if (!node.provenance.source.empty()) {
      json["source"] = node.provenance.source;
    }
    if (node.provenance.sequence >= 0) {
      json["sequence"] = node.provenance.sequence;
    }
    return json;
  }

 private:
  const Graph& graph_;
};

Json json_of(const Graph& graph) {
  const Writer writer(graph);
  Json json = {{"name", graph.name()}};
  json["symbols"] = Json::object();
  for (const auto& [name, range] : graph.symbols()) {
    Json& entry = json["symbols"][name] = Json::array({range.low, range.high});
    if (const auto hint = graph.hints().find(name); hint != graph.hints().end()) {
      entry.push_back(hint->second);
    }
  }
  json["guards"] = Json::array();
  for (const Guard& guard : graph.guards()) {
    json["guards"].push_back(guard.to_string());
  }
  json["subgraphs"] = Json::array();
  for (const Graph& subgraph : graph.subgraphs()) {
    json["subgraphs"].push_back(json_of(subgraph));
  }
  json["inputs"] = Json::array();
  for (const Input& input : graph.inputs()) {
    json["inputs"].push_back({{"value", writer.value(input.value)},
                              {"type", type_of(graph.value(input.value).meta)},
                              {"kind", to_string(input.kind)},
                              {"name", input.name}});
  }
  json["nodes"] = Json::array();
  for (const Node& node : graph.nodes()) {
    json["nodes"].push_back(writer.node(node));
  }
  json["outputs"] = Json::array();
  for (const Output& output : graph.outputs()) {
    json["outputs"].push_back({{"value", writer.value(output.value)},
                               {"kind", to_string(output.kind)},
                               {"input", output.input},
                               {"name", output.name}});
  }
  return json;
}

}  // namespace

std::string to_json(const Graph& graph) {
  // Names and strings may hold any bytes; what is not UTF-8 is replaced.
  return json_of(graph).dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace kiln::ir
