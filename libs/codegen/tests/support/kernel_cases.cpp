#include "kernel_cases.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <memory_resource>
#include <random>
#include <sstream>

#include "backend/cpu/cpu_backend.hpp"
#include "backend/cuda/cuda_backend.hpp"
#include "backend/cuda/emit/prelude.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/subprocess.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/ir/parse.hpp"
#include "lower/lowering.hpp"
#include "support/cubin.hpp"
#include "support/cuda_device.hpp"
#include "support/elements.hpp"
#include "support/with_values.hpp"
#include "toolchain/nvrtc.hpp"

namespace kiln::codegen::testing {

using ir::DType;

namespace {

using Function = void (*)(void* const*, const long long*, void* stream, const char** error);

// Calls `visit(offset)` for each element of a strided window, row-major.
template <class Visit>
void for_each_offset(const std::vector<std::int64_t>& sizes,
                     const std::vector<std::int64_t>& strides,
                     std::size_t dim,
                     std::int64_t offset,
                     const Visit& visit) {
  if (dim == sizes.size()) {
    visit(offset);
    return;
  }
  for (std::int64_t i = 0; i < sizes[dim]; ++i) {
    for_each_offset(sizes, strides, dim + 1, offset + i * strides[dim], visit);
  }
}

// The run of one case: its buffers, and libtorch's part played by plain loops.
class Machine {
 public:
  Machine(const KernelCase& test,
          KernelResult& result,
          const std::vector<Function>& kernels,
          std::uint32_t seed,
          CudaDevice* gpu)
      : test_(test),
        result_(result),
        kernels_(kernels),
        program_(lower(result.graph)),
        random_(seed),
        gpu_(gpu),
        out_of_range_(1, 0, memory()) {
    for (const Buffer& buffer : result_.schedule.buffers) {
      std::int64_t last = 0;
      const std::vector<std::int64_t> sizes = numbers(buffer.sizes);
      const std::vector<std::int64_t> strides = numbers(buffer.strides);
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        last += std::max<std::int64_t>(sizes[i] - 1, 0) * strides[i];
      }
      // A few more, filled with a pattern: whoever writes there is found out.
      memory_.emplace_back(
          static_cast<std::size_t>((last + 1 + kGuard) * ir::size_of(buffer.dtype)),
          std::byte{0x5a},
          memory());
    }
  }

  void run() {
    for (const ir::Input& input : result_.graph.inputs()) {
      fill(input.value);
    }
    Evaluator evaluator(program_, [&](TensorId tensor) { return reference(evaluator_, tensor); });
    evaluator_ = &evaluator;
    for (std::size_t i = 0; i < result_.schedule.steps.size(); ++i) {
      const Step& step = result_.schedule.steps[i];
      if (const auto* call = std::get_if<KernelCall>(&step)) {
        run_kernel(*call, result_.table.uses[i]);
      } else {
        run_extern(result_.graph.node(std::get<ExternCall>(step).node));
      }
    }
    for (const ir::Output& output : result_.graph.outputs()) {
      if (output.value.valid() && result_.mismatch.empty()) {
        compare(output.value, evaluator.of(*program_.of_value[output.value.index()]));
      }
    }
    check_guards();
  }

 private:
  static constexpr std::int64_t kGuard = 16;

  // What is planned for all sizes, at those of this run.
  std::int64_t number(const ir::Expr& expr) const { return expr.evaluate(test_.values); }
  std::vector<std::int64_t> numbers(const std::vector<ir::Expr>& exprs) const {
    std::vector<std::int64_t> result;
    for (const ir::Expr& expr : exprs) {
      result.push_back(number(expr));
    }
    return result;
  }

  const Location& location(ir::ValueId value) const {
    const std::optional<Location>& found = result_.schedule.locations[value.index()];
    if (!found) {
      throw Error(ErrorCode::kInternal, "%" + result_.graph.value(value).name + " has no location");
    }
    return *found;
  }

