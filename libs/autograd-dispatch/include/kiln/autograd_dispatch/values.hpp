// Flattens values that hold tensors, and restores them: tensors, numbers, strings, lists, tuples,
// dictionaries of them, and user-defined types that wrap tensors.

#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "kiln/autograd_dispatch/compiler.hpp"
#include "kiln/autograd_dispatch/structure.hpp"

namespace kiln::autograd_dispatch {

/// How a type that wraps tensors is flattened. To be specialised, with
///
///   static constexpr const char* kName = "two-tensor";         // without spaces
///   static auto flatten(const T& value);                       // a std::tuple of its parts
///   static T unflatten(Part0 part0, Part1 part1, …);           // from the same parts
///
/// A part is any value: a tensor, another wrapper, a number or a string that belongs to the type
/// and is not data. `unflatten` must take undefined tensors too.
template <class T>
struct ValueTraits;

/// A flattened value.
struct Flat {
  Tensors tensors;      ///< In the order in which they were found.
  Structure structure;  ///< Everything else.
  /// Integers that are not part of the structure, in order.
  std::vector<std::int64_t> integers = {};
};

/// Whether an integer among arguments may vary, after `others` that do: it is then not part of
/// their structure, and compiled code may serve a range of integers.
[[nodiscard]] constexpr bool integer_may_vary(std::int64_t value, std::size_t others) {
  constexpr std::int64_t kLargest = INT32_MAX;
  constexpr std::size_t kMost = 16;
  return value >= 0 && value <= kLargest && others < kMost;
}

namespace detail {

template <class T, template <class...> class Template>
inline constexpr bool kIs = false;
template <template <class...> class Template, class... Parts>
inline constexpr bool kIs<Template<Parts...>, Template> = true;

/// A type that defines how it is flattened.
template <class T>
concept Wrapper = requires { ValueTraits<T>::kName; };

template <class T>
using PartsOf = decltype(ValueTraits<T>::flatten(std::declval<const T&>()));

template <class T>
constexpr bool is_value() {
  if constexpr (kIs<T, std::optional> || kIs<T, std::vector>) {
    return is_value<typename T::value_type>();
  } else if constexpr (kIs<T, std::map>) {
    return is_value<typename T::key_type>() && is_value<typename T::mapped_type>();
  } else if constexpr (kIs<T, std::tuple> || kIs<T, std::pair>) {
    return []<std::size_t... Index>(std::index_sequence<Index...>) {
      return (is_value<std::remove_cvref_t<std::tuple_element_t<Index, T>>>() && ...);
    }(std::make_index_sequence<std::tuple_size_v<T>>());
  } else {
    return std::same_as<T, at::Tensor> || std::integral<T> || std::is_enum_v<T> ||
           std::floating_point<T> || std::same_as<T, at::Scalar> || std::same_as<T, std::string> ||
           Wrapper<T>;
  }
}

/// Whether all values of a type have one structure: tensors, tuples and wrappers of tensors.
template <class T>
constexpr bool has_one_structure() {
  if constexpr (kIs<T, std::tuple> || kIs<T, std::pair>) {
    return []<std::size_t... Index>(std::index_sequence<Index...>) {
      return (has_one_structure<std::remove_cvref_t<std::tuple_element_t<Index, T>>>() && ...);
    }(std::make_index_sequence<std::tuple_size_v<T>>());
  } else if constexpr (Wrapper<T>) {
    return has_one_structure<PartsOf<T>>();
  } else {
    return std::same_as<T, at::Tensor> || std::is_void_v<T>;
  }
}

/// A number whose type is part of its value.
void add_scalar(StructureWriter& structure, const at::Scalar& scalar);
[[nodiscard]] at::Scalar read_scalar(StructureReader& structure);

struct Flattener {
  Tensors tensors = {};
  StructureWriter structure = {};
  bool integers_vary = false;  ///< Keep whole numbers apart, where that can be.
  std::vector<std::int64_t> integers = {};

  template <class T>
  void add(const T& value) {
    if constexpr (std::same_as<T, at::Tensor>) {
      structure.add_word("tensor");
      tensors.push_back(value);
    } else if constexpr (std::integral<T> && !std::same_as<T, bool>) {
      add_integer(static_cast<std::int64_t>(value));
    } else if constexpr (std::integral<T> || std::is_enum_v<T>) {
      structure.add_integer(static_cast<std::int64_t>(value));
    } else if constexpr (std::floating_point<T>) {
      structure.add_number(value);
    } else if constexpr (std::same_as<T, at::Scalar>) {
      if (value.type() == at::kLong && !value.isSymbolic()) {
        structure.add_integer(static_cast<std::int64_t>(at::kLong));
        add_integer(value.toLong());
      } else {
        add_scalar(structure, value);
      }
    } else if constexpr (std::same_as<T, std::string>) {
      structure.add_string(value);
    } else if constexpr (kIs<T, std::optional>) {
      structure.add_integer(value.has_value() ? 1 : 0);
      if (value) {
        add(*value);
      }
    } else if constexpr (kIs<T, std::vector>) {
      structure.add_integer(static_cast<std::int64_t>(value.size()));
      for (const typename T::value_type& part : value) {
        add(part);
      }
    } else if constexpr (kIs<T, std::map>) {
      structure.add_integer(static_cast<std::int64_t>(value.size()));
      for (const auto& [key, part] : value) {
        add(key);
        add(part);
      }
    } else if constexpr (kIs<T, std::tuple> || kIs<T, std::pair>) {
      std::apply([this](const auto&... parts) { (add(parts), ...); }, value);
    } else if constexpr (Wrapper<T>) {
      structure.add_word(ValueTraits<T>::kName);
      add(ValueTraits<T>::flatten(value));
    }
  }

