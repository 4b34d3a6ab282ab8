// Archives of `torch.export.save` (`.pt2`): in and out.

#pragma once

#include <filesystem>

#include "kiln/export/exported_program.hpp"
#include "kiln/ir/types.hpp"

namespace kiln::exporter {

/// Reads an archive that `torch.export.save` (PyTorch 2.11 to 2.13) or `save_program` wrote, and
/// traces it.
///
/// Weights are mapped from the file, privately: writing to them does not change it. The archive's
/// graph is run once, on its sample inputs (or on tensors of the same geometry where they cannot be
/// read), so that composite operators decompose; symbolic dimensions get their sample sizes.
///
/// That happens on the CPU, also for an archive whose tensors are on a GPU: its graph is then one
/// for `cuda` (`ir::retarget`), while weights and sample inputs stay on the CPU.
///
/// Throws `Error`: `kIo` if the file cannot be read, `kCorrupt` if it is damaged or no such
/// archive, `kIncompatible` if its schema is newer, `kUnsupported` naming an operator that is not
/// registered, a construct that cannot be traced, or tensors of several devices.
[[nodiscard]] ExportedProgram load_program(const std::filesystem::path& path);

/// The device that an archive's program is for, without tracing it. Throws as `load_program` does.
[[nodiscard]] ir::DeviceType device_of_archive(const std::filesystem::path& path);

/// Writes an archive that `torch.export.load` (PyTorch 2.13) and `load_program` read.
///
/// The file appears whole or not at all. Throws `Error` with `kIo` if it cannot be written, and
/// with `kUnsupported` naming an argument that the format cannot express.
void save_program(const ExportedProgram& program, const std::filesystem::path& path);

}  // namespace kiln::exporter
