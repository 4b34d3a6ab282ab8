// The entries that describe and change a container's constants.

#include "container/entry.hpp"
#include "container/weights.hpp"

namespace kiln::container {
namespace {

const KilnConstant& constant_at(const KilnModel& model, std::size_t index) {
  if (index >= static_cast<std::size_t>(model.num_constants)) {
    throw Failure("constant " + std::to_string(index) + " is out of range: there are " +
                  std::to_string(model.num_constants));
  }
  return model.constants[index];
}

// The body of an entry that tells one thing about one constant.
template <class Answer, class Read>
std::int32_t answer_about(AOTInductorModelContainerOpaque* container,
                          std::size_t index,
                          Answer* place,
                          Read&& read) noexcept {
  return answer(
      container, place, [&](const KilnModel& model) { return read(constant_at(model, index)); });
}

Which which(bool use_inactive) {
  return use_inactive ? Which::kInactive : Which::kActive;
}

std::int32_t update(AOTInductorModelContainerOpaque* container,
                    const AOTInductorConstantMapEntry* pairs,
                    std::size_t count,
                    const Update& how) noexcept {
  return guarded([&] {
    if (count != 0) {
      required(pairs, "the array of constants");
    }
    container_of(container).update(pairs, count, how);
  });
}

std::int32_t update(AOTInductorModelContainerOpaque* container,
                    AOTInductorConstantMap* map,
                    const Update& how) noexcept {
  return guarded([&] {
    const auto pairs = pairs_of(map);
    container_of(container).update(pairs.data(), pairs.size(), how);
  });
}

}  // namespace
}  // namespace kiln::container

using namespace kiln::container;

