// What a callable takes and returns, as far as its type says.

#pragma once

#include <type_traits>

namespace kiln::autograd_dispatch {

namespace detail {

template <class Member>
struct MemberSignature;
template <class Class, class Result, bool kNoexcept, class... Parameters>
struct MemberSignature<Result (Class::*)(Parameters...) noexcept(kNoexcept)> {
  using Type = Result(Parameters...);
};
template <class Class, class Result, bool kNoexcept, class... Parameters>
struct MemberSignature<Result (Class::*)(Parameters...) const noexcept(kNoexcept)> {
  using Type = Result(Parameters...);
};
template <class Class, class Result, bool kNoexcept, class... Parameters>
struct MemberSignature<Result (Class::*)(Parameters...) & noexcept(kNoexcept)> {
  using Type = Result(Parameters...);
};
template <class Class, class Result, bool kNoexcept, class... Parameters>
struct MemberSignature<Result (Class::*)(Parameters...) const & noexcept(kNoexcept)> {
  using Type = Result(Parameters...);
};

}  // namespace detail

/// `Type` is the signature of a callable, `Result(Parameters...)`; `void` if it has several
/// (overloads, templates, generic lambdas).
template <class F>
struct SignatureOf {
  using Type = void;  ///< The signature.
};
/// Of a function.
template <class Result, bool kNoexcept, class... Parameters>
struct SignatureOf<Result (*)(Parameters...) noexcept(kNoexcept)> {
  using Type = Result(Parameters...);  ///< The signature.
};
/// Of an object with one `operator()`.
template <class F>
  requires requires { typename detail::MemberSignature<decltype(&F::operator())>::Type; }
struct SignatureOf<F> : detail::MemberSignature<decltype(&F::operator())> {};

}  // namespace kiln::autograd_dispatch
