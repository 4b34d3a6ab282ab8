#include "function_entry.hpp"

#include <algorithm>
#include <set>
#include <sstream>
#include <utility>

#include "kiln/autograd_dispatch/plan_bytes.hpp"
#include "kiln/base/error.hpp"
#include "kiln/codegen/compile.hpp"
#include "kiln/ir/canonical.hpp"
#include "kiln/ir/json.hpp"
#include "kiln/jit/cache_use.hpp"
#include "kiln/jit/model_library.hpp"
#include "module_state.hpp"

namespace kiln {
namespace {

using autograd_cache::Entry;
using autograd_cache::Key;
using autograd_dispatch::Plan;

std::string hexadecimal(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

std::string from_hexadecimal(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

// The plan's constraints on how arguments alias, serialized; empty if there are none.
std::string relations_of(const Plan& plan) {
  bool any = !plan.aliases.empty() || !plan.writes.empty() || !plan.changes.empty() ||
             !plan.offsets.empty() || !plan.backward_writes.empty();
  for (const autograd_dispatch::InputPlan& input : plan.inputs) {
    any = any || input.base.has_value();
  }
  if (!any) {
    return {};
  }
  Plan relations;
  relations.arguments = plan.arguments;
  relations.inputs = plan.inputs;
  relations.writes = plan.writes;
  relations.changes = plan.changes;
  relations.backward_writes = plan.backward_writes;
  relations.aliases = plan.aliases;
  relations.offsets = plan.offsets;
  relations.requires_grad = plan.requires_grad;
  relations.grad_mode = plan.grad_mode;
  return to_bytes(relations);
}

constexpr const char* kTraced = "traced.json";
constexpr std::string_view kSizes = "sizes ";
constexpr std::string_view kFixedInput = "input ";

// A line for each input whose sizes are fixed.
std::vector<std::string> fixed_inputs_of(const SymbolicSizes& sizes, const Tensors& inputs) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!sizes.mentions(i)) {
      lines.push_back(std::string(kFixedInput) + std::to_string(i) + " " +
                      TensorGuard(inputs[i]).text());
    }
  }
  return lines;
}

// The parsed guard lines of a function. Lines not recognized here belong to its graphs.
struct FunctionGuards {
  std::string graphs;
  std::vector<std::string> captured;  // Names.
  std::string relations;
  std::optional<SymbolicSizes> sizes;
  std::vector<std::string> fixed_inputs;  // As `fixed_inputs_of` writes them.

  explicit FunctionGuards(std::string_view text) {
    std::istringstream lines{std::string(text)};
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("captured ")) {
        captured.push_back(line.substr(9));
      } else if (line.starts_with("relations ")) {
        relations = from_hexadecimal(std::string_view(line).substr(10));
      } else if (line.starts_with(kSizes)) {
        sizes = SymbolicSizes::from_line(std::string_view(line).substr(kSizes.size()));
      } else if (line.starts_with(kFixedInput)) {
        fixed_inputs.push_back(line);
      } else {
        graphs += line + "\n";
      }
    }
  }

  // Whether a call has the sizes the function was compiled for, if its key leaves them open.
  [[nodiscard]] bool sizes_hold(const Tensors& inputs) const {
    return !sizes || (sizes->has_ranks_of(inputs) && sizes->holds(inputs) &&
                      fixed_inputs == fixed_inputs_of(*sizes, inputs));
  }

  // The tensors of `module` by their names, or nothing if one is not there.
  [[nodiscard]] std::optional<Tensors> captured_in(const torch::nn::Module* module) const {
    if (captured.empty()) {
      return Tensors();
    }
    return module == nullptr ? std::nullopt : tensors_named(captured, *module);
  }
};

std::string captured_guards(const std::vector<std::string>& names) {
  std::string guards;
  for (const std::string& name : names) {
    guards += "captured " + name + "\n";
  }
  return guards;
}

std::string guards_of_function(const std::map<std::string, Entry>& graphs,
                               const Plan& plan,
                               const std::vector<std::string>& captured) {
  std::set<std::string> lines;
  for (const auto& [name, graph] : graphs) {
    std::istringstream text(graph.guards);
    for (std::string line; std::getline(text, line);) {
      lines.insert(line);
    }
  }
  std::string guards;
  for (const std::string& line : lines) {
    guards += line + "\n";
  }
  guards += captured_guards(captured);
  if (const std::string relations = relations_of(plan); !relations.empty()) {
    guards += "relations " + hexadecimal(relations) + "\n";
  }
  return guards;
}

