// A function compiled for one situation.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "guards.hpp"
#include "input_names.hpp"
#include "kiln/autograd_dispatch/dispatch.hpp"
#include "kiln/jit/function.hpp"
#include "kiln/jit/options.hpp"
#include "module_state.hpp"
#include "retrace_schedule.hpp"
#include "symbolic_sizes.hpp"
#include "traced_program.hpp"
#include "visited_sizes.hpp"

namespace kiln {

struct Version {
  /// For calls like this one; `module` may be null.
  Version(const Tensors& arguments, const ThreadGuard& now, const torch::nn::Module* of);

  /// Adds the tensors that the function uses and that are not arguments.
  void set_captured(Tensors tensors);

  /// Whether a call is like the one that this was made for, but for how its tensors are related.
  [[nodiscard]] bool resembles(const Tensors& arguments, const ThreadGuard& now) const;
  /// Whether all of that holds but for sizes and strides of arguments of the same ranks.
  [[nodiscard]] bool resembles_in_other_sizes(const Tensors& arguments,
                                              const ThreadGuard& now) const;
  /// Whether that is so of the arguments that mention symbols alone, and the others are the same.
  [[nodiscard]] bool resembles_but_for_symbols(const Tensors& arguments,
                                               const ThreadGuard& now) const;
  /// Whether it is the one for a call.
  [[nodiscard]] bool holds(const Tensors& arguments, const ThreadGuard& now) const;

  /// Runs on arguments that it resembles, if it is for tensors that are related like these.
  [[nodiscard]] std::optional<Tensors> run(const Tensors& arguments) const;
  /// Runs if it is the one for this call.
  [[nodiscard]] std::optional<Tensors> call(const Tensors& arguments, const ThreadGuard& now) const;

  /// The first of its guards that a call does not pass, in words.
  [[nodiscard]] std::string mismatch(const Tensors& arguments,
                                     const ThreadGuard& now,
                                     const InputNames& names) const;

  /// What must hold, in words.
  [[nodiscard]] VersionReport describe(const InputNames& names) const;

  ThreadGuard thread;
  std::vector<TensorGuard> inputs, captured_guards;
  /// Of inputs that mention symbols, which `inputs` are then an example of.
  std::optional<SymbolicSizes> sizes;
  /// What was compiled for them; null if that is not known.
  std::shared_ptr<const ir::Graph> graph;
  /// Whether a trace beyond their ranges may show that it holds there too.
  bool may_grow = true;
  /// The calls for which a trace has shown that it is what the function does; null if it is for all
  /// sizes in their ranges.
  std::shared_ptr<VisitedSizes> visited;
  /// Sizes that do not vary though that was wanted, or vary less, and why.
  std::vector<std::string> remarks;
  const torch::nn::Module* module;
  std::optional<ModuleState> module_state;
  Tensors captured;
  Origin origin = Origin::kTraced;
  std::string reason;
  /// What was traced, at the sizes of `inputs`, and when that is to be compared with the program;
  /// null if it is not, or was not traced.
  std::shared_ptr<const TracedProgram> program;
  std::shared_ptr<RetraceSchedule> retraces;
  /// Nothing: it could not be compiled, and runs as it is.
  std::optional<autograd_dispatch::CompiledFunction> function;

 private:
  [[nodiscard]] bool resembles_but_for_inputs(const Tensors& arguments,
                                              const ThreadGuard& now) const;
  [[nodiscard]] bool is_symbolic(std::size_t input) const {
    return sizes && sizes->mentions(input);
  }
  [[nodiscard]] bool was_visited(const Tensors& arguments) const {
    return !visited || visited->find(arguments) == VisitedSizes::Result::kSame;
  }
  // The number that an input stands for.
  [[nodiscard]] std::string integer_text(std::size_t input) const;
  [[nodiscard]] Tensors with_captured(const Tensors& arguments) const;
};

}  // namespace kiln
