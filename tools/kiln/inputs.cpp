#include "inputs.hpp"

#include <ATen/Functions.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <cstring>
#include <map>
#include <optional>

#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/container_runtime/package.hpp"
#include "kiln/model.hpp"
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

// The value of `key` in the header of a .npy file, a Python dict literal.
std::string header_field(const std::string& header, const std::string& key) {
  const std::size_t at = header.find("'" + key + "':");
  if (at == std::string::npos) {
    throw Error(ErrorCode::kCorrupt, "the .npy header has no " + key);
  }
  const std::size_t start = header.find_first_not_of(" ", at + key.size() + 3);
  const char close = header[start] == '(' ? ')' : ',';
  return header.substr(start, header.find(close, start) - start);
}

at::Tensor read_npy(const std::string& path) {
  static const std::map<std::string, at::ScalarType> kTypes = {{"'<f4'", at::kFloat},
                                                               {"'<f8'", at::kDouble},
                                                               {"'<f2'", at::kHalf},
                                                               {"'<i8'", at::kLong},
                                                               {"'<i4'", at::kInt},
                                                               {"'<i2'", at::kShort},
                                                               {"'|i1'", at::kChar},
                                                               {"'|u1'", at::kByte},
                                                               {"'|b1'", at::kBool}};
  const std::string bytes = read_file(path);
  if (bytes.size() < 12 || bytes.compare(0, 6, "\x93NUMPY") != 0) {
    throw Error(ErrorCode::kCorrupt, path + " is not a .npy file");
  }
  const bool long_header = bytes[6] >= 2;
  std::uint32_t length = 0;
  std::memcpy(&length, bytes.data() + 8, long_header ? 4 : 2);
  const std::size_t start = (long_header ? 12 : 10) + length;
  const std::string header = bytes.substr(10, start - 10);
  const auto type = kTypes.find(header_field(header, "descr"));
  if (type == kTypes.end() ||
      header_field(header, "fortran_order").find("True") != std::string::npos) {
    throw Error(ErrorCode::kUnsupported,
                path + " has an element type or order that cannot be read");
  }
  std::vector<std::int64_t> sizes;
  const std::string shape = header_field(header, "shape");
  for (std::size_t at = shape.find_first_of("0123456789"); at != std::string::npos;
       at = shape.find_first_of("0123456789", shape.find(',', at))) {
    sizes.push_back(std::stoll(shape.substr(at)));
    if (shape.find(',', at) == std::string::npos) {
      break;
    }
  }
  at::Tensor tensor = at::empty(sizes, at::TensorOptions().dtype(type->second));
  if (bytes.size() - start < tensor.nbytes()) {
    throw Error(ErrorCode::kCorrupt, path + " is truncated");
  }
  std::memcpy(tensor.mutable_data_ptr(), bytes.data() + start, tensor.nbytes());
  return tensor;
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
    for (at::Tensor& input : inputs) {
      input = input.to(*device);
    }
  }
  return inputs;
}

}  // namespace kiln::tool
