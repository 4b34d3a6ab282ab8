// Just-in-time compilation of C++ functions and modules.

#pragma once

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "kiln/autograd_dispatch/signature.hpp"
#include "kiln/base/error.hpp"
#include "kiln/jit/function.hpp"
#include "kiln/jit/structured_function.hpp"
#include "kiln/jit/typed_function.hpp"

namespace torch::nn {
template <typename Contained>
class ModuleHolder;
}  // namespace torch::nn

namespace kiln {

namespace detail {

using autograd_dispatch::SignatureOf;

template <class Impl>
std::type_identity<Impl> held_by(const torch::nn::ModuleHolder<Impl>&);

/// A module holder: `torch::nn::Linear` and other types that TORCH_MODULE defines.
template <class T>
concept Holder = requires(const T& holder) { held_by(holder); };

template <class T>
inline constexpr bool kIsModule = std::is_class_v<T> && std::is_base_of_v<torch::nn::Module, T>;

/// The forward of a module, as a function object.
template <class Impl>
struct Forward {
  std::shared_ptr<Impl> module;

  template <class... Given>
    requires requires(Impl& of, Given&&... given) { of.forward(std::forward<Given>(given)...); }
  decltype(auto) operator()(Given&&... given) const {
    return module->forward(std::forward<Given>(given)...);
  }
};

template <class T>
inline constexpr bool kIsModulePointer = false;
template <class T>
inline constexpr bool kIsModulePointer<std::shared_ptr<T>> = kIsModule<T>;

// A name that two bases have is ambiguous: this finds it even if it is a template.
struct Named {
  void operator()();
  void forward();
};
template <class T>
struct WithNamed : T, Named {};

template <class T>
inline constexpr bool kHasForward = !requires { &WithNamed<T>::forward; };
template <class T>
  requires std::is_final_v<T>
inline constexpr bool kHasForward<T> = true;

template <class T>
inline constexpr bool kIsCallable = !std::is_same_v<typename SignatureOf<T>::Type, void>;
template <class T>
  requires(std::is_class_v<T> && !std::is_final_v<T>)
inline constexpr bool kIsCallable<T> = !requires { &WithNamed<T>::operator(); };

template <class Parameter>
inline constexpr bool kIsList =
    std::is_same_v<std::remove_cvref_t<Parameter>, Tensors> ||
    std::is_same_v<std::remove_cvref_t<Parameter>, c10::ArrayRef<at::Tensor>>;

/// Which kind of compiled function a signature leads to.
template <class Signature>
struct Kind {
  static constexpr bool kTensors = false, kValues = false;
};
template <class Result, class Parameter>
struct Kind<Result(Parameter)> {
  static constexpr bool kTensors = kIsList<Parameter> &&
                                   std::is_convertible_v<const Tensors&, Parameter> &&
                                   std::is_convertible_v<Result, Tensors>;
  static constexpr bool kValues = std::is_same_v<std::remove_cvref_t<Parameter>, Values> &&
                                  std::is_same_v<std::remove_cvref_t<Result>, c10::IValue>;
};

template <class T>
inline constexpr bool kIsStdFunction = false;
template <class Signature>
inline constexpr bool kIsStdFunction<std::function<Signature>> = true;

template <class F>
using KindOf = Kind<typename SignatureOf<F>::Type>;

}  // namespace detail

}  // namespace kiln

/// The signature of a module's forward, unless it is overloaded.
template <class Impl>
  requires requires {
    typename kiln::autograd_dispatch::detail::MemberSignature<decltype(&Impl::forward)>::Type;
  }
struct kiln::autograd_dispatch::SignatureOf<kiln::detail::Forward<Impl>>
    : kiln::autograd_dispatch::detail::MemberSignature<decltype(&Impl::forward)> {};

