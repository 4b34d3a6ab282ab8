#include "kiln/structured.hpp"

#include "kiln/jit/value_tree.hpp"

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

}  // namespace kiln
