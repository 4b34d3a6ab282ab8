// Compiles an arithmetic expression to machine code, once:
//
//   expression-compiler 'x*x + sin(y)' x=3 y=0      compiled: 9
//   expression-compiler 'x*x + sin(y)' x=1 y=0      from the cache: 1
//   expression-compiler 'a*a + sin(b)' a=2 b=0      from the cache: 4 (names do not matter)

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "kiln/autograd_cache/cache.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/subprocess.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "parser.hpp"

namespace {

using kiln::autograd_cache::Cache;
using kiln::autograd_cache::Entry;
using kiln::autograd_cache::Key;
using kiln::autograd_cache::KeyBuilder;

constexpr const char* kCompiler = "g++";
constexpr const char* kFlags = "-O2";

std::string compiler_version() {
  return kiln::run_process({kCompiler, "-dumpfullversion", "-dumpmachine"}).output;
}

Entry compile(const Expression& expression, const kiln::TemporaryDirectory& scratch) {
  const auto source = scratch.path() / "expression.cpp";
  const auto library = scratch.path() / "expression.so";
  kiln::write_file_atomically(source,
                              "#include <cmath>\nextern \"C\" double evaluate(const double* v) {\n"
                              "  using namespace std;\n  (void)v;\n  return " +
                                  expression.source + ";\n}\n");
  const kiln::ProcessResult result = kiln::run_process(
      {kCompiler, kFlags, "-shared", "-fPIC", source.string(), "-o", library.string()});
  if (!result.ok()) {
    throw std::runtime_error("the compiler failed: " + result.error);
  }
  return {.guards = {}, .blobs = {}, .files = {{"library", library}}};
}

double evaluate(const std::filesystem::path& library, const std::vector<double>& values) {
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    throw std::runtime_error(::dlerror());
  }
  auto* const function = reinterpret_cast<double (*)(const double*)>(::dlsym(handle, "evaluate"));
  const double result = function(values.data());
  ::dlclose(handle);
  return result;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    if (count < 2) {
      throw std::invalid_argument("usage: expression-compiler EXPRESSION [NAME=VALUE...]");
    }
    const Expression expression = parse(arguments[1]);
    std::map<std::string, double> named;
    for (int i = 2; i < count; ++i) {
      const std::string pair = arguments[i];
      named[pair.substr(0, pair.find('='))] = std::atof(pair.c_str() + pair.find('=') + 1);
    }
    std::vector<double> values;
    for (const std::string& name : expression.variables) {
      values.push_back(named.at(name));
    }

    Cache cache;  // $KILN_CACHE_DIR, $KILN_CACHE, $KILN_CACHE_REMOTE: all of it is here too.
    const Key key = KeyBuilder()
                        .add("expression", expression.source)
                        .add("compiler", compiler_version())
                        .add("flags", kFlags)
                        .build();
    const kiln::TemporaryDirectory scratch("expression");
    const Cache::Obtained obtained =
        cache.obtain(key, {}, [&] { return compile(expression, scratch); });
    std::printf("%s: %g\n",
                obtained.hit ? "from the cache" : "compiled",
                evaluate(obtained.entry.files.at("library"), values));
    return 0;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "expression-compiler: %s\n", failure.what());
    return 1;
  }
}
