// Models in C++ whose sizes vary, exported once: PyTorch reads the archive, the tool compiles it,
// and both are the model at every size. Built where there is a Python with PyTorch.

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kiln/base/file.hpp"
#include "kiln/base/subprocess.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/kiln.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln {
namespace {

using testing::contains;

constexpr std::int64_t kWords = 60, kWidth = 32, kHeads = 4, kContext = 64, kLayers = 2;

// A layer of GPT-2: what it attends to, and two products.
struct BlockImpl : torch::nn::Module {
  BlockImpl() {
    register_module("first", first);
    register_module("second", second);
    register_module("attention", attention);
    register_module("projection", projection);
    register_module("up", up);
    register_module("down", down);
  }

  torch::Tensor attend(const torch::Tensor& x) {
    const std::int64_t batch = x.size(0), length = x.size(1);
    const auto heads = [&](const torch::Tensor& y) {
      return y.view({batch, length, kHeads, kWidth / kHeads}).transpose(1, 2);
    };
    const std::vector<torch::Tensor> parts = attention(x).split(kWidth, -1);
    const torch::Tensor scores =
        heads(parts[0]).matmul(heads(parts[1]).transpose(-2, -1)) / std::sqrt(kWidth / kHeads);
    const torch::Tensor later = torch::ones({length, length}, torch::kBool).tril().logical_not();
    const torch::Tensor weights = scores.masked_fill(later, -1e9).softmax(-1);
    return projection(
        weights.matmul(heads(parts[2])).transpose(1, 2).reshape({batch, length, kWidth}));
  }

  torch::Tensor forward(torch::Tensor x) {
    x = x + attend(first(x));
    return x + down(torch::gelu(up(second(x)), "tanh"));
  }

  torch::nn::LayerNorm first{torch::nn::LayerNormOptions({kWidth})};
  torch::nn::LayerNorm second{torch::nn::LayerNormOptions({kWidth})};
  torch::nn::Linear attention{kWidth, 3 * kWidth}, projection{kWidth, kWidth};
  torch::nn::Linear up{kWidth, 4 * kWidth}, down{4 * kWidth, kWidth};
};
TORCH_MODULE(Block);

struct Gpt2Impl : torch::nn::Module {
  Gpt2Impl() {
    register_module("words", words);
    register_module("places", places);
    register_module("blocks", blocks);
    register_module("norm", norm);
    for (std::int64_t i = 0; i < kLayers; ++i) {
      blocks->push_back(Block());
    }
  }

  torch::Tensor forward(const torch::Tensor& tokens) {
    torch::Tensor x = words(tokens) + places(torch::arange(tokens.size(1)));
    for (const auto& block : *blocks) {
      x = block->as<Block>()->forward(x);
    }
    return norm(x).matmul(words->weight.t());
  }

  torch::nn::Embedding words{kWords, kWidth}, places{kContext, kWidth};
  torch::nn::ModuleList blocks;
  torch::nn::LayerNorm norm{torch::nn::LayerNormOptions({kWidth})};
};
TORCH_MODULE(Gpt2);

// Strides of two, a sum that goes around a convolution, and a mean over what is left.
struct ConvolutionsImpl : torch::nn::Module {
  ConvolutionsImpl() {
    register_module("first", first);
    register_module("norm", norm);
    register_module("second", second);
    register_module("third", third);
    register_module("out", out);
  }

