#include "bisect.hpp"

#include <ATen/Functions.h>
#include <dlfcn.h>

#include <map>

#include "inputs.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/subprocess.hpp"
#include "kiln/base/temporary_directory.hpp"
#include "kiln/capture/replay.hpp"
#include "kiln/codegen/compile.hpp"
#include "kiln/container_runtime/runner.hpp"
#include "kiln/ir/parse.hpp"
#include "kiln/ir/symbol_sources.hpp"
#include "plan.hpp"

namespace kiln::tool {
namespace fs = std::filesystem;

namespace {

using KernelFunction = void (*)(void* const*, const long long*);
using Values = std::map<std::string, at::Tensor>;

at::ScalarType scalar_type(const std::string& dtype) {
  return static_cast<at::ScalarType>(*ir::parse_dtype(dtype));
}

// With the same strides, even where elements share their place.
at::Tensor exact_copy(const at::Tensor& tensor) {
  if (tensor.numel() == 0) {
    return tensor.clone();
  }
  std::int64_t extent = 1;
  for (std::int64_t i = 0; i < tensor.dim(); ++i) {
    extent += (tensor.size(i) - 1) * tensor.stride(i);
  }
  return tensor.as_strided({extent}, {1}, tensor.storage_offset())
      .clone()
      .as_strided(tensor.sizes(), tensor.strides(), 0);
}

std::vector<at::Tensor> copies_of(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& tensor : tensors) {
    copies.push_back(exact_copy(tensor));
  }
  return copies;
}

// Every tensor of the graph that has a place in memory, as the interpreter computes it.
Values interpret(const ir::Graph& graph, const Plan& plan, const std::vector<at::Tensor>& inputs) {
  ir::Graph observed = graph;
  observed.outputs().clear();
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    const ir::Value& value = graph.values()[i];
    if (value.is_tensor() && plan.values.contains(value.name)) {
      observed.add_output({.value = ir::ValueId(i)});
    }
  }
  const std::vector<at::Tensor> results = capture::Interpreter(observed).run(copies_of(inputs));
  Values values;
  for (std::size_t i = 0; i < results.size(); ++i) {
    values.emplace(observed.value(observed.outputs()[i].value).name, results[i]);
  }
  return values;
}

// The dump's kernels as functions.
class KernelLibrary {
 public:
  KernelLibrary(const fs::path& folder, const Plan& plan) {
    const fs::path library = directory_.path() / "kernels.so";
    std::vector<std::string> command = plan.compiler;
    for (const Plan::Unit& unit : plan.units) {
      if (unit.file == "model.cpp") {
        continue;
      }
      if (command.size() == plan.compiler.size()) {
        command.insert(command.end(), unit.flags.begin(), unit.flags.end());
      }
      command.push_back((folder / unit.file).string());
    }
    if (command.size() == plan.compiler.size()) {
      return;  // A program of extern calls only.
    }
    command.insert(command.end(), {"-fvisibility=default", "-shared", "-o", library.string()});
    const ProcessResult result = run_process(command);
    if (!result.ok()) {
      throw Error(ErrorCode::kIo,
                  "the dump's kernels cannot be compiled: " +
                      result.error.substr(0, result.error.find('\n')));
    }
    handle_ = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) {
      throw Error(ErrorCode::kIo, std::string("the dump's kernels cannot be loaded: ") + dlerror());
    }
  }
  ~KernelLibrary() {
    if (handle_ != nullptr) {
      ::dlclose(handle_);
    }
  }
  KernelLibrary(const KernelLibrary&) = delete;
  KernelLibrary& operator=(const KernelLibrary&) = delete;

  [[nodiscard]] KernelFunction find(const std::string& name) const {
    void* const found = handle_ == nullptr ? nullptr : ::dlsym(handle_, name.c_str());
    if (found == nullptr) {
      throw Error(ErrorCode::kCorrupt, "the dump's source has no kernel '" + name + "'");
    }
    return reinterpret_cast<KernelFunction>(found);
  }

 private:
  TemporaryDirectory directory_{"kiln-bisect"};
  void* handle_ = nullptr;
};

// The memory of a run without sharing, which always holds what the interpreter says.
class Memory {
 public:
  Memory(const Plan& plan, const Values& values) : plan_(plan), buffers_(plan.buffers.size()) {
    for (const auto& [name, location] : plan.values) {
      const auto found = values.find(name);
      // A view may read the same bytes as another type.
      const at::ScalarType type = scalar_type(plan.buffers[location.buffer].dtype);
      if (found != values.end() && plan.is_whole(location) && found->second.scalar_type() == type) {
        names_[location.buffer] = name;
        expected_[location.buffer] = found->second;
      }
    }
  }

