// Damaged packages: what is compared with a checksum, and what is said of it.

#include <sys/resource.h>

#include <optional>
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

const at::Tensor kWeights = at::full({32}, 3.0F);  // scale, shift, and what is between them

struct Sample {
  TemporaryDirectory directory = TemporaryDirectory();
  fs::path package = directory.path() / "affine.pt2";
  std::string bytes = {};
  std::size_t code = 0;     // Where the library begins in it,
  std::size_t weights = 0;  // and where its weights do.

  Sample() {
    const fs::path library = test_model("affine_without_weights");
    const KilnWeightsTrailer trailer{KILN_WEIGHTS_MAGIC, 128, {}};
    const std::vector<std::byte> padding((64 - fs::file_size(library) % 64) % 64);
    const std::span values(static_cast<const float*>(kWeights.const_data_ptr()), 32);
    write_package(
        package,
        {.library = library,
         .weights = {padding, std::as_bytes(values), std::as_bytes(std::span(&trailer, 1))}});
    bytes = read_file(package);
    code = bytes.find(
        "\x7f"
        "ELF");
    weights = bytes.rfind(KILN_WEIGHTS_MAGIC) - 128;  // The code has those words, too.
  }

  void flip(std::size_t position, unsigned char bit = 1) {
    std::string damaged = bytes;
    damaged.at(position) = static_cast<char>(damaged.at(position) ^ bit);
    write_file_atomically(package, damaged);
  }

  // What loading it says, if it does not load.
  [[nodiscard]] std::optional<Error> failure(bool verify_weights = false) const {
    try {
      const Runner runner(package, {.verify_weights = verify_weights});
      return std::nullopt;
    } catch (const Error& error) {
      return error;
    }
  }
};

TEST_CASE("a package whose code is damaged is refused, whichever bit it is",
          "[container-runtime][damage]") {
  Sample sample;
  REQUIRE_FALSE(sample.failure());

  for (std::size_t i = 0; i < 64; ++i) {
    sample.flip(sample.code + i * (sample.weights - sample.code) / 64, 1U << (i % 8));

    const std::optional<Error> failure = sample.failure();

    REQUIRE(failure);
    CHECK(failure->code() == ErrorCode::kCorrupt);
    CHECK_THAT(failure->what(), contains("model.wrapper.so is damaged"));
    CHECK_THAT(failure->what(), contains(sample.package.string()));
  }
}

TEST_CASE("weights are compared on request", "[container-runtime][damage]") {
  Sample sample;
  CHECK_FALSE(sample.failure(true));
  sample.flip(sample.weights + 6, 0x10);

  const std::optional<Error> failure = sample.failure(true);

  CHECK_FALSE(sample.failure(false));
  REQUIRE(failure);
  CHECK(failure->code() == ErrorCode::kCorrupt);
  CHECK_THAT(failure->what(), contains("model.wrapper.so is damaged"));
}

TEST_CASE("metadata that is damaged is refused by its name", "[container-runtime][damage]") {
  Sample sample;
  sample.flip(sample.bytes.find("AOTI_DEVICE_KEY"), 0x20);

  const std::optional<Error> failure = sample.failure();

  REQUIRE(failure);
  CHECK(failure->code() == ErrorCode::kCorrupt);
  CHECK_THAT(failure->what(), contains("model.wrapper_metadata.json is damaged"));
}

TEST_CASE("the end of the weights and their number are part of the code",
          "[container-runtime][damage]") {
  Sample sample;
  const std::size_t trailer = sample.weights + 128;

  for (const std::size_t position : {trailer, trailer + 15, trailer + 16, trailer + 23}) {
    sample.flip(position, 0x40);
    const std::optional<Error> failure = sample.failure();

    REQUIRE(failure);
    CHECK(failure->code() == ErrorCode::kCorrupt);
  }
}

