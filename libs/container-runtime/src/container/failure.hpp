// How the container reports failure: exceptions inside, codes and a message per thread outside.

#pragma once

#include <cstdint>
#include <exception>
#include <stdexcept>

namespace kiln::container {

/// What the container throws; it never leaves the library.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Remembers `message` for AOTInductorGetLastError and prints it: hosts older than that entry have
/// nothing but standard error.
void record_failure(const char* message) noexcept;

/// Forgets the calling thread's last failure.
void clear_failure() noexcept;

/// The calling thread's last failure; empty if its last call succeeded.
[[nodiscard]] const char* last_failure() noexcept;

/// Runs the body of an entry: 0, or 1 with the message recorded.
template <class Body>
std::int32_t guarded(Body&& body) noexcept {
  try {
    clear_failure();
    body();
    return 0;
  } catch (const std::exception& error) {
    record_failure(error.what());
  } catch (...) {
    record_failure("an exception that is not a std::exception");
  }
  return 1;
}

}  // namespace kiln::container
