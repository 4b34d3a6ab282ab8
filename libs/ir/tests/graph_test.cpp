#include "kiln/ir/graph.hpp"

#include "kiln/testing/catch2.hpp"

namespace kiln::ir {
namespace {

TensorMeta tensor(std::vector<Expr> sizes, StorageId storage = {}) {
  TensorMeta meta;
  meta.strides = contiguous_strides(sizes);
  meta.sizes = std::move(sizes);
  meta.storage = storage;
  return meta;
}

TEST_CASE("names that are empty, taken or odd are made unique and plain", "[ir][graph]") {
  Graph graph;
  const ValueId first = graph.add_input("x", tensor({2}));
  const ValueId second = graph.add_input("x", tensor({2}));
  const ValueId third = graph.add_input("", tensor({2}));
  const ValueId fourth = graph.add_input("a b:c", tensor({2}));
  const ValueId sum = graph.add_node("aten.add_.Tensor", {first, second, Expr(1)}, tensor({2}));

  CHECK(graph.value(first).name == "x");
  CHECK(graph.value(second).name == "x_1");
  CHECK(graph.value(third).name == "input");
  CHECK(graph.value(fourth).name == "a_b_c");
  CHECK(graph.value(sum).name == "add");
}

TEST_CASE("a made name never takes one that a later value wants twice", "[ir][graph]") {
  Graph graph;
  graph.add_input("x", tensor({}));
  graph.add_input("x_1", tensor({}));
  CHECK(graph.value(graph.add_input("x", tensor({}))).name == "x_2");
  CHECK(graph.value(graph.add_input("x_1", tensor({}))).name == "x_1_1");
}

TEST_CASE("results know their node, and undefined ones have no value", "[ir][graph]") {
  Graph graph;
  const ValueId x = graph.add_input("x", tensor({4}));
  Node node;
  node.target = "aten.native_layer_norm_backward.default";
  node.arguments = {x};
  const std::vector<std::string> names = {"gx", "", "gb"};
  const NodeId id = graph.add_node(node, {tensor({4}), std::nullopt, SymIntMeta{4}}, names);

  REQUIRE(graph.node(id).results.size() == 3);
  CHECK(graph.value(graph.node(id).results[0]).name == "gx");
  CHECK_FALSE(graph.node(id).results[1].valid());
  CHECK(graph.value(graph.node(id).results[2]).result_index == 2);
  CHECK(graph.value(graph.node(id).results[2]).producer == id);
  CHECK_FALSE(graph.value(graph.node(id).results[2]).is_tensor());
}

TEST_CASE("a new storage is one that no value has", "[ir][graph]") {
  Graph graph;
  graph.add_input("x", tensor({4}, StorageId(7)));
  CHECK(graph.new_storage() == StorageId(8));
  graph.reserve_storage(StorageId(3));
  CHECK(graph.new_storage() == StorageId(9));
}

TEST_CASE("contiguous strides count an empty dimension as one", "[ir][graph]") {
  const std::vector<Expr> sizes = {2, 0, 3};
  CHECK(contiguous_strides(sizes) == std::vector<Expr>{3, 3, 1});
  CHECK(element_count(sizes).constant() == 0);
  const Expr s = Expr::symbol("s");
  CHECK(contiguous_strides(std::vector<Expr>{4, s, 2}) == std::vector<Expr>{s * 2, 2, 1});
  CHECK(contiguous_strides({}).empty());
}

TEST_CASE("operands are visited in order, lists included, absent ones left out", "[ir][graph]") {
  Node node;
  node.arguments = {
      ValueId(3), std::monostate(), std::vector{ValueId(1), ValueId(), ValueId(2)}, true};
  std::vector<std::uint32_t> seen;
  for_each_operand(node, [&](ValueId id) { seen.push_back(id.index()); });
  CHECK(seen == std::vector<std::uint32_t>{3, 1, 2});
}

}  // namespace
}  // namespace kiln::ir
