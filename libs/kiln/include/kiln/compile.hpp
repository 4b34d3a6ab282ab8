// Just-in-time compilation of C++ functions and modules.

#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "kiln/base/error.hpp"
#include "kiln/options.hpp"

namespace torch::nn {
class Module;
template <typename Contained>
class ModuleHolder;
}  // namespace torch::nn

namespace kiln {

using Tensors = std::vector<at::Tensor>;
using TensorFunction = std::function<Tensors(const Tensors&)>;

/// A compiled function. Copies share what they compiled; callable from many threads. One that
/// `compile` did not make, or that was moved from, is empty: all members throw `Error` with
/// `kInvalidArgument`.
class Function {
 public:
  /// Runs on `inputs`. The first call traces and compiles, and so does a call for which no compiled
  /// version holds: other dtypes, shapes, strides, aliasing, requires_grad, grad mode, autocast.
  /// Where nothing is differentiable, written or drawn at random, what the trace computed is what
  /// that call returns.
  ///
  /// Inside a program that is being recorded it is the function that was compiled.
  ///
  /// Throws what the function throws, and `Error` if it cannot be compiled.
  Tensors operator()(const Tensors& inputs) const;

  /// Compiles for calls with tensors like `example`, which are not changed, without such a call.
  void prepare(const Tensors& example) const;

  /// What was compiled so far. Taken as a copy: other threads may be compiling.
  [[nodiscard]] CompileReport report() const;

 private:
  friend Function compile(std::shared_ptr<torch::nn::Module> module,
                          TensorFunction forward,
                          CompileOptions options);
  struct State;
  [[nodiscard]] State& state() const;
  std::shared_ptr<State> state_;
};

/// Compiles a module's forward when it is first called. Guarded too: `train()`/`eval()` of every
/// submodule, and parameters that are replaced, moved or frozen.
[[nodiscard]] Function compile(std::shared_ptr<torch::nn::Module> module,
                               TensorFunction forward,
                               CompileOptions options = default_options());

namespace detail {

template <class Impl>
void accept_module(const torch::nn::ModuleHolder<Impl>&);

/// A `TensorFunction` or what becomes one. Modules of libtorch are left out first: they are
/// callable too, and to ask with what is an error in their own header.
template <class F>
concept Callable = !requires(const std::remove_cvref_t<F>& f) { accept_module(f); } &&
                   std::is_convertible_v<F, TensorFunction>;

inline Tensors as_tensors(Tensors outputs) {
  return outputs;
}
inline Tensors as_tensors(at::Tensor output) {
  return {std::move(output)};
}
template <class... Parts>
Tensors as_tensors(std::tuple<Parts...> outputs) {
  return std::apply(
      [](auto&&... parts) { return Tensors{std::forward<decltype(parts)>(parts)...}; },
      std::move(outputs));
}

template <class Impl, std::size_t... Index>
Tensors call_forward(Impl& module, const Tensors& in, std::index_sequence<Index...>) {
  if constexpr (requires { module.forward(in[Index]...); }) {
    return as_tensors(module.forward(in[Index]...));
  } else {
    throw Error(
        ErrorCode::kInvalidArgument,
        "the module's forward does not take " + std::to_string(sizeof...(Index)) + " tensors");
  }
}

template <class Impl>
Tensors call_forward(Impl& module, const Tensors& in) {
  switch (in.size()) {
    case 0: return call_forward(module, in, std::make_index_sequence<0>());
    case 1: return call_forward(module, in, std::make_index_sequence<1>());
    case 2: return call_forward(module, in, std::make_index_sequence<2>());
    case 3: return call_forward(module, in, std::make_index_sequence<3>());
    case 4: return call_forward(module, in, std::make_index_sequence<4>());
    default:
      throw Error(ErrorCode::kInvalidArgument,
                  "a forward of more than four tensors: use compile(module, forward) with a "
                  "function of your own");
  }
}

}  // namespace detail

/// Compiles `fn`, a `TensorFunction`, when it is first called. Tensors that it uses and that are no
/// arguments are read anew at each call and get their gradients.
template <detail::Callable F>
[[nodiscard]] Function compile(F&& fn, CompileOptions options = default_options()) {
  return compile(std::shared_ptr<torch::nn::Module>(),
                 TensorFunction(std::forward<F>(fn)),
                 std::move(options));
}

/// Compiles a module such as `torch::nn::Linear` or `torch::nn::Sequential`, whose forward takes up
/// to four tensors.
template <class Impl>
[[nodiscard]] Function compile(torch::nn::ModuleHolder<Impl> module,
                               CompileOptions options = default_options()) {
  std::shared_ptr<Impl> pointer = module.ptr();
  return compile(
      std::shared_ptr<torch::nn::Module>(pointer),
      [pointer](const Tensors& in) { return detail::call_forward(*pointer, in); },
      std::move(options));
}

}  // namespace kiln
