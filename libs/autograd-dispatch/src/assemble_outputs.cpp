#include <optional>

#include "view_chain.hpp"
#include "wrapper.hpp"

namespace kiln::autograd_dispatch {
namespace {

class AssembleOutputs : public Wrapper {
 public:
  AssembleOutputs(const Plan& plan, const std::vector<std::uint32_t>& positions)
      : count_(plan.outputs.size()) {
    for (const std::uint32_t position : positions) {
      const OutputPlan& output = plan.outputs[position];
      steps_.push_back({position, output.kind, output.index, output.requires_grad, {}});
      if (output.is_alias()) {
        steps_.back().view.emplace(output.view);
      }
    }
  }

  void after(Call& call) const override {
    call.outputs.resize(count_);
    for (const Step& step : steps_) {
      at::Tensor& output = call.outputs[step.position];
      output = make(step, call);
      if (step.fixes_gradient() && output.requires_grad() != step.requires_grad) {
        if (step.requires_grad) {
          output.set_requires_grad(true);
        } else {
          output = output.detach();
        }
      }
    }
  }

 private:
  using Kind = OutputPlan::Kind;

  struct Step {
    std::uint32_t position;
    Kind kind;
    std::uint32_t index;
    bool requires_grad;
    std::optional<ViewMaker> view;

    // An output that is another object's is as that object is.
    [[nodiscard]] bool fixes_gradient() const { return view || kind == Kind::kComputed; }
  };

  static at::Tensor make(const Step& step, const Call& call) {
    switch (step.kind) {
      case Kind::kNone: return {};
      case Kind::kComputed: return call.results[step.index];
      case Kind::kArgument: return call.arguments[step.index];
      case Kind::kSameAs: return call.outputs[step.index];
      case Kind::kAliasOfArgument: return step.view->make(call.arguments[step.index], call.symbols);
      case Kind::kAliasOfComputed: return step.view->make(call.results[step.index], call.symbols);
      case Kind::kAliasOfOutput: return step.view->make(call.outputs[step.index], call.symbols);
    }
    return {};
  }

  std::size_t count_;
  std::vector<Step> steps_;
};

}  // namespace

std::unique_ptr<const Wrapper> assemble_outputs(const Plan& plan,
                                                const std::vector<std::uint32_t>& positions) {
  return std::make_unique<AssembleOutputs>(plan, positions);
}

}  // namespace kiln::autograd_dispatch
