#include "kiln/capture/effects.hpp"

#include <torch/library.h>
#include <torch/torch.h>

#include <algorithm>

#include "kiln/capture/record.hpp"
#include "kiln/capture/replay.hpp"
#include "kiln/ir/dead_code.hpp"
#include "kiln/testing/catch2.hpp"
#include "targets.hpp"

namespace kiln::capture {
namespace {

using testing::targets_of;

int bell_calls = 0;

void tick() {
  ++bell_calls;
}
void log(const at::Tensor& /*tensor*/) {
  ++bell_calls;
}
at::Tensor count(const at::Tensor& tensor) {
  ++bell_calls;
  return tensor.clone();
}

TORCH_LIBRARY(kiln_effects_test, library) {
  library.def("log(Tensor x) -> ()");
  library.def("tick() -> ()");
  library.def("count(Tensor x) -> Tensor");
  library.def("pure(Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(kiln_effects_test, CompositeExplicitAutograd, library) {
  library.impl("log", log);
  library.impl("tick", tick);
  library.impl("count", count);
  library.impl("pure", count);
}

void call_log(const at::Tensor& tensor) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("kiln_effects_test::log", "")
                             .typed<void(const at::Tensor&)>();
  op.call(tensor);
}
at::Tensor call(const char* name, const at::Tensor& tensor) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow(name, "")
      .typed<at::Tensor(const at::Tensor&)>()
      .call(tensor);
}

TEST_CASE("EX-51 operators that return nothing stay in the graph, in order", "[capture][effects]") {
  const auto program = [](const Tensors& in) {
    call_log(in[0]);
    const at::Tensor twice = in[0] * 2;
    call_log(twice);
    call_log(twice);
    return Tensors{in[0] + 1};
  };
  bell_calls = 0;

  const Recording recording = record(program, {torch::ones({3})});

  CHECK(bell_calls == 0);
  CHECK(recording.deferred_effects);
  const ir::Graph live = ir::remove_dead_code(recording.graph);
  CHECK(targets_of(live) == std::vector<std::string>{"kiln_effects_test.log.default",
                                                     "aten.mul.Scalar",
                                                     "kiln_effects_test.log.default",
                                                     "kiln_effects_test.log.default",
                                                     "aten.add.Scalar"});
  CHECK(Interpreter(live).run({torch::ones({3})}).size() == 1);
  CHECK(bell_calls == 3);
}

TEST_CASE("EX-51 an operator that was declared to have an effect stays though nobody uses it",
          "[capture][effects]") {
  declare_effect("kiln_effects_test::count");
  const auto program = [](const Tensors& in) {
    call("kiln_effects_test::count", in[0]);
    call("kiln_effects_test::pure", in[0]);
    return Tensors{in[0] + 1};
  };

  const Recording recording = record(program, {torch::ones({3})});

  CHECK(recording.repeated_effects == std::vector<std::string>{"kiln_effects_test.count.default"});
  CHECK(targets_of(ir::remove_dead_code(recording.graph)) ==
        std::vector<std::string>{"kiln_effects_test.count.default", "aten.add.Scalar"});
}

TEST_CASE("EX-51 a program that prints when it is called prints nothing when it is traced",
          "[capture][effects]") {
  const auto program = [](const Tensors& in) {
    at::_print("printed");
    return Tensors{in[0].neg()};
  };

  const Recording recording = record(program, {torch::ones({3})});

  const auto& nodes = recording.graph.nodes();
  REQUIRE(nodes.size() == 2);
  CHECK(nodes[0].target == "aten._print.default");
  CHECK(nodes[0].effectful);
}

TEST_CASE("an assertion that fails is heard while the program is traced", "[capture][effects]") {
  const auto program = [](const Tensors& in) {
    at::_assert_async(in[0].gt(0).all(), "all are positive");
    return Tensors{in[0].neg()};
  };

  CHECK_THROWS(static_cast<void>(record(program, {-torch::ones({3})})));
  CHECK(record(program, {torch::ones({3})}).graph.nodes().back().target == "aten.neg.default");
}

TEST_CASE("checks of what a graph fixes anyway are no effects", "[capture][effects]") {
  const auto program = [](const Tensors& in) {
    at::_assert_tensor_metadata(in[0], {}, {}, at::kFloat);
    return Tensors{in[0].neg()};
  };

  const Recording recording = record(program, {torch::ones({3})});

  CHECK(targets_of(ir::remove_dead_code(recording.graph)) ==
        std::vector<std::string>{"aten.neg.default"});
}

TEST_CASE("an operator without arguments is recorded", "[capture][effects]") {
  const auto program = [](const Tensors& in) {
    c10::Dispatcher::singleton()
        .findSchemaOrThrow("kiln_effects_test::tick", "")
        .typed<void()>()
        .call();
    return Tensors{in[0] + 1};
  };
  bell_calls = 0;

  const Recording recording = record(program, {torch::ones({3})});

  CHECK(bell_calls == 0);
  CHECK(targets_of(recording.graph) ==
        std::vector<std::string>{"kiln_effects_test.tick.default", "aten.add.Scalar"});
  CHECK(Interpreter(recording.graph).run({torch::ones({3})}).size() == 1);
  CHECK(bell_calls == 1);
}

}  // namespace
}  // namespace kiln::capture
