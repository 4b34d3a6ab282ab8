// A compiled function whose program may have changed since it was traced.

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <span>

#include "function_state.hpp"
#include "kiln/base/log.hpp"

namespace kiln {
namespace {

// Whether distinct arguments share storage: such inputs cannot be recreated at other sizes.
bool shares_memory(const autograd_dispatch::Plan& plan) {
  return std::ranges::any_of(plan.aliases, [&](const autograd_dispatch::AliasPlan& alias) {
    const auto position = static_cast<std::uint32_t>(&alias - plan.aliases.data());
    // Captured tensors stay where they are.
    return position < plan.arguments - plan.captured && alias.first != position &&
           alias.same_as == position;
  });
}

bool is_integral(const at::Tensor& tensor) {
  return at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false);
}

bool share_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && b.defined() && a.has_storage() && b.has_storage() && a.is_alias_of(b);
}

// Recreates the autograd history (leaf or not) the argument had when traced; it decides which
// in-place operations are legal.
at::Tensor with_history(const at::Tensor& tensor, bool requires_grad, bool has_history) {
  const at::Tensor leaf = tensor.detach().set_requires_grad(requires_grad);
  if (!has_history) {
    return leaf;
  }
  const at::AutoGradMode recorded(true);
  return leaf.clone();
}

// A tensor with the traced sizes, strides and offset. Integers are 0, always a valid index; floats
// differ per argument so that at::equal can tell them apart.
at::Tensor with_traced_sizes(const Version& version, const at::Tensor& input, std::size_t number) {
  const at::NoGradGuard no_grad;
  const TensorGuard& traced = version.inputs[number];
  const std::int64_t offset = version.program->offset(number);
  at::Tensor result = at::empty_strided(traced.sizes, traced.strides, input.options());
  if (offset != 0) {
    const auto extent = static_cast<std::int64_t>(result.storage().nbytes() / result.itemsize());
    result.set_(at::empty({offset + extent}, input.options()).storage(),
                offset,
                traced.sizes,
                traced.strides);
  }
  const bool has_fractions = input.is_floating_point() || input.is_complex();
  return result.fill_(has_fractions ? 0.25 * static_cast<double>(number + 1) : 0.0);
}

// A batch that is a slice of the data has another storage offset in each call.
bool has_other_offset(const Version& version, const at::Tensor& input, std::size_t number) {
  return input.defined() && input.has_storage() &&
         input.storage_offset() != version.program->offset(number);
}

// Arguments to retrace `version` with, so that an unchanged program yields the same trace: they
// alias as they did then. A version for a range of sizes is traced at those of its first call: at
// others the program may take another path to the same results, and integers of this call may be
// indices that are out of range there. Nothing if there are no such arguments.
std::optional<Tensors> make_retrace_arguments(const Version& version, const Tensors& inputs) {
  const autograd_dispatch::Plan& plan = version.function->plan();
  const bool has_other_sizes = !std::ranges::equal(
      version.inputs, inputs, [](const TensorGuard& guard, const at::Tensor& input) {
        return guard.holds(input);
      });
  bool any_has_other_offset = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    any_has_other_offset = any_has_other_offset || has_other_offset(version, inputs[i], i);
  }
  if ((has_other_sizes || any_has_other_offset) && shares_memory(plan)) {
    return std::nullopt;
  }
  Tensors arguments = inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor& input = inputs[i];
    if (!input.defined()) {
      continue;
    }
    const auto before = std::span(inputs).first(i);
    const auto same =
        std::ranges::find_if(before, [&](const at::Tensor& other) { return other.is_same(input); });
    if (same != before.end() && !plan.aliases.empty()) {
      arguments[i] = arguments[static_cast<std::size_t>(same - before.begin())];
      continue;
    }
    const bool has_history = version.program->has_history(i);
    // If nothing is written, tensors that did not alias may do so in a later call.
    const bool is_shared =
        plan.aliases.empty() && std::ranges::any_of(before, [&](const at::Tensor& other) {
          return share_memory(other, input);
        });
    if (has_other_sizes && (is_integral(input) || !version.inputs[i].holds(input))) {
      arguments[i] =
          with_history(with_traced_sizes(version, input, i), input.requires_grad(), has_history);
    } else if (is_shared || has_other_offset(version, input, i)) {
      arguments[i] = with_history(with_traced_sizes(version, input, i).copy_(input.detach()),
                                  input.requires_grad(),
                                  has_history);
    } else if (input.is_leaf() == has_history) {
      arguments[i] = with_history(input, input.requires_grad(), has_history);
    }
    if (has_other_offset(version, arguments[i], i)) {
      return std::nullopt;  // Giving it a history has cloned it.
    }
  }
  return arguments;
}

std::string message_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return text.substr(0, text.find('\n'));
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

}  // namespace

