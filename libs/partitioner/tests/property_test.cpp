// Whatever is saved and whatever is recomputed, the numbers are those of the joint graph.

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kiln/ir/graph.hpp"
#include "kiln/ir/print.hpp"
#include "kiln/partitioner/memory.hpp"
#include "kiln/partitioner/min_cut.hpp"
#include "kiln/testing/catch2.hpp"
#include "scalar_interpreter.hpp"

namespace kiln::partitioner {
namespace {

// Makes random joint graphs of every shape that the rules allow.
class Maker {
 public:
  explicit Maker(unsigned seed) : random_(seed), graph_("random") {}

  ir::Graph make() {
    const std::size_t primals = 1 + below(4);
    for (std::size_t i = 0; i < primals; ++i) {
      const ir::InputKind kinds[] = {
          ir::InputKind::kUser, ir::InputKind::kParameter, ir::InputKind::kBuffer};
      forward_.push_back(graph_.add_input("p", meta(), kinds[below(3)]));
    }
    for (std::size_t i = 1 + below(2); i > 0; --i) {
      tangents_.push_back(graph_.add_input("t", meta(), ir::InputKind::kTangent));
    }
    for (std::size_t i = 3 + below(25); i > 0; --i) {
      add_forward_node();
    }
    for (std::size_t i = 3 + below(25); i > 0; --i) {
      add_backward_node();
    }
    add_outputs(primals);
    return std::move(graph_);
  }

 private:
  std::size_t below(std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random_);
  }

  ir::ValueId pick(const std::vector<ir::ValueId>& values) { return values[below(values.size())]; }

  ir::ValueId pick_late(const std::vector<ir::ValueId>& values) {
    return values[values.size() - 1 - below(std::min<std::size_t>(values.size(), 4))];
  }

  ir::TensorMeta meta() {
    const ir::Expr size = std::int64_t{1} << (3 * below(4));
    return {.sizes = {size}, .strides = {1}};
  }

  std::vector<ir::ValueId> add(const std::string& target,
                               std::vector<ir::Argument> arguments,
                               bool backward) {
    ir::Node node;
    node.target = target;
    node.arguments = std::move(arguments);
    node.backward = backward;
    node.random = target == "aten.rand_like.default";
    if (target == "aten.view.default") {
      node.aliases = {{.result = 0, .argument = 0}};
    }
    std::vector<std::optional<ir::ValueMeta>> metas{meta()};
    if (target == "aten.var_mean.correction") {
      metas.emplace_back(meta());
    }
    return graph_.node(graph_.add_node(std::move(node), std::move(metas))).results;
  }

  void add_forward_node() {
    static const std::vector<std::string> kUnary = {"aten.sin.default",
                                                    "aten.amax.default",
                                                    "aten.view.default",
                                                    "aten.var_mean.correction",
                                                    "aten.rand_like.default"};
    static const std::vector<std::string> kBinary = {
        "aten.add.Tensor", "aten.mul.Tensor", "aten.mm.default"};
    const ir::ValueId first = pick_late(forward_);
    const std::vector<ir::ValueId> results =
        below(2) == 0 ? add(kUnary[below(kUnary.size())], {first}, false)
                      : add(kBinary[below(kBinary.size())], {first, pick(forward_)}, false);
    forward_.insert(forward_.end(), results.begin(), results.end());
  }

  void add_backward_node() {
    if (below(4) == 0) {
      // Recorded while differentiating, but free of tangents.
      forward_.push_back(add("aten.sin.default", {pick(forward_)}, true).front());
      late_.push_back(forward_.back());
      return;
    }
    const ir::ValueId other = below(3) == 0 ? pick_late(tangents_) : pick(forward_);
    static const std::vector<std::string> kBinary = {
        "aten.add.Tensor", "aten.mul.Tensor", "aten.mm.default"};
    tangents_.push_back(
        add(kBinary[below(kBinary.size())], {pick_late(tangents_), other}, true).front());
  }

  void add_outputs(std::size_t primals) {
    std::vector<ir::ValueId> own = forward_;
    std::erase_if(own, [&](ir::ValueId value) {
      return std::find(late_.begin(), late_.end(), value) != late_.end();
    });
    std::vector<ir::Output> outputs;
    for (std::size_t i = 1 + below(3); i > 0; --i) {
      outputs.push_back({.value = add("aten.sin.default", {pick_late(own)}, false).front()});
    }
    std::vector<ir::Output> gradients;
    for (std::size_t i = 0; i < primals; ++i) {
      const std::size_t choice = below(6);
      const ir::ValueId value = choice == 0   ? ir::ValueId()
                                : choice == 1 ? add("aten.sin.default", {pick(own)}, true).front()
                                              : pick_late(tangents_);
      gradients.push_back({.value = value,
                           .kind = ir::OutputKind::kGradient,
                           .input = static_cast<std::uint32_t>(i)});
    }
    const auto target = static_cast<std::uint32_t>(below(primals));
    const std::size_t write = below(3);
    if (write == 1) {
      ir::Node copy;
      copy.target = "aten.copy_.default";
      copy.arguments = {graph_.inputs()[target].value, pick(own)};
      copy.mutates = {0};
      copy.aliases = {{.result = 0, .argument = 0}};
      graph_.add_node(std::move(copy), {meta()});
    } else if (write == 2) {
      // Not memory of an input: the caller copies from it when all is done.
      const ir::ValueId next = add("aten.sin.default", {pick(own)}, false).front();
      graph_.add_output({.value = next, .kind = ir::OutputKind::kMutation, .input = target});
    }
    outputs.insert(outputs.end(), gradients.begin(), gradients.end());
    for (ir::Output& output : outputs) {
      graph_.add_output(std::move(output));
    }
  }