  template <class Visit>
  void for_each_element(ir::ValueId value, const Visit& visit) {
    const Location& place = location(value);
    const DType dtype = result_.schedule.buffers[place.buffer.index()].dtype;
    for_each_offset(numbers(place.sizes),
                    numbers(place.strides),
                    0,
                    number(place.offset),
                    [&](std::int64_t offset) {
                      visit(dtype,
                            memory_[place.buffer.index()].data() + offset * ir::size_of(dtype));
                    });
  }

  Array read(ir::ValueId value) {
    Array array{result_.graph.tensor(value).dtype, numbers(result_.graph.tensor(value).sizes), {}};
    for_each_element(value, [&](DType dtype, std::byte* at) {
      array.elements.push_back(read_element(dtype, at));
    });
    return array;
  }

  void fill(ir::ValueId value) {
    std::uniform_real_distribution<double> real(test_.low, test_.high);
    std::uniform_int_distribution<std::int64_t> integer(0, test_.integer_end - 1);
    const double specials[] = {std::nan(""), HUGE_VAL, -HUGE_VAL, 0.0, -0.0, 1e30, -1e-30};
    std::size_t count = 0;
    for_each_element(value, [&](DType dtype, std::byte* at) {
      Element e{real(random_), integer(random_)};
      if (test_.special && ++count % 3 == 0) {
        e.real = specials[(count / 3) % std::size(specials)];
      }
      write_element(dtype, at, e);
    });
  }

  // Inputs as they are, results of libtorch's nodes computed from the evaluator's own operands.
  Array reference(Evaluator* evaluator, TensorId tensor) {
    const ir::ValueId value = program_[tensor].value;
    const ir::NodeId producer = result_.graph.value(value).producer;
    if (!producer.valid()) {
      return read(value);
    }
    std::vector<Array> operands;
    for_each_operand(result_.graph.node(producer), [&](ir::ValueId operand) {
      operands.push_back(evaluator->of(*program_.of_value[operand.index()]));
    });
    return product(result_.graph.node(producer), operands);
  }

  // aten.mm(a, b) and aten.addmm(bias, a, b), the only nodes that these tests leave to libtorch.
  static Array product(const ir::Node& node, const std::vector<Array>& operands) {
    const std::size_t first = node.target == "aten.addmm.default" ? 1 : 0;
    if (node.target != "aten.mm.default" && first == 0) {
      throw Error(ErrorCode::kUnsupported, "no reference for " + node.target);
    }
    const Array& a = operands[first];
    const Array& b = operands[first + 1];
    Array result{a.dtype, {a.sizes[0], b.sizes[1]}, {}};
    for (std::int64_t i = 0; i < a.sizes[0]; ++i) {
      for (std::int64_t j = 0; j < b.sizes[1]; ++j) {
        double total = first == 1 ? operands[0].elements[static_cast<std::size_t>(j)].real : 0;
        for (std::int64_t k = 0; k < a.sizes[1]; ++k) {
          total += a.elements[static_cast<std::size_t>(i * a.sizes[1] + k)].real *
                   b.elements[static_cast<std::size_t>(k * b.sizes[1] + j)].real;
        }
        result.elements.push_back({static_cast<double>(static_cast<float>(total)), 0});
      }
    }
    return result;
  }

  void run_kernel(const KernelCall& call, const KernelUse& use) {
    std::vector<void*> operands;
    for (const KernelCall::Operand& operand : call.operands) {
      const DType dtype = result_.schedule.buffers[operand.buffer.index()].dtype;
      operands.push_back(memory_[operand.buffer.index()].data() +
                         number(operand.offset) * ir::size_of(dtype));
    }
    std::vector<long long> sizes;
    for (const ir::Expr& size : use.sizes) {
      sizes.push_back(number(size));
    }
    operands.push_back(out_of_range_.data());
    kernels_[use.kernel](operands.data(), sizes.data(), nullptr, nullptr);
    if (gpu_ != nullptr) {
      gpu_->synchronize();
    }
    if (out_of_range_[0] != 0) {
      throw Error(ErrorCode::kInvalidArgument, "a kernel found an index out of range");
    }
  }

