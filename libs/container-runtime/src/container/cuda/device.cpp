// The device layer of models for CUDA.
//
// A run is asynchronous: it returns when the work is in the caller's stream. So an instance, whose
// scratch memory the work uses, carries an event that the next run on it is ordered after, and a
// writer waits for the events before it frees constants. A run that is captured has an instance of
// its own instead: a graph may be replayed at any time, and cannot wait for events from outside.

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "container/cuda/driver.hpp"
#include "container/device.hpp"
#include "container/failure.hpp"
#include "container/geometry.hpp"

namespace kiln::container {
namespace {

// The context of a device, current on this thread for a scope.
class Current {
 public:
  explicit Current(void* context) noexcept
      : is_pushed_(context != nullptr && cuda::driver().push_context(context) == cuda::kSuccess) {}
  ~Current() {
    cuda::Handle popped = nullptr;
    if (is_pushed_) {
      cuda::driver().pop_context(&popped);
    }
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  bool is_pushed_;
};

// libtorch's current device, which its shim tells only of tensors.
std::int32_t current_index() {
  std::int32_t index = 0;
  check(aoti_torch_get_device_index(cuda::empty_bytes(0, -1, "there is no CUDA device").get(),
                                    &index),
        "libtorch has no current CUDA device");
  return index;
}

}  // namespace

Device::Device(const KilnModel& model, std::int32_t index) : index_(index) {
  if (model.device_type != aoti_torch_device_type_cuda()) {
    throw Failure("the model was compiled for " + device_name(model.device_type) +
                  ", but linked with the container for cuda");
  }
  const cuda::Driver& driver = cuda::driver();
  cuda::torch_cuda();
  int count = 0;
  cuda::require(driver.device_get_count(&count), "the GPUs cannot be counted");
  if (index >= count) {
    throw Failure("there is no device cuda:" + std::to_string(index) + ": there are " +
                  std::to_string(count));
  }
  if (index_ < 0) {
    index_ = current_index();
  }
  cuda::DeviceNumber device = 0;
  cuda::Handle context = nullptr;
  cuda::require(driver.device_get(&device, index_), "the GPU cannot be found");
  cuda::require(driver.retain_context(&context, device), "the GPU cannot be used");
  context_ = context;
}

Device::~Device() {
  cuda::DeviceNumber device = 0;
  if (cuda::driver().device_get(&device, index_) == cuda::kSuccess) {
    cuda::driver().release_context(device);
  }
}

// Calls wait for the device more than they compute.
std::size_t Device::useful_instances() const noexcept {
  return std::numeric_limits<std::size_t>::max();
}

bool Device::is_capturing(void* stream) const noexcept {
  if (stream == nullptr &&
      cuda::torch_cuda().current_stream(index_, &stream) != AOTI_TORCH_SUCCESS) {
    return false;
  }
  int status = cuda::kNotCapturing;
  // The default stream has no answer while another is being captured, and never is itself.
  return cuda::driver().stream_is_capturing(stream, &status) == cuda::kSuccess &&
         status != cuda::kNotCapturing;
}

Tensor Device::copy_of(unsigned char* bytes, std::uint64_t count) const {
  if (bytes == nullptr || count == 0) {
    return {};
  }
  const std::array<std::int64_t, 1> sizes = {static_cast<std::int64_t>(count)};
  const std::array<std::int64_t, 1> strides = {1};
  AtenTensorHandle host = nullptr;
  check(aoti_torch_create_tensor_from_blob_v2(bytes,
                                              1,
                                              sizes.data(),
                                              strides.data(),
                                              0,
                                              cuda::kBytes,
                                              aoti_torch_device_type_cpu(),
                                              -1,
                                              &host,
                                              aoti_torch_layout_strided(),
                                              nullptr,
                                              0),
        "the model's weights cannot be wrapped");
  const Tensor source(host);
  Tensor copy =
      cuda::empty_bytes(count, index_, "the device has no memory for the model's weights");
  check(aoti_torch_copy_(copy.get(), source.get(), 0), "the model's weights cannot be copied");
  return copy;
}

DeviceScope::DeviceScope(const Device& device, void* stream) : stream_(stream) {
  if (stream_ == nullptr) {
    check(cuda::torch_cuda().current_stream(device.index_, &stream_), "there is no current stream");
  }
  check(cuda::torch_cuda().create_stream_guard(stream_, device.index_, &guard_),
        "the stream cannot be made the current one");
  const cuda::Result code = cuda::driver().push_context(device.context_);
  if (code != cuda::kSuccess) {
    cuda::torch_cuda().delete_stream_guard(guard_);
    cuda::require(code, "the GPU cannot be made the current one");
  }
  outer_ = std::exchange(cuda::current_device(), device.index_);
}

DeviceScope::~DeviceScope() {
  cuda::current_device() = outer_;
  cuda::Handle popped = nullptr;
  cuda::driver().pop_context(&popped);
  cuda::torch_cuda().delete_stream_guard(guard_);
}

void DeviceScope::synchronize() const {
  cuda::require(cuda::driver().stream_synchronize(stream_), "the GPU failed");
}

CaptureRelaxation::CaptureRelaxation() : outer_(cuda::kRelaxedCaptureMode) {
  cuda::require(cuda::driver().exchange_capture_mode(&outer_),
                "memory cannot be made during a capture");
}

CaptureRelaxation::~CaptureRelaxation() {
  cuda::driver().exchange_capture_mode(&outer_);
}

DeviceEvent::~DeviceEvent() {
  if (event_ != nullptr) {
    const Current current(context_);
    cuda::driver().event_destroy(event_);
  }
}

void DeviceEvent::make(const Device& device) {
  cuda::Handle event = nullptr;
  cuda::require(cuda::driver().event_create(&event, cuda::kEventDisableTiming),
                "an event cannot be made");
  event_ = event;
  context_ = device.context_;
}

// 0 if it cannot be told. A handle does not tell streams apart: a new stream may get that of one
// that was destroyed.
static unsigned long long id_of_stream(void* stream) noexcept {
  unsigned long long id = 0;
  const auto get_id = cuda::driver().stream_get_id;
  return get_id != nullptr && get_id(stream, &id) == cuda::kSuccess ? id : 0;
}

void DeviceEvent::order_before(const DeviceScope& scope) {
  const unsigned long long id = id_of_stream(scope.stream());
  if (id == 0 || id != stream_id_) {  // else they are in order already
    cuda::require(cuda::driver().stream_wait_event(scope.stream(), event_, 0),
                  "a stream cannot wait for the instance's last run");
  }
}

void DeviceEvent::record(const DeviceScope& scope) noexcept {
  stream_id_ = id_of_stream(scope.stream());
  if (cuda::driver().event_record(event_, scope.stream()) != cuda::kSuccess) {
    cuda::driver().stream_synchronize(scope.stream());
  }
}

bool DeviceEvent::synchronize() const noexcept {
  if (event_ == nullptr) {
    return true;
  }
  const Current current(context_);
  return cuda::driver().event_synchronize(event_) == cuda::kSuccess;
}

}  // namespace kiln::container