namespace kiln {

namespace detail {

template <class F>
auto compile_function(std::shared_ptr<torch::nn::Module> module, F&& fn, CompileOptions options) {
  using Stored = std::decay_t<F>;
  if constexpr (!kIsCallable<Stored>) {
    static_assert(kIsCallable<Stored>,
                  "kiln::compile takes a function, a lambda, a module holder such as "
                  "torch::nn::Linear, or a std::shared_ptr to a module; for anything else write "
                  "kiln::compile([=](at::Tensor x) { return ...; })");
    return Function();
  } else if constexpr (KindOf<Stored>::kTensors) {
    return compile(std::move(module), TensorFunction(std::forward<F>(fn)), std::move(options));
  } else if constexpr (KindOf<Stored>::kValues) {
    return compile_structured(
        std::move(module), ValueFunction(std::forward<F>(fn)), std::move(options));
  } else {
    if constexpr (std::is_pointer_v<std::remove_cvref_t<F>> || kIsStdFunction<Stored>) {
      check_function(fn != nullptr);
    }
    return TypedFunction<Stored>(std::forward<F>(fn), std::move(module), std::move(options));
  }
}

template <class Impl>
auto compile_module(const std::shared_ptr<Impl>& module, CompileOptions options) {
  if constexpr (!kHasForward<Impl>) {
    static_assert(kHasForward<Impl>,
                  "kiln::compile calls the module's forward, and this class has none: pass a "
                  "std::shared_ptr to the module's own class, or write kiln::compile(module, "
                  "[=](at::Tensor x) { return ...; })");
    return Function();
  } else {
    check_function(module != nullptr);
    return compile_function(module, Forward<Impl>{module}, std::move(options));
  }
}

}  // namespace detail

/// Compiles a function or a module when it is first called. The result is called in the same way,
/// and has `prepare` and `report`:
///
///   auto fast = kiln::compile([](at::Tensor x, double scale) { return x * scale; });
///   at::Tensor y = fast(x, 2.0);
///
/// - a function, lambda or functor: a `TypedFunction`;
/// - a module holder (`torch::nn::LSTM`, types of TORCH_MODULE) or a `std::shared_ptr` to a
///   module: a `TypedFunction`, called as `forward` is. Guarded too: `train()`/`eval()` of every
///   submodule, and parameters that are replaced, moved or frozen;
/// - a `TensorFunction`, from a list of tensors to one: a `Function`, `fast({x, y})[0]`;
/// - a `ValueFunction`, of `c10::IValue`: a `StructuredFunction`.
///
/// Tensors that the function uses and that are not arguments are read anew at each call and get
/// their gradients.
template <class F>
[[nodiscard]] auto compile(F&& fn, CompileOptions options = default_options()) {
  using Given = std::remove_cvref_t<F>;
  if constexpr (detail::Holder<Given>) {
    return detail::compile_module(fn.ptr(), std::move(options));
  } else if constexpr (detail::kIsModulePointer<Given>) {
    return detail::compile_module(fn, std::move(options));
  } else if constexpr (detail::kIsModule<Given>) {
    static_assert(!detail::kIsModule<Given>,
                  "kiln::compile keeps a module alive: make it with std::make_shared<Net>(), or "
                  "with TORCH_MODULE(Net), and pass that");
    return Function();
  } else {
    return detail::compile_function(nullptr, std::forward<F>(fn), std::move(options));
  }
}

/// Compiles `forward`, any function that the other overload takes, and also guards `module`, a
/// holder or a pointer.
template <class M, class F>
  requires((detail::Holder<M> || detail::kIsModulePointer<M>) &&
           !std::is_same_v<std::remove_cvref_t<F>, CompileOptions>)
[[nodiscard]] auto compile(const M& module,
                           F&& forward,
                           CompileOptions options = default_options()) {
  if constexpr (detail::Holder<M>) {
    return detail::compile_function(module.ptr(), std::forward<F>(forward), std::move(options));
  } else {
    return detail::compile_function(module, std::forward<F>(forward), std::move(options));
  }
}

}  // namespace kiln
