// Sources in, a shared library out: what can be looked up is not compiled, what is compiled runs on
// all cores.

#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "kiln/base/digest.hpp"
#include "kiln/codegen/compile.hpp"
#include "toolchain/toolchain.hpp"

namespace kiln::codegen {

/// Code for a device that a unit takes in: NVRTC compiles it first.
struct DeviceImage {
  std::string file;          ///< Its name, as the unit's source calls it.
  std::string architecture;  ///< "sm_90"; "compute_90" is PTX.
  std::string source;        ///< CUDA C++ without includes.
};

/// One translation unit.
struct Unit {
  std::string name;  ///< Of its file, without ending.
  std::string source;
  std::vector<std::string> flags;
  /// What flags like "-march=native" stand for here, as `Target::cpu_features`.
  std::string machine = {};
  bool vectorized = false;  ///< Compiled as loops are, which takes three times as long.
  bool shared = false;      ///< Other models have the same one (`KernelSource::shape_generic`).
  std::vector<DeviceImage> images = {};
};

/// What a library is built from.
struct BuildPlan {
  std::vector<Unit> units;
  std::filesystem::path directory;          ///< Where sources and objects lie meanwhile.
  std::filesystem::path ready;              ///< Where shared units may lie compiled, by their keys.
  std::filesystem::path archive;            ///< Linked whole.
  std::filesystem::path torch_library_dir;  ///< Empty: the stand-in.
  bool openmp = false;
};

/// How a build went.
struct BuildReport {
  int objects_reused = 0;
  double compile_ms = 0;
  double link_ms = 0;
};

/// What an object of `unit` is found by: everything that makes it.
[[nodiscard]] Digest object_key(const Compiler& compiler, const Unit& unit);

/// Compiles the units in `plan.directory`, each unless it is found. Throws `Error` with `kIo`.
[[nodiscard]] BuildReport compile_units(const Compiler& compiler,
                                        const BuildPlan& plan,
                                        const Options& options);

/// Builds `library`. Throws `Error` with `kIo`; there is no `library` then, or it is as it was.
[[nodiscard]] BuildReport build_library(const Compiler& compiler,
                                        const BuildPlan& plan,
                                        const std::filesystem::path& library,
                                        const Options& options);

}  // namespace kiln::codegen
