#include "backend/cuda/kernel_units.hpp"

#include <set>
#include <utility>

#include "backend/cuda/architectures.hpp"
#include "backend/cuda/emit/prelude.hpp"
#include "backend/cuda/library/product.hpp"
#include "backend/cuda/target/tuning.hpp"
#include "kiln/base/digest.hpp"
#include "text/source_text.hpp"
#include "toolchain/compile_flags.hpp"

namespace kiln::codegen::cuda {
namespace {

// What every launcher needs. `kMaxDevices` bounds the GPUs of a process.
constexpr const char* kLauncherPreamble = R"(
typedef unsigned U32;
struct KilnCudaImage {
  const void* bytes;
  U32 capability, is_ptx;
};
#define HIDDEN __attribute__((visibility("hidden")))
extern "C" {
HIDDEN int kiln_cuda_load(const KilnCudaImage*, U32, const char* const*, U32, void**);
HIDDEN int kiln_cuda_device(void);
HIDDEN const char* kiln_cuda_launch(void*, const U32*, const U32*, U32, void*, void**);
}
template <int buffer_count, int size_count>
struct Arguments {
  void* buffers[buffer_count];
  long long sizes[size_count];
};
constexpr int kMaxDevices = 64;
static const char* launch(void* const* kernels, int kernel, long long x, long long y, U32 width,
                          U32 rows, void* stream, void* arguments) {
  if (x <= 0 || y <= 0) return nullptr;
  if (x >= 1LL << 31 || y >= 1LL << 16) return "a kernel has more work than a GPU can be given";
  const U32 grid[3] = {(U32)x, (U32)y, 1}, block[3] = {width, rows, 1};
  return kiln_cuda_launch(kernels[kernel], grid, block, 0, stream, &arguments);
}
#define KILN_LAUNCH(kernel, x, y, width, rows)                                             \
  if ((*error = launch(kernels[kiln_cuda_device()], kernel, x, y, width, rows, stream, \
                       &arguments)))                                                           \
  return
)";

std::string named(const std::string& text, const std::string& name) {
  return replace_all(text, "KILN_KERNEL", name);
}

// The kernels of one unit, while it is assembled.
struct Group {
  std::string device;   // What runs on the device, without the prelude.
  std::string host;     // What launches it.
  std::string entries;  // "kiln_…_rows, …": the kernels in the image.
  std::string names;    // The same as strings.

  void add(const KernelSource& kernel, const std::string& name) {
    device += "// " + comment_line(kernel.comment) + "\n" + named(kernel.source, name) + "\n";
    host += "// " + comment_line(kernel.comment) + "\n" + named(kernel.launcher, name) + "\n";
    for (const std::string& entry : kernel.entries) {
      const std::string full = named(entry, name);
      entries += full + ", ";
      names += "\"" + full + "\", ";
    }
  }
};

// The bytes of an image at the symbol `label`. A zero byte terminates PTX.
std::string embedded(const std::string& label, const std::string& file) {
  return "asm(\".pushsection .rodata\\n.balign 64\\n.hidden " + label + "\\n.global " + label +
         "\\n" + label + ":\\n.incbin \\\"" + file + "\\\"\\n.byte 0\\n.popsection\\n\");\n" +
         "extern \"C\" HIDDEN const unsigned char " + label + "[];\n";
}

class UnitWriter {
 public:
  UnitWriter(std::span<const std::string> architectures, const std::string& nvrtc)
      : architectures_(architectures.begin(), architectures.end()), nvrtc_(nvrtc) {
    architectures_.push_back(ptx_architecture(architectures_));
  }

  void write(const Group& group, KernelUnits& result) const {
    const std::string device = prelude() + group.device;
    // Models that are loaded together do not see each other's names; units of one model do.
    const std::string name = "kiln_" + digest(device + group.host).hex().substr(0, 16);
    Unit unit{.name = "kernels" + std::to_string(result.units.size()),
              .source = kLauncherPreamble + product_declarations(),
              .flags = program_compile_flags(),
              .machine = nvrtc_};
    if (group.entries.empty()) {  // Only products.
      unit.source += group.host;
      result.units.push_back(std::move(unit));
      return;
    }
    std::string images;
    for (const std::string& architecture : architectures_) {
      const std::string file = name + "." + architecture;
      const std::string label = name + "_" + architecture;
      unit.images.push_back({file, architecture, device});
      unit.source += embedded(label, file);
      images += "  {" + label + ", " + std::to_string(capability_of(architecture)) + ", " +
                (is_ptx(architecture) ? "1" : "0") + "},\n";
    }
    const std::string count = std::to_string(architectures_.size());
    unit.source +=
        "static const KilnCudaImage images[" + count + "] = {\n" + images + "};\nenum Kernel { " +
        group.entries + "kernel_count };\n" + "static const char* const names[] = {" + group.names +
        "};\n" + "static void* kernels[kMaxDevices][kernel_count];\n" + "extern \"C\" HIDDEN int " +
        name + "_load(void) {\n" + "  const int device = kiln_cuda_device();\n" +
        "  if (device < 0 || device >= kMaxDevices) return 1;\n" +
        "  return kiln_cuda_load(images, " + count +
        ", names, kernel_count, kernels[device]);\n}\n\n" + group.host;
    result.loaders.push_back(name + "_load");
    result.units.push_back(std::move(unit));
  }

 private:
  std::vector<std::string> architectures_;
  const std::string& nvrtc_;
};

}  // namespace

KernelUnits group_kernels(std::span<const KernelSource> kernels,
                          std::span<const std::string> architectures,
                          const std::string& nvrtc) {
  const UnitWriter writer(architectures, nvrtc);
  KernelUnits result;
  std::set<std::string> known;
  Group group;
  for (const KernelSource& kernel : kernels) {
    const std::string name = "kiln_" + digest(kernel.source + kernel.launcher).hex().substr(0, 16);
    result.names.push_back(name);
    if (!known.insert(name).second) {
      continue;
    }
    if (!group.device.empty() && group.device.size() + kernel.source.size() > kTuning.unit_bytes) {
      writer.write(std::exchange(group, {}), result);
    }
    group.add(kernel, name);
  }
  if (!group.device.empty()) {
    writer.write(group, result);
  }
  result.distinct = static_cast<int>(known.size());
  return result;
}

}  // namespace kiln::codegen::cuda
