// The Redis serialization protocol, version 2: commands out, replies in.

#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "transport.hpp"

namespace kiln::autograd_cache {

/// What a server answered.
struct RedisReply {
  enum class Kind { kNothing, kText, kInteger, kError, kList };
  Kind kind = Kind::kNothing;
  std::string text = {};  ///< Of `kText` and `kError`.
  std::int64_t integer = 0;
  std::vector<RedisReply> items = {};
};

/// The bytes of a command.
[[nodiscard]] std::string format_command(std::initializer_list<std::string_view> words);

/// Reads replies off a transport.
class ReplyReader {
 public:
  /// No reply may be larger than `largest` bytes: whatever length a server claims, memory is only
  /// taken for what has arrived.
  ReplyReader(Transport& transport, std::size_t largest)
      : transport_(transport), largest_(largest) {}

  /// Throws `Error`: `kIo` where the transport does, `kCorrupt` where the server talks nonsense.
  [[nodiscard]] RedisReply read(Deadline deadline);

  /// How many bytes of replies have arrived so far.
  [[nodiscard]] std::uint64_t received() const { return received_in_all_; }

 private:
  RedisReply parse(int depth, Deadline deadline);
  std::string line(Deadline deadline);
  std::string exactly(std::size_t count, Deadline deadline);
  void receive(Deadline deadline);

  Transport& transport_;
  std::size_t largest_;
  std::size_t received_ = 0;  // For the reply being read.
  std::uint64_t received_in_all_ = 0;
  std::string buffer_;
  std::size_t position_ = 0;  // In `buffer_`: what is before it has been read.
};

}  // namespace kiln::autograd_cache
