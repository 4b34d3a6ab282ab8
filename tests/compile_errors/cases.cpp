// Programs that must not compile, one for each CASE_.

#include "kiln/jit/compile.hpp"

// As much of libtorch's as `compile` looks at: the real header takes half a minute.
namespace torch::nn {
class Module {};
}  // namespace torch::nn

namespace {

struct Net : torch::nn::Module {
  at::Tensor forward(at::Tensor x) { return x; }
};

struct Opaque {
  at::Tensor tensor;
};

[[maybe_unused]] void refused(const at::Tensor& x) {
#if defined(CASE_not_callable)
  (void)kiln::compile(x);
#elif defined(CASE_module_by_value)
  const Net net;
  (void)kiln::compile(net);
#elif defined(CASE_base_class)
  (void)kiln::compile(std::make_shared<torch::nn::Module>());
#elif defined(CASE_unknown_parameter)
  const auto fast = kiln::compile([](const Opaque& in) { return in.tensor; });
  (void)fast(Opaque{x});
#elif defined(CASE_unknown_result)
  const auto fast = kiln::compile([](const at::Tensor& in) { return Opaque{in}; });
  (void)fast(x);
#endif
}

}  // namespace