  std::mt19937 random_;
  ir::Graph graph_;
  std::vector<ir::ValueId> forward_;   // Free of tangents.
  std::vector<ir::ValueId> late_;      // Of those, recorded in the backward.
  std::vector<ir::ValueId> tangents_;  // Tangents and what depends on them.
};

Cells numbers(std::size_t count, double start) {
  Cells cells;
  for (std::size_t i = 0; i < count; ++i) {
    cells.push_back(cell(start + 0.37 * static_cast<double>(i)));
  }
  return cells;
}

std::vector<double> read(const Cells& cells) {
  std::vector<double> values;
  for (const Cell& it : cells) {
    values.push_back(it == nullptr ? -1 : *it);
  }
  return values;
}

std::size_t count_inputs(const ir::Graph& graph, ir::InputKind kind) {
  std::size_t count = 0;
  for (const ir::Input& input : graph.inputs()) {
    count += input.kind == kind ? 1 : 0;
  }
  return count;
}

// What the program returns and the gradients, as one list.
std::vector<double> run_joint(const ir::Graph& joint) {
  const std::size_t tangents = count_inputs(joint, ir::InputKind::kTangent);
  Cells inputs = numbers(joint.inputs().size() - tangents, 0.5);
  const Cells given = numbers(tangents, 1.25);
  inputs.insert(inputs.end(), given.begin(), given.end());
  return read(ScalarInterpreter(7).run(joint, inputs));
}

std::vector<double> run_split(const Partition& partition) {
  const Cells primals = numbers(partition.forward.inputs().size(), 0.5);
  const Cells results = ScalarInterpreter(7).run(partition.forward, primals);
  Cells saved;
  Cells returned;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const bool is_saved = partition.forward.outputs()[i].kind == ir::OutputKind::kSaved;
    (is_saved ? saved : returned).push_back(results[i]);
  }
  std::vector<double> values = read(returned);
  for (std::size_t i = 0; i < returned.size(); ++i) {
    if (const ir::Output& output = partition.forward.outputs()[i];
        output.kind == ir::OutputKind::kMutation) {
      *primals[output.input] = *returned[i];
    }
  }
  const Cells tangents = numbers(count_inputs(partition.backward, ir::InputKind::kTangent), 1.25);
  saved.insert(saved.end(), tangents.begin(), tangents.end());
  // Another generator: what the backward draws must not matter.
  const std::vector<double> gradients = read(ScalarInterpreter(8).run(partition.backward, saved));
  values.insert(values.end(), gradients.begin(), gradients.end());
  return values;
}

TEST_CASE("PT-25 forward then backward gives what the joint graph gives",
          "[partitioner][property]") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    const ir::Graph joint = Maker(seed).make();
    INFO("seed " << seed << "\n" << ir::print(joint));
    const std::vector<double> expected = run_joint(joint);

    REQUIRE(run_split(default_partition(joint)) == expected);
    for (const double budget : {1.0, 0.6, 0.3, 0.0}) {
      REQUIRE(run_split(min_cut_partition(joint, {.memory_budget = budget})) == expected);
    }
    REQUIRE(run_split(min_cut_partition(joint, {.recompute_views = true})) == expected);
    REQUIRE(run_split(min_cut_partition(joint, {.aggressive_recomputation = true})) == expected);
    const auto marked = [&](ir::NodeId node) { return (node.index() + seed) % 3 == 0; };
    REQUIRE(run_split(min_cut_partition(
                joint, {.must_save = marked, .merge_equal_nodes = false})) == expected);
  }
}

TEST_CASE("the simulated peak never rises when the budget falls", "[partitioner][property]") {
  for (unsigned seed = 0; seed < 40; ++seed) {
    const ir::Graph joint = Maker(seed).make();
    INFO("seed " << seed);
    double last = simulate_memory(min_cut_partition(joint)).peak();
    for (const double budget : {0.9, 0.7, 0.5, 0.3, 0.1, 0.0}) {
      const double peak =
          simulate_memory(min_cut_partition(joint, {.memory_budget = budget})).peak();
      REQUIRE(peak <= last);
      last = peak;
    }
  }
}

}  // namespace
}  // namespace kiln::partitioner
