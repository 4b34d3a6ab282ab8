// A message-passing network that predicts a number for each graph, say a molecule's energy. Graphs
// are of different sizes, and a batch is one large graph: no two batches have the same shape.

#include <vector>

#include "program.hpp"

namespace programs {
namespace graph {

constexpr std::int64_t kFeatures = 16, kWidth = 64, kLayers = 3, kBatch = 32;

/// Some graphs beside one another, as PyTorch Geometric has them.
struct Batch {
  torch::Tensor nodes;   // Features, [nodes, kFeatures].
  torch::Tensor source;  // Of each edge.
  torch::Tensor target;
  torch::Tensor owner;  // The graph of each node.
  torch::Tensor energy;
};

/// Chains with some chords. The energy adds up over neighbours, so that it takes messages to see
/// it.
Batch random_batch() {
  std::vector<torch::Tensor> source, target, owner;
  std::int64_t nodes = 0;
  for (std::int64_t i = 0; i < kBatch; ++i) {
    const auto count = torch::randint(8, 25, {1}).item<std::int64_t>();
    const torch::Tensor chain = torch::arange(count - 1);
    const torch::Tensor from =
        torch::cat({chain, torch::randint(count, {count / 2}, torch::kLong)});
    const torch::Tensor to =
        torch::cat({chain + 1, torch::randint(count, {count / 2}, torch::kLong)});
    source.insert(source.end(), {from + nodes, to + nodes});  // Both ways.
    target.insert(target.end(), {to + nodes, from + nodes});
    owner.push_back(torch::full({count}, i, torch::kLong));
    nodes += count;
  }
  Batch batch{torch::rand({nodes, kFeatures}),
              torch::cat(source),
              torch::cat(target),
              torch::cat(owner),
              {}};
  const torch::Tensor kind = batch.nodes.narrow(1, 0, 1).squeeze(1);
  const torch::Tensor bonds =
      kind.index_select(0, batch.source) * kind.index_select(0, batch.target);
  batch.energy =
      torch::zeros({kBatch}).index_add(0, batch.owner.index_select(0, batch.source), bonds) / 10;
  return batch;
}

/// Each edge computes a message from its two ends, each node a new state from the sum of its
/// messages.
struct MessagePassingImpl : torch::nn::Module {
  MessagePassingImpl() {
    message = register_module("message", mlp(2 * kWidth));
    update = register_module("update", mlp(2 * kWidth));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
  }

  torch::Tensor forward(torch::Tensor h, torch::Tensor source, torch::Tensor target) {
    const torch::Tensor ends =
        torch::cat({h.index_select(0, source), h.index_select(0, target)}, 1);
    const torch::Tensor sum = torch::zeros_like(h).index_add(0, target, message->forward(ends));
    return norm(h + update->forward(torch::cat({h, sum}, 1)));
  }

  static torch::nn::Sequential mlp(std::int64_t in) {
    return torch::nn::Sequential(
        torch::nn::Linear(in, kWidth), torch::nn::SiLU(), torch::nn::Linear(kWidth, kWidth));
  }

  torch::nn::Sequential message{nullptr}, update{nullptr};
  torch::nn::LayerNorm norm{nullptr};
};
TORCH_MODULE(MessagePassing);

struct GraphNetworkImpl : torch::nn::Module {
  GraphNetworkImpl() {
    embed = register_module("embed", torch::nn::Linear(kFeatures, kWidth));
    for (int i = 0; i < kLayers; ++i) {
      layers.push_back(register_module("layer" + std::to_string(i), MessagePassing()));
    }
    readout = register_module("readout", torch::nn::Linear(kWidth, 1));
  }

  torch::Tensor forward(torch::Tensor nodes,
                        torch::Tensor source,
                        torch::Tensor target,
                        torch::Tensor owner) {
    torch::Tensor h = embed(nodes);
    for (auto& layer : layers) {
      h = layer(h, source, target);
    }
    const torch::Tensor each = readout(h).squeeze(1);
    return torch::zeros({kBatch}).index_add(0, owner, each);
  }

  torch::nn::Linear embed{nullptr}, readout{nullptr};
  std::vector<MessagePassing> layers;
};
TORCH_MODULE(GraphNetwork);

}  // namespace graph

Losses train_graph(Run& run) {
  using namespace graph;
  GraphNetwork model;
  auto forward = run.compile(model);

  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-3));
  std::vector<Batch> batches;
  for (int i = 0; i < 10; ++i) {
    batches.push_back(random_batch());
  }
  for (;;) {
    for (const Batch& batch : batches) {
      optimizer.zero_grad();
      const torch::Tensor energy = forward(batch.nodes, batch.source, batch.target, batch.owner);
      const torch::Tensor loss = torch::mse_loss(energy, batch.energy);
      loss.backward();
      optimizer.step();
      co_yield loss;
    }
  }
}

}  // namespace programs
