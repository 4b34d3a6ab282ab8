// Proximal policy optimization: an actor-critic for continuous actions steers points in a plane to
// their goals. A step is a rollout without gradients, and then some epochs of minibatches.

#include <cmath>
#include <tuple>
#include <vector>

#include "program.hpp"

namespace programs {
namespace ppo {

constexpr std::int64_t kState = 6, kActions = 2, kWidth = 64, kWorlds = 16, kHorizon = 32;
constexpr std::int64_t kEpochs = 2, kMinibatch = 128;
constexpr double kDiscount = 0.99, kLambda = 0.95, kClip = 0.2, kEntropy = 0.001;

struct ActorCriticImpl : torch::nn::Module {
  ActorCriticImpl() {
    actor = register_module("actor", mlp(kActions));
    critic = register_module("critic", mlp(1));
    log_deviation = register_parameter("log_deviation", torch::full({kActions}, -0.5));
  }

  /// Mean and deviation of the actions to take, and what the state is worth.
  std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> forward(torch::Tensor state) {
    const torch::Tensor mean = actor->forward(state);
    return {mean, log_deviation.exp().expand_as(mean), critic->forward(state).squeeze(-1)};
  }

  static torch::nn::Sequential mlp(std::int64_t out) {
    return torch::nn::Sequential(torch::nn::Linear(kState, kWidth),
                                 torch::nn::Tanh(),
                                 torch::nn::Linear(kWidth, kWidth),
                                 torch::nn::Tanh(),
                                 torch::nn::Linear(kWidth, out));
  }

  torch::nn::Sequential actor{nullptr}, critic{nullptr};
  torch::Tensor log_deviation;
};
TORCH_MODULE(ActorCritic);

/// Logarithm of the probability of actions under a normal distribution.
torch::Tensor log_probability(const torch::Tensor& action,
                              const torch::Tensor& mean,
                              const torch::Tensor& deviation) {
  const torch::Tensor distance = (action - mean) / deviation;
  return (-0.5 * distance.square() - deviation.log() - 0.5 * std::log(2 * M_PI)).sum(-1);
}

/// Points with a velocity, pushed about; near the goal is good.
class Worlds {
 public:
  [[nodiscard]] torch::Tensor state() const {
    return torch::cat({position_, velocity_, goal_ - position_}, 1);
  }

  /// The reward of each.
  torch::Tensor act(const torch::Tensor& action) {
    velocity_ = 0.9 * velocity_ + 0.1 * action.clamp(-1, 1);
    position_ = (position_ + 0.1 * velocity_).clamp(-2, 2);
    return -0.1 * (goal_ - position_).square().sum(1);
  }

 private:
  torch::Tensor position_ = torch::rand({kWorlds, 2}) * 2 - 1;
  torch::Tensor velocity_ = torch::zeros({kWorlds, 2});
  torch::Tensor goal_ = torch::rand({kWorlds, 2}) * 2 - 1;
};

/// What was seen and done, [kHorizon * kWorlds, …].
struct Rollout {
  torch::Tensor state, action, log_probability, advantage, worth;
};

using Policy =
    std::function<std::tuple<torch::Tensor, torch::Tensor, torch::Tensor>(torch::Tensor)>;

Rollout play(Worlds worlds, const Policy& policy) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> states, actions, log_probabilities, rewards, values;
  for (std::int64_t i = 0; i < kHorizon; ++i) {
    states.push_back(worlds.state());
    const auto [mean, deviation, value] = policy(states.back());
    actions.push_back(mean + deviation * torch::randn_like(mean));
    log_probabilities.push_back(log_probability(actions.back(), mean, deviation));
    rewards.push_back(worlds.act(actions.back()));
    values.push_back(value);
  }
  values.push_back(std::get<2>(policy(worlds.state())));

  // Generalized advantage estimation, from the end.
  torch::Tensor advantage = torch::zeros({kWorlds});
  std::vector<torch::Tensor> advantages(kHorizon);
  for (std::int64_t i = kHorizon - 1; i >= 0; --i) {
    const torch::Tensor surprise = rewards[i] + kDiscount * values[i + 1] - values[i];
    advantages[i] = advantage = surprise + kDiscount * kLambda * advantage;
  }
  values.pop_back();
  const torch::Tensor all = torch::cat(advantages);
  return {torch::cat(states),
          torch::cat(actions),
          torch::cat(log_probabilities),
          all,
          all + torch::cat(values)};
}

}  // namespace ppo

Losses train_ppo(Run& run) {
  using namespace ppo;
  ActorCritic model;
  auto policy = run.compile(model);
  auto loss_of = run.compile(
      model,
      [model](torch::Tensor state,
              torch::Tensor action,
              torch::Tensor old_log_probability,
              torch::Tensor advantage,
              torch::Tensor worth) mutable {
        const auto [mean, deviation, value] = model->forward(state);
        const torch::Tensor ratio =
            (log_probability(action, mean, deviation) - old_log_probability).exp();
        const torch::Tensor gain =
            torch::min(ratio * advantage, ratio.clamp(1 - kClip, 1 + kClip) * advantage);
        const torch::Tensor entropy = deviation.log().sum(-1);
        return 0.5 * (worth - value).square().mean() - (gain + kEntropy * entropy).mean();
      });

  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(3e-4));
  for (;;) {
    const Rollout seen = play(Worlds(), policy);
    torch::Tensor loss;
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      for (const torch::Tensor& batch : torch::randperm(kHorizon * kWorlds).split(kMinibatch)) {
        const auto of = [&batch](const torch::Tensor& all) { return all.index_select(0, batch); };
        loss = loss_of(of(seen.state),
                       of(seen.action),
                       of(seen.log_probability),
                       of(seen.advantage),
                       of(seen.worth));
        optimizer.zero_grad();
        loss.backward();
        optimizer.step();
      }
    }
    co_yield loss;
  }
}

}  // namespace programs
