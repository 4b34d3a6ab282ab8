// Functions in the cache, for tests: a cache of one's own, and whether a function came from it.

#pragma once

#include <torch/torch.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "kiln/autograd_cache/cache.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/jit/compile.hpp"

namespace kiln {

/// A cache of its own, for one function.
struct Scratch {
  TemporaryDirectory directory;
  CompileOptions options;
  explicit Scratch(const std::string& identity) {
    options.cache_directory = directory.path() / "cache";
    options.identity = identity;
  }
  /// The functions in it.
  [[nodiscard]] std::vector<autograd_cache::Entry> functions() const {
    autograd_cache::CacheOptions opened;
    opened.directory = options.cache_directory;
    autograd_cache::Cache cache(opened);
    std::vector<autograd_cache::Entry> found;
    for (const auto& summary : cache.list()) {
      auto entry = cache.find(cache.stored_key(summary.key).value());
      if (entry && entry->blobs.at("name") == "function") {
        found.push_back(std::move(*entry));
      }
    }
    return found;
  }
};

/// Where the last version of `function` came from.
template <class F>
Origin origin(const F& function) {
  return function.report().details.back().origin;
}

inline torch::Tensor leaf(std::initializer_list<std::int64_t> sizes) {
  return torch::randn(sizes, torch::requires_grad());
}

}  // namespace kiln
