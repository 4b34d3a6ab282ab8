#include "node_writer.hpp"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <complex>
#include <string>
#include <string_view>
#include <utility>

#include "kiln/base/error.hpp"
#include "kiln/capture/convert.hpp"

namespace kiln::exporter {
namespace {

constexpr std::string_view kHigherOrder = "higher_order.";
constexpr std::string_view kDefault = ".default";
constexpr int kPositional = 1;
constexpr int kKeyword = 2;

std::int64_t constant_of(const ir::Expr& expr) {
  if (!expr.constant()) {
    throw Error(ErrorCode::kUnsupported,
                "the symbolic size " + expr.to_string() + " of a nested graph cannot be saved yet");
  }
  return *expr.constant();
}

c10::Device device_of(ir::Device device) {
  return {static_cast<c10::DeviceType>(device.type), device.index};
}

Json write_nested(const ir::Graph& body);

// Writes one argument of a node, by the type that the operator's schema gives it.
struct ArgumentWriter {
  const ir::Graph& graph;
  c10::TypePtr type;
  SymbolWriter* symbols;  // Null in a nested graph.

  [[nodiscard]] c10::TypeKind element() const {
    const auto list = type->cast<c10::ListType>();
    return list ? list->getElementType()->kind() : c10::TypeKind::AnyType;
  }