  void run_extern(const ir::Node& node) {
    std::vector<Array> operands;
    for_each_operand(node, [&](ir::ValueId value) { operands.push_back(read(value)); });
    const Array array = product(node, operands);
    std::size_t next = 0;
    for_each_element(node.results[0], [&](DType dtype, std::byte* at) {
      write_element(dtype, at, array.elements[next++]);
    });
  }

  void compare(ir::ValueId value, const Array& expected) {
    const Array actual = read(value);
    for (std::size_t i = 0; i < expected.elements.size(); ++i) {
      const Element a = actual.elements[i];
      const Element e = expected.elements[i];
      const bool real = ir::is_floating_point(expected.dtype);
      const bool same =
          !real ? a.integer == e.integer
                : a.real == e.real || (std::isnan(a.real) && std::isnan(e.real)) ||
                      std::fabs(a.real - e.real) <= test_.tolerance * (1 + std::fabs(e.real));
      if (!same) {
        std::ostringstream message;
        message << "%" << result_.graph.value(value).name << "[" << i << "] is "
                << (real ? a.real : static_cast<double>(a.integer)) << " and should be "
                << (real ? e.real : static_cast<double>(e.integer));
        result_.mismatch = message.str();
        return;
      }
    }
  }

  void check_guards() {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      const std::size_t guard =
          static_cast<std::size_t>(kGuard * ir::size_of(result_.schedule.buffers[i].dtype));
      if (std::any_of(memory_[i].end() - static_cast<std::ptrdiff_t>(guard),
                      memory_[i].end(),
                      [](std::byte b) { return b != std::byte{0x5a}; })) {
        result_.mismatch = "buffer " + std::to_string(i) + " was written beyond its end";
      }
    }
  }

  // What kernels reach, wherever they run.
  [[nodiscard]] std::pmr::memory_resource* memory() const {
    return gpu_ != nullptr ? gpu_ : std::pmr::get_default_resource();
  }

  const KernelCase& test_;
  KernelResult& result_;
  const std::vector<Function>& kernels_;
  LoopProgram program_;
  std::mt19937 random_;
  Evaluator* evaluator_ = nullptr;
  CudaDevice* gpu_;
  std::vector<std::pmr::vector<std::byte>> memory_;
  std::pmr::vector<int> out_of_range_;
};

}  // namespace

std::size_t kernel_count(const Schedule& schedule) {
  return static_cast<std::size_t>(
      std::count_if(schedule.steps.begin(), schedule.steps.end(), [](const Step& step) {
        return std::holds_alternative<KernelCall>(step);
      }));
}

std::vector<KernelSource> kernels_of(const ir::Graph& graph, const Target& target) {
  const CpuBackend backend({target});
  return write_kernels(graph, schedule(graph, backend, false), backend).kernels();
}

