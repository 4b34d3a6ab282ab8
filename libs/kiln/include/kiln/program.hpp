// Ahead of time: programs in and out, and to packages.

#pragma once

#include <filesystem>
#include <memory>

#include "kiln/compile.hpp"
#include "kiln/export/export.hpp"
#include "kiln/export/exported_program.hpp"
#include "kiln/options.hpp"

namespace torch::jit {
struct Module;
}

namespace kiln {

using exporter::ExportedProgram;
using exporter::ExportOptions;

/// Traces `fn`, a `TensorFunction`, on `example` to a functional graph. See kiln/export/export.hpp.
template <detail::Callable F>
[[nodiscard]] ExportedProgram export_program(F&& fn,
                                             const Tensors& example,
                                             ExportOptions options = {}) {
  return exporter::export_program(TensorFunction(std::forward<F>(fn)), example, options);
}

/// Traces a module's forward, with its parameters and buffers by name.
[[nodiscard]] ExportedProgram export_program(std::shared_ptr<torch::nn::Module> module,
                                             TensorFunction forward,
                                             const Tensors& example,
                                             ExportOptions options = {});

template <class Impl>
[[nodiscard]] ExportedProgram export_program(torch::nn::ModuleHolder<Impl> module,
                                             const Tensors& example,
                                             ExportOptions options = {}) {
  std::shared_ptr<Impl> pointer = module.ptr();
  return export_program(
      std::shared_ptr<torch::nn::Module>(pointer),
      [pointer](const Tensors& in) { return detail::call_forward(*pointer, in); },
      example,
      std::move(options));
}

/// Traces a TorchScript module's forward (`torch::jit::load` reads one). See
/// kiln/export/script.hpp.
[[nodiscard]] ExportedProgram export_program(const torch::jit::Module& module,
                                             const Tensors& example,
                                             ExportOptions options = {});

/// Reads an archive of `torch.export.save`, or of `save_program`.
[[nodiscard]] ExportedProgram load_program(const std::filesystem::path& pt2);

/// Writes an archive that `torch.export.load` reads.
void save_program(const ExportedProgram& program, const std::filesystem::path& pt2);

/// Compiles `program` to an AOTInductor package, or to a bare model library if `out` ends in ".so";
/// returns `out`.
///
/// Any AOTInductor host loads it: `kiln::load`, `torch._inductor.aoti_load_package`,
/// `AOTIModelPackageLoader`. If `report` is given, it is filled in.
std::filesystem::path aot_compile(const ExportedProgram& program,
                                  const std::filesystem::path& out,
                                  CompileOptions options = default_options(),
                                  GraphReport* report = nullptr);

/// Compiles an archive of `torch.export.save`. One that was compiled before, with the same options,
/// is neither read nor traced again: it is known by its content.
std::filesystem::path aot_compile(const std::filesystem::path& archive,
                                  const std::filesystem::path& out,
                                  CompileOptions options = default_options(),
                                  GraphReport* report = nullptr);

}  // namespace kiln
