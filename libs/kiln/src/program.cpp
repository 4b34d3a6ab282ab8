#include "kiln/program.hpp"

#include "kiln/export/archive.hpp"
#include "kiln/export/export.hpp"
#include "kiln/export/script.hpp"

namespace kiln {

ExportedProgram export_program(std::shared_ptr<torch::nn::Module> module,
                               TensorFunction forward,
                               const Tensors& example,
                               ExportOptions options) {
  return exporter::export_module(module, forward, example, options);
}

ExportedProgram export_program(const torch::jit::Module& module,
                               const Tensors& example,
                               ExportOptions options) {
  return exporter::export_script(module, example, options);
}

ExportedProgram load_program(const std::filesystem::path& pt2) {
  return exporter::load_program(pt2);
}

void save_program(const ExportedProgram& program, const std::filesystem::path& pt2) {
  exporter::save_program(program, pt2);
}

}  // namespace kiln
