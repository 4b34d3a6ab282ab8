// kiln bench: latency, throughput over instances, and where the time goes.

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <thread>

#include "commands.hpp"
#include "device_memory.hpp"
#include "inputs.hpp"
#include "json_text.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/jit/options.hpp"
#include "kiln/model.hpp"
#include "profile.hpp"
#include "sizes.hpp"

namespace kiln::tool {
namespace {

using Clock = std::chrono::steady_clock;

// A graph is captured after the second or third call.
constexpr int kCallsBeforeReplays = 4;

struct BenchArguments {
  std::string package, trace;
  std::vector<std::string> inputs, sizes;
  std::size_t instances = 0;
  double seconds = 2;
  bool profile = false;
  CudaGraphs cuda_graphs = CudaGraphs::kAuto;
};

const std::map<std::string, CudaGraphs> kCudaGraphs = {
    {"off", CudaGraphs::kOff}, {"on", CudaGraphs::kOn}, {"auto", CudaGraphs::kAuto}};

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// A run until its results are there: on a GPU that is later than its end.
void run_to_the_end(Model& model, const std::vector<at::Tensor>& inputs) {
  for (const at::Tensor& output : model.run(inputs)) {
    if (output.defined() && !output.is_cpu()) {
      c10::impl::VirtualGuardImpl(output.device().type())
          .synchronizeDevice(output.device().index());
      return;
    }
  }
}

std::vector<double> latencies(Model& model, const std::vector<at::Tensor>& inputs, double seconds) {
  std::vector<double> times;
  const auto begin = Clock::now();
  const std::size_t fewest = seconds > 0 ? 20 : 1;
  while (times.size() < fewest || microseconds_since(begin) < seconds * 1e6) {
    const auto start = Clock::now();
    run_to_the_end(model, inputs);
    times.push_back(microseconds_since(start));
  }
  std::sort(times.begin(), times.end());
  return times;
}

double throughput(const BenchArguments& arguments,
                  const std::vector<at::Tensor>& inputs,
                  std::size_t instances) {
  Model model =
      load(arguments.package, {.instances = instances, .cuda_graphs = arguments.cuda_graphs});
  run_to_the_end(model, inputs);
  const auto begin = Clock::now();
  std::vector<std::size_t> done(instances, 0);
  std::vector<std::exception_ptr> failures(instances);
  {
    std::vector<std::jthread> clients;
    for (std::size_t client = 0; client < instances; ++client) {
      clients.emplace_back([&, client] {
        try {
          while (microseconds_since(begin) < arguments.seconds * 1e6) {
            run_to_the_end(model, inputs);
            ++done[client];
          }
        } catch (...) {
          failures[client] = std::current_exception();
        }
      });
    }
  }
  const double seconds = microseconds_since(begin) * 1e-6;
  for (const std::exception_ptr& failure : failures) {
    if (failure) {
      std::rethrow_exception(failure);
    }
  }
  return static_cast<double>(std::accumulate(done.begin(), done.end(), std::size_t{0})) / seconds;
}

int run_profile(const BenchArguments& arguments, bool json) {
  const std::vector<at::Tensor> inputs =
      inputs_for(arguments.package, arguments.inputs, arguments.sizes);
  Plan plan = plan_in(arguments.package, inputs);
  Model model = load(arguments.package, {.cuda_graphs = CudaGraphs::kOff});
  const Profile measured = profile(model, std::move(plan), inputs, arguments.seconds);
  if (!arguments.trace.empty()) {
    write_file_atomically(arguments.trace, to_trace(measured));
  }
  std::cout << (json ? to_json(measured) + "\n" : to_table(measured));
  return 0;
}

int bench_package(const BenchArguments& arguments, bool json) {
  if (arguments.profile) {
    return run_profile(arguments, json);
  }
  if (!arguments.trace.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "--trace requires --profile");
  }
  const std::vector<at::Tensor> inputs =
      inputs_for(arguments.package, arguments.inputs, arguments.sizes);
  const auto start = Clock::now();
  std::optional<Model> model(load(arguments.package, {.cuda_graphs = arguments.cuda_graphs}));
  const double load_ms = microseconds_since(start) * 1e-3;
  const auto first = Clock::now();
  run_to_the_end(*model, inputs);
  const double first_us = microseconds_since(first);
  const std::optional<c10::Device> gpu = gpu_of(inputs);
  if (gpu) {
    for (int call = 0; call < kCallsBeforeReplays; ++call) {
      run_to_the_end(*model, inputs);
    }
    release_cached_memory(*gpu);
  }
  const std::vector<double> times = latencies(*model, inputs, arguments.seconds);
  const std::uint64_t gpu_memory = gpu ? memory_in_use(*gpu).value_or(0) : 0;
  const auto graphs = model->cuda_graphs();
  model.reset();  // its memory is not that of the instances below
  const auto quantile = [&](double q) {
    return times[static_cast<std::size_t>(q * static_cast<double>(times.size() - 1))];
  };