  // Operands hold what they should, results nothing yet. What the graph has no value for (a
  // kernel's scratch, a part of an operator) keeps what the kernels before computed.
  void* prepare(const Plan::Operand& operand) {
    const Plan::Buffer& buffer = plan_.buffers[operand.buffer];
    at::Tensor& tensor = buffers_[operand.buffer];
    if (!tensor.defined()) {
      const auto found = expected_.find(operand.buffer);
      const bool is_known = found != expected_.end() && !operand.written;
      if (is_known && (buffer.memory == "input" || buffer.memory == "constant")) {
        tensor = exact_copy(found->second);
      } else {
        tensor = at::empty_strided(buffer.sizes, buffer.strides, scalar_type(buffer.dtype)).zero_();
        if (is_known) {
          tensor.copy_(found->second);
        }
      }
    }
    return static_cast<char*>(tensor.mutable_data_ptr()) +
           operand.offset * static_cast<std::int64_t>(tensor.element_size());
  }

  // Compares what was written with what is expected, and corrects it for the kernels that follow.
  std::optional<Difference> compare_and_correct(std::size_t buffer,
                                                std::optional<double> tolerance) {
    const auto found = expected_.find(buffer);
    if (found == expected_.end()) {
      return std::nullopt;
    }
    auto difference = compare(names_.at(buffer), buffers_[buffer], found->second, tolerance);
    buffers_[buffer].copy_(found->second);
    return difference;
  }

 private:
  const Plan& plan_;
  std::vector<at::Tensor> buffers_;
  std::map<std::size_t, std::string> names_;
  std::map<std::size_t, at::Tensor> expected_;
};

std::string file_of(const fs::path& folder, const Plan& plan, const std::string& kernel) {
  for (const Plan::Unit& unit : plan.units) {
    const std::string text = read_file(folder / unit.file);
    if (text.find("namespace " + kernel + "_space {") != std::string::npos) {
      return (folder / unit.file).string();
    }
  }
  return {};
}

std::vector<Difference> run_kernel(const Plan& plan,
                                   const Plan::Step& step,
                                   const KernelLibrary& library,
                                   Memory& memory,
                                   std::optional<double> tolerance) {
  std::vector<void*> operands;
  for (const Plan::Operand& operand : step.operands) {
    operands.push_back(memory.prepare(operand));
  }
  int out_of_range = 0;
  if (plan.kernels[step.kernel].checks_indices) {
    operands.push_back(&out_of_range);
  }
  const std::vector<long long> sizes(step.sizes.begin(), step.sizes.end());
  library.find(plan.kernels[step.kernel].name)(operands.data(), sizes.data());
  std::vector<Difference> differences;
  for (const Plan::Operand& operand : step.operands) {
    if (operand.written) {
      if (auto difference = memory.compare_and_correct(operand.buffer, tolerance)) {
        differences.push_back(std::move(*difference));
      }
    }
  }
  return differences;
}

// The program as a whole: memory that is shared, calls of libtorch, what happens at the ends.
void compare_outputs(const ir::Graph& program,
                     const std::vector<at::Tensor>& inputs,
                     std::optional<double> tolerance,
                     BisectResult& result) {
  const TemporaryDirectory directory("kiln-bisect");
  const fs::path library = directory.path() / "model.so";
  codegen::compile(program, library);
  const std::vector<at::Tensor> expected = capture::Interpreter(program).run(copies_of(inputs));
  // An input that the program writes is not an output of the library: it is written where it is.
  const std::vector<at::Tensor> arguments = copies_of(inputs);
  const std::vector<at::Tensor> computed = container_runtime::Runner(library).run(arguments);
  for (std::size_t i = 0, next = 0; i < expected.size(); ++i) {
    const ir::Output& output = program.outputs()[i];
    if (!output.value.valid()) {
      continue;
    }
    const bool is_update = output.kind == ir::OutputKind::kMutation;
    const at::Tensor& is = is_update ? arguments.at(output.input) : computed.at(next++);
    ++result.outputs_checked;
    if (auto difference = compare(program.value(output.value).name, is, expected[i], tolerance)) {
      result.outputs.push_back(std::move(*difference));
    }
  }
}

// A graph with its plan, and what it runs on.
struct Part {
  ir::Graph graph;
  Plan plan;
  std::vector<at::Tensor> inputs;
};

// Of `inputs`, the first ones of `graph`, those that the part which folds constants takes.
std::vector<at::Tensor> constants_among(const std::vector<at::Tensor>& inputs,
                                        const ir::Graph& graph) {
  std::vector<at::Tensor> constants;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ir::InputKind kind = graph.inputs()[i].kind;
    if (kind == ir::InputKind::kParameter || kind == ir::InputKind::kBuffer ||
        kind == ir::InputKind::kConstant) {
      constants.push_back(inputs[i]);
    }
  }
  return constants;
}