  void add_integer(std::int64_t value) {
    if (integers_vary && integer_may_vary(value, integers.size())) {
      structure.add_symbolic_integer();
      integers.push_back(value);
    } else {
      structure.add_integer(value);
    }
  }

  /// The structure of all values of a type that has one only.
  template <class T>
  void add_structure() {
    if constexpr (std::same_as<T, at::Tensor>) {
      structure.add_word("tensor");
    } else if constexpr (Wrapper<T>) {
      structure.add_word(ValueTraits<T>::kName);
      add_structure<PartsOf<T>>();
    } else if constexpr (!std::is_void_v<T>) {
      [this]<std::size_t... Index>(std::index_sequence<Index...>) {
        (add_structure<std::remove_cvref_t<std::tuple_element_t<Index, T>>>(), ...);
      }(std::make_index_sequence<std::tuple_size_v<T>>());
    }
  }
};

struct Unflattener {
  const Tensors& tensors;
  StructureReader structure;
  std::size_t next = 0;

  template <class T>
  T read() {
    if constexpr (std::same_as<T, at::Tensor>) {
      structure.expect_word("tensor");
      return tensors.at(next++);
    } else if constexpr (std::integral<T> || std::is_enum_v<T>) {
      return static_cast<T>(structure.read_integer());
    } else if constexpr (std::floating_point<T>) {
      return static_cast<T>(structure.read_number());
    } else if constexpr (std::same_as<T, at::Scalar>) {
      return read_scalar(structure);
    } else if constexpr (std::same_as<T, std::string>) {
      return structure.read_string();
    } else if constexpr (kIs<T, std::optional>) {
      return structure.read_integer() == 0 ? T() : T(read<typename T::value_type>());
    } else if constexpr (kIs<T, std::vector>) {
      T list;
      for (std::int64_t left = structure.read_integer(); left > 0; --left) {
        list.push_back(read<typename T::value_type>());
      }
      return list;
    } else if constexpr (kIs<T, std::map>) {
      T map;
      for (std::int64_t left = structure.read_integer(); left > 0; --left) {
        auto key = read<typename T::key_type>();
        map.emplace(std::move(key), read<typename T::mapped_type>());
      }
      return map;
    } else if constexpr (kIs<T, std::tuple> || kIs<T, std::pair>) {
      return read_parts<T>(std::make_index_sequence<std::tuple_size_v<T>>());
    } else if constexpr (Wrapper<T>) {
      structure.expect_word(ValueTraits<T>::kName);
      return std::apply(ValueTraits<T>::unflatten, read<PartsOf<T>>());
    } else {
      std::abort();  // Not reached: whoever calls asserts `kIsValue`.
    }
  }

  // Braces, because they are evaluated from left to right.
  template <class T, std::size_t... Index>
  T read_parts(std::index_sequence<Index...>) {
    return T{read<std::remove_cvref_t<std::tuple_element_t<Index, T>>>()...};
  }
};

/// See `backward`.
void backward(const Flat& output, const Flat& gradient, bool retain_graph);
/// See `gradient_of`.
[[nodiscard]] Tensors gradients_of(const Tensors& tensors);

}  // namespace detail

/// Whether a type can be flattened.
template <class T>
inline constexpr bool kIsValue = detail::is_value<T>();

/// Takes `value` apart.
template <class T>
  requires kIsValue<T>
[[nodiscard]] Flat take_apart(const T& value) {
  detail::Flattener parts;
  parts.add(value);
  return {std::move(parts.tensors), parts.structure.take()};
}

/// Puts a value together from its tensors. Throws `Error` with `kInvalidArgument` if the structure
/// is none of a `T`.
template <class T>
  requires kIsValue<T>
[[nodiscard]] T put_together(const Flat& flat) {
  detail::Unflattener parts{flat.tensors, StructureReader(flat.structure)};
  return parts.read<T>();
}

/// The gradients that have been accumulated for the tensors in `value`, as a value of its kind:
/// undefined tensors where there is none.
template <class T>
[[nodiscard]] T gradient_of(const T& value) {
  Flat flat = take_apart(value);
  flat.tensors = detail::gradients_of(flat.tensors);
  return put_together<T>(flat);
}

/// One backward through all tensors of `output` that require grad.
///
/// Throws `Error` with `kInvalidArgument` if `gradient` is a value of another structure.
template <class T, class G>
void backward(const T& output, const G& gradient, bool retain_graph = false) {
  detail::backward(take_apart(output), take_apart(gradient), retain_graph);
}

}  // namespace kiln::autograd_dispatch
