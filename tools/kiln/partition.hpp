// kiln inspect --partition: what a training step of the program would save.

#pragma once

#include <string>

namespace kiln::tool {

struct PartitionArguments {
  std::string file;  ///< A joint graph (.kir) or an archive (.pt2).
  std::string svg;   ///< Where to draw it, if anywhere.
  double budget = 1.0;
  bool json = false;
};

/// Splits the joint graph and prints what is saved and why. Returns the exit code.
int show_partition(const PartitionArguments& arguments);

}  // namespace kiln::tool
