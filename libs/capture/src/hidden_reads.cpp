#include "hidden_reads.hpp"

#include <exception>
#include <optional>
#include <string>

#include "differences.hpp"
#include "kiln/base/error.hpp"
#include "kiln/capture/shadow_inputs.hpp"
#include "perturbation.hpp"

namespace kiln::capture {
namespace {

[[noreturn]] void report(const std::string& difference) {
  throw Error(
      ErrorCode::kUnsupported,
      "the program reads a tensor's value without going through the dispatcher (data_ptr, an "
      "accessor), as a second trace on perturbed data shows: " +
          difference);
}

std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

// Nothing if the program throws on the perturbed data.
std::optional<Recording> trace_on(Perturbation kind,
                                  const Recording& first,
                                  const Tensors& inputs,
                                  const std::function<Recording(const Tensors&)>& trace,
                                  std::string* reason) {
  Tensors others = make_shadow_inputs(inputs);
  perturb(others, kind);
  const ScopedPerturbation other_weights(first.captured, kind);
  try {
    return trace(others);
  } catch (const Error& error) {
    // The tracer refuses operators, not data: another path was taken.
    report(first_line(error));
  } catch (const std::exception& error) {
    *reason = first_line(error);
    return std::nullopt;
  }
}

}  // namespace

void refuse_hidden_reads(const Recording& first,
                         const Tensors& inputs,
                         const std::function<Recording(const Tensors&)>& trace) {
  std::string reason;
  for (const Perturbation kind :
       {Perturbation::kEverything, Perturbation::kFloatingPoint, Perturbation::kSmallerNumbers}) {
    if (const auto second = trace_on(kind, first, inputs, trace, &reason)) {
      if (const auto difference = first_difference(first, *second)) {
        report(*difference);
      }
      return;
    }
  }
  throw Error(
      ErrorCode::kUnsupported,
      "cannot check for hidden value reads: the program throws on any perturbed data: " + reason);
}

}  // namespace kiln::capture
