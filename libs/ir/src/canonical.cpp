#include "kiln/ir/canonical.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <vector>

namespace kiln::ir {
namespace {

// Symbols by number instead of by name, in the order in which the inputs mention them alone: an
// expression of two symbols has its terms in the order of their names. Those that no input mentions
// alone follow by range, and then by name.
class SymbolNumbers {
 public:
  void add(const Graph& graph) {
    for (const Input& input : graph.inputs()) {
      const Value& value = graph.value(input.value);
      if (!value.is_tensor()) {
        add(std::get<SymIntMeta>(value.meta).expr);
        continue;
      }
      for (const Expr& size : value.tensor().sizes) {
        add(size);
      }
      for (const Expr& stride : value.tensor().strides) {
        add(stride);
      }
      add(value.tensor().offset);
    }
    std::vector<std::tuple<std::int64_t, std::int64_t, std::string>> others;
    for (const auto& [name, range] : graph.symbols()) {
      if (!numbers_.contains(name)) {
        others.emplace_back(range.low, range.high, name);
      }
    }
    std::sort(others.begin(), others.end());
    for (const auto& [low, high, name] : others) {
      of(name);
    }
  }

  std::size_t of(const std::string& name) {
    return numbers_.try_emplace(name, numbers_.size()).first->second;
  }

  // `expr`, an `Expr` or a `RealExpr`, as text.
  template <class T>
  std::string text_of(const T& expr) {
    return expr
        .substitute([this](const std::string& name) {
          return Expr::symbol("s" + std::to_string(of(name)));
        })
        .to_string();
  }

  // The same for what a graph has many of.
  const std::string& text_of(const Expr& expr) {
    const auto [entry, fresh] = texts_.try_emplace(expr);
    if (fresh) {
      entry->second = text_of<Expr>(expr);
    }
    return entry->second;
  }

 private:
  struct Hash {
    std::size_t operator()(const Expr& expr) const { return expr.hash(); }
  };

  void add(const Expr& expr) {
    if (const std::vector<std::string> names = expr.symbols(); names.size() == 1) {
      of(names.front());
    }
  }

  std::unordered_map<std::string, std::size_t> numbers_;
  std::unordered_map<Expr, std::string, Hash> texts_;
};

class Encoder {
 public:
  Encoder(const Graph& graph, const CanonicalOptions& options, SymbolNumbers& symbols)
      : graph_(graph), options_(options), symbols_(symbols), numbers_(graph.values().size(), 0) {
    symbols_.add(graph);
  }

  std::string run() {
    bytes_.reserve(graph_.nodes().size() * 64);
    const std::vector<NodeId> nodes = order();
    count_storages(nodes);
    // The first byte is the version of the format: keys of an older one never match.
    number(3);
    number(graph_.symbols().size());
    for (const auto& [symbol, name] : numbered(graph_.symbols())) {
      const Range& range = graph_.symbols().at(name);
      number(symbol);
      text(options_.symbol_names ? name : std::string());
      integer(range.low);
      integer(range.high);
    }
    const Bindings hints = options_.hints ? graph_.hints() : Bindings();
    number(hints.size());
    for (const auto& [symbol, name] : numbered(hints)) {
      number(symbol);
      integer(hints.at(name));
    }
    number(graph_.guards().size());
    for (const Guard& guard : graph_.guards()) {
      expr(guard.left);
      number(static_cast<std::uint64_t>(guard.relation));
      expr(guard.right);
    }
    number(graph_.subgraphs().size());
    for (const Graph& subgraph : graph_.subgraphs()) {
      text(Encoder(subgraph, options_, symbols_).run());
    }
    number(graph_.inputs().size());
    for (const Input& input : graph_.inputs()) {
      define(input.value);
      number(static_cast<std::uint64_t>(input.kind));
      text(options_.user_names ? input.name : std::string());
    }
    for (const NodeId node : nodes) {
      encode(graph_.node(node));
    }
    number(0);
    for (const Output& output : graph_.outputs()) {
      value(output.value);
      number(static_cast<std::uint64_t>(output.kind));
      number(output.input);
      text(options_.user_names ? output.name : std::string());
    }
    return std::move(bytes_);
  }

