#include "unpickle.hpp"

#include <c10/core/Device.h>
#include <caffe2/serialize/inline_container.h>
#include <caffe2/serialize/read_adapter_interface.h>
#include <torch/csrc/jit/serialization/import_read.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>

namespace kiln::exporter {
namespace {

// A file that lies in memory.
class MemoryAdapter final : public caffe2::serialize::ReadAdapterInterface {
 public:
  explicit MemoryAdapter(std::span<const char> bytes) : bytes_(bytes) {}

  std::size_t size() const override { return bytes_.size(); }

  std::size_t read(std::uint64_t position,
                   void* buffer,
                   std::size_t count,
                   const char* /*what*/) const override {
    if (position >= bytes_.size()) {
      return 0;
    }
    const auto part = bytes_.subspan(position).first(
        std::min<std::size_t>(count, bytes_.size() - static_cast<std::size_t>(position)));
    std::ranges::copy(part, static_cast<char*>(buffer));
    return part.size();
  }

 private:
  std::span<const char> bytes_;
};

}  // namespace

c10::IValue unpickle(const std::vector<char>& bytes) {
  caffe2::serialize::PyTorchStreamReader reader(std::make_shared<MemoryAdapter>(bytes));
  return torch::jit::readArchiveAndTensors("data",
                                           /*pickle_prefix=*/"",
                                           /*tensor_prefix=*/"",
                                           /*type_resolver=*/std::nullopt,
                                           /*obj_loader=*/std::nullopt,
                                           c10::Device(c10::kCPU),
                                           reader);
}

}  // namespace kiln::exporter
