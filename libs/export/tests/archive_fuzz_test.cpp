// Whatever stands in an archive, it loads or is an `Error`.
//
// KILN_FUZZ_ARCHIVES is how many damaged archives to try, KILN_FUZZ_FIRST the first seed.

#include <torch/torch.h>

#include <cstdint>
#include <string>

#include "edit_archive.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/export/archive.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/damage.hpp"
#include "zoo.hpp"

namespace kiln::exporter {
namespace {

using testing::Damage;
using testing::MemoryLimit;

// Loads `damaged`; an exception that is no `Error` fails the test.
bool loads(const std::filesystem::path& damaged) {
  std::string unexpected;
  bool loaded = false;
  try {
    static_cast<void>(load_program(damaged));
    loaded = true;
  } catch (const Error&) {
  } catch (const std::exception& error) {
    unexpected = error.what();
  }
  CHECK(unexpected.empty());
  return loaded;
}

// Calls `attempt(damage)` for every seed that is asked for; not all may have loaded.
template <class Attempt>
void with_every_seed(Attempt&& attempt) {
  const std::uint64_t first = testing::setting("KILN_FUZZ_FIRST", 1);
  const std::uint64_t count = testing::setting("KILN_FUZZ_ARCHIVES", 150);
  const MemoryLimit limit(rlim_t{2} << 30);
  std::uint64_t loaded = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    INFO("seed " << seed);
    Damage damage(seed);
    loaded += static_cast<std::uint64_t>(attempt(damage));
  }
  CHECK((count == 1 || loaded < count));
}

TEST_CASE("damaged programs, weights and samples load or are an error", "[export][archive_fuzz]") {
  const std::vector<std::string> programs = {"mlp", "nested", "modes", "dynamic", "branches"};
  const std::vector<std::string> records = {"models/model.json",
                                            "models/model.json",
                                            "data/weights/model_weights_config.json",
                                            "data/sample_inputs/model.pt"};
  const TemporaryDirectory folder;
  const std::filesystem::path damaged = folder.path() / "damaged.pt2";

  with_every_seed([&](Damage& damage) {
    const std::string& program = programs[damage.below(programs.size())];
    const std::string& record = records[damage.below(records.size())];
    edit_archive(zoo_archive(program), damaged, record, damage);
    INFO(program << ", " << record);
    return loads(damaged);
  });
}

TEST_CASE("damaged zip files load or are an error", "[export][archive_fuzz]") {
  const TemporaryDirectory folder;
  const std::filesystem::path damaged = folder.path() / "damaged.pt2";
  const std::string whole = read_file(zoo_archive("mlp"));

  with_every_seed([&](Damage& damage) {
    // Half of them in the directory of the zip, at its end, where all offsets and sizes are.
    const std::size_t kept = damage.below(2) == 0 ? 0 : whole.size() - whole.size() / 8;
    write_file_atomically(damaged, whole.substr(0, kept) + damage(whole.substr(kept)));
    return loads(damaged);
  });
}

}  // namespace
}  // namespace kiln::exporter
