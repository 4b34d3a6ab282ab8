#include "kiln/autograd_dispatch/flat_function.hpp"

#include <ATen/Functions.h>
#include <c10/core/InferenceMode.h>

#include <mutex>

#include "kiln/autograd_dispatch/typed_call.hpp"
#include "kiln/base/error.hpp"
#include "kiln/capture/record.hpp"

namespace kiln::autograd_dispatch {

// A compiled function returns tensors only, and which structure they have may depend on what it was
// compiled for (shapes, grad mode). Where the type does not say it, it returns one tensor more,
// captured and empty, that stands for the structure.
struct FlatFunction::State {
  struct Marked {
    at::Tensor marker;
    Structure structure;
  };

  State(std::shared_ptr<void> function_given, FunctionCompiler compiler_given)
      : function(std::move(function_given)), compiler(std::move(compiler_given)) {}

  std::shared_ptr<void> function;
  FunctionCompiler compiler;
  std::mutex lock;  // For the two lists; not held while anything runs.
  std::vector<std::shared_ptr<const Version>> versions;
  std::vector<Marked> results;

  at::Tensor marker_of(const Structure& structure) {
    const std::lock_guard guard(lock);
    for (const Marked& known : results) {
      if (known.structure == structure) {
        return known.marker;
      }
    }
    const capture::PauseRecording unrecorded;
    const c10::InferenceMode ordinary(false);
    results.push_back({at::empty({0}), structure});
    return results.back().marker;
  }

  Structure marked_by(const at::Tensor& marker) {
    const std::lock_guard guard(lock);
    for (const Marked& known : results) {
      if (known.marker.is_same(marker)) {
        return known.structure;
      }
    }
    throw Error(ErrorCode::kInternal, "a compiled function did not return its structure's marker");
  }

  // The compiled function belongs to this: it must not own it.
  TensorFunction on_tensors(const Program& program, const Structure& arguments) {
    return [this, &program, arguments](const Tensors& tensors) {
      Flat outputs = program.run(function.get(), {tensors, arguments});
      if (program.result == nullptr) {
        outputs.tensors.push_back(marker_of(outputs.structure));
      }
      return std::move(outputs.tensors);
    };
  }

  std::shared_ptr<const Version> version_for(const Program& program, const Structure& arguments) {
    const std::lock_guard guard(lock);
    for (const auto& known : versions) {
      if (known->program == &program && known->specialization.arguments == arguments) {
        return known;
      }
    }
    Specialization specialization{.types = program.types,
                                  .arguments = arguments,
                                  .result_is_static = program.result != nullptr};
    TensorFunction compiled = compiler(on_tensors(program, arguments), specialization);
    if (!compiled) {
      return std::make_shared<const Version>(
          Version{&program, std::move(specialization), on_tensors(program, arguments)});
    }
    versions.push_back(std::make_shared<const Version>(
        Version{&program, std::move(specialization), std::move(compiled)}));
    return versions.back();
  }
};

FlatFunction::FlatFunction(std::shared_ptr<void> function, FunctionCompiler compiler)
    : state_(std::make_shared<State>(std::move(function), std::move(compiler))) {}

Flat FlatFunction::operator()(const Program& program, const Flat& arguments) const {
  Flat results;
  results.tensors = state_->version_for(program, arguments.structure)->compiled(arguments.tensors);
  if (program.result != nullptr) {
    results.structure = *program.result;
  } else {
    results.structure = state_->marked_by(results.tensors.back());
    results.tensors.pop_back();
  }
  return results;
}

std::shared_ptr<const FlatFunction::Version> FlatFunction::version_for(
    const Program& program, const Structure& arguments) const {
  return state_->version_for(program, arguments);
}

std::vector<std::shared_ptr<const FlatFunction::Version>> FlatFunction::versions() const {
  const std::lock_guard guard(state_->lock);
  return state_->versions;
}

namespace detail {

void check_not_assigned(std::size_t parameter, const Flat& before, const Flat& after) {
  bool same = before.structure == after.structure;
  for (std::size_t i = 0; same && i < before.tensors.size(); ++i) {
    same = before.tensors[i].is_same(after.tensors[i]);
  }
  if (!same) {
    throw Error(ErrorCode::kUnsupported,
                "the function assigns to parameter " + std::to_string(parameter) +
                    ", which it takes by reference, and compiled code cannot assign to the "
                    "caller's variable: return the new value instead, or write into the tensor "
                    "(x.copy_(y) for x = y)");
  }
}

}  // namespace detail
}  // namespace kiln::autograd_dispatch