extern "C" {

int32_t AOTInductorModelContainerGetNumConstants(AOTInductorModelContainerOpaque* container,
                                                 size_t* count) noexcept {
  return answer(container, count, [](const KilnModel& model) { return model.num_constants; });
}

int32_t AOTInductorModelContainerGetConstantName(AOTInductorModelContainerOpaque* container,
                                                 size_t index,
                                                 const char** name) noexcept {
  return answer_about(
      container, index, name, [](const KilnConstant& constant) { return constant.name; });
}

int32_t AOTInductorModelContainerGetConstantOriginalFQN(AOTInductorModelContainerOpaque* container,
                                                        size_t index,
                                                        const char** fqn) noexcept {
  return answer_about(
      container, index, fqn, [](const KilnConstant& constant) { return constant.fqn; });
}

int32_t AOTInductorModelContainerGetConstantFromFolded(AOTInductorModelContainerOpaque* container,
                                                       size_t index,
                                                       bool* from_folded) noexcept {
  return answer_about(container, index, from_folded, [](const KilnConstant& constant) {
    return is_folded(constant);
  });
}

int32_t AOTInductorModelContainerGetConstantType(AOTInductorModelContainerOpaque* container,
                                                 size_t index,
                                                 int32_t* type) noexcept {
  return answer_about(
      container, index, type, [](const KilnConstant& constant) { return constant.kind; });
}

int32_t AOTInductorModelContainerGetConstantDtype(AOTInductorModelContainerOpaque* container,
                                                  size_t index,
                                                  int32_t* dtype) noexcept {
  return answer_about(
      container, index, dtype, [](const KilnConstant& constant) { return constant.dtype; });
}

int32_t AOTInductorModelContainerGetConstantDataSize(AOTInductorModelContainerOpaque* container,
                                                     size_t index,
                                                     size_t* bytes) noexcept {
  return answer_about(
      container, index, bytes, [](const KilnConstant& constant) { return constant.bytes; });
}

int32_t AOTInductorModelContainerGetConstantsBlobSize(AOTInductorModelContainerOpaque* container,
                                                      uint64_t* bytes) noexcept {
  return answer(container, bytes, [](const KilnModel& model) { return model.weights_bytes; });
}

int32_t AOTInductorModelContainerExtractConstantsMap(AOTInductorModelContainerOpaque* container,
                                                     AOTInductorConstantMap* map,
                                                     bool use_inactive) noexcept {
  return guarded([&] {
    auto& target = required(reinterpret_cast<ConstantMap*>(map), "the map");
    for (const auto& entry : container_of(container).entries(which(use_inactive))) {
      target.emplace(entry.name, entry.handle);
    }
  });
}

int32_t AOTInductorModelContainerExtractConstantsMapEntries(
    AOTInductorModelContainerOpaque* container,
    const AOTInductorConstantMapEntry** entries,
    size_t* num_entries,
    bool use_inactive) noexcept {
  return guarded([&] {
    const auto& found = container_of(container).entries(which(use_inactive));
    required(entries, "the place for the entries") = found.data();
    required(num_entries, "the place for the count") = found.size();
  });
}

int32_t AOTInductorModelContainerUpdateConstantBuffer(AOTInductorModelContainerOpaque* container,
                                                      AOTInductorConstantMap* map,
                                                      bool use_inactive,
                                                      bool validate_full_update) noexcept {
  return update(
      container, map, {.which = which(use_inactive), .validate_full = validate_full_update});
}

int32_t AOTInductorModelContainerUpdateConstantBufferPairs(
    AOTInductorModelContainerOpaque* container,
    const AOTInductorConstantMapEntry* pairs,
    size_t num_pairs,
    bool use_inactive,
    bool validate_full_update) noexcept {
  return update(container,
                pairs,
                num_pairs,
                {.which = which(use_inactive), .validate_full = validate_full_update});
}

int32_t AOTInductorModelContainerUpdateConstantBufferFromCpu(
    AOTInductorModelContainerOpaque* container,
    AOTInductorConstantMap* map,
    bool use_inactive,
    bool validate_full_update) noexcept {
  return update(
      container,
      map,
      {.which = which(use_inactive), .validate_full = validate_full_update, .from_cpu = true});
}

int32_t AOTInductorModelContainerUpdateConstantBufferFromCpuPairs(
    AOTInductorModelContainerOpaque* container,
    const AOTInductorConstantMapEntry* pairs,
    size_t num_pairs,
    bool use_inactive,
    bool validate_full_update) noexcept {
  return update(
      container,
      pairs,
      num_pairs,
      {.which = which(use_inactive), .validate_full = validate_full_update, .from_cpu = true});
}

int32_t AOTInductorModelContainerUpdateUserManagedConstantBuffer(
    AOTInductorModelContainerOpaque* container,
    AOTInductorConstantMap* map,
    bool use_inactive,
    bool validate_full_update) noexcept {
  return update(
      container,
      map,
      {.which = which(use_inactive), .validate_full = validate_full_update, .user_managed = true});
}

int32_t AOTInductorModelContainerUpdateUserManagedConstantBufferPairs(
    AOTInductorModelContainerOpaque* container,
    const AOTInductorConstantMapEntry* pairs,
    size_t num_pairs,
    bool use_inactive,
    bool validate_full_update) noexcept {
  return update(
      container,
      pairs,
      num_pairs,
      {.which = which(use_inactive), .validate_full = validate_full_update, .user_managed = true});
}

int32_t AOTInductorModelContainerUpdateInactiveConstantBuffer(
    AOTInductorModelContainerOpaque* container, AOTInductorConstantMap* map) noexcept {
  return update(container, map, {.which = Which::kInactive, .validate_full = true});
}

int32_t AOTInductorModelContainerUpdateInactiveConstantBufferPairs(
    AOTInductorModelContainerOpaque* container,
    const AOTInductorConstantMapEntry* pairs,
    size_t num_pairs) noexcept {
  return update(container, pairs, num_pairs, {.which = Which::kInactive, .validate_full = true});
}

int32_t AOTInductorModelUpdateConstantsFromBlob(AOTInductorModelContainerOpaque* container,
                                                const uint8_t* blob) noexcept {
  return guarded([&] { container_of(container).update_from_blob(blob); });
}

int32_t AOTInductorModelContainerRunConstantFolding(
    AOTInductorModelContainerOpaque* container,
    bool use_inactive,
    AOTInductorStreamOpaque* stream,
    AOTIProxyExecutorOpaque* proxy_executor) noexcept {
  return guarded(
      [&] { container_of(container).fold(which(use_inactive), {stream, proxy_executor}); });
}

int32_t AOTInductorModelContainerSwapConstantBuffer(
    AOTInductorModelContainerOpaque* container) noexcept {
  return guarded([&] { container_of(container).swap(); });
}

int32_t AOTInductorModelContainerFreeInactiveConstantBuffer(
    AOTInductorModelContainerOpaque* container) noexcept {
  return guarded([&] { container_of(container).free_inactive(); });
}

int32_t KilnModelWeightsAt(const char* path, uint64_t offset) noexcept {
  return guarded([&] { take_weights_from(&required(path, "the path of the weights"), offset); });
}

}  // extern "C"
