#include <cstdlib>
#include <fstream>
#include <span>

#include "affine.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/subprocess.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/container_runtime/model.h"
#include "kiln/container_runtime/package.hpp"
#include "kiln/container_runtime/runner.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::container_runtime {
namespace {

namespace fs = std::filesystem;
using testing::contains;

const at::Tensor kScale = at::full({4}, 3.0F);
const at::Tensor kShift = at::full({4}, 5.0F);

// The library with those two behind it, each on a line of its own, as a compiler writes it.
fs::path with_weights(const fs::path& directory) {
  const fs::path library = directory / "affine.so";
  fs::copy_file(test_model("affine_without_weights"), library);
  KilnWeightsTrailer trailer{KILN_WEIGHTS_MAGIC, 128, {}};
  std::string bytes((64 - fs::file_size(library) % 64) % 64, '\0');
  for (const at::Tensor& constant : {kScale, kShift}) {
    bytes.append(static_cast<const char*>(constant.const_data_ptr()), constant.nbytes());
    bytes.append(64 - constant.nbytes(), '\0');
  }
  bytes.append(reinterpret_cast<const char*>(&trailer), sizeof(trailer));
  std::ofstream(library, std::ios::binary | std::ios::app) << bytes;
  return library;
}

bool is_mapped(const fs::path& file) {
  return read_file("/proc/self/maps").find(file.string()) != std::string::npos;
}

TEST_CASE("weights behind the library are mapped from its file", "[container-runtime][weights]") {
  const TemporaryDirectory directory;
  const at::Tensor x = at::ones({2, 4});
  Runner runner(with_weights(directory.path()));

  CHECK(at::allclose(runner.run({x})[0], affine(x, kScale, kShift)));
}

TEST_CASE("weights are written before the library is there", "[container-runtime][weights]") {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "affine.pt2";
  const fs::path library = test_model("affine_without_weights");
  constexpr std::uint64_t kRoom = 16 << 20;  // A library with sanitizers is large.
  const auto bytes_of = [](const at::Tensor& constant) {
    const auto* const data = static_cast<const char*>(constant.const_data_ptr());
    return std::as_bytes(std::span(data, constant.nbytes()));
  };
  const std::vector<std::byte> gap(64 - kScale.nbytes());
  const KilnWeightsTrailer trailer{KILN_WEIGHTS_MAGIC, 128, {}};
  const at::Tensor x = at::ones({2, 4});

  {
    PackageWriter writer(path, kRoom, {bytes_of(kScale), gap});
    CHECK_FALSE(fs::exists(path));
    writer.finish({.library = library,
                   .weights = {bytes_of(kShift), gap, std::as_bytes(std::span(&trailer, 1))}});
  }

  CHECK(std::distance(fs::directory_iterator(directory.path()), {}) == 1);
  CHECK(open_package(path).unpack("model", directory.path()).weights_offset.has_value());
  CHECK(at::allclose(Runner(path).run({x})[0], affine(x, kScale, kShift)));
}

TEST_CASE("a package is not disturbed by another that is being written in its place",
          "[container-runtime][weights]") {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "affine.pt2";
  const fs::path library = with_weights(directory.path());
  const std::vector<std::byte> weights(std::size_t{64} << 20, std::byte{1});
  const at::Tensor x = at::ones({2, 4});

  {
    const PackageWriter given_up(path, 4096, {weights});
    write_package(path, {.library = library});
  }

  CHECK(fs::file_size(path) < weights.size());
  CHECK(at::allclose(Runner(path).run({x})[0], affine(x, kScale, kShift)));
}

TEST_CASE("a package that is not finished leaves nothing behind", "[container-runtime][weights]") {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "affine.pt2";
  const std::vector<std::byte> weights(std::size_t{32} << 20);

  {
    const PackageWriter given_up(path, 4096, {weights});
  }
  CHECK(fs::is_empty(directory.path()));

  {
    PackageWriter writer(path, 4096, {weights});
    CHECK_THROWS_WITH(writer.finish({.library = test_model("affine")}),
                      contains("does not fit the space reserved in the package"));
  }
  CHECK(fs::is_empty(directory.path()));
}

TEST_CASE("weights in a package stay in it", "[container-runtime][weights]") {
  const TemporaryDirectory directory;
  const fs::path package = directory.path() / "affine.pt2";
  const fs::path library = with_weights(directory.path());
  write_package(package, {.library = library});
  const at::Tensor x = at::ones({2, 4});

  const UnpackedModel unpacked = open_package(package).unpack("model", directory.path());
  CHECK(unpacked.weights_offset.value_or(0) % 64 == 0);
  CHECK(fs::file_size(unpacked.library) == fs::file_size(library) - 128 - 64);
  Runner runner(package);
  CHECK(is_mapped(package));

  CHECK(at::allclose(runner.run({x})[0], affine(x, kScale, kShift)));
}

// What /proc/self/smaps says of the file's pages under `key`, in kB.
std::size_t kilobytes(const fs::path& file, const std::string& key) {
  std::ifstream smaps("/proc/self/smaps");
  std::size_t total = 0;
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    if (line.find('-') < line.find(' ')) {
      inside = line.ends_with(file.string());
    } else if (inside && line.starts_with(key + ":")) {
      total += std::stoul(line.substr(line.find_first_of("0123456789")));
    }
  }
  return total;
}

