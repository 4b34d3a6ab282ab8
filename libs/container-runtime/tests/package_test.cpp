#include "kiln/container_runtime/package.hpp"

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "affine.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/container_runtime/runner.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::container_runtime {
namespace {

using testing::contains;

PackageContents affine_package() {
  return {.library = test_model("affine"),
          .metadata = {{"KILN_ISA", "baseline"}},
          .extra_files = {{"note.txt", "by hand"}}};
}

TEST_CASE("a package holds what was put in", "[container-runtime][package]") {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "affine.pt2";

  write_package(path, affine_package());
  const Package package = open_package(path);

  CHECK(package.model_names() == std::vector<std::string>{"model"});
  CHECK(package.metadata("model").at("AOTI_DEVICE_KEY") == "cpu");
  CHECK(package.metadata("model").at("KILN_ISA") == "baseline");
  CHECK(package.read("extra/note.txt") == "by hand");
  const UnpackedModel unpacked = package.unpack("model", directory.path());
  CHECK(read_file(unpacked.library) == read_file(test_model("affine")));
}

TEST_CASE("a package is run, and leaves no files behind", "[container-runtime][package]") {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "affine.pt2";
  write_package(path, affine_package());
  const at::Tensor x = at::ones({2, 4});
  const TemporaryDirectory scratch;
  const char* before = std::getenv("TMPDIR");
  const std::string saved = before != nullptr ? before : "/tmp";
  setenv("TMPDIR", scratch.path().c_str(), 1);

  Runner runner(path);

  setenv("TMPDIR", saved.c_str(), 1);
  std::filesystem::remove(path);
  CHECK(std::filesystem::is_empty(scratch.path()));

  CHECK(runner.metadata().at("AOTI_DEVICE_KEY") == "cpu");
  CHECK(at::allclose(runner.run({x})[0], affine(x, embedded_scale(), embedded_shift())));
}

TEST_CASE("a package that is none says why", "[container-runtime][package]") {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "affine.pt2";
  const auto code = [&](const RunnerOptions& options = {}) {
    try {
      const Runner runner(path, options);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kInternal;
  };

  CHECK(code() == ErrorCode::kIo);
  write_package(path, affine_package());
  CHECK(code({.model_name = "other"}) == ErrorCode::kCorrupt);
  const std::string whole = read_file(path);
  write_file_atomically(path, std::string_view(whole).substr(0, whole.size() / 2));
  CHECK(code() == ErrorCode::kCorrupt);
  write_file_atomically(path, std::string_view("PK but not really"));
  CHECK(code() == ErrorCode::kCorrupt);
}

TEST_CASE("a package says how many instances it is loaded with", "[container-runtime][package]") {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "affine.pt2";
  PackageContents contents = affine_package();
  contents.instances = 3;
  write_package(path, contents);

  CHECK(Runner(path).instances() == 3);
  CHECK(Runner(path, {.instances = 5}).instances() == 5);
  CHECK(Runner(path, {.single_threaded = true}).instances() == 1);
  write_package(path, affine_package());
  CHECK(Runner(path).instances() == std::max(1U, std::thread::hardware_concurrency()));
  for (const char* nonsense : {"0", "-1", "many", "3 or so", "", "99999999999999999999", "5000"}) {
    INFO(nonsense);
    contents = affine_package();
    contents.metadata["KILN_INSTANCES"] = nonsense;
    write_package(path, contents);
    CHECK_THROWS_WITH(Runner(path), contains("the package says KILN_INSTANCES"));
    CHECK(Runner(path, {.instances = 2}).instances() == 2);
  }
}

TEST_CASE("an unpacked package has its metadata", "[container-runtime][package]") {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "affine.pt2";
  PackageContents contents = affine_package();
  contents.instances = 3;
  write_package(path, contents);
  const auto root = directory.path() / "unpacked";
  const auto folder = root / "data/aotinductor/model";
  std::filesystem::create_directories(folder);
  static_cast<void>(open_package(path).unpack("model", folder));

  const Runner runner(root);

  CHECK(runner.instances() == 3);
  CHECK(runner.metadata().at("KILN_ISA") == "baseline");
}

TEST_CASE("a package without its library is not written", "[container-runtime][package]") {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "affine.pt2";
  write_file_atomically(path, std::string_view("what was there"));

  CHECK_THROWS_AS(write_package(path, {.library = directory.path() / "absent.so"}), Error);

  CHECK(read_file(path) == "what was there");
  CHECK(std::distance(std::filesystem::directory_iterator(directory.path()), {}) == 1);
}

}  // namespace
}  // namespace kiln::container_runtime
