// Kiln's container and runner against PyTorch's, in one process, taking turns. Prints JSON.
//
// usage: kiln-container-bench SECONDS KILN.pt2 PEER.pt2 KILN_LARGE.pt2 PEER_LARGE.pt2
//
// KILN.pt2 and PEER.pt2 are one small program, compiled by Kiln and by AOTInductor; each is loaded
// by its own side's runner. The large ones are there to be loaded.

#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <algorithm>
#include <atomic>
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
  /// Loads a package and returns what fills the other constants and makes them the active ones.
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

/// Microseconds of each of many calls, in a row.
std::vector<double> time_calls(const std::function<void()>& call, double seconds) {
  std::vector<double> times;
  const Clock::time_point begin = Clock::now();
  while (seconds_since(begin) < seconds) {
    const Clock::time_point start = Clock::now();
    call();
    times.push_back(seconds_since(start) * 1e6);
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

nlohmann::json overhead(const Side& side, double seconds) {
  const auto call = side.load(side.small, 1);
  const std::vector<double> times = time_calls(call, seconds);
  return {{"p50_us", percentile(times, 0.5)}, {"p99_us", percentile(times, 0.99)}};
}

nlohmann::json throughput(const Side& side, int instances, double seconds) {
  const auto call = side.load(side.small, instances);
  const std::vector<double> times = time_clients(call, seconds);
  return {{"calls_per_s", static_cast<double>(times.size()) / seconds},
          {"p99_us", percentile(times, 0.99)}};
}

nlohmann::json swap_under_load(const Side& side, double seconds) {
  const auto [call, swap] = side.swapper(side.small);
  std::atomic<bool> done{false};
  std::vector<std::jthread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&, run = call] {
      while (!done) {
        run();
      }
    });
  }
  const std::vector<double> times = time_calls(swap, seconds);
  done = true;
  return {{"p50_us", percentile(times, 0.5)}, {"p99_us", percentile(times, 0.99)}};
}

nlohmann::json load_time(const Side& side) {
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const Clock::time_point start = Clock::now();
    const auto call = side.load(side.large, 1);
    best = std::min(best, seconds_since(start));
  }
  return {{"ms", best * 1e3}};
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 6) {
    std::cerr << "usage: kiln-container-bench SECONDS KILN PEER KILN_LARGE PEER_LARGE\n";
    return 2;
  }
  const double seconds = std::atof(arguments[1]);
  const Side kiln = kiln_side(arguments[2], arguments[4]);
  const Side peer = peer_side(arguments[3], arguments[5]);
  nlohmann::json result;
  for (int round = 0; round < 3; ++round) {
    for (const Side* side : {&kiln, &peer}) {
      nlohmann::json& row = result[side->name];
      row["overhead"].push_back(overhead(*side, seconds));
      for (const int instances : {1, 2, 4, 8}) {
        row["throughput " + std::to_string(instances)].push_back(
            throughput(*side, instances, seconds));
      }
      row["swap"].push_back(swap_under_load(*side, seconds));
      row["load"].push_back(load_time(*side));
    }
  }
  std::cout << result.dump() << "\n";
  return 0;
}
