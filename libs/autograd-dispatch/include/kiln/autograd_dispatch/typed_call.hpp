// One way to call a function of values: flattens its arguments and restores its result.

#pragma once

#include <concepts>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "kiln/autograd_dispatch/flat_function.hpp"
#include "kiln/autograd_dispatch/signature.hpp"
#include "kiln/autograd_dispatch/values.hpp"

namespace kiln::autograd_dispatch::detail {

/// Throws `Error` unless `after` is what `before` was: the same tensors, the same numbers.
void check_not_assigned(std::size_t parameter, const Flat& before, const Flat& after);

/// A parameter that the function may assign to, so that the caller's variable changes.
template <class Parameter>
inline constexpr bool kMayBeAssigned =
    std::is_lvalue_reference_v<Parameter> && !std::is_const_v<std::remove_reference_t<Parameter>>;

/// Calls of an `F` with arguments for `Parameters`, which may be the first ones only where the
/// others have defaults.
template <class F, class... Parameters>
struct TypedCall {
  using Result = std::remove_cvref_t<std::invoke_result_t<F&, Parameters...>>;
  using Arguments = std::tuple<std::remove_cvref_t<Parameters>...>;
  static constexpr bool kOnValues =
      is_value<Arguments>() && (std::is_void_v<Result> || is_value<Result>());
  static_assert(kOnValues,
                "kiln::compile cannot find the tensors in a parameter or in the result of this "
                "function: use tensors, numbers, std::string, std::optional, std::vector, "
                "std::tuple, std::pair and std::map of them, or specialise kiln::ValueTraits for a "
                "type of your own");

  /// Takes apart what was given for the parameters, and whole numbers from the structure if they
  /// are to be.
  template <class... Given>
  static Flat flatten(bool integers_vary, const Given&... given) {
    Flattener parts{.integers_vary = integers_vary};
    (parts.template add<std::remove_cvref_t<Parameters>>(given), ...);
    return {std::move(parts.tensors), parts.structure.take(), std::move(parts.integers)};
  }

  static Result unflatten(const Flat& result) {
    if constexpr (!std::is_void_v<Result>) {
      Unflattener parts{result.tensors, StructureReader(result.structure, result.integers)};
      return parts.template read<Result>();
    }
  }

  static const FlatFunction::Program& program() {
    static const Structure structure = structure_of_result();
    static const FlatFunction::Program program = {
        .run = &run,
        .types = typeid(Arguments).name(),
        .result = has_one_structure<Result>() ? &structure : nullptr};
    return program;
  }

 private:
  // By-value parameters take a copy.
  template <class Parameter>
  using Passed = std::conditional_t<std::is_rvalue_reference_v<Parameter>,
                                    Parameter,
                                    std::remove_cvref_t<Parameter>&>;

  static Structure structure_of_result() {
    Flattener parts;
    if constexpr (has_one_structure<Result>()) {
      parts.add_structure<Result>();
    }
    return parts.structure.take();
  }

  static Arguments read(const Flat& flat) {
    Unflattener parts{flat.tensors, StructureReader(flat.structure, flat.integers)};
    return parts.template read<Arguments>();
  }

  static Flat run(void* function, const Flat& flat, bool integers_vary) {
    Arguments arguments = read(flat);
    const auto call = [&]<std::size_t... Index>(std::index_sequence<Index...>) -> Flat {
      F& called = *static_cast<F*>(function);
      if constexpr (std::is_void_v<Result>) {
        called(static_cast<Passed<Parameters>>(std::get<Index>(arguments))...);
        return {};
      } else {
        Flattener result{.integers_vary = integers_vary};
        result.add<Result>(called(static_cast<Passed<Parameters>>(std::get<Index>(arguments))...));
        return {std::move(result.tensors), result.structure.take(), std::move(result.integers)};
      }
    };
    Flat result = call(std::index_sequence_for<Parameters...>());
    if constexpr ((kMayBeAssigned<Parameters> || ...)) {
      check_arguments(arguments, read(flat), std::index_sequence_for<Parameters...>());
    }
    return result;
  }

  template <std::size_t... Index>
  static void check_arguments(const Arguments& after,
                              const Arguments& before,
                              std::index_sequence<Index...>) {
    const auto flat = [](const auto& value) {
      Flattener parts;
      parts.add(value);
      return Flat{std::move(parts.tensors), parts.structure.take()};
    };
    const auto check =
        [&]<class Parameter>(
            std::type_identity<Parameter>, std::size_t index, const auto& old, const auto& now) {
          if constexpr (kMayBeAssigned<Parameter>) {
            check_not_assigned(index, flat(old), flat(now));
          }
        };
    (check(
         std::type_identity<Parameters>(), Index, std::get<Index>(before), std::get<Index>(after)),
     ...);
  }
};

/// The call with arguments of types `Given`: without a signature they are passed on as they are.
template <class F, class Signature, class... Given>
struct CallOf {
  using Type = TypedCall<F, std::decay_t<const Given>&...>;
  static constexpr bool kPossible = std::invocable<F&, std::decay_t<const Given>&...>;
};

template <class F, class List, class Index, class... Given>
struct CallOfFirst;
template <class F, class... Parameters, std::size_t... Index, class... Given>
struct CallOfFirst<F, std::tuple<Parameters...>, std::index_sequence<Index...>, Given...> {
  template <std::size_t kIndex>
  using Parameter = std::tuple_element_t<kIndex, std::tuple<Parameters...>>;
  using Type = TypedCall<F, Parameter<Index>...>;
  static constexpr bool kPossible =
      (std::convertible_to<const Given&, std::remove_cvref_t<Parameter<Index>>> && ...) &&
      std::invocable<F&, Parameter<Index>...>;
};

struct NoCall {
  static constexpr bool kPossible = false;
};

template <class F, class Result, class... Parameters, class... Given>
struct CallOf<F, Result(Parameters...), Given...>
    : std::conditional_t<(sizeof...(Given) <= sizeof...(Parameters)),
                         CallOfFirst<F,
                                     std::tuple<Parameters...>,
                                     std::make_index_sequence<sizeof...(Given)>,
                                     Given...>,
                         NoCall> {};

}  // namespace kiln::autograd_dispatch::detail
