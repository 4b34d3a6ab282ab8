#include "totals.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "byte_stream.hpp"
#include "file_lock.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"

namespace kiln::autograd_cache {
namespace fs = std::filesystem;

namespace {

constexpr const char* kName = "totals";
constexpr std::string_view kMagic = "KILNTOTL";
constexpr std::uint32_t kVersion = 1;
// Programs make their reasons up: a bounded number of them is remembered.
constexpr std::size_t kMostReasons = 100;

std::string serialize(const Counters& counters) {
  ByteWriter writer;
  writer.raw(kMagic);
  writer.number(kVersion);
  writer.number<std::uint64_t>(kCounterNames.size());
  for (const CounterName& counter : kCounterNames) {
    writer.number(counters.*counter.member);
  }
  writer.number<std::uint64_t>(counters.bypass_reasons.size());
  for (const auto& [reason, count] : counters.bypass_reasons) {
    writer.text(reason);
    writer.number(count);
  }
  std::string bytes = writer.take();
  ByteWriter checksum;
  checksum.digest(digest(bytes));
  return bytes + checksum.take();
}

Counters parse(std::string_view bytes) {
  constexpr std::size_t kChecksum = sizeof(Digest::bytes);
  if (bytes.size() < kChecksum) {
    return {};
  }
  const std::string_view body = bytes.substr(0, bytes.size() - kChecksum);
  ByteReader checksum(std::as_bytes(std::span(bytes.substr(body.size()))));
  ByteReader reader(std::as_bytes(std::span(body)));
  Counters counters;
  if (checksum.digest() != digest(body) || reader.raw(kMagic.size()) != kMagic ||
      reader.number<std::uint32_t>() != kVersion ||
      reader.number<std::uint64_t>() != kCounterNames.size()) {
    return {};
  }
  for (const CounterName& counter : kCounterNames) {
    counters.*counter.member = reader.number<std::uint64_t>();
  }
  for (auto count = reader.number<std::uint64_t>(); count > 0; --count) {
    std::string reason(reader.text());
    counters.bypass_reasons.emplace(std::move(reason), reader.number<std::uint64_t>());
  }
  return counters;
}

}  // namespace

void add_to_totals(const fs::path& root, const Counters& counters) {
  const auto lock = FileLock::acquire(root / "totals.lock", std::chrono::seconds(1));
  if (!lock) {
    return;
  }
  Counters sum = read_totals(root);
  for (const CounterName& counter : kCounterNames) {
    sum.*counter.member += counters.*counter.member;
  }
  for (const auto& [reason, count] : counters.bypass_reasons) {
    if (sum.bypass_reasons.size() < kMostReasons || sum.bypass_reasons.contains(reason)) {
      sum.bypass_reasons[reason] += count;
    }
  }
  try {
    write_file_atomically(root / kName, serialize(sum), Durability::kEventual, Writers::kOwnerOnly);
  } catch (const Error&) {
    return;  // The cache works without its statistics.
  }
}

Counters read_totals(const fs::path& root) {
  try {
    return parse(read_file(root / kName));
  } catch (const Error&) {
    return {};
  }
}

void clear_totals(const fs::path& root) {
  ::unlink((root / kName).c_str());
}

}  // namespace kiln::autograd_cache
