#include "toolchain/linker.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/codegen/compile.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::codegen {
namespace {

namespace fs = std::filesystem;
using kiln::testing::contains;

// It is tried on x86-64 only.
#if defined(__x86_64__)
constexpr int kGoldTrials = 1;
#else
constexpr int kGoldTrials = 0;
#endif
constexpr const char* kNoLibrary = "ld.gold: fatal error: cannot find -lstdc++";

// g++ as it is where gold cannot read its standard library: links without it work. Every link is a
// line of the file "links" beside it.
Options with_moved_compiler(const fs::path& directory) {
  const fs::path path = directory / "moved-g++";
  std::ofstream(path) << "#!/bin/sh\ncase \"$*\" in\n  *-shared*) echo \"$*\" >> "
                      << directory.string()
                      << "/links;;\nesac\ncase \"$*\" in\n  *-nostdlib*) exec g++ \"$@\";;\n"
                      << "  *-fuse-ld=gold*) echo '" << kNoLibrary
                      << "' >&2; exit 1;;\n  *) exec g++ \"$@\";;\nesac\n";
  ::chmod(path.c_str(), 0755);
  Options options;
  options.runtime_archive = KILN_BARE_CONTAINER;
  options.compiler = path.string();
  return options;
}

// There is a gold here, whatever is installed.
class GoldInPath {
 public:
  GoldInPath() : path_(std::getenv("PATH")) {
    const fs::path program = directory_.path() / "ld.gold";
    std::ofstream(program) << "#!/bin/sh\nexit 1\n";
    ::chmod(program.c_str(), 0755);
    ::setenv("PATH", (path_ + ":" + directory_.path().string()).c_str(), 1);
  }
  ~GoldInPath() { ::setenv("PATH", path_.c_str(), 1); }
  GoldInPath(const GoldInPath&) = delete;
  GoldInPath& operator=(const GoldInPath&) = delete;

 private:
  TemporaryDirectory directory_;
  std::string path_;
};

ir::Graph relu_graph() {
  return ir::parse(R"(graph g {
    input %x: f32[4, 4] user
    %a: f32[4, 4] = aten.relu.default(%x)
    output %a user
  })");
}

TEST_CASE("a compiler that gold does not work with links models with its default",
          "[codegen][linker]") {
  const TemporaryDirectory directory;
  const GoldInPath gold;
  const Options options = with_moved_compiler(directory.path());

  (void)compile(relu_graph(), directory.path() / "a.so", options);
  (void)compile(relu_graph(), directory.path() / "b.so", options);

  CHECK_THAT(read_file(directory.path() / "b.so"), contains("libtorch_cpu.so"));
  CHECK_THAT(linker_name(options), contains("the compiler's default"));
  if (kGoldTrials > 0) {
    CHECK_THAT(linker_name(options),
               contains("gold does not work with it") && contains(kNoLibrary));
  }
  std::ifstream links(directory.path() / "links");
  int gold_links = 0, all_links = 0;
  for (std::string line; std::getline(links, line); ++all_links) {
    gold_links += line.find("-fuse-ld=gold") != std::string::npos ? 1 : 0;
  }
  CHECK(gold_links == kGoldTrials);     // In the process, not for each model.
  CHECK(all_links == kGoldTrials + 3);  // The stand-in, and the two models.
}

TEST_CASE("a linker that works is tried once, and links models", "[codegen][linker]") {
  const TemporaryDirectory directory;
  Options options;
  options.runtime_archive = KILN_BARE_CONTAINER;

  (void)compile(relu_graph(), directory.path() / "model.so", options);

  const Compiler compiler = find_compiler({}, std::chrono::minutes(1));
  const Linker& linker = find_linker(compiler, std::chrono::minutes(1));
  CHECK(&linker == &find_linker(compiler, std::chrono::minutes(1)));
  CHECK(linker.name == linker_name(options));
  CHECK((linker.name == "gold") == !linker.flags.empty());
  // It records that name and asks for nothing itself.
  CHECK_THAT(linker.libtorch_stand_in, contains("libtorch_cpu.so"));
  CHECK_THAT(linker.libtorch_stand_in, !contains("libstdc++"));
  CHECK_THAT(linker.libtorch_stand_in, !contains("libgomp"));
}

TEST_CASE("a compiler that cannot link says so", "[codegen][linker]") {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "no-linker";
  std::ofstream(path) << "#!/bin/sh\ncase \"$*\" in\n  *--version*) echo fake 1;;\n"
                      << "  *-shared*) echo 'no linker here' >&2; exit 1;;\n"
                      << "  *) exec g++ \"$@\";;\nesac\n";
  ::chmod(path.c_str(), 0755);
  Options options;
  options.runtime_archive = KILN_BARE_CONTAINER;
  options.compiler = path.string();

  CHECK_THROWS_WITH(compile(relu_graph(), directory.path() / "model.so", options),
                    contains("the trial link failed") && contains("no linker here"));
}

}  // namespace
}  // namespace kiln::codegen
