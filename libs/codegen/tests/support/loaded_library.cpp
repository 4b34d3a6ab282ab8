#include "support/loaded_library.hpp"

#include <dlfcn.h>

#include <fstream>
#include <sstream>

#include "kiln/base/error.hpp"
#include "kiln/base/subprocess.hpp"
#include "kiln/codegen/target.hpp"

namespace kiln::codegen {

LoadedLibrary::LoadedLibrary(const std::string& text, const std::vector<std::string>& flags)
    : directory_("kiln-text") {
  const std::string source = (directory_.path() / "text.cpp").string();
  const std::string library = (directory_.path() / "text.so").string();
  std::ofstream(source) << text;
  std::vector<std::string> command{"g++", "-fno-math-errno", "-fno-trapping-math"};
  command.insert(command.end(), flags.begin(), flags.end());
  command.insert(command.end(), {"-shared", "-fPIC", source, "-o", library, "-lm"});
  std::istringstream words(resolve_target("native").compiler_flags);
  for (std::string word; words >> word;) {
    command.push_back(word);
  }
  const ProcessResult compiled = run_process(command);
  if (!compiled.ok()) {
    throw Error(ErrorCode::kInternal, "the text does not compile: " + compiled.error);
  }
  // Stays mapped: a library with OpenMP may be the only one that holds libgomp, whose threads wait
  // in it.
  handle_ = dlopen(library.c_str(), RTLD_NOW | RTLD_NODELETE);
  if (handle_ == nullptr) {
    throw Error(ErrorCode::kInternal, "the library cannot be loaded");
  }
}

LoadedLibrary::~LoadedLibrary() {
  dlclose(handle_);
}

void* LoadedLibrary::address(const std::string& name) const {
  void* const found = dlsym(handle_, name.c_str());
  if (found == nullptr) {
    throw Error(ErrorCode::kInternal, "there is no function " + name);
  }
  return found;
}

}  // namespace kiln::codegen
