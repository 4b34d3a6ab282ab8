#include "kiln/autograd_dispatch/typed_function.hpp"

#include <ATen/Functions.h>
#include <c10/core/InferenceMode.h>

#include <mutex>

#include "kiln/base/error.hpp"
#include "kiln/capture/record.hpp"

namespace kiln::autograd_dispatch {

// A compiled function returns tensors only, and which structure they have may depend on what it was
// compiled for (shapes, grad mode). So it returns one tensor more, captured and empty, that stands
// for the structure.
struct FlatFunction::State {
  struct Version {
    Structure arguments;
    TensorFunction compiled;
  };
  struct Marked {
    at::Tensor marker;
    Structure structure;
  };

  State(Program program_given, FunctionCompiler compiler_given)
      : program(std::move(program_given)), compiler(std::move(compiler_given)) {}

  Program program;
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

  std::shared_ptr<const Version> version_for(const Structure& arguments) {
    const std::lock_guard guard(lock);
    for (const auto& known : versions) {
      if (known->arguments == arguments) {
        return known;
      }
    }
    // The compiled function belongs to this: it must not own it.
    TensorFunction dense = [this, arguments](const Tensors& tensors) {
      Flat outputs = program({tensors, arguments});
      outputs.tensors.push_back(marker_of(outputs.structure));
      return std::move(outputs.tensors);
    };
    versions.push_back(
        std::make_shared<const Version>(Version{arguments, compiler(std::move(dense))}));
    return versions.back();
  }
};

FlatFunction::FlatFunction(Program program, FunctionCompiler compiler)
    : state_(std::make_shared<State>(std::move(program), std::move(compiler))) {}

Flat FlatFunction::operator()(const Flat& arguments) const {
  Flat results;
  results.tensors = state_->version_for(arguments.structure)->compiled(arguments.tensors);
  results.structure = state_->marked_by(results.tensors.back());
  results.tensors.pop_back();
  return results;
}

}  // namespace kiln::autograd_dispatch
