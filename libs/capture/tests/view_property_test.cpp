// Whatever a program does to views of its arguments, its functional graph computes the same.

#include <cstdlib>
#include <map>
#include <optional>

#include "kiln/base/error.hpp"
#include "kiln/capture/record.hpp"
#include "kiln/capture/replay.hpp"
#include "kiln/ir/common_subexpressions.hpp"
#include "kiln/ir/dead_code.hpp"
#include "kiln/ir/functionalize.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/ir/topological_order.hpp"
#include "kiln/ir/verify.hpp"
#include "kiln/testing/catch2.hpp"
#include "view_program.hpp"

namespace kiln::capture {
namespace {

using torch::Tensor;

/// What a program came to.
struct Outcome {
  std::string difference;  // Empty: none.
  std::string refusal;     // What functionalization cannot do, empty: nothing.
  std::string graphs;      // As far as they could be made.
};

bool same(const Tensor& a, const Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) {
    return false;
  }
  const Tensor left = a.resolve_conj().resolve_neg();
  const Tensor right = b.resolve_conj().resolve_neg();
  return torch::isclose(left, right, 0, 0, /*equal_nan=*/true).all().item<bool>();
}

/// Gaps between elements are the memory's, which a functional graph does not have.
bool same_strides(const Tensor& a, const Tensor& b) {
  if (!a.is_non_overlapping_and_dense() || a.numel() == 0) {
    return true;
  }
  for (std::int64_t d = 0; d < a.dim(); ++d) {
    if (a.size(d) > 1 && a.stride(d) != b.stride(d)) {
      return false;
    }
  }
  return true;
}

Tensors aliases(const Tensors& tensors) {
  Tensors result;
  for (const Tensor& tensor : tensors) {
    result.push_back(tensor.alias());
  }
  return result;
}

std::string shown(const std::string& what, std::size_t i, const Tensor& a, const Tensor& b) {
  std::ostringstream text;
  text << what << " " << i << ": expected\n" << a << "\ngot\n" << b << "\n";
  return text.str();
}

std::string first_difference(const std::string& what, const Tensors& expected, const Tensors& got) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!same(expected[i], got[i])) {
      return shown(what, i, expected[i], got[i]);
    }
  }
  return {};
}

/// What eager makes of a program.
struct Expected {
  Tensors outputs, arguments, arguments_before;
};

/// Runs a functional graph and writes what it says was mutated.
std::string check_functional(const Program& program, ir::Graph graph, const Expected& expected) {
  Tensors arguments = make_arguments(program);
  const Interpreter interpreter(std::move(graph), {.check_metadata = true});
  const Tensors results = interpreter.run(arguments);
  if (std::string wrong =
          first_difference("an argument was written:", expected.arguments_before, arguments);
      !wrong.empty()) {
    return wrong;
  }
  Tensors outputs;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (interpreter.graph().outputs()[i].kind == ir::OutputKind::kUser) {
      // A view of an argument is to be seen as it was before the arguments are written.
      outputs.push_back(results[i].clone());
      if (!same_strides(expected.outputs[outputs.size() - 1], results[i])) {
        return "output " + std::to_string(outputs.size() - 1) + " has other strides";
      }
    }
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    const ir::Output& output = interpreter.graph().outputs()[i];
    if (output.kind == ir::OutputKind::kMutation) {
      arguments[output.input].copy_(results[i].clone());
    }
  }
  const std::string wrong = first_difference("argument", expected.arguments, arguments);
  return wrong.empty() ? first_difference("output", expected.outputs, outputs) : wrong;
}

Expected run_eagerly(const Program& program) {
  Expected expected;
  expected.arguments_before = make_arguments(program);
  const Tensors arguments = make_arguments(program);
  expected.arguments = aliases(arguments);  // The program may change how an argument is seen.
  expected.outputs = run(program, arguments);
  return expected;
}

Outcome outcome_of(const Program& program) {
  Outcome outcome;
  try {
    const Expected expected = run_eagerly(program);
    const TensorFunction function = [&](const Tensors& in) { return run(program, in); };
    const Recording recording = record(function, make_arguments(program));
    outcome.graphs = ir::print(recording.graph);
    ir::verify(recording.graph);

    Tensors arguments = make_arguments(program);
    const Tensors seen = aliases(arguments);
    Tensors inputs = arguments;
    inputs.insert(inputs.end(), recording.captured.begin(), recording.captured.end());
    const Tensors outputs = Interpreter(recording.graph).run(inputs);
    outcome.difference = first_difference("replayed output", expected.outputs, outputs) +
                         first_difference("replayed argument", expected.arguments, seen);
    if (!outcome.difference.empty() || !recording.captured.empty()) {
      outcome.difference += recording.captured.empty() ? "" : "a tensor was captured";
      return outcome;
    }

    const ir::Graph functional = ir::functionalize(recording.graph);
    outcome.graphs += ir::print(functional);
    ir::verify_functional(functional);
    outcome.difference = check_functional(program, ir::parse(ir::print(functional)), expected);
    if (outcome.difference.empty()) {
      const ir::Graph smaller =
          ir::sort_topologically(ir::remove_dead_code(ir::merge_common_subexpressions(functional)));
      outcome.difference = check_functional(program, smaller, expected);
    }
  } catch (const Error& error) {
    (error.code() == ErrorCode::kUnsupported ? outcome.refusal : outcome.difference) = error.what();
  } catch (const c10::Error& error) {
    outcome.difference = error.what_without_backtrace();
  }
  return outcome;
}

/// The smallest program found that still fails: steps are taken out, and numbers made zero, while
/// it does.
Program shrunk(Program program) {
  const auto fails = [](const Program& candidate) {
    try {
      (void)run(candidate, make_arguments(candidate));
    } catch (const std::exception&) {
      return false;
    }
    return !outcome_of(candidate).difference.empty();
  };
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (std::size_t i = program.steps.size(); i-- > 0;) {
      Program candidate = program;
      candidate.steps.erase(candidate.steps.begin() + static_cast<std::ptrdiff_t>(i));
      if (fails(candidate)) {
        program = candidate;
        smaller = true;
      }
    }
  }
  for (Step& step : program.steps) {
    for (unsigned& number : step.numbers) {
      const unsigned before = number;
      number = 0;
      if (before != 0 && !fails(program)) {
        number = before;
      }
    }
  }
  return program;
}

unsigned program_count() {
  const char* asked = std::getenv("KILN_PROPERTY_PROGRAMS");
  return asked == nullptr ? 500 : static_cast<unsigned>(std::atoi(asked));
}

TEST_CASE("a random program of views and mutations is what its functional graph computes",
          "[capture][functionalize]") {
  unsigned failures = 0;
  std::map<std::string, unsigned> refusals;
  for (unsigned seed = 0; seed < program_count() && failures < 3; ++seed) {
    const Program program = random_program(seed, 4 + seed % 24);
    const Outcome outcome = outcome_of(program);
    if (!outcome.refusal.empty()) {
      ++refusals[outcome.refusal];
    }
    if (!outcome.difference.empty()) {
      const Program least = shrunk(program);
      const Outcome smallest = outcome_of(least);
      FAIL_CHECK("seed " << seed << "\n"
                         << describe(least) << smallest.graphs << smallest.difference);
      ++failures;
    }
  }
  unsigned refused = 0;
  for (const auto& [reason, count] : refusals) {
    UNSCOPED_INFO(count << " programs refused: " << reason);
    refused += count;
  }
  CHECK(refused * 20 < program_count());
}

}  // namespace
}  // namespace kiln::capture
