// Bytes to a server and back, with a deadline for every wait.

#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "kiln/autograd_cache/redis_store.hpp"

namespace kiln::autograd_cache {

using Deadline = std::chrono::steady_clock::time_point;

/// Every member throws `Error` with `kIo` if the server is gone or the deadline passes.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual void write(std::string_view bytes, Deadline deadline) = 0;
  /// Waits for at least one byte; returns how many came.
  virtual std::size_t read(std::span<char> buffer, Deadline deadline) = 0;
};

/// A connection over TCP.
[[nodiscard]] std::unique_ptr<Transport> connect_socket(const RedisOptions& options,
                                                        Deadline deadline);

/// TLS over `beneath`: the server must show a certificate for `options.host`.
[[nodiscard]] std::unique_ptr<Transport> secure(std::unique_ptr<Transport> beneath,
                                                const RedisOptions& options,
                                                Deadline deadline);

}  // namespace kiln::autograd_cache
