// Functions and packages on a GPU.

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

using testing::contains;

torch::TensorOptions on_gpu() {
  return torch::TensorOptions().device(torch::kCUDA);
}

struct Block : torch::nn::Module {
  Block() {
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({64})));
    up = register_module("up", torch::nn::Linear(64, 128));
    down = register_module("down", torch::nn::Linear(128, 64));
  }
  at::Tensor forward(const at::Tensor& x) { return x + down(torch::gelu(up(norm(x)))).softmax(-1); }
  torch::nn::LayerNorm norm = nullptr;
  torch::nn::Linear up = nullptr, down = nullptr;
};

TEST_CASE("a module on a GPU is compiled where it is not to be differentiated", "[kiln][gpu]") {
  const auto block = std::make_shared<Block>();
  block->to(torch::kCUDA);
  const torch::NoGradGuard no_grad;
  auto fast = compile(block, {.use_cache = false});

  for (int i = 0; i < 3; ++i) {
    const at::Tensor x = torch::randn({9, 64}, on_gpu());
    CHECK(torch::allclose(fast(x), block->forward(x), 1e-5, 1e-6));
  }
  CHECK(fast.report().versions == 1);
  CHECK(fast.report().details[0].origin == Origin::kTraced);
}

TEST_CASE("a module on a GPU trains as it is", "[kiln][gpu]") {
  const auto block = std::make_shared<Block>();
  block->to(torch::kCUDA);
  auto fast = compile(block, {.use_cache = false});
  const at::Tensor x = torch::randn({9, 64}, on_gpu());

  fast(x).sum().backward();

  const at::Tensor gradient = block->up->weight.grad().clone();
  block->zero_grad();
  block->forward(x).sum().backward();
  CHECK(torch::allclose(gradient, block->up->weight.grad(), 1e-4, 1e-5));
  CHECK(fast.report().details[0].origin == Origin::kEager);
}

TEST_CASE("writes and views of arguments on a GPU are as in eager", "[kiln][gpu]") {
  const auto write = [](const at::Tensor& x) -> at::Tensor {
    x.mul_(2).add_(1);
    return x.select(0, 1);
  };
  const torch::NoGradGuard no_grad;
  auto fast = compile(write, {.use_cache = false});
  for (int i = 0; i < 2; ++i) {
    const at::Tensor x = torch::randn({3, 50}, on_gpu()), y = x.clone();
    const at::Tensor result = fast(x);
    CHECK(torch::equal(result, write(y)));
    CHECK(torch::equal(x, y));
    CHECK(result.is_alias_of(x));
  }
}

TEST_CASE("runs on eight streams at once do not disturb each other", "[kiln][gpu]") {
  const auto compute = [](const at::Tensor& x) -> at::Tensor {
    return (x.softmax(-1).matmul(x.t()) * 2).cumsum(0).sin();
  };
  const torch::NoGradGuard no_grad;
  auto fast = compile(compute, {.use_cache = false});
  const at::Tensor first = torch::randn({300, 400}, on_gpu());
  (void)fast(first);
  std::vector<int> wrong(8, 0);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      const torch::NoGradGuard no_grad_here;
      const c10::impl::VirtualGuardImpl guard(c10::DeviceType::CUDA);
      const c10::Stream stream =
          guard.getStreamFromGlobalPool(c10::Device(c10::DeviceType::CUDA, 0));
      const c10::Stream before = guard.exchangeStream(stream);
      for (int i = 0; i < 20; ++i) {
        const at::Tensor x = torch::randn({300, 400}, on_gpu());
        const at::Tensor found = fast(x);
        wrong[t] += torch::allclose(found, compute(x), 1e-4, 1e-4) ? 0 : 1;
      }
      guard.exchangeStream(before);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(wrong == std::vector<int>(8, 0));
}

TEST_CASE("an index out of range on a GPU is an error, and the GPU goes on", "[kiln][gpu]") {
  const auto gather = [](const at::Tensor& x, const at::Tensor& n) -> at::Tensor {
    return x.index_select(0, n) * 2;
  };
  const torch::NoGradGuard no_grad;
  const at::Tensor x = torch::randn({10, 4}, on_gpu());
  const at::Tensor good = torch::tensor({1, 9, 0}, on_gpu().dtype(torch::kLong));
  const at::Tensor bad = torch::tensor({1, 10, 0}, on_gpu().dtype(torch::kLong));

  auto now = compile(gather, {.check_indices_now = true, .use_cache = false});
  (void)now(x, good);
  CHECK_THROWS_WITH(now(x, bad), contains("an index is out of range"));
  CHECK(torch::equal(now(x, good), gather(x, good)));

  auto later = compile(gather, {.use_cache = false});
  (void)later(x, good);
  (void)later(x, bad);
  c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).synchronizeDevice(0);
  CHECK_THROWS_WITH(later(x, good), contains("in this run or the one before"));
  CHECK(torch::equal(later(x, good), gather(x, good)));
}

