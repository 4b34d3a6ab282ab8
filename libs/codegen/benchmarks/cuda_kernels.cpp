// Times the kernels of graphs on a GPU: `kiln-cuda-kernels FILE.kir...` prints a line of JSON for
// each file, with the microseconds of one run and the bytes of its inputs and outputs.

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "backend/cuda/cuda_backend.hpp"
#include "backend/cuda/emit/types.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/subprocess.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/ir/parse.hpp"
#include "program/kernel_table.hpp"
#include "schedule/schedule.hpp"
#include "support/cuda_device.hpp"
#include "toolchain/nvrtc.hpp"

namespace kiln::codegen {
namespace {

using testing::CudaDevice;
using testing::with_kernel_name;

CudaDevice* device = nullptr;

std::int64_t bytes_of(const std::vector<ir::Expr>& sizes,
                      const std::vector<ir::Expr>& strides,
                      ir::DType dtype) {
  std::int64_t last = 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    last +=
        std::max<std::int64_t>(sizes[i].constant().value() - 1, 0) * strides[i].constant().value();
  }
  return last * ir::size_of(dtype);
}

using Launcher = void (*)(void* const*, const long long*, void*, const char**);

void run(const std::filesystem::path& file) {
  const ir::Graph graph = testing::on_device(ir::parse(read_file(file)), ir::DeviceType::kCuda);
  const CudaBackend backend({device->architecture()});
  const Schedule plan = schedule(graph, backend, false);
  const KernelTable table = write_kernels(graph, plan, backend);
  std::string source = cuda::prelude(), host = testing::kLauncherPreamble;
  for (std::size_t k = 0; k < table.kernels().size(); ++k) {
    source += with_kernel_name(table.kernels()[k].source, "k" + std::to_string(k));
    host += with_kernel_name(table.kernels()[k].launcher, "k" + std::to_string(k));
  }
  if (std::getenv("KILN_SHOW_SOURCE") != nullptr) {
    std::cerr << source.substr(cuda::prelude().size()) << host << '\n';
  }
  device->load(compile_cuda(source, device->architecture()));
  const TemporaryDirectory directory("kiln-cuda-kernels");
  write_file_atomically(directory.path() / "host.cpp", host);
  const std::string library = (directory.path() / "host.so").string();
  const ProcessResult compiled = run_process({"g++",
                                              "-O1",
                                              "-w",
                                              "-shared",
                                              "-fPIC",
                                              (directory.path() / "host.cpp").string(),
                                              "-o",
                                              library});
  ensure(compiled.ok(), "the launchers do not compile");
  void* const handle = dlopen(library.c_str(), RTLD_NOW);
  ensure(handle != nullptr, "the launchers do not load");
  testing::bind_launchers(handle, *device);

  std::vector<char*> buffers;
  for (const Buffer& buffer : plan.buffers) {
    buffers.push_back(static_cast<char*>(device->allocate_zeros(
        static_cast<std::size_t>(bytes_of(buffer.sizes, buffer.strides, buffer.dtype)))));
  }
  void* const failed = device->allocate_zeros(sizeof(int));
  const auto once = [&] {
    for (std::size_t i = 0; i < plan.steps.size(); ++i) {
      const auto& call = std::get<KernelCall>(plan.steps[i]);
      std::vector<void*> operands;
      for (const KernelCall::Operand& operand : call.operands) {
        operands.push_back(buffers[operand.buffer.index()] +
                           operand.offset.constant().value() *
                               ir::size_of(plan.buffers[operand.buffer.index()].dtype));
      }
      operands.push_back(failed);
      const std::string name = "k" + std::to_string(table.uses[i].kernel);
      reinterpret_cast<Launcher>(dlsym(handle, name.c_str()))(
          operands.data(), nullptr, nullptr, nullptr);
    }
  };
  const double microseconds = device->time(once);
  std::int64_t bytes = 0;
  for (const ir::Input& input : graph.inputs()) {
    bytes += bytes_of(graph.tensor(input.value).sizes,
                      graph.tensor(input.value).strides,
                      graph.tensor(input.value).dtype);
  }
  for (const ir::Output& output : graph.outputs()) {
    bytes += bytes_of(graph.tensor(output.value).sizes,
                      graph.tensor(output.value).strides,
                      graph.tensor(output.value).dtype);
  }
  std::cout << "{\"name\": \"" << file.stem().string() << "\", \"us\": " << microseconds
            << ", \"bytes\": " << bytes << ", \"kernels\": " << plan.steps.size() << "}\n"
            << std::flush;
  for (char* buffer : buffers) {
    device->free_device(buffer);
  }
}

}  // namespace
}  // namespace kiln::codegen

int main(int count, char** arguments) {
  try {
    kiln::codegen::testing::CudaDevice device;
    kiln::codegen::device = &device;
    for (int i = 1; i < count; ++i) {
      kiln::codegen::run(arguments[i]);
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
