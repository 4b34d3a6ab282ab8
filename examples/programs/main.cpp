// Ten training programs as they are written with libtorch, each with one line changed.
//
//   programs NAME [--eager] [--steps N] [--seed N] [--json]    trains it, and prints the losses
//   programs NAME --compare [--steps N] [--seed N]             fails if eager and compiled part
//   programs NAME --turns SECONDS                              eager and compiled in turns, as JSON
//   programs --list

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "program.hpp"

namespace programs {
namespace {

const std::map<std::string, Losses (*)(Run&), std::less<>> kPrograms = {
    {"dcgan", train_dcgan},
    {"gpt", train_gpt},
    {"graph", train_graph},
    {"lora", train_lora},
    {"lstm", train_lstm},
    {"pinn", train_pinn},
    {"ppo", train_ppo},
    {"resnet", train_resnet},
    {"vae", train_vae},
    {"wgan_gp", train_wgan_gp},
};

struct Arguments {
  std::string name;
  bool eager = false, json = false, compare = false;
  int steps = 50;
  std::uint64_t seed = 0;
  double turns_seconds = 0;
};

/// A program that has been started from a seed, eager or compiled.
class Training {
 public:
  Training(const std::string& name, bool compiled, std::uint64_t seed, std::uint64_t nudge = 0)
      : run_(compiled, nudge), losses_((torch::manual_seed(seed), kPrograms.at(name)(run_))) {}

  /// One step's loss, and how long it took.
  double step() {
    const auto start = std::chrono::steady_clock::now();
    const double loss = losses_.next();
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - start;
    milliseconds_ = taken.count();
    return loss;
  }

  [[nodiscard]] double milliseconds() const { return milliseconds_; }  ///< Of the last step.
  [[nodiscard]] int versions() const { return run_.versions(); }

 private:
  Run run_;
  Losses losses_;
  double milliseconds_ = 0;
};

double median(std::vector<double> numbers) {
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return numbers.empty() ? 0 : *middle;
}

void print_list(const char* name, const std::vector<double>& numbers) {
  std::printf("\"%s\": [", name);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::printf("%s%.9g", i == 0 ? "" : ", ", numbers[i]);
  }
  std::printf("]");
}

int train(const Arguments& arguments) {
  Training training(arguments.name, !arguments.eager, arguments.seed);
  std::vector<double> losses, times;
  for (int step = 0; step < arguments.steps; ++step) {
    losses.push_back(training.step());
    times.push_back(training.milliseconds());
    if (!arguments.json) {
      std::printf("step %3d  loss %.6f  %8.2f ms\n", step, losses.back(), times.back());
    }
  }
  const double first = times.front();
  times.erase(times.begin());
  if (arguments.json) {
    std::printf("{\"name\": \"%s\", \"eager\": %s, ",
                arguments.name.c_str(),
                arguments.eager ? "true" : "false");
    print_list("losses", losses);
    std::printf(", \"first_ms\": %.1f, \"step_ms\": %.3f, \"versions\": %d}\n",
                first,
                median(times),
                training.versions());
  } else {
    std::printf("first step %.0f ms, then %.2f ms a step; %d versions compiled\n",
                first,
                median(times),
                training.versions());
  }
  return 0;
}

std::vector<double> losses_of(const Arguments& arguments, bool compiled, std::uint64_t nudge = 0) {
  Training training(arguments.name, compiled, arguments.seed, nudge);
  std::vector<double> losses;
  for (int step = 0; step < arguments.steps; ++step) {
    losses.push_back(training.step());
  }
  return losses;
}

// Of each loss, relative to it; where losses pass through zero, to a tenth of their mean.
std::vector<double> differences(const std::vector<double>& losses,
                                const std::vector<double>& expected) {
  double mean = 0;
  for (const double loss : expected) {
    mean += std::abs(loss) / static_cast<double>(expected.size());
  }
  std::vector<double> result;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    result.push_back(std::abs(losses[i] - expected[i]) /
                     std::max(std::abs(expected[i]), 0.1 * mean));
  }
  return result;
}

// Compiled code rounds otherwise than eager, and training magnifies that: slowly at first, and a
// hundredfold within a few steps once a number passes the kink of a ReLU. What rounding alone does
// is seen by training eagerly from parameters that are a unit in the last place away; compiled
// losses may part from eager's by twice the most of three such runs, within limits.
int compare(const Arguments& arguments) {
  constexpr double kAlwaysAllowed = 1e-4, kNeverAllowed = 2e-3;
  constexpr std::uint64_t kNudges = 3;
  at::set_num_threads(2);
  const auto eager = losses_of(arguments, /*compiled=*/false);
  const auto by_kiln = differences(losses_of(arguments, /*compiled=*/true), eager);
  std::vector<double> by_rounding(eager.size());
  for (std::uint64_t nudge = 1; nudge <= kNudges; ++nudge) {
    const auto nudged = differences(losses_of(arguments, /*compiled=*/false, nudge), eager);
    for (std::size_t i = 0; i < nudged.size(); ++i) {
      by_rounding[i] = std::max(by_rounding[i], nudged[i]);
    }
  }
  std::printf("step        eager   difference   by rounding\n");
  for (int step = 0; step < arguments.steps; ++step) {
    if (step % std::max(1, arguments.steps / 10) == 0 || step == arguments.steps - 1) {
      std::printf("%4d  %11.6f      %.1e       %.1e\n",
                  step,
                  eager[step],
                  by_kiln[step],
                  by_rounding[step]);
    }
  }
  const double worst = *std::max_element(by_kiln.begin(), by_kiln.end());
  const double allowed = std::clamp(
      2 * *std::max_element(by_rounding.begin(), by_rounding.end()), kAlwaysAllowed, kNeverAllowed);
  const bool near = worst <= allowed;  // False for NaN.
  std::printf("largest relative difference over %d steps: %.1e, allowed %.1e%s\n",
              arguments.steps,
              worst,
              allowed,
              near ? "" : "   TOO LARGE");
  return near ? 0 : 1;
}

