// What this machine can do at most, measured.

#pragma once

namespace kiln::tool {

/// The two limits of a kernel.
struct Roofline {
  int threads = 1;                   ///< That were used, libtorch's number of them.
  double bytes_per_second = 0;       ///< From and to memory, in a triad: a = b + s * c.
  double operations_per_second = 0;  ///< float32, in multiply-adds on registers; one is two.
};

/// Takes the best of a few rounds, about half a second in all.
[[nodiscard]] Roofline measure_roofline();

}  // namespace kiln::tool
