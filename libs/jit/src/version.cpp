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

bool Version::resembles_but_for_inputs(const Tensors& arguments, const ThreadGuard& now) const {
  if (arguments.size() != inputs.size() || now != thread) {
    return false;
  }
  for (std::size_t i = 0; i < captured.size(); ++i) {
    if (!captured_guards[i].holds(captured[i])) {
      return false;
    }
  }
  return !module_state || module_state->holds(*module);
}

bool Version::resembles(const Tensors& arguments, const ThreadGuard& now) const {
  if (arguments.size() != inputs.size()) {
    return false;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!(is_symbolic(i) ? inputs[i].holds_in_other_sizes(arguments[i])
                         : inputs[i].holds(arguments[i]))) {
      return false;
    }
  }
  return (!sizes || (sizes->holds(arguments) && was_visited(arguments))) &&
         resembles_but_for_inputs(arguments, now);
}

bool Version::resembles_but_for_symbols(const Tensors& arguments, const ThreadGuard& now) const {
  if (!resembles_but_for_inputs(arguments, now)) {
    return false;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!(is_symbolic(i) ? inputs[i].holds_in_other_sizes(arguments[i])
                         : inputs[i].holds(arguments[i]))) {
      return false;
    }
  }
  return true;
}

bool Version::resembles_in_other_sizes(const Tensors& arguments, const ThreadGuard& now) const {
  if (!resembles_but_for_inputs(arguments, now)) {
    return false;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].holds_in_other_sizes(arguments[i])) {
      return false;
    }
  }
  return true;
}

bool Version::holds(const Tensors& arguments, const ThreadGuard& now) const {
  return resembles(arguments, now) && (!function || function->accepts(with_captured(arguments)));
}

std::optional<Tensors> Version::call(const Tensors& arguments, const ThreadGuard& now) const {
  return resembles(arguments, now) ? run(arguments) : std::nullopt;
}

std::optional<Tensors> Version::run(const Tensors& arguments) const {
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

std::string Version::mismatch(const Tensors& arguments,
                              const ThreadGuard& now,
                              const InputNames& names) const {
  if (now != thread) {
    return "the call is with " + now.text() + ", the version before with " + thread.text();
  }
  if (arguments.size() != inputs.size()) {
    return c10::str(
        "the call has ", arguments.size(), " tensors, the version before ", inputs.size());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!(is_symbolic(i) ? inputs[i].holds_in_other_sizes(arguments[i])
                         : inputs[i].holds(arguments[i]))) {
      return names.is_integer(i) && inputs[i].holds_in_other_sizes(arguments[i])
                 ? c10::str(names.input(i),
                            ": ",
                            arguments[i].sizes().back(),
                            ", compiled for ",
                            inputs[i].sizes.back())
                 : names.input(i) + inputs[i].difference(arguments[i]);
    }
  }
  if (sizes) {
    if (std::string text = sizes->difference(arguments, names); !text.empty()) {
      return text;
    }
    if (!was_visited(arguments)) {
      return "the function does something else for " + sizes->values_text(arguments);
    }
  }
  for (std::size_t i = 0; i < captured.size(); ++i) {
    if (!captured_guards[i].holds(captured[i])) {
      return c10::str("captured tensor ", i, captured_guards[i].difference(captured[i]));
    }
  }
  return module_state && !module_state->holds(*module)
             ? "train() or eval() of a submodule changed, or a parameter is another tensor"
             : "the tensors share memory in another way";
}

std::string Version::integer_text(std::size_t input) const {
  return is_symbolic(input) ? sizes->last_size_text(input)
                            : std::to_string(inputs[input].sizes.back());
}

VersionReport Version::describe(const InputNames& names) const {
  VersionReport report{.origin = origin,
                       .reason = reason,
                       .guards = {thread.text()},
                       .specialisations = {},
                       .symbols = {},
                       .hooks = {},
                       .captured = {},
                       .constants = {}};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    report.guards.push_back(names.input(i) + ": " +
                            (names.is_integer(i) ? integer_text(i)
                             : is_symbolic(i)    ? inputs[i].text_with_sizes(sizes->sizes_text(i))
                                                 : inputs[i].text()));
  }
  for (std::size_t i = 0; i < captured_guards.size(); ++i) {
    report.guards.push_back(c10::str("captured tensor ", i, ": ", captured_guards[i].text()));
  }
  if (module_state) {
    report.guards.emplace_back("train() or eval() and the tensors of every submodule");
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].sizes.empty() && !is_symbolic(i)) {
      report.specialisations.push_back(
          names.is_integer(i)
              ? names.input(i) + " is " + integer_text(i)
              : c10::str(
                    "the sizes of ", names.input(i), " are ", at::IntArrayRef(inputs[i].sizes)));
    }
  }
  report.specialisations.insert(report.specialisations.end(), remarks.begin(), remarks.end());
  if (sizes) {
    report.symbols = sizes->describe(names);
  }
  for (std::size_t i = 0; i < captured.size(); ++i) {
    if (captured[i].defined() && captured[i].requires_grad() &&
        !torch::autograd::impl::hooks(captured[i]).empty()) {
      report.hooks.push_back(c10::str("captured tensor ", i, " of shape ", captured[i].sizes()));
    }
  }
  if (program) {
    report.captured = program->captured_texts();
    report.constants = program->constant_texts();
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