// Slices of some steps each, one program and then the other, so that what slows the machine for a
// second slows both alike.
int take_turns(const Arguments& arguments) {
  constexpr int kWarmUp = 20;  // Versions for other sizes and for evaluation are compiled here.
  constexpr double kSliceMs = 100;
  Training eager(arguments.name, /*compiled=*/false, arguments.seed);
  (void)eager.step();
  const double eager_first = eager.milliseconds();
  Training compiled(arguments.name, /*compiled=*/true, arguments.seed);
  (void)compiled.step();
  const double first = compiled.milliseconds();
  double warm_up = 0;
  for (int i = 1; i < kWarmUp; ++i) {
    (void)eager.step();
    (void)compiled.step();
    warm_up += compiled.milliseconds();
  }
  std::vector<double> probe;
  for (int i = 0; i < 5; ++i) {
    (void)eager.step();
    probe.push_back(eager.milliseconds());
  }
  // A multiple of 10: each slice has as many epochs, evaluations and other rare events as the
  // others.
  const int steps = 10 * std::max(1, static_cast<int>(std::lround(kSliceMs / median(probe) / 10)));
  const auto slice = [steps](Training& training) {
    double sum = 0;
    for (int i = 0; i < steps; ++i) {
      (void)training.step();
      sum += training.milliseconds();
    }
    return sum / steps;
  };

  std::vector<double> eager_ms, compiled_ms = {slice(compiled)};
  const auto start = std::chrono::steady_clock::now();
  do {
    eager_ms.push_back(slice(eager));
    compiled_ms.push_back(slice(compiled));
  } while (std::chrono::steady_clock::now() - start <
           std::chrono::duration<double>(arguments.turns_seconds));
  std::printf("{\"name\": \"%s\", \"steps\": %d, ", arguments.name.c_str(), steps);
  print_list("eager_ms", eager_ms);
  std::printf(", ");
  print_list("compiled_ms", compiled_ms);
  std::printf(
      ", \"eager_first_ms\": %.1f, \"first_ms\": %.1f, \"warm_up_ms\": %.1f, \"versions\": %d}\n",
      eager_first,
      first,
      warm_up,
      compiled.versions());
  return 0;
}

int refuse(const std::string& reason) {
  std::fprintf(stderr,
               "programs: %s\n"
               "usage: programs NAME [--eager] [--steps N] [--seed N] [--json]\n"
               "       programs NAME --compare [--steps N] [--seed N]\n"
               "       programs NAME --turns SECONDS\n"
               "       programs --list\n",
               reason.c_str());
  return 2;
}

// The number behind an option, which must be at least `least`.
template <class Number>
Number number_behind(const std::vector<std::string_view>& given, std::size_t option, Number least) {
  Number number = 0;
  const std::string_view text = option + 1 < given.size() ? given[option + 1] : "";
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < least) {
    throw std::invalid_argument(std::string(given[option]) + " takes a number, not '" +
                                std::string(text) + "'");
  }
  return number;
}

Arguments parse(const std::vector<std::string_view>& given) {
  Arguments arguments;
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i] == "--eager") {
      arguments.eager = true;
    } else if (given[i] == "--json") {
      arguments.json = true;
    } else if (given[i] == "--compare") {
      arguments.compare = true;
    } else if (given[i] == "--steps") {
      arguments.steps = number_behind(given, i++, 1);
    } else if (given[i] == "--seed") {
      arguments.seed = number_behind(given, i++, std::uint64_t{0});
    } else if (given[i] == "--turns") {
      arguments.turns_seconds = number_behind(given, i++, 0.0);
    } else if (arguments.name.empty() && kPrograms.contains(given[i])) {
      arguments.name = given[i];
    } else {
      throw std::invalid_argument("there is no program or option '" + std::string(given[i]) + "'");
    }
  }
  if (arguments.name.empty()) {
    throw std::invalid_argument("which program? --list names them");
  }
  return arguments;
}

}  // namespace
}  // namespace programs

int main(int count, char** given) {
  const std::vector<std::string_view> words(given + 1, given + count);
  if (words.size() == 1 && words[0] == "--list") {
    for (const auto& [name, program] : programs::kPrograms) {
      std::printf("%s\n", name.c_str());
    }
    return 0;
  }
  programs::Arguments arguments;
  try {
    arguments = programs::parse(words);
  } catch (const std::invalid_argument& error) {
    return programs::refuse(error.what());
  }
  try {
    return arguments.turns_seconds > 0 ? programs::take_turns(arguments)
           : arguments.compare         ? programs::compare(arguments)
                                       : programs::train(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", arguments.name.c_str(), error.what());
    return 1;
  }
}
