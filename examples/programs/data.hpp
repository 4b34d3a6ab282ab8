// Made-up data with something to learn in it.

#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace programs {

/// Examples and what they are.
struct Labelled {
  torch::Tensor data, labels;
};

/// Images [count, channels, size, size] of noisy stripes in -1 … 1. The label, 0 … 9, is how fine
/// the stripes are.
Labelled striped_images(std::int64_t count, std::int64_t channels, std::int64_t size);

/// A text of `length` tokens out of `vocabulary`, in which a token mostly follows from the one
/// before.
torch::Tensor token_stream(std::int64_t length, std::int64_t vocabulary);

}  // namespace programs
