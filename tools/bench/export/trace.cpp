// What tracing costs beyond the run that it is, and what reading an archive costs.
//
// usage: kiln-export-bench compare ROUNDS    eager and trace by turns, as JSON
//        kiln-export-bench eager|trace       once, for the memory it takes
//        kiln-export-bench load FILE         an archive, as JSON

#include <time.h>

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/transformercoder.h>
#include <torch/nn/modules/transformerlayer.h>
#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kiln/capture/record.hpp"
#include "kiln/export/archive.hpp"

namespace {

using kiln::capture::Tensors;
using Clock = std::chrono::steady_clock;

constexpr int kLayers = 12;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// The processor's, of this process: what others do on the machine does not count.
double processor_milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

// Forward and backward of a transformer of twelve layers.
class Network {
 public:
  Network()
      : encoder_(torch::nn::TransformerEncoderOptions(
            torch::nn::TransformerEncoderLayerOptions(256, 4).dim_feedforward(1024).dropout(0),
            kLayers)),
        parameters_(encoder_->parameters()) {}

  Tensors step(const Tensors& inputs) {
    return torch::autograd::grad({encoder_->forward(inputs[0]).square().mean()}, parameters_);
  }

 private:
  torch::nn::TransformerEncoder encoder_;
  Tensors parameters_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

nlohmann::json compare(int rounds) {
  Network network;
  const Tensors inputs = {torch::randn({8, 2, 256})};
  const auto step = [&](const Tensors& in) { return network.step(in); };
  std::size_t nodes = kiln::capture::record(step, inputs).graph.nodes().size();
  std::vector<double> eager, trace, beyond;
  for (int i = 0; i < rounds; ++i) {
    double start = processor_milliseconds();
    Tensors results = network.step(inputs);
    eager.push_back(processor_milliseconds() - start);
    results.clear();
    start = processor_milliseconds();
    const kiln::capture::Recording recording = kiln::capture::record(step, inputs);
    trace.push_back(processor_milliseconds() - start);
    nodes = recording.graph.nodes().size();
    beyond.push_back((trace.back() - eager.back()) * 1000 / static_cast<double>(nodes));
  }
  return {{"operators", nodes},
          {"eager_ms", median(eager)},
          {"trace_ms", median(trace)},
          {"us_per_operator", median(beyond)},
          {"us_per_operator_all", beyond}};
}

nlohmann::json load(const std::string& file) {
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) {
    const Clock::time_point start = Clock::now();
    const kiln::exporter::ExportedProgram program = kiln::exporter::load_program(file);
    times.push_back(milliseconds_since(start));
  }
  return {{"first_ms", times.front()}, {"ms", median(times)}};
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  at::set_num_threads(1);
  if (arguments.size() == 2 && arguments[0] == "compare") {
    std::cout << compare(std::stoi(arguments[1])).dump() << "\n";
  } else if (arguments.size() == 2 && arguments[0] == "load") {
    std::cout << load(arguments[1]).dump() << "\n";
  } else if (arguments.size() == 1 && (arguments[0] == "eager" || arguments[0] == "trace")) {
    Network network;
    const Tensors inputs = {torch::randn({512, 2, 256})};
    const auto step = [&](const Tensors& in) { return network.step(in); };
    if (arguments[0] == "eager") {
      step(inputs);
    } else {
      static_cast<void>(kiln::capture::record(step, inputs));
    }
  } else {
    std::cerr << "usage: kiln-export-bench compare ROUNDS | eager | trace | load FILE\n";
    return 2;
  }
  return 0;
}