std::optional<Tensors> Function::State::call_with_retrace_check(const VersionPtr& version,
                                                                const Tensors& inputs,
                                                                const ThreadGuard& now) {
  if (!version->holds(inputs, now)) {
    return std::nullopt;
  }
  if (!version->retraces->is_within_budget()) {
    const Stopwatch watch;
    std::optional<Tensors> outputs = version->run(inputs);
    version->retraces->note_call(watch.milliseconds());
    return outputs;
  }
  std::unique_lock lock(compile_lock_, std::try_to_lock);
  if (!lock) {
    return version->run(inputs);  // Another thread is tracing, perhaps this very version.
  }
  if (std::ranges::find(*versions_, version) == versions_->end()) {
    return std::nullopt;  // Another thread has replaced it.
  }
  const std::optional<std::string> change = find_change(*version, inputs);
  if (!change) {
    lock.unlock();
    return version->run(inputs);
  }
  context->note([&](CompileReport& report) {
    // A function that throws may be called, and throw, many times.
    if (options.on_change != OnChange::kThrow || report.changes.empty() ||
        report.changes.back() != *change) {
      report.changes.push_back(*change);
    }
  });
  for (const VersionPtr& other : *versions_) {
    if (other->retraces) {
      other->retraces->force_next();  // All versions trace the same program.
    }
  }
  if (options.on_change == OnChange::kThrow) {
    throw Error(ErrorCode::kInvalidArgument,
                "the program has changed since it was compiled: " + *change);
  }
  std::optional<Tensors> outputs;
  VersionPtr made;
  if (options.on_change == OnChange::kRecompile) {
    made = recompile(version, inputs, now, *change, outputs);
  } else {
    warn_of_change(*change);
    demote_to_eager(version, *change);
  }
  lock.unlock();
  if (outputs) {
    return outputs;
  }
  return made && made->function ? made->run(inputs) : function(inputs);
}

void Function::State::warn_of_change(const std::string& change) {
  const std::string text =
      "the program has changed since it was compiled and now runs eagerly: " + change +
      ". Set on_change = OnChange::kRecompile to recompile instead";
  if (has_warned_of_change_.exchange(true)) {
    KILN_LOG(kInfo, "kiln", text);
  } else {
    KILN_LOG(kWarning, "kiln", text);
  }
}

std::optional<std::string> Function::State::find_change(const Version& version,
                                                        const Tensors& inputs) {
  const std::optional<Tensors> arguments = make_retrace_arguments(version, inputs);
  if (!arguments) {
    version.retraces->note_trace(0);
    return std::nullopt;
  }
  const Stopwatch watch;
  std::optional<std::string> change;
  std::exception_ptr failure;
  try {
    change = version.program->change_in(trace_again(*arguments));
  } catch (...) {
    failure = std::current_exception();  // The call does not depend on it.
  }
  const double ms = watch.milliseconds();
  version.retraces->note_trace(ms);
  context->note([&](CompileReport& report) {
    ++report.retraces;
    report.retrace_ms += ms;
  });
  if (failure && !has_warned_of_failed_trace_.exchange(true)) {
    KILN_LOG(
        kWarning,
        "kiln",
        "the function cannot be traced again to check whether it has changed; keeping the compiled "
        "version: "
            << message_of(failure));
  }
  return change;
}

// Without computing values, unless the program reads some.
autograd_dispatch::JointTrace Function::State::trace_again(const Tensors& inputs) {
  autograd_dispatch::TraceOptions how = trace_options();
  how.graph_only = true;
  try {
    return autograd_dispatch::trace_joint(function, inputs, how);
  } catch (const std::exception& failure) {
    KILN_LOG(kDebug, "kiln", "traced again, with values: " << failure.what());
  }
  how.graph_only = false;
  how.without_values = false;
  return autograd_dispatch::trace_joint(function, inputs, how);
}

void Function::State::demote_to_eager(const VersionPtr& version, const std::string& change) {
  Version eager = *version;
  eager.function = std::nullopt;
  eager.set_captured({});
  eager.graph = nullptr;
  eager.program = nullptr;
  eager.retraces = nullptr;
  eager.origin = Origin::kEager;
  eager.reason = change;
  replace(version, std::move(eager));
}

Function::State::VersionPtr Function::State::recompile(const VersionPtr& version,
                                                       const Tensors& inputs,
                                                       const ThreadGuard& now,
                                                       const std::string& change,
                                                       std::optional<Tensors>& outputs) {
  if (!budget->take()) {
    if (options.error_at_max_versions) {
      throw budget->refusal(change);
    }
    budget->warn_of_eager_calls(change);
    demote_to_eager(version, change);
    return nullptr;
  }
  try {
    Version made(inputs, now, module.get());
    made.reason = change;
    budget->note_recompile(change);
    KILN_LOG(kInfo, "kiln", "recompiling, version " << budget->used() << ": " << change);
    outputs = fill(made, inputs, /*has_identity=*/false);
    made.visited = visits_of(made, inputs);
    VersionPtr replaced = replace(version, std::move(made));
    if (replaced->retraces) {
      static_cast<void>(replaced->retraces->count_call());
    }
    return replaced;
  } catch (...) {
    budget->give_back();
    throw;
  }
}

}  // namespace kiln
