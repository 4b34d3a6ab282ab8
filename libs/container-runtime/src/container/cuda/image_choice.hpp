// Which of a model's images a GPU runs.

#pragma once

#include <span>
#include <string>

#include "container/failure.hpp"
#include "kiln/container_runtime/cuda_kernels.h"

namespace kiln::container::cuda {

/// The image for a device of compute capability `capability` (90 for 9.0): machine code of the same
/// major number and the highest minor one that the device has, else the newest PTX that it can run.
/// Throws `Failure` that says what there is.
[[nodiscard]] inline const KilnCudaImage& choose_image(std::span<const KilnCudaImage> images,
                                                       std::uint32_t capability) {
  const KilnCudaImage* best = nullptr;
  std::string present;
  for (const KilnCudaImage& image : images) {
    const bool is_ptx = image.is_ptx != 0;
    present += (present.empty() ? "" : ", ") + std::string(is_ptx ? "compute_" : "sm_") +
               std::to_string(image.capability);
    const bool runs =
        image.capability <= capability && (is_ptx || image.capability / 10 == capability / 10);
    const bool is_better = best == nullptr || (best->is_ptx != 0 && !is_ptx) ||
                           ((best->is_ptx != 0) == is_ptx && image.capability > best->capability);
    if (runs && is_better) {
      best = &image;
    }
  }
  if (best == nullptr) {
    throw Failure("the model has kernels for " + present + ", and this GPU is sm_" +
                  std::to_string(capability) + ": compile it with arch=sm_" +
                  std::to_string(capability));
  }
  return *best;
}

}  // namespace kiln::container::cuda
