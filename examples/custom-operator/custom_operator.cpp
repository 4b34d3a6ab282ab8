// An operator of your own inside a compiled program: it is called as it is, and what stands around
// it is fused.

#include <torch/library.h>
#include <torch/torch.h>

#include <iostream>

#include "kiln/kiln.hpp"

namespace {

// Keeps what lies within `radius` and mirrors the rest back, like a ball between two walls.
at::Tensor reflect(const at::Tensor& x, double radius) {
  const at::Tensor phase = at::remainder(x + radius, 4 * radius);
  return at::where(phase < 2 * radius, phase - radius, 3 * radius - phase);
}

TORCH_LIBRARY(mylib, library) {
  library.def("reflect(Tensor x, float radius) -> Tensor", &reflect);
}

at::Tensor call_reflect(const at::Tensor& x, double radius) {
  static const auto handle = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow("mylib::reflect", "")
                                 .typed<at::Tensor(const at::Tensor&, double)>();
  return handle.call(x, radius);
}

kiln::Tensors program(const kiln::Tensors& in) {
  const at::Tensor scaled = (in[0] * 3).tanh() * 2;
  return {call_reflect(scaled, 0.5).exp().sum({1})};
}

}  // namespace

int main() {
  // Says which version of the operator this is: programs that call it may then be cached.
  kiln::declare_identity("mylib::reflect", "1");
  const torch::NoGradGuard no_grad;
  const torch::Tensor x = torch::randn({16, 128});
  const kiln::Function fast = kiln::compile(program);
  fast.prepare({x});
  const bool same = torch::allclose(fast({x})[0], program({x})[0], 1e-4, 1e-4);
  const kiln::GraphReport report = fast.report().graphs.at(0);
  std::cout << (same ? "as eager: " : "NOT as eager: ") << report.kernels << " kernels around "
            << report.extern_calls << " call\n";
  return same ? 0 : 1;
}
