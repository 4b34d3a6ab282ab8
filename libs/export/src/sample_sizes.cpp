#include "sample_sizes.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <set>
#include <utility>

namespace kiln::exporter {
namespace {

constexpr std::size_t kSamples = 12;

bool is_prime(std::int64_t number) {
  for (std::int64_t divisor = 2; divisor * divisor <= number; ++divisor) {
    if (number % divisor == 0) {
      return false;
    }
  }
  return number >= 2;
}

// Only sizes with different residues distinguish n // 2 and n % 8 from other expressions of n.
bool has_kind(std::int64_t size, std::size_t kind) {
  switch (kind % 6) {
    case 0: return is_prime(size);
    case 1: return size % 8 == 0;
    case 2: return size % 4 == 2;
    case 3: return size % 2 == 1 && !is_prime(size);
    case 4: return size % 64 == 0;
    default: return size % 3 == 0 && size % 2 == 0;
  }
}

// From small to large, evenly on a logarithmic scale; as close to that as the kind allows.
std::vector<std::int64_t> sizes_between(std::int64_t low, std::int64_t high) {
  std::vector<std::int64_t> sizes;
  std::set<std::int64_t> taken;
  for (std::size_t i = 0; i < kSamples; ++i) {
    const double share = static_cast<double>(i) / (kSamples - 1);
    const auto wanted =
        static_cast<std::int64_t>(std::lround(std::pow(static_cast<double>(low), 1 - share) *
                                              std::pow(static_cast<double>(high), share)));
    std::int64_t best = -1;
    for (const bool of_kind : {true, false}) {
      for (std::int64_t away = 0; best < 0 && away <= high - low; ++away) {
        for (const std::int64_t size : {wanted + away, wanted - away}) {
          const bool near = !of_kind || away <= wanted / 2 + 2;
          if (best < 0 && near && size >= low && size <= high && !taken.contains(size) &&
              (!of_kind || has_kind(size, i))) {
            best = size;
          }
        }
      }
    }
    if (best < 0) {
      break;  // All of them are taken.
    }
    taken.insert(best);
    sizes.push_back(best);
  }
  return sizes;
}

// Which of its `count` sizes a symbol has in sample `i`. The first symbols go through theirs with a
// step each, so that no two go together. There are no more such steps: other symbols have an order
// that is shuffled for each, and again each time they are through.
std::size_t position_in(std::size_t count, std::size_t symbol, std::size_t i) {
  constexpr std::size_t kSteps[] = {1, 5, 7, 11};
  if (symbol < std::size(kSteps)) {
    return (i * kSteps[symbol] + symbol * 3 + i / count) % count;
  }
  std::mt19937 random(static_cast<std::uint32_t>(symbol * kSamples + i / count));
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t last = count - 1; last > 0; --last) {
    std::swap(order[last], order[random() % (last + 1)]);
  }
  return order[i % count];
}

}  // namespace

std::vector<ir::Bindings> sample_sizes(
    const ir::Ranges& ranges,
    const ir::Bindings& hint,
    const std::function<bool(const ir::Bindings&)>& is_affordable) {
  std::vector<ir::Bindings> samples;
  std::set<ir::Bindings> taken;
  const auto add = [&](const ir::Bindings& sample) {
    if (is_affordable(sample) && taken.insert(sample).second) {
      samples.push_back(sample);
    }
  };
  const bool is_ordinary = std::ranges::all_of(hint, [&](const auto& entry) {
    const ir::Range& range = ranges.find(entry.first)->second;
    return entry.second >= std::max<std::int64_t>(range.low, 2) && entry.second <= range.high;
  });
  if (is_ordinary) {
    add(hint);
  }
  ir::Bindings reach;
  for (const auto& [name, range] : ranges) {
    reach[name] =
        std::min(range.high, std::max<std::int64_t>({128, 2 * range.low, 3 * hint.at(name)}));
    // The end of a range has a path of its own where it is all of something (a slice that ends at a
    // position): whoever looks at ends decides whether it belongs to the others.
    constexpr std::int64_t kEnough = 7;
    if (reach[name] == range.high && range.high - std::max<std::int64_t>(range.low, 2) >= kEnough) {
      --reach[name];
    }
  }
  std::size_t longest = 0;
  std::map<std::string, std::vector<std::int64_t>> sizes;
  for (const auto& [name, range] : ranges) {
    sizes[name] = sizes_between(std::max<std::int64_t>(range.low, 2), reach[name]);
    longest = std::max(longest, sizes[name].size());
  }
  // Where there are several symbols more combinations are needed than there are sizes.
  const std::size_t rounds = ranges.size() == 1 ? longest : kSamples + 2 * ranges.size();
  for (std::size_t i = 0; i < rounds; ++i) {
    ir::Bindings sample;
    std::size_t symbol = 0;
    for (const auto& [name, own] : sizes) {
      if (own.empty()) {
        return {};
      }
      sample[name] = own[position_in(own.size(), symbol++, i)];
    }
    add(sample);
  }
  return samples;
}

}  // namespace kiln::exporter
