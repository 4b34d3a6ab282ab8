// Whole functions in the cache: what starts again without a trace, and what must not.

#include <torch/torch.h>

#include <cstdlib>
#include <filesystem>

#include "function_cache.hpp"
#include "kiln/base/file.hpp"
#include "kiln/jit/compile.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/compare_with_eager.hpp"

namespace kiln {
namespace {

using testing::check_like_eager;

TEST_CASE("CA-02 an inference function with an identity starts without a trace",
          "[jit][function_entry]") {
  const Scratch scratch("sum of sines");
  int runs = 0;
  const auto function = [&](const Tensors& in) {
    ++runs;
    return Tensors{(in[0].sin() + in[1]).sum({1})};
  };
  const Tensors inputs = {torch::randn({4, 8}), torch::randn({4, 8})};

  const Function cold = compile(function, scratch.options);
  CHECK(torch::allclose(cold(inputs)[0], function(inputs)[0], 1e-4, 1e-5));
  CHECK(origin(cold) == Origin::kTraced);
  runs = 0;
  const Function warm = compile(function, scratch.options);
  const torch::Tensor found = warm(inputs)[0];

  CHECK(runs == 0);
  CHECK(origin(warm) == Origin::kCached);
  CHECK(warm.report().trace_ms == 0);
  CHECK(warm.report().graphs.size() == 1);
  CHECK(warm.report().graphs[0].cache_hit);
  CHECK(torch::allclose(found, function(inputs)[0], 1e-4, 1e-5));
}

TEST_CASE("CA-14 one entry serves a range of sizes", "[jit][function_entry]") {
  const Scratch scratch("rows and columns");
  int runs = 0;
  const auto function = [&](const Tensors& in) {
    ++runs;
    return Tensors{in[0].cumsum(0) * in[1], in[0].sum({0})};
  };
  const auto inputs = [](std::int64_t rows, std::int64_t columns = 4) {
    return Tensors{torch::randn({rows, columns}), torch::randn({columns})};
  };
  const Function cold = compile(function, scratch.options);
  cold(inputs(5));
  cold(inputs(7));
  CHECK(cold.report().versions == 2);
  REQUIRE(scratch.functions().size() == 2);

  runs = 0;
  const Function warm = compile(function, scratch.options);
  std::vector<Tensors> found;
  const std::vector<Tensors> given = {inputs(9), inputs(1), inputs(0), inputs(700)};
  for (const Tensors& call : given) {
    found.push_back(warm(call));
  }
  CHECK(runs == 0);
  CHECK(origin(warm) == Origin::kCached);
  CHECK(warm.report().versions == 1);
  CHECK(warm.report().traces == 0);
  CHECK(warm.report().compiles == 0);
  CHECK(warm.report().details[0].symbols.size() == 1);
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Tensors expected = function(given[i]);
    CHECK(torch::allclose(found[i][0], expected[0], 1e-4, 1e-5));
    CHECK(torch::allclose(found[i][1], expected[1], 1e-4, 1e-5));
  }

