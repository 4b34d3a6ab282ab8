#include "plan.hpp"

#include <nlohmann/json.hpp>

#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/memory_plan.hpp"

namespace kiln::tool {
namespace {

class PlanReader {
 public:
  explicit PlanReader(const ir::Bindings& sizes) : sizes_(sizes) {}

  Plan read(const nlohmann::json& root) const;

 private:
  [[nodiscard]] std::int64_t integer(const nlohmann::json& value) const {
    if (value.is_number_integer()) {
      return value.get<std::int64_t>();
    }
    if (sizes_.empty()) {
      throw Error(
          ErrorCode::kUnsupported,
          "the plan has the symbolic size " + value.dump() + " and no values for its symbols");
    }
    return ir::Expr::parse(value.get<std::string>()).evaluate(sizes_);
  }

  [[nodiscard]] std::vector<std::int64_t> integers(const nlohmann::json& list) const {
    std::vector<std::int64_t> values;
    for (const nlohmann::json& value : list) {
      values.push_back(integer(value));
    }
    return values;
  }

  [[nodiscard]] Plan::Buffer read_buffer(const nlohmann::json& item) const;
  [[nodiscard]] Plan::Step read_step(const nlohmann::json& item) const;

  const ir::Bindings& sizes_;
};

Plan::Buffer PlanReader::read_buffer(const nlohmann::json& item) const {
  return {.memory = item.at("memory"),
          .dtype = item.at("dtype"),
          .sizes = integers(item.at("sizes")),
          .strides = integers(item.at("strides")),
          .bytes = integer(item.at("bytes")),
          .used = item.at("used"),
          .first = item.at("first"),
          .last = item.at("last"),
          .offset = item.at("offset")};
}

Plan::Step PlanReader::read_step(const nlohmann::json& item) const {
  Plan::Step step;
  step.is_kernel = item.contains("kernel");
  step.bytes_read = integer(item.at("bytes_read"));
  step.bytes_written = integer(item.at("bytes_written"));
  step.operations = integer(item.at("operations"));
  if (!step.is_kernel) {
    step.target = item.at("target");
    step.reads = item.at("operands").get<std::vector<std::string>>();
    step.results = item.at("results").get<std::vector<std::string>>();
    return step;
  }
  step.kernel = item.at("kernel");
  step.sizes = integers(item.at("sizes"));
  step.nodes = item.at("nodes").get<std::vector<std::string>>();
  for (const nlohmann::json& operand : item.at("operands")) {
    step.operands.push_back(
        {operand.at("buffer"), integer(operand.at("offset")), operand.at("written")});
  }
  return step;
}

Plan PlanReader::read(const nlohmann::json& root) const {
  Plan plan{.graph = root.at("graph"),
            .arena_bytes = root.at("arena_bytes"),
            .compiler = root.at("compiler").get<std::vector<std::string>>(),
            .units = {},
            .buffers = {},
            .values = {},
            .kernels = {},
            .steps = {}};
  for (const nlohmann::json& item : root.at("units")) {
    plan.units.push_back({item.at("file"), item.at("flags").get<std::vector<std::string>>()});
  }
  for (const nlohmann::json& item : root.at("buffers")) {
    plan.buffers.push_back(read_buffer(item));
  }
  for (const auto& [name, item] : root.at("values").items()) {
    plan.values.emplace(name,
                        Plan::Location{item.at("buffer"),
                                       integer(item.at("offset")),
                                       integers(item.at("sizes")),
                                       integers(item.at("strides"))});
  }
  for (const nlohmann::json& item : root.at("kernels")) {
    plan.kernels.push_back({item.at("name"), item.at("comment"), item.at("checks_indices")});
  }
  for (const nlohmann::json& item : root.at("steps")) {
    plan.steps.push_back(read_step(item));
  }
  return plan;
}

// Where sizes vary, the arena is planned at run time, for the sizes of a call.
void place(Plan& plan) {
  std::vector<Lifetime> lifetimes;
  std::vector<Plan::Buffer*> owners;
  for (Plan::Buffer& buffer : plan.buffers) {
    if (buffer.used && buffer.memory == "arena") {
      lifetimes.push_back({static_cast<std::uint32_t>(buffer.first),
                           static_cast<std::uint32_t>(buffer.last),
                           static_cast<std::size_t>(buffer.bytes)});
      owners.push_back(&buffer);
    }
  }
  const MemoryPlan memory = plan_memory(lifetimes);
  for (std::size_t i = 0; i < owners.size(); ++i) {
    owners[i]->offset = static_cast<std::int64_t>(memory.offsets[i]);
  }
  plan.arena_bytes = static_cast<std::int64_t>(memory.bytes);
}

}  // namespace

bool Plan::is_whole(const Location& location) const {
  const Buffer& buffer = buffers[location.buffer];
  return location.offset == 0 && location.sizes == buffer.sizes &&
         location.strides == buffer.strides;
}

Plan read_plan(const std::string& text, const ir::Bindings& sizes) {
  try {
    Plan plan = PlanReader(sizes).read(nlohmann::json::parse(text));
    if (!sizes.empty()) {
      place(plan);
    }
    return plan;
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kCorrupt, std::string("not a Kiln plan: ") + error.what());
  }
}

std::string kernel_source(const std::filesystem::path& folder,
                          const Plan& plan,
                          const std::string& name) {
  const std::string begin = "namespace " + name + "_space {\n";
  for (const Plan::Unit& unit : plan.units) {
    const std::string text = read_file(folder / unit.file);
    const std::size_t start = text.find(begin);
    if (start != std::string::npos) {
      const std::size_t body = start + begin.size();
      return text.substr(body, text.find("\n}\n\n", body) - body);
    }
  }
  return {};
}

}  // namespace kiln::tool
