// Bars, on a terminal and as SVG.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kiln::demo {

/// One bar: a name and how long it took.
struct Bar {
  std::string name;
  double milliseconds = 0;
  bool ours = false;
};

/// A group of bars that share an axis.
struct Panel {
  std::string title;
  std::vector<Bar> bars;
};

/// "12.3 ms", "4.5 s", "780 us"
[[nodiscard]] std::string describe_time(double milliseconds);

/// The panels as text.
void print_chart(const std::vector<Panel>& panels);

/// The panels as a picture.
void write_chart(const std::vector<Panel>& panels, const std::filesystem::path& svg);

}  // namespace kiln::demo
