#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "edit_archive.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/export/archive.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/ir/retarget.hpp"
#include "kiln/testing/catch2.hpp"
#include "zoo.hpp"

namespace kiln::exporter {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::string_view kCpu = R"({"type": "cpu", "index": null})";
constexpr std::string_view kGpu = R"({"type": "cuda", "index": 0})";

std::string replace_each(std::string text, std::string_view from, std::string_view to) {
  REQUIRE(text.find(from) != std::string::npos);
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

std::string on_gpu(std::string model) {
  return replace_each(std::move(model), kCpu, kGpu);
}

// An archive of the zoo as it would be had its program been exported on a GPU.
class ArchiveOfGpu {
 public:
  explicit ArchiveOfGpu(const std::string& name,
                        const std::function<std::string(std::string)>& edit = on_gpu)
      : path_(directory_.path() / "gpu.pt2") {
    edit_archive(zoo_archive(name), path_, "models/model.json", edit);
  }
  const fs::path& path() const { return path_; }

 private:
  TemporaryDirectory directory_;
  fs::path path_;
};

TEST_CASE("an archive of a GPU gives the graph of the CPU's, retargeted", "[export][device]") {
  const std::string name = GENERATE("mlp",
                                    "mlp_dynamic",
                                    "convolution",
                                    "training_norm",
                                    "nested",
                                    "counter",
                                    "updates_input",
                                    "attention",
                                    "attention_core",
                                    "branches",
                                    "dynamic");
  INFO("archive " << name);
  const ArchiveOfGpu archive(name);

  CHECK(device_of_archive(archive.path()) == ir::DeviceType::kCuda);
  CHECK(device_of_archive(zoo_archive(name)) == ir::DeviceType::kCpu);
  const ExportedProgram program = load_program(archive.path());

  const ExportedProgram expected = load_program(zoo_archive(name));
  CHECK(ir::print(program.graph) == ir::print(ir::retarget(expected.graph, ir::DeviceType::kCuda)));
  for (const auto& [weight, tensor] : expected.weights) {
    INFO("weight " << weight);
    CHECK(program.weights.at(weight).is_cpu());
    CHECK(program.weights.at(weight).equal(tensor));
  }
  check_equal(program.sample_inputs, expected.sample_inputs);
}

TEST_CASE("a saved program of a GPU is one again", "[export][device]") {
  const TemporaryDirectory directory;
  const ExportedProgram program = load_program(ArchiveOfGpu("mlp").path());

  save_program(program, directory.path() / "saved.pt2");

  CHECK(device_of_archive(directory.path() / "saved.pt2") == ir::DeviceType::kCuda);
  const ExportedProgram again = load_program(directory.path() / "saved.pt2");
  CHECK(again.graph.nodes().size() == program.graph.nodes().size());
  CHECK_THAT(ir::print(again.graph), testing::contains(" cuda") && !testing::contains("cpu"));
}

TEST_CASE("attention of a GPU is the general operator", "[export][device]") {
  const std::string operation = GENERATE("_scaled_dot_product_flash_attention",
                                         "_scaled_dot_product_efficient_attention",
                                         "_scaled_dot_product_cudnn_attention");
  INFO(operation);
  const ArchiveOfGpu archive("attention", [&](std::string text) {
    Json model = Json::parse(on_gpu(std::move(text)));
    for (Json& node : model.at("graph_module").at("graph").at("nodes")) {
      if (node.at("target") == "torch.ops.aten.scaled_dot_product_attention.default") {
        // With arguments and results of its own.
        node["target"] = "torch.ops.aten." + operation + ".default";
        node["inputs"].push_back(
            {{"name", "compute_log_sumexp"}, {"arg", {{"as_bool", false}}}, {"kind", 1}});
        node["outputs"].push_back({{"as_tensor", {{"name", "logsumexp"}}}});
      }
    }
    return model.dump();
  });

  const ExportedProgram program = load_program(archive.path());

  const ExportedProgram expected = load_program(zoo_archive("attention"));
  CHECK(ir::print(program.graph) == ir::print(ir::retarget(expected.graph, ir::DeviceType::kCuda)));
}

TEST_CASE("programs of several devices are refused by name", "[export][device]") {
  // What is said of the archive `name` of a GPU, edited.
  const auto refusal = [](const std::string& name, const std::function<void(Json&)>& edit) {
    const ArchiveOfGpu archive(name, [&](std::string text) {
      Json model = Json::parse(on_gpu(std::move(text)));
      edit(model.at("graph_module").at("graph"));
      return model.dump();
    });
    try {
      static_cast<void>(load_program(archive.path()));
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kUnsupported);
      CHECK_THROWS_AS(device_of_archive(archive.path()), Error);
      return std::string(error.what());
    }
    return std::string("loaded");
  };
  const auto put = [](Json& graph, const std::string& value, const char* type, int index) {
    graph.at("tensor_values").at(value)["device"] = {{"type", type}, {"index", index}};
  };
  const auto name_of = [](const Json& argument) {
    return argument.at("as_tensor").at("name").get<std::string>();
  };

  CHECK_THAT(
      refusal("mlp", [&](Json& graph) { put(graph, name_of(graph["inputs"][0]), "cuda", 1); }),
      testing::contains("the program's tensors are on cuda:0, cuda:1"));
  CHECK_THAT(refusal("mlp", [&](Json& graph) { put(graph, "x", "cpu", 0); }),
             testing::contains("the input 'x' is on cpu"));
  CHECK_THAT(
      refusal("mlp", [&](Json& graph) { put(graph, name_of(graph["outputs"][0]), "cpu", 0); }),
      testing::contains("the result '") && testing::contains("' is on cpu"));
  // A weight on the CPU is the package's own, and goes to the GPU with the others.
  CHECK(refusal("mlp", [&](Json& graph) { put(graph, name_of(graph["inputs"][0]), "cpu", 0); }) ==
        "loaded");
  CHECK_THAT(refusal("modes",
                     [](Json& graph) {
                       graph = Json::parse(replace_each(
                           graph.dump(), R"("as_string":"cpu")", R"("as_string":"cuda")"));
                     }),
             testing::contains("torch.autocast(\"cuda\")"));
}

}  // namespace
}  // namespace kiln::exporter