// The inputs of the graph that runs at each call: behind the program's own, what is folded.
std::vector<at::Tensor> with_folded(std::vector<at::Tensor> inputs,
                                    const ir::Graph& graph,
                                    const ir::Graph& fold) {
  for (const at::Tensor& value :
       capture::Interpreter(fold).run(copies_of(constants_among(inputs, graph)))) {
    std::vector<std::int64_t> strides;
    for (const ir::Expr& stride : graph.tensor(graph.inputs()[inputs.size()].value).strides) {
      strides.push_back(stride.constant().value());
    }
    inputs.push_back(at::empty_strided(value.sizes(), strides, value.scalar_type()).copy_(value));
  }
  return inputs;
}

// The values of the graph's symbols. Whether it takes them, the interpreter says.
ir::Bindings sizes_in(const ir::Graph& graph, const std::vector<at::Tensor>& inputs) {
  ir::Bindings sizes;
  for (const ir::SymbolSource& source : ir::find_symbol_sources(graph)) {
    const at::Tensor& input = inputs.at(source.input);
    if (input.dim() <= source.dimension) {
      throw Error(ErrorCode::kInvalidArgument,
                  "input " + std::to_string(source.input) + " has no dimension " +
                      std::to_string(source.dimension));
    }
    const std::int64_t found =
        source.dimension < 0 ? input.item<std::int64_t>() : input.size(source.dimension);
    sizes[source.symbol] = (found - source.shift) / source.scale;
  }
  return sizes;
}

// What is computed from constants once, if anything is, and what runs at each call.
std::vector<Part> read_parts(const fs::path& source, const std::vector<at::Tensor>& inputs) {
  std::vector<Part> parts;
  Part run{ir::parse(read_file(source / "graph.kir")), {}, inputs};
  if (fs::exists(source / "fold.kir")) {
    parts.push_back({ir::parse(read_file(source / "fold.kir")),
                     read_plan(read_file(source / "fold-plan.json")),
                     constants_among(inputs, run.graph)});
    run.inputs = with_folded(inputs, run.graph, parts[0].graph);
  }
  run.plan = read_plan(read_file(source / "plan.json"), sizes_in(run.graph, run.inputs));
  parts.push_back(std::move(run));
  return parts;
}

// Runs the kernels of a part in order, as far as they are right.
std::optional<WrongKernel> first_wrong_kernel(const Part& part,
                                              const fs::path& source,
                                              const KernelLibrary& library,
                                              std::optional<double> tolerance,
                                              std::size_t& checked) {
  Memory memory(part.plan, interpret(part.graph, part.plan, part.inputs));
  for (std::size_t i = 0; i < part.plan.steps.size(); ++i) {
    const Plan::Step& step = part.plan.steps[i];
    if (!step.is_kernel) {
      continue;
    }
    ++checked;
    std::vector<Difference> differences = run_kernel(part.plan, step, library, memory, tolerance);
    if (!differences.empty()) {
      const Plan::Kernel& kernel = part.plan.kernels[step.kernel];
      return WrongKernel{.step = i,
                         .kernel = kernel.name,
                         .comment = kernel.comment,
                         .file = file_of(source, part.plan, kernel.name),
                         .differences = std::move(differences)};
    }
  }
  return std::nullopt;
}

}  // namespace

BisectResult bisect(const fs::path& dump, const BisectOptions& options) {
  const fs::path source = dump / "source";
  const ir::Graph program = ir::parse(read_file(dump / "program.kir"));
  const std::vector<at::Tensor> inputs =
      read_inputs(options.inputs.empty() ? std::vector<std::string>{(dump / "inputs.pt").string()}
                                         : options.inputs);
  if (inputs.size() != program.inputs().size()) {
    throw Error(ErrorCode::kInvalidArgument,
                "the program takes " + std::to_string(program.inputs().size()) + " tensors, not " +
                    std::to_string(inputs.size()));
  }

  BisectResult result;
  const std::vector<Part> parts = read_parts(source, inputs);
  const KernelLibrary library(source, parts.back().plan);
  for (const Part& part : parts) {
    result.first =
        first_wrong_kernel(part, source, library, options.tolerance, result.kernels_checked);
    if (result.first) {
      result.first->folds = &part != &parts.back();
      break;
    }
  }
  compare_outputs(program, inputs, options.tolerance, result);
  return result;
}

}  // namespace kiln::tool
