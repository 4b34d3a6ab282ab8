#include "kiln/base/memory_plan.hpp"

#include <cstdint>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "kiln/testing/catch2.hpp"

namespace kiln {
namespace {

// The most bytes that are alive in any one step, each buffer rounded up to the alignment. No plan
// is smaller.
std::size_t peak_bytes(const std::vector<Lifetime>& lifetimes) {
  std::map<std::uint32_t, std::pair<std::size_t, std::size_t>> changes;  // step -> born, died
  for (const Lifetime& lifetime : lifetimes) {
    const std::size_t bytes =
        (lifetime.bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
    changes[lifetime.first].first += bytes;
    changes[lifetime.last + 1].second += bytes;
  }
  std::size_t alive = 0;
  std::size_t peak = 0;
  for (const auto& [step, change] : changes) {
    alive = alive - change.second + change.first;
    peak = std::max(peak, alive);
  }
  return peak;
}

// What a network does: most buffers die soon, a few (saved, residual) live long.
std::vector<Lifetime> random_lifetimes(std::uint32_t seed, int count) {
  std::mt19937 random(seed);
  std::vector<Lifetime> lifetimes;
  for (int i = 0; i < count; ++i) {
    const auto first = static_cast<std::uint32_t>(i);
    const std::uint32_t length = random() % 8 == 0 ? random() % 50 : 1 + random() % 3;
    lifetimes.push_back({first, first + length, (random() % 64) * (random() % 512)});
  }
  return lifetimes;
}

TEST_CASE("buffers that are alive together do not overlap", "[base][memory_plan]") {
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    const std::vector<Lifetime> lifetimes = random_lifetimes(seed, 120);

    const MemoryPlan plan = plan_memory(lifetimes);

    REQUIRE(plan.offsets.size() == lifetimes.size());
    for (std::size_t a = 0; a < lifetimes.size(); ++a) {
      CHECK(plan.offsets[a] % kArenaAlignment == 0);
      CHECK(plan.offsets[a] + lifetimes[a].bytes <= plan.bytes);
      for (std::size_t b = a + 1; b < lifetimes.size(); ++b) {
        if (alive_together(lifetimes[a], lifetimes[b]) && lifetimes[a].bytes &&
            lifetimes[b].bytes) {
          const bool apart = plan.offsets[a] + lifetimes[a].bytes <= plan.offsets[b] ||
                             plan.offsets[b] + lifetimes[b].bytes <= plan.offsets[a];
          REQUIRE(apart);
        }
      }
    }
  }
}

TEST_CASE("an arena is close to the peak that no plan can beat", "[base][memory_plan]") {
  double worst = 0;
  double total = 0;
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    const std::vector<Lifetime> lifetimes = random_lifetimes(seed, 200);
    const double ratio = static_cast<double>(plan_memory(lifetimes).bytes) /
                         static_cast<double>(peak_bytes(lifetimes));
    CHECK(ratio >= 1.0);
    worst = std::max(worst, ratio);
    total += ratio;
  }

  CHECK(worst < 1.25);
  CHECK(total / 50 < 1.08);
}

TEST_CASE("a chain of equal buffers takes two of them", "[base][memory_plan]") {
  std::vector<Lifetime> lifetimes;
  for (std::uint32_t i = 0; i < 20; ++i) {
    lifetimes.push_back({i, i + 1, 1000});
  }

  CHECK(plan_memory(lifetimes).bytes == 2 * 1024);
  CHECK(peak_bytes(lifetimes) == 2 * 1024);
}

TEST_CASE("nothing and empty buffers take no memory", "[base][memory_plan]") {
  CHECK(plan_memory({}).bytes == 0);
  CHECK(plan_memory(std::vector<Lifetime>{{0, 3, 0}, {1, 2, 0}}).bytes == 0);
}

}  // namespace
}  // namespace kiln
