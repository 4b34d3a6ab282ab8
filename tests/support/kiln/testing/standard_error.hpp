// What a test's subject writes to standard error.

#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"

namespace kiln::testing {

/// What `action` writes, by whatever means.
std::string standard_error_of(const auto& action) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "error";
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  const int saved = ::dup(STDERR_FILENO);
  ::dup2(file, STDERR_FILENO);
  ::close(file);
  action();
  ::dup2(saved, STDERR_FILENO);
  ::close(saved);
  return read_file(path);
}

}  // namespace kiln::testing
