// How long a process takes to its first result when another one has compiled the program before.
//
//   kiln-warm-start infer|train [IDENTITY]     GPT-2 small, 1 x 128; one line of JSON
//   kiln-warm-start … IDENTITY small           the same with few numbers: what is not arithmetic
//   kiln-warm-start steps                      trains GPT-2 by a step for each "eager" or "kiln"
//   that
//                                              it reads, and answers with milliseconds
//   kiln-warm-start guards                     nanoseconds that a guard check takes
//
// The cache is the one of KILN_CACHE_DIR.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "kiln/autograd_dispatch/joint.hpp"
#include "kiln/kiln.hpp"
#include "transformer.hpp"
#include "version.hpp"

namespace kiln {

bench::TransformerSizes sizes;

namespace {

using nlohmann::json;

double milliseconds(const std::function<void()>& action) {
  const auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

// The best of a few: what else runs on the machine only adds.
double best(int rounds, const std::function<void()>& action) {
  double least = milliseconds(action);
  for (int i = 1; i < rounds; ++i) {
    least = std::min(least, milliseconds(action));
  }
  return least;
}

json start(bool train, const std::string& identity) {
  torch::manual_seed(0);
  bench::Transformer model(sizes);
  const at::Tensor input = torch::randint(sizes.vocabulary, {1, sizes.length});
  CompileOptions options;
  options.identity = identity;
  const auto fast = compile(model, options);
  const auto step = [&](const std::function<at::Tensor()>& forward) {
    const at::AutoGradMode mode(train);
    model->zero_grad();
    at::Tensor output = forward();
    if (train) {
      output.logsumexp(-1).mean().backward();
    }
  };
  const auto eager = [&] { step([&] { return model->forward(input); }); };
  const auto compiled = [&] { step([&] { return fast(input); }); };

  // Pages of the weights and libtorch's pools are there in either case.
  milliseconds(eager);
  const double eager_ms = best(2, eager);
  // All that is done before the first kernel. Without an identity there is no such moment: a trace
  // may compute what the first call returns.
  const double ready_ms = identity.empty() ? 0 : milliseconds([&] {
    const at::AutoGradMode mode(train);
    fast.prepare(input);
  });
  const double first_ms = ready_ms + milliseconds(compiled);
  const double again_ms = best(2, compiled);
  const CompileReport report = fast.report();
  double load_ms = 0, compile_ms = 0;
  for (const GraphReport& graph : report.graphs) {
    load_ms += graph.load_ms;
    compile_ms += graph.compile_ms;
  }
  return {{"train", train},
          {"identity", identity},
          {"origin", to_string(report.details.at(0).origin)},
          {"eager_ms", eager_ms},
          {"ready_ms", ready_ms},
          {"first_ms", first_ms},
          {"again_ms", again_ms},
          {"trace_ms", report.trace_ms},
          {"partition_ms", report.partition_ms},
          {"lookup_ms", report.lookup_ms},
          {"load_ms", load_ms},
          {"compile_ms", compile_ms}};
}

// Somebody else's steps come between these: whose turn it is, is told from outside.
void steps() {
  torch::manual_seed(0);
  bench::Transformer model(sizes);
  const Tensors input = {torch::randint(sizes.vocabulary, {1, sizes.length})};
  const auto loss = [&](const Tensors& in) {
    return Tensors{model->forward(in[0]).logsumexp(-1).mean()};
  };
  const Function fast = compile(model.ptr(), loss);
  for (std::string which; std::cin >> which;) {
    const double taken = milliseconds([&] {
      model->zero_grad();
      (which == "kiln" ? fast(input) : loss(input))[0].backward();
    });
    std::cout << taken << std::endl;
  }
}

// Four inputs and no module; then the module above, whose parameters are all guarded.
json guards() {
  constexpr int kRounds = 20000;
  const auto check =
      [](const TensorFunction& function, const Tensors& inputs, const torch::nn::Module* module) {
        const at::NoGradGuard no_grad;
        Version version(inputs, ThreadGuard::now(), module);
        autograd_dispatch::JointTrace trace = autograd_dispatch::trace_joint(function, inputs);
        version.set_captured(trace.captured);
        version.function = autograd_dispatch::dispatch(std::move(trace), {});
        int held = 0;
        const double taken = best(5, [&] {
          for (int i = 0; i < kRounds; ++i) {
            held += version.holds(inputs, ThreadGuard::now()) ? 1 : 0;
          }
        });
        if (held != 5 * kRounds) {
          throw Error(ErrorCode::kInternal, "a guard does not hold");
        }
        return taken * 1e6 / kRounds;
      };
  const auto make = [] { return at::randn({16, 16}); };
  const double four =
      check([](const Tensors& in) { return Tensors{in[0] + in[1] + in[2] + in[3]}; },
            {make(), make(), make(), make()},
            nullptr);
  bench::Transformer model(sizes);
  const double module = check([&](const Tensors& in) { return Tensors{model->forward(in[0])}; },
                              {torch::randint(sizes.vocabulary, {1, sizes.length})},
                              model.get());
  return {{"four_inputs_ns", four},
          {"module_ns", module},
          {"module_parameters", model->parameters().size()}};
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode != "infer" && mode != "train" && mode != "steps" && mode != "guards") {
    std::cerr << "usage: kiln-warm-start infer|train|steps|guards [IDENTITY]\n";
    return 2;
  }
  if (argc > 3 && std::string(argv[3]) == "small") {
    kiln::sizes.width = 96;
    kiln::sizes.vocabulary = 1000;
  }
  try {
    if (mode == "steps") {
      kiln::steps();
      return 0;
    }
    std::cout << (mode == "guards" ? kiln::guards()
                                   : kiln::start(mode == "train", argc > 2 ? argv[2] : ""))
              << "\n";
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "kiln-warm-start: " << error.what() << "\n";
    return 1;
  }
}
