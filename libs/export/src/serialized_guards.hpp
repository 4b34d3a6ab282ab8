// What an archive says must hold of its sizes: the Python texts of `guards_code`.

#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kiln/ir/guard.hpp"
#include "serialized_types.hpp"

namespace kiln::exporter {

/// A guard that is not a relation between integers, as "a == 2 or b == 3".
struct UnreadGuard {
  std::string text;                  ///< As the archive has it.
  std::vector<std::string> symbols;  ///< That its sizes mention.
  bool is_complete = true;           ///< Whether those are all: each of its inputs was found.
};

/// The guards of an archive.
struct ArchivedGuards {
  std::vector<ir::Guard> guards;
  std::vector<UnreadGuard> unread;
};

/// The size of a dimension of the input that has this name in the graph, or without one the integer
/// that the input is; nothing if there is none.
using SizeOf = std::function<std::optional<ir::Expr>(const std::string& input,
                                                     std::optional<std::size_t> dim)>;

/// Reads "L['x'].size()[0] % 2 == 0" and the like.
[[nodiscard]] ArchivedGuards read_guards(const Json& guards_code, const SizeOf& size_of);

}  // namespace kiln::exporter
