// What programs with sizes that vary save for their backward, counted where they are partitioned.

#include <torch/torch.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "kiln/autograd_dispatch/compiler.hpp"
#include "kiln/jit/compile.hpp"
#include "kiln/partitioner/min_cut.hpp"
#include "kiln/testing/catch2.hpp"
#include "kiln/testing/uncached.hpp"

namespace kiln {
namespace {

using Arity = std::pair<std::size_t, std::size_t>;
using partitioner::Partition;

enum class Cut { kDefault, kMinimum };

Tensors leaves(const std::vector<std::vector<std::int64_t>>& sizes) {
  Tensors made;
  for (const std::vector<std::int64_t>& size : sizes) {
    made.push_back(torch::randn(size, torch::requires_grad()));
  }
  return made;
}

// The halves of `function` when it is called with `inputs`, all of whose sizes are symbols. That
// they do what eager does is seen on the way.
Partition partition_of(const TensorFunction& function, Cut cut, const Tensors& inputs) {
  Partition halves;
  CompileOptions options = uncached(PastMaxVersions::kError);
  options.dynamic = true;
  options.forward_compiler = autograd_dispatch::interpret;
  options.partition = [&](const ir::Graph& joint) {
    halves = cut == Cut::kDefault ? partitioner::default_partition(joint)
                                  : partitioner::min_cut_partition(joint);
    return std::pair(halves.forward, halves.backward);
  };
  const Function fast = compile(function, options);
  const auto gradients = [&](const auto& called) {
    torch::Tensor loss = torch::zeros({});
    for (const torch::Tensor& output : called(inputs)) {
      loss = loss + output.sin().sum();
    }
    return torch::autograd::grad({loss}, inputs);
  };
  const Tensors expected = gradients(function), found = gradients(fast);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    CHECK(torch::allclose(found[i], expected[i], 1e-4, 1e-4));
  }
  return halves;
}

Arity arity(const ir::Graph& graph) {
  return {graph.inputs().size(), graph.outputs().size()};
}

// What is returned, then what is saved: T for a tensor, S for a size.
std::string outputs_of(const ir::Graph& forward) {
  std::string returned, saved;
  for (const ir::Output& output : forward.outputs()) {
    (output.kind == ir::OutputKind::kSaved ? saved : returned) +=
        forward.value(output.value).is_tensor() ? 'T' : 'S';
  }
  return returned + "|" + saved;
}

// The same as tests/filetests/partitioner/shapes_*.kir, where sizes are values of the graph and the
// caller gets some of them and an argument: three outputs that a traced graph does not have.
Tensors with_many_sizes(const Tensors& in) {
  const torch::Tensor &a = in[0], &b = in[1], &c = in[2], &d = in[3];
  const torch::Tensor rows = a.expand({b.size(0) + c.size(0), a.size(0)});
  const torch::Tensor all = torch::cat({rows, b, c});
  const torch::Tensor product = torch::mm(all, d);
  return {all, c, torch::mm(product, a.view({product.size(1), a.size(0)}))};
}

TEST_CASE("PT-07 PT-08 test_default_partitioner_output_tensor_shape_tensor: tensors and sizes",
          "[jit][traced_partition]") {
  const Tensors inputs = leaves({{10}, {3, 10}, {2, 10}, {10, 1}});

  // A sum of sizes is an expression of what binds its symbols: it is never saved.
  const Partition plain = partition_of(with_many_sizes, Cut::kDefault, inputs);
  CHECK(outputs_of(plain.forward) == "TT|TTTTSSS");
  CHECK(arity(plain.forward) == Arity{4, 9});
  CHECK(arity(plain.backward) == Arity{9, 4});

  const Partition cut = partition_of(with_many_sizes, Cut::kMinimum, inputs);
  CHECK(outputs_of(cut.forward) == "TT|TTTTSSS");
  CHECK(arity(cut.forward) == Arity{4, 9});
  CHECK(arity(cut.backward) == Arity{9, 4});
}

TEST_CASE("PT-12 DS-39 test_min_cut_partitioner_save_shape: a sum over rows saves two sizes",
          "[jit][traced_partition]") {
  const auto function = [](const Tensors& in) { return Tensors{in[0].sum(1)}; };

  const Partition halves = partition_of(function, Cut::kMinimum, leaves({{10, 12}}));

  CHECK(outputs_of(halves.forward) == "T|SS");
  CHECK(arity(halves.forward) == Arity{1, 3});
  CHECK(arity(halves.backward) == Arity{3, 1});
}

TEST_CASE("PT-13 DS-39 test_min_cut_partitioner_save_shape: expand and cat save three sizes",
          "[jit][traced_partition]") {
  const auto function = [](const Tensors& in) {
    const torch::Tensor rows = in[0].expand({in[1].size(0) + in[2].size(0), in[0].size(0)});
    return Tensors{torch::cat({rows, in[1], in[2]})};
  };

  const Partition halves = partition_of(function, Cut::kMinimum, leaves({{10}, {3, 10}, {2, 10}}));

  CHECK(outputs_of(halves.forward) == "T|SSS");
  CHECK(arity(halves.forward) == Arity{3, 4});
  CHECK(arity(halves.backward) == Arity{4, 3});
}

TEST_CASE("AD-120 DS-39 test_default_partitioner_saves_symints_not_tensors_for_bw",
          "[jit][traced_partition]") {
  // The backward needs sizes of what is written: saving the tensor would be an error of autograd.
  const auto function = [](const Tensors& in) {
    torch::Tensor written = in[0].clone();
    torch::Tensor row = written[0];
    row.masked_fill_(torch::ones_like(row, torch::kBool), 0);
    return Tensors{written};
  };
  for (const Cut cut : {Cut::kDefault, Cut::kMinimum}) {
    const ir::Graph forward = partition_of(function, cut, leaves({{4, 6}})).forward;
    CHECK(outputs_of(forward).ends_with("S"));
    for (const ir::Output& output : forward.outputs()) {
      const ir::Value& value = std::as_const(forward).value(output.value);
      const bool is_mask = value.is_tensor() && value.tensor().dtype == ir::DType::kBool;
      CHECK((output.kind == ir::OutputKind::kUser || !value.is_tensor() || is_mask));
    }
  }

  // The tangent of a sum has no sizes at all.
  const auto sum = [](const Tensors& in) { return Tensors{(in[0] * 2).sum()}; };
  for (const Cut cut : {Cut::kDefault, Cut::kMinimum}) {
    const Partition halves = partition_of(sum, cut, leaves({{4, 6}}));
    CHECK(outputs_of(halves.forward) == "T|SS");
    CHECK(arity(halves.backward) == Arity{3, 1});
  }
}

}  // namespace
}  // namespace kiln
