#include "schedule/merge_segments.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "schedule/transpose_tiling.hpp"

namespace kiln::codegen {
namespace {

constexpr std::size_t kMaxMerged = 4;       // Each has vectors of its own in registers.
constexpr std::int64_t kLongestVector = 8;  // Elements of the longest vectors.

// Expressions of the inner variable as those of one that begins `begin` later.
class Shift {
 public:
  Shift(ScalarPool& pool, Extents extents, std::int64_t begin)
      : pool_(pool),
        extents_(extents),
        variables_{Index::variable(kOuter),
                   Index::variable(kMiddle),
                   Index::variable(kInner) + Index(begin)} {}

  ScalarId operator()(ScalarId id) {
    if (const auto known = known_.find(id); known != known_.end()) {
      return known->second;
    }
    Scalar scalar = pool_[id];
    for (ScalarId& operand : scalar.operands) {
      operand = (*this)(operand);
    }
    for (Index& index : scalar.indices) {
      index = (*this)(index);
    }
    const ScalarId shifted = pool_.add(std::move(scalar));
    known_.emplace(id, shifted);
    return shifted;
  }

  Index operator()(const Index& index) {
    return substitute(
        index, variables_, extents_, [this](ScalarId computed) { return (*this)(computed); });
  }

 private:
  ScalarPool& pool_;
  Extents extents_;
  std::array<Index, 3> variables_;
  std::unordered_map<ScalarId, ScalarId> known_;
};

bool have_one_length(const std::vector<Segment>& segments) {
  const std::int64_t length = segments[0].end - segments[0].begin;
  return length % kLongestVector == 0 && std::ranges::all_of(segments, [&](const Segment& segment) {
           return segment.end - segment.begin == length;
         });
}

std::size_t load_count(const ScalarPool& pool, const std::vector<ScalarId>& values) {
  LoopNest part;
  for (const ScalarId value : values) {
    part.stores.push_back({.value = value, .address = {}});
  }
  return loads_of(pool, part).size();
}

}  // namespace

void merge_segments(LoopProgram& program, LoopNest& kernel) {
  const std::vector<Segment>& segments = kernel.segments;
  if (segments.size() < 2 || segments.size() > kMaxMerged || !have_one_length(segments) ||
      kernel.update) {
    return;
  }
  std::vector<ir::Expr> extents = kernel.extents;
  extents[kInner] = segments[0].end;
  std::vector<LoopNest::Store> stores;
  std::vector<ScalarId> all;
  std::size_t separate = 0;
  for (const Segment& segment : segments) {
    Shift shift(program.pool, extents, segment.begin);
    std::vector<ScalarId> values;
    for (std::size_t i = 0; i < kernel.stores.size(); ++i) {
      LoopNest::Store store = kernel.stores[i];
      store.value = shift(segment.values[i]);
      store.address = shift(store.address);
      values.push_back(store.value);
      stores.push_back(std::move(store));
    }
    separate += load_count(program.pool, values);
    all.insert(all.end(), values.begin(), values.end());
  }
  if (load_count(program.pool, all) == separate) {
    return;
  }
  kernel.extents = std::move(extents);
  kernel.stores = std::move(stores);
  kernel.segments.clear();
}

}  // namespace kiln::codegen