 private:
  void number(std::uint64_t value) {
    while (value >= 0x80) {
      bytes_ += static_cast<char>(value | 0x80);
      value >>= 7;
    }
    bytes_ += static_cast<char>(value);
  }

  void integer(std::int64_t value) {
    // Small numbers of either sign take one byte.
    number((static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63));
  }

  void text(std::string_view value) {
    number(value.size());
    bytes_ += value;
  }

  void real(double value) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    for (int shift = 0; shift < 64; shift += 8) {
      bytes_ += static_cast<char>(bits >> shift);
    }
  }

  void expr(const Expr& value) {
    if (const auto constant = value.constant()) {
      bytes_ += '\0';
      integer(*constant);
    } else {
      bytes_ += '\1';
      text(symbols_.text_of(value));
    }
  }

  // The names that `map` has, by number.
  template <class Map>
  std::map<std::size_t, std::string> numbered(const Map& map) {
    std::map<std::size_t, std::string> names;
    for (const auto& [name, unused] : map) {
      names.emplace(symbols_.of(name), name);
    }
    return names;
  }

  void value(ValueId id) { number(id.valid() ? numbers_[id.index()] : 0); }

  void count_storages(const std::vector<NodeId>& nodes) {
    const auto count = [this](ValueId id) {
      if (id.valid() && graph_.value(id).is_tensor() && graph_.tensor(id).storage.valid()) {
        ++shared_[graph_.tensor(id).storage];
      }
    };
    for (const Input& input : graph_.inputs()) {
      count(input.value);
    }
    for (const NodeId node : nodes) {
      for (const ValueId result : graph_.node(node).results) {
        count(result);
      }
    }
  }

  /// A storage that one value alone has says nothing.
  void storage(StorageId id) {
    const auto found = id.valid() ? shared_.find(id) : shared_.end();
    if (found == shared_.end() || found->second < 2) {
      number(0);
      return;
    }
    const auto [entry, fresh] = storages_.try_emplace(id, storages_.size() + 1);
    number(entry->second);
  }

  void define(ValueId id) {
    numbers_[id.index()] = ++defined_;
    if (const auto* integer_meta = std::get_if<SymIntMeta>(&graph_.value(id).meta)) {
      bytes_ += 'i';
      expr(integer_meta->expr);
      return;
    }
    const TensorMeta& meta = graph_.tensor(id);
    bytes_ += 't';
    bytes_ += static_cast<char>(meta.dtype);
    bytes_ += static_cast<char>(meta.device.type);
    bytes_ += static_cast<char>(meta.device.index);
    bytes_ += static_cast<char>((meta.requires_grad ? 1 : 0) | (meta.conjugate ? 2 : 0) |
                                (meta.negative ? 4 : 0));
    number(meta.sizes.size());
    for (std::size_t i = 0; i < meta.sizes.size(); ++i) {
      expr(meta.sizes[i]);
      expr(meta.strides[i]);
    }
    expr(meta.offset);
    storage(meta.storage);
  }

  template <class T>
  void item(const T& argument) {
    if constexpr (std::is_same_v<T, ValueId>) {
      value(argument);
    } else if constexpr (std::is_same_v<T, Expr>) {
      expr(argument);
    } else if constexpr (std::is_same_v<T, double>) {
      real(argument);
    } else if constexpr (std::is_same_v<T, RealExpr>) {
      text(symbols_.text_of<RealExpr>(argument));
    } else if constexpr (std::is_same_v<T, std::complex<double>>) {
      real(argument.real());
      real(argument.imag());
    } else if constexpr (std::is_same_v<T, std::string>) {
      text(argument);
    } else if constexpr (std::is_same_v<T, Device>) {
      bytes_ += static_cast<char>(argument.type);
      bytes_ += static_cast<char>(argument.index);
    } else if constexpr (std::is_same_v<T, SubgraphRef>) {
      number(argument.index);
    } else if constexpr (std::is_enum_v<T> || std::is_same_v<T, bool>) {
      bytes_ += static_cast<char>(argument);
    } else if constexpr (!std::is_same_v<T, std::monostate>) {
      number(argument.size());
      for (const auto& element : argument) {
        item<typename T::value_type>(element);
      }
    }
  }

