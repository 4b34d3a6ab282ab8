#include "shape_rules.hpp"

#include <map>
#include <string_view>
#include <vector>

#include "kiln/base/error.hpp"

namespace kiln::ir {
namespace {

// The operands of one call, with integers spread to as many dimensions as there are.
class Call {
 public:
  Call(const Graph& graph, const Node& node, ExprFitter& fitter)
      : graph_(graph), node_(node), fitter_(fitter) {}

  [[nodiscard]] const std::vector<Expr>* sizes(std::size_t argument) const {
    const auto* value = argument < node_.arguments.size()
                            ? std::get_if<ValueId>(&node_.arguments[argument])
                            : nullptr;
    return value != nullptr && value->valid() && graph_.value(*value).is_tensor()
               ? &graph_.tensor(*value).sizes
               : nullptr;
  }

  [[nodiscard]] std::vector<Expr> list(std::size_t argument, std::size_t count, Expr empty) const {
    const auto* given = argument < node_.arguments.size()
                            ? std::get_if<std::vector<Expr>>(&node_.arguments[argument])
                            : nullptr;
    if (given == nullptr || given->empty()) {
      return std::vector<Expr>(count, empty);
    }
    return given->size() == 1 ? std::vector<Expr>(count, given->front()) : *given;
  }

  [[nodiscard]] Expr integer(std::size_t argument, Expr absent) const {
    const auto* given =
        argument < node_.arguments.size() ? std::get_if<Expr>(&node_.arguments[argument]) : nullptr;
    return given == nullptr ? absent : *given;
  }

  [[nodiscard]] bool flag(std::size_t argument) const {
    const auto* given =
        argument < node_.arguments.size() ? std::get_if<bool>(&node_.arguments[argument]) : nullptr;
    return given != nullptr && *given;
  }

  [[nodiscard]] const Argument& argument(std::size_t position) const {
    return node_.arguments[position];
  }
  [[nodiscard]] const Graph& graph() const { return graph_; }
  void offer(const Expr& expr) { fitter_.offer(expr); }

 private:
  const Graph& graph_;
  const Node& node_;
  ExprFitter& fitter_;
};

// Positions of a window of `kernel` elements, `dilation` apart, that moves by `stride`.
struct Window {
  Expr kernel, stride, padding, dilation = 1;

