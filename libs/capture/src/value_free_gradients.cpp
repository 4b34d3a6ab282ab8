#include "value_free_gradients.hpp"

#include <ATen/Functions.h>
#include <ATen/RedispatchFunctions.h>
#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <optional>

namespace kiln::capture {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A formula that does not count is computed on these. Under a second gradient, infinities and NaN
// of its own would otherwise come out of the choice: zero times them is NaN.
constexpr int kHarmless = 1;

// libtorch: evenly_distribute_backward. Elements that equal the result share the gradient; if the
// result is NaN, those that are NaN do.
Tensor share_among_ties(const Tensor& gradient, const Tensor& input, const Tensor& result) {
  const Tensor ties = at::where(result.isnan(), input.isnan(), input == result);
  return at::where(ties, gradient / ties.sum(), 0);
}

// `tensor` moved by `distance` towards the front of `dim`; zeros follow.
Tensor advance(const Tensor& tensor, std::int64_t dim, std::int64_t distance) {
  const std::int64_t kept = tensor.size(dim) - distance;
  return at::cat(
      {tensor.narrow(dim, distance, kept), at::zeros_like(tensor.narrow(dim, 0, distance))}, dim);
}

// For each element the last of `products` along `dim` before it; 1 for the first.
Tensor exclusive(const Tensor& products, std::int64_t dim) {
  return at::cat(
      {at::ones_like(products.narrow(dim, 0, 1)), products.narrow(dim, 0, products.size(dim) - 1)},
      dim);
}

// For each element the product of the others along `dim`: without a quotient, so that zeros are
// numbers like any other.
Tensor product_of_others(const Tensor& input, std::int64_t dim) {
  return exclusive(input, dim).cumprod(dim) *
         exclusive(input.flip(dim), dim).cumprod(dim).flip(dim);
}

// libtorch: prod_backward of all elements. Its three formulas differ where there are NaN and
// infinities, so the number of zeros decides here too.
Tensor gradient_of_prod(const Tensor& gradient, const Tensor& input, const Tensor& result) {
  if (input.dim() == 0) {
    return gradient.clone();
  }
  if (input.numel() == 0) {
    return gradient.expand_as(input);
  }
  const Tensor zeros = (input == 0).sum();
  const Tensor none = zeros == 0;
  const Tensor quotient = at::where(none, result, kHarmless) / at::where(none, input, kHarmless);
  const Tensor others =
      product_of_others(at::where(zeros == 1, input, kHarmless).reshape({-1}), 0).view_as(input);
  return at::where(zeros > 1, 0, gradient * at::where(none, quotient, others).conj());
}

// libtorch: prod_backward along one dim.
Tensor gradient_of_prod(const Tensor& gradient,
                        const Tensor& input,
                        const Tensor& result,
                        std::int64_t dim) {
  if (input.numel() == 0) {
    return gradient.expand_as(input);
  }
  const Tensor any = (input == 0).any();
  const Tensor quotient = at::where(any, kHarmless, result) / at::where(any, kHarmless, input);
  const Tensor others = product_of_others(at::where(any, input, kHarmless), dim);
  return gradient * at::where(any, others, quotient).conj();
}

Tensor reversed_cumsum(const Tensor& tensor, std::int64_t dim) {
  return tensor.flip(dim).cumsum(dim).flip(dim);
}

// libtorch: cumprod_backward. Before the first zero of a row results are quotients; the first zero
// itself is a factor of all results up to the second one; what follows the first zero is a factor
// of zeros only.
Tensor gradient_of_cumprod(const Tensor& gradient,
                           const Tensor& input,
                           const Tensor& output,
                           std::int64_t dim) {
  const Tensor is_zero = input == 0;
  const Tensor zeros = is_zero.cumsum(dim);
  const Tensor before = zeros == 0;
  const Tensor from_first = zeros == 1;
  const Tensor weights = at::where(before, output * gradient, 0);
  const Tensor quotients = reversed_cumsum(weights, dim) / input;
  const Tensor factors = at::where(from_first.logical_and(is_zero.logical_not()), input, 1);
  const Tensor sums = (factors.cumprod(dim) * at::where(from_first, gradient, 0))
                          .sum(at::IntArrayRef(dim), /*keepdim=*/true);
  const Tensor at_first =
      at::where(from_first.logical_and(is_zero), sums * exclusive(output, dim), 0);
  return at::where(before, quotients, at_first);
}

// The same as sums and products alone, which can be differentiated again: with
// S[k] = gradient[k] + input[k + 1] * S[k + 1] it is S[k] times the product of what stands before
// k. Each round of the loop doubles how many elements a sum reaches.
Tensor gradient_of_cumprod_by_scan(const Tensor& gradient,
                                   const Tensor& input,
                                   const Tensor& output,
                                   std::int64_t dim) {
  Tensor sums = gradient;
  Tensor factors = advance(input, dim, 1);
  for (std::int64_t reach = 1; reach < input.size(dim); reach *= 2) {
    sums = sums + factors * advance(sums, dim, reach);
    factors = factors * advance(factors, dim, reach);
  }
  return sums * exclusive(output, dim);
}

// libtorch: cumprod_backward under a second gradient, which tells only rows with zeros from others.
Tensor differentiable_gradient_of_cumprod(const Tensor& gradient,
                                          const Tensor& input,
                                          const Tensor& output,
                                          std::int64_t dim) {
  const Tensor any = (input == 0).any();
  const Tensor quotients = reversed_cumsum(at::where(any, kHarmless, output * gradient), dim) /
                           at::where(any, kHarmless, input);
  const Tensor scanned = gradient_of_cumprod_by_scan(
      gradient, at::where(any, input, kHarmless), at::where(any, output, kHarmless), dim);
  return at::where(any, scanned, quotients);
}

// Not within another operator's kernel, which autograd does not see.
bool is_differentiated(const Tensor& tensor, c10::DispatchKeySet keys) {
  return c10::GradMode::is_enabled() && tensor.requires_grad() &&
         keys.has_any(c10::autograd_dispatch_keyset);
}

c10::DispatchKeySet keys_below(c10::DispatchKeySet keys) {
  return keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kGradientKey);
}

