// Random programs, four ways: eager, the interpreter, the interpreter after passes in other orders,
// and generated code.
//
// Several programs make one library. One that fails is cut down until nothing more can be left out,
// and printed as a graph. KILN_FUZZ_GRAPHS=N runs N of them, KILN_FUZZ_FIRST=S begins at seed S.

#include <torch/torch.h>

#include <cstdlib>
#include <functional>
#include <span>

#include "compare.hpp"
#include "compiled.hpp"
#include "kiln/capture/replay.hpp"
#include "kiln/ir/common_subexpressions.hpp"
#include "kiln/ir/dead_code.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/ir/propagate_constants.hpp"
#include "kiln/ir/topological_order.hpp"
#include "kiln/ir/verify.hpp"
#include "kiln/testing/catch2.hpp"
#include "random_program.hpp"
#include "tested_device.hpp"

namespace kiln::differential {
namespace {

using Programs = std::span<const RandomProgram>;

Tensors inputs_of(Programs programs) {
  Tensors inputs;
  for (const RandomProgram& program : programs) {
    const Tensors own = copies(program.inputs, tested_device());
    inputs.insert(inputs.end(), own.begin(), own.end());
  }
  return inputs;
}

// What each program returns, and then what its inputs have become, one program after the other.
Tensors run_together(Programs programs, const Tensors& inputs) {
  Tensors outputs;
  auto next = inputs.begin();
  for (const RandomProgram& program : programs) {
    const auto end = next + static_cast<std::ptrdiff_t>(program.inputs.size());
    const Tensors own = program(Tensors(next, end));
    outputs.insert(outputs.end(), own.begin(), own.end());
    next = end;
  }
  return outputs;
}

ir::Graph graph_of(Programs programs) {
  return traced([&](const Tensors& inputs) { return run_together(programs, inputs); },
                inputs_of(programs));
}

// The outputs, and then the inputs as they are now.
Tensors with_inputs(Tensors outputs, const Tensors& inputs) {
  outputs.insert(outputs.end(), inputs.begin(), inputs.end());
  return outputs;
}

Tensors run_eager(Programs programs) {
  const Tensors inputs = inputs_of(programs);
  return with_inputs(run_together(programs, inputs), inputs);
}

Tensors run_interpreted(const ir::Graph& graph, Programs programs) {
  Tensors inputs = inputs_of(programs);
  const Tensors results = capture::Interpreter(graph).run(inputs);
  Tensors outputs;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (graph.outputs()[i].kind == ir::OutputKind::kMutation) {
      inputs[graph.outputs()[i].input] = results[i];
    } else {
      outputs.push_back(results[i]);
    }
  }
  return with_inputs(outputs, inputs);
}

ir::Graph shortened(const ir::Graph& graph) {
  return ir::remove_dead_code(ir::merge_common_subexpressions(graph));
}

ir::Graph reordered(const ir::Graph& graph) {
  return ir::merge_common_subexpressions(
      ir::propagate_constants(ir::sort_topologically(ir::remove_dead_code(graph))));
}

// A way to run programs; each must agree with eager.
struct Way {
  const char* name;
  std::function<Tensors(const ir::Graph&, Programs)> run;
};

const std::vector<Way>& ways() {
  static const std::vector<Way> kWays = {
      {"interpreted", run_interpreted},
      {"interpreted after merging and removal",
       [](const ir::Graph& graph, Programs programs) {
         return run_interpreted(shortened(graph), programs);
       }},
      {"interpreted after removal, sorting, constants and merging",
       [](const ir::Graph& graph, Programs programs) {
         return run_interpreted(reordered(graph), programs);
       }},
      {"compiled",
       [](const ir::Graph& graph, Programs programs) {
         const Tensors inputs = inputs_of(programs);
         return with_inputs(run_compiled(graph, inputs), inputs);
       }},
      {"compiled after removal, sorting, constants and merging",
       [](const ir::Graph& graph, Programs programs) {
         const Tensors inputs = inputs_of(programs);
         return with_inputs(run_compiled(reordered(graph), inputs), inputs);
       }},
  };
  return kWays;
}

Closeness closeness_of(const RandomProgram& program) {
  return program.narrow ? Closeness::kNarrowChain : Closeness::kChain;
}

// What goes wrong with one program, in one way or in any.
std::optional<std::string> failure(const RandomProgram& program, const Way* only) {
  const Programs programs(&program, 1);
  const Tensors expected = run_eager(programs);
  const ir::Graph graph = graph_of(programs);
  for (const Way& way : ways()) {
    if (only != nullptr && only->name != way.name) {
      continue;
    }
    try {
      const Tensors found = way.run(graph, programs);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        if (const auto what = difference(expected[i], found.at(i), closeness_of(program))) {
          return std::string(way.name) + ": output " + std::to_string(i) + ": " + *what;
        }
      }
    } catch (const std::exception& error) {
      return std::string(way.name) + ": " + error.what();
    }
  }
  return std::nullopt;
}

