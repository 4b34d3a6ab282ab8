#include "injected_faults.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdio>

namespace kiln::autograd_cache {

namespace {

std::atomic<int> armed_call{-1};  // A SystemCall, or none.
std::atomic<int> calls_left{0};
std::atomic<int> life_left{0};  // Calls until the end, or 0.

bool fails(SystemCall call) {
  return armed_call == static_cast<int>(call) && --calls_left == 0;
}

bool is_last_call() {
  return life_left > 0 && --life_left == 0;
}

void die_if_last() {
  if (is_last_call()) {
    ::kill(::getpid(), SIGKILL);
  }
}

}  // namespace

const char* name_of(SystemCall call) {
  const char* names[] = {"open", "write", "fsync", "rename", "mmap"};
  return names[static_cast<int>(call)];
}

InjectedFault::InjectedFault(SystemCall call, int nth) {
  calls_left = nth;
  armed_call = static_cast<int>(call);
}

InjectedFault::~InjectedFault() {
  armed_call = -1;
}

bool InjectedFault::happened() const {
  return calls_left <= 0;
}

void die_at_call(int nth) {
  life_left = nth;
}

extern "C" {

int __real_open(const char* path, int flags, ...);
ssize_t __real_write(int file, const void* bytes, std::size_t size);
int __real_fsync(int file);
int __real_rename(const char* from, const char* to);
void* __real_mmap(void* address, std::size_t size, int access, int flags, int file, off_t offset);

int __wrap_open(const char* path, int flags, ...) {
  std::va_list arguments;
  va_start(arguments, flags);
  const int mode = (flags & O_CREAT) != 0 ? va_arg(arguments, int) : 0;
  va_end(arguments);
  die_if_last();
  if (fails(SystemCall::kOpen)) {
    errno = EMFILE;
    return -1;
  }
  return __real_open(path, flags, mode);
}

ssize_t __wrap_write(int file, const void* bytes, std::size_t size) {
  if (is_last_call()) {
    __real_write(file, bytes, size / 2);
    ::kill(::getpid(), SIGKILL);
  }
  if (fails(SystemCall::kWrite)) {
    errno = ENOSPC;
    return -1;
  }
  return __real_write(file, bytes, size);
}

int __wrap_fsync(int file) {
  die_if_last();
  if (fails(SystemCall::kFsync)) {
    errno = EIO;
    return -1;
  }
  return __real_fsync(file);
}

int __wrap_rename(const char* from, const char* to) {
  die_if_last();
  if (fails(SystemCall::kRename)) {
    errno = EIO;
    return -1;
  }
  return __real_rename(from, to);
}

void* __wrap_mmap(void* address, std::size_t size, int access, int flags, int file, off_t offset) {
  die_if_last();
  if (fails(SystemCall::kMmap)) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return __real_mmap(address, size, access, flags, file, offset);
}

}  // extern "C"

}  // namespace kiln::autograd_cache
