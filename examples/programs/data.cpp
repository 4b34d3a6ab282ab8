#include "data.hpp"

namespace programs {

Labelled striped_images(std::int64_t count, std::int64_t channels, std::int64_t size) {
  const torch::Tensor labels = torch::randint(10, {count}, torch::kLong);
  const torch::Tensor frequency = 0.2 + 0.15 * labels.to(torch::kFloat).view({-1, 1, 1, 1});
  const torch::Tensor across = torch::arange(size).view({1, 1, 1, size});
  const torch::Tensor down = torch::arange(size).view({1, 1, size, 1});
  const torch::Tensor stripes =
      (frequency * (across + 0.3 * down) + 6 * torch::rand({count, 1, 1, 1})).sin();
  const torch::Tensor noise = 0.2 * torch::randn({count, channels, size, size});
  return {(0.8 * stripes + noise).clamp(-1, 1), labels};
}

torch::Tensor token_stream(std::int64_t length, std::int64_t vocabulary) {
  torch::Tensor tokens = torch::randint(vocabulary, {length}, torch::kLong);
  const torch::Tensor is_regular = torch::rand({length}) < 0.8;
  auto token = tokens.accessor<std::int64_t, 1>();
  const auto regular = is_regular.accessor<bool, 1>();
  for (std::int64_t i = 1; i < length; ++i) {
    if (regular[i]) {
      token[i] = (5 * token[i - 1] + 7) % vocabulary;
    }
  }
  return tokens;
}

}  // namespace programs
