// What happened through all caches of a directory, whichever processes they were in.

#pragma once

#include <filesystem>

#include "kiln/autograd_cache/counters.hpp"

namespace kiln::autograd_cache {

/// Adds `counters` to what `root` remembers. What is damaged there starts from zero.
void add_to_totals(const std::filesystem::path& root, const Counters& counters);

/// What `root` remembers.
[[nodiscard]] Counters read_totals(const std::filesystem::path& root);

void clear_totals(const std::filesystem::path& root);

}  // namespace kiln::autograd_cache
