#include "container/failure.hpp"

#include <cstdio>
#include <cstring>

namespace kiln::container {
namespace {

// Fixed and trivial: a thread-local with a destructor would keep the library from being unloaded,
// and a message must not need memory when memory is what ran out.
thread_local char message_of_thread[2048];

}  // namespace

void record_failure(const char* message) noexcept {
  std::strncpy(message_of_thread, message, sizeof(message_of_thread) - 1);
  std::fprintf(stderr, "Error: %s\n", message_of_thread);
}

void clear_failure() noexcept {
  message_of_thread[0] = '\0';
}

const char* last_failure() noexcept {
  return message_of_thread;
}

}  // namespace kiln::container
