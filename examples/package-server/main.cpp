// Ahead of time: a module becomes a package, and a server answers its clients with it, several at
// once.
//
// The package holds everything: nothing of the module's C++ is needed to serve it. The clients are
// threads of this program, so that it can check what they get; they talk to the server through
// sockets as strangers would.
//
//   package-server [FOLDER [DEVICE]]    leaves model.pt2 (the program) and compiled.pt2 (the
//   package)
//                                       there; DEVICE is cpu, or cuda: an instance for each client,
//                                       which runs in a stream of its own

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "kiln/kiln.hpp"
#include "server.hpp"

namespace {

constexpr int kFeatures = 64, kClasses = 10, kClients = 4, kRequests = 50;

// Asks `kRequests` times; counts the answers that are not what eager says, or not bit for bit what
// `alone` does.
void ask(int port,
         torch::nn::Sequential& model,
         const std::function<torch::Tensor(const torch::Tensor&)>& alone,
         std::atomic<int>& wrong) {
  const Connection server = connect_to(port);
  const torch::NoGradGuard no_grad;
  for (int i = 0; i < kRequests; ++i) {
    const torch::Tensor question = torch::randn({1, kFeatures});
    torch::Tensor answer = torch::empty({1, kClasses});
    server.send(question.data_ptr(), question.nbytes());
    if (!server.receive(answer.data_ptr(), answer.nbytes()) ||
        !torch::allclose(answer, model->forward(question), 1e-4, 1e-5) ||
        !torch::equal(answer, alone(question))) {
      ++wrong;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path folder = argc > 1 ? argv[1] : ".";
  const std::string device = argc > 2 ? argv[2] : "cpu";
  torch::nn::Sequential model(torch::nn::Linear(kFeatures, 256),
                              torch::nn::GELU(),
                              torch::nn::LayerNorm(torch::nn::LayerNormOptions({256})),
                              torch::nn::Linear(256, kClasses),
                              torch::nn::Softmax(1));
  model->eval();
  const kiln::ExportedProgram program = kiln::export_program(model, {torch::randn({1, kFeatures})});
  kiln::save_program(program, folder / "model.pt2");
  kiln::aot_compile(program, folder / "compiled.pt2", {.device = device});

  // From here on only the package counts.
  kiln::Model loaded = kiln::load(folder / "compiled.pt2", {.instances = kClients});
  kiln::Model single = kiln::load(folder / "compiled.pt2", {.instances = 1});
  const c10::impl::VirtualGuardImpl streams(torch::Device(device).type());
  const auto answer_with = [&](kiln::Model& served, const torch::Tensor& question) {
    return served.run({question.to(device)})[0].cpu();
  };
  Server server([&](const Connection& client) {
    const c10::StreamGuard own(streams.getNewStream(streams.getDevice()));
    torch::Tensor question = torch::empty({1, kFeatures});
    while (client.receive(question.data_ptr(), question.nbytes())) {
      const torch::Tensor answer = answer_with(loaded, question);
      client.send(answer.data_ptr(), answer.nbytes());
    }
  });

  std::atomic<int> wrong = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back(
        [&] { ask(server.port(), model, std::bind_front(answer_with, std::ref(single)), wrong); });
  }
  for (std::thread& client : clients) {
    client.join();
  }
  std::cout << kClients * kRequests << " requests of " << kClients << " clients answered, " << wrong
            << " of them wrong\n";
  return wrong == 0 ? 0 : 1;
}
