// What a compiled library offers to its host, and what it asks of it.

#include <torch/torch.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>

#include "kiln/base/file.hpp"
#include "kiln/base/subprocess.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/kiln.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/uncached.hpp"

namespace kiln {
namespace {

// The dynamic symbols of a library that nm marks with `kind`: T for functions that it has, U for
// what it needs, w for what it can do without. "memcpy@GLIBC_2.14".
std::set<std::string> symbols_of(const std::filesystem::path& library, char kind) {
  const ProcessResult listed = run_process({"nm", "-D", library.string()});
  REQUIRE(listed.ok());
  std::set<std::string> symbols;
  std::istringstream lines(listed.output);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = line.rfind(' ');
    if (line[space - 1] == kind) {
      symbols.insert(line.substr(space + 1));
    }
  }
  return symbols;
}

// Kernels, calls of libtorch by its shim and by the dispatcher, weights, a buffer that is written,
// and a check of an index.
struct NetImpl : torch::nn::Module {
  NetImpl()
      : table(register_parameter("table", torch::randn({10, 4}))),
        weight(register_parameter("weight", torch::randn({4, 4}))),
        count(register_buffer("count", torch::zeros({1}))) {}

  torch::Tensor forward(const torch::Tensor& words) {
    count.add_(1);
    const torch::Tensor x = table.index({words}).mm(weight * 2).softmax(1);
    return torch::celu(std::get<0>(x.sort(1)).cumsum(1), 0.7) + count;
  }

  torch::Tensor table, weight, count;
};
TORCH_MODULE(Net);

std::filesystem::path compiled(const TemporaryDirectory& folder) {
  const torch::NoGradGuard no_grad;
  CompileOptions options = uncached();
  options.keep_source = folder.path() / "source";
  return aot_compile(
      export_program(Net(), {torch::tensor({3, 1, 2})}), folder.path() / "net.so", options);
}

void check_all_are_entries(const std::set<std::string>& exported) {
  CHECK_FALSE(exported.empty());
  for (const std::string& name : exported) {
    CAPTURE(name);
    CHECK((name.starts_with("AOTInductor") || name.starts_with("Kiln")));
  }
}

TEST_CASE("CG-03 a library exports the entries of AOTInductor's ABI, and nothing else",
          "[kiln][model_symbols]") {
  const TemporaryDirectory folder;

  const std::set<std::string> exported = symbols_of(compiled(folder), 'T');

  for (const std::string entry : {"ContainerCreate",
                                  "ContainerCreateWithDevice",
                                  "ContainerDelete",
                                  "ContainerRun",
                                  "ContainerGetNumConstants",
                                  "ContainerGetConstantName",
                                  "ContainerGetConstantOriginalFQN",
                                  "ContainerGetConstantFromFolded",
                                  "ContainerGetConstantDtype",
                                  "ContainerUpdateConstantBuffer",
                                  "ContainerUpdateInactiveConstantBuffer",
                                  "ContainerRunConstantFolding",
                                  "ContainerSwapConstantBuffer",
                                  "ContainerGetNumInputs",
                                  "ContainerGetInputName",
                                  "ContainerGetNumOutputs",
                                  "ContainerGetOutputName",
                                  "ContainerGetCallSpec",
                                  "Create",
                                  "Run",
                                  "Delete",
                                  "GetNumOutputs",
                                  "UpdateConstantsMap"}) {
    CAPTURE(entry);
    CHECK(exported.count("AOTInductorModel" + entry) == 1);
  }
  check_all_are_entries(exported);
}

TEST_CASE("CG-03 a library exports nothing of a static libstdc++", "[kiln][model_symbols]") {
  struct Compiler {
    explicit Compiler(const char* command) { setenv("KILN_CXX", command, /*overwrite=*/1); }
    ~Compiler() { unsetenv("KILN_CXX"); }
  };
  const Compiler bringing_archives("g++ -static-libstdc++ -static-libgcc");
  const TemporaryDirectory folder;
  const std::filesystem::path library = compiled(folder);

  CHECK(symbols_of(library, 'U').count("__cxa_throw@CXXABI_1.3") == 0);
  check_all_are_entries(symbols_of(library, 'T'));
  CHECK(symbols_of(library, 'u').empty());  // Which would keep the library in memory for ever.
}

TEST_CASE("CG-04 a library asks for libtorch's C shim and the system's libraries only",
          "[kiln][model_symbols]") {
  const TemporaryDirectory folder;
  const std::filesystem::path library = compiled(folder);
  int of_libtorch = 0;

  for (const std::string& name : symbols_of(library, 'U')) {
    CAPTURE(name);
    const bool is_shim = name.starts_with("aoti_torch_");
    const std::string version = name.substr(std::min(name.find('@'), name.size()));
    CHECK((is_shim || version.starts_with("@GLIBC") || version.starts_with("@CXXABI") ||
           version.starts_with("@GCC")));
    of_libtorch += is_shim ? 1 : 0;
  }
  CHECK(of_libtorch > 0);
  for (const std::string& name : symbols_of(library, 'w')) {
    CAPTURE(name);
    CHECK((!name.starts_with("_Z") || name.find('@') != std::string::npos));  // No C++ of libtorch.
  }
}

TEST_CASE("CG-04 generated source includes nothing of libtorch", "[kiln][model_symbols]") {
  const TemporaryDirectory folder;
  compiled(folder);
  int sources = 0;

  for (const auto& file : std::filesystem::recursive_directory_iterator(folder.path() / "source")) {
    if (file.path().extension() != ".cpp") {
      continue;
    }
    ++sources;
    std::istringstream lines(read_file(file.path()));
    for (std::string line; std::getline(lines, line);) {
      CAPTURE(file.path(), line);
      CHECK((!line.starts_with("#include") || line.find("torch") == std::string::npos));
      CHECK(line.find("at::") == std::string::npos);
      CHECK(line.find("c10::") == std::string::npos);
    }
  }
  CHECK(sources > 0);
}

}  // namespace
}  // namespace kiln
