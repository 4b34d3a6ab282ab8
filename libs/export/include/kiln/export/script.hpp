// TorchScript modules to an `ExportedProgram`.

#pragma once

#include <filesystem>
#include <functional>

#include "kiln/export/export.hpp"

namespace torch::jit {
struct Module;
}

namespace kiln::exporter {

/// The module's `forward` as a function that can be traced, by `kiln::compile` or
/// `capture::record`: it takes the tensors among the arguments, and returns those among the
/// results, in order.
///
/// In a trace of `module.forward` itself, a size that the script makes a tensor of is a captured
/// constant: each size has a version of its own, and none whose code depends on it can be traced.
/// In this function it is a number.
///
/// Throws `Error` with `kInvalidArgument` if the module has no `forward`.
[[nodiscard]] std::function<Tensors(const Tensors&)> script_function(
    const torch::jit::Module& module);

/// Traces the module's `forward` on `example`, with its parameters and buffers by name.
///
/// A copy of its graph is run by a fresh interpreter: the module's own executor profiles and
/// rewrites what it runs. Branches and loops take the path that the example takes, as far as it
/// does not depend on the elements of tensors. Results may be nested in tuples, lists and
/// dictionaries.
///
/// Throws as `export_program` does; errors of the module itself pass through.
[[nodiscard]] ExportedProgram export_script(const torch::jit::Module& module,
                                            const Tensors& example,
                                            const ExportOptions& options = {});

/// The same, from a file of `torch.jit.save`. Throws `Error` with `kCorrupt` if it is none.
[[nodiscard]] ExportedProgram export_script(const std::filesystem::path& path,
                                            const Tensors& example,
                                            const ExportOptions& options = {});

}  // namespace kiln::exporter