  torch::Tensor forward(const torch::Tensor& image) {
    torch::Tensor x = torch::max_pool2d(torch::relu(norm(first(image))), 3, 2, 1);
    x = torch::relu(x + third(torch::relu(second(x))));
    return out(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

  torch::nn::Conv2d first{torch::nn::Conv2dOptions(3, 8, 5).stride(2).padding(2)};
  torch::nn::BatchNorm2d norm{8};
  torch::nn::Conv2d second{torch::nn::Conv2dOptions(8, 8, 3).padding(1)};
  torch::nn::Conv2d third{torch::nn::Conv2dOptions(8, 8, 3).padding(1)};
  torch::nn::Linear out{8, 5};
};
TORCH_MODULE(Convolutions);

at::Tensor mixed(const at::Tensor& x, const at::Tensor& y) {
  return x + y.sum() * 2;
}

TORCH_LIBRARY(kiln_dynamic_program_test, library) {
  library.def("mixed(Tensor x, Tensor y) -> Tensor");
}
TORCH_LIBRARY_IMPL(kiln_dynamic_program_test, CompositeExplicitAutograd, library) {
  library.impl("mixed", mixed);
}

at::Tensor call_mixed(const at::Tensor& x, const at::Tensor& y) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow("kiln_dynamic_program_test::mixed", "")
      .typed<at::Tensor(const at::Tensor&, const at::Tensor&)>()
      .call(x, y);
}

struct Call {
  at::Tensor input, expected;
};

// What PyTorch says of the archive and these calls: the ranges of its symbols, and how many agree.
std::string said_by_pytorch(const std::string& archive,
                            const std::vector<Call>& calls,
                            const TemporaryDirectory& folder) {
  c10::List<at::Tensor> tensors;
  for (const Call& call : calls) {
    tensors.push_back(call.input);
    tensors.push_back(call.expected);
  }
  const std::vector<char> bytes = torch::pickle_save(tensors);
  const std::string file = (folder.path() / "calls.pt").string();
  write_file_atomically(file, std::string_view(bytes.data(), bytes.size()));
  const ProcessResult result = run_process({KILN_PYTHON, KILN_CHECK_SIZES, archive, file, "1"},
                                           {.timeout = std::chrono::minutes(5)});
  INFO(result.output << result.error);
  CHECK(result.ok());
  return result.output;
}

// Saves `program`, compiles what was saved, and runs both where `calls` were. Returns what PyTorch
// says.
std::string check_everywhere(const ExportedProgram& program, const std::vector<Call>& calls) {
  const TemporaryDirectory folder;
  const std::string archive = (folder.path() / "program.pt2").string();
  const std::string package = (folder.path() / "package.pt2").string();
  CHECK(program.specialisations.empty());
  save_program(program, archive);
  const ProcessResult compiled =
      run_process({KILN_TOOL, "compile", archive, "-o", package, "--no-cache", "--json"});
  INFO(compiled.output << compiled.error);
  REQUIRE(compiled.ok());
  CHECK_THAT(compiled.output, contains("\"specialisations\": []"));
  CHECK_THAT(compiled.error, !contains("warning"));

  Model model = load(package);
  for (const Call& call : calls) {
    CAPTURE(call.input.sizes());
    const at::Tensor found = model.run({call.input})[0];
    REQUIRE(found.sizes() == call.expected.sizes());
    CHECK(torch::allclose(found, call.expected, 1e-4, 1e-4));
  }
  return said_by_pytorch(archive, calls, folder);
}

template <class Module>
std::vector<Call> calls_of(Module& module, const std::vector<at::Tensor>& inputs) {
  std::vector<Call> calls;
  for (const at::Tensor& input : inputs) {
    calls.push_back({input, module->forward(input)});
  }
  return calls;
}

TEST_CASE("GPT-2 in C++ is one archive and one package for every batch and length",
          "[integration][dynamic_program]") {
  torch::manual_seed(30);
  const torch::NoGradGuard no_grad;
  Gpt2 gpt;
  gpt->eval();
  std::vector<at::Tensor> texts;
  for (const auto& [batch, length] : std::vector<std::pair<int, int>>{
           {3, 11}, {1, 1}, {1, 64}, {16, 1}, {16, 64}, {2, 2}, {7, 33}, {5, 63}, {16, 17}}) {
    texts.push_back(torch::randint(kWords, {batch, length}));
  }

  const ExportedProgram program = export_program(
      gpt,
      {texts[0]},
      {.input_names = {"tokens"},
       .dynamic_dims = {{.input = "tokens", .dim = 0, .name = "batch", .max = 16},
                        {.input = "tokens", .dim = 1, .name = "length", .max = kContext}}});
  const std::string said = check_everywhere(program, calls_of(gpt, texts));

  CHECK(program.traces > 12);
  CHECK_THAT(said, contains("[1, 16] [1, 64]"));
  CHECK_THAT(said, contains("9 calls equal, 2 out of range refused"));
}

TEST_CASE("a convolutional net in C++ is one archive and one package for every image",
          "[integration][dynamic_program]") {
  torch::manual_seed(31);
  const torch::NoGradGuard no_grad;
  Convolutions net;
  net->norm->running_mean.uniform_(-1, 1);
  net->norm->running_var.uniform_(0.5, 2);
  net->eval();
  std::vector<at::Tensor> images;
  for (const auto& [batch, height, width] : std::vector<std::tuple<int, int, int>>{
           {2, 20, 33}, {1, 8, 8}, {8, 64, 64}, {1, 64, 8}, {8, 8, 64}, {3, 9, 47}, {5, 31, 32}}) {
    images.push_back(torch::randn({batch, 3, height, width}));
  }

  const ExportedProgram program = export_program(
      net,
      {images[0]},
      {.input_names = {"image"},
       .dynamic_dims = {{.input = "image", .dim = 0, .name = "batch", .max = 8},
                        {.input = "image", .dim = 2, .name = "height", .min = 8, .max = 64},
                        {.input = "image", .dim = 3, .name = "width", .min = 8, .max = 64}}});
  const std::string said = check_everywhere(program, calls_of(net, images));

  CHECK_THAT(said, contains("[1, 8] [8, 64] [8, 64]"));
  CHECK_THAT(said, contains("7 calls equal, 3 out of range refused"));
}

// In C++, because an operator that Python registers is not in the process that compiles an archive.
TEST_CASE("DS-20 test_same_backing: a size as a factor beside a custom operator",
          "[integration][dynamic_program]") {
  const auto function = [](const Tensors& in) {
    const auto rows = static_cast<double>(in[0].size(0));
    const at::Tensor scaled = call_mixed(in[0] * rows, in[0].narrow(0, 1, in[0].size(0) - 1));
    return Tensors{call_mixed(scaled.relu(), scaled) * (1.0 / rows), scaled.sum(0) * rows};
  };
  const TemporaryDirectory folder;
  CompileOptions options;
  options.use_cache = false;
  const ExportedProgram program = export_program(
      function,
      {torch::randn({6, 4})},
      {.input_names = {"x"},
       .dynamic_dims = {{.input = "x", .dim = 0, .name = "rows", .min = 2, .max = 300}}});
  Model model = load(aot_compile(program, folder.path() / "mixed.pt2", options));

  for (const std::int64_t rows : {6, 2, 3, 37, 100, 256, 300}) {
    CAPTURE(rows);
    const Tensors inputs = {torch::randn({rows, 4})};
    const Tensors expected = function(inputs), found = model.run(inputs);
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      CHECK(torch::allclose(found[i], expected[i], 1e-4, 1e-3));
    }
  }
  CHECK_THROWS_WITH(model.run({torch::randn({1, 4})}), contains("'rows' is 1, must be 2 … 300"));
}

}  // namespace
}  // namespace kiln
