#include "toolchain/build.hpp"

#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <tuple>

#include "backend/cpu/cpu_backend.hpp"
#include "driver/compile_schedule.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/testing/catch2.hpp"
#include "support/hand_made.hpp"

namespace kiln::codegen {
namespace {

namespace fs = std::filesystem;
using kiln::testing::contains;

ir::Graph small_graph() {
  return ir::parse(R"(graph g {
    input %x: f32[4, 4] user
    %a: f32[4, 4] = aten.mm.default(%x, %x)
    %b: f32[4, 4] = aten.relu.default(%a)
    output %b user
  })");
}

Options test_options() {
  Options options;
  options.runtime_archive = KILN_BARE_CONTAINER;
  return options;
}

Report build(const fs::path& library, const Options& options) {
  const ir::Graph graph = small_graph();
  return compile_schedule(
      testing::schedule_by_hand(graph), nullptr, CpuBackend({Target{}}), library, options);
}

// A compiler that does what `script` says after it was found to work.
std::string fake_compiler(const fs::path& directory, const std::string& script) {
  const fs::path path = directory / "fake-compiler";
  std::ofstream file(path);
  file << "#!/bin/sh\ncase \"$*\" in\n  *--version*) echo fake 1;;\n"
       << "  *soname*) exec g++ \"$@\";;\n  *) " << script << ";;\nesac\n";
  file.close();
  ::chmod(path.c_str(), 0755);
  return path.string();
}

std::string failure_of(const fs::path& library, const Options& options) {
  try {
    (void)build(library, options);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kIo);
    return error.what();
  }
  return "";
}

TEST_CASE("a library names libtorch_cpu.so and carries no path of this machine",
          "[codegen][build]") {
  const TemporaryDirectory directory;
  const fs::path library = directory.path() / "deep" / "model.so";

  const Report report = build(library, test_options());

  const std::string bytes = read_file(library);
  CHECK(bytes.size() == report.library_bytes);
  CHECK_THAT(bytes, contains("libtorch_cpu.so"));
  CHECK_THAT(bytes, contains("kiln_test_model"));
  CHECK_THAT(bytes, !contains(directory.path().string()));
  // Nothing but the library itself.
  CHECK(std::distance(fs::directory_iterator(library.parent_path()), fs::directory_iterator()) ==
        1);
}

TEST_CASE("objects are found again by what went into them", "[codegen][build]") {
  const TemporaryDirectory directory;
  std::map<Digest, std::string> store;
  std::mutex mutex;
  Options options = test_options();
  options.objects.find = [&](const Digest& key) -> std::optional<std::string> {
    const std::lock_guard lock(mutex);
    const auto found = store.find(key);
    return found == store.end() ? std::nullopt : std::optional(found->second);
  };
  options.objects.put = [&](const Digest& key, std::string_view object) {
    const std::lock_guard lock(mutex);
    store[key] = object;
  };

  const Report first = build(directory.path() / "a.so", options);
  const Report second = build(directory.path() / "b.so", options);

  CHECK(first.objects_reused == 0);
  CHECK(second.objects_reused == static_cast<int>(store.size()));
  CHECK(store.size() == 2);
  CHECK(read_file(directory.path() / "a.so") == read_file(directory.path() / "b.so"));
}

TEST_CASE("flags in the compiler's command make other objects", "[codegen][build]") {
  const TemporaryDirectory directory;
  const std::string compiler = fake_compiler(directory.path(), "exit 1");
  const Unit unit{.name = "unit", .source = "int x;", .flags = {"-O2"}};
  const auto key = [&](const std::string& command) {
    return object_key(find_compiler(command, std::chrono::seconds(10)), unit);
  };
  CHECK(key(compiler + " -ffast-math") != key(compiler));
  CHECK(key(compiler + " -ffast-math") != key(compiler + " -O0"));
  CHECK(key("env " + compiler) == key(compiler));  // Not a flag: a program like ccache.

  Options options = test_options();
  options.compiler = compiler + " -ffast-math";
  CHECK(compiler_version(options) == "fake 1 -ffast-math");
}

