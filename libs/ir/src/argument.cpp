#include "argument.hpp"

#include <bit>
#include <functional>
#include <type_traits>

namespace kiln::ir {
namespace {

std::uint64_t bits_of(double value) {
  return std::bit_cast<std::uint64_t>(value);
}

template <class T>
std::size_t hash_item(const T& value) {
  if constexpr (std::is_same_v<T, std::monostate>) {
    return 1;
  } else if constexpr (std::is_same_v<T, Expr> || std::is_same_v<T, RealExpr>) {
    return value.hash();
  } else if constexpr (std::is_same_v<T, double>) {
    return std::hash<std::uint64_t>()(bits_of(value));
  } else if constexpr (std::is_same_v<T, std::complex<double>>) {
    return combine_hash(bits_of(value.real()), bits_of(value.imag()));
  } else if constexpr (std::is_enum_v<T>) {
    return static_cast<std::size_t>(value);
  } else if constexpr (std::is_same_v<T, Device>) {
    return combine_hash(static_cast<std::size_t>(value.type),
                        static_cast<std::size_t>(value.index));
  } else if constexpr (std::is_same_v<T, SubgraphRef>) {
    return value.index;
  } else if constexpr (requires {
                         value.size();
                         value.begin();
                       } && !std::is_same_v<T, std::string>) {
    std::size_t seed = value.size();
    for (const auto& item : value) {
      seed = combine_hash(seed, hash_item<typename T::value_type>(item));
    }
    return seed;
  } else {
    return std::hash<T>()(value);
  }
}

}  // namespace

std::size_t hash_of(const Argument& argument) {
  return combine_hash(argument.index(),
                      std::visit([](const auto& value) { return hash_item(value); }, argument));
}

bool identical(const Argument& a, const Argument& b) {
  if (a.index() != b.index()) {
    return false;
  }
  if (const auto* left = std::get_if<double>(&a)) {
    return bits_of(*left) == bits_of(std::get<double>(b));
  }
  if (const auto* left = std::get_if<std::complex<double>>(&a)) {
    const auto right = std::get<std::complex<double>>(b);
    return bits_of(left->real()) == bits_of(right.real()) &&
           bits_of(left->imag()) == bits_of(right.imag());
  }
  if (const auto* left = std::get_if<std::vector<double>>(&a)) {
    const auto& right = std::get<std::vector<double>>(b);
    bool same = left->size() == right.size();
    for (std::size_t i = 0; same && i < right.size(); ++i) {
      same = bits_of((*left)[i]) == bits_of(right[i]);
    }
    return same;
  }
  return a == b;
}

}  // namespace kiln::ir
