// Eager and compiled, side by side on equal inputs: everything that a caller can see must be equal.

#pragma once

#include <torch/torch.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kiln/testing/catch2.hpp"
#include "kiln/testing/comparison.hpp"

namespace kiln::testing {

using Tensors = std::vector<torch::Tensor>;
using TensorFunction = std::function<Tensors(const Tensors&)>;

/// What a function is called with, and the leaves whose gradients are to be compared.
struct Inputs {
  Inputs(Tensors both)
      : leaves(both), arguments(std::move(both)) {}  // NOLINT: a plain list will do
  Inputs(Tensors leaves_given, Tensors arguments_given)
      : leaves(std::move(leaves_given)), arguments(std::move(arguments_given)) {}

  Tensors leaves;
  Tensors arguments;
};

namespace detail {

/// One side of the comparison: what a call was given, and what came back.
struct Side {
  Tensors leaves, arguments, outputs;
  std::vector<bool> version_raised, rewritten;  // By argument.
  torch::Tensor generator;
  bool grad_mode = true;
  std::optional<std::string> error;
};

/// The elements of `tensor` as they are now, if it has any memory for them.
inline torch::Tensor elements_of(const torch::Tensor& tensor) {
  const bool readable = tensor.defined() && tensor.layout() == torch::kStrided &&
                        tensor.has_storage() &&
                        (tensor.numel() == 0 || tensor.storage().nbytes() != 0);
  return readable ? tensor.detach().clone() : torch::Tensor();
}

inline Side run(const TensorFunction& function, const std::function<Inputs()>& make) {
  Side side;
  torch::manual_seed(1);
  Inputs inputs = make();
  side.leaves = std::move(inputs.leaves);
  side.arguments = std::move(inputs.arguments);
  const auto version = [](const torch::Tensor& tensor) {
    return tensor.defined() && !tensor.is_inference() ? tensor._version() : 0;
  };
  std::vector<std::int64_t> versions;
  Tensors elements;
  for (const torch::Tensor& argument : side.arguments) {
    versions.push_back(version(argument));
    elements.push_back(elements_of(argument));
  }
  torch::manual_seed(2);
  {
    const at::AutoGradMode mode(c10::GradMode::is_enabled());
    side.outputs = function(side.arguments);
    side.grad_mode = c10::GradMode::is_enabled();
  }
  side.generator = at::globalContext().defaultGenerator(at::kCPU).get_state();
  for (std::size_t i = 0; i < side.arguments.size(); ++i) {
    side.version_raised.push_back(version(side.arguments[i]) != versions[i]);
    const torch::Tensor now = elements_of(side.arguments[i]);
    side.rewritten.push_back(now.defined() != elements[i].defined() ||
                             (now.defined() && !torch::equal(now, elements[i])));
  }
  return side;
}

/// Position of `tensor` itself among arguments and outputs; -1 if it is none of them.
inline int position(const Side& side, const torch::Tensor& tensor) {
  int position = 0;
  for (const Tensors* list : {&side.arguments, &side.outputs}) {
    for (const torch::Tensor& other : *list) {
      if (other.defined() && other.is_same(tensor)) {
        return position;
      }
      ++position;
    }
  }
  return -1;
}

/// What every tensor has to do with every other, as one line for each.
inline std::vector<std::string> relations(const Side& side) {
  const auto base = [](const torch::Tensor& tensor) {
    return tensor.is_view() ? torch::Tensor(tensor._base()) : torch::Tensor();
  };
  Tensors all = side.arguments;
  all.insert(all.end(), side.outputs.begin(), side.outputs.end());
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::string line = std::to_string(i) + ":";
    if (!all[i].defined()) {
      lines.push_back(line + " undefined");
      continue;
    }
    line += " same as " + std::to_string(position(side, all[i]));
    const torch::Tensor its_base = base(all[i]);
    if (its_base.defined() && position(side, its_base) >= 0) {
      line += ", view of " + std::to_string(position(side, its_base));
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (!all[j].defined()) {
        continue;
      }
      if (all[i].is_alias_of(all[j])) {
        line += ", on the memory of " + std::to_string(j);
      }
      if (its_base.defined() && base(all[j]).defined() && its_base.is_same(base(all[j])) &&
          !all[i].is_same(all[j])) {
        line += ", view of the same as " + std::to_string(j);
      }
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

/// "none", "view" or "computed".
inline std::string history_kind(const torch::Tensor& tensor) {
  if (!tensor.grad_fn()) {
    return "none";
  }
  return tensor.is_view() ? "view" : "computed";
}

inline std::string numbered(const char* what, std::size_t number) {
  return what + (" " + std::to_string(number));
}

inline void compare_arguments(const Side& found, const Side& expected, Comparison& to) {
  for (std::size_t i = 0; i < expected.arguments.size(); ++i) {
    const std::string where = numbered("argument", i);
    const torch::Tensor& argument = found.arguments[i];
    const torch::Tensor& wanted = expected.arguments[i];
    to.same_tensor(where, argument, wanted);
    if (!wanted.defined() || !wanted.has_storage() || !argument.defined()) {
      continue;
    }
    to.same(where, "storage_offset", argument.storage_offset(), wanted.storage_offset());
    to.same(where, "nbytes", argument.storage().nbytes(), wanted.storage().nbytes());
    to.same(where, "history", history_kind(argument), history_kind(wanted));
    // Eager does not count what batch norm writes into its statistics: there we may.
    if (expected.version_raised[i] || !expected.rewritten[i]) {
      const bool raised = found.version_raised[i], should_be = expected.version_raised[i];
      to.same(where, "version raised", raised, should_be);
    }
  }
}

inline std::optional<std::string> error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
  return std::nullopt;
}

/// One backward through every output, then through every argument with a history, in turn; the
/// gradients of all leaves after each.
inline void compare_gradients(Side& found, Side& expected, Comparison& to) {
  const auto backward = [](torch::Tensor& tensor) {
    torch::manual_seed(3);
    const torch::Tensor tangent = torch::randn_like(tensor.detach());
    tensor.backward(tangent, /*retain_graph=*/true);
  };
  const auto compare_through = [&](const std::string& where, auto& ours, auto& theirs) {
    if (!theirs.defined() || !theirs.requires_grad() || !ours.requires_grad()) {
      return;
    }
    const auto wanted = error_of([&] { backward(theirs); });
    const auto got = error_of([&] { backward(ours); });
    if (!to.same_error(where, got, wanted)) {
      return;
    }
    for (std::size_t j = 0; j < expected.leaves.size(); ++j) {
      const torch::Tensor& leaf = expected.leaves[j];
      if (leaf.defined() && leaf.is_leaf()) {
        to.same_elements(
            where + numbered(", gradient of leaf", j), found.leaves[j].grad(), leaf.grad());
      }
    }
  };
  for (std::size_t i = 0; i < expected.outputs.size(); ++i) {
    compare_through(numbered("backward through result", i), found.outputs[i], expected.outputs[i]);
  }
  for (std::size_t i = 0; i < expected.arguments.size(); ++i) {
    if (expected.arguments[i].defined() && !expected.arguments[i].is_leaf()) {
      compare_through(
          numbered("backward through argument", i), found.arguments[i], expected.arguments[i]);
    }
  }
}

/// Doubles each output in place, in turn: what eager refuses must be refused, and what shares
/// memory must see it.
inline void compare_writes(Side& found, Side& expected, Comparison& to) {
  for (std::size_t i = 0; i < expected.outputs.size(); ++i) {
    if (!expected.outputs[i].defined()) {
      continue;
    }
    const std::string where = numbered("after a write to result", i);
    const auto wanted = error_of([&] { expected.outputs[i].mul_(2); });
    const auto got = error_of([&] { found.outputs[i].mul_(2); });
    to.same_error(where, got, wanted);
    for (std::size_t j = 0; j < expected.outputs.size(); ++j) {
      to.same_elements(where + numbered(", result", j), found.outputs[j], expected.outputs[j]);
    }
    for (std::size_t j = 0; j < expected.arguments.size(); ++j) {
      to.same_elements(
          where + numbered(", argument", j), found.arguments[j], expected.arguments[j]);
    }
  }
}

/// Lets go of everything and counts the memory that stays.
inline int storages_left(Side side) {
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> watched;
  for (const Tensors* list : {&side.arguments, &side.outputs}) {
    for (const torch::Tensor& tensor : *list) {
      if (tensor.defined() && tensor.has_storage()) {
        watched.push_back(tensor.storage().getWeakStorageImpl());
      }
    }
  }
  side = Side();
  int left = 0;
  for (const auto& storage : watched) {
    left += storage.expired() ? 0 : 1;
  }
  return left;
}

}  // namespace detail

/// Runs `eager` and `compiled` on inputs that `make` gives (equal ones: it is seeded alike), and
/// returns what differs, a sentence for each.
///
/// Compared are outputs (values, dtype, geometry, requires_grad, leaf or not, who is a view of
/// whom, who shares memory, who is the same object), arguments after the call (all of that, storage
/// size, version raised, kind of history), the random generator, grad mode, the gradients of all
/// leaves by one backward through each output and argument in turn, the effect of writing to each
/// output, and whether memory is released. If eager throws, compiled must.
inline std::vector<std::string> differences_from_eager(const TensorFunction& eager,
                                                       const TensorFunction& compiled,
                                                       const std::function<Inputs()>& make,
                                                       Tolerance tolerance = {}) {
  using namespace detail;
  Comparison to(tolerance);
  Side expected, found;
  const auto wanted = error_of([&] { expected = run(eager, make); });
  const auto got = error_of([&] { found = run(compiled, make); });
  if (!to.same_error("the call", got, wanted)) {
    return to.differences();
  }
  to.same("the call", "number of results", found.outputs.size(), expected.outputs.size());
  if (found.outputs.size() != expected.outputs.size()) {
    return to.differences();
  }

  to.same("the call", "grad mode afterwards", found.grad_mode, expected.grad_mode);
  to.same_elements("the random generator", found.generator, expected.generator);
  for (std::size_t i = 0; i < expected.outputs.size(); ++i) {
    to.same_tensor(numbered("result", i), found.outputs[i], expected.outputs[i]);
  }
  compare_arguments(found, expected, to);
  const auto found_relations = relations(found), expected_relations = relations(expected);
  for (std::size_t i = 0; i < expected_relations.size(); ++i) {
    to.same("arguments and results", "relation of", found_relations[i], expected_relations[i]);
  }
  compare_gradients(found, expected, to);
  compare_writes(found, expected, to);
  const int expected_left = storages_left(std::move(expected));
  to.same("the end", "memory kept", storages_left(std::move(found)), expected_left);
  return to.differences();
}

/// Fails with everything in which `compiled` differs from `eager`.
inline void check_like_eager(const TensorFunction& eager,
                             const TensorFunction& compiled,
                             const std::function<Inputs()>& make,
                             Tolerance tolerance = {}) {
  CHECK(differences_from_eager(eager, compiled, make, tolerance) == std::vector<std::string>());
}

}  // namespace kiln::testing