TEST_CASE("progress counts the units and the link", "[codegen][build]") {
  const TemporaryDirectory directory;
  std::vector<std::tuple<Stage, int, int>> seen;
  Options options = test_options();
  options.progress = [&](const Progress& progress) {
    seen.emplace_back(progress.stage, progress.done, progress.total);
  };

  (void)build(directory.path() / "model.so", options);

  CHECK(seen == std::vector<std::tuple<Stage, int, int>>{{Stage::kKernels, 1, 2},
                                                         {Stage::kKernels, 2, 2},
                                                         {Stage::kLink, 0, 1},
                                                         {Stage::kLink, 1, 1}});
}

TEST_CASE("a failing compiler is quoted and its source kept", "[codegen][build]") {
  const TemporaryDirectory directory;
  Options options = test_options();
  options.compiler =
      fake_compiler(directory.path(), "echo 'boom: no such instruction' >&2; exit 1");
  const fs::path library = directory.path() / "out" / "model.so";

  const std::string message = failure_of(library, options);

  CHECK_THAT(message, contains("boom: no such instruction"));
  CHECK_FALSE(fs::exists(library));
  const auto at = message.find("kept in ");
  REQUIRE(at != std::string::npos);
  const fs::path source = message.substr(at + 8);
  CHECK(fs::exists(source));
  for (const fs::directory_entry& entry : fs::directory_iterator(source.parent_path())) {
    CHECK(entry.path().extension() == ".cpp");
  }
  remove_tree(source.parent_path());
}

TEST_CASE("a compiler that hangs is stopped", "[codegen][build]") {
  const TemporaryDirectory directory;
  Options options = test_options();
  options.compiler = fake_compiler(directory.path(), "sleep 60");
  options.compiler_timeout = std::chrono::milliseconds(300);

  const std::string message = failure_of(directory.path() / "model.so", options);

  CHECK_THAT(message, contains("took longer than 300 ms"));
  remove_tree(fs::path(message.substr(message.find("kept in ") + 8)).parent_path());
}

TEST_CASE("no compiler, no archive and no place to write are told apart", "[codegen][build]") {
  const TemporaryDirectory directory;
  Options options = test_options();
  options.compiler = "no-such-compiler-here";
  CHECK_THAT(failure_of(directory.path() / "model.so", options),
             contains("no-such-compiler-here does not exist"));

  options = test_options();
  options.runtime_archive = directory.path() / "missing.a";
  CHECK_THAT(failure_of(directory.path() / "model.so", options), contains("missing.a"));

  std::ofstream(directory.path() / "file").put('x');
  CHECK_THAT(failure_of(directory.path() / "file" / "model.so", test_options()),
             contains("cannot create"));
  CHECK_FALSE(fs::exists(directory.path() / "model.so"));
}

TEST_CASE("the source stays where the caller asks", "[codegen][build]") {
  const TemporaryDirectory directory;
  Options options = test_options();
  options.keep_source = directory.path() / "source";
  for (const char* file :
       {"fold.kir", "kernels7.cpp", "kernels_1_0.cpp", "kernels.txt", "kernels.cu"}) {
    write_file_atomically(options.keep_source / file, "of another program");
  }

  (void)build(directory.path() / "model.so", options);

  CHECK_THAT(read_file(options.keep_source / "model.cpp"), contains("aoti_torch_cpu_mm_out"));
  CHECK_THAT(read_file(options.keep_source / "model.cpp"), !contains("#include"));
  CHECK_THAT(read_file(options.keep_source / "kernels0.cpp"), contains("// aten.relu.default"));
  CHECK_FALSE(fs::exists(options.keep_source / "fold.kir"));
  CHECK_FALSE(fs::exists(options.keep_source / "kernels7.cpp"));
  CHECK_FALSE(fs::exists(options.keep_source / "kernels_1_0.cpp"));
  CHECK(fs::exists(options.keep_source / "kernels.txt"));
  CHECK(fs::exists(options.keep_source / "kernels.cu"));
}

TEST_CASE("the runtime archive is looked for where $KILN_RUNTIME_DIR says", "[codegen][build]") {
  const TemporaryDirectory directory;
  std::ofstream(directory.path() / "libkiln-container.a").put('x');
  ::setenv("KILN_RUNTIME_DIR", directory.path().c_str(), 1);

  CHECK(find_runtime_archive() == directory.path() / "libkiln-container.a");

  ::unsetenv("KILN_RUNTIME_DIR");
}

}  // namespace
}  // namespace kiln::codegen
