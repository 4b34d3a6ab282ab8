// kiln run: a package, once.

#include <ATen/Functions.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "console.hpp"
#include "inputs.hpp"
#include "json_text.hpp"
#include "kiln/base/digest.hpp"
#include "kiln/base/file.hpp"
#include "kiln/model.hpp"
#include "sizes.hpp"

namespace kiln::tool {
namespace {

struct RunArguments {
  std::string package, save;
  std::vector<std::string> inputs, sizes;
};

std::string checksum(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.contiguous();
  return digest(std::string_view(static_cast<const char*>(dense.const_data_ptr()), dense.nbytes()))
      .hex()
      .substr(0, 12);
}

double sum_of(const at::Tensor& tensor) {
  return tensor.to(at::kDouble).sum().item<double>();
}

// A tuple: `torch.load` refuses lists with the tags that libtorch writes.
std::vector<char> pickled_tuple(const std::vector<at::Tensor>& outputs) {
  std::vector<c10::IValue> items;
  for (const at::Tensor& output : outputs) {
    items.push_back(output.defined() ? c10::IValue(output) : c10::IValue());
  }
  return torch::jit::pickle_save(c10::ivalue::Tuple::create(std::move(items)));
}

nlohmann::json to_json(std::size_t number, const at::Tensor& output) {
  nlohmann::json row = {{"output", number}, {"type", describe(output)}};
  if (output.defined()) {
    row["sum"] = sum_of(output);
    row["checksum"] = checksum(output);
  }
  return row;
}

void print(std::size_t number, const at::Tensor& output) {
  std::cout << "output " << number << "  " << describe(output);
  if (output.defined()) {
    std::cout << "  sum " << sum_of(output) << "  checksum " << checksum(output);
  }
  std::cout << "\n";
}

// Where the program returns None, an output is an undefined tensor.
int run_package(const RunArguments& arguments, bool json) {
  const std::vector<at::Tensor> inputs =
      inputs_for(arguments.package, arguments.inputs, arguments.sizes);
  Model model = load(arguments.package);
  std::vector<at::Tensor> outputs = model.run(inputs);
  for (at::Tensor& output : outputs) {
    if (output.defined()) {
      output = output.cpu();  // To be looked at.
    }
  }

  if (!arguments.save.empty()) {
    const std::vector<char> pickled = pickled_tuple(outputs);
    write_file_atomically(arguments.save, std::string_view(pickled.data(), pickled.size()));
  }
  nlohmann::json rows = nlohmann::json::array();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (json) {
      rows.push_back(to_json(i, outputs[i]));
    } else {
      print(i, outputs[i]);
    }
  }
  if (json) {
    std::cout << json_text(rows) << "\n";
  }
  return 0;
}

}  // namespace

void add_run(CLI::App& app, Session& session) {
  const auto arguments = std::make_shared<RunArguments>();
  CLI::App* command = app.add_subcommand("run", "Run a package or library once");
  command->add_option("package", arguments->package, "Package (.pt2) or library (.so)")
      ->required()
      ->check(CLI::ExistingPath);
  command
      ->add_option(
          "--inputs", arguments->inputs, ".npy or .pt files; the package's samples if absent")
      ->check(CLI::ExistingFile);
  command->add_option("--size", arguments->sizes, kSizeHelp)
      ->type_name("NAME=N")
      ->allow_extra_args(false);
  command->add_option("--save", arguments->save, "Write the outputs to this .pt file");
  command->footer(R"(Examples:
  kiln run compiled.pt2                              on the sample inputs that came with it
  kiln run compiled.pt2 --size batch=7               on seven of them
  kiln run compiled.pt2 --inputs image.npy --save outputs.pt)");
  command->add_flag("--json", session.json, "Print JSON");
  command->callback([arguments, &session] {
    session.action = [arguments, &session] { return run_package(*arguments, session.json); };
  });
}

}  // namespace kiln::tool
