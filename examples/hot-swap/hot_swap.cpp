// New weights under load: a model keeps answering while its weights are exchanged, and no answer is
// of a mixture of the two.

#include <torch/torch.h>

#include <atomic>
#include <filesystem>
#include <iostream>
#include <thread>
#include <vector>

#include "kiln/base/temporary_directory.hpp"
#include "kiln/kiln.hpp"

int main() {
  constexpr int kCallers = 3, kSwaps = 20;
  const torch::NoGradGuard no_grad;
  const kiln::TemporaryDirectory folder;
  torch::nn::Linear model(32, 32);
  model->weight.fill_(1);
  model->bias.fill_(1);
  const torch::Tensor x = torch::ones({8, 32});
  kiln::Model served =
      kiln::load(kiln::aot_compile(kiln::export_program(model, {x}), folder.path() / "model.pt2"));

  // Version v has every weight and bias at v, so its answers are 33 v everywhere.
  std::atomic<bool> done = false;
  std::atomic<long> answers = 0, mixtures = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&] {
      while (!done) {
        const torch::Tensor answer = served.run({x})[0];
        const double version = answer[0][0].item<double>() / 33;
        ++answers;
        if (version != std::round(version) || !answer.eq(answer[0][0]).all().item<bool>()) {
          ++mixtures;
        }
      }
    });
  }
  for (int version = 2; version <= kSwaps; ++version) {
    served.update_constants({{"weight", torch::full({32, 32}, 1.0 * version)},
                             {"bias", torch::full({32}, 1.0 * version)}},
                            {.inactive = true, .full = true});
    served.swap_constants();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  done = true;
  for (std::thread& caller : callers) {
    caller.join();
  }
  const double last = served.run({x})[0][0][0].item<double>();
  std::cout << kSwaps << " versions, " << answers << " answers, " << mixtures
            << " of a mixture; the last version answers " << last << "\n";
  return mixtures == 0 && last == 33.0 * kSwaps ? 0 : 1;
}
