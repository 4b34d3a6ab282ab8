// Operators whose calls must happen, whatever becomes of their results.

#pragma once

#include <string>

namespace kiln::capture {

/// Declares that calls of the operator `name` ("mylib::log", every overload) have an effect that no
/// result shows. They stay in the graph, in order, once per call: none is left out because nobody
/// uses its results, merged with an equal one, or computed again for a backward.
///
/// Operators that return nothing, print, assert or communicate count as effects by themselves. To
/// be called before the program is traced.
void declare_effect(std::string name);

}  // namespace kiln::capture
