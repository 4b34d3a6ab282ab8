// The part of the container that changes constants.

#include <cstdio>
#include <string>
#include <utility>

#include "container/container.hpp"
#include "container/failure.hpp"
#include "container/geometry.hpp"

namespace kiln::container {
namespace {

Geometry compiled(const KilnConstant& constant) {
  return {
      constant.dtype, constant.device_type, -1, constant.rank, constant.sizes, constant.strides};
}

// What tracing may have added to the user's module: nobody can be asked to provide it.
bool may_be_left_out(const KilnConstant& constant) {
  return constant.kind == KILN_CONSTANT_BUFFER || constant.kind == KILN_CONSTANT_TENSOR ||
         constant.bytes == 0;
}

}  // namespace

// The right to change constants. Where runs write to them, nothing runs meanwhile either.
class Container::Writer {
 public:
  explicit Writer(Container& container, void* stream = nullptr)
      : container_(container), lock_(container.writers_), scope_(container.device_, stream) {
    if (container.model_.mutates_constants != 0) {
      instance();
    }
  }
  ~Writer() {
    if (instance_ != nullptr) {
      container_.release_instance(instance_);
    }
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  Instance& instance() {
    if (instance_ == nullptr) {
      instance_ = container_.acquire_instance();
    }
    return *instance_;
  }

  /// Constants are written in its stream.
  [[nodiscard]] const DeviceScope& scope() const noexcept { return scope_; }

  /// Leaves the instance with the caller, who gives it back.
  void keep_instance() noexcept { instance_ = nullptr; }

 private:
  Container& container_;
  std::lock_guard<std::mutex> lock_;
  DeviceScope scope_;
  Instance* instance_ = nullptr;
  NoGrad no_grad_;
};

void Container::update(const AOTInductorConstantMapEntry* pairs,
                       std::size_t count,
                       const Update& how) {
  if (how.user_managed && how.from_cpu) {
    throw Failure("constants that the caller manages cannot be copied from the cpu");
  }
  Writer writer(*this);
  auto next = std::make_unique<ConstantSet>(*slot(how.which));
  std::vector<bool> given(static_cast<std::size_t>(model_.num_constants), false);
  for (std::size_t i = 0; i < count; ++i) {
    if (pairs[i].name == nullptr || pairs[i].handle == nullptr) {
      throw Failure("entry " + std::to_string(i) + " of the constants has no name or no tensor");
    }
    const auto [first, last] = names().equal_range(pairs[i].name);
    for (auto match = first; match != last; ++match) {
      const std::size_t index = match->second;
      if (is_folded(model_.constants[index])) {
        continue;
      }
      validate(index, pairs[i].handle, how);
      if (how.user_managed) {
        next->put(index, share(pairs[i].handle), true);
      } else {
        next->put_copy(index, pairs[i].handle);
      }
      given[index] = true;
    }
  }
  if (how.validate_full) {
    require_all(given);
  }
  if (how.which == Which::kInactive) {
    copy_missing_from_active(*next, given);
  }
  publish(writer, how.which, std::move(next));
}

void Container::update_from_blob(const unsigned char* blob) {
  if (blob == nullptr && model_.weights_bytes != 0) {
    throw Failure("the blob of constants is null");
  }
  Writer writer(*this);
  auto next = std::make_unique<ConstantSet>(*active_);
  next->copy_blob(blob);
  publish(writer, Which::kActive, std::move(next));
}

void Container::fold(Which which, Stream stream) {
  Writer writer(*this, stream.stream);
  fold(writer, which, stream);
}

// One step for a run that finds constants not folded: were it two, updates that follow each other
// quickly could keep it folding for ever.
Container::Lease Container::fold_and_acquire(Stream stream) {
  Writer writer(*this, stream.stream);
  if (!active_->is_ready) {  // another run may have folded while this one waited
    fold(writer, Which::kActive, stream);
  }
  Instance& instance = writer.instance();
  writer.keep_instance();
  const std::lock_guard lock(mutex_);
  ++active_->users;
  return {&instance, active_.get(), pool_.lent()};
}

void Container::fold(Writer& writer, Which which, Stream stream) {
  require_complete(*slot(which));
  if (model_.fold == nullptr) {
    return;
  }
  auto next = std::make_unique<ConstantSet>(*slot(which));
  Instance& instance = writer.instance();
  instance.finished.order_before(writer.scope());
  fold_constants(
      model_,
      instance.self,
      *next,
      {static_cast<AOTInductorStreamOpaque*>(writer.scope().stream()), stream.proxy_executor});
  next->is_ready = true;
  publish(writer, which, std::move(next));
}

void Container::swap() {
  Writer writer(*this);
  require_complete(*inactive_);
  std::unique_lock lock(mutex_);
  std::swap(active_, inactive_);
  wait_until_unused(lock, *inactive_);
}

void Container::free_inactive() {
  Writer writer(*this);
  auto empty = std::make_unique<ConstantSet>(model_, device_.index());
  publish(writer, Which::kInactive, std::move(empty));
}

const std::vector<AOTInductorConstantMapEntry>& Container::entries(Which which) {
  const std::lock_guard lock(writers_);
  entries_.clear();
  for (std::size_t i = 0; i < static_cast<std::size_t>(model_.num_constants); ++i) {
    const AtenTensorHandle handle = slot(which)->handle(i);
    if (handle != nullptr && !is_folded(model_.constants[i])) {
      entries_.push_back({model_.constants[i].fqn, handle});
    }
  }
  return entries_;
}

void Container::require_complete(const ConstantSet& constants) const {
  if (const auto missing = constants.first_missing()) {
    throw Failure(std::string("constant '") + model_.constants[*missing].fqn + "' has no value");
  }
}

void Container::validate(std::size_t index, AtenTensorHandle value, const Update& how) const {
  const KilnConstant& constant = model_.constants[index];
  Geometry expected = compiled(constant);
  expected.device_index = device_.index();
  Geometry actual;
  if (!read_geometry(value, actual)) {
    throw Failure(std::string("constant '") + constant.fqn + "': expected a strided tensor");
  }
  if (how.from_cpu && actual.device_type == aoti_torch_device_type_cpu()) {
    expected.device_type = actual.device_type;
    expected.device_index = -1;
  }
  if (!how.user_managed) {
    expected.strides = actual.strides;  // the copy is laid out as compiled
  }
  if (const std::string what = difference(expected, actual); !what.empty()) {
    throw Failure(std::string("constant '") + constant.fqn + "': " + what);
  }
}

void Container::require_all(const std::vector<bool>& given) const {
  for (std::size_t i = 0; i < given.size(); ++i) {
    const KilnConstant& constant = model_.constants[i];
    if (given[i] || is_folded(constant)) {
      continue;
    }
    if (!may_be_left_out(constant)) {
      throw Failure(std::string("a full update lacks the constant '") + constant.fqn + "'");
    }
    std::fprintf(stderr, "Warning: a full update lacks '%s'; its value stays\n", constant.fqn);
  }
}

void Container::copy_missing_from_active(ConstantSet& target,
                                         const std::vector<bool>& given) const {
  for (std::size_t i = 0; i < given.size(); ++i) {
    const KilnConstant& constant = model_.constants[i];
    const AtenTensorHandle source = active_->handle(i);
    if (given[i] || source == nullptr || is_folded(constant) || !may_be_left_out(constant)) {
      continue;
    }
    // Sharing is as good as a copy while nobody writes.
    if (is_mutated(model_, constant) || active_->is_user_managed(i)) {
      target.put_copy(i, source);
    } else {
      target.put(i, share(source));
    }
  }
}

void Container::publish(Writer& writer, Which which, std::unique_ptr<ConstantSet> constants) {
  writer.scope().synchronize();  // runs in other streams will read them
  if (model_.fold == nullptr) {
    constants->is_ready = !constants->first_missing();
  }
  std::unique_lock lock(mutex_);
  std::swap(slot(which), constants);
  wait_until_unused(lock, *constants);
}

void Container::wait_until_unused(std::unique_lock<std::mutex>& lock, ConstantSet& constants) {
  constants.is_awaited = true;
  unused_.wait(lock, [&] { return constants.users == 0; });
  constants.is_awaited = false;
  const std::size_t made = made_;
  lock.unlock();
  for (std::size_t i = 0; i < made; ++i) {
    instances_[i].finished.synchronize();
  }
}

const std::unordered_multimap<std::string_view, std::size_t>& Container::names() {
  if (names_.empty()) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(model_.num_constants); ++i) {
      const std::string_view name = model_.constants[i].name;
      const std::string_view fqn = model_.constants[i].fqn;
      names_.emplace(name, i);
      if (fqn != name) {
        names_.emplace(fqn, i);
      }
    }
  }
  return names_;
}

}  // namespace kiln::container
