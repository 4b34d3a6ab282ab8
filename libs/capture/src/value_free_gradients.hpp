// Gradients that look at no values, for operators whose gradient in libtorch does.
//
// libtorch asks `prod` whether an element is zero and `max` whether the result is NaN, and computes
// one formula or another. A graph has all cases in it, and elements say which one counts.

#pragma once

#include <c10/core/DispatchKey.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace kiln::capture {

/// Above autograd, and without a kernel but for those operators: the others fall through, which
/// costs them nothing. libtorch keeps this key for tests of its own dispatcher.
inline constexpr c10::DispatchKey kGradientKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

/// Once per process.
void register_value_free_gradients();

/// While it lives, what this thread computes is differentiated without a look at values.
class ValueFreeGradients {
 public:
  explicit ValueFreeGradients(bool enabled) : previous_(included()) { include(enabled); }
  ~ValueFreeGradients() { include(previous_); }
  ValueFreeGradients(const ValueFreeGradients&) = delete;
  ValueFreeGradients& operator=(const ValueFreeGradients&) = delete;

 private:
  static bool included() { return c10::impl::tls_is_dispatch_key_included(kGradientKey); }
  static void include(bool on) { c10::impl::tls_set_dispatch_key_included(kGradientKey, on); }

  bool previous_;
};

}  // namespace kiln::capture
