// Numbers of an archive that depend on sizes: the nodes that compute them, and sympy's text.

#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kiln/export/exported_program.hpp"
#include "kiln/ir/symbol_sources.hpp"
#include "serialized_types.hpp"

namespace kiln::exporter {

/// Writes symbolic numbers of a program's graph. Python takes them from nodes, which come before
/// all others.
class SymbolWriter {
 public:
  /// Throws `kUnsupported` naming a guard of the graph, which cannot be written, or a symbol that
  /// no size of an input determines.
  explicit SymbolWriter(const ExportedProgram& program);

  /// A size, stride or offset, as the metadata of a tensor has it.
  [[nodiscard]] Json size_of(const ir::Expr& expr) const;
  /// An argument that is an integer.
  [[nodiscard]] Json integer(const ir::Expr& expr);
  /// An argument that is a list of integers.
  [[nodiscard]] Json integers_of(const std::vector<ir::Expr>& exprs);
  /// An argument that is no integer. Throws `kUnsupported` for one that Python does not compute.
  [[nodiscard]] Json real(const ir::RealExpr& real);

  /// What computes all that was asked for, in order.
  [[nodiscard]] const Json& nodes() const { return nodes_; }
  [[nodiscard]] const Json& integers() const { return integers_; }  ///< schema.py's `SymInt`s.
  [[nodiscard]] const Json& reals() const { return reals_; }        ///< schema.py's `SymFloat`s.
  /// The ranges of the symbols.
  [[nodiscard]] Json range_constraints() const;

 private:
  [[nodiscard]] std::string python_text(const ir::LinearForm& form) const;
  [[nodiscard]] std::string symbol_text(const std::string& symbol) const;
  [[nodiscard]] std::string text_of(const ir::RealExpr& real) const;
  [[nodiscard]] std::string name_of(const ir::Expr& expr);
  std::string call(const std::string& target,
                   const char* tag,
                   const std::vector<std::pair<std::string, Json>>& arguments);

  const ir::Graph& graph_;
  ir::Bindings hints_;
  std::map<std::string, std::string> python_names_;
  std::set<std::string> taken_;               // Names of values.
  std::map<std::string, std::string> known_;  // From the text of a number to what computes it.
  Json nodes_ = Json::array();
  Json integers_ = Json::object();
  Json reals_ = Json::object();
  int next_ = 0;
};

}  // namespace kiln::exporter
