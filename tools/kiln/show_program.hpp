// kiln inspect of what can be compiled: an exported program, or the dump of a compile.

#pragma once

#include <string>
#include <vector>

namespace kiln::tool {

struct ProgramArguments {
  std::string file;
  std::string svg, html;  ///< Where to draw, if anywhere.
  bool unfused = false;
  std::string stage;           ///< graph, loops, schedule or source; empty: the program itself.
  std::string isa = "native";  ///< That a stage is planned for.
  std::vector<std::string> arch = {};  ///< GPUs that a stage is planned for instead.
};

/// Shows an archive of `torch.export.save`. Returns the exit code.
int show_program(const ProgramArguments& arguments, bool json);

/// Shows what an archive is at one stage of a compile. Returns the exit code.
int show_stage(const ProgramArguments& arguments);

/// Shows one graph's folder in a KILN_DUMP directory. Returns the exit code.
int show_dump(const ProgramArguments& arguments, bool json);

}  // namespace kiln::tool