  Json operator()(std::monostate) const { return {{"as_none", true}}; }
  Json operator()(ir::ValueId value) const { return write_value(graph, value); }
  Json operator()(const std::vector<ir::ValueId>& values) const {
    const bool optional = element() == c10::TypeKind::OptionalType;
    Json items = Json::array();
    for (const ir::ValueId value : values) {
      if (!value.valid()) {
        items.push_back({{"as_none", true}});
      } else if (optional) {
        items.push_back({{"as_tensor", tensor_argument(graph, value)}});
      } else {
        items.push_back(tensor_argument(graph, value));
      }
    }
    return {{optional ? "as_optional_tensors" : "as_tensors", items}};
  }
  Json operator()(const ir::Expr& expr) const {
    if (type->kind() == c10::TypeKind::FloatType) {
      return (*this)(ir::RealExpr(expr));
    }
    return symbols != nullptr ? symbols->integer(expr) : Json{{"as_int", constant_of(expr)}};
  }
  Json operator()(const ir::RealExpr& real) const {
    if (symbols == nullptr && !real.constant()) {
      throw Error(ErrorCode::kUnsupported,
                  "the number " + real.to_string() + " of a nested graph cannot be saved yet");
    }
    return real.constant() ? (*this)(*real.constant()) : symbols->real(real);
  }
  Json operator()(const std::vector<ir::Expr>& exprs) const {
    const bool varies =
        std::ranges::any_of(exprs, [](const ir::Expr& e) { return !e.is_constant(); });
    if (varies && symbols != nullptr) {
      return symbols->integers_of(exprs);
    }
    Json items = Json::array();
    for (const ir::Expr& expr : exprs) {
      items.push_back(constant_of(expr));
    }
    const c10::TypeKind kind = element();
    const char* tag =
        !exprs.empty() || kind == c10::TypeKind::IntType || kind == c10::TypeKind::SymIntType
            ? "as_ints"
        : kind == c10::TypeKind::FloatType  ? "as_floats"
        : kind == c10::TypeKind::BoolType   ? "as_bools"
        : kind == c10::TypeKind::TensorType ? "as_tensors"
                                            : "as_ints";
    return {{tag, items}};
  }
  Json operator()(double number) const { return {{"as_float", write_double(number)}}; }
  Json operator()(const std::vector<double>& numbers) const {
    Json items = Json::array();
    for (const double number : numbers) {
      items.push_back(write_double(number));
    }
    return {{"as_floats", items}};
  }
  Json operator()(bool flag) const { return {{"as_bool", flag}}; }
  Json operator()(const std::vector<bool>& flags) const { return {{"as_bools", flags}}; }
  Json operator()(const std::string& text) const { return {{"as_string", text}}; }
  Json operator()(const std::vector<std::string>& texts) const { return {{"as_strings", texts}}; }
  Json operator()(const std::complex<double>& number) const {
    return {{"as_complex",
             {{"real", write_double(number.real())}, {"imag", write_double(number.imag())}}}};
  }
  Json operator()(ir::DType dtype) const {
    return {{"as_scalar_type", write_scalar_type(static_cast<c10::ScalarType>(dtype))}};
  }
  Json operator()(ir::Device device) const {
    return {{"as_device", write_device(device_of(device))}};
  }
  Json operator()(ir::Layout layout) const {
    return {{"as_layout", write_layout(static_cast<c10::Layout>(layout))}};
  }
  Json operator()(ir::MemoryFormat format) const {
    return {{"as_memory_format", write_memory_format(static_cast<c10::MemoryFormat>(format))}};
  }
  Json operator()(ir::SubgraphRef nested) const {
    const ir::Graph& body = graph.subgraphs()[nested.index];
    return {{"as_graph",
             {{"name", body.name() + "_" + std::to_string(nested.index)},
              {"graph", write_nested(body)}}}};
  }
};

Json write_outputs(const ir::Graph& graph,
                   const ir::Node& node,
                   const c10::FunctionSchema& schema) {
  const std::size_t returns = schema.returns().size();
  std::size_t next = 0;
  Json outputs = Json::array();
  for (std::size_t i = 0; i < returns; ++i) {
    if (schema.returns()[i].real_type()->kind() != c10::TypeKind::ListType) {
      const ir::ValueId value = node.results.at(next++);
      outputs.push_back(write_value(graph, value));
      continue;
    }
    // What the others leave belongs to the list; no operator returns two lists.
    const std::size_t end = node.results.size() - (returns - 1 - i);
    Json items = Json::array();
    for (; next < end; ++next) {
      items.push_back(tensor_argument(graph, node.results[next]));
    }
    outputs.push_back({{"as_tensors", items}});
  }
  return outputs;
}

Json write_size(const ir::Expr& expr, const SymbolWriter* symbols) {
  return symbols != nullptr ? symbols->size_of(expr) : Json{{"as_int", constant_of(expr)}};
}

Json write_sizes(const std::vector<ir::Expr>& exprs, const SymbolWriter* symbols) {
  Json items = Json::array();
  for (const ir::Expr& expr : exprs) {
    items.push_back(write_size(expr, symbols));
  }
  return items;
}

Json write_meta(const ir::TensorMeta& meta, const SymbolWriter* symbols) {
  return {{"dtype", write_scalar_type(static_cast<c10::ScalarType>(meta.dtype))},
          {"sizes", write_sizes(meta.sizes, symbols)},
          {"requires_grad", meta.requires_grad},
          {"device", write_device(device_of(meta.device))},
          {"strides", write_sizes(meta.strides, symbols)},
          {"storage_offset", write_size(meta.offset, symbols)},
          {"layout", write_layout(c10::Layout::Strided)}};
}

Json write_metadata(const ir::Node& node) {
  Json metadata = Json::object();
  if (!node.provenance.source.empty()) {
    metadata["stack_trace"] = node.provenance.source;
  }
  return metadata;
}

// Python takes the results out of a tuple, which is a node of its own there: it must have a name
// that no value has.
std::string name_of_tuple(std::size_t position) {
  return "results_of_node_" + std::to_string(position);
}

// `cond` and `map`: Python's, which have no schema and return a tuple.
Json write_region(const ir::Graph& graph, std::size_t position, SymbolWriter* symbols) {
  const ir::Node& node = graph.nodes()[position];
  Json inputs = Json::array();
  for (const ir::Argument& argument : node.arguments) {
    inputs.push_back(
        {{"name", ""},
         {"arg", std::visit(ArgumentWriter{graph, c10::NoneType::get(), symbols}, argument)},
         {"kind", kPositional}});
  }
  Json outputs = Json::array();
  for (const ir::ValueId result : node.results) {
    outputs.push_back(write_value(graph, result));
  }
  const std::size_t length = node.target.size() - kDefault.size();
  return {{"target", "torch.ops." + node.target.substr(0, length)},
          {"inputs", std::move(inputs)},
          {"outputs", std::move(outputs)},
          {"metadata", write_metadata(node)},
          {"is_hop_single_tensor_return", false},
          {"name", name_of_tuple(position)}};
}

Json write_node(const ir::Graph& graph, std::size_t position, SymbolWriter* symbols) {
  const ir::Node& node = graph.nodes()[position];
  if (node.target.starts_with(kHigherOrder)) {
    return write_region(graph, position, symbols);
  }
  const auto handle =
      c10::Dispatcher::singleton().findSchema(capture::operator_name_of(node.target));
  if (!handle) {
    throw Error(ErrorCode::kUnsupported,
                "the operator " + node.target + " is not registered: it cannot be saved");
  }
  const c10::FunctionSchema& schema = handle->schema();
  if (schema.arguments().size() != node.arguments.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                node.target + " does not match its schema's arguments");
  }
  Json inputs = Json::array();
  for (std::size_t i = 0; i < node.arguments.size(); ++i) {
    const c10::Argument& formal = schema.arguments()[i];
    const ArgumentWriter writer{graph, without_optional(formal.real_type()), symbols};
    inputs.push_back({{"name", formal.name()},
                      {"arg", std::visit(writer, node.arguments[i])},
                      {"kind", formal.kwarg_only() ? kKeyword : kPositional}});
  }
  const bool single = schema.returns().size() == 1 &&
                      schema.returns()[0].real_type()->kind() == c10::TypeKind::TensorType;
  return {{"target", "torch.ops." + node.target},
          {"inputs", std::move(inputs)},
          {"outputs", write_outputs(graph, node, schema)},
          {"metadata", write_metadata(node)},
          {"is_hop_single_tensor_return", nullptr},
          {"name", single ? Json() : Json(name_of_tuple(position))}};
}

Json write_nested(const ir::Graph& body) {
  Json inputs = Json::array();
  for (const ir::Input& input : body.inputs()) {
    inputs.push_back(write_value(body, input.value));
  }
  Json outputs = Json::array();
  for (const ir::Output& output : body.outputs()) {
    outputs.push_back(write_value(body, output.value));
  }
  return write_graph(body, std::move(inputs), std::move(outputs), nullptr);
}

}  // namespace

