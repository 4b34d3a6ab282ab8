// Programs that ask whether two tensors are equal.

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_assert_async.h>
#include <ATen/ops/isclose.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/function.h>

#include "kiln/base/error.hpp"
#include "recorder.hpp"

namespace kiln::capture {
namespace {

// Whether shapes and memory alone say if two tensors are equal, as libtorch's attention asks of its
// query and key. (NaN, which differs from itself, is not looked for.)
bool is_known_equal(const c10::IValue* arguments) {
  const at::Tensor& a = arguments[0].toTensor();
  const at::Tensor& b = arguments[1].toTensor();
  return a.sizes() != b.sizes() ||
         (memory_of(a) != nullptr && memory_of(a) == memory_of(b) && a.strides() == b.strides() &&
          a.storage_offset() == b.storage_offset() && a.scalar_type() == b.scalar_type() &&
          a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg());
}

// libtorch's gradients of eigenvectors and singular vectors, by the names of their nodes.
bool is_decomposition(const torch::autograd::Node* node) {
  return node != nullptr && node->name().starts_with("Linalg");
}

}  // namespace

// What the program does next depends on whether two tensors are equal, as in libtorch's attention,
// which asks it of query, key and value. It is taken for granted, and the graph makes sure of it.
void Recorder::compare(const c10::OperatorHandle& op,
                       c10::DispatchKeySet below,
                       torch::jit::Stack& stack) {
  const c10::IValue* arguments = stack.data() + stack.size() - 2;
  const at::Tensor a = arguments[0].toTensor(), b = arguments[1].toTensor();
  const bool known = is_known_equal(arguments);
  if (!known && (valueless_.contains(a) || valueless_.contains(b))) {
    throw Error(ErrorCode::kUnsupported,
                "the program compares tensors (at::equal) that the trace has not computed");
  }
  if (known) {
    stack.resize(stack.size() - 2);
    stack.emplace_back(a.sizes() == b.sizes());
    return;
  }
  {
    const c10::impl::ExcludeDispatchKeyGuard not_recorded(kTracerKeys);
    op.redispatchBoxed(below, &stack);
  }
  const bool equal = stack.back().toBool();
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  at::_assert_async(equal ? a.eq(b).all() : a.ne(b).any(),
                    equal ? "the program was compiled for two tensors that are equal, and they "
                            "differ now (at::equal)"
                          : "the program was compiled for two tensors that differ, and they are "
                            "equal now (at::equal)");
}

// Complex eigenvectors and singular vectors have any phase. Their gradients ask whether what is
// differentiated depends on it (at::allclose), to refuse it then. It is taken not to, and the graph
// makes sure of it.
bool Recorder::assumes_close(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  if (facts(op).target != "aten.allclose.default" ||
      !is_decomposition(torch::autograd::get_current_node().get())) {
    return false;
  }
  const c10::IValue* arguments = stack.data() + stack.size() - op.schema().arguments().size();
  {
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    at::_assert_async(at::isclose(arguments[0].toTensor(),
                                  arguments[1].toTensor(),
                                  arguments[2].toDouble(),
                                  arguments[3].toDouble(),
                                  arguments[4].toBool())
                          .all(),
                      "what is differentiated depends on the phase of complex eigenvectors or "
                      "singular vectors, which is arbitrary");
  }
  stack.resize(stack.size() - op.schema().arguments().size());
  stack.emplace_back(true);
  return true;
}

}  // namespace kiln::capture
