// Where a package's time goes, kernel by kernel.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "kiln/model.hpp"
#include "plan.hpp"
#include "roofline.hpp"

namespace kiln::tool {

/// One range of one call.
struct Interval {
  double start_us = 0;  ///< From the start of the call.
  double length_us = 0;
};

/// The steps of a plan that are the same work: one kernel, or one operator on one set of shapes.
struct ProfiledKernel {
  std::string name;  ///< Of the function, or of libtorch's operator.
  std::string what;  ///< The operators in it.
  std::size_t calls = 0;
  double microseconds = 0;  ///< Of all of them in one call of the model.
  double bytes = 0;
  double operations = 0;

  /// The share of the roofline that it reaches: of bandwidth or of arithmetic, whichever is more.
  [[nodiscard]] double share_of(const Roofline& roofline) const;
  /// Which of the two that is.
  [[nodiscard]] bool is_bound_by_memory(const Roofline& roofline) const;
};

/// A profile of a model.
struct Profile {
  /// Nothing on a GPU, where a step's time is that of its launch: the kernel runs later.
  std::optional<Roofline> roofline;
  Plan plan;
  double call_us = 0;             ///< Of the median call.
  double between_kernels_us = 0;  ///< What no step accounts for: checks, memory, handing over.
  std::size_t calls = 0;
  std::vector<ProfiledKernel> kernels = {};  ///< By time, the longest first.
  std::vector<Interval> timeline = {};       ///< Of the median call, by step.
};

/// The plan inside a package that was compiled with `CompileOptions::profile`, for a call with
/// `inputs`.
///
/// Throws `Error` with `kInvalidArgument` for any other.
[[nodiscard]] Plan plan_in(const std::string& package, const std::vector<at::Tensor>& inputs);

/// Calls `model` for `seconds` while its ranges are listened to. It must not replay CUDA graphs,
/// which have no ranges.
[[nodiscard]] Profile profile(Model& model,
                              Plan plan,
                              const std::vector<at::Tensor>& inputs,
                              double seconds);

/// As a table, as a JSON object, and as a trace for Chrome or Perfetto.
[[nodiscard]] std::string to_table(const Profile& profile);
[[nodiscard]] std::string to_json(const Profile& profile);
[[nodiscard]] std::string to_trace(const Profile& profile);

}  // namespace kiln::tool
