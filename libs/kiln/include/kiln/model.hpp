// Loaded packages: Kiln's own, or AOTInductor's.

#pragma once

#include <filesystem>

#include "kiln/container_runtime/runner.hpp"

namespace kiln {

/// A loaded model: `run`, `run_async`, `run_multiple`, `constants`, `update_constants`,
/// `swap_constants`, …
using Model = container_runtime::Runner;
/// How a model is loaded.
using LoadOptions = container_runtime::RunnerOptions;

/// Loads a package (`.pt2`) or a model library (`.so`).
[[nodiscard]] inline Model load(const std::filesystem::path& package_or_so,
                                LoadOptions options = {}) {
  return Model(package_or_so, std::move(options));
}

}  // namespace kiln