TEST_CASE("random numbers on a GPU are eager's, and the generator goes on as in eager",
          "[kiln][gpu]") {
  const auto draw = [](const at::Tensor& x) -> at::Tensor {
    return torch::dropout(x, 0.5, true) + torch::rand_like(x);
  };
  const torch::NoGradGuard no_grad;
  auto fast = compile(draw, {.use_cache = false});
  const at::Tensor x = torch::randn({100}, on_gpu());
  Tensors found, expected;
  torch::manual_seed(7);
  for (int i = 0; i < 3; ++i) {
    found.push_back(fast(x));
  }
  found.push_back(torch::rand({4}, on_gpu()));
  torch::manual_seed(7);
  for (int i = 0; i < 3; ++i) {
    expected.push_back(draw(x));
  }
  expected.push_back(torch::rand({4}, on_gpu()));

  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO(i);
    CHECK(torch::equal(found[i], expected[i]));
  }
}

TEST_CASE("calls of a module on a GPU are replayed, with parameters where they are",
          "[kiln][gpu]") {
  const auto block = std::make_shared<Block>();
  block->to(torch::kCUDA);
  const torch::NoGradGuard no_grad;
  auto fast = compile(block, {.cuda_graphs = CudaGraphs::kOn, .use_cache = false});

  for (int i = 0; i < 6; ++i) {
    if (i == 3) {
      block->up->weight.mul_(1.5);
    }
    if (i == 5) {
      block->up->weight.set_data(block->up->weight * 2);
    }
    const at::Tensor x = torch::randn({9, 64}, on_gpu());
    CHECK(torch::allclose(fast(x), block->forward(x), 1e-5, 1e-6));
  }
}

TEST_CASE("what waits for the GPU is not captured, and is right", "[kiln][gpu]") {
  const TemporaryDirectory folder("kiln-test");
  const std::filesystem::path package = folder.path() / "model.pt2";
  const auto gather = [](const Tensors& inputs) -> Tensors {
    return {inputs[0].index_select(0, inputs[1]) * 2};
  };
  const at::Tensor n = torch::tensor({1, 3, 0}, torch::kLong);
  aot_compile(export_program(gather, {torch::randn({4, 5}), n}),
              package,
              {.device = "cuda", .check_indices_now = true});
  Model model = load(package, {.cuda_graphs = CudaGraphs::kOn});

  for (int i = 0; i < 4; ++i) {
    const at::Tensor x = torch::randn({4, 5}, on_gpu());
    CHECK(torch::equal(model.run({x, n.cuda()})[0], x.index_select(0, n.cuda()) * 2));
  }
  CHECK(model.cuda_graphs().captures == 0);
  CHECK(model.cuda_graphs().refusals.size() == 1);
  const at::Tensor y = torch::randn({64, 64}, on_gpu());
  CHECK(torch::allclose(y.matmul(y).cpu(), y.cpu().matmul(y.cpu()), 1e-3, 1e-3));
}

TEST_CASE("an index out of range in a replay is an error of the next run", "[kiln][gpu]") {
  const TemporaryDirectory folder("kiln-test");
  const std::filesystem::path package = folder.path() / "model.pt2";
  const auto gather = [](const Tensors& inputs) -> Tensors {
    return {inputs[0].index_select(0, inputs[1]) * 2};
  };
  const at::Tensor good = torch::tensor({1, 3, 0}, torch::kLong);
  aot_compile(export_program(gather, {torch::randn({4, 5}), good}), package, {.device = "cuda"});
  Model model = load(package, {.cuda_graphs = CudaGraphs::kOn});
  const at::Tensor x = torch::randn({4, 5}, on_gpu());
  const at::Tensor bad = torch::tensor({1, 4, 0}, torch::kLong).cuda();
  for (int i = 0; i < 3; ++i) {
    (void)model.run({x, good.cuda()});
  }
  REQUIRE(model.cuda_graphs().captures >= 1);

  (void)model.run({x, bad});
  c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).synchronizeDevice(0);

  CHECK_THROWS_WITH(model.run({x, good.cuda()}), contains("an index is out of range"));
  CHECK(torch::equal(model.run({x, good.cuda()})[0], x.index_select(0, good.cuda()) * 2));
}