  const std::size_t most = arguments.instances > 0
                               ? arguments.instances
                               : std::max(1u, std::thread::hardware_concurrency());
  nlohmann::json result = {{"load_ms", load_ms},
                           {"first_us", first_us},
                           {"p50_us", quantile(0.5)},
                           {"p99_us", quantile(0.99)},
                           {"min_us", times.front()},
                           {"calls", times.size()}};
  if (gpu_memory != 0) {
    result["gpu_memory"] = gpu_memory;
  }
  if (graphs.captures != 0 || !graphs.refusals.empty()) {
    result["cuda_graphs"] = {
        {"captures", graphs.captures}, {"replays", graphs.replays}, {"refusals", graphs.refusals}};
  }
  if (!json) {
    std::printf("load %.1f ms, first call %.1f us\n", load_ms, first_us);
    std::printf("latency  min %.1f us  p50 %.1f us  p99 %.1f us  (%zu calls)\n",
                times.front(),
                quantile(0.5),
                quantile(0.99),
                times.size());
    if (gpu_memory != 0) {
      std::printf("GPU memory in use, by all processes: %.0f MB\n",
                  static_cast<double>(gpu_memory) * 1e-6);
    }
    if (graphs.captures != 0) {
      std::printf("CUDA graphs: %zu captured, %zu replays\n", graphs.captures, graphs.replays);
    }
    for (const std::string& refusal : graphs.refusals) {
      std::printf("CUDA graphs: not captured: %s\n", refusal.c_str());
    }
  }
  for (std::size_t instances = 1; instances <= most; instances *= 2) {
    const double rate = throughput(arguments, inputs, instances);
    result["throughput"][std::to_string(instances)] = rate;
    if (!json) {
      std::printf("%zu instance%s  %.0f calls/s\n", instances, instances == 1 ? " " : "s", rate);
    }
  }
  if (json) {
    std::cout << json_text(result) << "\n";
  }
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, Session& session) {
  const auto arguments = std::make_shared<BenchArguments>();
  CLI::App* command =
      app.add_subcommand("bench", "Measure a package: latency, and throughput over instances");
  command->add_option("package", arguments->package, "Package (.pt2) or library (.so)")
      ->required()
      ->check(CLI::ExistingPath);
  command->add_option("--inputs", arguments->inputs, ".npy or .pt files")->check(CLI::ExistingFile);
  command->add_option("--size", arguments->sizes, kSizeHelp)
      ->type_name("NAME=N")
      ->allow_extra_args(false);
  command->add_option(
      "--instances", arguments->instances, "Measure 1, 2, 4 … up to this many (default: cores)");
  command->add_option("--seconds", arguments->seconds, "For each measurement")
      ->capture_default_str();
  CLI::Option* cuda_graphs = command
                                 ->add_option("--cuda-graphs",
                                              arguments->cuda_graphs,
                                              "Capture and replay runs on a GPU: off, on or auto")
                                 ->transform(CLI::CheckedTransformer(kCudaGraphs))
                                 ->option_text("TEXT");
  command
      ->add_flag("--profile",
                 arguments->profile,
                 "Time, bytes and operations of each kernel, against what the machine can do; on a "
                 "GPU the time of each launch, without CUDA graphs; the package must have been "
                 "compiled with --option profile=true")
      ->excludes(cuda_graphs);
  command->add_option("--trace",
                      arguments->trace,
                      "With --profile: write one call for Chrome's or Perfetto's viewer");
  command->footer(R"(Examples:
  kiln bench compiled.pt2
  kiln bench compiled.pt2 --instances 4 --seconds 5 --json
  kiln bench compiled.pt2 --size batch=7                 at another size than the samples'
  kiln bench --profile compiled.pt2 --trace call.json    kernel by kernel)");
  command->add_flag("--json", session.json, "Print a JSON object");
  command->callback([arguments, &session] {
    session.action = [arguments, &session] { return bench_package(*arguments, session.json); };
  });
}

}  // namespace kiln::tool
