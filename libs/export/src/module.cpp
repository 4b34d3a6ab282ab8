#include <torch/nn/module.h>

#include "kiln/base/error.hpp"
#include "kiln/export/export.hpp"

namespace kiln::exporter {

ExportedProgram export_module(const std::shared_ptr<torch::nn::Module>& module,
                              const TensorFunction& forward,
                              const Tensors& example,
                              const ExportOptions& options) {
  if (module == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, "export_module: there is no module");
  }
  std::vector<NamedTensor> named;
  for (const auto& parameter : module->named_parameters()) {
    named.push_back({.name = parameter.key(), .tensor = parameter.value()});
  }
  for (const auto& buffer : module->named_buffers()) {
    named.push_back({.name = buffer.key(), .tensor = buffer.value(), .is_buffer = true});
  }
  return export_program(forward, named, example, options);
}

}  // namespace kiln::exporter
