// Text that kernels are made of, compiled for this machine and called.

#pragma once

#include <string>
#include <vector>

#include "kiln/base/temporary_directory.hpp"

namespace kiln::codegen {

/// A library of some text.
class LoadedLibrary {
 public:
  /// Throws when the text does not compile with these flags and those of the machine.
  LoadedLibrary(const std::string& text, const std::vector<std::string>& flags);
  ~LoadedLibrary();
  LoadedLibrary(const LoadedLibrary&) = delete;
  LoadedLibrary& operator=(const LoadedLibrary&) = delete;

  /// One of its functions; throws if there is none of that name.
  template <typename Function>
  [[nodiscard]] Function* function(const std::string& name) const {
    return reinterpret_cast<Function*>(address(name));
  }

 private:
  [[nodiscard]] void* address(const std::string& name) const;

  TemporaryDirectory directory_;
  void* handle_ = nullptr;
};

}  // namespace kiln::codegen
