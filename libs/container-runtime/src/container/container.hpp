// What stands behind an AOTInductorModelContainerHandle: instances of the model over two sets of
// constants.
//
// Two mutexes. `mutex_` guards the pool and which set is which; a run takes it for a few
// instructions at its start and at its end. `writers_` lets one update, fold or swap happen at a
// time, and is always taken first. A run never holds an instance while it waits for a writer, and a
// writer never holds `mutex_` while it copies.

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "container/constant_set.hpp"
#include "container/device.hpp"
#include "container/instance_pool.hpp"
#include "container/model_call.hpp"
#include "container/shim.hpp"
#include "container/weights.hpp"
#include "kiln/container_runtime/container.h"
#include "kiln/container_runtime/model.h"

namespace kiln::container {

/// Which of the two sets of constants.
enum class Which : std::uint8_t { kActive, kInactive };

/// How constants are updated.
struct Update {
  Which which = Which::kActive;
  bool validate_full = false;
  bool user_managed = false;  // work on the caller's memory
  bool from_cpu = false;      // accept tensors on the CPU for constants elsewhere
};

/// Instances of `kiln_model` that run concurrently. The first is made at once, so that a model that
/// cannot run says so; others when calls first overlap.
class Container {
 public:
  Container(const KilnModel& model, std::size_t num_instances, std::int32_t device_index);
  ~Container();
  Container(const Container&) = delete;
  Container& operator=(const Container&) = delete;

  [[nodiscard]] const KilnModel& model() const noexcept { return model_; }
  [[nodiscard]] const Device& device() const noexcept { return device_; }

  /// Runs the model on a free instance; outputs are set to new handles, or to null if it throws.
  void run(AtenTensorHandle const* inputs, AtenTensorHandle* outputs, Stream stream);

  /// The same, for a caller who vouches that nobody else uses the container.
  void run_single_threaded(AtenTensorHandle const* inputs,
                           AtenTensorHandle* outputs,
                           Stream stream);

  /// The same while the stream is being captured, on an instance that no other run uses, which is
  /// returned: what was captured may be replayed until `release_capture` or the container's end, as
  /// long as the constants are not changed.
  void* run_captured(AtenTensorHandle const* inputs, AtenTensorHandle* outputs, Stream stream);

  /// Ends an instance of `run_captured`, whose replays are done.
  void release_capture(void* instance);

  /// Throws what kernels of earlier runs found wrong, which the next run would fail with.
  void check();

  /// Gives named constants other values. All of them or, where this throws, none.
  void update(const AOTInductorConstantMapEntry* pairs, std::size_t count, const Update& how);

  /// Gives the active constants the values in `blob`, laid out as the embedded weights.
  void update_from_blob(const unsigned char* blob);

  /// Computes the folded constants of a set, again if they were.
  void fold(Which which, Stream stream);

  /// Makes the inactive set the active one and waits until no run uses the other.
  void swap();

  void free_inactive();

  /// The constants of a set by the user's names; valid until the next call or change.
  const std::vector<AOTInductorConstantMapEntry>& entries(Which which);

 private:
  class Writer;

  // An instance and the constants it runs on, for one call.
  struct Lease {
    Instance* instance;
    ConstantSet* constants;
    std::size_t running;  // instances at work, this one included
  };

  // The active constants, which stay as they are meanwhile.
  class ConstantsInUse {
   public:
    explicit ConstantsInUse(Container& container);
    ~ConstantsInUse();
    ConstantsInUse(const ConstantsInUse&) = delete;
    ConstantsInUse& operator=(const ConstantsInUse&) = delete;
    const ConstantSet* operator->() const noexcept { return constants_; }

   private:
    Container& container_;
    ConstantSet* constants_ = nullptr;
  };

  Lease acquire(Stream stream);
  Instance* take_make_or_wait(std::unique_lock<std::mutex>& lock);
  Instance& make_again_if_taken(Instance& instance);
  Instance* acquire_instance();
  void release(const Lease& lease) noexcept;
  void release_instance(Instance* instance) noexcept;

  void* instance_for_capture();
  void throw_postponed_error();
  void execute(Instance& instance,
               const ConstantSet& constants,
               AtenTensorHandle const* inputs,
               AtenTensorHandle* outputs,
               Stream stream);
  Lease fold_and_acquire(Stream stream);
  void fold(Writer& writer, Which which, Stream stream);

  std::unique_ptr<ConstantSet>& slot(Which which) {
    return which == Which::kActive ? active_ : inactive_;
  }
  void require_complete(const ConstantSet& constants) const;
  void validate(std::size_t index, AtenTensorHandle value, const Update& how) const;
  void require_all(const std::vector<bool>& given) const;
  void copy_missing_from_active(ConstantSet& target, const std::vector<bool>& given) const;
  void publish(Writer& writer, Which which, std::unique_ptr<ConstantSet> constants);
  void wait_until_unused(std::unique_lock<std::mutex>& lock, ConstantSet& constants);
  const std::unordered_multimap<std::string_view, std::size_t>& names();

  const KilnModel& model_;
  const Device device_;
  const Weights weights_;            // before the sets that use it
  Tensor weights_on_device_;         // none where the device reads the host's memory
  std::vector<Instance> instances_;  // as many as may be; the first `made_` are, or were captured

  std::mutex mutex_;
  std::size_t made_ = 0;
  std::set<void*> captured_;  // instances that graphs use
  // What a run found wrong whose instance a capture has taken over since.
  std::atomic<const char*> postponed_error_ = nullptr;
  InstancePool pool_;
  std::unique_ptr<ConstantSet> active_;
  std::unique_ptr<ConstantSet> inactive_;
  std::condition_variable unused_;

  std::mutex writers_;
  std::unordered_multimap<std::string_view, std::size_t> names_;
  std::vector<AOTInductorConstantMapEntry> entries_;
};

}  // namespace kiln::container
