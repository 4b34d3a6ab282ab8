// What a caller asked for and cannot have.

#pragma once

#include <string>

#include "kiln/base/error.hpp"

namespace kiln::exporter {

[[noreturn]] inline void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

}  // namespace kiln::exporter
