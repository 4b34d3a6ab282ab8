// Sample inputs as Python pickles them: the structure of the call spec, with tensors at its leaves.

#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <vector>

#include "archive_file.hpp"
#include "kiln/export/exported_program.hpp"
#include "serialized_types.hpp"

namespace kiln::exporter {

/// The leaves of the sample inputs of `model`, in the order of `in_tree`: a tensor, or nothing for
/// a leaf of another kind.
///
/// Nothing at all if the archive has none, or if they hold classes that only Python knows.
[[nodiscard]] std::optional<std::vector<std::optional<at::Tensor>>> read_sample_inputs(
    const ArchiveFile& archive, const std::string& model, const Json& in_tree);

/// The bytes that `torch.load` reads as the structure `in_tree` with `leaves`, whose tensors are
/// `tensors`.
[[nodiscard]] std::vector<char> write_sample_inputs(const Json& in_tree,
                                                    std::span<const Leaf> leaves,
                                                    const Tensors& tensors);

}  // namespace kiln::exporter
