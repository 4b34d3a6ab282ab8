// Lines of the sweep for operators on lists of tensors, as optimizers call them.

#include "operators.hpp"

namespace kiln::differential {
namespace {

using enum Types;
using enum Closeness;

using Scalars = std::vector<at::Scalar>;

// Three tensors of different shapes and layouts.
Tensors list(Draw& d, Values values = Values::kFinite) {
  return {d.x(values), d.of({3, 7}, d.dtype(), values), d.of({}, d.dtype(), values)};
}

// To be written to. Operators in a row are not rounded one by one to narrow types, as eager's are.
Tensors copies(const Tensors& tensors) {
  Tensors made;
  for (const at::Tensor& tensor : tensors) {
    const bool narrow = at::isReducedFloatingType(tensor.scalar_type());
    made.push_back(narrow ? tensor.to(at::kFloat) : tensor.clone());
  }
  return made;
}

Tensors joined(std::initializer_list<Tensors> lists) {
  Tensors all;
  for (const Tensors& each : lists) {
    all.insert(all.end(), each.begin(), each.end());
  }
  return all;
}

std::vector<Line> functional_lines() {
  return {
      {"aten._foreach_add.List",
       kNumbers,
       kRounded,
       [](Draw& d) {
         const Tensors a = list(d);
         const Tensors b = list(d);
         return joined({at::_foreach_add(a, b, 2),
                        at::_foreach_sub(a, b),
                        at::_foreach_mul(a, b),
                        at::_foreach_maximum(a, b),
                        at::_foreach_clamp_max(a, b)});
       }},
      {"aten._foreach_add.Scalar",
       kNumbers,
       kRounded,
       [](Draw& d) {
         const Tensors a = list(d);
         return joined({at::_foreach_add(a, 3),
                        at::_foreach_mul(a, -2),
                        at::_foreach_clamp_min(a, 1),
                        at::_foreach_neg(a),
                        at::_foreach_abs(a)});
       }},
      {"aten._foreach_add.ScalarList",
       kFloats,
       kRounded,
       [](Draw& d) {
         const Tensors a = list(d);
         const Scalars numbers{0.5, 2, -1.25};
         return joined({at::_foreach_add(a, numbers),
                        at::_foreach_mul(a, numbers),
                        at::_foreach_div(a, numbers),
                        at::_foreach_minimum(a, numbers)});
       }},
      {"aten._foreach_mul.Tensor",
       kFloats,
       kRounded,
       [](Draw& d) {
         const Tensors a = list(d);
         const at::Tensor number = d.of({}, d.dtype(), Values::kPositive);
         return joined({at::_foreach_mul(a, number), at::_foreach_div(a, number)});
       }},
      {"aten._foreach_sqrt.default",
       kFloats,
       kClose,
       [](Draw& d) {
         const Tensors a = list(d, Values::kPositive);
         return joined({at::_foreach_sqrt(a),
                        at::_foreach_reciprocal(a),
                        at::_foreach_exp(a),
                        at::_foreach_log(a),
                        at::_foreach_pow(a, 0.5),
                        at::_foreach_div(a, a)});
       }},
      {"aten._foreach_lerp.List",
       kFloats,
       kClose,
       [](Draw& d) {
         const Tensors a = list(d);
         const Tensors b = list(d);
         return joined({at::_foreach_lerp(a, b, 0.25), at::_foreach_lerp(a, b, list(d))});
       }},
      {"aten._foreach_norm.Scalar",
       kFloats,
       kSum,
       [](Draw& d) { return joined({at::_foreach_norm(list(d), 2)}); }},
  };
}

std::vector<Line> in_place_lines() {
  return {
      // What Adam does.
      {"aten._foreach_addcdiv_.ScalarList",
       kFloats,
       kClose,
       [](Draw& d) {
         const Tensors gradients = copies(list(d));
         const Tensors weights = copies(list(d));
         const Tensors means = copies(list(d));
         const Tensors squares = copies(list(d, Values::kPositive));
         at::_foreach_lerp_(means, gradients, 0.1);
         at::_foreach_mul_(squares, 0.999);
         at::_foreach_addcmul_(squares, gradients, gradients, 0.001);
         const Tensors roots = at::_foreach_sqrt(squares);
         at::_foreach_add_(roots, 1e-3);
         at::_foreach_addcdiv_(weights, means, roots, Scalars{-0.1, -0.2, -0.3});
         return joined({weights, means, squares});
       }},
      // What momentum does, with one tensor twice in a list; a product and a sum may be one
      // rounding.
      {"aten._foreach_add_.List",
       kNumbers,
       kClose,
       [](Draw& d) {
         const Tensors gradients = copies(list(d));
         const Tensors weights = copies(list(d));
         // On a GPU the two would race.
         at::_foreach_mul_({weights[0], weights[weights[0].is_cuda() ? 1 : 0]}, 2);
         at::_foreach_add_(weights, gradients, -3);
         at::_foreach_sub_(weights, 1);
         const Tensors copied = copies(gradients);
         at::_foreach_copy_(copied, weights);
         at::_foreach_zero_({copied[0]});
         return joined({weights, copied});
       }},
  };
}

}  // namespace

std::vector<Line> list_lines() {
  std::vector<Line> lines = functional_lines();
  for (const Line& line : in_place_lines()) {
    lines.push_back(line);
  }
  return lines;
}

}  // namespace kiln::differential
