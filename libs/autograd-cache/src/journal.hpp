// What explains a miss without a look at every entry: the key of the last miss, and the keys that
// were saved last. Losing any of it loses nothing but an explanation.

#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "kiln/autograd_cache/key.hpp"

namespace kiln::autograd_cache {

using KeyComponents = std::vector<KeyComponent>;

class Journal {
 public:
  explicit Journal(std::filesystem::path root) : root_(std::move(root)) {}

  void remember_miss(const Key& key) const;
  /// The components of the key that was missed last, whichever process missed it.
  [[nodiscard]] std::optional<KeyComponents> last_miss() const;

  void remember_saved(const Key& key) const;
  /// The keys of the last hundred or so saves, the latest last.
  [[nodiscard]] std::vector<KeyComponents> recently_saved() const;

  void clear() const;

 private:
  std::filesystem::path root_;
};

}  // namespace kiln::autograd_cache