void add_part(Entry& whole, const std::string& name, const Entry& part) {
  for (const auto& [key, blob] : part.blobs) {
    whole.blobs.emplace(name + "/" + key, blob);
  }
  for (const auto& [key, path] : part.files) {
    whole.files.emplace(name + "/" + key, path);
  }
}

// Of `items` those in the folder `name`, without it.
template <class Map>
Map in_folder(const Map& items, const std::string& name) {
  Map inside;
  for (const auto& [key, value] : items) {
    if (key.starts_with(name + "/")) {
      inside.emplace(key.substr(name.size() + 1), value);
    }
  }
  return inside;
}

Entry part_of(const Entry& whole, const std::string& name) {
  return {
      .guards = {}, .blobs = in_folder(whole.blobs, name), .files = in_folder(whole.files, name)};
}

std::vector<std::string> graph_names(const Plan& plan) {
  return plan.tangents.empty() ? std::vector<std::string>{"inference"}
                               : std::vector<std::string>{"forward", "backward"};
}

std::string tracing_options(const CompileOptions& options) {
  return std::string(options.keep_mutations_in_graph ? "writes in the graph" : "writes outside") +
         ", memory budget " + std::to_string(options.memory_budget);
}

// Loads forward and backward now: the backward's file may be evicted before it first runs.
CachedFunction load_function(const Entry& entry, Tensors captured, const CompileOptions& options) {
  Plan plan = autograd_dispatch::plan_from_bytes(entry.blobs.at("plan"));
  CachedFunction found{.function = {},
                       .captured = std::move(captured),
                       .sizes = FunctionGuards(entry.guards).sizes,
                       .graph = nullptr,
                       .graphs = {},
                       .entry = entry};
  if (const auto traced = entry.blobs.find(kTraced); traced != entry.blobs.end()) {
    found.graph = std::make_shared<const ir::Graph>(ir::from_json(traced->second));
    if (found.sizes) {
      SymbolicSizes(*found.sizes).set_ranges(found.graph->symbols());  // Throws if it is another's.
    }
  }
  std::vector<autograd_dispatch::CompiledGraph> loaded;
  for (const std::string& name : graph_names(plan)) {
    GraphReport report;
    loaded.push_back(load_graph(part_of(entry, name), options, report));
    found.graphs.push_back(std::move(report));
  }
  std::function<autograd_dispatch::CompiledGraph()> backward;
  if (loaded.size() > 1) {
    backward = [half = std::move(loaded[1])] { return half; };
  }
  found.function =
      autograd_dispatch::assemble(std::move(plan), std::move(loaded[0]), std::move(backward));
  return found;
}

}  // namespace

bool can_be_cached(const CompileOptions& options) {
  return !options.forward_compiler && !options.backward_compiler && !options.inference_compiler &&
         !options.partition;
}

namespace {

Key key_of_arguments(const CompileOptions& options,
                     const Tensors& inputs,
                     const std::string& arguments,
                     const ThreadGuard& thread,
                     const torch::nn::Module* module) {
  const bool on_gpu =
      std::ranges::any_of(
          inputs, [](const at::Tensor& input) { return input.defined() && input.is_cuda(); }) ||
      (module != nullptr && has_cuda_tensor(*module));
  return environment_key(graph_options(options),
                         options.identity,
                         on_gpu ? ir::DeviceType::kCuda : ir::DeviceType::kCpu)
      .add("tracing", tracing_options(options))
      .add("thread", thread.text())
      .add("arguments", arguments)
      .add("module", module == nullptr ? "" : description_of(*module))
      .build();
}

}  // namespace

Key key_of_call(const CompileOptions& options,
                const Tensors& inputs,
                const ThreadGuard& thread,
                const torch::nn::Module* module) {
  std::string arguments;
  for (const at::Tensor& input : inputs) {
    arguments += TensorGuard(input).text() + "\n";
  }
  return key_of_arguments(options, inputs, arguments, thread, module);
}

