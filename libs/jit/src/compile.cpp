#include "kiln/jit/function.hpp"

#include <utility>

#include "function_state.hpp"

namespace kiln {

Function::State& Function::state() const {
  if (!state_) {
    throw Error(ErrorCode::kInvalidArgument,
                "the function is empty: kiln::compile makes one that can be called");
  }
  return *state_;
}

Tensors Function::operator()(const Tensors& inputs) const {
  return state().call(inputs);
}

void Function::prepare(const Tensors& example) const {
  state().prepare(example);
}

CompileReport Function::report() const {
  return state().context->report();
}

void detail::check_function(bool there) {
  if (!there) {
    throw Error(ErrorCode::kInvalidArgument, "there is no function to compile: it is null");
  }
}

Function detail::compile_with_budget(std::shared_ptr<torch::nn::Module> module,
                                     TensorFunction forward,
                                     CompileOptions options,
                                     std::shared_ptr<VersionBudget> budget,
                                     std::string reason,
                                     std::size_t integers) {
  Function function;
  function.state_ = std::make_shared<Function::State>(std::move(forward),
                                                      std::move(module),
                                                      std::move(options),
                                                      std::move(budget),
                                                      std::move(reason),
                                                      integers);
  return function;
}

Function compile(std::shared_ptr<torch::nn::Module> module,
                 TensorFunction forward,
                 CompileOptions options) {
  detail::check_function(forward != nullptr);
  auto budget = std::make_shared<detail::VersionBudget>(options.max_versions);
  return detail::compile_with_budget(
      std::move(module), std::move(forward), std::move(options), std::move(budget), {}, 0);
}

}  // namespace kiln
