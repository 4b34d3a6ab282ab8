#include "show_program.hpp"

#include <chrono>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "draw.hpp"
#include "html_report.hpp"
#include "json_text.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/codegen/compile.hpp"
#include "kiln/generator_input.hpp"
#include "kiln/ir/dot.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/ir/size_hints.hpp"
#include "kiln/program.hpp"
#include "picture.hpp"
#include "plan.hpp"

namespace kiln::tool {
namespace fs = std::filesystem;

namespace {

// Pictures are of one size for each symbol: that of the example.
ir::Bindings example_sizes(const ir::Graph& graph) {
  const ir::SizeHints hint(graph);
  ir::Bindings sizes;
  for (const auto& [name, range] : graph.symbols()) {
    sizes.emplace(name, hint(ir::Expr::symbol(name)));
  }
  return sizes;
}

std::string fused_steps(const ir::Graph& program) {
  const codegen::Description described = codegen::describe(program, {.bind_constants = true});
  return steps_to_dot(read_plan(described.plan, example_sizes(program)), described.graph);
}

void write_svg(const ProgramArguments& arguments, const ir::Graph& graph) {
  write_file_atomically(arguments.svg,
                        draw_dot(arguments.unfused ? ir::to_dot(graph) : fused_steps(graph)));
}

// What lies in `source` after a compile that kept its source.
HtmlReport read_page(const std::string& title, ir::Graph program, const fs::path& source) {
  ir::Graph graph = ir::parse(read_file(source / "graph.kir"));
  ir::Bindings sizes = example_sizes(graph);
  Plan plan = read_plan(read_file(source / "plan.json"), sizes);
  return {.title = title,
          .program = std::move(program),
          .graph = std::move(graph),
          .plan = std::move(plan),
          .sizes = std::move(sizes),
          .source = source,
          .stages = {}};
}

void write_html(const ProgramArguments& arguments, const ExportedProgram& program, double load_ms) {
  const ir::Graph graph = with_all_outputs(program);
  const Weights weights = weights_of(program);
  const TemporaryDirectory scratch("kiln-inspect");
  const fs::path source = scratch.path() / "source";
  const codegen::Report report =
      codegen::compile(graph,
                       scratch.path() / "model.so",
                       {.bind_constants = true, .constants = weights.data, .keep_source = source});
  HtmlReport page = read_page(fs::path(arguments.file).filename().string(), graph, source);
  page.stages = {{"read and trace", load_ms},
                 {"schedule", report.schedule_ms},
                 {"write source", report.emit_ms},
                 {"compile kernels", report.compile_ms},
                 {"link", report.link_ms}};
  write_file_atomically(arguments.html, to_html(page));
}

}  // namespace

int show_program(const ProgramArguments& arguments, bool json) {
  const auto start = std::chrono::steady_clock::now();
  const ExportedProgram program = load_program(arguments.file);
  const std::chrono::duration<double, std::milli> loading =
      std::chrono::steady_clock::now() - start;
  if (!arguments.svg.empty()) {
    write_svg(arguments, arguments.unfused ? program.graph : with_all_outputs(program));
  }
  if (!arguments.html.empty()) {
    write_html(arguments, program, loading.count());
  }
  const exporter::GraphSignature signature = program.signature();
  if (json) {
    std::cout << json_text(nlohmann::json{{"parameters", signature.parameters},
                                          {"buffers", signature.buffers},
                                          {"user_inputs", signature.user_inputs},
                                          {"user_outputs", signature.user_outputs},
                                          {"specialisations", program.specialisations},
                                          {"graph", ir::print(program.graph)}})
              << "\n";
    return 0;
  }
  std::cout << "exported program: " << signature.parameters.size() << " parameters, "
            << signature.buffers.size() << " buffers, " << signature.user_inputs.size()
            << " inputs, " << signature.user_outputs.size() << " outputs\n";
  for (const std::string& specialisation : program.specialisations) {
    std::cout << "  " << specialisation << "\n";
  }
  std::cout << ir::print(program.graph);
  return 0;
}

int show_dump(const ProgramArguments& arguments, bool json) {
  const fs::path folder = fs::absolute(arguments.file).lexically_normal();
  HtmlReport page = read_page((folder / "").parent_path().filename().string(),
                              ir::parse(read_file(folder / "program.kir")),
                              folder / "source");
  const auto report = nlohmann::json::parse(read_file(folder / "report.json"));
  page.stages = {{"read and trace", report.at("trace_ms")}, {"compile", report.at("compile_ms")}};
  if (!arguments.svg.empty()) {
    write_file_atomically(arguments.svg,
                          draw_dot(arguments.unfused ? ir::to_dot(page.program)
                                                     : steps_to_dot(page.plan, page.graph)));
  }
  if (!arguments.html.empty()) {
    write_file_atomically(arguments.html, to_html(page));
  }
  if (json) {
    std::cout << json_text(nlohmann::json{{"title", page.title},
                                          {"report", report},
                                          {"arena_bytes", page.plan.arena_bytes},
                                          {"graph", ir::print(page.program)}})
              << "\n";
    return 0;
  }
  std::cout << "dump of " << page.plan.graph << ": " << page.program.nodes().size() << " nodes, "
            << page.plan.kernels.size() << " kernels, " << page.plan.steps.size() << " steps\n"
            << ir::print(page.program);
  return 0;
}

}  // namespace kiln::tool
