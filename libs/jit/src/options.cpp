#include "kiln/jit/options.hpp"

namespace kiln {
namespace {

CompileOptions& of_this_thread() {
  thread_local CompileOptions options;
  return options;
}

}  // namespace

std::string_view to_string(Stage stage) {
  switch (stage) {
    case Stage::kTrace: return "trace";
    case Stage::kSchedule: return "schedule";
    case Stage::kKernels: return "kernels";
    case Stage::kLink: return "link";
    case Stage::kLoad: return "load";
  }
  return "unknown";
}

std::string_view to_string(Origin origin) {
  switch (origin) {
    case Origin::kTraced: return "traced";
    case Origin::kCachedTrace: return "trace found in the cache";
    case Origin::kCached: return "found in the cache";
    case Origin::kEager: return "eager";
  }
  return "unknown";
}

const CompileOptions& default_options() {
  return of_this_thread();
}

DefaultOptions::DefaultOptions(CompileOptions options)
    : previous_(std::exchange(of_this_thread(), std::move(options))) {}

DefaultOptions::~DefaultOptions() {
  of_this_thread() = std::move(previous_);
}

}  // namespace kiln
