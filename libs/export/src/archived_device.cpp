#include "archived_device.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "kiln/base/error.hpp"

namespace kiln::exporter {
namespace {

constexpr const char* kGpu = "cuda";

// Attention that only a GPU has, whose arguments have the names of the general operator's, but for
// the mask's. Its other results serve a backward.
constexpr std::array<std::string_view, 3> kGpuAttention = {
    "torch.ops.aten._scaled_dot_product_flash_attention.default",
    "torch.ops.aten._scaled_dot_product_efficient_attention.default",
    "torch.ops.aten._scaled_dot_product_cudnn_attention.default"};
constexpr const char* kAttention = "torch.ops.aten.scaled_dot_product_attention.default";
constexpr std::array<std::string_view, 7> kAttentionArguments = {
    "query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale"};

constexpr const char* kAutocast = "torch.ops.higher_order.wrap_with_autocast";

void generalize_attention(Json& node) {
  Json arguments = Json::array();
  for (Json& input : node.at("inputs")) {
    if (input.at("name") == "attn_bias") {
      input["name"] = "attn_mask";
    }
    const auto& name = input.at("name").get_ref<const std::string&>();
    if (std::ranges::find(kAttentionArguments, name) != kAttentionArguments.end()) {
      arguments.push_back(std::move(input));
    }
  }
  node["target"] = kAttention;
  node["inputs"] = std::move(arguments);
  node["outputs"] = Json::array({node.at("outputs").at(0)});
}

// The CPU's autocast has other lists of operators.
void refuse_autocast(const Json& node) {
  const Json& inputs = node.at("inputs");
  if (inputs.at(0).at("arg").value("as_string", "") == kGpu &&
      inputs.at(2).at("arg").value("as_bool", true)) {
    throw Error(ErrorCode::kUnsupported,
                "a region of torch.autocast(\"cuda\") cannot be traced on the CPU, where autocast "
                "casts for other operators: give the model the type instead (model.bfloat16())");
  }
}

class Mover {
 public:
  // Indices of the GPUs that were mentioned.
  const std::set<std::int64_t>& indices() const { return indices_; }
  bool found() const { return found_; }

  void move(Json& json) {
    if (json.is_array()) {
      std::ranges::for_each(json, [&](Json& item) { move(item); });
    } else if (json.is_object()) {
      if (const auto target = json.find("target"); target != json.end() && target->is_string()) {
        move_node(json, target->get_ref<const std::string&>());
      }
      for (auto member = json.begin(); member != json.end(); ++member) {
        const bool is_device = member.key() == "device" || member.key() == "as_device";
        is_device && member->is_object() ? move_device(*member) : move(*member);
      }
    }
  }

 private:
  static void move_node(Json& node, const std::string& target) {
    if (std::ranges::find(kGpuAttention, target) != kGpuAttention.end()) {
      generalize_attention(node);
    } else if (target == kAutocast) {
      refuse_autocast(node);
    }
  }

  void move_device(Json& device) {
    const c10::Device read = read_device(device);
    if (!read.is_cuda()) {
      return;
    }
    found_ = true;
    if (read.has_index()) {
      indices_.insert(read.index());
    }
    device = write_device(c10::kCPU);
  }

  std::set<std::int64_t> indices_;
  bool found_ = false;
};

void require_on_gpu(const Json& graph, const Json& argument, const char* role) {
  const auto [tag, value] = read_union(argument);
  if (tag != "as_tensor") {
    return;
  }
  const auto& name = value.at("name").get_ref<const std::string&>();
  const c10::Device device = read_device(graph.at("tensor_values").at(name).at("device"));
  if (!device.is_cuda()) {
    throw Error(ErrorCode::kUnsupported,
                "the " + std::string(role) + " '" + name + "' is on " + device.str() +
                    " in a program for a GPU: a program of several devices cannot be compiled");
  }
}

void require_one_device(const Json& graph_module) {
  const Json& graph = graph_module.at("graph");
  const Json& signature = graph_module.at("signature");
  for (const Json& spec : signature.at("input_specs")) {
    if (const auto [tag, value] = read_union(spec); tag == "user_input") {
      require_on_gpu(graph, value.at("arg"), "input");
    }
  }
  for (const Json& spec : signature.at("output_specs")) {
    if (const auto [tag, value] = read_union(spec); tag == "user_output") {
      require_on_gpu(graph, value.at("arg"), "result");
    }
  }
}

// "cuda:0, cuda:1"
std::string list_of(const std::set<std::int64_t>& indices) {
  std::string list;
  for (const std::int64_t index : indices) {
    list += (list.empty() ? "cuda:" : ", cuda:") + std::to_string(index);
  }
  return list;
}

}  // namespace

bool may_mention_gpu(const std::string& model) {
  return model.find('"' + std::string(kGpu) + '"') != std::string::npos;
}

ir::DeviceType move_to_cpu(Json& graph_module) {
  const Json before = graph_module;
  Mover mover;
  mover.move(graph_module);
  if (!mover.found()) {
    graph_module = before;  // A program of the CPU may mention the attention of a GPU: as it is.
    return ir::DeviceType::kCpu;
  }
  if (mover.indices().size() > 1) {
    throw Error(ErrorCode::kUnsupported,
                "the program's tensors are on " + list_of(mover.indices()) +
                    ": a program of several devices cannot be compiled");
  }
  require_one_device(before);
  return ir::DeviceType::kCuda;
}

}  // namespace kiln::exporter
