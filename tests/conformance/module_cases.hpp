// Every module of torch::nn, with arguments for it.

#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kiln/testing/compare_with_eager.hpp"

namespace kiln::testing {

struct ModuleCase {
  std::string name;  ///< As in torch::nn, a remark behind a space.
  std::function<std::shared_ptr<torch::nn::Module>()> make;
  std::function<Tensors()> arguments;
  std::function<Tensors(torch::nn::Module&, const Tensors&)> forward;
  std::string refused = {};  ///< What the error says, if it cannot be compiled.
};

/// Modules that compute on elements, move them, or measure a distance or a loss.
[[nodiscard]] std::vector<ModuleCase> elementwise_modules();
/// The others: products, pools, norms, recurrent networks, transformers.
[[nodiscard]] std::vector<ModuleCase> structured_modules();

/// A leaf.
inline torch::Tensor normal(std::vector<std::int64_t> shape) {
  return torch::randn(shape).requires_grad_();
}

/// A leaf of numbers between 0 and 1.
inline torch::Tensor unit(std::vector<std::int64_t> shape) {
  return (0.05 + 0.9 * torch::rand(shape)).requires_grad_();
}

inline torch::Tensor integers(std::int64_t below, std::vector<std::int64_t> shape) {
  return torch::randint(below, shape, torch::kLong);
}

/// Ones and minus ones.
inline torch::Tensor signs(std::vector<std::int64_t> shape) {
  return torch::randint(2, shape, torch::kFloat) * 2 - 1;
}

namespace detail {

inline void append(Tensors& list, const torch::Tensor& tensor) {
  list.push_back(tensor);
}
template <class... Parts>
void append(Tensors& list, const std::tuple<Parts...>& parts) {
  std::apply([&](const auto&... part) { (append(list, part), ...); }, parts);
}

template <class Impl, std::size_t... Index>
Tensors forward(Impl& module, const Tensors& in, std::index_sequence<Index...>) {
  Tensors outputs;
  append(outputs, module.forward(in[Index]...));
  return outputs;
}

}  // namespace detail

/// A module whose forward takes `Count` tensors. `make` returns its holder.
template <std::size_t Count = 1, class Make>
ModuleCase module_case(std::string name, Make make, std::function<Tensors()> arguments) {
  using Impl = std::remove_reference_t<decltype(*make())>;
  return {std::move(name),
          [make] { return std::shared_ptr<torch::nn::Module>(make().ptr()); },
          std::move(arguments),
          [](torch::nn::Module& module, const Tensors& in) {
            return detail::forward(
                dynamic_cast<Impl&>(module), in, std::make_index_sequence<Count>());
          }};
}

/// `example`, which cannot be compiled: the error has `message` in it.
inline ModuleCase refused(ModuleCase example, std::string message) {
  example.refused = std::move(message);
  return example;
}

}  // namespace kiln::testing
