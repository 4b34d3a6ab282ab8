// Whatever a package became, it computes what it did before or is an `Error`.
//
// KILN_FUZZ_PACKAGES is how many damaged packages to try, KILN_FUZZ_FIRST the first seed.

#include <torch/torch.h>

#include <array>
#include <optional>

#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/container_runtime/package.hpp"
#include "kiln/kiln.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/damage.hpp"

namespace kiln {
namespace {

using testing::Damage;

// A package, what it computes, and where its parts are in the file.
struct Whole {
  std::string bytes;
  at::Tensor expected;
  std::size_t code = 0, weights = 0, weights_end = 0;

  [[nodiscard]] bool has_other_weights(const std::string& damaged) const {
    const std::size_t count = weights_end - weights;
    return damaged.size() != bytes.size() ||
           damaged.compare(weights, count, bytes, weights, count) != 0;
  }
};

at::Tensor input() {
  return at::linspace(-2, 2, 5 * 8).view({5, 8});
}

Whole make_package(const std::filesystem::path& directory, bool with_proxy) {
  torch::manual_seed(3);
  torch::nn::Sequential net(torch::nn::Linear(8, 16),
                            torch::nn::GELU(),
                            torch::nn::LayerNorm(torch::nn::LayerNormOptions({16})),
                            torch::nn::Linear(16, 4));
  // libtorch's histc takes numbers of any type, which only a host's executor can pass on.
  const TensorFunction forward = [net, with_proxy](const Tensors& in) mutable {
    const at::Tensor y = net->forward(in[0]);
    return Tensors{with_proxy ? at::histc(y, 4, -2, 2) : y};
  };
  const auto path = directory / "whole.pt2";
  CompileOptions options;
  options.cache_directory = directory / "cache";
  aot_compile(export_program(net.ptr(), forward, {input()}), path, options);
  Whole whole{.bytes = read_file(path), .expected = load(path).run({input()})[0]};
  const auto unpacked = container_runtime::open_package(path).unpack("model", directory);
  whole.code = whole.bytes.find(
      "\x7f"
      "ELF");
  whole.weights = unpacked.weights_offset.value();
  whole.weights_end = whole.bytes.find("kiln weights 1\n", whole.weights);
  return whole;
}

// In the code, in the directory and the small files before it, or anywhere.
std::string damaged(const Whole& whole, Damage& damage) {
  std::string bytes = whole.bytes;
  const std::size_t size = bytes.size();
  const std::array<std::pair<std::size_t, std::size_t>, 4> regions = {
      {{whole.code, whole.weights}, {whole.weights_end, size}, {size - 2048, size}, {0, size}}};
  const auto [begin, end] = regions[damage.below(regions.size())];
  switch (damage.below(4)) {
    case 0: {
      const std::size_t at = begin + damage.below(end - begin);
      bytes.replace(
          at, std::min<std::size_t>(512, size - at), std::min<std::size_t>(512, size - at), '\0');
      break;
    }
    case 1:
      return bytes.substr(0, begin) + damage(bytes.substr(begin, end - begin)) + bytes.substr(end);
    default:
      for (std::size_t i = 0, flips = 1 + damage.below(3); i < flips; ++i) {
        char& byte = bytes[begin + damage.below(end - begin)];
        byte = static_cast<char>(byte ^ (1 << damage.below(8)));
      }
  }
  return bytes;
}

// What a package computes; nothing if loading or running it is an `Error`. Anything else that is
// thrown fails the test, and so does a crash.
std::optional<at::Tensor> outcome(const std::filesystem::path& path, bool verify_weights) {
  std::string unexpected;
  try {
    return load(path, {.instances = 1, .verify_weights = verify_weights}).run({input()})[0];
  } catch (const Error& error) {
    CHECK(std::string(error.what()).size() > 20);
  } catch (const std::exception& error) {
    unexpected = error.what();
  }
  CHECK(unexpected == "");
  return std::nullopt;
}

TEST_CASE("damaged packages compute what they did or are an error", "[kiln][package_fuzz]") {
  const TemporaryDirectory directory;
  const std::array wholes = {make_package(directory.path(), false),
                             make_package(directory.path(), true)};
  const std::uint64_t first = testing::setting("KILN_FUZZ_FIRST", 1);
  const std::uint64_t count = testing::setting("KILN_FUZZ_PACKAGES", 60);
  const testing::MemoryLimit limit(rlim_t{2} << 30);
  const auto path = directory.path() / "damaged.pt2";
  std::uint64_t refused = 0, same = 0, other_weights = 0;

  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    INFO("seed " << seed);
    Damage damage(seed);
    const Whole& whole = wholes[damage.below(wholes.size())];
    const std::string bytes = damaged(whole, damage);
    write_file_atomically(path, bytes);
    const auto is_same = [&](const at::Tensor& found) { return at::equal(found, whole.expected); };

    const std::optional<at::Tensor> found = outcome(path, false);
    const std::optional<at::Tensor> verified = outcome(path, true);

    CHECK((!found || is_same(*found) || whole.has_other_weights(bytes)));
    CHECK((!verified || is_same(*verified)));
    CHECK((!verified || !whole.has_other_weights(bytes)));
    CHECK((!verified || found));
    refused += found ? 0 : 1;
    same += found && is_same(*found) ? 1 : 0;
    other_weights += found && !is_same(*found) ? 1 : 0;
  }

  WARN(count << " packages: " << refused << " refused, " << same << " as before, " << other_weights
             << " with other weights, which were not verified");
  CHECK((count < 10 || (refused > 0 && same > 0)));
}

}  // namespace
}  // namespace kiln
