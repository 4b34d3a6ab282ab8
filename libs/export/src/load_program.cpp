#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <string>
#include <utility>

#include "archived_program.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/log.hpp"
#include "kiln/capture/record.hpp"
#include "kiln/export/archive.hpp"
#include "specialisations.hpp"

namespace kiln::exporter {
namespace {

// Only the graph is wanted, so that nothing is computed for it. A program that looks at its data
// (it asserts something of them) is run as it is: it may still be a good one, and if not, what it
// throws is its own.
capture::Recording record_graph(const ArchivedProgram& archived) {
  // The archive is an inference program: nothing is to be saved for a backward.
  const c10::AutoGradMode no_grad(false);
  const auto run = [&](const Tensors& inputs) { return archived.run(inputs); };
  try {
    return capture::record(
        run, archived.sample_inputs, {.without_values = true, .allow_uninitialized = true});
  } catch (const std::exception& failure) {
    KILN_LOG(kDebug, "export", "traced again, with values: " << failure.what());
  }
  return capture::record(run, archived.sample_inputs, {.allow_uninitialized = true});
}

}  // namespace

ExportedProgram load_program(const std::filesystem::path& path) {
  ArchivedProgram archived = read_archive(path);
  Trace trace;
  try {
    trace.recording = record_graph(archived);
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::kCorrupt,
                path.string() + " does not follow the schema: " + error.what());
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    throw Error(ErrorCode::kCorrupt,
                path.string() + ": its graph does not run on its sample inputs: " +
                    message.substr(0, message.find('\n')));
  }
  std::vector<std::string> specialisations = specialisations_of(archived);
  trace.owned = std::move(archived.owned);
  trace.input_names = std::move(archived.input_names);

  ExportedProgram program = assemble(std::move(trace), archived.sample_inputs);
  program.non_persistent_buffers = std::move(archived.non_persistent_buffers);
  program.in_spec = std::move(archived.in_spec);
  program.out_spec = std::move(archived.out_spec);
  program.input_leaves = std::move(archived.input_leaves);
  program.output_leaves = std::move(archived.output_leaves);
  program.symbols = std::move(archived.symbols);
  program.input_sizes = std::move(archived.input_sizes);
  program.specialisations = std::move(specialisations);
  return program;
}

}  // namespace kiln::exporter
