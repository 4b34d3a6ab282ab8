// The device that a model runs on. Which kind is decided when a model is linked:
// libkiln-container.a has no_cuda.cpp, libkiln-container-cuda.a has cuda/. The rest of the
// container is the same objects in both.

#pragma once

#include <cstddef>
#include <cstdint>

#include "container/shim.hpp"
#include "kiln/container_runtime/model.h"

namespace kiln::container {

/// One device, by its index.
class Device {
 public:
  /// An index of -1 is the current device. Throws `Failure` if the model is for another kind of
  /// device or there is none of that index.
  Device(const KilnModel& model, std::int32_t index);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// Where tensors are made; -1 where there is no choice.
  [[nodiscard]] std::int32_t index() const noexcept { return index_; }

  /// More instances at work than these do not finish more of it.
  [[nodiscard]] std::size_t useful_instances() const noexcept;

  /// Whether what `stream` (none: the thread's current one) is given goes into a graph, to be
  /// replayed, instead of being done.
  [[nodiscard]] bool is_capturing(void* stream) const noexcept;

  /// A copy of the host's bytes in the device's memory; none if the device reads the host's. Within
  /// a `DeviceScope`.
  [[nodiscard]] Tensor copy_of(unsigned char* bytes, std::uint64_t count) const;

 private:
  friend class DeviceEvent;
  friend class DeviceScope;

  std::int32_t index_;
  [[maybe_unused]] void* context_ = nullptr;  // so are the others below: of CUDA alone
};

/// Makes a device and a stream the calling thread's current ones.
class DeviceScope {
 public:
  /// No stream is the thread's current one.
  DeviceScope(const Device& device, void* stream);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

  [[nodiscard]] void* stream() const noexcept { return stream_; }

  /// Waits until the stream has done all that it was given; throws `Failure` if the device failed.
  void synchronize() const;

 private:
  void* stream_;
  [[maybe_unused]] void* guard_ = nullptr;
  [[maybe_unused]] std::int32_t outer_ = -1;  // The index of the scope around this one.
};

/// Lets the calling thread make memory and load kernels while a stream of its is being captured.
class CaptureRelaxation {
 public:
  CaptureRelaxation();
  ~CaptureRelaxation();
  CaptureRelaxation(const CaptureRelaxation&) = delete;
  CaptureRelaxation& operator=(const CaptureRelaxation&) = delete;

 private:
  [[maybe_unused]] int outer_ = 0;
};

/// The end of an instance's last run, which its device may not have reached when the host has.
class DeviceEvent {
 public:
  DeviceEvent() = default;
  ~DeviceEvent();
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;

  /// Before the first use; within a `DeviceScope`.
  void make(const Device& device);

  /// What the stream of `scope` is given from now on comes after the event.
  void order_before(const DeviceScope& scope);

  /// Is reached when the stream of `scope` has done all that it was given so far.
  void record(const DeviceScope& scope) noexcept;

  /// Waits until it is reached, from any thread, also while another records. False if the device
  /// failed.
  bool synchronize() const noexcept;

 private:
  [[maybe_unused]] void* context_ = nullptr;
  [[maybe_unused]] void* event_ = nullptr;
  [[maybe_unused]] unsigned long long stream_id_ = 0;  // Of the stream it was recorded in.
};

}  // namespace kiln::container
