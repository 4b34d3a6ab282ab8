// What a cache counts.

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

namespace kiln::autograd_cache {

/// What happened through one `Cache`, or through all caches of a directory.
struct Counters {
  std::uint64_t hit = 0;             ///< Wherever the entry was found.
  std::uint64_t memory_hit = 0;      ///< Of those: this process had it.
  std::uint64_t remote_hit = 0;      ///< Of those: it came from the remote tier.
  std::uint64_t miss = 0;            ///< No entry under the key, or none that can be used.
  std::uint64_t guard_miss = 0;      ///< Entries under the key, but none whose guards hold.
  std::uint64_t bypass = 0;          ///< Programs that cannot be cached.
  std::uint64_t saved = 0;           ///< Entries that were stored.
  std::uint64_t failed = 0;          ///< Saves that did not succeed.
  std::uint64_t corrupt = 0;         ///< Damaged files found and removed.
  std::uint64_t evicted = 0;         ///< Files removed to stay within the limit.
  std::uint64_t remote_fault = 0;    ///< Times the remote tier failed, which turns it off.
  std::uint64_t remote_refused = 0;  ///< Remote values that are damaged or not signed with our key.
  /// Bypasses by what `Cache::bypass` was told.
  std::map<std::string, std::uint64_t> bypass_reasons = {};
};

/// A counter, by the name that reports give it.
struct CounterName {
  const char* name;                  ///< As reports write it.
  std::uint64_t Counters::* member;  ///< The counter itself.
};

/// Every counter but the bypasses by reason.
inline constexpr std::array kCounterNames = {
    CounterName{"hit", &Counters::hit},
    CounterName{"memory_hit", &Counters::memory_hit},
    CounterName{"remote_hit", &Counters::remote_hit},
    CounterName{"miss", &Counters::miss},
    CounterName{"guard_miss", &Counters::guard_miss},
    CounterName{"bypass", &Counters::bypass},
    CounterName{"saved", &Counters::saved},
    CounterName{"failed", &Counters::failed},
    CounterName{"corrupt", &Counters::corrupt},
    CounterName{"evicted", &Counters::evicted},
    CounterName{"remote_fault", &Counters::remote_fault},
    CounterName{"remote_refused", &Counters::remote_refused},
};

}  // namespace kiln::autograd_cache
