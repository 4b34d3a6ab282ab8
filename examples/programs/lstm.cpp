// PyTorch's word language model: an LSTM that reads a long text in pieces and carries its state
// from one piece to the next, with plain gradient descent and clipped gradients.

#include <tuple>

#include "data.hpp"
#include "program.hpp"

namespace programs {
namespace lstm {

constexpr std::int64_t kVocabulary = 200, kWidth = 128, kLayers = 2, kBatch = 16, kLength = 32;
constexpr double kDropout = 0.2;

struct LanguageModelImpl : torch::nn::Module {
  LanguageModelImpl() {
    dropout = register_module("dropout", torch::nn::Dropout(kDropout));
    encoder = register_module("encoder", torch::nn::Embedding(kVocabulary, kWidth));
    rnn = register_module(
        "rnn",
        torch::nn::LSTM(
            torch::nn::LSTMOptions(kWidth, kWidth).num_layers(kLayers).dropout(kDropout)));
    decoder = register_module("decoder", torch::nn::Linear(kWidth, kVocabulary));
    torch::nn::init::uniform_(encoder->weight, -0.1, 0.1);
    torch::nn::init::uniform_(decoder->weight, -0.1, 0.1);
    torch::nn::init::zeros_(decoder->bias);
  }

  /// Scores of each next word, and the state to read on with.
  std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> forward(torch::Tensor text,
                                                                  torch::Tensor hidden,
                                                                  torch::Tensor cell) {
    const auto [output, state] = rnn(dropout(encoder(text)), std::make_tuple(hidden, cell));
    return {decoder(dropout(output)).flatten(0, 1), std::get<0>(state), std::get<1>(state)};
  }

  torch::nn::Dropout dropout{nullptr};
  torch::nn::Embedding encoder{nullptr};
  torch::nn::LSTM rnn{nullptr};
  torch::nn::Linear decoder{nullptr};
};
TORCH_MODULE(LanguageModel);

}  // namespace lstm

Losses train_lstm(Run& run) {
  using namespace lstm;
  LanguageModel model;
  auto forward = run.compile(model);

  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(2.0));
  // Each column is a piece of the text of its own.
  const torch::Tensor corpus = token_stream(40000, kVocabulary).view({kBatch, -1}).t().contiguous();
  torch::Tensor hidden, cell;
  for (std::int64_t at = 0;; at += kLength) {
    if (at + kLength >= corpus.size(0) || !hidden.defined()) {  // The text begins.
      at = 0;
      hidden = torch::zeros({kLayers, kBatch, kWidth});
      cell = torch::zeros_like(hidden);
    }
    const torch::Tensor text = corpus.narrow(0, at, kLength);
    const torch::Tensor next = corpus.narrow(0, at + 1, kLength).reshape({-1});

    optimizer.zero_grad();
    torch::Tensor output;
    std::tie(output, hidden, cell) = forward(text, hidden.detach(), cell.detach());
    const torch::Tensor loss = torch::nn::functional::cross_entropy(output, next);
    loss.backward();
    torch::nn::utils::clip_grad_norm_(model->parameters(), 0.25);
    optimizer.step();
    co_yield loss;
  }
}

}  // namespace programs
