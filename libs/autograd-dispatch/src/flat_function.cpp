#include "kiln/autograd_dispatch/flat_function.hpp"

#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "kiln/autograd_dispatch/typed_call.hpp"
#include "kiln/base/error.hpp"
#include "kiln/capture/record.hpp"

namespace kiln::autograd_dispatch {
namespace {

at::Device device_of(const Tensors& tensors) {
  // A graph is for one device.
  const auto first = std::ranges::find_if(tensors, [](const at::Tensor& t) { return t.defined(); });
  return first == tensors.end() || first->is_meta() ? at::Device(at::kCPU) : first->device();
}

// Has no elements, so that it needs no memory however large the integer is. Made without the
// dispatcher, so that a call within another trace does not record it.
at::Tensor stand_in_for(std::int64_t integer, const at::Device& device) {
  const std::array<std::int64_t, 2> sizes = {0, integer};
  if (device.is_cpu()) {
    return at::detail::empty_cpu(sizes, at::kLong, false, std::nullopt);
  }
  const capture::PauseRecording unrecorded;
  return at::empty(sizes, at::dtype(at::kLong).device(device));
}

// An integer result is returned as a size, plus this offset: it may be negative at sizes that were
// not traced (`x.size(0) - y.size(0)`).
constexpr std::int64_t kResultOffset = std::int64_t{1} << 48;

// The inverse of `with_integers`: the last `count` tensors stand for integers, to which `offset`
// was added.
Flat split(const Tensors& tensors,
           const Structure& structure,
           std::size_t count,
           std::int64_t offset = 0) {
  Flat flat{{tensors.begin(), tensors.end() - static_cast<std::ptrdiff_t>(count)}, structure};
  for (std::size_t i = tensors.size() - count; i < tensors.size(); ++i) {
    flat.integers.push_back(tensors[i].size(-1) - offset);
  }
  return flat;
}

}  // namespace

Tensors with_integers(const Flat& arguments) {
  Tensors all = arguments.tensors;
  const at::Device device = device_of(all);
  for (const std::int64_t integer : arguments.integers) {
    all.push_back(stand_in_for(integer, device));
  }
  return all;
}

// A compiled function returns only tensors, and the structure of the result may depend on what it
// was compiled for (shapes, grad mode). If it does not follow from the type, the function returns
// one more tensor, captured and empty, that identifies the structure. Before it come tensors for
// the integers of the result; they are computed, so that their sizes follow from those of the call.
struct FlatFunction::State {
  struct Marked {
    at::Tensor marker;
    Structure structure;
    std::size_t integers;
  };

  State(std::shared_ptr<void> function_given, FunctionCompiler compiler_given, bool apart)
      : function(std::move(function_given)),
        compiler(std::move(compiler_given)),
        integers_vary(apart) {}

  std::shared_ptr<void> function;
  FunctionCompiler compiler;
  bool integers_vary;
  std::mutex lock;  // For the two lists; not held while anything runs.
  std::vector<std::shared_ptr<const Version>> versions;
  std::vector<Marked> results;

  at::Tensor marker_of(const Structure& structure, std::size_t integers) {
    const std::lock_guard guard(lock);
    for (const Marked& known : results) {
      if (known.structure == structure) {
        return known.marker;
      }
    }
    const capture::PauseRecording unrecorded;
    const c10::InferenceMode ordinary(false);
    results.push_back({at::empty({0}), structure, integers});
    return results.back().marker;
  }

  Marked marked_by(const at::Tensor& marker) {
    const std::lock_guard guard(lock);
    for (const Marked& known : results) {
      if (known.marker.is_same(marker)) {
        return known;
      }
    }
    throw Error(ErrorCode::kInternal, "a compiled function did not return its structure's marker");
  }

  // This object owns the compiled function, which must therefore not own it.
  TensorFunction on_tensors(const Program& program, const Structure& arguments, std::size_t apart) {
    return [this, &program, arguments, apart](const Tensors& tensors) {
      Flat outputs = program.run(function.get(), split(tensors, arguments, apart), integers_vary);
      if (program.result == nullptr) {
        const auto options =
            at::TensorOptions().dtype(at::kLong).device(device_of(outputs.tensors));
        for (const std::int64_t integer : outputs.integers) {
          outputs.tensors.push_back(at::zeros({0, integer + kResultOffset}, options));
        }
        outputs.tensors.push_back(marker_of(outputs.structure, outputs.integers.size()));
      }
      return std::move(outputs.tensors);
    };
  }

  std::shared_ptr<const Version> version_for(const Program& program, const Flat& arguments) {
    const std::lock_guard guard(lock);
    for (const auto& known : versions) {
      if (known->program == &program && known->specialization.arguments == arguments.structure) {
        return known;
      }
    }
    Specialization specialization{.types = program.types,
                                  .arguments = arguments.structure,
                                  .result_is_static = program.result != nullptr,
                                  .integers = arguments.integers.size()};
    const TensorFunction plain =
        on_tensors(program, arguments.structure, arguments.integers.size());
    TensorFunction compiled = compiler(plain, specialization);
    if (!compiled) {
      return std::make_shared<const Version>(Version{&program, std::move(specialization), plain});
    }
    versions.push_back(std::make_shared<const Version>(
        Version{&program, std::move(specialization), std::move(compiled)}));
    return versions.back();
  }
};

FlatFunction::FlatFunction(std::shared_ptr<void> function,
                           FunctionCompiler compiler,
                           bool integers_vary)
    : state_(std::make_shared<State>(std::move(function), std::move(compiler), integers_vary)),
      integers_vary_(integers_vary) {}

Flat FlatFunction::operator()(const Program& program, const Flat& arguments) const {
  Flat results;
  const std::shared_ptr<const Version> version = state_->version_for(program, arguments);
  results.tensors = arguments.integers.empty() ? version->compiled(arguments.tensors)
                                               : version->compiled(with_integers(arguments));
  if (program.result != nullptr) {
    results.structure = *program.result;
  } else {
    State::Marked marked = state_->marked_by(results.tensors.back());
    results.tensors.pop_back();
    results = split(results.tensors, marked.structure, marked.integers, kResultOffset);
  }
  return results;
}

std::shared_ptr<const FlatFunction::Version> FlatFunction::version_for(
    const Program& program, const Flat& arguments) const {
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
