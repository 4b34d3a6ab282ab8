// Every file of tests/filetests/partitioner: a joint graph and the two graphs it is split into.
//
// With KILN_UPDATE_FILETESTS set in the environment the expectations are rewritten.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>

#include "joint_graphs.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/partitioner/min_cut.hpp"
#include "kiln/testing/catch2.hpp"

namespace kiln::partitioner {
namespace {

const std::map<std::string, std::function<Partition(const ir::Graph&)>> kRuns = {
    {"default", [](const ir::Graph& joint) { return default_partition(joint); }},
    {"min_cut", [](const ir::Graph& joint) { return min_cut_partition(joint); }},
};

// What follows "# run: " in the file's head.
std::string run_line(const std::string& text) {
  const std::string marker = "# run: ";
  const std::size_t start = text.find(marker);
  if (start == std::string::npos) {
    return "";
  }
  return text.substr(start + marker.size(), text.find('\n', start) - start - marker.size());
}

TEST_CASE("every file of joint graphs is split as it says", "[partitioner][file]") {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(KILN_FILETESTS)) {
    if (entry.path().extension() != ".kir") {
      continue;
    }
    ++files;
    INFO(entry.path().filename().string());
    const std::string text = read_text(entry.path());
    const std::string joint = parts_of(text).front();
    REQUIRE(kRuns.contains(run_line(text)));

    const Partition partition = kRuns.at(run_line(text))(ir::parse(joint));

    const std::string forward = ir::print(partition.forward);
    const std::string backward = ir::print(partition.backward);
    if (std::getenv("KILN_UPDATE_FILETESTS") != nullptr) {
      std::ofstream(entry.path()) << joint << "----\n" << forward << "----\n" << backward;
      continue;
    }
    const std::vector<std::string> parts = parts_of(text);
    REQUIRE(parts.size() == 3);
    CHECK(parts[1] == forward);
    CHECK(parts[2] == backward);
  }
  CHECK(files > 0);
}

}  // namespace
}  // namespace kiln::partitioner