  [[nodiscard]] Expr reach() const { return dilation * (kernel - 1) + 1; }
};

void offer_positions(Call& call, const Expr& size, const Window& window, bool round_up) {
  if (window.stride.constant().value_or(0) <= 0) {
    return;
  }
  const Expr room = size + window.padding * 2 - window.reach();
  const Expr rounded = round_up ? room + window.stride - 1 : room;
  call.offer(floor_div(rounded, window.stride) + 1);
}

void convolution(Call& call) {
  const auto* input = call.sizes(0);
  const auto* weight = call.sizes(1);
  if (input == nullptr || weight == nullptr || input->size() != weight->size() ||
      input->size() < 3) {
    return;
  }
  const std::size_t count = input->size() - 2;
  const auto stride = call.list(3, count, 1);
  const auto padding = call.list(4, count, 0);
  const auto dilation = call.list(5, count, 1);
  const auto output_padding = call.list(7, count, 0);
  for (std::size_t i = 0; i < count; ++i) {
    const Expr& size = (*input)[i + 2];
    const Window window{(*weight)[i + 2], stride[i], padding[i], dilation[i]};
    if (call.flag(6)) {
      call.offer((size - 1) * window.stride - window.padding * 2 + window.reach() +
                 output_padding[i]);
    } else {
      offer_positions(call, size, window, false);
    }
  }
}

// kernel_size, stride, padding and, if it has one, dilation; ceil_mode.
template <std::size_t kDimensions, std::size_t kDilation, std::size_t kCeilMode>
void pooling(Call& call) {
  const auto* input = call.sizes(0);
  if (input == nullptr || input->size() < kDimensions) {
    return;
  }
  const auto kernel = call.list(1, kDimensions, 1);
  const auto padding = call.list(3, kDimensions, 0);
  const auto dilation =
      kDilation == 0 ? std::vector<Expr>(kDimensions, 1) : call.list(kDilation, kDimensions, 1);
  for (std::size_t i = 0; i < kDimensions; ++i) {
    const auto stride = call.list(2, kDimensions, kernel[i]);
    offer_positions(call,
                    (*input)[input->size() - kDimensions + i],
                    {kernel[i], stride[i], padding[i], dilation[i]},
                    call.flag(kCeilMode));
  }
}

void slice(Call& call) {
  const auto* input = call.sizes(0);
  const auto dimension = call.integer(1, 0).constant();
  const auto step = call.integer(4, 1).constant();
  if (input == nullptr || !dimension || !step || *step <= 0) {
    return;
  }
  const auto rank = static_cast<std::int64_t>(input->size());
  const Expr& size = (*input)[static_cast<std::size_t>((*dimension + rank) % rank)];
  const auto from_end = [&](const Expr& position) {
    return position.constant().value_or(0) < 0 ? max(position + size, 0) : position;
  };
  const Expr start = from_end(call.integer(2, 0));
  const Expr end = from_end(call.integer(3, size));
  for (const Expr& stop : {size, end, min(end, size)}) {
    call.offer(ceil_div(stop - start, *step));
  }
}

void concatenation(Call& call) {
  const auto* values = std::get_if<std::vector<ValueId>>(&call.argument(0));
  const auto dimension = call.integer(1, 0).constant();
  if (values == nullptr || values->empty() || !dimension) {
    return;
  }
  Expr total = 0;
  for (const ValueId value : *values) {
    const std::vector<Expr>& sizes = call.graph().tensor(value).sizes;
    const auto rank = static_cast<std::int64_t>(sizes.size());
    if (rank > 0) {
      total = total + sizes[static_cast<std::size_t>((*dimension + rank) % rank)];
    }
  }
  call.offer(total);
}

void padding(Call& call) {
  const auto* input = call.sizes(0);
  const auto* pads = std::get_if<std::vector<Expr>>(&call.argument(1));
  if (input == nullptr || pads == nullptr) {
    return;
  }
  for (std::size_t i = 0; 2 * i + 1 < pads->size() && i < input->size(); ++i) {
    call.offer((*input)[input->size() - 1 - i] + (*pads)[2 * i] + (*pads)[2 * i + 1]);
  }
}

}  // namespace

void offer_result_sizes(const Graph& graph, const Node& node, ExprFitter& fitter) {
  static const std::map<std::string_view, void (*)(Call&)> kRules = {
      {"aten.convolution.default", convolution},
      {"aten.max_pool2d_with_indices.default", pooling<2, 4, 5>},
      {"aten.max_pool3d_with_indices.default", pooling<3, 4, 5>},
      {"aten.max_pool1d.default", pooling<1, 4, 5>},
      {"aten.avg_pool1d.default", pooling<1, 0, 4>},
      {"aten.avg_pool2d.default", pooling<2, 0, 4>},
      {"aten.avg_pool3d.default", pooling<3, 0, 4>},
      {"aten.slice.Tensor", slice},
      {"aten.cat.default", concatenation},
      {"aten.constant_pad_nd.default", padding},
      {"aten.reflection_pad1d.default", padding},
      {"aten.reflection_pad2d.default", padding},
      {"aten.replication_pad2d.default", padding},
  };
  if (const auto rule = kRules.find(node.target); rule != kRules.end()) {
    try {
      Call call(graph, node, fitter);
      rule->second(call);
    } catch (const Error&) {
      return;  // A number that no size can be: a slice that ends at the largest integer.
    }
  }
}

}  // namespace kiln::ir