TEST_CASE("a step of training on a GPU counts once", "[kiln][gpu]") {
  const auto norm = std::make_shared<torch::nn::BatchNorm1dImpl>(8);
  const auto reference = std::make_shared<torch::nn::BatchNorm1dImpl>(8);
  norm->to(torch::kCUDA);
  reference->to(torch::kCUDA);
  auto fast = compile(norm, {.use_cache = false});
  const at::Tensor x = torch::randn({32, 8}, on_gpu());

  fast(x).sum().backward();
  reference->forward(x).sum().backward();

  CHECK(torch::equal(norm->running_mean, reference->running_mean));
  CHECK(norm->num_batches_tracked.item<int64_t>() == 1);
}

TEST_CASE("numbers on the host go with tensors of a GPU, as in eager", "[kiln][gpu]") {
  const torch::NoGradGuard no_grad;
  const at::Tensor captured = torch::tensor(3.0, torch::kDouble);
  const auto scaled = [&](const Tensors& in) -> Tensors {
    return {in[0] * in[1] + captured, in[0] * torch::tensor(2.5)};
  };
  auto fast = compile(scaled, {.use_cache = false});

  for (const float number : {1.5F, -2.0F, 0.25F}) {
    const at::Tensor x = torch::randn({5, 64}, on_gpu());
    const Tensors in = {x, torch::tensor(number)};
    const Tensors found = fast(in), expected = scaled(in);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK(found[i].dtype() == expected[i].dtype());
      CHECK(torch::allclose(found[i], expected[i], 1e-5, 1e-6));
    }
  }
  CHECK(fast.report().details.at(0).origin == Origin::kTraced);
}

TEST_CASE("what a GPU and the host compute together is refused, or runs eagerly", "[kiln][gpu]") {
  const torch::NoGradGuard no_grad;
  const auto both = [](const Tensors& in) -> Tensors {
    return {in[0] + in[1].to(in[0].device()), in[1] * 2};
  };
  auto refusing = compile(both, {.use_cache = false});
  auto fast = compile(both, {.fallback_to_eager = true, .use_cache = false});
  const Tensors in = {torch::randn({64}, on_gpu()), torch::randn({64})};

  CHECK_THROWS_WITH(refusing(in), contains("is on cuda:0 and") && contains("is on cpu"));
  const Tensors found = fast(in), expected = both(in);

  CHECK(torch::equal(found[0], expected[0]));
  CHECK(found[1].is_cpu());
  CHECK(torch::equal(found[1], expected[1]));
  CHECK(fast.report().details.at(0).origin == Origin::kEager);
}

TEST_CASE("more than two to the 31 elements are addressed on a GPU", "[kiln][gpu]") {
  const torch::NoGradGuard no_grad;
  const std::int64_t rows = (std::int64_t{1} << 20) + 3, columns = 2056;
  const auto program = [](const Tensors& in) -> Tensors {
    return {(in[0] + in[1]).relu(), in[0].sum(1)};
  };
  auto fast = compile(program, {.use_cache = false});
  const at::Tensor x = torch::randint(-9, 9, {rows, columns}, on_gpu().dtype(torch::kBFloat16));
  const Tensors in = {x, torch::randint(-9, 9, {columns}, on_gpu().dtype(torch::kBFloat16))};

  const Tensors found = fast(in), expected = program(in);

  CHECK(torch::equal(found[0], expected[0]));
  CHECK(torch::equal(found[1], expected[1]));
}

TEST_CASE("an input on the host is refused by name", "[kiln][gpu]") {
  const TemporaryDirectory folder("kiln-test");
  const std::filesystem::path package = folder.path() / "model.pt2";
  const auto double_it = [](const Tensors& inputs) -> Tensors { return {inputs[0] * 2}; };
  aot_compile(export_program(double_it, {torch::randn({4})}), package, {.device = "cuda"});
  Model model = load(package);
  const at::Tensor x = torch::randn({4}, on_gpu());

  CHECK(torch::equal(model.run({x})[0], x * 2));
  CHECK_THROWS_WITH(model.run({x.cpu()}), contains("cpu"));
}

}  // namespace
}  // namespace kiln