TEST_CASE("weights that nobody writes are no process's own", "[container-runtime][weights]") {
  const TemporaryDirectory directory;
  const fs::path package = directory.path() / "affine.pt2";
  write_package(package, {.library = with_weights(directory.path())});
  Runner runner(package);

  (void)runner.run({at::ones({2, 4})});

  REQUIRE(is_mapped(package));
  CHECK(kilobytes(package, "Anonymous") == 0);
}

// The test runs itself once more, as the other process.
TEST_CASE("processes share one copy of a package's weights", "[container-runtime][weights]") {
  if (const char* given = std::getenv("KILN_TEST_PACKAGE"); given != nullptr) {
    const fs::path package = given;
    Runner runner(package);
    (void)runner.run({at::ones({2, 4})});
    CHECK(kilobytes(package, "Shared_Clean") + kilobytes(package, "Shared_Dirty") > 0);
    CHECK(kilobytes(package, "Private_Clean") + kilobytes(package, "Private_Dirty") == 0);
    CHECK(kilobytes(package, "Pss") < kilobytes(package, "Rss"));
    return;
  }
  const TemporaryDirectory directory;
  const fs::path package = directory.path() / "affine.pt2";
  write_package(package, {.library = with_weights(directory.path())});
  Runner runner(package);
  (void)runner.run({at::ones({2, 4})});

  setenv("KILN_TEST_PACKAGE", package.c_str(), 1);
  const ProcessResult other = run_process({fs::read_symlink("/proc/self/exe").string(),
                                           "processes share one copy of a package's weights"});
  unsetenv("KILN_TEST_PACKAGE");

  INFO(other.output << other.error);
  CHECK(other.ok());
  CHECK_THAT(other.output, contains("3 assertions"));
}

TEST_CASE("two containers do not see each other's updates", "[container-runtime][weights]") {
  const TemporaryDirectory directory;
  const fs::path library = with_weights(directory.path());
  const at::Tensor x = at::ones({2, 4});
  Runner first(library);
  Runner second(library);

  first.update_constants({{"module.scale", at::full({4}, 7.0F)}}, {});

  CHECK(at::allclose(first.run({x})[0], affine(x, at::full({4}, 7.0F), kShift)));
  CHECK(at::allclose(second.run({x})[0], affine(x, kScale, kShift)));
}

TEST_CASE("a library that lost its weights says so", "[container-runtime][weights]") {
  const TemporaryDirectory directory;
  const fs::path library = with_weights(directory.path());

  SECTION("all of them") {
    CHECK_THROWS_WITH(Runner(test_model("affine_without_weights")), contains("cut or stripped"));
  }
  SECTION("the end") {
    fs::resize_file(library, fs::file_size(library) - 1);
    CHECK_THROWS_WITH(Runner(library), contains("cut or stripped"));
  }
}

}  // namespace
}  // namespace kiln::container_runtime
