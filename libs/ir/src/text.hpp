// The words of the text form that several writers share.

#pragma once

#include <string>
#include <string_view>

#include "kiln/ir/graph.hpp"

namespace kiln::ir {

/// The shortest text that reads back as `value`; never that of an integer.
void append_double(double value, std::string* out);
/// In quotes, with escapes for quotes, backslashes and control characters.
void append_quoted(std::string_view text, std::string* out);
void append_expr(const Expr& expr, std::string* out);
/// "%name", or "none".
void append_value(const Graph& graph, ValueId id, std::string* out);
void append_argument(const Graph& graph, const Argument& argument, std::string* out);
/// "f32[8, 16]{1, 8}@3#2 cuda:0 conj neg", and " grad" if `with_grad`.
void append_type(const ValueMeta& meta, bool with_grad, std::string* out);

}  // namespace kiln::ir
