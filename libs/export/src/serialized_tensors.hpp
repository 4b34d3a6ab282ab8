// The tensors of an archive: weights and constants.

#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "archive_file.hpp"

namespace kiln::exporter {

/// Every tensor of the weights and constants of `model`, by name. Tensors that shared memory share
/// it again.
[[nodiscard]] std::map<std::string, at::Tensor> read_weights(const ArchiveFile& archive,
                                                             const std::string& model);

}  // namespace kiln::exporter
