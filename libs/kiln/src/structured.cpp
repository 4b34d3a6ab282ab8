#include "kiln/structured.hpp"

#include <mutex>
#include <optional>
#include <utility>

#include "kiln/autograd_dispatch/typed_function.hpp"
#include "kiln/base/error.hpp"
#include "value_tree.hpp"

namespace kiln {

using nlohmann::json;

c10::IValue call(Model& model, const Values& arguments, const NamedValues& named) {
  const container_runtime::CallSpec spec = model.call_spec();
  const std::vector<at::Tensor> outputs =
      model.run(flatten_arguments(json::parse(spec.inputs).at(1), arguments, named));
  return unflatten(json::parse(spec.outputs).at(1), outputs);
}

c10::IValue call(Model& model, const Values& arguments) {
  return call(model, arguments, {});
}

struct StructuredFunction::State {
  std::optional<autograd_dispatch::FlatFunction> flat;
  std::mutex mutex;
  std::vector<Function> functions;  // One for each structure of arguments.
};

StructuredFunction::State& StructuredFunction::state() const {
  if (!state_) {
    throw Error(ErrorCode::kInvalidArgument,
                "the function is empty: kiln::compile_structured makes one that can be called");
  }
  return *state_;
}

c10::IValue StructuredFunction::operator()(const Values& arguments) const {
  State& own = state();
  FlatValue flat = flatten(c10::ivalue::Tuple::create(arguments));
  const autograd_dispatch::Flat results =
      (*own.flat)({std::move(flat.tensors), {flat.structure.dump()}});
  return unflatten(json::parse(results.structure.text), results.tensors);
}

std::vector<CompileReport> StructuredFunction::reports() const {
  const std::lock_guard lock(state().mutex);
  std::vector<CompileReport> reports;
  for (const Function& function : state().functions) {
    reports.push_back(function.report());
  }
  return reports;
}

StructuredFunction compile_structured(std::shared_ptr<torch::nn::Module> module,
                                      ValueFunction fn,
                                      CompileOptions options) {
  if (!fn) {
    throw Error(ErrorCode::kInvalidArgument, "there is no function to compile");
  }
  options.identity.clear();
  StructuredFunction structured;
  structured.state_ = std::make_shared<StructuredFunction::State>();
  StructuredFunction::State* const state = structured.state_.get();
  state->flat.emplace(
      [fn = std::move(fn)](const autograd_dispatch::Flat& arguments) {
        const c10::IValue all = unflatten(json::parse(arguments.structure.text), arguments.tensors);
        FlatValue result = flatten(fn(all.toTupleRef().elements().vec()));
        return autograd_dispatch::Flat{std::move(result.tensors), {result.structure.dump()}};
      },
      // It belongs to the state, and must not own it.
      [state, module = std::move(module), options = std::move(options)](TensorFunction dense) {
        Function function = compile(module, std::move(dense), options);
        const std::lock_guard lock(state->mutex);
        state->functions.push_back(function);
        return TensorFunction(function);
      });
  return structured;
}

}  // namespace kiln
