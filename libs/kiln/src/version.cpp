#include "version.hpp"

#include <c10/util/StringUtil.h>
#include <torch/csrc/autograd/variable.h>

namespace kiln {

Version::Version(const Tensors& arguments, const ThreadGuard& now, const torch::nn::Module* of)
    : thread(now), inputs(guards_of(arguments)), module(of) {
  if (module != nullptr) {
    module_state.emplace(*module);
  }
}

void Version::set_captured(Tensors tensors) {
  captured_guards = guards_of(tensors);
  captured = std::move(tensors);
}

bool Version::resembles(const Tensors& arguments, const ThreadGuard& now) const {
  if (arguments.size() != inputs.size() || now != thread) {
    return false;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].holds(arguments[i])) {
      return false;
    }
  }
  for (std::size_t i = 0; i < captured.size(); ++i) {
    if (!captured_guards[i].holds(captured[i])) {
      return false;
    }
  }
  return !module_state || module_state->holds(*module);
}

bool Version::holds(const Tensors& arguments, const ThreadGuard& now) const {
  return resembles(arguments, now) && (!function || function->accepts(with_captured(arguments)));
}

std::optional<Tensors> Version::call(const Tensors& arguments, const ThreadGuard& now) const {
  if (!resembles(arguments, now)) {
    return std::nullopt;
  }
  return captured.empty() ? function->call_if_accepted(arguments)
                          : function->call_if_accepted(with_captured(arguments));
}

Tensors Version::with_captured(const Tensors& arguments) const {
  Tensors all;
  all.reserve(arguments.size() + captured.size());
  all.insert(all.end(), arguments.begin(), arguments.end());
  all.insert(all.end(), captured.begin(), captured.end());
  return all;
}

std::string Version::mismatch(const Tensors& arguments, const ThreadGuard& now) const {
  if (now != thread) {
    return "the call is with " + now.text() + ", the version before with " + thread.text();
  }
  if (arguments.size() != inputs.size()) {
    return c10::str(
        "the call has ", arguments.size(), " tensors, the version before ", inputs.size());
  }
  const auto first = [](const char* name,
                        const std::vector<TensorGuard>& guards,
                        const Tensors& tensors) -> std::string {
    for (std::size_t i = 0; i < guards.size(); ++i) {
      if (!guards[i].holds(tensors[i])) {
        return c10::str(
            name, " ", i, " is ", TensorGuard(tensors[i]).text(), ", and was ", guards[i].text());
      }
    }
    return {};
  };
  if (std::string text = first("input", inputs, arguments); !text.empty()) {
    return text;
  }
  if (std::string text = first("captured tensor", captured_guards, captured); !text.empty()) {
    return text;
  }
  return module_state && !module_state->holds(*module)
             ? "train() or eval() of a submodule changed, or a parameter is another tensor"
             : "the tensors share memory in another way";
}

VersionReport Version::describe() const {
  VersionReport report{.origin = origin,
                       .reason = reason,
                       .guards = {thread.text()},
                       .specialisations = {},
                       .hooks = {}};
  const auto add = [&](const std::string& name, const std::vector<TensorGuard>& guards) {
    for (std::size_t i = 0; i < guards.size(); ++i) {
      report.guards.push_back(c10::str(name, " ", i, ": ", guards[i].text()));
    }
  };
  add("input", inputs);
  add("captured tensor", captured_guards);
  if (module_state) {
    report.guards.emplace_back("train() or eval() and the tensors of every submodule");
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].sizes.empty()) {
      report.specialisations.push_back(
          c10::str("the sizes of input ", i, " are ", at::IntArrayRef(inputs[i].sizes)));
    }
  }
  for (std::size_t i = 0; i < captured.size(); ++i) {
    if (captured[i].defined() && captured[i].requires_grad() &&
        !torch::autograd::impl::hooks(captured[i]).empty()) {
      report.hooks.push_back(c10::str("captured tensor ", i, " of shape ", captured[i].sizes()));
    }
  }
  if (!function) {
    return report;
  }
  const autograd_dispatch::Plan& plan = function->plan();
  for (std::size_t i = 0; i < plan.aliases.size(); ++i) {
    if (plan.aliases[i].first != i) {
      report.guards.push_back(
          c10::str("tensor ", i, " shares memory with tensor ", plan.aliases[i].first));
    }
  }
  for (const autograd_dispatch::WritePlan& write : plan.writes) {
    report.guards.push_back(c10::str("tensor ",
                                     plan.inputs[write.input].argument,
                                     " is written, and shares no memory with others"));
  }
  return report;
}

}  // namespace kiln
