#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/version.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <system_error>
#include <vector>

#include "graph_writer.hpp"
#include "kiln/base/error.hpp"
#include "kiln/export/archive.hpp"
#include "sample_inputs.hpp"

namespace kiln::exporter {
namespace {

namespace fs = std::filesystem;
using caffe2::serialize::PyTorchStreamWriter;

// Of the operators' semantics; PyTorch 2.13 writes the same.
constexpr int kOpsetVersion = 10;
// Of the zip layout, not of the schema.
constexpr std::uint64_t kContainerVersion = 6;

void write_text(PyTorchStreamWriter& writer, const std::string& name, const std::string& text) {
  writer.writeRecord(name, text.data(), text.size());
}

// Writes tensors with an index; those that share memory share a record.
class PayloadWriter {
 public:
  PayloadWriter(PyTorchStreamWriter& writer, std::string directory, std::string prefix)
      : writer_(writer), directory_(std::move(directory)), prefix_(std::move(prefix)) {}

  // `device` is where a reader of the archive puts it.
  void add(const std::string& name,
           const at::Tensor& tensor,
           bool is_parameter,
           c10::Device device) {
    if (!tensor.has_storage() || tensor.layout() != c10::Layout::Strided) {
      throw Error(ErrorCode::kUnsupported,
                  "the tensor " + name + " is not strided: it cannot be saved");
    }
    const auto [file, fresh] = files_.try_emplace(tensor.storage().unsafeGetStorageImpl(), "");
    if (fresh) {
      file->second = prefix_ + std::to_string(files_.size() - 1);
      const c10::Storage storage = tensor.is_cpu() ? tensor.storage() : on_cpu(tensor);
      writer_.writeRecord(directory_ + file->second, storage.data(), storage.nbytes());
    }
    Json meta = write_tensor_meta(tensor);
    meta["device"] = write_device(device);
    config_[name] = {{"path_name", file->second},
                     {"is_param", is_parameter},
                     {"use_pickle", false},
                     {"tensor_meta", std::move(meta)}};
  }

  void write_index(const std::string& name) {
    write_text(writer_, directory_ + name, Json{{"config", config_}}.dump());
  }

 private:
  static c10::Storage on_cpu(const at::Tensor& tensor) {
    at::Tensor whole = at::empty({0}, at::TensorOptions().dtype(at::kByte).device(tensor.device()));
    whole.set_(tensor.storage(), 0, {static_cast<std::int64_t>(tensor.storage().nbytes())}, {1});
    return whole.cpu().storage();
  }

  PyTorchStreamWriter& writer_;
  std::string directory_;
  std::string prefix_;
  std::map<const c10::StorageImpl*, std::string> files_;
  Json config_ = Json::object();
};

void write_weights(PyTorchStreamWriter& writer, const ExportedProgram& program) {
  PayloadWriter weights(writer, "data/weights/", "weight_");
  PayloadWriter constants(writer, "data/constants/", "tensor_");
  for (const ir::Input& input : program.graph.inputs()) {
    const bool is_parameter = input.kind == ir::InputKind::kParameter;
    const auto add_to = [&](PayloadWriter& payload) {
      const ir::Device device = program.graph.tensor(input.value).device;
      payload.add(input.name,
                  program.weights.at(input.name),
                  is_parameter,
                  {static_cast<c10::DeviceType>(device.type), device.index});
    };
    if (is_parameter || (input.kind == ir::InputKind::kBuffer &&
                         !program.non_persistent_buffers.contains(input.name))) {
      add_to(weights);
    } else if (input.kind == ir::InputKind::kBuffer || input.kind == ir::InputKind::kConstant) {
      add_to(constants);
    }
  }
  weights.write_index("model_weights_config.json");
  constants.write_index("model_constants_config.json");
}

Json write_model(const ExportedProgram& program) {
  const Json call = {{"fqn", ""},
                     {"signature",
                      {{"inputs", Json::array()},
                       {"outputs", Json::array()},
                       {"in_spec", program.in_spec},
                       {"out_spec", program.out_spec},
                       {"forward_arg_names", nullptr}}}};
  SymbolWriter symbols(program);
  Json graph = write_graph(program, symbols);
  return {{"graph_module",
           {{"graph", std::move(graph)},
            {"signature", write_signature(program, symbols)},
            {"module_call_graph", Json::array({call})},
            {"metadata", Json::object()},
            {"treespec_namedtuple_fields", Json::object()}}},
          {"opset_version", {{"aten", kOpsetVersion}}},
          {"range_constraints", symbols.range_constraints()},
          {"schema_version", {{"major", kSchemaMajor}, {"minor", kSchemaMinor}}},
          {"verifiers", Json::array({"ATEN"})},
          {"torch_version", TORCH_VERSION},
          {"guards_code", Json::array()}};
}

// Everything that may be refused, before the first byte is written.
struct Content {
  explicit Content(const ExportedProgram& program)
      : model(write_model(program).dump()),
        samples(write_sample_inputs(
            Json::parse(program.in_spec).at(1), program.input_leaves, program.sample_inputs)) {}

  std::string model;
  std::vector<char> samples;
};

void write_archive(PyTorchStreamWriter& writer,
                   const ExportedProgram& program,
                   const Content& content) {
  writer.setMinVersion(kContainerVersion);
  write_weights(writer, program);
  write_text(writer, "models/model.json", content.model);
  writer.writeRecord("data/sample_inputs/model.pt", content.samples.data(), content.samples.size());
  write_text(writer, "archive_format", "pt2");
  write_text(writer, "archive_version", "0");
  writer.writeEndOfFile();
}

}  // namespace

void save_program(const ExportedProgram& program, const fs::path& path) {
  const Content content(program);
  const fs::path temporary = path.string() + ".tmp." + std::to_string(::getpid());
  std::ofstream file(temporary, std::ios::binary);
  if (!file) {
    throw Error(ErrorCode::kIo, "cannot write " + temporary.string());
  }
  std::error_code failure;
  try {
    PyTorchStreamWriter writer([&](const void* data, std::size_t size) {
      file.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
      return file ? size : std::size_t{0};
    });
    write_archive(writer, program, content);
    file.close();
    if (!file) {
      throw Error(ErrorCode::kIo, "cannot write " + temporary.string());
    }
  } catch (...) {
    fs::remove(temporary, failure);
    throw;
  }
  fs::rename(temporary, path, failure);
  if (failure) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw Error(ErrorCode::kIo, "cannot write " + path.string() + ": " + failure.message());
  }
}

}  // namespace kiln::exporter
