// Training steps of a program whose sizes vary, beside the same program compiled for each size.
//
//   kiln-dynamic-training mlp|gpt2
//
// Reads lines and answers each with a number: "eager N", "fixed N" and "dynamic N" take a step on N
// rows or words (milliseconds); "saved fixed N" and "saved dynamic N" compute a loss and say how
// many bytes are kept for its backward.

#include <ATen/core/Generator.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/autograd/generated/variable_factories.h>

#include <chrono>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>

#include "kiln/kiln.hpp"
#include "transformer.hpp"

namespace kiln::bench {
namespace {

// Bytes that tensors of this thread hold.
class HeldBytes : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*memory*/,
                         std::int64_t size,
                         std::size_t /*allocated*/,
                         std::size_t /*reserved*/,
                         c10::Device /*device*/) override {
    bytes += size;
  }
  [[nodiscard]] bool memoryProfilingEnabled() const override { return true; }

  std::int64_t bytes = 0;
};

// A model, a loss of it, and what it is trained on.
struct Program {
  std::shared_ptr<torch::nn::Module> model;
  TensorFunction loss;
  std::function<at::Tensor(std::int64_t)> input;
};

Program perceptron() {
  torch::nn::Sequential layers;
  for (int i = 0; i < 4; ++i) {
    layers->push_back(torch::nn::Linear(256, 256));
    layers->push_back(torch::nn::ReLU());
  }
  return {layers.ptr(),
          [layers](const Tensors& in) mutable {
            return Tensors{layers->forward(in[0]).square().mean()};
          },
          [](std::int64_t rows) { return torch::randn({rows, 256}); }};
}

Program gpt2() {
  Transformer model(TransformerSizes{.length = 512});
  return {model.ptr(),
          [model](const Tensors& in) mutable {
            return Tensors{model->forward(in[0]).logsumexp(-1).mean()};
          },
          [](std::int64_t words) { return torch::randint(50257, {1, words}); }};
}

class Steps {
 public:
  explicit Steps(Program program) : program_(std::move(program)) {
    CompileOptions options;
    options.use_cache = false;
    options.dynamic = true;
    calls_["eager"] = program_.loss;
    calls_["dynamic"] = compile(program_.model, program_.loss, options);
    options.dynamic = false;
    options.automatic_dynamic = false;
    options.max_versions = 64;
    calls_["fixed"] = compile(program_.model, program_.loss, options);
  }

  double step(const std::string& which, std::int64_t size) {
    const Tensors input = {program_.input(size)};
    const auto start = std::chrono::steady_clock::now();
    program_.model->zero_grad();
    calls_.at(which)(input)[0].backward();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
        .count();
  }

  double saved(const std::string& which, std::int64_t size) {
    const Tensors input = {program_.input(size)};
    const auto held = std::make_shared<HeldBytes>();
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, held);
    const Tensors loss = calls_.at(which)(input);
    return static_cast<double>(held->bytes);
  }

 private:
  Program program_;
  std::map<std::string, TensorFunction> calls_;
};

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  if (name != "mlp" && name != "gpt2") {
    std::cerr << "usage: kiln-dynamic-training mlp|gpt2\n";
    return 2;
  }
  try {
    torch::manual_seed(0);
    kiln::bench::Steps steps(name == "mlp" ? kiln::bench::perceptron() : kiln::bench::gpt2());
    std::int64_t size = 0;
    for (std::string word; std::cin >> word;) {
      const bool saved = word == "saved";
      if (saved) {
        std::cin >> word;
      }
      std::cin >> size;
      std::cout << (saved ? steps.saved(word, size) : steps.step(word, size)) << std::endl;
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "kiln-dynamic-training: " << error.what() << "\n";
    return 1;
  }
}
