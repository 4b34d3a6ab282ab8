// Packages whose runs are replayed on a GPU: of libtorch's own kernels, cuDNN's, cuBLASLt's and
// attention's among them, which have memory of their own.

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include <filesystem>
#include <thread>
#include <vector>

#include "kiln/base/temporary_directory.hpp"
#include "kiln/kiln.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln {
namespace {

constexpr std::int64_t kHeads = 4, kWidth = 64;

// Patches of an image, which attend to each other.
struct Patches : torch::nn::Module {
  Patches() {
    patch = register_module("patch",
                            torch::nn::Conv2d(torch::nn::Conv2dOptions(3, kWidth, 4).stride(4)));
    mix = register_module(
        "mix", torch::nn::Conv2d(torch::nn::Conv2dOptions(kWidth, kWidth, 3).padding(1)));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
    all = register_module("all", torch::nn::Linear(kWidth, 3 * kWidth));
    up = register_module("up", torch::nn::Linear(kWidth, 4 * kWidth));
    down = register_module("down", torch::nn::Linear(4 * kWidth, kWidth));
  }
  at::Tensor forward(const at::Tensor& image) {
    const at::Tensor x = torch::relu(mix(torch::relu(patch(image)))).flatten(2).transpose(1, 2);
    const std::int64_t batch = x.size(0), count = x.size(1);
    const auto parts = all(norm(x)).chunk(3, -1);
    const auto by_head = [&](const at::Tensor& part) {
      return part.reshape({batch, count, kHeads, kWidth / kHeads}).transpose(1, 2);
    };
    const at::Tensor mixed =
        at::scaled_dot_product_attention(by_head(parts[0]), by_head(parts[1]), by_head(parts[2]));
    const at::Tensor y = x + mixed.transpose(1, 2).reshape({batch, count, kWidth});
    return y + down(at::gelu(up(y), "tanh"));
  }
  torch::nn::Conv2d patch = nullptr, mix = nullptr;
  torch::nn::LayerNorm norm = nullptr;
  torch::nn::Linear all = nullptr, up = nullptr, down = nullptr;
};

at::Tensor drawn_image() {
  return torch::randn({2, 3, 32, 32}).to(torch::kCUDA, torch::kBFloat16);
}

// The module in bfloat16 as a package for a GPU.
std::filesystem::path patches_in(const TemporaryDirectory& folder) {
  const auto module = std::make_shared<Patches>();
  module->to(torch::kBFloat16);
  module->eval();
  const torch::NoGradGuard no_grad;
  const auto forward = [module](const Tensors& inputs) -> Tensors {
    return {module->forward(inputs[0])};
  };
  const std::filesystem::path package = folder.path() / "patches.pt2";
  aot_compile(export_program(forward, {torch::randn({2, 3, 32, 32}).to(torch::kBFloat16)}),
              package,
              {.device = "cuda"});
  return package;
}

TEST_CASE("replays have the bits of plain runs, with one instance and with four",
          "[kiln][gpu][graphs]") {
  const TemporaryDirectory folder("kiln-test");
  const std::filesystem::path package = patches_in(folder);
  Model plain = load(package, {.instances = 1, .cuda_graphs = CudaGraphs::kOff});
  for (const std::size_t instances : {std::size_t{1}, std::size_t{4}}) {
    Model replayed = load(package, {.instances = instances, .cuda_graphs = CudaGraphs::kOn});
    for (int i = 0; i < 20; ++i) {
      const at::Tensor image = drawn_image();
      CHECK(torch::equal(replayed.run({image})[0], plain.run({image})[0]));
    }
    CHECK(replayed.cuda_graphs().replays >= 15);
  }
}

TEST_CASE("a thousand replays leave the tensors around them alone", "[kiln][gpu][graphs]") {
  const TemporaryDirectory folder("kiln-test");
  Model model = load(patches_in(folder), {.instances = 2, .cuda_graphs = CudaGraphs::kOn});
  Tensors neighbours;
  const auto add_neighbour = [&] {
    const auto size = static_cast<std::int64_t>(512 + 7919 * (neighbours.size() % 40));
    neighbours.push_back(
        torch::full({size}, 7, torch::TensorOptions().device(torch::kCUDA).dtype(torch::kByte)));
  };
  const at::Tensor image = drawn_image();
  const at::Tensor expected = model.run({image})[0];

  for (int i = 0; i < 1000; ++i) {
    if (i < 40 || i % 10 == 0) {
      add_neighbour();
    }
    const at::Tensor y = model.run({i % 3 == 0 ? image.clone() : image})[0];
    if (i % 100 == 0) {
      CHECK(torch::equal(y, expected));
    }
  }
  c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).synchronizeDevice(0);

  for (const at::Tensor& neighbour : neighbours) {
    CHECK(neighbour.eq(7).all().item<bool>());
  }
  CHECK(torch::equal(model.run({image})[0], expected));
  CHECK(model.cuda_graphs().replays > 900);
}

TEST_CASE("threads with streams of their own get the bits of one instance", "[kiln][gpu][graphs]") {
  const TemporaryDirectory folder("kiln-test");
  const std::filesystem::path package = patches_in(folder);
  const auto mode = GENERATE(CudaGraphs::kOff, CudaGraphs::kOn);
  Model single = load(package, {.instances = 1, .cuda_graphs = CudaGraphs::kOff});
  Model shared = load(package, {.instances = 4, .cuda_graphs = mode});
  Tensors images, expected;
  for (int i = 0; i < 16; ++i) {
    images.push_back(drawn_image());
    expected.push_back(single.run({images.back()})[0]);
  }
  c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).synchronizeDevice(0);
  std::vector<int> wrong(16, 0);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      const c10::impl::VirtualGuardImpl guard(c10::DeviceType::CUDA);
      const c10::StreamGuard own(guard.getNewStream(c10::Device(c10::DeviceType::CUDA, 0)));
      for (std::size_t i = 0; i < 50; ++i) {
        const std::size_t k = (i + t) % images.size();
        wrong[t] += torch::equal(shared.run({images[k]})[0], expected[k]) ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }

  CHECK(wrong == std::vector<int>(16, 0));
}

}  // namespace
}  // namespace kiln