  void encode(const Node& node) {
    text(node.target);
    number(node.arguments.size());
    for (const Argument& argument : node.arguments) {
      bytes_ += static_cast<char>(argument.index());
      std::visit([this](const auto& held) { item(held); }, argument);
    }
    bytes_ += static_cast<char>((node.random ? 1 : 0) | (node.effectful ? 2 : 0) |
                                (node.grad_mode ? 4 : 0) | (node.autocast ? 8 : 0) |
                                (node.backward ? 16 : 0));
    number(node.mutates.size());
    for (const std::uint32_t argument : node.mutates) {
      number(argument);
    }
    number(node.aliases.size());
    for (const Alias& alias : node.aliases) {
      number(alias.result);
      number(alias.argument);
    }
    number(node.results.size());
    for (const ValueId result : node.results) {
      bytes_ += static_cast<char>(result.valid());
      if (result.valid()) {
        define(result);
      }
    }
  }

  /// Program order if a node mutates. Else nodes as they are first needed, by what must run in
  /// order and by the outputs.
  [[nodiscard]] std::vector<NodeId> order() const {
    std::vector<NodeId> nodes;
    nodes.reserve(graph_.nodes().size());
    const bool mutates = std::any_of(graph_.nodes().begin(),
                                     graph_.nodes().end(),
                                     [](const Node& node) { return !node.mutates.empty(); });
    if (mutates) {
      for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
        nodes.push_back(NodeId(i));
      }
      return nodes;
    }
    std::vector<std::uint8_t> seen(graph_.nodes().size(), 0);
    std::vector<NodeId> stack;
    const auto need = [&](NodeId root) {
      stack.push_back(root);
      while (!stack.empty()) {
        const NodeId node = stack.back();
        if (seen[node.index()] != 0) {
          stack.pop_back();
          if (seen[node.index()] == 1) {
            seen[node.index()] = 2;
            nodes.push_back(node);
          }
          continue;
        }
        seen[node.index()] = 1;
        const std::size_t first = stack.size();
        for_each_operand(graph_.node(node), [&](ValueId operand) {
          const NodeId producer = graph_.value(operand).producer;
          if (producer.valid() && seen[producer.index()] == 0) {
            stack.push_back(producer);
          }
        });
        std::reverse(stack.begin() + static_cast<std::ptrdiff_t>(first), stack.end());
      }
    };
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      if (graph_.nodes()[i].random || graph_.nodes()[i].effectful) {
        need(NodeId(i));
      }
    }
    for (const Output& output : graph_.outputs()) {
      if (output.value.valid() && graph_.value(output.value).producer.valid()) {
        need(graph_.value(output.value).producer);
      }
    }
    return nodes;
  }

  const Graph& graph_;
  const CanonicalOptions& options_;
  SymbolNumbers& symbols_;
  std::string bytes_;
  std::vector<std::uint32_t> numbers_;  // By value, in the order of definition, from 1.
  std::uint32_t defined_ = 0;
  std::unordered_map<StorageId, std::uint32_t> shared_;
  std::unordered_map<StorageId, std::size_t> storages_;
};

}  // namespace

std::string canonical_bytes(const Graph& graph, const CanonicalOptions& options) {
  SymbolNumbers symbols;
  return Encoder(graph, options, symbols).run();
}

Digest digest_of(const Graph& graph, const CanonicalOptions& options) {
  return digest(canonical_bytes(graph, options));
}

}  // namespace kiln::ir
