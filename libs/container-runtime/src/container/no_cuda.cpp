// The device layer of models for the CPU: there is nothing to choose and nothing to wait for.

#include <algorithm>
#include <thread>

#include "container/device.hpp"
#include "container/failure.hpp"
#include "container/geometry.hpp"

namespace kiln::container {

Device::Device(const KilnModel& model, std::int32_t index) : index_(index) {
  if (model.device_type != aoti_torch_device_type_cpu()) {
    throw Failure("the model was compiled for " + device_name(model.device_type) +
                  ", but linked with the container for cpu");
  }
}

Device::~Device() = default;

std::size_t Device::useful_instances() const noexcept {
  return std::max(1U, std::thread::hardware_concurrency());
}

bool Device::is_capturing(void* /*stream*/) const noexcept {
  return false;
}

Tensor Device::copy_of(unsigned char* /*bytes*/, std::uint64_t /*count*/) const {
  return {};
}

DeviceScope::DeviceScope(const Device& /*device*/, void* stream) : stream_(stream) {}

DeviceScope::~DeviceScope() = default;

void DeviceScope::synchronize() const {}

CaptureRelaxation::CaptureRelaxation() = default;

CaptureRelaxation::~CaptureRelaxation() = default;

DeviceEvent::~DeviceEvent() = default;

void DeviceEvent::make(const Device& /*device*/) {}

void DeviceEvent::order_before(const DeviceScope& /*scope*/) {}

void DeviceEvent::record(const DeviceScope& /*scope*/) noexcept {}

bool DeviceEvent::synchronize() const noexcept {
  return true;
}

}  // namespace kiln::container
