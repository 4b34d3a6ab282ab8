#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "json_text.hpp"
#include "profile.hpp"

namespace kiln::tool {
namespace {

using nlohmann::ordered_json;

template <class... Values>
std::string formatted(const char* format, Values... values) {
  char line[256];
  const int length = std::snprintf(line, sizeof line, format, values...);
  return std::string(line, std::min(static_cast<std::size_t>(length), sizeof line - 1));
}

double per_second(double count, double microseconds) {
  return count / (microseconds * 1e-6);
}

std::string shortened(const std::string& text, std::size_t most) {
  return text.size() <= most ? text : text.substr(0, most - 3) + "...";
}

std::string describe_roofline(const std::optional<Roofline>& roofline) {
  if (!roofline) {
    return "on a GPU kernels run after the step that launches them: times are those of the "
           "launches\n";
  }
  return formatted("roofline, %d thread%s: %.1f GB/s, %.1f GFLOP/s\n",
                   roofline->threads,
                   roofline->threads == 1 ? "" : "s",
                   roofline->bytes_per_second * 1e-9,
                   roofline->operations_per_second * 1e-9);
}

const char* limit_of(const ProfiledKernel& kernel, const Roofline& roofline) {
  return kernel.is_bound_by_memory(roofline) ? "memory" : "arithmetic";
}

std::string reached_of(const ProfiledKernel& kernel, const std::optional<Roofline>& roofline) {
  return roofline
             ? formatted("%.0f%% %s", 100 * kernel.share_of(*roofline), limit_of(kernel, *roofline))
             : "";
}

}  // namespace

std::string to_table(const Profile& profile) {
  std::string text = describe_roofline(profile.roofline);
  text += formatted("one call: %.1f us (median of %zu), of it between the kernels: %.1f us\n\n",
                    profile.call_us,
                    profile.calls,
                    profile.between_kernels_us);
  text += formatted("%9s %6s %6s %8s %8s %8s  %-14s %s\n",
                    "us",
                    "share",
                    "calls",
                    "MB",
                    "GB/s",
                    "GFLOP/s",
                    "of roofline",
                    "kernel");
  for (const ProfiledKernel& kernel : profile.kernels) {
    const std::string name = kernel.what.empty() ? kernel.name : kernel.name + " " + kernel.what;
    text += formatted("%9.1f %5.1f%% %6zu %8.2f %8.1f %8.1f  %-14s %s\n",
                      kernel.microseconds,
                      100 * kernel.microseconds / profile.call_us,
                      kernel.calls,
                      kernel.bytes * 1e-6,
                      per_second(kernel.bytes, kernel.microseconds) * 1e-9,
                      per_second(kernel.operations, kernel.microseconds) * 1e-9,
                      reached_of(kernel, profile.roofline).c_str(),
                      shortened(name, 80).c_str());
  }
  return text;
}

std::string to_json(const Profile& profile) {
  ordered_json kernels = ordered_json::array();
  for (const ProfiledKernel& kernel : profile.kernels) {
    ordered_json row = {
        {"name", kernel.name},
        {"operators", kernel.what},
        {"calls", kernel.calls},
        {"us", kernel.microseconds},
        {"bytes", kernel.bytes},
        {"operations", kernel.operations},
        {"bytes_per_second", per_second(kernel.bytes, kernel.microseconds)},
        {"operations_per_second", per_second(kernel.operations, kernel.microseconds)}};
    if (profile.roofline) {
      row["share_of_roofline"] = kernel.share_of(*profile.roofline);
      row["bound_by"] = limit_of(kernel, *profile.roofline);
    }
    kernels.push_back(std::move(row));
  }
  ordered_json object = ordered_json::object();
  if (profile.roofline) {
    object["threads"] = profile.roofline->threads;
    object["roofline_bytes_per_second"] = profile.roofline->bytes_per_second;
    object["roofline_operations_per_second"] = profile.roofline->operations_per_second;
  }
  object["call_us"] = profile.call_us;
  object["calls"] = profile.calls;
  object["between_kernels_us"] = profile.between_kernels_us;
  object["kernels"] = std::move(kernels);
  return json_text(object);
}

std::string to_trace(const Profile& profile) {
  ordered_json events = ordered_json::array();
  const auto add = [&](const std::string& name, const Interval& interval, ordered_json arguments) {
    events.push_back({{"name", name},
                      {"ph", "X"},
                      {"pid", 1},
                      {"tid", 1},
                      {"ts", interval.start_us},
                      {"dur", interval.length_us},
                      {"args", std::move(arguments)}});
  };
  add(profile.plan.graph, {0, profile.call_us}, {{"steps", profile.timeline.size()}});
  for (std::size_t i = 0; i < profile.timeline.size(); ++i) {
    const Plan::Step& step = profile.plan.steps[i];
    const Interval& interval = profile.timeline[i];
    const auto bytes = static_cast<double>(step.bytes_read + step.bytes_written);
    const auto operations = static_cast<double>(step.operations);
    add(step.is_kernel ? profile.plan.kernels[step.kernel].name : step.target,
        interval,
        {{"operators", step.nodes},
         {"bytes", bytes},
         {"operations", operations},
         {"GB/s", per_second(bytes, interval.length_us) * 1e-9},
         {"GFLOP/s", per_second(operations, interval.length_us) * 1e-9}});
  }
  return json_text(ordered_json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}, -1) + "\n";
}

}  // namespace kiln::tool
