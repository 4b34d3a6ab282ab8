// How runs are replayed, on a device that is made up: its graphs are lists of functions. What a GPU
// does is in cuda_gpu_test.cpp.

#include "runner/graph_replayer.hpp"

#include <ATen/ATen.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "kiln/testing/catch2.hpp"

namespace kiln::container_runtime {
namespace {

using testing::contains;
using Work = std::function<void()>;

// What the model below gives to the device while a graph is captured.
thread_local std::vector<Work>* captured_work = nullptr;

class ListGraph final : public DeviceGraph {
 public:
  explicit ListGraph(const std::atomic<bool>& is_busy) : is_busy_(is_busy) {}

  void capture(const std::function<void(void* stream)>& work) override {
    captured_work = &work_;
    struct End {
      ~End() { captured_work = nullptr; }
    } const end;
    work(nullptr);
  }
  void replay(void* /*stream*/, const Work& before, const Work& after) override {
    before();
    for (const Work& work : work_) {
      work();
    }
    after();
  }
  [[nodiscard]] bool is_idle() const override { return !is_busy_; }

 private:
  const std::atomic<bool>& is_busy_;
  std::vector<Work> work_;
};

class ListGraphs final : public DeviceGraphs {
 public:
  explicit ListGraphs(const std::atomic<bool>& is_busy) : is_busy_(is_busy) {}
  std::unique_ptr<DeviceGraph> make() override { return std::make_unique<ListGraph>(is_busy_); }
  [[nodiscard]] bool is_capturing(void* /*stream*/) const override {
    return captured_work != nullptr;
  }

 private:
  const std::atomic<bool>& is_busy_;
};

// y = scale * x + z; z += 1 if it is mutated.
struct Affine {
  std::atomic<float> scale = 2;
  std::atomic<int> plain = 0, released = 0, live = 0;
  std::atomic<bool> is_busy = false;
  std::function<void(Tensors& outputs, const Tensors& inputs)> spoil = {};

  void compute(const Tensors& inputs, at::Tensor& y, float by, bool mutates) const {
    y.copy_(inputs[0] * by + inputs[1]);
    if (mutates) {
      const_cast<at::Tensor&>(inputs[1]).add_(1);
    }
  }

