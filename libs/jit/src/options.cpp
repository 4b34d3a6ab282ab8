#include "kiln/jit/options.hpp"

namespace kiln {
namespace {

CompileOptions& of_this_thread() {
  thread_local CompileOptions options;
  return options;
}

}  // namespace

const CompileOptions& default_options() {
  return of_this_thread();
}

DefaultOptions::DefaultOptions(CompileOptions options)
    : previous_(std::exchange(of_this_thread(), std::move(options))) {}

DefaultOptions::~DefaultOptions() {
  of_this_thread() = std::move(previous_);
}

}  // namespace kiln
