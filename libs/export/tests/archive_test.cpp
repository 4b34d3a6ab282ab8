#include "kiln/export/archive.hpp"

#include <caffe2/serialize/inline_container.h>
#include <torch/torch.h>

#include <cstddef>
#include <fstream>
#include <functional>
#include <regex>
#include <string>

#include "edit_archive.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/subprocess.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/capture/control_flow.hpp"
#include "kiln/capture/replay.hpp"
#include "kiln/export/export.hpp"
#include "kiln/testing/catch2.hpp"
#include "zoo.hpp"

namespace kiln::exporter {
namespace {

ErrorCode code_of(const std::function<void()>& action, std::string& message) {
  try {
    action();
  } catch (const Error& error) {
    message = error.what();
    return error.code();
  }
  FAIL("no error");
  return ErrorCode::kInternal;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST_CASE("an archive's traced graph computes what PyTorch computes", "[export][archive]") {
  const std::string name = GENERATE("mlp",
                                    "mlp_dynamic",
                                    "convolution",
                                    "training_norm",
                                    "nested",
                                    "counter",
                                    "updates_input",
                                    "attention",
                                    "recurrent",
                                    "modes",
                                    "branches",
                                    "branches_taken",
                                    "dynamic");
  const std::string form = GENERATE("", "_core");
  INFO("archive " << name + form);

  const ExportedProgram program = load_program(zoo_archive(name + form));

  check_equal(interpreted_effects(program), expected_effects(name + form));
}

TEST_CASE("EX-40 EX-41 control flow of an archive keeps its bodies", "[export][archive]") {
  const ExportedProgram program = load_program(zoo_archive("branches"));

  std::vector<std::string> regions;
  for (const ir::Node& node : program.graph.nodes()) {
    if (node.target.starts_with("higher_order.")) {
      regions.push_back(node.target);
    }
  }
  CHECK(regions ==
        std::vector<std::string>{"higher_order.cond.default", "higher_order.map_impl.default"});
  REQUIRE(program.graph.subgraphs().size() == 3);
  CHECK(program.graph.subgraphs()[1].subgraphs().size() == 2);
}

TEST_CASE("EX-13 nodes of an archive know their module and their line", "[export][archive]") {
  const ExportedProgram program = load_program(zoo_archive("mlp"));

  for (const ir::Node& node : program.graph.nodes()) {
    CAPTURE(node.target);
    CHECK(node.provenance.source.find(".py:") != std::string::npos);
  }
  CHECK(program.graph.nodes()[0].provenance.module_path == "first");
}

TEST_CASE("EX-07 a linear layer of an archive is decomposed", "[export][archive]") {
  const ExportedProgram program = load_program(zoo_archive("mlp"));

  std::size_t products = 0;
  for (const ir::Node& node : program.graph.nodes()) {
    CHECK(node.target != "aten.linear.default");
    products += static_cast<std::size_t>(node.target == "aten.addmm.default");
  }
  CHECK(products == 2);
}

TEST_CASE("EX-20 an archive's signature names parameters, buffers and inputs",
          "[export][archive]") {
  const GraphSignature signature = load_program(zoo_archive("counter")).signature();

  CHECK(signature.parameters.empty());
  CHECK(signature.buffers == std::vector<std::string>{"count", "average"});
  CHECK(signature.user_inputs == std::vector<std::string>{"x"});
  CHECK(signature.inputs_to_buffers.at("b_count") == "count");
  CHECK(signature.buffers_to_mutate.size() == 2);
  CHECK(signature.user_outputs.size() == 1);
}

TEST_CASE("weights are mapped and samples are read", "[export][archive]") {
  const ExportedProgram program = load_program(zoo_archive("mlp"));

  REQUIRE(program.weights.contains("first.weight"));
  CHECK(program.weights.at("first.weight").sizes() == at::IntArrayRef({32, 16}));
  CHECK(program.weights.at("first.weight").requires_grad());
  REQUIRE(program.sample_inputs.size() == 1);
  CHECK(program.sample_inputs[0].sizes() == at::IntArrayRef({4, 16}));
  CHECK(program.sample_inputs[0].abs().sum().item<float>() > 0);
}

TEST_CASE("weights that cannot be mapped are read", "[export][archive]") {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "compressed.pt2";
  const auto as_it_is = [](std::string bytes) { return bytes; };
  edit_archive(zoo_archive("mlp"), path, "", as_it_is, /*compress=*/true);
  REQUIRE(std::filesystem::file_size(path) < std::filesystem::file_size(zoo_archive("mlp")));

  const ExportedProgram program = load_program(path);

  check_equal(interpreted_effects(program), expected_effects("mlp"));
}

TEST_CASE("an archive of an older minor version lacks fields and is read", "[export][archive]") {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "older.pt2";
  edit_archive(zoo_archive("branches"), path, "models/model.json", [](const std::string& json) {
    const std::regex version(R"("minor": [0-9]+)");
    const std::regex fields(R"(, "is_hop_single_tensor_return": [a-z]+, "name": "[^"]*")");
    REQUIRE(std::regex_search(json, fields));
    return std::regex_replace(std::regex_replace(json, fields, ""), version, R"("minor": 7)");
  });

  check_equal(interpreted_effects(load_program(path)), expected_effects("branches"));
}

TEST_CASE("loading leaves buffers as they are in the file", "[export][archive]") {
  const ExportedProgram program = load_program(zoo_archive("counter"));

  CHECK(program.weights.at("count").item<float>() == 0);
  CHECK(program.non_persistent_buffers == std::set<std::string>{"average"});
}

TEST_CASE("constants among nested arguments and results are kept", "[export][archive]") {
  const ExportedProgram program = load_program(zoo_archive("nested"));

  REQUIRE(program.input_leaves.size() == 4);
  CHECK(program.input_leaves[2].tensor == 2);
  CHECK(program.input_leaves[3].constant == "3.0");
  REQUIRE(program.output_leaves.size() == 5);
  CHECK(program.output_leaves[3].constant == "null");
  CHECK(program.output_leaves[4].constant == "3.0");
}

TEST_CASE("symbolic dimensions come with their ranges", "[export][archive]") {
  const ExportedProgram program = load_program(zoo_archive("mlp_dynamic"));

  REQUIRE(program.input_sizes.size() == 1);
  REQUIRE(program.input_sizes[0].size() == 2);
  REQUIRE(program.input_sizes[0][0].symbols().size() == 1);
  CHECK(program.symbols.at(program.input_sizes[0][0].symbols()[0]) == ir::Range{2, 64});
  CHECK(program.input_sizes[0][1] == ir::Expr(16));
}

TEST_CASE("a file that is no archive is refused", "[export][archive]") {
  const TemporaryDirectory directory;
  std::string message;

  CHECK(code_of([&] { (void)load_program(directory.path() / "absent.pt2"); }, message) ==
        ErrorCode::kIo);
  write_file_atomically(directory.path() / "text.pt2", std::string_view("this is no zip archive"));
  CHECK(code_of([&] { (void)load_program(directory.path() / "text.pt2"); }, message) ==
        ErrorCode::kCorrupt);
  CHECK_THAT(message, testing::contains("not a zip archive"));
  CHECK(code_of([&] { (void)load_program(directory.path()); }, message) == ErrorCode::kIo);
}

TEST_CASE("a truncated archive is refused wherever it ends", "[export][archive]") {
  const TemporaryDirectory directory;
  const std::string whole = read_file(zoo_archive("mlp"));
  const std::filesystem::path part = directory.path() / "part.pt2";
  std::string message;

  for (std::size_t length = 1; length < whole.size(); length += 1 + whole.size() / 40) {
    write_file_atomically(part, std::string_view(whole).substr(0, length));
    CHECK(code_of([&] { (void)load_program(part); }, message) == ErrorCode::kCorrupt);
  }
}

TEST_CASE("a zip archive of another kind is refused", "[export][archive]") {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "tensor.pt";
  torch::save(torch::ones(3), path.string());
  std::string message;

  CHECK(code_of([&] { (void)load_program(path); }, message) == ErrorCode::kCorrupt);
  CHECK_THAT(message, testing::contains("not one written by torch.export.save"));
}

TEST_CASE("a newer schema is refused", "[export][archive]") {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "newer.pt2";
  edit_archive(zoo_archive("mlp"), path, "models/model.json", [](std::string json) {
    return replaced(
        std::move(json), R"("schema_version": {"major": 8)", R"("schema_version": {"major": 9)");
  });
  std::string message;

  CHECK(code_of([&] { (void)load_program(path); }, message) == ErrorCode::kIncompatible);
  CHECK_THAT(message, testing::contains("9."));
}

TEST_CASE("a symbol without a range is refused by name", "[export][archive]") {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "unbounded.pt2";
  edit_archive(zoo_archive("mlp_dynamic"), path, "models/model.json", [](std::string json) {
    return replaced(std::move(json), R"("range_constraints": {"s)", R"("range_constraints": {"t)");
  });
  std::string message;

  CHECK(code_of([&] { (void)load_program(path); }, message) == ErrorCode::kCorrupt);
  CHECK_THAT(message, testing::contains("the symbol s") && testing::contains("has no range"));
}

TEST_CASE("an operator that is not registered is named, and its library if it is known",
          "[export][archive]") {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "unknown.pt2";
  const auto message_for = [&](const std::string& target) {
    edit_archive(zoo_archive("mlp"), path, "models/model.json", [&](std::string json) {
      return replaced(std::move(json), "torch.ops.aten.relu.default", target);
    });
    std::string message;
    CHECK(code_of([&] { (void)load_program(path); }, message) == ErrorCode::kUnsupported);
    return message;
  };

  CHECK_THAT(message_for("torch.ops.mine.special.default"),
             testing::contains("torch.ops.mine.special.default") && testing::contains("mine::*"));
  CHECK_THAT(message_for("torch.ops.torchvision.nms.default"),
             testing::contains("libtorchvision.so"));
  CHECK_THAT(message_for("torch.ops.aten.nothing.default"), testing::contains("in this libtorch"));
}

TEST_CASE("a weight that reaches beyond its record is refused", "[export][archive]") {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "short.pt2";
  edit_archive(zoo_archive("mlp"), path, "data/weights/weight_0", [](std::string bytes) {
    bytes.resize(bytes.size() / 2);
    return bytes;
  });
  std::string message;

  CHECK(code_of([&] { (void)load_program(path); }, message) == ErrorCode::kCorrupt);
  CHECK_THAT(message, testing::contains("reaches beyond its record"));
}

TEST_CASE("a saved program is read back equal", "[export][archive]") {
  const TemporaryDirectory directory;
  const std::string name = GENERATE("mlp",
                                    "counter",
                                    "nested",
                                    "updates_input",
                                    "attention",
                                    "training_norm",
                                    "branches",
                                    "branches_taken");
  INFO("archive " << name);
  const ExportedProgram program = load_program(zoo_archive(name));

  save_program(program, directory.path() / "saved.pt2");
  const ExportedProgram again = load_program(directory.path() / "saved.pt2");

  CHECK(again.in_spec == program.in_spec);
  CHECK(again.out_spec == program.out_spec);
  CHECK((again.input_leaves == program.input_leaves));
  CHECK((again.output_leaves == program.output_leaves));
  CHECK(again.non_persistent_buffers == program.non_persistent_buffers);
  check_equal(interpreted_effects(again), interpreted_effects(program));
}

// What Python's torch.export.load says of `program`, saved, beside what the interpreter computes.
std::string said_by_python(const ExportedProgram& program) {
  const TemporaryDirectory directory;
  const Effects effects = interpreted_effects(program);
  c10::List<at::Tensor> expected(effects.outputs);
  for (const ir::Output& output : program.graph.outputs()) {
    if (output.kind == ir::OutputKind::kMutation) {
      expected.push_back(effects.updates.at(program.graph.inputs()[output.input].name));
    }
  }
  const std::vector<char> bytes = torch::pickle_save(expected);
  write_file_atomically(directory.path() / "expected.pt",
                        std::string_view(bytes.data(), bytes.size()));
  save_program(program, directory.path() / "saved.pt2");
  const ProcessResult result = run_process({KILN_PYTHON,
                                            KILN_CHECK_ARCHIVE,
                                            (directory.path() / "saved.pt2").string(),
                                            (directory.path() / "expected.pt").string()},
                                           {.timeout = std::chrono::seconds(300)});
  INFO(result.output << result.error);
  CHECK(result.ok());
  return result.output;
}

TEST_CASE("Python loads a program whose sizes vary, and runs it at others", "[export][archive]") {
  const TemporaryDirectory directory;
  torch::nn::Linear layer(4, 3);
  const auto function = [&](const Tensors& in) {
    const std::int64_t rows = in[0].size(0), columns = in[1].size(1);
    const torch::Tensor joined = torch::cat({in[0], in[1].slice(1, 0, 4)}).reshape({-1, 2, 2});
    return Tensors{layer->forward(in[0]) * (1.0 / static_cast<double>(rows)),
                   joined.sum(1),
                   in[1].new_zeros({rows + 2 * columns, columns / 2}),
                   in[1].sum(0) * columns};
  };
  const ExportedProgram program = export_module(
      layer.ptr(),
      function,
      {torch::randn({6, 4}), torch::randn({8, 10})},
      {.input_names = {"x", "y"},
       .dynamic_dims = {{.input = "x", .dim = 0, .name = "batch", .min = 2, .max = 64},
                        {.input = "y", .dim = 0, .name = "batch + 2"},
                        {.input = "y", .dim = 1, .name = "2*half", .min = 3, .max = 40}}});
  const auto path = (directory.path() / "saved.pt2").string();

  save_program(program, path);
  CHECK(program.graph.hints() == ir::Bindings{{"batch", 6}, {"half", 5}});
  CHECK(load_program(path).graph.hints() == ir::Bindings{{"s0", 6}, {"s1", 5}});

  // Inputs and results, size by size.
  const torch::NoGradGuard no_grad;
  c10::List<at::Tensor> calls;
  for (const auto& [batch, half] : {std::pair(6, 5), std::pair(2, 3), std::pair(37, 11)}) {
    const Tensors inputs = {torch::randn({batch, 4}), torch::randn({batch + 2, 2 * half})};
    Tensors expected = function(inputs);
    for (const Tensors& tensors : {inputs, expected}) {
      for (const torch::Tensor& tensor : tensors) {
        calls.push_back(tensor);
      }
    }
    const Tensors results =
        capture::Interpreter(load_program(path).graph).run(load_program(path).graph_inputs(inputs));
    REQUIRE(results.size() == expected.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      CHECK(torch::allclose(results[i], expected[i]));
    }
  }
  const std::vector<char> bytes = torch::pickle_save(calls);
  write_file_atomically(directory.path() / "calls.pt",
                        std::string_view(bytes.data(), bytes.size()));
  const ProcessResult result = run_process(
      {KILN_PYTHON, KILN_CHECK_SIZES, path, (directory.path() / "calls.pt").string(), "2"},
      {.timeout = std::chrono::seconds(300)});
  INFO(result.output << result.error);
  CHECK(result.ok());
  CHECK_THAT(result.output, testing::contains("[2, 64] [3, 40]"));
  CHECK_THAT(result.output, testing::contains("3 calls equal, 2 out of range refused"));
}

TEST_CASE("Python loads and runs what save_program writes", "[export][archive]") {
  torch::nn::Sequential network(torch::nn::Linear(6, 12),
                                torch::nn::BatchNorm1d(12),
                                torch::nn::GELU(),
                                torch::nn::Linear(12, 3));
  const torch::Tensor scale = torch::rand({3});

  const ExportedProgram program =
      export_module(network.ptr(),
                    [&](const Tensors& inputs) {
                      return Tensors{network->forward(inputs[0]) * scale, inputs[0] + 1};
                    },
                    {torch::randn({5, 6})});

  CHECK_THAT(said_by_python(program), testing::contains("5 tensors equal"));
}

TEST_CASE("EX-40 EX-41 Python loads and runs control flow that save_program writes",
          "[export][archive]") {
  torch::nn::Linear linear(4, 4);
  const auto if_large = [&](const Tensors& in) { return Tensors{linear(in[0]), in[0].sum(0)}; };
  const auto if_small = [&](const Tensors& in) {
    return capture::cond(
        false,
        [](const Tensors& inner) { return Tensors{inner[0].cos(), inner[0].amax(0)}; },
        [](const Tensors& inner) { return Tensors{inner[0] + 1, inner[0].amin(0)}; },
        {in[0]});
  };
  const float shift = GENERATE(0.0F, 4.0F);
  const auto forward = [&](const Tensors& inputs) {
    Tensors results = capture::cond(inputs[0].sum() > 12, if_large, if_small, {inputs[0]});
    const Tensors rows =
        capture::map([](const Tensors& in) { return Tensors{in[0] * in[1], in[0].exp()}; },
                     {inputs[0]},
                     {results[1]});
    results.insert(results.end(), rows.begin(), rows.end());
    return results;
  };

  const ExportedProgram program =
      export_module(linear.ptr(), forward, {torch::rand({3, 4}) + shift});

  REQUIRE(program.graph.subgraphs().size() == 3);
  CHECK_THAT(said_by_python(program), testing::contains("4 tensors equal"));
}

}  // namespace
}  // namespace kiln::exporter
