// Options for tests that are to compile.

#pragma once

#include "kiln/jit/options.hpp"

namespace kiln {

inline CompileOptions uncached() {
  CompileOptions options;
  options.use_cache = false;
  return options;
}

}  // namespace kiln