  GraphReplayer replayer(bool mutates = false, std::size_t at_once = 2) {
    ReplayedModel model{
        .run =
            [this, mutates](const Tensors& inputs, void*) {
              ++plain;
              at::Tensor y = at::empty_like(inputs[0]);
              compute(inputs, y, scale, mutates);
              return Tensors{y};
            },
        .run_captured =
            [this, mutates](const Tensors& inputs, void*, void*& capture) {
              at::Tensor y = at::empty_like(inputs[0]);
              // A graph knows addresses, and the constants of its time.
              Tensors at_addresses;
              for (const at::Tensor& input : inputs) {
                at_addresses.push_back(at::from_blob(
                    input.data_ptr(), input.sizes(), input.strides(), input.options()));
              }
              captured_work->push_back(
                  [this, at_addresses, y, by = scale.load(), mutates]() mutable {
                    compute(at_addresses, y, by, mutates);
                  });
              ++live;
              capture = this;
              Tensors outputs{y};
              if (spoil) {
                spoil(outputs, inputs);
              }
              return outputs;
            },
        .check = [] {},
        .release =
            [this](void*) {
              ++released;
              --live;
            },
        .constants = [] { return Tensors{}; },
        .mutated = {false, mutates},
        .device = at::kCPU};
    return {std::move(model),
            std::make_unique<ListGraphs>(is_busy),
            {.warmups = 1, .shapes = 16, .at_once = at_once}};
  }
};

void expect_right(GraphReplayer& replayer, const at::Tensor& x, const at::Tensor& z, float scale) {
  const at::Tensor expected = x * scale + z;
  CHECK(at::equal(replayer.run({x, z}, nullptr).at(0), expected));
}

TEST_CASE("a shape is captured at its second run, and replayed on other data",
          "[container-runtime][graphs]") {
  Affine affine;
  GraphReplayer replayer = affine.replayer();
  const at::Tensor z = at::randn({4});

  for (int i = 0; i < 5; ++i) {
    expect_right(replayer, at::randn({3, 4}), z, 2);
  }
  expect_right(replayer, at::randn({5, 4}), z, 2);

  CHECK(affine.plain == 3);
  CHECK(replayer.statistics().captures == 1);
  CHECK(replayer.statistics().replays == 3);
  CHECK(replayer.statistics().plain_runs == 3);
}

TEST_CASE("a result stays while it is held", "[container-runtime][graphs]") {
  Affine affine;
  GraphReplayer replayer = affine.replayer();
  const at::Tensor z = at::zeros({4});
  std::vector<at::Tensor> kept, expected;

  for (int i = 0; i < 4; ++i) {
    const at::Tensor x = at::randn({4});
    kept.push_back(replayer.run({x, z}, nullptr).at(0));
    expected.push_back(x * 2);
  }

  for (std::size_t i = 0; i < kept.size(); ++i) {
    CHECK(at::equal(kept[i], expected[i]));
  }
}

TEST_CASE("what is read in place and moves after all is copied from then on",
          "[container-runtime][graphs]") {
  Affine affine;
  GraphReplayer replayer = affine.replayer();
  const at::Tensor x = at::randn({4}), z = at::randn({4});
  expect_right(replayer, x, z, 2);
  expect_right(replayer, x, z, 2);
  REQUIRE(replayer.statistics().captures == 1);

  x.add_(1);  // read where it is
  expect_right(replayer, x, z, 2);
  const at::Tensor moved = at::randn({4});
  expect_right(replayer, moved, z, 2);
  expect_right(replayer, at::randn({4}), z, 2);

  CHECK(replayer.statistics().captures == 2);
  CHECK(affine.live == 1);
  CHECK(affine.plain == 3);
}

TEST_CASE("an input that the model writes to is written where it is",
          "[container-runtime][graphs]") {
  Affine affine;
  GraphReplayer replayer = affine.replayer(/*mutates=*/true);
  at::Tensor one = at::zeros({4}), other = at::zeros({4});

  for (int i = 0; i < 8; ++i) {
    expect_right(replayer, at::randn({4}), i % 2 == 0 ? one : other, 2);
  }

  CHECK(at::equal(one, at::full({4}, 4)));
  CHECK(at::equal(other, at::full({4}, 4)));
  CHECK(replayer.statistics().captures == 2);
}

TEST_CASE("an input on the memory of one that is written is read where it is",
          "[container-runtime][graphs]") {
  Affine affine;
  GraphReplayer replayer = affine.replayer(/*mutates=*/true);

  for (int i = 0; i < 4; ++i) {
    const at::Tensor both = at::randn({8});
    const at::Tensor x = both.slice(0, 0, 4), z = both.slice(0, 4, 8);
    expect_right(replayer, x, z, 2);
  }

  CHECK(replayer.statistics().captures >= 1);
}

TEST_CASE("other constants leave no stale graph", "[container-runtime][graphs]") {
  Affine affine;
  GraphReplayer replayer = affine.replayer();
  const at::Tensor z = at::randn({4});
  expect_right(replayer, at::randn({4}), z, 2);
  expect_right(replayer, at::randn({4}), z, 2);

  replayer.change_constants([&] {
    CHECK(affine.live == 0);
    affine.scale = 3;
  });

  for (int i = 0; i < 3; ++i) {
    expect_right(replayer, at::randn({4}), z, 3);
  }
  CHECK(replayer.statistics().captures == 2);
}

TEST_CASE("a run that cannot be captured runs, and is told", "[container-runtime][graphs]") {
  Affine affine;
  std::string expected = "unsupported: output 0 is memory of an input";
  SECTION("a result on an input's memory") {
    affine.spoil = [](Tensors& outputs, const Tensors& inputs) {
      outputs[0] = inputs[1].view({-1});
    };
  }
  SECTION("a failure midway") {
    affine.spoil = [](Tensors&, const Tensors&) { throw std::runtime_error("no room\nat line 1"); };
    expected = "no room";
  }
  SECTION("results on the same memory") {
    affine.spoil = [](Tensors& outputs, const Tensors&) {
      outputs.push_back(outputs[0].slice(0, 1, 2));
    };
    expected = "unsupported: output 0 is memory of another output";
  }
  GraphReplayer replayer = affine.replayer();
  const at::Tensor z = at::randn({4});

  for (int i = 0; i < 4; ++i) {
    expect_right(replayer, at::randn({4}), z, 2);
  }

  CHECK(affine.plain == 4);
  CHECK(replayer.statistics().captures == 0);
  CHECK(replayer.statistics().refusals == std::vector<std::string>{expected});
}

TEST_CASE("runs that overlap have graphs of their own, up to a number",
          "[container-runtime][graphs]") {
  Affine affine;
  GraphReplayer replayer = affine.replayer(false, /*at_once=*/2);
  const at::Tensor z = at::randn({4});
  int streams[4] = {};
  (void)replayer.run({at::randn({4}), z}, &streams[0]);
  affine.is_busy = true;

  for (int round = 0; round < 3; ++round) {
    for (int& stream : streams) {
      const at::Tensor x = at::randn({4});
      CHECK(at::equal(replayer.run({x, z}, &stream).at(0), x * 2 + z));
    }
  }

  CHECK(replayer.statistics().captures == 2);
}

TEST_CASE("other inputs than a copy can stand for run as they are", "[container-runtime][graphs]") {
  Affine affine;
  GraphReplayer replayer = affine.replayer();
  const at::Tensor z = at::randn({4});

  for (int i = 0; i < 3; ++i) {
    expect_right(replayer, at::randn({1}).expand({4}), z, 2);  // moves, and overlaps itself
  }
  for (int i = 0; i < 3; ++i) {
    CHECK_THROWS(replayer.run({at::Tensor(), z}, nullptr));
  }
}

TEST_CASE("there is an end to shapes", "[container-runtime][graphs]") {
  Affine affine;
  GraphReplayer replayer = affine.replayer();
  const at::Tensor z = at::randn({1});

  for (int round = 0; round < 3; ++round) {
    for (int size = 1; size <= 40; ++size) {
      expect_right(replayer, at::randn({size}), z, 2);
    }
  }

  CHECK(replayer.statistics().captures < 40);
}

TEST_CASE("threads run and change constants at once", "[container-runtime][graphs]") {
  Affine affine;
  GraphReplayer replayer = affine.replayer();
  const at::Tensor z = at::zeros({4});
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        const at::Tensor x = at::randn({4});
        const at::Tensor y = replayer.run({x, z}, nullptr).at(0);
        wrong += !at::equal(y, x * 2) && !at::equal(y, x * 3);
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    replayer.change_constants([&] { affine.scale = i % 2 == 0 ? 3 : 2; });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }

  CHECK(wrong == 0);
  expect_right(replayer, at::randn({4}), z, affine.scale);
}

}  // namespace
}  // namespace kiln::container_runtime
