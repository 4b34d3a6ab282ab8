// Names for code that a cache cannot look into: custom operators, functions of the program.

#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kiln::autograd_cache {

/// Says that what is called `name` ("mylib::scale", or "mylib" for all of that library) behaves
/// from now on as `identity` names it. Change the identity when the behaviour changes: programs
/// that use it are cached under it. Callable from many threads.
void declare_identity(std::string name, std::string identity);

/// What was declared for `name`, else for the namespace before its "::"; nothing if neither was.
[[nodiscard]] std::optional<std::string> identity_of(std::string_view name);

}  // namespace kiln::autograd_cache