// The smallest program found that still fails in that way.
std::string shrunk(RandomProgram program, const Way* way) {
  std::string reason = failure(program, way).value_or("it only fails among others");
  for (bool progress = true; progress;) {
    progress = false;
    for (const RandomProgram& candidate : smaller(program)) {
      try {
        if (const auto what = failure(candidate, way)) {
          program = candidate;
          reason = *what;
          progress = true;
          break;
        }
      } catch (const std::exception&) {
        // It does not run in eager either.
      }
    }
  }
  return "seed " + std::to_string(program.seed) + "\n" + reason + "\n" +
         ir::print(graph_of(Programs(&program, 1)));
}

void check_batch(Programs programs, const Way& way, std::vector<std::string>& failures) {
  std::vector<const RandomProgram*> suspects;
  try {
    const Tensors expected = run_eager(programs);
    const Tensors found = way.run(graph_of(programs), programs);
    REQUIRE(found.size() == expected.size());
    std::size_t output = 0;
    std::size_t input = 0;
    for (const RandomProgram& program : programs) {
      input += program.outputs.size();
    }
    for (const RandomProgram& program : programs) {
      bool wrong = false;
      const auto compare = [&](std::size_t i) {
        wrong = wrong || difference(expected[i], found[i], closeness_of(program)).has_value();
      };
      for (std::size_t i = 0; i < program.outputs.size(); ++i) {
        compare(output++);
      }
      for (std::size_t i = 0; i < program.inputs.size(); ++i) {
        compare(input++);
      }
      if (wrong) {
        suspects.push_back(&program);
      }
    }
  } catch (const std::exception& error) {
    // Somebody in it fails as a whole.
    for (const RandomProgram& program : programs) {
      if (failure(program, &way)) {
        suspects.push_back(&program);
      }
    }
    if (suspects.empty()) {
      failures.push_back(std::string(way.name) + ", only together: " + error.what());
    }
  }
  for (const RandomProgram* suspect :
       std::span(suspects).first(std::min<std::size_t>(3, suspects.size()))) {
    failures.push_back(shrunk(*suspect, &way));
  }
}

std::size_t setting(const char* name, std::size_t absent) {
  const char* text = std::getenv(name);
  return text != nullptr ? static_cast<std::size_t>(std::atoll(text)) : absent;
}

TEST_CASE("random programs compute what eager does, however they are run", "[differential][fuzz]") {
  constexpr std::size_t kBatch = 25;
  const std::size_t first = setting("KILN_FUZZ_FIRST", 1);
  const std::size_t count = setting("KILN_FUZZ_GRAPHS", 200);
  std::vector<std::string> failures;

  // A few failures say enough, and cutting them down takes a compile each time.
  for (std::size_t begin = 0; begin < count && failures.size() < 3; begin += kBatch) {
    std::vector<RandomProgram> programs;
    for (std::size_t i = begin; i < std::min(begin + kBatch, count); ++i) {
      programs.push_back(random_program(first + i));
    }
    for (std::size_t way = 0; way < ways().size(); ++way) {
      // Compilers take long: each batch is compiled once, before or after the passes.
      const bool compiled = way >= 3;
      if (!compiled || way == 3 + begin / kBatch % 2) {
        check_batch(programs, ways()[way], failures);
      }
    }
  }

  for (const std::string& text : failures) {
    UNSCOPED_INFO(text);
  }
  CHECK(failures.size() == 0);
}

}  // namespace
}  // namespace kiln::differential
