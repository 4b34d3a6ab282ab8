// A model library for CUDA where there is no GPU: it is built, can be looked at, and says what is
// missing. What runs on one is in cuda_gpu_test.cpp.

#include <dlfcn.h>

#include <cstdint>
#include <cstring>

#include "affine.hpp"
#include "kiln/container_runtime/container.h"
#include "kiln/container_runtime/runner.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::container_runtime {
namespace {

using testing::contains;

// Loaded for the length of a test.
struct Loaded {
  void* library = dlopen(test_model("affine_cuda").c_str(), RTLD_NOW | RTLD_LOCAL);
  ~Loaded() { dlclose(library); }
};

TEST_CASE("a library for CUDA loads without CUDA and has all entries",
          "[container-runtime][cuda]") {
  const Loaded loaded;
  REQUIRE(loaded.library != nullptr);

  for (const char* name : {"AOTInductorModelContainerCreate",
                           "AOTInductorModelContainerCreateWithDevice",
                           "AOTInductorModelContainerDelete",
                           "AOTInductorModelContainerRun",
                           "AOTInductorModelContainerRunSingleThreaded",
                           "AOTInductorModelContainerGetNumConstants",
                           "AOTInductorModelContainerUpdateConstantBuffer",
                           "AOTInductorModelContainerUpdateConstantBufferFromCpu",
                           "AOTInductorModelContainerRunConstantFolding",
                           "AOTInductorModelContainerSwapConstantBuffer",
                           "AOTInductorModelContainerGetCallSpec",
                           "AOTInductorGetLastError",
                           "AOTInductorModelCreate",
                           "KilnContainerRunBorrowed",
                           "KilnContainerRunCaptured",
                           "KilnContainerReleaseCapture",
                           "KilnContainerCheck",
                           "KilnContainerIsInputMutated",
                           "KilnContainerMutatesConstants",
                           "KilnModelWeightsAt"}) {
    INFO(name);
    CHECK(dlsym(loaded.library, name) != nullptr);
  }
  CHECK(dlsym(loaded.library, "kiln_cuda_launch") == nullptr);
}

TEST_CASE("its kernels lie in the library", "[container-runtime][cuda]") {
  const Loaded loaded;
  const auto kernels = reinterpret_cast<const void* (*)()>(dlsym(loaded.library, "affine_kernels"));
  REQUIRE(kernels != nullptr);

  constexpr std::uint32_t kFatbinMagic = 0xBA55ED50;
  CHECK(std::memcmp(kernels(), &kFatbinMagic, sizeof(kFatbinMagic)) == 0);
}

TEST_CASE("RT-02 where there is no GPU a model for CUDA says so", "[container-runtime][cuda]") {
  for (const char* device : {"cuda", "cuda:0", "cuda:7"}) {
    CHECK_THROWS_WITH(Runner(test_model("affine_cuda"), {.device = device}),
                      contains("the model is for CUDA, and "));
  }
}

TEST_CASE("RT-02 a model for CUDA is refused on the cpu", "[container-runtime][cuda]") {
  CHECK_THROWS_WITH(Runner(test_model("affine_cuda"), {.device = "cpu"}),
                    contains("compiled for cuda, not for cpu"));
}

TEST_CASE("RT-19 a bare model for CUDA is refused in the same words", "[container-runtime][cuda]") {
  const Loaded loaded;
  const auto create = reinterpret_cast<decltype(&AOTInductorModelCreate)>(
      dlsym(loaded.library, "AOTInductorModelCreate"));
  const auto last_error = reinterpret_cast<decltype(&AOTInductorGetLastError)>(
      dlsym(loaded.library, "AOTInductorGetLastError"));
  AOTInductorModelOpaque* model = nullptr;
  const char* message = nullptr;

  CHECK(create(&model, nullptr) == 1);
  CHECK(last_error(&message) == 0);

  CHECK(model == nullptr);
  CHECK_THAT(std::string(message), contains("the model is for CUDA, and "));
}

}  // namespace
}  // namespace kiln::container_runtime
