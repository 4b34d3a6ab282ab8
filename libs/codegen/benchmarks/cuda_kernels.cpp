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

constexpr const char* kLauncherPreamble = R"(
template <int buffer_count, int size_count>
struct Arguments {
  void* buffers[buffer_count];
  long long sizes[size_count];
};
extern "C" void (*launch)(const char*, long long, long long, unsigned, unsigned, void*);
void (*launch)(const char*, long long, long long, unsigned, unsigned, void*) = nullptr;
#define KILN_LAUNCH(kernel, grid_x, grid_y, width, rows) \
  if ((grid_x) > 0 && (grid_y) > 0) launch(#kernel, grid_x, grid_y, width, rows, &arguments)
)";

CudaDevice* device = nullptr;

void launch_kernel(const char* kernel,
                   long long grid_x,
                   long long grid_y,
                   unsigned width,
                   unsigned rows,
                   void* arguments) {
  device->enqueue(kernel, grid_x, grid_y, width, rows, arguments);
}

std::string named(std::string text, const std::string& name) {
  const std::string from = "KILN_KERNEL";
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
    text.replace(at, from.size(), name);
  }
  return text;
}

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

using Launcher = void (*)(void* const*, const long long*, void*);

void run(const std::filesystem::path& file) {
  ir::Graph graph = ir::parse(read_file(file));
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    if (graph.value(ir::ValueId(i)).is_tensor()) {
      graph.value(ir::ValueId(i)).tensor().device = {ir::DeviceType::kCuda, -1};
    }
  }
  const CudaBackend backend({device->architecture()});
  const Schedule plan = schedule(graph, backend, false);
  const KernelTable table = write_kernels(graph, plan, backend);
  std::string source = cuda::prelude(), host = kLauncherPreamble;
  for (std::size_t k = 0; k < table.kernels().size(); ++k) {
    source += named(table.kernels()[k].source, "k" + std::to_string(k));
    host += named(table.kernels()[k].launcher, "k" + std::to_string(k));
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
  *static_cast<decltype(&launch_kernel)*>(dlsym(handle, "launch")) = launch_kernel;

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
      reinterpret_cast<Launcher>(dlsym(handle, name.c_str()))(operands.data(), nullptr, nullptr);
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
