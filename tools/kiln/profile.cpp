#include "profile.hpp"

#include <ATen/record_function.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <tuple>
#include <utility>

#include "kiln/base/error.hpp"
#include "kiln/container_runtime/package.hpp"
#include "sizes.hpp"

namespace kiln::tool {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds(Clock::duration taken) {
  return std::chrono::duration<double, std::micro>(taken).count();
}

// Ranges of libtorch's own operators are called "aten::…", and are inside ours.
struct Range {
  std::string name;
  Clock::time_point begin, end;
};

std::vector<Range>* listener = nullptr;

struct RangeContext : at::ObserverContext {
  std::size_t index = 0;
};

std::unique_ptr<at::ObserverContext> begin_range(const at::RecordFunction& function) {
  const std::string_view name = function.name();
  if (listener == nullptr || name.find("::") != std::string_view::npos) {
    return nullptr;
  }
  auto context = std::make_unique<RangeContext>();
  context->index = listener->size();
  listener->push_back({std::string(name), Clock::now(), {}});
  return context;
}

void end_range(const at::RecordFunction&, at::ObserverContext* context) {
  if (listener != nullptr && context != nullptr) {
    (*listener)[static_cast<RangeContext*>(context)->index].end = Clock::now();
  }
}

// Hears the ranges of this thread as long as it lives.
class Listening {
 public:
  explicit Listening(std::vector<Range>& ranges)
      : handle_(at::addThreadLocalCallback(at::RecordFunctionCallback(begin_range, end_range))) {
    listener = &ranges;
  }
  ~Listening() {
    listener = nullptr;
    at::removeCallback(handle_);
  }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

 private:
  at::CallbackHandle handle_;
};

// Without the module: "aten.mm.default".
std::string target_of(const Plan::Step& step) {
  return step.target.substr(0, step.target.find(' '));
}

bool is_range_of(const Plan& plan, const Plan::Step& step, const std::string& name) {
  return step.is_kernel ? name.starts_with(plan.kernels[step.kernel].name + " ")
                        : name == target_of(step);
}

struct Call {
  double length_us = 0;
  std::vector<Interval> steps;
};

Call one_call(Model& model, const Plan& plan, const std::vector<at::Tensor>& inputs) {
  std::vector<Range> ranges;
  ranges.reserve(2 * plan.steps.size());
  const Clock::time_point start = Clock::now();
  {
    const Listening listening(ranges);
    (void)model.run(inputs);
  }
  Call call{microseconds(Clock::now() - start), {}};
  for (const Range& range : ranges) {
    if (call.steps.size() < plan.steps.size() &&
        is_range_of(plan, plan.steps[call.steps.size()], range.name)) {
      call.steps.push_back(
          {microseconds(range.begin - start), microseconds(range.end - range.begin)});
    }
  }
  if (call.steps.size() != plan.steps.size()) {
    throw Error(ErrorCode::kIncompatible,
                "the package has " + std::to_string(plan.steps.size()) +
                    " steps but the profiler recorded " + std::to_string(call.steps.size()));
  }
  return call;
}

bool runs_on_gpu(const Model& model) {
  const auto device = model.metadata().find("AOTI_DEVICE_KEY");
  return device != model.metadata().end() && device->second != "cpu";
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Operators, each once.
std::string operators_of(const Plan::Step& step) {
  std::vector<std::string> names;
  for (const std::string& node : step.nodes) {
    std::string name = node.substr(node.find('.') + 1);
    name = name.substr(0, name.find('.'));
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(name);
    }
  }
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

std::vector<ProfiledKernel> summarize(const Plan& plan, const std::vector<Call>& calls) {
  using Same = std::tuple<std::string, std::int64_t, std::int64_t>;
  std::map<Same, ProfiledKernel> kernels;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const Plan::Step& step = plan.steps[i];
    const std::string name = step.is_kernel ? plan.kernels[step.kernel].name : target_of(step);
    const std::int64_t bytes = step.bytes_read + step.bytes_written;
    ProfiledKernel& kernel = kernels[{name, bytes, step.operations}];
    kernel.name = name;
    kernel.what = step.is_kernel ? operators_of(step) : "";
    ++kernel.calls;
    kernel.bytes += static_cast<double>(bytes);
    kernel.operations += static_cast<double>(step.operations);
    std::vector<double> times;
    for (const Call& call : calls) {
      times.push_back(call.steps[i].length_us);
    }
    kernel.microseconds += median(std::move(times));
  }
  std::vector<ProfiledKernel> sorted;
  for (auto& [same, kernel] : kernels) {
    sorted.push_back(std::move(kernel));
  }
  std::ranges::stable_sort(sorted, std::ranges::greater{}, &ProfiledKernel::microseconds);
  return sorted;
}

}  // namespace

double ProfiledKernel::share_of(const Roofline& roofline) const {
  const double seconds = microseconds * 1e-6;
  return std::max(bytes / roofline.bytes_per_second, operations / roofline.operations_per_second) /
         seconds;
}

bool ProfiledKernel::is_bound_by_memory(const Roofline& roofline) const {
  return bytes / roofline.bytes_per_second >= operations / roofline.operations_per_second;
}

Plan plan_in(const std::string& package, const std::vector<at::Tensor>& inputs) {
  const std::string file = "extra/plan.json";
  if (package.ends_with(".pt2")) {
    const container_runtime::Package opened(package);
    if (std::ranges::find(opened.files(), file) != opened.files().end()) {
      return read_plan(opened.read(file), symbols_of(package, inputs));
    }
  }
  throw Error(
      ErrorCode::kInvalidArgument,
      package + " cannot be profiled; make a package with kiln compile --option profile=true");
}

Profile profile(Model& model, Plan plan, const std::vector<at::Tensor>& inputs, double seconds) {
  Profile result{.roofline = runs_on_gpu(model) ? std::nullopt : std::optional(measure_roofline()),
                 .plan = std::move(plan)};
  std::vector<Call> calls;
  (void)one_call(model, result.plan, inputs);
  const Clock::time_point begin = Clock::now();
  while (calls.size() < 5 || microseconds(Clock::now() - begin) < seconds * 1e6) {
    calls.push_back(one_call(model, result.plan, inputs));
  }
  result.calls = calls.size();
  std::vector<double> rests;
  for (const Call& call : calls) {
    double rest = call.length_us;
    for (const Interval& step : call.steps) {
      rest -= step.length_us;
    }
    rests.push_back(rest);
  }
  result.between_kernels_us = median(std::move(rests));
  result.kernels = summarize(result.plan, calls);
  std::ranges::sort(calls, {}, &Call::length_us);
  Call& typical = calls[calls.size() / 2];
  result.call_us = typical.length_us;
  result.timeline = std::move(typical.steps);
  return result;
}

}  // namespace kiln::tool
