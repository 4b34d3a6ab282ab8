// What a compiled function takes for granted of its arguments, beyond their metadata.

#pragma once

#include <string>
#include <vector>

#include "kiln/autograd_dispatch/compiler.hpp"
#include "kiln/autograd_dispatch/plan.hpp"

namespace kiln::autograd_dispatch {

class Assumptions {
 public:
  explicit Assumptions(const Plan& plan);

  /// Why `arguments` do not fit: a sentence, or an empty string if they do.
  [[nodiscard]] std::string violated_by(const Tensors& arguments) const;

 private:
  [[nodiscard]] std::string aliases_violated_by(const Tensors& arguments) const;
  [[nodiscard]] std::string writes_violated_by(const Tensors& arguments) const;
  [[nodiscard]] std::string bases_violated_by(const Tensors& arguments) const;
  [[nodiscard]] std::string offsets_violated_by(const Tensors& arguments) const;

  std::uint32_t count_;
  bool grad_mode_;
  bool differentiates_;
  std::vector<bool> requires_grad_;
  std::vector<AliasPlan> aliases_;
  std::vector<OffsetPlan> offsets_;
  std::vector<InputPlan> bases_;
  std::vector<std::uint32_t> written_;  // Arguments.
};

}  // namespace kiln::autograd_dispatch
