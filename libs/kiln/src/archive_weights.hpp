// Where a program's weights stand in its archive, so that a package can be made of an archive that
// was compiled before without reading it again.

#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/autograd_cache/mapped_blob.hpp"
#include "kiln/codegen/compile.hpp"

namespace kiln {

/// Finds each of `constants` among the archive's records by its bytes. Nothing if one is not there
/// as it is in memory, or has no place of its own.
[[nodiscard]] std::optional<std::string> locate_weights(
    const std::filesystem::path& archive, std::span<const codegen::ConstantData> constants);

/// The constants again.
class ArchivedWeights {
 public:
  /// `places` are what `locate_weights` said of the same archive. Throws `Error` with `kCorrupt`.
  ArchivedWeights(const std::filesystem::path& archive, std::string_view places);

  /// Borrowed: valid as long as this lives.
  [[nodiscard]] const std::vector<codegen::ConstantData>& constants() const noexcept {
    return constants_;
  }

 private:
  autograd_cache::MappedBlob archive_;
  std::vector<codegen::ConstantData> constants_;
};

}  // namespace kiln
