// Compiles a TorchScript module with kiln::compile and differentiates it.
//
// usage: kiln-opinfo-gradients MODULE DATA RESULTS
//
// DATA is a list of sets: inputs, which of them require a gradient, and a direction for each output
// that has one. RESULTS is a list of pairs: outputs, and the gradients of those inputs, nothing
// where there is none. The module is compiled once, on the first set.

#include <ATen/Context.h>
#include <ATen/core/List.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/base/file.hpp"
#include "kiln/export/script.hpp"
#include "kiln/jit/compile.hpp"

namespace {

using kiln::Tensors;

c10::List<std::optional<at::Tensor>> gradients(const Tensors& outputs,
                                               const Tensors& inputs,
                                               const c10::List<c10::IValue>& directions) {
  Tensors ends;
  Tensors starts;
  Tensors along;
  for (const at::Tensor& output : outputs) {
    if (output.requires_grad()) {
      ends.push_back(output);
    }
  }
  for (const at::Tensor& input : inputs) {
    if (input.requires_grad()) {
      starts.push_back(input);
    }
  }
  for (const c10::IValue& direction : directions.vec()) {
    along.push_back(direction.toTensor());
  }
  if (along.size() != ends.size()) {
    throw std::runtime_error("outputs that require a gradient: " + std::to_string(ends.size()) +
                             " instead of " + std::to_string(along.size()));
  }
  const Tensors found = torch::autograd::grad(ends,
                                              starts,
                                              along,
                                              /*retain_graph=*/std::nullopt,
                                              /*create_graph=*/false,
                                              /*allow_unused=*/true);
  c10::List<std::optional<at::Tensor>> result;
  for (const at::Tensor& gradient : found) {
    // Autograd's zeros without memory cannot be pickled.
    const bool is_zero = gradient.defined() && gradient._is_zerotensor();
    result.push_back(is_zero ? std::optional(at::zeros(gradient.sizes(), gradient.options()))
                     : gradient.defined() ? std::optional(gradient)
                                          : std::nullopt);
  }
  return result;
}

c10::IValue run(const std::string& module_file, const std::string& data_file) {
  const std::string bytes = kiln::read_file(data_file);
  const c10::IValue sets = torch::jit::pickle_load(std::vector<char>(bytes.begin(), bytes.end()));
  const auto forward = kiln::exporter::script_function(torch::jit::load(module_file));
  auto compiled = kiln::compile([&](const Tensors& inputs) -> Tensors { return forward(inputs); });
  auto results = c10::impl::GenericList(c10::AnyType::get());
  for (const c10::IValue& set : sets.toListRef()) {
    const auto& parts = set.toTupleRef().elements();
    Tensors inputs;
    for (std::size_t i = 0; i < parts[0].toListRef().size(); ++i) {
      const at::Tensor input = parts[0].toListRef()[i].toTensor();
      inputs.push_back(input.requires_grad_(parts[1].toListRef()[i].toBool()));
    }
    at::manual_seed(1);
    const Tensors outputs = compiled(inputs);
    c10::List<at::Tensor> values;
    for (const at::Tensor& output : outputs) {
      values.push_back(output.detach());
    }
    results.push_back(
        c10::ivalue::Tuple::create(values, gradients(outputs, inputs, parts[2].toList())));
  }
  return results;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: " << argv[0] << " MODULE DATA RESULTS\n";
    return 2;
  }
  try {
    const std::vector<char> pickled = torch::jit::pickle_save(run(argv[1], argv[2]));
    kiln::write_file_atomically(argv[3], std::string_view(pickled.data(), pickled.size()));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "kiln: " << error.what() << "\n";
    return 1;
  }
}