// A reduction of all elements to one of them: `redispatch` is the operator itself.
template <Tensor (*redispatch)(c10::DispatchKeySet, const Tensor&)>
struct Selection : torch::autograd::Function<Selection<redispatch>> {
  static Tensor forward(AutogradContext* context, const Tensor& self, c10::DispatchKeySet keys) {
    const Tensor result = redispatch(keys_below(keys), self);
    context->save_for_backward({self, result});
    return result;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    return {share_among_ties(gradients[0], saved[0], saved[1]), {}};
  }
  static Tensor call(c10::DispatchKeySet keys, const Tensor& self) {
    return is_differentiated(self, keys) ? Selection::apply(self, keys)
                                         : redispatch(keys_below(keys), self);
  }
};

struct Prod : torch::autograd::Function<Prod> {
  static Tensor forward(AutogradContext* context,
                        const Tensor& self,
                        std::optional<at::ScalarType> dtype,
                        c10::DispatchKeySet keys) {
    const Tensor result = at::redispatch::prod(keys_below(keys), self, dtype);
    context->save_for_backward({self, result});
    return result;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor input = saved[0].to(gradients[0].scalar_type());
    return {gradient_of_prod(gradients[0], input, saved[1]), {}, {}};
  }
  static Tensor call(c10::DispatchKeySet keys,
                     const Tensor& self,
                     std::optional<at::ScalarType> dtype) {
    return is_differentiated(self, keys) ? apply(self, dtype, keys)
                                         : at::redispatch::prod(keys_below(keys), self, dtype);
  }
};

struct ProdAlong : torch::autograd::Function<ProdAlong> {
  static Tensor forward(AutogradContext* context,
                        const Tensor& self,
                        std::int64_t dim,
                        bool keepdim,
                        std::optional<at::ScalarType> dtype,
                        c10::DispatchKeySet keys) {
    const Tensor result = at::redispatch::prod(keys_below(keys), self, dim, keepdim, dtype);
    context->save_for_backward({self, result});
    context->saved_data["dim"] = dim;
    context->saved_data["keepdim"] = keepdim;
    return result;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    Tensor gradient = gradients[0], result = saved[1];
    if (saved[0].dim() != 0) {
      const std::int64_t dim =
          at::maybe_wrap_dim(context->saved_data["dim"].toInt(), saved[0].dim());
      const bool kept = context->saved_data["keepdim"].toBool();
      gradient = gradient_of_prod(kept ? gradient : gradient.unsqueeze(dim),
                                  saved[0].to(gradient.scalar_type()),
                                  kept ? result : result.unsqueeze(dim),
                                  dim);
    }
    return {gradient, {}, {}, {}, {}};
  }
  static Tensor call(c10::DispatchKeySet keys,
                     const Tensor& self,
                     std::int64_t dim,
                     bool keepdim,
                     std::optional<at::ScalarType> dtype) {
    return is_differentiated(self, keys)
               ? apply(self, dim, keepdim, dtype, keys)
               : at::redispatch::prod(keys_below(keys), self, dim, keepdim, dtype);
  }
};

