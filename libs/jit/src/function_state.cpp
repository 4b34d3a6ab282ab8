#include "function_state.hpp"

#include <torch/csrc/autograd/forward_grad.h>
#include <torch/nn/module.h>

#include <algorithm>

#include "kiln/base/log.hpp"
#include "kiln/capture/record.hpp"
#include "meta_example.hpp"

namespace kiln {

Function::State::State(TensorFunction fn,
                       std::shared_ptr<torch::nn::Module> of,
                       CompileOptions given,
                       std::shared_ptr<detail::VersionBudget> counted_by,
                       std::string why,
                       std::size_t integers_at_end)
    : function(std::move(fn)),
      module(std::move(of)),
      budget(std::move(counted_by)),
      reason(std::move(why)),
      integers(integers_at_end),
      context(std::make_shared<CompileContext>(std::move(given))),
      history_(integers_at_end) {}

std::shared_ptr<const Function::State::Versions> Function::State::current_versions() const {
  const std::shared_lock lock(versions_lock_);
  return versions_;
}

Function::State::VersionPtr Function::State::find(const Tensors& inputs,
                                                  const ThreadGuard& now) const {
  const std::shared_ptr<const Versions> versions = current_versions();
  for (const VersionPtr& version : *versions) {
    if (version->holds(inputs, now)) {
      return version;
    }
  }
  return nullptr;
}

Function::State::Versions Function::State::in_other_sizes(const Tensors& inputs,
                                                          const ThreadGuard& now) const {
  Versions family;
  for (const VersionPtr& version : *versions_) {
    if (version->function && version->resembles_in_other_sizes(inputs, now)) {
      family.push_back(version);
    }
  }
  return family;
}

std::string Function::State::reason_for(const Tensors& inputs, const ThreadGuard& now) const {
  if (versions_->empty()) {
    return reason;
  }
  // The last version that differs only in sizes gives the most specific reason.
  const Versions family = in_other_sizes(inputs, now);
  const Version& last =
      *(family.empty() ? versions_ : std::make_shared<const Versions>(family))->back();
  return last.mismatch(inputs, now, names_for(last));
}

InputNames Function::State::names_for(const Version& version) const {
  return {.tensors = options.input_names, .first_integer = version.inputs.size() - integers};
}

Function::State::VersionPtr Function::State::obtain(const Tensors& inputs,
                                                    const ThreadGuard& now,
                                                    std::optional<Tensors>& outputs,
                                                    bool may_wait) {
  const std::lock_guard lock(compile_lock_);
  const bool has_new_integers = history_.add(inputs);
  VersionPtr version = find(inputs, now);
  if (!version) {
    version = widen(inputs, now);
  }
  if (!version && may_wait && has_new_integers && waits_for_more_integers(inputs, now)) {
    KILN_LOG(kDebug,
             "kiln",
             "the call runs eagerly: its integers have had too few values to let them vary");
    return nullptr;
  }
  return version ? version : compile(inputs, now, outputs);
}

bool Function::State::waits_for_more_integers(const Tensors& inputs, const ThreadGuard& now) const {
  if (known_integers() == nullptr || !options.automatic_dynamic || history_.can_any_vary()) {
    return false;
  }
  const Versions family = in_other_sizes(inputs, now);
  return !family.empty() && std::ranges::none_of(family, [&](const VersionPtr& version) {
    return has_integers_of(*version, inputs);
  });
}

bool Function::State::has_integers_of(const Version& version, const Tensors& inputs) const {
  for (std::size_t i = inputs.size() - integers; i < inputs.size(); ++i) {
    if (!version.inputs[i].holds(inputs[i])) {
      return false;
    }
  }
  return true;
}

Function::State::VersionPtr Function::State::widen(const Tensors& inputs, const ThreadGuard& now) {
  for (const VersionPtr& version : in_other_sizes(inputs, now)) {
    if (!version->sizes || !version->graph || !version->resembles_but_for_symbols(inputs, now)) {
      continue;
    }
    const std::optional<std::size_t> mismatch = version->sizes->first_mismatch(inputs);
    const bool is_inside = !mismatch;
    // For the next integer the function may do again what was compiled.
    const bool is_by_integer =
        mismatch && version->visited && *mismatch >= inputs.size() - integers;
    // Each call is compared once.
    const bool is_new =
        version->visited && version->visited->find(inputs) == VisitedSizes::Result::kUnknown;
    if ((is_inside || is_by_integer) ? !is_new : !version->may_grow) {
      continue;
    }
    const Stopwatch watch;
    FunctionSampler sampler(function,
                            inputs,
                            version->captured,
                            version->function->plan(),
                            trace_options(),
                            integers,
                            known_integers());
    Version wider = *version;
    ir::Graph graph = *version->graph;
    const bool is_same = sampler.widen(graph, inputs, &*wider.sizes);
    note_traces(sampler, watch);
    if (version->visited && (is_same || is_inside || is_by_integer)) {
      version->visited->add(inputs, is_same);
    }
    if (is_same && wider.holds(inputs, now)) {
      if (is_inside) {
        return version;
      }
      KILN_LOG(kInfo, "kiln", "extended the size range of a compiled version");
      wider.graph = std::make_shared<const ir::Graph>(std::move(graph));
      return replace(version, std::move(wider));
    }
    if (!is_inside && !is_by_integer && sampler.traces() > 0) {
      // Do not try again at every call.
      Version closed = *version;
      closed.may_grow = false;
      replace(version, std::move(closed));
    }
  }
  return nullptr;
}

Function::State::VersionPtr Function::State::compile(const Tensors& inputs,
                                                     const ThreadGuard& now,
                                                     std::optional<Tensors>& outputs) {
  if (!budget->take()) {
    if (options.error_at_max_versions) {
      throw budget->refusal(reason_for(inputs, now));
    }
    budget->warn_of_eager_calls(reason_for(inputs, now));
    return nullptr;
  }
  try {
    return make_version(inputs, now, outputs);
  } catch (...) {
    budget->give_back();
    throw;
  }
}

Function::State::VersionPtr Function::State::make_version(const Tensors& inputs,
                                                          const ThreadGuard& now,
                                                          std::optional<Tensors>& outputs) {
  Version made(inputs, now, module.get());
  made.reason = reason_for(inputs, now);
  if (!made.reason.empty()) {
    budget->note_recompile(made.reason);
    KILN_LOG(kInfo, "kiln", "recompiling, version " << budget->used() << ": " << made.reason);
  }
  outputs = fill(made, inputs);
  made.visited = visits_of(made, inputs);
  auto version = std::make_shared<const Version>(std::move(made));
  auto all = std::make_shared<Versions>(*versions_);
  all->push_back(version);
  {
    const std::unique_lock lock(versions_lock_);
    versions_ = std::move(all);
  }
  context->note([&](CompileReport& report) {
    ++report.versions;
    report.details.push_back(version->describe(names_for(*version)));
  });
  return version;
}

Function::State::VersionPtr Function::State::replace(const VersionPtr& old, Version made) {
  auto version = std::make_shared<const Version>(std::move(made));
  auto all = std::make_shared<Versions>(*versions_);
  const auto place = std::ranges::find(*all, old);
  *place = version;
  context->note([&](CompileReport& report) {
    report.details[static_cast<std::size_t>(place - all->begin())] =
        version->describe(names_for(*version));
  });
  const std::unique_lock lock(versions_lock_);
  versions_ = std::move(all);
  return version;
}

void Function::State::note_traces(const FunctionSampler& sampler, const Stopwatch& watch) const {
  context->note([&](CompileReport& report) {
    report.traces += sampler.traces();
    report.trace_ms += watch.milliseconds();
  });
}

Tensors Function::State::call(const Tensors& inputs) {
  // Forward-mode AD runs eagerly.
  if (capture::is_recording() || torch::autograd::ForwardADLevel::try_get_by_idx(0)) {
    return function(inputs);
  }
  const ThreadGuard now = ThreadGuard::now();
  // Another thread may replace the list meanwhile.
  const std::shared_ptr<const Versions> versions = current_versions();
  for (const VersionPtr& version : *versions) {
    if (!version->resembles(inputs, now)) {
      continue;
    }
    if (!version->function) {
      return function(inputs);
    }
    const bool is_due = version->retraces && version->retraces->count_call();
    if (std::optional<Tensors> outputs =
            is_due ? call_with_retrace_check(version, inputs, now) : version->run(inputs)) {
      return std::move(*outputs);
    }
  }
  std::optional<Tensors> outputs;
  const VersionPtr version = obtain(inputs, now, outputs, /*may_wait=*/true);
  if (version && version->retraces) {
    static_cast<void>(version->retraces->count_call());  // The call that it was just made for.
  }
  if (outputs) {
    return std::move(*outputs);
  }
  if (!version || !version->function) {
    return function(inputs);
  }
  // It may refuse the call that it was made for, such as two views that share memory but seemed
  // unrelated in the trace.
  std::optional<Tensors> computed = version->call(inputs, now);
  return computed ? *std::move(computed) : function(inputs);
}

void Function::State::prepare(const Tensors& example) {
  at::Device device = at::kCPU;
  if (module && !module->parameters().empty()) {
    device = module->parameters()[0].device();
  }
  std::optional<Tensors> outputs;
  obtain(with_memory(example, device), ThreadGuard::now(), outputs, /*may_wait=*/false);
}

}  // namespace kiln
