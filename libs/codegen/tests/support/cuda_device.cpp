#include "support/cuda_device.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <limits>

#include "kiln/base/error.hpp"

namespace kiln::codegen::testing {

struct CudaDevice::Driver {
  int (*init)(unsigned) = nullptr;
  int (*get_attribute)(int*, int attribute, int device) = nullptr;
  int (*retain_context)(void**, int device) = nullptr;
  int (*set_context)(void*) = nullptr;
  int (*allocate_host)(void**, std::size_t, unsigned flags) = nullptr;
  int (*free_host)(void*) = nullptr;
  int (*load_module)(void**, const void*) = nullptr;
  int (*unload_module)(void*) = nullptr;
  int (*get_function)(void**, void* module, const char*) = nullptr;
  int (*launch_kernel)(void*,
                       unsigned,
                       unsigned,
                       unsigned,
                       unsigned,
                       unsigned,
                       unsigned,
                       unsigned shared_bytes,
                       void* stream,
                       void** arguments,
                       void** extra) = nullptr;
  int (*synchronize)() = nullptr;
  int (*allocate)(unsigned long long*, std::size_t) = nullptr;
  int (*free)(unsigned long long) = nullptr;
  int (*set_bytes)(unsigned long long, unsigned char, std::size_t) = nullptr;
  int (*create_event)(void**, unsigned flags) = nullptr;
  int (*record_event)(void*, void* stream) = nullptr;
  int (*synchronize_event)(void*) = nullptr;
  int (*elapsed)(float* milliseconds, void* begin, void* end) = nullptr;

  static const Driver& get() {
    static const Driver driver;
    return driver;
  }

 private:
  Driver() {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      throw Error(ErrorCode::kUnsupported, std::string("there is no CUDA driver: ") + dlerror());
    }
    const auto find = [&]<class Function>(Function& entry, const char* name) {
      entry = reinterpret_cast<Function>(dlsym(library, name));
      ensure(entry != nullptr, "the CUDA driver lacks an entry");
    };
    find(init, "cuInit");
    find(get_attribute, "cuDeviceGetAttribute");
    find(retain_context, "cuDevicePrimaryCtxRetain");
    find(set_context, "cuCtxSetCurrent");
    find(allocate_host, "cuMemHostAlloc");
    find(free_host, "cuMemFreeHost");
    find(load_module, "cuModuleLoadData");
    find(unload_module, "cuModuleUnload");
    find(get_function, "cuModuleGetFunction");
    find(launch_kernel, "cuLaunchKernel");
    find(synchronize, "cuCtxSynchronize");
    find(allocate, "cuMemAlloc_v2");
    find(free, "cuMemFree_v2");
    find(set_bytes, "cuMemsetD8_v2");
    find(create_event, "cuEventCreate");
    find(record_event, "cuEventRecord");
    find(synchronize_event, "cuEventSynchronize");
    find(elapsed, "cuEventElapsedTime");
  }
};

namespace {

void require_success(int result, const std::string& what) {
  if (result != 0) {
    throw Error(ErrorCode::kInternal, what + ": CUDA error " + std::to_string(result));
  }
}

}  // namespace

CudaDevice::CudaDevice() : driver_(Driver::get()) {
  void* context = nullptr;
  require_success(driver_.init(0), "there is no GPU");
  require_success(driver_.retain_context(&context, device_), "the GPU cannot be used");
  require_success(driver_.set_context(context), "the GPU cannot be used");
}

CudaDevice::~CudaDevice() {
  if (module_ != nullptr) {
    driver_.unload_module(module_);
  }
}

std::string CudaDevice::architecture() const {
  constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_…
  int major = 0, minor = 0;
  require_success(driver_.get_attribute(&major, kMajor, device_), "the GPU does not answer");
  require_success(driver_.get_attribute(&minor, kMinor, device_), "the GPU does not answer");
  return "sm_" + std::to_string(major) + std::to_string(minor);
}

void CudaDevice::load(const std::string& cubin) {
  require_success(driver_.load_module(&module_, cubin.data()), "kernels cannot be loaded");
}

void CudaDevice::enqueue(const char* kernel,
                         long long grid_x,
                         long long grid_y,
                         unsigned width,
                         unsigned rows,
                         void* argument) {
  void* function = nullptr;
  require_success(driver_.get_function(&function, module_, kernel), kernel);
  void* arguments[] = {argument};
  require_success(driver_.launch_kernel(function,
                                        static_cast<unsigned>(grid_x),
                                        static_cast<unsigned>(grid_y),
                                        1,
                                        width,
                                        rows,
                                        1,
                                        0,
                                        nullptr,
                                        arguments,
                                        nullptr),
                  kernel);
}

void CudaDevice::synchronize() {
  require_success(driver_.synchronize(), "a kernel failed");
}

void* CudaDevice::allocate_zeros(std::size_t bytes) {
  unsigned long long address = 0;
  require_success(driver_.allocate(&address, bytes), "no memory on the device");
  require_success(driver_.set_bytes(address, 0, bytes), "memory cannot be set");
  return reinterpret_cast<void*>(address);
}

void CudaDevice::free_device(void* memory) {
  driver_.free(reinterpret_cast<unsigned long long>(memory));
}

double CudaDevice::time(const std::function<void()>& work) {
  constexpr int kRounds = 20, kRuns = 10;
  void *begin = nullptr, *end = nullptr;
  require_success(driver_.create_event(&begin, 0), "no event");
  require_success(driver_.create_event(&end, 0), "no event");
  work();
  float best = std::numeric_limits<float>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    require_success(driver_.record_event(begin, nullptr), "no event");
    for (int run = 0; run < kRuns; ++run) {
      work();
    }
    require_success(driver_.record_event(end, nullptr), "no event");
    require_success(driver_.synchronize_event(end), "the kernels fail");
    float milliseconds = 0;
    require_success(driver_.elapsed(&milliseconds, begin, end), "no time");
    best = std::min(best, milliseconds);
  }
  return static_cast<double>(best) * 1000 / kRuns;
}

void* CudaDevice::do_allocate(std::size_t bytes, std::size_t /*alignment*/) {
  constexpr unsigned kMapped = 3;  // Portable, and mapped into the device's addresses.
  void* memory = nullptr;
  require_success(driver_.allocate_host(&memory, bytes, kMapped), "no memory");
  return memory;
}

void CudaDevice::do_deallocate(void* memory, std::size_t /*bytes*/, std::size_t /*alignment*/) {
  driver_.free_host(memory);
}

const char* const kLauncherPreamble = R"(
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

namespace {

CudaDevice* bound_device = nullptr;

void launch_on_bound_device(const char* kernel,
                            long long grid_x,
                            long long grid_y,
                            unsigned width,
                            unsigned rows,
                            void* arguments) {
  bound_device->enqueue(kernel, grid_x, grid_y, width, rows, arguments);
}

}  // namespace

void bind_launchers(void* library, CudaDevice& device) {
  bound_device = &device;
  *static_cast<decltype(&launch_on_bound_device)*>(dlsym(library, "launch")) =
      launch_on_bound_device;
}

std::string with_kernel_name(std::string text, const std::string& name) {
  const std::string from = "KILN_KERNEL";
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + name.size())) {
    text.replace(at, from.size(), name);
  }
  return text;
}

ir::Graph on_device(ir::Graph graph, ir::DeviceType device) {
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    if (graph.value(ir::ValueId(i)).is_tensor()) {
      graph.value(ir::ValueId(i)).tensor().device = {device, -1};
    }
  }
  return graph;
}

}  // namespace kiln::codegen::testing