namespace {

// How kernels are compiled and where they run.
struct Machinery {
  std::string preamble = {};
  std::vector<std::string> flags = {};
  CudaDevice* gpu = nullptr;                   // What is behind the launchers is compiled for it.
  std::vector<std::string> compiled_for = {};  // By NVRTC, though it does not run.
};

void* compile_library(const std::filesystem::path& directory,
                      const std::string& text,
                      const std::vector<std::string>& flags) {
  const std::string source = (directory / "kernels.cpp").string();
  const std::string library = (directory / "kernels.so").string();
  std::ofstream(source) << text;
  std::vector<std::string> command{"g++", "-shared", "-fPIC", "-w", source, "-o", library, "-lm"};
  command.insert(command.end(), flags.begin(), flags.end());
  const ProcessResult compiled = run_process(command);
  if (!compiled.ok()) {
    throw Error(ErrorCode::kInternal,
                "kernels do not compile: " + compiled.error.substr(0, 4000) + "\n" +
                    text.substr(0, 100000));
  }
  void* handle = dlopen(library.c_str(), RTLD_NOW);
  if (handle == nullptr) {
    throw Error(ErrorCode::kInternal, std::string("kernels do not load: ") + dlerror());
  }
  return handle;
}

// Compiles `cases` for `backend` as one library and runs them.
std::vector<KernelResult> run_compiled(const std::vector<KernelCase>& cases,
                                       const Backend& backend,
                                       const Machinery& machinery) {
  std::vector<KernelResult> results;
  std::string host = machinery.preamble, device = cuda::prelude();
  const auto name_of = [](std::size_t test, std::size_t kernel) {
    return "kernel_" + std::to_string(test) + "_" + std::to_string(kernel);
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    ir::Graph graph = on_device(ir::parse(cases[i].text), backend.device());
    Schedule plan = schedule(graph, backend, false);
    KernelTable table = write_kernels(graph, plan, backend);
    for (std::size_t k = 0; k < table.kernels().size(); ++k) {
      const KernelSource& kernel = table.kernels()[k];
      const std::string source = with_kernel_name(kernel.source, name_of(i, k)) + "\n";
      device += source;
      host += machinery.gpu == nullptr ? source : "";
      host += with_kernel_name(kernel.launcher, name_of(i, k)) + "\n";
    }
    if (!cases[i].values.empty()) {
      graph = on_device(ir::parse(with_values(cases[i].text, cases[i].values)), backend.device());
    }
    results.push_back({std::move(plan), std::move(table), std::move(graph), {}});
  }
  for (const std::string& architecture : machinery.compiled_for) {
    check_rows_are_in_registers(device, compile_cuda(device, architecture, KILN_TEST_NVRTC));
  }
  const TemporaryDirectory directory("kiln-kernels");
  void* const handle = compile_library(directory.path(), host, machinery.flags);
  if (machinery.gpu != nullptr) {
    machinery.gpu->load(compile_cuda(device, machinery.gpu->architecture()));
    bind_launchers(handle, *machinery.gpu);
  }
  for (std::size_t i = 0; i < cases.size(); ++i) {
    std::vector<Function> kernels;
    for (std::size_t k = 0; k < results[i].kernels().size(); ++k) {
      kernels.push_back(reinterpret_cast<Function>(dlsym(handle, name_of(i, k).c_str())));
    }
    Machine(cases[i], results[i], kernels, static_cast<std::uint32_t>(i + 1), machinery.gpu).run();
  }
  return results;
}

}  // namespace

std::vector<KernelResult> run_cases(const std::vector<KernelCase>& cases, const Target& target) {
  std::vector<std::string> flags{
      "-O2", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast", "-fopenmp"};
  std::istringstream more(target.compiler_flags);
  for (std::string flag; more >> flag;) {
    flags.push_back(flag);
  }
  return run_compiled(cases, CpuBackend({target}), {.flags = flags});
}

std::vector<KernelResult> run_cuda_cases(const std::vector<KernelCase>& cases) {
  if (std::getenv("KILN_TEST_GPU") != nullptr) {
    CudaDevice gpu;
    return run_compiled(
        cases, CudaBackend({gpu.architecture()}), {.preamble = kLauncherPreamble, .gpu = &gpu});
  }
  std::vector<std::string> architectures;
  if (*KILN_TEST_NVRTC != '\0') {
    architectures = {"sm_80", "sm_90"};
  }
  return run_compiled(cases,
                      CudaBackend({"sm_90"}),
                      {.preamble = read_file(KILN_CUDA_EMULATION) + cuda::prelude(),
                       .flags = {"-O1", "-std=c++20"},
                       .compiled_for = architectures});
}

}  // namespace kiln::codegen::testing
