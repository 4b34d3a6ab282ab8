// Memory of an instance whose sizes vary, planned when they are known.

#include <algorithm>
#include <cstdint>
#include <new>
#include <vector>

#include "kiln/base/memory_plan.hpp"
#include "kiln/container_runtime/model.h"

extern "C" std::int64_t kiln_plan_arena(const KilnLifetime* lifetimes,
                                        const std::int64_t* bytes,
                                        std::int32_t count,
                                        std::int64_t* offsets) {
  try {
    std::vector<kiln::Lifetime> wanted;
    for (std::int32_t i = 0; i < count; ++i) {
      wanted.push_back({static_cast<std::uint32_t>(lifetimes[i].first),
                        static_cast<std::uint32_t>(lifetimes[i].last),
                        static_cast<std::size_t>(std::max<std::int64_t>(bytes[i], 0))});
    }
    const kiln::MemoryPlan plan = kiln::plan_memory(wanted);
    std::copy(plan.offsets.begin(), plan.offsets.end(), offsets);
    return static_cast<std::int64_t>(plan.bytes);
  } catch (const std::bad_alloc&) {
    return -1;
  }
}
