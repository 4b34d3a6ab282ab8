// Sixteen threads on one container: runs, updates, folds and swaps, for as many seconds as are
// given. Built whole with the thread sanitizer (./dev test --sanitize); each output proves which
// set of constants it was computed with.

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "kiln/container_runtime/container.h"

namespace {

constexpr std::int64_t kColumns = 4;

/// A tensor of one row (rank 2) or of its columns alone, all `value`.
///
/// On memory of this program: libtorch's allocator may hand a block from thread to thread in ways
/// that the sanitizer does not see.
class Filled {
 public:
  Filled(float value, std::int64_t rank) {
    constexpr std::array<std::int64_t, 2> kSizes = {1, kColumns};
    constexpr std::array<std::int64_t, 2> kStrides = {kColumns, 1};
    const std::size_t skip = rank == 2 ? 0 : 1;
    data_.fill(value);
    if (aoti_torch_create_tensor_from_blob_v2(data_.data(),
                                              rank,
                                              &kSizes[skip],
                                              &kStrides[skip],
                                              0,
                                              aoti_torch_dtype_float32(),
                                              aoti_torch_device_type_cpu(),
                                              -1,
                                              &handle_,
                                              aoti_torch_layout_strided(),
                                              nullptr,
                                              0) != 0) {
      std::abort();
    }
  }
  ~Filled() {
    if (handle_ != nullptr) {
      (void)aoti_torch_delete_tensor_object(handle_);
    }
  }
  Filled(const Filled&) = delete;
  Filled& operator=(const Filled&) = delete;

  [[nodiscard]] AtenTensorHandle handle() const { return handle_; }
  /// For a run, which takes its inputs.
  AtenTensorHandle release() { return std::exchange(handle_, nullptr); }

 private:
  std::array<float, kColumns> data_;
  AtenTensorHandle handle_ = nullptr;
};

class Race {
 public:
  explicit Race(AOTInductorModelContainerOpaque* container) : container_(container) {}

  void start(int count, const std::function<void(int)>& turn) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this, turn] {
        for (int k = 1; !stop_; k = k % 1000 + 1) {
          turn(k);
        }
      });
    }
  }

  /// With x = 1 the model gives 2 * scale + shift: 1002 * k everywhere, with the constants of set
  /// k.
  void run(int /*k*/) {
    Filled ones(1, 2);
    AtenTensorHandle input = ones.release();
    AtenTensorHandle output = nullptr;
    if (AOTInductorModelContainerRun(container_, &input, 1, &output, 1, nullptr, nullptr) != 0) {
      ++failures;
      return;
    }
    void* data = nullptr;
    (void)aoti_torch_get_data_ptr(output, &data);
    const auto* values = static_cast<const float*>(data);
    const int set = static_cast<int>(values[0]) / 1002;
    for (std::int64_t i = 0; i < kColumns; ++i) {
      failures += set < 1 || values[i] != static_cast<float>(1002 * set) ? 1 : 0;
    }
    (void)aoti_torch_delete_tensor_object(output);
    ++runs;
  }

  void update(int k, bool inactive) {
    const Filled scale(static_cast<float>(k), 1);
    const Filled shift(static_cast<float>(1000 * k), 1);
    const std::array<AOTInductorConstantMapEntry, 2> pairs = {
        {{"c_scale", scale.handle()}, {"c_shift", shift.handle()}}};
    failures += AOTInductorModelContainerUpdateConstantBufferPairs(
                    container_, pairs.data(), pairs.size(), inactive, true) != 0
                    ? 1
                    : 0;
    ++updates;
  }

  void swap(int k) {
    update(k, true);
    if (k % 2 == 0) {
      (void)AOTInductorModelContainerRunConstantFolding(container_, true, nullptr, nullptr);
    }
    failures += AOTInductorModelContainerSwapConstantBuffer(container_) != 0 ? 1 : 0;
  }

  void finish() {
    stop_ = true;
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }

  std::atomic<long> failures{0};
  std::atomic<long> runs{0};
  std::atomic<long> updates{0};

 private:
  AOTInductorModelContainerOpaque* container_;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

}  // namespace

int main(int argc, char** argv) {
  const int seconds = argc > 1 ? std::atoi(argv[1]) : 60;
  AOTInductorModelContainerOpaque* container = nullptr;
  if (AOTInductorModelContainerCreateWithDevice(&container, 4, "cpu", nullptr) != 0) {
    return 1;
  }
  Race race(container);
  race.update(1, false);
  race.start(12, [&](int k) { race.run(k); });
  race.start(2, [&](int k) { race.update(k, false); });
  race.start(2, [&](int k) { race.swap(k); });
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
  race.finish();
  const bool deleted = AOTInductorModelContainerDelete(container) == 0;
  std::printf("%ld runs, %ld updates, %ld failures in %d s\n",
              race.runs.load(),
              race.updates.load(),
              race.failures.load(),
              seconds);
  return deleted && race.failures == 0 && race.runs > 0 ? 0 : 1;
}