Key shape_agnostic_key(const CompileOptions& options,
                       const Tensors& inputs,
                       const ThreadGuard& thread,
                       const torch::nn::Module* module) {
  std::string arguments;
  for (const at::Tensor& input : inputs) {
    const TensorGuard guard(input);
    arguments += guard.text_with_sizes("rank " + std::to_string(guard.sizes.size())) + "\n";
  }
  return key_of_arguments(options, inputs, arguments, thread, module);
}

std::string size_guards(const SymbolicSizes& sizes, const Tensors& inputs) {
  std::string guards = std::string(kSizes) + sizes.to_line() + "\n";
  for (const std::string& line : fixed_inputs_of(sizes, inputs)) {
    guards += line + "\n";
  }
  return guards;
}

Key key_of_trace(const CompileOptions& options, const autograd_dispatch::JointTrace& trace) {
  return environment_key(graph_options(options), options.identity, codegen::device_of(trace.graph))
      .add("tracing", tracing_options(options))
      .add("plan", to_bytes(trace.plan))
      // Without hints: an entry serves its whole range, whichever size was called first.
      .add("graph", ir::canonical_bytes(trace.graph, {.user_names = false, .hints = false}))
      .build();
}

std::optional<CachedFunction> find_function(autograd_cache::Cache& cache,
                                            const Key& key,
                                            const CompileOptions& options,
                                            const Tensors& inputs,
                                            const torch::nn::Module* module,
                                            const Tensors* captured) {
  const codegen::Options generator = graph_options(options);
  const auto captured_by = [&](const FunctionGuards& guards) {
    return captured != nullptr ? std::optional(*captured) : guards.captured_in(module);
  };
  const auto holds = [&](std::string_view text) {
    const FunctionGuards guards(text);
    const std::optional<Tensors> tensors = captured_by(guards);
    if (!tensors || !guards.sizes_hold(inputs) || !guards_hold(guards.graphs, generator)) {
      return false;
    }
    Tensors all = inputs;
    all.insert(all.end(), tensors->begin(), tensors->end());
    return guards.relations.empty() ||
           accepts(autograd_dispatch::plan_from_bytes(guards.relations), all);
  };
  std::optional<CachedFunction> found;
  cache.find_and_use(key, holds, [&](const Entry& entry) {
    found = load_function(entry, *captured_by(FunctionGuards(entry.guards)), options);
  });
  return found;
}

void save_as(autograd_cache::Cache& cache,
             const Key& key,
             const std::vector<std::string>& captured,
             Entry entry,
             const std::string& size_guards) {
  entry.guards += captured_guards(captured) + size_guards;
  cache.put(key, entry);
}

void FunctionEntryBuilder::add_key(Key key,
                                   std::vector<std::string> captured,
                                   std::string size_guards) {
  const std::lock_guard lock(mutex_);
  keys_.push_back({std::move(key), std::move(captured), std::move(size_guards)});
}

void FunctionEntryBuilder::add_graph(const std::string& name, Entry entry) {
  const std::lock_guard lock(mutex_);
  graphs_.emplace(name, std::move(entry));
  save_if_complete();
}

void FunctionEntryBuilder::set_plan(const Plan& plan) {
  const std::lock_guard lock(mutex_);
  plan_ = plan;
  save_if_complete();
}

void FunctionEntryBuilder::set_graph(const ir::Graph& traced) {
  const std::lock_guard lock(mutex_);
  traced_ = ir::to_json(traced);
}

void FunctionEntryBuilder::save_if_complete() {
  if (!plan_ || graphs_.size() != graph_names(*plan_).size()) {
    return;
  }
  for (const auto& [key, captured, sizes] : std::exchange(keys_, {})) {
    Entry entry{.guards = guards_of_function(graphs_, *plan_, captured) + sizes,
                .blobs = {{"name", "function"}, {"plan", to_bytes(*plan_)}},
                .files = {}};
    if (!traced_.empty()) {
      entry.blobs.emplace(kTraced, traced_);
    }
    for (const auto& [name, graph] : graphs_) {
      add_part(entry, name, graph);
    }
    cache_->put(key, entry);
  }
}

}  // namespace kiln
