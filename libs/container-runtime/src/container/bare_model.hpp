// What stands behind an AOTInductorModelHandle: one instance and its constants, without any lock.

#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "container/constant_set.hpp"
#include "container/device.hpp"
#include "container/model_call.hpp"
#include "container/shim.hpp"
#include "container/weights.hpp"
#include "kiln/container_runtime/container.h"
#include "kiln/container_runtime/model.h"

namespace kiln::container {

/// An instance of `kiln_model` for a caller who does the rest.
class BareModel {
 public:
  /// Runs on the embedded constants.
  explicit BareModel(const KilnModel& model);
  ~BareModel();
  BareModel(const BareModel&) = delete;
  BareModel& operator=(const BareModel&) = delete;

  [[nodiscard]] const KilnModel& model() const noexcept { return model_; }

  /// Replaces the constants by the given ones, whose handles it takes over.
  void take_constants(const AOTInductorConstantMapEntry* pairs, std::size_t count);

  void run(AtenTensorHandle const* inputs, AtenTensorHandle* outputs);

  /// Runs on plain memory.
  void run(const AOTInductorArrayRefTensor* inputs, AOTInductorArrayRefTensor* outputs);

 private:
  void fold(Stream stream);
  void hand_out(Tensor output, AOTInductorArrayRefTensor& target);

  const KilnModel& model_;
  const Device device_;
  const Weights weights_;
  Tensor weights_on_device_;
  void* instance_;
  std::unique_ptr<ConstantSet> constants_;
  bool is_folded_ = false;
  std::vector<Tensor> kept_outputs_;
};

}  // namespace kiln::container
