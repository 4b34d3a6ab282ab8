#include "kiln/base/log.hpp"

#include <cstdlib>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "kiln/testing/catch2.hpp"
#include "kiln/testing/standard_error.hpp"

namespace kiln {
namespace {

using testing::standard_error_of;

// Set before the first message, when it is read: the tests do not depend on the caller's.
[[maybe_unused]] const int kLogged = ::setenv("KILN_LOG", "warning", /*overwrite=*/1);

TEST_CASE("without a filter, warnings and errors are said", "[base][log]") {
  const LogFilter filter("");
  CHECK(filter.enabled(LogLevel::kError, "codegen"));
  CHECK(filter.enabled(LogLevel::kWarning, "codegen"));
  CHECK_FALSE(filter.enabled(LogLevel::kInfo, "codegen"));
}

TEST_CASE("a filter sets the level of all, and of one component", "[base][log]") {
  const LogFilter filter("error,codegen=debug,ir=off");
  CHECK_FALSE(filter.enabled(LogLevel::kWarning, "export"));
  CHECK(filter.enabled(LogLevel::kError, "export"));
  CHECK(filter.enabled(LogLevel::kDebug, "codegen"));
  CHECK_FALSE(filter.enabled(LogLevel::kError, "ir"));

  CHECK_FALSE(LogFilter("off").enabled(LogLevel::kError, "ir"));
  CHECK_FALSE(LogFilter("debug").enabled(LogLevel::kOff, "ir"));
}

TEST_CASE("parts of a filter that mean nothing are passed over", "[base][log]") {
  const LogFilter filter("loud,,codegen=louder,=,ir=info,");
  CHECK(filter.enabled(LogLevel::kWarning, "codegen"));
  CHECK_FALSE(filter.enabled(LogLevel::kInfo, "codegen"));
  CHECK(filter.enabled(LogLevel::kInfo, "ir"));
}

TEST_CASE("a message is one line with its level and component", "[base][log]") {
  const std::string said =
      standard_error_of([] { KILN_LOG(kError, "base", "disk " << 1 << " is full"); });
  CHECK(said == "kiln: base: error: disk 1 is full\n");
}

TEST_CASE("a message that nobody wants is not even built", "[base][log]") {
  const bool wanted = log_enabled(LogLevel::kDebug, "base");
  int built = 0;
  const std::string said = standard_error_of([&] { KILN_LOG(kDebug, "base", ++built); });
  CHECK(built == (wanted ? 1 : 0));
  CHECK(said.empty() == !wanted);
}

TEST_CASE("lines of several threads do not mix", "[base][log]") {
  const std::string said = standard_error_of([] {
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([thread] {
        for (int i = 0; i < 100; ++i) {
          KILN_LOG(kError, "base", std::string(200, static_cast<char>('a' + thread)));
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  });

  std::istringstream stream(said);
  std::set<std::string> kinds;
  int lines = 0;
  for (std::string line; std::getline(stream, line); ++lines) {
    kinds.insert(line);
  }
  CHECK(lines == 400);
  CHECK(kinds.size() == 4);
}

}  // namespace
}  // namespace kiln
