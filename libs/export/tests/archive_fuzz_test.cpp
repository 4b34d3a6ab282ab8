// Whatever stands in an archive, it loads or is an `Error`.
//
// KILN_FUZZ_ARCHIVES is how many damaged archives to try, KILN_FUZZ_FIRST the first seed.

#include <sys/resource.h>
#include <torch/torch.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>

#include "edit_archive.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/export/archive.hpp"
#include "kiln/testing/catch2.hpp"
#include "zoo.hpp"

namespace kiln::exporter {
namespace {

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

// A size that was damaged may be any number: no more memory than this is there to be had.
class MemoryLimit {
 public:
  explicit MemoryLimit(rlim_t beyond) {
    getrlimit(RLIMIT_AS, &before_);
    std::ifstream statistics("/proc/self/statm");
    rlim_t pages = 0;
    statistics >> pages;
    rlimit limit = before_;
    limit.rlim_cur = pages * 4096 + beyond;
    setrlimit(RLIMIT_AS, &limit);
  }
  ~MemoryLimit() { setrlimit(RLIMIT_AS, &before_); }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  rlimit before_ = {};
};

class Damage {
 public:
  explicit Damage(std::uint64_t seed) : engine_(seed) {}

  std::size_t below(std::size_t limit) {
    return limit == 0 ? 0 : static_cast<std::size_t>(engine_() % limit);
  }

  // One to three changes.
  std::string operator()(std::string text) {
    for (std::size_t i = 0, changes = 1 + below(3); i < changes && !text.empty(); ++i) {
      change(text);
    }
    return text;
  }

 private:
  void change(std::string& text) {
    const std::size_t at = below(text.size());
    const std::size_t length = 1 + below(std::min<std::size_t>(24, text.size() - at));
    switch (below(6)) {
      case 0: text[at] = static_cast<char>(text[at] ^ (1 << below(8))); break;
      case 1: text.erase(at, length); break;
      case 2: text.insert(below(text.size()), text.substr(at, length)); break;
      case 3: number(text, at); break;
      case 4: word(text, at); break;
      default: text.resize(at); break;
    }
  }

  void number(std::string& text, std::size_t from) {
    static const std::vector<std::string> kNumbers = {
        "-1", "0", "1", "3", "4096", "2147483648", "-9223372036854775808", "1e400", "null"};
    const std::size_t begin = text.find_first_of("0123456789", from);
    if (begin == std::string::npos) {
      return;
    }
    const std::size_t end = text.find_first_not_of("0123456789", begin);
    text.replace(
        begin, end == std::string::npos ? end : end - begin, kNumbers[below(kNumbers.size())]);
  }

  // One quoted word in the place of another.
  void word(std::string& text, std::size_t from) {
    const auto quoted = [&](std::size_t start) {
      const std::size_t begin = text.find('"', start);
      const std::size_t end = begin == std::string::npos ? begin : text.find('"', begin + 1);
      return end == std::string::npos ? std::pair<std::size_t, std::size_t>(0, 0)
                                      : std::pair(begin, end + 1 - begin);
    };
    const auto [begin, length] = quoted(from);
    const auto [other, size] = quoted(below(text.size()));
    text.replace(begin, length, text.substr(other, size));
  }

  std::mt19937_64 engine_;
};

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
  const std::uint64_t first = setting("KILN_FUZZ_FIRST", 1);
  const std::uint64_t count = setting("KILN_FUZZ_ARCHIVES", 150);
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