TEST_CASE("weights that nobody asks for are not read", "[container-runtime][damage]") {
  const TemporaryDirectory directory;
  const fs::path package = directory.path() / "large.pt2";
  const std::vector<std::byte> many(std::size_t{64} << 20, std::byte{1});
  const KilnWeightsTrailer trailer{KILN_WEIGHTS_MAGIC, many.size(), {}};
  write_package(
      package,
      {.library = test_model("affine"), .weights = {many, std::as_bytes(std::span(&trailer, 1))}});
  // Pages that this process touched for the first time.
  const auto faults = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt + usage.ru_majflt;
  };
  const auto unpack = [&](bool verify_weights) {
    const long before = faults();
    (void)open_package(package).unpack(
        "model", directory.path(), {.verify_weights = verify_weights});
    return faults() - before;
  };

  const long without = unpack(false);
  const long with = unpack(true);

  // Even where the system maps two megabytes at a time there are 32 of them.
  CHECK(with - without >= 16);
}

TEST_CASE("a folder that a package was unpacked into is compared likewise",
          "[container-runtime][damage]") {
  const Sample sample;
  const fs::path folder = sample.directory.path() / "unpacked/data/aotinductor/model";
  const fs::path library = folder / "model.wrapper.so";
  fs::create_directories(folder);
  const Package package = open_package(sample.package);
  const std::string record = package.read("data/aotinductor/model/model.wrapper.so");
  (void)package.unpack("model", folder);
  const auto load = [&](std::size_t damaged, bool verify_weights) {
    std::string bytes = record;
    if (damaged != 0) {
      bytes.at(damaged) = static_cast<char>(bytes.at(damaged) ^ 1);
    }
    write_file_atomically(library, bytes);
    const Runner runner(sample.directory.path() / "unpacked", {.verify_weights = verify_weights});
  };
  const std::size_t weight = sample.weights - sample.code + 4;

  load(0, true);
  load(weight, false);

  CHECK_THROWS_WITH(load(weight, true), contains("model.wrapper.so is damaged"));
  CHECK_THROWS_WITH(load(4096, false), contains("model.wrapper.so is damaged"));
}

TEST_CASE("what has no checksum cannot be verified, and says so", "[container-runtime][damage]") {
  const RunnerOptions options{.verify_weights = true};

  CHECK_THROWS_WITH(Runner(test_model("affine"), options), contains("cannot be verified"));
}

TEST_CASE("a package that was deflated is compared, too", "[container-runtime][damage]") {
  const Sample sample;
  const fs::path zipped = sample.directory.path() / "zipped.pt2";
  const std::string script =
      "import sys, zipfile\n"
      "source, target = zipfile.ZipFile(sys.argv[1]), zipfile.ZipFile(sys.argv[2], 'w')\n"
      "for entry in source.infolist():\n"
      "    target.writestr(entry.filename, source.read(entry), zipfile.ZIP_DEFLATED)\n"
      "target.close()\n";
  REQUIRE(run_process({"python3", "-c", script, sample.package.string(), zipped.string()}).ok());
  const at::Tensor x = at::ones({2, 4});
  const at::Tensor expected = Runner(sample.package).run({x})[0];

  CHECK(Runner(zipped, {.verify_weights = true}).run({x})[0].equal(expected));

  std::string bytes = read_file(zipped);
  bytes.at(bytes.size() / 3) = static_cast<char>(bytes.at(bytes.size() / 3) ^ 4);
  write_file_atomically(zipped, bytes);
  CHECK_THROWS_WITH(Runner(zipped), contains("model.wrapper.so is damaged"));
}

TEST_CASE("a runner and a package that were moved from say so", "[container-runtime][damage]") {
  Runner runner(test_model("affine"));
  const Runner taken = std::move(runner);
  const Sample sample;
  Package package = open_package(sample.package);
  const Package moved = std::move(package);

  CHECK_THROWS_WITH(runner.run({at::ones({2, 4})}), contains("moved to another"));  // NOLINT
  CHECK_THROWS_AS(runner.input_names(), Error);
  CHECK_THROWS_AS(package.files(), Error);  // NOLINT
  CHECK(taken.input_names().size() == 1);
  CHECK_FALSE(moved.files().empty());
}

}  // namespace
}  // namespace kiln::container_runtime
