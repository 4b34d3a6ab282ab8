// Writes a zip file whose members are stored as they are, each on a boundary that it can be mapped
// from.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "bytes.hpp"
#include "checksum.hpp"

namespace kiln::container_runtime {

/// libtorch's own writer wants a member in one piece in memory; this one takes it in parts, as
/// weights lie in the files that they come from, and sums them up while they are written.
class StoredZip {
 public:
  /// Creates `path`. Like everything here, throws `Error` with `kIo` where the disk fails.
  explicit StoredZip(const std::filesystem::path& path);
  ~StoredZip();
  StoredZip(const StoredZip&) = delete;
  StoredZip& operator=(const StoredZip&) = delete;

  /// A member that is the concatenation of `parts`.
  void add(std::string name, std::span<const Bytes> parts);
  void add(std::string name, std::string_view bytes);

  /// A member whose first `room` bytes come last. Until `complete` there is no other.
  void begin(std::string name, std::uint64_t room);
  /// More of that member. Ends early once `stop` is requested: then only for being thrown away.
  void append(std::span<const Bytes> parts, const std::stop_token& stop = {});
  /// Its beginning: `head`, and zeros for what is left of the room.
  void complete(Bytes head);

  /// Of the member that was added or completed last.
  [[nodiscard]] SizedChecksum last_checksum() const;

  /// A number that tells what was added so far from anything else: of the names, and of the bytes.
  [[nodiscard]] std::string identification() const;

  /// Writes the directory. Nothing can be added after it.
  void finish();

 private:
  struct Member {
    std::string name;
    std::uint64_t offset = 0;
    std::uint64_t room = 0;      // Bytes that come last,
    std::uint64_t bytes = 0;     // and all of them.
    bool is_large = false;       // Its size has 64 bits.
    std::uint32_t checksum = 0;  // Of what is behind the room, until it is complete.
  };

  static std::string local_header(const Member& member);
  static std::string directory_entry(const Member& member);
  [[nodiscard]] std::string directory_end(std::uint64_t begin) const;
  void put_member(Member member);
  void write(Bytes bytes);
  void write_at(std::uint64_t offset, Bytes bytes);

  std::filesystem::path path_;
  int file_;
  std::uint64_t position_ = 0;
  std::vector<Member> members_;
};

}  // namespace kiln::container_runtime
