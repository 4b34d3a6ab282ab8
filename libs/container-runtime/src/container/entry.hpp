// What the entries share: opaque handles and what they stand for, and checks of plain arguments.

#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "container/container.hpp"
#include "container/failure.hpp"

namespace kiln::container {

/// The C++ type behind AOTInductorConstantMap, fixed by AOTInductor.
using ConstantMap = std::unordered_map<std::string, AtenTensorHandle>;

inline Container& container_of(AOTInductorModelContainerOpaque* handle) {
  if (handle == nullptr) [[unlikely]] {
    throw Failure("the container handle is null");
  }
  return *reinterpret_cast<Container*>(handle);
}

template <class Pointer>
Pointer& required(Pointer* pointer, const char* what) {
  if (pointer == nullptr) [[unlikely]] {
    throw Failure(std::string(what) + " is null");
  }
  return *pointer;
}

/// The body of an entry that answers a question about the model: puts what `read` says into
/// `place`.
template <class Answer, class Read>
std::int32_t answer(AOTInductorModelContainerOpaque* container,
                    Answer* place,
                    Read&& read) noexcept {
  return guarded([&] {
    required(place, "the place for the answer") =
        static_cast<Answer>(read(container_of(container).model()));
  });
}

/// Throws with AOTInductor's sentence unless `actual` arguments are as many as the model has.
inline void require_count(const char* what, std::int32_t expected, std::size_t actual) {
  if (static_cast<std::size_t>(expected) != actual) [[unlikely]] {
    throw Failure(std::string("expected ") + what + " vector size to be " +
                  std::to_string(expected) + ", but got " + std::to_string(actual));
  }
}

/// Throws unless all `count` handles are there.
inline void require_handles(const char* what, AtenTensorHandle const* handles, std::size_t count) {
  if (count != 0 && handles == nullptr) [[unlikely]] {
    throw Failure(std::string("the array of ") + what + "s is null");
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (handles[i] == nullptr) [[unlikely]] {
      throw Failure(std::string(what) + " " + std::to_string(i) + " is a null handle");
    }
  }
}

/// The map's content as the entries that carry no C++ type take it; borrows the names.
inline std::vector<AOTInductorConstantMapEntry> pairs_of(AOTInductorConstantMap* map) {
  std::vector<AOTInductorConstantMapEntry> pairs;
  for (const auto& [name, handle] : required(reinterpret_cast<ConstantMap*>(map), "the map")) {
    pairs.push_back({name.c_str(), handle});
  }
  return pairs;
}

/// Owns the input handles of one call, which an entry takes over whether it succeeds or not.
class TakenInputs {
 public:
  TakenInputs(AtenTensorHandle* handles, std::size_t count) noexcept
      : handles_(handles), count_(handles != nullptr ? count : 0) {}
  ~TakenInputs() {
    for (std::size_t i = 0; i < count_; ++i) {
      if (handles_[i] != nullptr) {
        aoti_torch_delete_tensor_object(handles_[i]);
      }
    }
  }
  TakenInputs(const TakenInputs&) = delete;
  TakenInputs& operator=(const TakenInputs&) = delete;

 private:
  AtenTensorHandle* handles_;
  std::size_t count_;
};

/// Nulls the outputs, and deletes what a failing model left in them.
class FreshOutputs {
 public:
  FreshOutputs(AtenTensorHandle* handles, std::size_t count) noexcept
      : handles_(handles), count_(count) {
    for (std::size_t i = 0; i < count; ++i) {
      handles[i] = nullptr;
    }
  }
  ~FreshOutputs() {
    if (!kept_) [[unlikely]] {
      delete_handles(handles_, count_);
    }
  }
  FreshOutputs(const FreshOutputs&) = delete;
  FreshOutputs& operator=(const FreshOutputs&) = delete;

  void keep() noexcept { kept_ = true; }

 private:
  AtenTensorHandle* handles_;
  std::size_t count_;
  bool kept_ = false;
};

}  // namespace kiln::container
