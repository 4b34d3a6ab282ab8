// ./dev demo: one model all the way through. A small GPT-2 is compiled from its C++ module and from
// a .pt2 archive, loaded, checked against eager, run by PyTorch too, and trained; then the times,
// side by side.

#include <torch/nn/modules.h>
#include <torch/optim/sgd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "../kiln/console.hpp"
#include "../kiln/format.hpp"
#include "chart.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/kiln.hpp"
#include "measure.hpp"
#include "peer.hpp"
#include "transformer.hpp"

namespace kiln::demo {
namespace {

constexpr int kBatch = 2;

at::Tensor random_text() {
  return at::randint(kVocabulary, {kBatch, kSequence}, at::kLong);
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
  std::fflush(stdout);  // The progress of the next compile is on standard error.
  return good;
}

struct Inference {
  std::vector<Panel> panels;
  bool right = true;
};

// Compiles `program` (an ExportedProgram, or the path of an archive) and shows how it goes.
template <class Program>
double compile_visibly(const Program& program, const std::filesystem::path& package) {
  CompileOptions options;
  options.use_cache = false;
  options.progress = tool::progress_reporter();
  GraphReport report;
  const double milliseconds = once([&] { aot_compile(program, package, options, &report); });
  tool::finish_progress();
  step("compile",
       milliseconds,
       tool::describe_count(report.kernels, "kernel") + ", " +
           tool::describe_count(report.extern_calls, "libtorch call"));
  return milliseconds;
}

// Ahead of time: module and archive to packages, run by us and by PyTorch.
Inference infer(Transformer model, bool peers, const std::filesystem::path& folder) {
  Inference result;
  const at::Tensor text = random_text();
  const torch::NoGradGuard no_grad;
  const at::Tensor expected = model->forward(text);
  const auto check = [&](Model& compiled) {
    at::Tensor found;
    step("first call", once([&] { found = compiled.run({text})[0]; }));
    result.right =
        agree("largest difference from eager", largest_difference(found, expected)) && result.right;
  };

  std::cout << "Ahead of time: a C++ module to an AOTInductor package\n";
  std::optional<ExportedProgram> program;
  const double trace_ms = once([&] { program = export_program(model, {text}); });
  step("trace", trace_ms, std::to_string(std::as_const(program->graph).nodes().size()) + " nodes");
  const double compile_ms = compile_visibly(*program, folder / "kiln.pt2");
  std::optional<Model> ours;
  step("load", once([&] { ours = load(folder / "kiln.pt2"); }));
  check(*ours);

  std::cout << "The same from an archive of torch.export\n";
  save_program(*program, folder / "program.pt2");
  compile_visibly(folder / "program.pt2", folder / "again.pt2");
  Model again = load(folder / "again.pt2");
  check(again);

  std::optional<Peer> peer;
  std::optional<Model> theirs;
  if (peers) {
    std::cout
        << "The same archive in PyTorch's AOTInductor and torch.compile (this takes a while)\n";
    peer = run_peer(folder / "program.pt2", folder / "kiln.pt2", folder / "aotinductor.pt2");
    if (peer) {
      step("compile, AOTInductor", peer->compile_ms);
      step("compile, torch.compile", peer->jit_compile_ms);
      step("load", once([&] { theirs = load(peer->package); }));
      result.right =
          agree("our package in PyTorch's loader", peer->largest_difference) && result.right;
    } else {
      std::cout << "  there is no Python with PyTorch here: left out\n";
    }
  }

  std::vector<std::string> names = {"eager", "Kiln"};
  std::vector<std::function<void()>> calls = {[&] { model->forward(text); },
                                              [&] { (void)ours->run({text}); }};
  if (theirs) {
    names.emplace_back("AOTInductor");
    calls.emplace_back([&] { (void)theirs->run({text}); });
  }
  const std::vector<double> times = alternate(calls);
  Panel panel{"One call: a GPT-2 of " + std::to_string(kLayers) + " layers, width " +
                  std::to_string(kWidth) + ", " + std::to_string(kBatch) + "x" +
                  std::to_string(kSequence) + " tokens",
              {}};
  for (std::size_t i = 0; i < times.size(); ++i) {
    panel.bars.push_back({names[i], times[i], names[i] == "Kiln"});
  }
  if (peer) {
    panel.bars.push_back({"torch.compile", peer->jit_call_ms, false});
  }
  result.panels.push_back(std::move(panel));
  if (peer) {
    result.panels.push_back({"Compiling it, from nothing",
                             {{"Kiln", compile_ms, true},
                              {"AOTInductor", peer->compile_ms, false},
                              {"torch.compile", peer->jit_compile_ms, false}}});
  }
  return result;
}

double train_step(const std::function<at::Tensor(const at::Tensor&)>& forward,
                  torch::optim::SGD& optimizer,
                  const at::Tensor& x,
                  const at::Tensor& y) {
  optimizer.zero_grad();
  const at::Tensor loss = at::cross_entropy_loss(forward(x).flatten(0, 1), y.flatten());
  loss.backward();
  optimizer.step();
  return loss.item<double>();
}

void copy_weights(const torch::nn::Module& from, torch::nn::Module& to) {
  const torch::NoGradGuard no_grad;
  const auto source = from.parameters();
  auto target = to.parameters();
  for (std::size_t i = 0; i < source.size(); ++i) {
    target[i].copy_(source[i]);
  }
}

// Just in time: the compiled function trains.
Inference train(Transformer model, const std::filesystem::path& folder) {
  Inference result;
  Transformer reference;
  copy_weights(*model, *reference);
  const at::Tensor x = random_text(), y = random_text();
  torch::optim::SGD optimizer(model->parameters(), 0.1),
      reference_optimizer(reference->parameters(), 0.1);
  CompileOptions options;
  options.cache_directory = folder / "cache";
  const auto compiled_step = [&](const auto& function) {
    return train_step([&](const at::Tensor& in) { return function(in); }, optimizer, x, y);
  };
  const auto eager_step = [&] {
    return train_step(
        [&](const at::Tensor& in) { return reference->forward(in); }, reference_optimizer, x, y);
  };

  std::cout << "Just in time: the module trains through the compiled function\n";
  const auto fast = compile(model, options);
  double loss = 0, expected = 0;
  step("first step, compiles", once([&] { loss = compiled_step(fast); }));
  expected = eager_step();
  for (int i = 0; i < 10; ++i) {
    loss = compiled_step(fast);
    expected = eager_step();
  }
  std::printf("  %-34s %10.6f   eager %.6f\n", "loss after 11 steps", loss, expected);
  double difference = 0;
  for (std::size_t i = 0; i < model->parameters().size(); ++i) {
    difference = std::max(difference,
                          largest_difference(model->parameters()[i], reference->parameters()[i]));
  }
  result.right = agree("largest difference of a weight", difference);
  const auto again = compile(model, options);
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
        kiln::demo::infer(kiln::demo::Transformer(), !no_peers, folder.path());
    const kiln::demo::Inference training =
        kiln::demo::train(kiln::demo::Transformer(), folder.path());
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
