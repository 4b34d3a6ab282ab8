// Ahead of time: programs in and out, and to packages.

#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "kiln/autograd_dispatch/values.hpp"
#include "kiln/base/error.hpp"
#include "kiln/export/export.hpp"
#include "kiln/export/exported_program.hpp"
#include "kiln/jit/compile.hpp"
#include "kiln/jit/options.hpp"

namespace torch::jit {
struct Module;
}

namespace kiln {

using exporter::DynamicDim;
using exporter::ExportedProgram;
using exporter::ExportOptions;

namespace detail {

/// A `TensorFunction` or what becomes one. Modules of libtorch are left out first: they are
/// callable too, and to ask with what is an error in their own header.
template <class F>
concept Callable = !Holder<std::remove_cvref_t<F>> && std::is_convertible_v<F, TensorFunction>;

template <class Impl, std::size_t... Index>
Tensors call_forward(Impl& module, Tensors in, std::index_sequence<Index...>) {
  if constexpr (requires { module.forward(in[Index]...); }) {
    return autograd_dispatch::take_apart(module.forward(in[Index]...)).tensors;
  } else {
    throw Error(
        ErrorCode::kInvalidArgument,
        "the module's forward does not take " + std::to_string(sizeof...(Index)) + " tensors");
  }
}

template <class Impl>
Tensors call_forward(Impl& module, const Tensors& in) {
  switch (in.size()) {
    case 0: return call_forward(module, in, std::make_index_sequence<0>());
    case 1: return call_forward(module, in, std::make_index_sequence<1>());
    case 2: return call_forward(module, in, std::make_index_sequence<2>());
    case 3: return call_forward(module, in, std::make_index_sequence<3>());
    case 4: return call_forward(module, in, std::make_index_sequence<4>());
    default:
      throw Error(ErrorCode::kInvalidArgument,
                  "a forward of more than four tensors: use export_program(module, forward, "
                  "example) with a function of your own");
  }
}

}  // namespace detail

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

/// Traces a module's own `forward`, of one to four tensors.
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
