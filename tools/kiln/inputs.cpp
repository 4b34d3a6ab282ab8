#include "inputs.hpp"

#include <torch/csrc/jit/serialization/pickle.h>

#include <optional>

#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/container_runtime/package.hpp"
#include "kiln/model.hpp"
#include "npy.hpp"
#include "sizes.hpp"

namespace kiln::tool {
namespace {

std::vector<at::Tensor> unpickle(const std::string& bytes) {
  const c10::IValue value = torch::jit::pickle_load(std::vector<char>(bytes.begin(), bytes.end()));
  if (value.isTensor()) {
    return {value.toTensor()};
  }
  if (value.isTensorList()) {
    return value.toTensorVector();
  }
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& item :
       value.isTuple() ? value.toTupleRef().elements().vec() : value.toListRef().vec()) {
    tensors.push_back(item.toTensor());
  }
  return tensors;
}

bool takes_inputs(const std::filesystem::path& package) {
  return !load(package).input_names().empty();
}

// Where a package is to run, if it says.
std::optional<c10::Device> device_of(const std::filesystem::path& package) {
  if (package.extension() != ".pt2") {
    return std::nullopt;
  }
  const container_runtime::Package opened(package);
  const auto metadata = opened.metadata("model");
  const auto device = metadata.find("AOTI_DEVICE_KEY");
  return device == metadata.end() ? std::nullopt : std::optional<c10::Device>(device->second);
}

}  // namespace

std::vector<at::Tensor> read_inputs(const std::vector<std::string>& files) {
  std::vector<at::Tensor> inputs;
  for (const std::string& file : files) {
    if (file.ends_with(".npy")) {
      inputs.push_back(read_npy(file));
    } else {
      for (at::Tensor& tensor : unpickle(read_file(file))) {
        inputs.push_back(std::move(tensor));
      }
    }
  }
  return inputs;
}

std::vector<at::Tensor> sample_inputs(const std::filesystem::path& package) {
  if (package.extension() != ".pt2") {
    return {};
  }
  const container_runtime::Package opened(package);
  for (const std::string& file : opened.files()) {
    if (file.starts_with("data/sample_inputs/")) {
      return unpickle(opened.read(file));
    }
  }
  return {};
}

std::vector<at::Tensor> inputs_for(const std::filesystem::path& package,
                                   const std::vector<std::string>& files,
                                   const std::vector<std::string>& sizes) {
  std::vector<at::Tensor> inputs = files.empty() ? sample_inputs(package) : read_inputs(files);
  if (inputs.empty() && files.empty() && takes_inputs(package)) {
    throw Error(
        ErrorCode::kInvalidArgument,
        package.string() + " has no sample inputs; give them with --inputs FILE.npy or FILE.pt");
  }
  inputs = resized(std::move(inputs), package, sizes);
  if (const std::optional<c10::Device> device = device_of(package)) {
    const std::vector<bool> is_integer = integer_inputs(package);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (i >= is_integer.size() || !is_integer[i]) {  // Integers are the host's.
        inputs[i] = inputs[i].to(*device);
      }
    }
  }
  return inputs;
}

}  // namespace kiln::tool
