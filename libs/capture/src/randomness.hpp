// Random numbers during a trace that must leave no trace.

#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace kiln::capture {

/// A private copy of each device's default generator, made at its first use: what is drawn from it
/// is what eager would have drawn, and the default generator goes on as if nothing had happened.
class PrivateGenerator {
 public:
  /// Runs `call` on `stack`, with the private generator in the place of the default one: handed
  /// over as the argument at `generator_argument` (counted among the last `arguments` entries of
  /// `stack`) where the operator takes one, else by swapping the default generator's state round
  /// the call.
  void run(torch::jit::Stack& stack,
           std::size_t arguments,
           std::optional<std::uint32_t> generator_argument,
           const std::function<void()>& call);

 private:
  at::Generator& of(at::Generator& shared);

  std::vector<std::pair<c10::Device, at::Generator>> generators_;  // One or two.
};

/// The default generator as it was: a program on shadow inputs draws from a private one, and
/// changes it only by seeding it, which is not an operator.
class UnseededGenerator {
 public:
  UnseededGenerator();

  /// Whether the program has seeded it, which is undone.
  bool restore_if_seeded() const;

 private:
  at::Tensor state_;
  std::uint64_t seed_;
};

}  // namespace kiln::capture