Json tensor_argument(const ir::Graph& graph, ir::ValueId value) {
  return {{"name", graph.value(value).name}};
}

Json write_value(const ir::Graph& graph, ir::ValueId value) {
  return value.valid() ? Json{{"as_tensor", tensor_argument(graph, value)}}
                       : Json{{"as_none", true}};
}

Json write_graph(const ir::Graph& graph, Json inputs, Json outputs, SymbolWriter* symbols) {
  Json own = Json::array();
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    own.push_back(write_node(graph, i, symbols));
  }
  Json nodes = symbols != nullptr ? symbols->nodes() : Json::array();
  nodes.insert(nodes.end(), own.begin(), own.end());
  Json tensor_values = Json::object();
  for (const ir::Value& value : graph.values()) {
    if (!value.is_tensor()) {
      throw Error(ErrorCode::kUnsupported,
                  "a program that is passed an integer cannot be saved yet");
    }
    tensor_values[value.name] = write_meta(value.tensor(), symbols);
  }
  return {{"inputs", std::move(inputs)},
          {"outputs", std::move(outputs)},
          {"nodes", std::move(nodes)},
          {"tensor_values", std::move(tensor_values)},
          {"sym_int_values", symbols != nullptr ? symbols->integers() : Json::object()},
          {"sym_bool_values", Json::object()},
          {"is_single_tensor_return", false},
          {"custom_obj_values", Json::object()},
          {"sym_float_values", symbols != nullptr ? symbols->reals() : Json::object()}};
}

}  // namespace kiln::exporter
