#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <string>
#include <utility>

#include "archived_program.hpp"
#include "integer_inputs.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/log.hpp"
#include "kiln/capture/record.hpp"
#include "kiln/export/archive.hpp"
#include "kiln/export/dynamic_trace.hpp"
#include "kiln/ir/retarget.hpp"
#include "kiln/ir/symbol_sources.hpp"
#include "specialisations.hpp"

namespace kiln::exporter {
namespace {

// Only the graph is wanted, so that nothing is computed for it. A program that looks at its data
// (it asserts something of them) is run as it is: it may still be a good one, and if not, what it
// throws is its own.
capture::Recording record_graph(const ArchivedProgram& archived, const Tensors& user_inputs) {
  // The archive is an inference program: nothing is to be saved for a backward.
  const c10::AutoGradMode no_grad(false);
  const auto run = [&](const Tensors& inputs) { return archived.run(inputs); };
  try {
    return capture::record(run, user_inputs, {.without_values = true, .allow_uninitialized = true});
  } catch (const std::exception& failure) {
    KILN_LOG(kDebug, "export", "traced again, with values: " << failure.what());
  }
  return capture::record(run, user_inputs, {.allow_uninitialized = true});
}

ExportedProgram trace_archive(const ArchivedProgram& archived, const Tensors& user_inputs) {
  Trace trace;
  trace.recording = record_graph(archived, user_inputs);
  trace.owned = archived.owned;
  trace.input_names = archived.input_names;
  return assemble(std::move(trace), user_inputs);
}

// What cannot be checked in a call is kept by sizes that do not vary.
std::vector<std::string> fix_unread(const std::vector<UnreadGuard>& unread, ir::Ranges* symbols) {
  std::vector<std::string> remarks;
  for (const UnreadGuard& guard : unread) {
    std::vector<std::string> fixed = guard.symbols;
    if (!guard.is_complete) {
      fixed.clear();
      for (const auto& [name, range] : *symbols) {
        fixed.push_back(name);
      }
    }
    for (const std::string& name : fixed) {
      if (symbols->erase(name) != 0) {
        remarks.push_back("'" + name + "' does not vary: the archive's guard \"" + guard.text +
                          "\" cannot be checked in a call");
      }
    }
  }
  return remarks;
}

// Integers that cannot vary as sizes do keep their sample values.
std::vector<std::string> fix_integers(const std::vector<SymbolicInteger>& integers,
                                      ir::Ranges* symbols) {
  std::vector<std::string> remarks;
  for (const SymbolicInteger& integer : integers) {
    for (const std::string& name : integer.expr.symbols()) {
      if (!integer.is_length && symbols->erase(name) != 0) {
        remarks.push_back("'" + name + "' does not vary: it is " + std::to_string(integer.value) +
                          " in the sample inputs, and integers vary that are 0 … 4194304 there");
      }
    }
  }
  return remarks;
}

// The graph for all sizes that the archive allows, where there is one. Returns what is in the way
// of those where there is none.
std::vector<std::string> let_sizes_vary(const ArchivedProgram& archived, ExportedProgram* program) {
  DynamicShapes shapes{.symbols = archived.symbols,
                       .input_sizes = archived.input_sizes,
                       .known = archived.expressions,
                       .known_reals = archived.real_expressions,
                       .guards = archived.guards.guards};
  std::vector<std::string> remarks = fix_integers(archived.input_integers, &shapes.symbols);
  for (std::string& remark : fix_unread(archived.guards.unread, &shapes.symbols)) {
    remarks.push_back(std::move(remark));
  }
  if (!archived.unread_result.empty()) {
    return {"sizes do not vary: the program returns the integer " + archived.unread_result};
  }
  DynamicTrace dynamic = trace_dynamic(
      [&](const Tensors& inputs) {
        ++program->traces;
        return trace_archive(archived, inputs);
      },
      [&](const Tensors& inputs) { return archived.run(inputs); },
      *program,
      archived.sample_inputs,
      shapes);
  program->graph = std::move(dynamic.graph);
  remarks.insert(remarks.end(), dynamic.remarks.begin(), dynamic.remarks.end());
  return remarks;
}

// Results that are integers vary with the symbols that do; with others they are constants.
void fix_returned_integers(const ArchivedProgram& archived, ExportedProgram* program) {
  ir::Bindings hint =
      sizes_in({.symbols = {}, .input_sizes = archived.input_sizes}, archived.sample_inputs);
  for (const SymbolicInteger& integer : archived.input_integers) {
    if (const auto form = ir::linear_form(integer.expr)) {
      hint[form->symbol] = (integer.value - form->shift) / form->scale;
    }
  }
  for (Leaf& leaf : program->output_leaves) {
    if (!leaf.size) {
      continue;
    }
    bool is_known = true;
    leaf.size = leaf.size->substitute([&](const std::string& name) {
      const auto value = hint.find(name);
      const bool varies = program->graph.symbols().contains(name);
      is_known = is_known && (varies || value != hint.end());
      return varies || value == hint.end() ? ir::Expr::symbol(name) : ir::Expr(value->second);
    });
    if (!is_known) {
      throw Error(ErrorCode::kUnsupported,
                  "the program returns the integer '" + leaf.size->to_string() +
                      "', which no size of its inputs determines");
    }
    if (leaf.size->is_constant()) {
      leaf.size.reset();  // The constant says it.
    } else if (std::to_string(leaf.size->evaluate(hint)) != leaf.constant) {
      throw Error(ErrorCode::kCorrupt,
                  "the program returns " + leaf.constant + " for its sample inputs, not '" +
                      leaf.size->to_string() + "'");
    }
  }
}

}  // namespace

ExportedProgram load_program(const std::filesystem::path& path) {
  ArchivedProgram archived = read_archive(path);
  ExportedProgram program;
  try {
    program = trace_archive(archived, archived.sample_inputs);
    program.traces = 1;
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::kCorrupt,
                path.string() + " does not follow the schema: " + error.what());
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    throw Error(ErrorCode::kCorrupt,
                path.string() + ": its graph does not run on its sample inputs: " +
                    message.substr(0, message.find('\n')));
  }
  const std::vector<std::string> remarks = let_sizes_vary(archived, &program);
  restore_integers(archived, &program);
  program.specialisations = specialisations_of(archived, program.graph.symbols());
  program.specialisations.insert(program.specialisations.end(), remarks.begin(), remarks.end());
  program.non_persistent_buffers = std::move(archived.non_persistent_buffers);
  program.in_spec = std::move(archived.in_spec);
  program.out_spec = std::move(archived.out_spec);
  program.input_leaves = std::move(archived.input_leaves);
  program.output_leaves = archived.output_leaves;
  fix_returned_integers(archived, &program);
  program.symbols = std::move(archived.symbols);
  program.input_sizes = std::move(archived.input_sizes);
  for (const SymbolicInteger& integer : archived.input_integers) {
    program.input_sizes.at(integer.input).clear();
  }
  if (archived.device != ir::DeviceType::kCpu) {
    program.graph = ir::retarget(program.graph, archived.device);
  }
  return program;
}

}  // namespace kiln::exporter
