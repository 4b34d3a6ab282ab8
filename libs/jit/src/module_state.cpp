#include "module_state.hpp"

#include <torch/nn/module.h>

#include <algorithm>
#include <unordered_map>

#include "guards.hpp"

namespace kiln {
namespace {

// The list of a module's own parameters, which it hands out as a copy only.
struct Open : torch::nn::Module {
  static constexpr auto kParameters = &Open::parameters_;
};

// Shows `visit` one number after the other, until it returns false.
template <class Visit>
bool walk(const torch::nn::Module& module, Visit&& visit) {
  if (!visit(module.is_training() ? 1 : 0)) {
    return false;
  }
  const auto& parameters = module.*Open::kParameters;
  if (!visit(parameters.size())) {
    return false;
  }
  for (const auto& item : parameters) {
    if (!visit(reinterpret_cast<std::uintptr_t>(item.value().unsafeGetTensorImpl()))) {
      return false;
    }
  }
  const auto children = module.children();
  if (!visit(children.size())) {
    return false;
  }
  for (const auto& child : children) {
    if (!visit(reinterpret_cast<std::uintptr_t>(child.get())) || !walk(*child, visit)) {
      return false;
    }
  }
  return true;
}

// Calls `visit` with name and tensor until it returns true.
template <class Visit>
void visit_tensors(const torch::nn::Module& module, Visit&& visit) {
  for (const auto& item : module.named_parameters()) {
    if (visit(item.key(), item.value())) {
      return;
    }
  }
  for (const auto& item : module.named_buffers()) {
    if (visit(item.key(), item.value())) {
      return;
    }
  }
}

}  // namespace

ModuleState::ModuleState(const torch::nn::Module& module) {
  walk(module, [&](std::uintptr_t fact) {
    facts_.push_back(fact);
    return true;
  });
}

bool ModuleState::holds(const torch::nn::Module& module) const {
  std::size_t next = 0;
  const bool same = walk(
      module, [&](std::uintptr_t fact) { return next < facts_.size() && facts_[next++] == fact; });
  return same && next == facts_.size();
}

std::string description_of(const torch::nn::Module& module) {
  std::string text;
  module.apply([&](const std::string& name, const torch::nn::Module& part) {
    text += name + (part.is_training() ? " train\n" : " eval\n");
  });
  // Tied ones are one tensor to the program.
  std::unordered_map<const at::TensorImpl*, std::string> met;
  visit_tensors(module, [&](const std::string& name, const at::Tensor& tensor) {
    const auto [first, is_new] = met.try_emplace(tensor.unsafeGetTensorImpl(), name);
    text += name + ": " + (is_new ? TensorGuard(tensor).text() : "is " + first->second) + "\n";
    return false;
  });
  return text;
}

bool has_cuda_tensor(const torch::nn::Module& module) {
  bool found = false;
  visit_tensors(module, [&](const std::string&, const at::Tensor& tensor) {
    found = tensor.defined() && tensor.is_cuda();
    return found;
  });
  return found;
}

std::optional<std::vector<at::Tensor>> tensors_named(const std::vector<std::string>& names,
                                                     const torch::nn::Module& module) {
  std::unordered_map<std::string, at::Tensor> all;
  visit_tensors(module, [&](const std::string& name, const at::Tensor& tensor) {
    all.emplace(name, tensor);
    return false;
  });
  std::vector<at::Tensor> tensors;
  for (const std::string& name : names) {
    const auto found = all.find(name);
    if (found == all.end()) {
      return std::nullopt;
    }
    tensors.push_back(found->second);
  }
  return tensors;
}

std::vector<std::string> known_names_of(const std::vector<at::Tensor>& tensors,
                                        const torch::nn::Module& module) {
  std::vector<std::string> names(tensors.size());
  std::size_t left = tensors.size();
  visit_tensors(module, [&](const std::string& name, const at::Tensor& tensor) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (names[i].empty() && tensors[i].is_same(tensor)) {
        names[i] = name;
        --left;
      }
    }
    return left == 0;
  });
  return names;
}

std::optional<std::vector<std::string>> names_of(const std::vector<at::Tensor>& tensors,
                                                 const torch::nn::Module& module) {
  std::vector<std::string> names = known_names_of(tensors, module);
  const bool is_complete = std::ranges::none_of(names, &std::string::empty);
  return is_complete ? std::optional(std::move(names)) : std::nullopt;
}

}  // namespace kiln
