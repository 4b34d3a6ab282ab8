// Kiln's container and runner against PyTorch's, in one process, taking turns. Prints JSON.
//
// usage: kiln-container-bench SECONDS ROUNDS KILN.pt2 PEER.pt2 KILN_LARGE.pt2 PEER_LARGE.pt2
//
// KILN.pt2 and PEER.pt2 are one small program, compiled by Kiln and by AOTInductor; each is loaded
// by its own side's runner. The large ones are there to be loaded. In each round each side measures
// for SECONDS, one right after the other: compare what stands in one round.

#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "kiln/container_runtime/runner.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using Peer = torch::inductor::AOTIModelPackageLoader;
using kiln::container_runtime::Runner;
using kiln::container_runtime::Tensors;

constexpr int kClients = 16;
constexpr std::chrono::microseconds kPace{1000};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// One side: how it loads, runs and swaps.
struct Side {
  std::string name;
  std::string small;
  std::string large;
  /// Loads a package with so many instances and returns what calls it.
  std::function<std::function<void()>(const std::string&, int)> load;
  /// Loads a package and returns what calls it, and what fills the other constants and makes them
  /// the active ones.
  std::function<std::pair<std::function<void()>, std::function<void()>>(const std::string&)>
      swapper;
};

Tensors small_inputs() {
  return {at::ones({1, 64})};
}

Side kiln_side(const std::string& small, const std::string& large) {
  Side side{"kiln", small, large, {}, {}};
  side.load = [](const std::string& package, int instances) -> std::function<void()> {
    auto runner = std::make_shared<Runner>(
        package,
        kiln::container_runtime::RunnerOptions{.instances = static_cast<std::size_t>(instances)});
    return [runner, x = small_inputs()] { (void)runner->run(x); };
  };
  side.swapper = [](const std::string& package) {
    auto runner =
        std::make_shared<Runner>(package, kiln::container_runtime::RunnerOptions{.instances = 2});
    kiln::container_runtime::NamedTensors other;
    for (const auto& [name, value] : runner->constant_values()) {
      other[name] = at::ones_like(value);
    }
    return std::pair<std::function<void()>, std::function<void()>>(
        [runner, x = small_inputs()] { (void)runner->run(x); },
        [runner, other] {
          runner->update_constants(other, {.inactive = true});
          runner->swap_constants();
        });
  };
  return side;
}

Side peer_side(const std::string& small, const std::string& large) {
  Side side{"pytorch", small, large, {}, {}};
  side.load = [](const std::string& package, int instances) -> std::function<void()> {
    auto loader =
        std::make_shared<Peer>(package, "model", false, static_cast<std::size_t>(instances));
    return [loader, x = small_inputs()] { (void)loader->run(x); };
  };
  side.swapper = [](const std::string& package) {
    auto loader = std::make_shared<Peer>(package, "model", false, 2);
    std::unordered_map<std::string, at::Tensor> other;
    for (const auto& [name, value] : loader->get_runner()->extract_constants_map(false)) {
      other[name] = at::ones_like(value);
    }
    return std::pair<std::function<void()>, std::function<void()>>(
        [loader, x = small_inputs()] { (void)loader->run(x); },
        [loader, other]() mutable {
          loader->update_constant_buffer(other, /*use_inactive=*/true, /*validate_full=*/false);
          loader->get_runner()->swap_constant_buffer();
        });
  };
  return side;
}

double percentile(std::vector<double> times, double share) {
  std::sort(times.begin(), times.end());
  return times.empty()
             ? 0
             : times[static_cast<std::size_t>(share * static_cast<double>(times.size() - 1))];
}

/// Microseconds of each of many calls, `pause` apart.
std::vector<double> time_calls(const std::function<void()>& call,
                               double seconds,
                               std::chrono::microseconds pause = {}) {
  std::vector<double> times;
  const Clock::time_point begin = Clock::now();
  while (seconds_since(begin) < seconds) {
    const Clock::time_point start = Clock::now();
    call();
    times.push_back(seconds_since(start) * 1e6);
    if (pause.count() > 0) {
      std::this_thread::sleep_for(pause);
    }
  }
  return times;
}

/// The same from many threads at once.
std::vector<double> time_clients(const std::function<void()>& call, double seconds) {
  std::vector<std::vector<double>> of_client(kClients);
  {
    std::vector<std::jthread> clients;
    for (std::vector<double>& times : of_client) {
      clients.emplace_back([&] { times = time_calls(call, seconds); });
    }
  }
  std::vector<double> all;
  for (const std::vector<double>& times : of_client) {
    all.insert(all.end(), times.begin(), times.end());
  }
  return all;
}

nlohmann::json latencies(const std::vector<double>& times, double seconds) {
  return {{"calls_per_s", static_cast<double>(times.size()) / seconds},
          {"p50_us", percentile(times, 0.5)},
          {"p99_us", percentile(times, 0.99)}};
}

/// What one row measures on a side that is loaded: called once a round.
using Measure = std::function<nlohmann::json()>;

Measure overhead(const Side& side, double seconds) {
  return [call = side.load(side.small, 1), seconds] {
    return latencies(time_calls(call, seconds), seconds);
  };
}

Measure throughput(const Side& side, int instances, double seconds) {
  return [call = side.load(side.small, instances), seconds] {
    return latencies(time_clients(call, seconds), seconds);
  };
}

/// Both sides have the same load: clients that call at a fixed pace. Were they to call as fast as
/// they can, the side with the shorter calls would have the heavier load, and what is measured
/// would be when the system's scheduler lets a preempted call end.
Measure swap_under_load(const Side& side, double seconds) {
  return [swapper = side.swapper(side.small), seconds] {
    const auto& [call, swap] = swapper;
    std::vector<std::jthread> clients;
    for (int i = 0; i < kClients; ++i) {
      clients.emplace_back([run = call, seconds] { (void)time_calls(run, seconds, kPace); });
    }
    return latencies(time_calls(swap, seconds, kPace), seconds);
  };
}

Measure load_time(const Side& side) {
  return [&side] {
    const Clock::time_point start = Clock::now();
    const auto call = side.load(side.large, 1);
    return nlohmann::json{{"ms", seconds_since(start) * 1e3}};
  };
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 7) {
    std::cerr << "usage: kiln-container-bench SECONDS ROUNDS KILN PEER KILN_LARGE PEER_LARGE\n";
    return 2;
  }
  const double seconds = std::atof(arguments[1]);
  const int rounds = std::atoi(arguments[2]);
  const std::array sides = {kiln_side(arguments[3], arguments[5]),
                            peer_side(arguments[4], arguments[6])};
  nlohmann::json result;
  const auto row = [&](const std::string& name, const std::function<Measure(const Side&)>& make) {
    const std::array measures = {make(sides[0]), make(sides[1])};
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t i = 0; i < sides.size(); ++i) {
        result[sides[i].name][name].push_back(measures[i]());
      }
    }
  };
  row("overhead", [&](const Side& side) { return overhead(side, seconds); });
  for (const int instances : {1, 2, 4, 8}) {
    row("throughput " + std::to_string(instances),
        [&](const Side& side) { return throughput(side, instances, seconds); });
  }
  row("swap", [&](const Side& side) { return swap_under_load(side, seconds); });
  row("load", [&](const Side& side) { return load_time(side); });
  std::cout << result.dump() << "\n";
  return 0;
}
