// ./dev demo: one model all the way through. A C++ module is traced, compiled, packaged, loaded,
// checked against eager, run by PyTorch too, and trained; then the times, side by side.

#include <torch/nn/modules.h>
#include <torch/optim/sgd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "chart.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/kiln.hpp"
#include "measure.hpp"
#include "peer.hpp"

namespace kiln::demo {
namespace {

constexpr int kBatch = 64, kWidth = 512, kLayers = 4;

torch::nn::Sequential make_model() {
  torch::nn::Sequential model;
  for (int i = 0; i < kLayers; ++i) {
    model->push_back(torch::nn::Linear(kWidth, kWidth));
    model->push_back(torch::nn::ReLU());
    model->push_back(torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
  }
  model->push_back(torch::nn::Linear(kWidth, 10));
  return model;
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

void step(const char* name, double milliseconds, const std::string& remark = {}) {
  std::printf("  %-34s %10s   %s\n", name, describe_time(milliseconds).c_str(), remark.c_str());
  std::fflush(stdout);
}

bool agree(const char* what, double difference) {
  const bool good = difference < 1e-3;
  std::printf("  %-34s %10.1e   %s\n", what, difference, good ? "agrees" : "DIFFERS");
  return good;
}

struct Inference {
  std::vector<Panel> panels;
  bool right = true;
};

// Ahead of time: module to package, run by us and by PyTorch.
Inference infer(torch::nn::Sequential model, bool peers, const std::filesystem::path& folder) {
  Inference result;
  const at::Tensor x = torch::randn({kBatch, kWidth});
  CompileOptions options;
  options.use_cache = false;
  std::cout << "Ahead of time: a C++ module to an AOTInductor package\n";
  std::optional<ExportedProgram> program;
  const double trace_ms = once([&] { program = export_program(model, {x}); });
  step("trace", trace_ms, std::to_string(std::as_const(program->graph).nodes().size()) + " nodes");
  GraphReport report;
  const double compile_ms =
      once([&] { aot_compile(*program, folder / "kiln.pt2", options, &report); });
  step("compile",
       compile_ms,
       std::to_string(report.kernels) + " kernels, " + std::to_string(report.extern_calls) +
           " calls of libtorch");
  std::optional<Model> ours;
  step("load", once([&] { ours = load(folder / "kiln.pt2"); }));

  const torch::NoGradGuard no_grad;
  at::Tensor first;
  step("first call", once([&] { first = ours->run({x})[0]; }));
  result.right =
      agree("largest difference from eager", largest_difference(first, model->forward(x))) &&
      result.right;

  std::optional<Peer> peer;
  std::optional<Model> theirs;
  if (peers) {
    std::cout << "The same program in PyTorch's AOTInductor (this takes a while)\n";
    save_program(*program, folder / "program.pt2");
    peer = run_peer(folder / "program.pt2", folder / "kiln.pt2", folder / "aotinductor.pt2");
    if (peer) {
      step("compile", peer->compile_ms);
      step("load", once([&] { theirs = load(peer->package); }));
      result.right =
          agree("our package in PyTorch's loader", peer->largest_difference) && result.right;
    } else {
      std::cout << "  there is no Python with PyTorch here: left out\n";
    }
  }

  std::vector<std::string> names = {"eager", "Kiln"};
  std::vector<std::function<void()>> calls = {[&] { model->forward(x); },
                                              [&] { (void)ours->run({x}); }};
  if (theirs) {
    names.emplace_back("AOTInductor");
    calls.emplace_back([&] { (void)theirs->run({x}); });
  }
  const std::vector<double> times = alternate(calls);
  Panel panel{"One call, " + std::to_string(kLayers) + " x (linear, relu, layer norm), " +
                  std::to_string(kBatch) + "x" + std::to_string(kWidth),
              {}};
  for (std::size_t i = 0; i < times.size(); ++i) {
    panel.bars.push_back({names[i], times[i], names[i] == "Kiln"});
  }
  result.panels.push_back(std::move(panel));
  if (peer) {
    result.panels.push_back(
        {"Compiling it, from nothing",
         {{"Kiln", compile_ms, true}, {"AOTInductor", peer->compile_ms, false}}});
  }
  return result;
}

double train_step(const std::function<at::Tensor(const at::Tensor&)>& forward,
                  torch::optim::SGD& optimizer,
                  const at::Tensor& x,
                  const at::Tensor& y) {
  optimizer.zero_grad();
  const at::Tensor loss = torch::mse_loss(forward(x), y);
  loss.backward();
  optimizer.step();
  return loss.item<double>();
}

// Just in time: the compiled function trains.
Inference train(torch::nn::Sequential model, const std::filesystem::path& folder) {
  Inference result;
  const auto twin = std::dynamic_pointer_cast<torch::nn::SequentialImpl>(model->clone());
  const at::Tensor x = torch::randn({kBatch, kWidth}), y = torch::randn({kBatch, 10});
  torch::optim::SGD optimizer(model->parameters(), 0.002),
      twin_optimizer(twin->parameters(), 0.002);
  CompileOptions options;
  options.cache_directory = folder / "cache";
  const auto compiled_step = [&](const Function& function) {
    return train_step([&](const at::Tensor& in) { return function({in})[0]; }, optimizer, x, y);
  };
  const auto eager_step = [&] {
    return train_step(
        [&](const at::Tensor& in) { return twin->forward(in); }, twin_optimizer, x, y);
  };

  std::cout << "Just in time: the module trains through the compiled function\n";
  const Function fast = compile(model, options);
  double loss = 0, expected = 0;
  step("first step, compiles", once([&] { loss = compiled_step(fast); }));
  expected = eager_step();
  for (int i = 0; i < 20; ++i) {
    loss = compiled_step(fast);
    expected = eager_step();
  }
  std::printf("  %-34s %10.6f   eager %.6f\n", "loss after 21 steps", loss, expected);
  double difference = 0;
  for (std::size_t i = 0; i < model->parameters().size(); ++i) {
    difference =
        std::max(difference, largest_difference(model->parameters()[i], twin->parameters()[i]));
  }
  result.right = agree("largest difference of a weight", difference);
  const Function again = compile(model, options);
  const double warm_ms = once([&] { compiled_step(again); });
  bool from_cache = true;
  for (const GraphReport& graph : again.report().graphs) {
    from_cache = from_cache && graph.cache_hit;
  }
  step("first step, compiled before",
       warm_ms,
       from_cache ? "from the disk cache" : "NOT from the disk cache");
  result.right = result.right && from_cache;

  const std::vector<double> times =
      alternate({[&] { eager_step(); }, [&] { compiled_step(fast); }});
  result.panels.push_back({"One training step, forward, backward and SGD",
                           {{"eager", times[0], false}, {"Kiln", times[1], true}}});
  return result;
}

}  // namespace
}  // namespace kiln::demo

int main(int argc, char** argv) {
  CLI::App app("One model all the way through Kiln.", "kiln-demo");
  std::string svg = "build/demo.svg";
  bool no_peers = false;
  app.add_option("--svg", svg, "Where the picture goes")->capture_default_str();
  app.add_flag("--no-peers", no_peers, "Leave PyTorch's AOTInductor out (it takes a minute)");
  CLI11_PARSE(app, argc, argv);
  try {
    const kiln::TemporaryDirectory folder("kiln-demo");
    torch::manual_seed(0);
    const kiln::demo::Inference inference =
        kiln::demo::infer(kiln::demo::make_model(), !no_peers, folder.path());
    const kiln::demo::Inference training =
        kiln::demo::train(kiln::demo::make_model(), folder.path());
    std::vector<kiln::demo::Panel> panels = inference.panels;
    panels.insert(panels.end(), training.panels.begin(), training.panels.end());
    kiln::demo::print_chart(panels);
    kiln::demo::write_chart(panels, svg);
    std::cout << "\nThe same as a picture: " << svg << "\n";
    return inference.right && training.right ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "kiln-demo: " << error.what() << "\n";
    return 1;
  }
}
