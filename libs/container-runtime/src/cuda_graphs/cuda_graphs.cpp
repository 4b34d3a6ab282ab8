// Graphs of a GPU, on libtorch's. A graph has a pool of memory of its own: what was captured
// through libtorch's C shim alone was seen to overwrite other tensors when it was replayed.

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

#include <exception>
#include <memory>
#include <mutex>

#include "runner/device_graph.hpp"

namespace kiln::container_runtime {
namespace {

using c10::cuda::CUDAStream;
using c10::cuda::CUDAStreamGuard;

// Where a stream was. What comes before the first record is over.
class Event {
 public:
  Event() { C10_CUDA_CHECK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
  ~Event() { C10_CUDA_CHECK_WARN(cudaEventDestroy(event_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(CUDAStream stream) noexcept { C10_CUDA_CHECK_WARN(cudaEventRecord(event_, stream)); }
  void block(CUDAStream stream) { C10_CUDA_CHECK(cudaStreamWaitEvent(stream, event_, 0)); }
  void synchronize() noexcept { C10_CUDA_CHECK_WARN(cudaEventSynchronize(event_)); }
  [[nodiscard]] bool is_reached() const noexcept {
    const cudaError_t found = cudaEventQuery(event_);
    if (found != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
    }
    return found == cudaSuccess;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// A stream that nobody else is given: those of libtorch's pool come round again.
class OwnStream {
 public:
  OwnStream() { C10_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~OwnStream() { C10_CUDA_CHECK_WARN(cudaStreamDestroy(stream_)); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

  [[nodiscard]] CUDAStream on(c10::DeviceIndex device) const {
    return c10::cuda::getStreamFromExternal(stream_, device);
  }

 private:
  cudaStream_t stream_ = nullptr;
};

class CudaGraph final : public DeviceGraph {
 public:
  explicit CudaGraph(c10::DeviceIndex device)
      : device_(device), graph_(std::make_unique<at::cuda::CUDAGraph>()) {}

  ~CudaGraph() override { end_.synchronize(); }

  void capture(const std::function<void(void* stream)>& work) override {
    const CUDAStream stream = stream_.on(device_);
    const CUDAStreamGuard guard(stream);
    const c10::MempoolId_t pool = at::cuda::graph_pool_handle();
    try {
      begin(pool);  // which wants memory of its own
      work(stream.stream());
      graph_->capture_end();
    } catch (...) {
      abandon(pool, stream);
      throw;
    }
  }

  void replay(void* stream,
              const std::function<void()>& before,
              const std::function<void()>& after) override {
    const CUDAStream on =
        c10::cuda::getStreamFromExternal(static_cast<cudaStream_t>(stream), device_);
    const CUDAStreamGuard guard(on);
    end_.block(on);
    struct Record {
      Event& end;
      const CUDAStream& stream;
      ~Record() { end.record(stream); }
    } const record{end_, on};
    before();
    graph_->replay();
    after();
  }

  [[nodiscard]] bool is_idle() const override { return end_.is_reached(); }

 private:
  // Older graphs of libtorch tell the device's random generator of a capture, and until it is over
  // other threads cannot draw from it. So the generator has another state meanwhile, and a run that
  // draws is not captured there.
  void begin(c10::MempoolId_t pool) {
    at::Generator generator =
        at::globalContext().defaultGenerator(c10::Device(c10::DeviceType::CUDA, device_));
    const std::lock_guard lock(generator.mutex());
    const at::Generator state = generator.graphsafe_get_state();
    generator.graphsafe_set_state(generator.clone());
    struct Restore {
      at::Generator& generator;
      const at::Generator& state;
      ~Restore() { generator.graphsafe_set_state(state); }
    } const restore{generator, state};
    // Of this thread: others may go on making memory.
    graph_->capture_begin(pool, cudaStreamCaptureModeThreadLocal);
  }

  // libtorch's graph leaves its allocator in the middle of a capture that failed, and the allocator
  // goes on asking the graph, which therefore stays. Nor could an older one be destroyed that found
  // no memory when it began.
  void abandon(c10::MempoolId_t pool, CUDAStream stream) {
    namespace allocator = c10::cuda::CUDACachingAllocator;
    cudaGraph_t broken = nullptr;
    if (cudaStreamEndCapture(stream, &broken) == cudaSuccess && broken != nullptr) {
      C10_CUDA_CHECK_WARN(cudaGraphDestroy(broken));
    }
    static_cast<void>(cudaGetLastError());
    try {
      allocator::endAllocateToPool(device_, pool);
      allocator::releasePool(device_, pool);
    } catch (const std::exception&) {  // it had ended already, or not begun
    }
    graph_->reset();
    static_cast<void>(graph_.release());
  }

  c10::DeviceIndex device_;
  // As long as the graph: libtorch's cuBLAS has a workspace for each stream, and graphs that may be
  // replayed at once must not share one.
  OwnStream stream_;
  Event end_;
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
};

class CudaGraphs final : public DeviceGraphs {
 public:
  explicit CudaGraphs(c10::DeviceIndex device) : device_(device) {}

  [[nodiscard]] std::unique_ptr<DeviceGraph> make() override {
    const c10::cuda::CUDAGuard guard(device_);
    return std::make_unique<CudaGraph>(device_);
  }

  [[nodiscard]] bool is_capturing(void* stream) const override {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    if (cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &status) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      return false;
    }
    return status != cudaStreamCaptureStatusNone;
  }

 private:
  c10::DeviceIndex device_;
};

}  // namespace
}  // namespace kiln::container_runtime

extern "C" __attribute__((visibility("default"))) kiln::container_runtime::DeviceGraphs*
kiln_cuda_graphs_1(int device_index) {
  return new kiln::container_runtime::CudaGraphs(static_cast<c10::DeviceIndex>(device_index));
}