struct Cumprod : torch::autograd::Function<Cumprod> {
  static Tensor forward(AutogradContext* context,
                        const Tensor& self,
                        std::int64_t dim,
                        std::optional<at::ScalarType> dtype,
                        c10::DispatchKeySet keys) {
    const Tensor result = at::redispatch::cumprod(keys_below(keys), self, dim, dtype);
    context->save_for_backward({self, result});
    context->saved_data["dim"] = dim;
    return result;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor& input = saved[0];
    Tensor gradient = gradients[0].to(input.scalar_type());
    if (input.numel() > 1) {
      const std::int64_t dim = at::maybe_wrap_dim(context->saved_data["dim"].toInt(), input.dim());
      const auto formula =
          c10::GradMode::is_enabled() ? differentiable_gradient_of_cumprod : gradient_of_cumprod;
      if (input.size(dim) > 1) {
        gradient = formula(gradient, input.conj(), saved[1].conj(), dim);
      }
    }
    return {gradient, {}, {}, {}};
  }
  static Tensor call(c10::DispatchKeySet keys,
                     const Tensor& self,
                     std::int64_t dim,
                     std::optional<at::ScalarType> dtype) {
    return is_differentiated(self, keys)
               ? apply(self, dim, dtype, keys)
               : at::redispatch::cumprod(keys_below(keys), self, dim, dtype);
  }
  // What is written must be kept for the gradient, so a copy is written in any case.
  static Tensor& call_in_place(c10::DispatchKeySet keys,
                               Tensor& self,
                               std::int64_t dim,
                               std::optional<at::ScalarType> dtype) {
    return is_differentiated(self, keys)
               ? self.copy_(self.clone().cumprod(dim, dtype))
               : at::redispatch::cumprod_(keys_below(keys), self, dim, dtype);
  }
};

// libtorch selects what `value` was written over, which has a shape that depends on the mask.
struct MaskedFill : torch::autograd::Function<MaskedFill> {
  static Tensor forward(AutogradContext* context,
                        const Tensor& self,
                        const Tensor& mask,
                        const Tensor& value,
                        c10::DispatchKeySet keys) {
    context->save_for_backward({mask});
    return at::redispatch::masked_fill(keys_below(keys), self, mask, value);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Tensor mask = context->get_saved_variables()[0];
    return {gradients[0].masked_fill(mask, 0), {}, at::where(mask, gradients[0], 0).sum(), {}};
  }
  static Tensor call(c10::DispatchKeySet keys,
                     const Tensor& self,
                     const Tensor& mask,
                     const Tensor& value) {
    return is_differentiated(value, keys)
               ? apply(self, mask, value, keys)
               : at::redispatch::masked_fill(keys_below(keys), self, mask, value);
  }
  static Tensor& call_in_place(c10::DispatchKeySet keys,
                               Tensor& self,
                               const Tensor& mask,
                               const Tensor& value) {
    return is_differentiated(value, keys)
               ? self.copy_(self.masked_fill(mask, value))
               : at::redispatch::masked_fill_(keys_below(keys), self, mask, value);
  }
};

}  // namespace

void register_value_free_gradients() {
  static const c10::RegistrationHandleRAII others = c10::Dispatcher::singleton().registerFallback(
      kGradientKey, c10::KernelFunction::makeFallthrough(), "kiln value-free gradients");
  static const torch::Library library = [] {
    torch::Library kernels(torch::Library::IMPL, "aten", kGradientKey, __FILE__, __LINE__);
    kernels.impl("max", &Selection<&at::redispatch::max>::call);
    kernels.impl("min", &Selection<&at::redispatch::min>::call);
    kernels.impl("median", &Selection<&at::redispatch::median>::call);
    kernels.impl("nanmedian", &Selection<&at::redispatch::nanmedian>::call);
    kernels.impl("prod", &Prod::call);
    kernels.impl("prod.dim_int", &ProdAlong::call);
    kernels.impl("cumprod", &Cumprod::call);
    kernels.impl("cumprod_", &Cumprod::call_in_place);
    kernels.impl("masked_fill.Tensor", &MaskedFill::call);
    kernels.impl("masked_fill_.Tensor", &MaskedFill::call_in_place);
    return kernels;
  }();
}

}  // namespace kiln::capture
