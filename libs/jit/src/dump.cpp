#include "kiln/jit/dump.hpp"

#include <ATen/Functions.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <cstdlib>
#include <sstream>

#include "kiln/base/digest.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/log.hpp"
#include "kiln/codegen/compile.hpp"
#include "kiln/ir/print.hpp"

namespace kiln {
namespace fs = std::filesystem;

namespace {

constexpr const char* kRepro =
    R"(// Compiles the graph beside this file and compares it with the interpreter, which calls libtorch
// operator by operator.
//
//   cmake -S . -B build -DCMAKE_PREFIX_PATH="<where Kiln is installed>;<where libtorch is>"
//   cmake --build build && build/repro

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <iostream>

#include <kiln/base/file.hpp>
#include <kiln/capture/convert.hpp>
#include <kiln/capture/replay.hpp>
#include <kiln/codegen/compile.hpp>
#include <kiln/container_runtime/runner.hpp>
#include <kiln/ir/parse.hpp>

int main(int argc, char** argv) {
  const std::filesystem::path folder = argc > 1 ? argv[1] : REPRO_FOLDER;
  kiln::ir::Graph graph = kiln::ir::parse(kiln::read_file(folder / "program.kir"));
  kiln::capture::complete_signatures(graph);  // The text has none.
  const std::string bytes = kiln::read_file(folder / "inputs.pt");
  const std::vector<at::Tensor> inputs =
      torch::jit::pickle_load({bytes.begin(), bytes.end()}).toTensorVector();
  std::vector<at::Tensor> copies;  // A run may write to its inputs.
  for (const at::Tensor& input : inputs) copies.push_back(input.clone());

  const std::vector<at::Tensor> all = kiln::capture::Interpreter(graph).run(copies);
  std::vector<at::Tensor> expected;  // An updated input is not an output of a library.
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (graph.outputs()[i].kind != kiln::ir::OutputKind::kMutation) expected.push_back(all[i]);
  }
  const std::filesystem::path library = std::filesystem::absolute("repro-model.so");
  kiln::codegen::compile(graph, library);
  const std::vector<at::Tensor> outputs =
      kiln::container_runtime::Runner(library).run(inputs);

  bool same = outputs.size() == expected.size();
  for (std::size_t i = 0; same && i < outputs.size(); ++i) {
    const double error =
        outputs[i].numel() == 0
            ? 0.0
            : (outputs[i].to(at::kDouble) - expected[i].to(at::kDouble)).abs().max().item<double>();
    const bool close = at::allclose(outputs[i], expected[i], 1e-3, 1e-4, true);
    std::cout << "output " << i << ": largest difference " << error
              << (close ? "" : ", too much") << "\n";
    same = same && close;
  }
  std::cout << (same ? "as the interpreter says" : "NOT as the interpreter says") << "\n";
  return same ? 0 : 1;
}
)";

constexpr const char* kReproProject = R"(cmake_minimum_required(VERSION 3.25)
project(repro LANGUAGES C CXX)
find_package(kiln CONFIG REQUIRED)
find_package(kiln-codegen CONFIG REQUIRED)
add_executable(repro repro.cpp)
target_compile_features(repro PRIVATE cxx_std_20)
target_compile_definitions(repro PRIVATE "REPRO_FOLDER=\"${CMAKE_CURRENT_SOURCE_DIR}\"")
target_link_libraries(repro PRIVATE kiln::kiln kiln::codegen)
)";

const char* dump_directory() {
  const char* directory = std::getenv("KILN_DUMP");
  return directory != nullptr && *directory != '\0' ? directory : nullptr;
}

// Writes the text of `graph`, and gives the folder.
fs::path write_text(const ir::Graph& graph) {
  const std::string text = ir::print(graph);
  fs::path folder =
      fs::absolute(dump_directory()) / (graph.name() + "-" + digest(text).hex().substr(0, 8));
  write_file_atomically(folder / "program.kir", text, Durability::kEventual);
  return folder;
}

}  // namespace

bool dump_wanted() {
  return dump_directory() != nullptr;
}

void dump_text(const ir::Graph& graph) {
  if (dump_wanted()) {
    write_text(graph);
  }
}

std::optional<Dump> Dump::begin(const ir::Graph& graph) {
  if (!dump_wanted()) {
    return std::nullopt;
  }
  Dump dump(write_text(graph));
  write_file_atomically(dump.folder_ / "repro.cpp", kRepro, Durability::kEventual);
  write_file_atomically(dump.folder_ / "CMakeLists.txt", kReproProject, Durability::kEventual);
  KILN_LOG(kInfo, "kiln", "dump of " << graph.name() << " in " << dump.folder_.string());
  return dump;
}

void Dump::write_inputs(const std::vector<at::Tensor>& inputs) const {
  c10::List<at::Tensor> list;
  for (const at::Tensor& input : inputs) {
    list.push_back(input.detach());
  }
  const std::vector<char> pickled = torch::jit::pickle_save(list);
  write_file_atomically(folder_ / "inputs.pt",
                        std::string_view(pickled.data(), pickled.size()),
                        Durability::kEventual);
}

void Dump::write_report(const GraphReport& report) const {
  std::ostringstream text;
  text << "{\"nodes\": " << report.nodes << ", \"kernels\": " << report.kernels
       << ", \"extern_calls\": " << report.extern_calls << ", \"trace_ms\": " << report.trace_ms
       << ", \"compile_ms\": " << report.compile_ms << "}\n";
  write_file_atomically(folder_ / "report.json", text.str(), Durability::kEventual);
}

void Dump::copy_source_to(const fs::path& folder) const {
  if (folder.empty()) {
    return;
  }
  codegen::remove_kept_source(folder);
  for (const fs::directory_entry& entry : fs::directory_iterator(source())) {
    write_file_atomically(
        folder / entry.path().filename(), read_file(entry.path()), Durability::kEventual);
  }
}

}  // namespace kiln
