// Which of a model's images a GPU runs, for GPUs that are not there.

#include <vector>

#include "container/cuda/image_choice.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::container::cuda {
namespace {

using kiln::testing::contains;

// As `kiln compile --option arch=sm_80,sm_86,sm_90` leaves them.
const std::vector<KilnCudaImage> images = {{"", 80, 0}, {"", 86, 0}, {"", 90, 0}, {"", 90, 1}};

TEST_CASE("a GPU runs machine code of its own major number", "[container-runtime][cuda]") {
  for (const auto& [capability, expected] : {std::pair(80U, 0U),
                                             std::pair(86U, 1U),
                                             std::pair(87U, 1U),
                                             std::pair(89U, 1U),
                                             std::pair(90U, 2U)}) {
    INFO(capability);
    CHECK(&choose_image(images, capability) == &images[expected]);
  }
}

TEST_CASE("a GPU newer than all machine code runs PTX", "[container-runtime][cuda]") {
  CHECK(&choose_image(images, 100) == &images[3]);
  CHECK(&choose_image(images, 120) == &images[3]);
}

TEST_CASE("a GPU that no image is for is told what there is", "[container-runtime][cuda]") {
  CHECK_THROWS_WITH(choose_image(images, 75),
                    "the model has kernels for sm_80, sm_86, sm_90, compute_90, and this GPU is "
                    "sm_75: compile it with arch=sm_75");
  CHECK_THROWS_WITH(choose_image(std::vector<KilnCudaImage>{{"", 90, 0}}, 100),
                    contains("this GPU is sm_100"));
}

}  // namespace
}  // namespace kiln::container::cuda