  // Beyond the range, or with another size that is fixed, it is traced.
  for (const Tensors& call : {inputs(2000), inputs(9, 6)}) {
    runs = 0;
    const Function other = compile(function, scratch.options);
    CHECK(torch::allclose(other(call)[0], function(call)[0], 1e-4, 1e-5));
    CHECK(runs > 1);
    CHECK(origin(other) == Origin::kTraced);
  }
}

TEST_CASE("CA-01 CA-03 a training entry is written once forward and backward both exist",
          "[jit][function_entry]") {
  const bool named = GENERATE(true, false);
  const Scratch scratch(named ? "a product" : "");
  int runs = 0;
  const auto function = [&](const Tensors& in) {
    ++runs;
    return Tensors{torch::tanh(in[0].mm(in[1]))};
  };
  const auto inputs = [] { return Tensors{leaf({3, 4}), leaf({4, 2})}; };

  const Function forward_only = compile(function, scratch.options);
  const torch::Tensor output = forward_only(inputs())[0];
  CHECK(scratch.functions().empty());
  output.sum().backward();
  const std::vector<autograd_cache::Entry> saved = scratch.functions();
  REQUIRE(saved.size() == (named ? 2 : 1));
  for (const autograd_cache::Entry& entry : saved) {
    CHECK(entry.files.contains("forward/library"));
    CHECK(entry.files.contains("backward/library"));
    CHECK(entry.blobs.contains("plan"));
  }

  runs = 0;
  const Function warm = compile(function, scratch.options);
  warm.prepare(inputs());
  CHECK(runs == (named ? 0 : 1));
  CHECK(origin(warm) == (named ? Origin::kCached : Origin::kCachedTrace));
  CHECK(warm.report().partition_ms == 0);
  CHECK(warm.report().graphs.size() == 2);
  check_like_eager(function, warm, inputs);
}

TEST_CASE("CA-14 a training entry serves a range of sizes", "[jit][function_entry]") {
  const bool named = GENERATE(true, false);
  const Scratch scratch(named ? "rows that are weighed" : "");
  int runs = 0;
  const auto function = [&](const Tensors& in) {
    ++runs;
    return Tensors{torch::tanh(in[0].mm(in[1])), in[0].sum() * 2};
  };
  const auto inputs = [](std::int64_t rows) { return Tensors{leaf({rows, 4}), leaf({4, 2})}; };
  const Function cold = compile(function, scratch.options);
  for (const std::int64_t rows : {5, 7}) {
    check_like_eager(function, cold, [&] { return inputs(rows); });
  }
  CHECK(cold.report().versions == 2);

  const Function warm = compile(function, scratch.options);
  warm.prepare(inputs(5));
  runs = 0;
  warm.prepare(inputs(30));
  CHECK(runs == (named ? 0 : warm.report().traces - 1));
  CHECK(origin(warm) == (named ? Origin::kCached : Origin::kCachedTrace));
  CHECK(warm.report().compiles == 0);
  for (const std::int64_t rows : {5, 7, 11, 30, 64}) {
    check_like_eager(function, warm, [&] { return inputs(rows); });
  }
  CHECK(warm.report().versions == 2);
}

TEST_CASE("CA-04 what is saved holds no tensor of the trace", "[jit][function_entry]") {
  const Scratch scratch("a linear layer");
  torch::nn::Linear linear(16, 16);
  const auto fast = compile(linear, scratch.options);
  fast(torch::randn({2, 16})).sum().backward();

  const std::string weights(static_cast<const char*>(linear->weight.const_data_ptr()), 64);
  REQUIRE(scratch.functions().size() == 2);
  for (const autograd_cache::Entry& entry : scratch.functions()) {
    for (const auto& [name, blob] : entry.blobs) {
      CHECK(blob.find(weights) == std::string::npos);
    }
    for (const auto& [name, path] : entry.files) {
      CHECK(read_file(path).find(weights) == std::string::npos);
    }
  }
}

TEST_CASE("CA-06 a module's tensors are found again by their names", "[jit][function_entry]") {
  const Scratch scratch("normalized");
  const auto make = [] {
    torch::manual_seed(7);
    return torch::nn::Sequential(torch::nn::Linear(6, 6),
                                 torch::nn::BatchNorm1d(6),
                                 torch::nn::ReLU(),
                                 torch::nn::Linear(6, 2));
  };
  const torch::Tensor x = torch::randn({5, 6});
  for (const Origin expected : {Origin::kTraced, Origin::kCached}) {
    torch::nn::Sequential net = make(), reference = make();
    const auto fast = compile(net, scratch.options);
    for (int step = 0; step < 2; ++step) {
      fast(x).square().sum().backward();
      reference->forward(x).square().sum().backward();
    }
    CHECK(origin(fast) == expected);
    for (const auto& item : net->named_parameters()) {
      CHECK(torch::allclose(
          item.value().grad(), reference->named_parameters()[item.key()].grad(), 1e-3, 1e-4));
    }
    for (const auto& item : net->named_buffers()) {
      CHECK(torch::allclose(item.value(), reference->named_buffers()[item.key()], 1e-4, 1e-5));
    }
  }
}

TEST_CASE("CA-09 outputs that share memory with inputs and with each other are saved",
          "[jit][function_entry]") {
  const Scratch scratch("views");
  const auto function = [](const Tensors& in) {
    const torch::Tensor product = in[0] * in[1];
    return Tensors{product, product.t(), in[0].view({-1}), in[1], product.select(0, 1).detach()};
  };
  const auto inputs = [] { return Tensors{leaf({3, 4}), leaf({3, 4})}; };

  for (const Origin expected : {Origin::kTraced, Origin::kCached}) {
    const Function fast = compile(function, scratch.options);
    check_like_eager(function, fast, inputs);
    CHECK(origin(fast) == expected);
  }
}

TEST_CASE("CA-14 functions under one key are told apart by how their arguments share memory",
          "[jit][function_entry]") {
  const Scratch scratch("add and write");
  const auto function = [](const Tensors& in) { return Tensors{in[0].add_(1) + in[1]}; };
  const torch::Tensor x = torch::ones({4});

  for (const Origin expected : {Origin::kTraced, Origin::kCached}) {
    const Function fast = compile(function, scratch.options);
    CHECK(torch::equal(fast({torch::ones({4}), torch::ones({4})})[0], torch::full({4}, 3.0)));
    CHECK(origin(fast) == expected);
    const torch::Tensor twice = torch::ones({4});
    CHECK(torch::equal(fast({twice, twice})[0], torch::full({4}, 4.0)));
    CHECK(origin(fast) == expected);
    CHECK(fast.report().versions == 2);
  }
}

TEST_CASE("CA-08 what the cache cannot find again is traced in every process",
          "[jit][function_entry]") {
  const Scratch scratch("scaled");
  const torch::Tensor scale = torch::full({3}, 2.0);
  const auto hidden = [&](const Tensors& in) { return Tensors{in[0] * scale}; };
  const torch::Tensor x = torch::randn({3});
  for (int i = 0; i < 2; ++i) {
    const Function fast = compile(hidden, scratch.options);
    CHECK(torch::equal(fast({x})[0], x * 2));
    CHECK(origin(fast) == Origin::kTraced);
  }

  CompileOptions own = scratch.options;
  own.inference_compiler = autograd_dispatch::interpret;
  const Function interpreted = compile([](const Tensors& in) { return Tensors{in[0] + 1}; }, own);
  CHECK(torch::equal(interpreted({x})[0], x + 1));
  CHECK(scratch.functions().empty());
}

// All cases of tests/conformance are run so; this is one of them, and that strict mode is strict.
TEST_CASE("CA-16 CA-10 in strict mode a second start is from the cache, or an error",
          "[jit][function_entry]") {
  ::setenv("KILN_CACHE", "strict", 1);
  {
    const Scratch scratch("write and view");
    const auto function = [](const Tensors& in) {
      in[0].mul_(3);
      return Tensors{in[0].t(), (in[0] * in[1]).sum()};
    };
    const auto inputs = [] {
      Tensors leaves = {leaf({2, 3}), leaf({2, 3})};
      return testing::Inputs(leaves, {leaves[0] + 1, leaves[1]});
    };
    for (const Origin expected : {Origin::kTraced, Origin::kCached}) {
      const Function fast = compile(function, scratch.options);
      check_like_eager(function, fast, inputs);
      CHECK(origin(fast) == expected);
    }
    for (const auto& file :
         std::filesystem::recursive_directory_iterator(scratch.options.cache_directory / "files")) {
      if (file.is_regular_file()) {
        std::filesystem::remove(file.path());
      }
    }
    CHECK_THROWS_AS(compile(function, scratch.options)(inputs().arguments), Error);
  }
  ::unsetenv("KILN_CACHE");
}

TEST_CASE("CA-07 CA-18 a function whose library is gone or damaged is compiled anew",
          "[jit][function_entry]") {
  const bool gone = GENERATE(true, false);
  const Scratch scratch("cubes");
  const auto function = [](const Tensors& in) { return Tensors{in[0] * in[0] * in[0]}; };
  const auto inputs = [] { return Tensors{leaf({7})}; };
  check_like_eager(function, compile(function, scratch.options), inputs);
  for (const auto& file :
       std::filesystem::recursive_directory_iterator(scratch.options.cache_directory / "files")) {
    if (file.is_regular_file()) {
      if (gone) {
        std::filesystem::remove(file.path());
      } else {
        write_file_atomically(file.path(), "no library");
      }
    }
  }

  const Function fast = compile(function, scratch.options);
  check_like_eager(function, fast, inputs);
  CHECK(origin(fast) == Origin::kTraced);
}

}  // namespace
}  // namespace kiln
