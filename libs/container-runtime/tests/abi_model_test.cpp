// The entries of a model library as a C host calls them: a bare model, without a container.

#include <string>

#include "abi.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::container_runtime {
namespace {

using testing::contains;

TEST_CASE("RT-19 to RT-23 a bare model runs on embedded and on given constants",
          "[container-runtime][abi_model]") {
  AOTInductorModelOpaque* model = nullptr;
  const at::Tensor x = at::ones({1, 4});
  std::size_t count = 0;
  const auto run = [&] {
    Handle input = handle(x);
    Handle output = nullptr;
    REQUIRE(KILN_CALL(AOTInductorModelRun, model, &input, &output) == 0);
    return take(output);
  };

  REQUIRE(KILN_CALL(AOTInductorModelCreate, &model, nullptr) == 0);
  CHECK(KILN_CALL(AOTInductorModelGetNumOutputs, model, &count) == 0);
  CHECK(count == 1);
  CHECK(at::allclose(run(), expected(x)));

  HandleMap map{{"c_scale", handle(at::full({4}, 3.0F))}, {"c_shift", handle(at::full({4}, 5.0F))}};
  CHECK(KILN_CALL(AOTInductorModelUpdateConstantsMap, model, opaque(map)) == 0);
  CHECK(at::allclose(run(), affine(x, at::full({4}, 3.0F), at::full({4}, 5.0F))));

  const AOTInductorConstantMapEntry pairs[] = {{"c_scale", handle(at::full({4}, 4.0F))},
                                               {"c_shift", handle(at::full({4}, 6.0F))}};
  CHECK(KILN_CALL(AOTInductorModelUpdateConstantsMapV2, model, pairs, 2) == 0);
  CHECK(at::allclose(run(), affine(x, at::full({4}, 4.0F), at::full({4}, 6.0F))));
  CHECK(x.use_count() == 1);
  CHECK(KILN_CALL(AOTInductorModelDelete, model) == 0);

  const AOTInductorConstantMapEntry only_scale{"c_scale", handle(at::full({4}, 4.0F))};
  REQUIRE(KILN_CALL(AOTInductorModelCreateV2, &model, &only_scale, 1) == 0);
  Handle input = handle(x);
  Handle output = nullptr;
  CHECK(KILN_CALL(AOTInductorModelRun, model, &input, &output) == 1);
  CHECK_THAT(last_error(), contains("constant 'module.shift' has no value"));
  CHECK(KILN_CALL(AOTInductorModelDelete, model) == 0);
}

TEST_CASE("RT-24 a bare model runs on plain memory", "[container-runtime][abi_model]") {
  AOTInductorModelOpaque* model = nullptr;
  REQUIRE(KILN_CALL(AOTInductorModelCreateV2, &model, nullptr, 0) == 0);
  float values[] = {1, 1, 1, 1};
  float room[4] = {};
  AOTInductorArrayRefTensor input{};
  input.data = values;
  input.numel = 4;
  input.ndim = 2;
  input.dtype = 6;
  input.sizes[0] = 1;
  input.sizes[1] = 4;
  input.strides[0] = 4;
  input.strides[1] = 1;
  AOTInductorArrayRefTensor output{};
  output.data = room;
  output.numel = 4;

  CHECK(KILN_CALL(AOTInductorModelRunMinimalArrayrefInterfaceV2, model, 1, &input, 1, &output) ==
        0);
  CHECK(room[3] == 48);
  output = {};
  CHECK(KILN_CALL(AOTInductorModelRunMinimalArrayrefInterfaceV2, model, 1, &input, 1, &output) ==
        0);
  CHECK(static_cast<float*>(output.data)[0] == 12);
  CHECK(output.ndim == 2);
  CHECK(KILN_CALL(AOTInductorModelRunMinimalArrayrefInterfaceV2, model, 2, &input, 1, &output) ==
        1);
  KILN_CALL(AOTInductorModelDelete, model);
}

}  // namespace
}  // namespace kiln::container_runtime
