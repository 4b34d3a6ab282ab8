// System calls that fail, or end the process, when the test says so. The linker puts these in the
// place of the real ones (--wrap), for the libraries under test alone.

#pragma once

#include <array>

namespace kiln::autograd_cache {

enum class SystemCall { kOpen, kWrite, kFsync, kRename, kMmap };

inline constexpr std::array kSystemCalls = {SystemCall::kOpen,
                                            SystemCall::kWrite,
                                            SystemCall::kFsync,
                                            SystemCall::kRename,
                                            SystemCall::kMmap};

const char* name_of(SystemCall call);

/// While it lives, the `nth` call (from 1) of one kind fails as on a machine in trouble.
class InjectedFault {
 public:
  InjectedFault(SystemCall call, int nth);
  ~InjectedFault();
  InjectedFault(const InjectedFault&) = delete;
  InjectedFault& operator=(const InjectedFault&) = delete;

  /// Whether that call was reached.
  [[nodiscard]] bool happened() const;
};

/// From now on the `nth` call of any kind ends this process, as kill -9 would; a write has then
/// written half of its bytes.
void die_at_call(int nth);

}  // namespace kiln::autograd_cache
