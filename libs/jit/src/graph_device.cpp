#include "graph_device.hpp"

#include <algorithm>

#include "kiln/base/error.hpp"

namespace kiln {
namespace {

const ir::Value* find_on_gpu(const ir::Graph& graph) {
  const auto found = std::ranges::find_if(graph.values(), [](const ir::Value& value) {
    return value.is_tensor() && value.tensor().device.type == ir::DeviceType::kCuda;
  });
  return found == graph.values().end() ? nullptr : &*found;
}

void refuse(const ir::Value& one, const ir::Value& other) {
  const auto place = [](const ir::Value& value) {
    return "%" + value.name + " is on " + to_string(value.tensor().device);
  };
  throw Error(
      ErrorCode::kUnsupported,
      place(one) + " and " + place(other) + ": a function of several devices cannot be compiled");
}

}  // namespace

GraphDevice device_of_graph(const ir::Graph& graph) {
  const ir::Value* const on_gpu = find_on_gpu(graph);
  if (on_gpu == nullptr) {
    return {};
  }
  const ir::Device device = on_gpu->tensor().device;
  // What is computed of numbers of the CPU may as well be computed on the GPU, if nobody sees it.
  const auto is_number = [](const ir::Value& value) {
    return value.tensor().device.type == ir::DeviceType::kCpu && value.tensor().sizes.empty();
  };
  for (const ir::Value& value : graph.values()) {
    if (value.is_tensor() && value.tensor().device.type != ir::DeviceType::kMeta &&
        value.tensor().device != device && !is_number(value)) {
      refuse(*on_gpu, value);
    }
  }
  for (const ir::Output& output : graph.outputs()) {
    if (output.value.valid() && graph.value(output.value).is_tensor() &&
        is_number(graph.value(output.value))) {
      refuse(*on_gpu, graph.value(output.value));
    }
  }
  GraphDevice result{.name = to_string(device), .numbers = {}};
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const ir::Value& value = graph.value(graph.inputs()[i].value);
    if (value.is_tensor() && is_number(value)) {
      result.numbers.push_back(static_cast<std::uint32_t>(i));
    }
  }
  return result;
}

}  // namespace kiln
