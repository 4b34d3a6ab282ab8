// Options for tests that are to compile.

#pragma once

#include "kiln/jit/options.hpp"

namespace kiln {

/// What a call past `max_versions` does.
enum class PastMaxVersions { kEager, kError };

inline CompileOptions uncached(PastMaxVersions past = PastMaxVersions::kEager) {
  CompileOptions options;
  options.use_cache = false;
  options.error_at_max_versions = past == PastMaxVersions::kError;
  return options;
}

/// The same, and never traced again to look for changes.
inline CompileOptions traced_once() {
  CompileOptions options = uncached();
  options.retrace = Retrace::kNever;
  return options;
}

}  // namespace kiln
