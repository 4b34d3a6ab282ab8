// The entries of a model library as a C host calls them: constants, described, updated and read.

#include <algorithm>
#include <limits>
#include <string>

#include "abi.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::container_runtime {
namespace {

TEST_CASE("RT-05 to RT-09 constants are described, stale indices are a code",
          "[container-runtime][abi_constants]") {
  const Container container;
  std::size_t count = 0;
  const char* text = nullptr;
  bool folded = false;
  std::int32_t number = 0;
  std::size_t bytes = 0;
  CHECK(KILN_CALL(AOTInductorModelContainerGetNumConstants, container.self, &count) == 0);
  CHECK(count == 3);
  for (const std::size_t index : {std::size_t{2}, count, std::numeric_limits<std::size_t>::max()}) {
    const int code = index < count ? 0 : 1;
    CHECK(KILN_CALL(AOTInductorModelContainerGetConstantName, container.self, index, &text) ==
          code);
    CHECK(
        KILN_CALL(AOTInductorModelContainerGetConstantOriginalFQN, container.self, index, &text) ==
        code);
    CHECK(
        KILN_CALL(AOTInductorModelContainerGetConstantFromFolded, container.self, index, &folded) ==
        code);
    CHECK(KILN_CALL(AOTInductorModelContainerGetConstantType, container.self, index, &number) ==
          code);
    CHECK(KILN_CALL(AOTInductorModelContainerGetConstantDtype, container.self, index, &number) ==
          code);
    CHECK(KILN_CALL(AOTInductorModelContainerGetConstantDataSize, container.self, index, &bytes) ==
          code);
  }
  CHECK(folded);
  CHECK(bytes == 16);
}

TEST_CASE("RT-10 to RT-13 every form of update reaches the next run",
          "[container-runtime][abi_constants]") {
  const Container container;
  const at::Tensor x = at::ones({1, 4});
  at::Tensor scale = at::full({4}, 3.0F);
  at::Tensor shift = at::full({4}, 5.0F);
  const auto as_handle = [](at::Tensor& tensor) { return reinterpret_cast<Handle>(&tensor); };
  HandleMap map{{"c_scale", as_handle(scale)}, {"c_shift", as_handle(shift)}};
  const AOTInductorConstantMapEntry pairs[] = {{"c_scale", as_handle(scale)},
                                               {"c_shift", as_handle(shift)}};
  const auto next_values = [&] {
    scale.add_(1);
    shift.add_(10);
  };

  CHECK(KILN_CALL(AOTInductorModelContainerUpdateConstantBuffer,
                  container.self,
                  opaque(map),
                  false,
                  true) == 0);
  CHECK(at::allclose(container.run(x), affine(x, scale, shift)));
  next_values();
  CHECK(KILN_CALL(AOTInductorModelContainerUpdateConstantBufferPairs,
                  container.self,
                  pairs,
                  2,
                  false,
                  true) == 0);
  CHECK(at::allclose(container.run(x), affine(x, scale, shift)));
  next_values();
  CHECK(KILN_CALL(AOTInductorModelContainerUpdateConstantBufferFromCpu,
                  container.self,
                  opaque(map),
                  false,
                  true) == 0);
  CHECK(at::allclose(container.run(x), affine(x, scale, shift)));
  next_values();
  CHECK(KILN_CALL(AOTInductorModelContainerUpdateConstantBufferFromCpuPairs,
                  container.self,
                  pairs,
                  2,
                  false,
                  true) == 0);
  CHECK(at::allclose(container.run(x), affine(x, scale, shift)));
  next_values();
  CHECK(KILN_CALL(AOTInductorModelContainerUpdateInactiveConstantBuffer,
                  container.self,
                  opaque(map)) == 0);
  CHECK(KILN_CALL(
            AOTInductorModelContainerRunConstantFolding, container.self, true, nullptr, nullptr) ==
        0);
  CHECK(KILN_CALL(AOTInductorModelContainerSwapConstantBuffer, container.self) == 0);
  CHECK(at::allclose(container.run(x), affine(x, scale, shift)));
  next_values();
  CHECK(KILN_CALL(
            AOTInductorModelContainerUpdateInactiveConstantBufferPairs, container.self, pairs, 2) ==
        0);
  CHECK(KILN_CALL(AOTInductorModelContainerSwapConstantBuffer, container.self) == 0);
  CHECK(at::allclose(container.run(x), affine(x, scale, shift)));
  CHECK(KILN_CALL(AOTInductorModelContainerFreeInactiveConstantBuffer, container.self) == 0);
}

TEST_CASE("RT-10 names nobody knows are ignored, null ones are a code",
          "[container-runtime][abi_constants]") {
  const Container container;
  const at::Tensor x = at::ones({1, 4});
  at::Tensor value = at::ones({7});
  const auto as_handle = reinterpret_cast<Handle>(&value);
  const AOTInductorConstantMapEntry unknown{"unknown", as_handle};
  const AOTInductorConstantMapEntry nameless{nullptr, as_handle};
  const AOTInductorConstantMapEntry empty{"c_scale", nullptr};
  const auto update = [&](const AOTInductorConstantMapEntry* pairs) {
    return KILN_CALL(
        AOTInductorModelContainerUpdateConstantBufferPairs, container.self, pairs, 1, false, false);
  };

  CHECK(update(&unknown) == 0);
  CHECK(update(&nameless) == 1);
  CHECK(update(&empty) == 1);
  CHECK(update(nullptr) == 1);
  CHECK(KILN_CALL(
            AOTInductorModelContainerUpdateConstantBuffer, container.self, nullptr, false, false) ==
        1);
  CHECK(at::allclose(container.run(x), expected(x)));
}

TEST_CASE("RT-28 a full update lacks no parameter, but may lack a buffer",
          "[container-runtime][abi_constants]") {
  const Container container;
  const at::Tensor x = at::ones({1, 4});
  at::Tensor value = at::full({4}, 3.0F);
  const auto update = [&](const char* name, bool full) {
    const AOTInductorConstantMapEntry pair{name, reinterpret_cast<Handle>(&value)};
    return KILN_CALL(
        AOTInductorModelContainerUpdateConstantBufferPairs, container.self, &pair, 1, false, full);
  };

  CHECK(update("c_shift", true) == 1);
  CHECK(last_error() == "a full update lacks the constant 'module.scale'");
  CHECK(at::allclose(container.run(x), expected(x)));
  CHECK(update("c_scale", true) == 0);
  CHECK(at::allclose(container.run(x), affine(x, value, embedded_shift())));
  CHECK(update("c_shift", false) == 0);
  CHECK(at::allclose(container.run(x), affine(x, value, value)));
}

TEST_CASE("RT-24 a blob replaces the embedded weights", "[container-runtime][abi_constants]") {
  const Container container;
  const at::Tensor x = at::ones({1, 4});
  std::uint64_t bytes = 0;
  CHECK(KILN_CALL(AOTInductorModelContainerGetConstantsBlobSize, container.self, &bytes) == 0);
  REQUIRE(bytes == 128);
  float blob[32] = {};
  std::fill_n(blob, 4, 6.0F);
  std::fill_n(blob + 16, 4, 8.0F);

  CHECK(KILN_CALL(AOTInductorModelUpdateConstantsFromBlob,
                  container.self,
                  reinterpret_cast<const std::uint8_t*>(blob)) == 0);

  CHECK(at::allclose(container.run(x), affine(x, at::full({4}, 6.0F), at::full({4}, 8.0F))));
  CHECK(KILN_CALL(AOTInductorModelUpdateConstantsFromBlob, container.self, nullptr) == 1);
}

TEST_CASE("RT-24 constants can be read back", "[container-runtime][abi_constants]") {
  const Container container;
  HandleMap map;
  const AOTInductorConstantMapEntry* entries = nullptr;
  std::size_t count = 0;

  CHECK(KILN_CALL(
            AOTInductorModelContainerExtractConstantsMap, container.self, opaque(map), false) == 0);
  CHECK(KILN_CALL(AOTInductorModelContainerExtractConstantsMapEntries,
                  container.self,
                  &entries,
                  &count,
                  false) == 0);

  CHECK(map.size() == 2);
  REQUIRE(count == 2);
  CHECK(std::string(entries[0].name) == "module.scale");
  CHECK(at::allclose(*reinterpret_cast<at::Tensor*>(map.at("module.shift")), embedded_shift()));
}

}  // namespace
}  // namespace kiln::container_runtime
