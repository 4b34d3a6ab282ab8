// Where the constants' bytes are: in the library, behind it in its file, or where the host says.

#pragma once

#include <cstddef>
#include <cstdint>

#include "kiln/container_runtime/model.h"

namespace kiln::container {

/// The bytes of a model's constants, mapped privately: processes share the pages that nobody
/// writes.
class Weights {
 public:
  /// Throws `Failure` if the file that holds them cannot be mapped or ends too early.
  explicit Weights(const KilnModel& model);
  ~Weights();
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;

  /// The first byte; null if the model brings no values.
  [[nodiscard]] unsigned char* data() const { return data_; }

 private:
  unsigned char* data_;
  void* mapping_ = nullptr;
  std::size_t mapped_bytes_ = 0;
};

/// The weights of later containers are in `path` from byte `offset` on.
void take_weights_from(const char* path, std::uint64_t offset);

}  // namespace kiln::container
