// What a CUDA kernel sees of a GPU, on the CPU. Blocks run one after the other, and so do the
// threads of a block, each a fiber that runs until the next barrier or shuffle, which all threads
// of the block have to reach. What two threads do to shared memory between two barriers happens in
// the order of their numbers; that a barrier is missing is found by running them in reverse order,
// too.

#include <ucontext.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <functional>
#include <vector>

#define __global__
#define __device__
#define __shared__ static
#define __launch_bounds__(threads)

namespace kiln_emulation {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};

struct Fiber {
  ucontext_t context;
  std::vector<char> stack;
  bool done = false;
};

struct Block {
  std::vector<Fiber> fibers;
  ucontext_t scheduler;
  std::size_t running = 0;
  std::function<void()> body;
  unsigned long long exchanged[1024];
};

inline Block block;
inline bool reversed = false;

}  // namespace kiln_emulation

static kiln_emulation::Dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace kiln_emulation {

inline void run_fiber() {
  block.body();
  block.fibers[block.running].done = true;
  swapcontext(&block.fibers[block.running].context, &block.scheduler);
}

inline void set_thread(std::size_t thread) {
  block.running = thread;
  threadIdx = {
      static_cast<unsigned>(thread % blockDim.x), static_cast<unsigned>(thread / blockDim.x), 0};
}

// Lets every other thread come as far.
inline void barrier() {
  const std::size_t self = block.running;
  swapcontext(&block.fibers[self].context, &block.scheduler);
}

inline void run_block(const std::function<void()>& body) {
  block.body = body;
  const std::size_t count = static_cast<std::size_t>(blockDim.x) * blockDim.y;
  block.fibers.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    Fiber& fiber = block.fibers[i];
    fiber.stack.resize(64 << 10);
    fiber.done = false;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.data();
    fiber.context.uc_stack.ss_size = fiber.stack.size();
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, run_fiber, 0);
  }
  std::size_t done = 0;
  while (done < count) {
    std::size_t arrived = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t thread = reversed ? count - 1 - i : i;
      if (block.fibers[thread].done) {
        continue;
      }
      set_thread(thread);
      swapcontext(&block.scheduler, &block.fibers[thread].context);
      if (block.fibers[thread].done) {
        ++done;
      } else {
        ++arrived;
      }
    }
    if (arrived != 0 && arrived + done != count) {
      std::fprintf(stderr, "a thread has ended, and others wait at a barrier\n");
      std::abort();
    }
    if (arrived != 0 && done != 0) {
      std::fprintf(stderr, "threads of a block have parted at a barrier\n");
      std::abort();
    }
  }
}

template <class Arguments>
void launch(void (*kernel)(const Arguments),
            long long grid_x,
            long long grid_y,
            unsigned width,
            unsigned rows,
            const Arguments& arguments) {
  gridDim = {static_cast<unsigned>(grid_x), static_cast<unsigned>(grid_y), 1};
  blockDim = {width, rows, 1};
  for (unsigned y = 0; y < gridDim.y; ++y) {
    for (unsigned x = 0; x < gridDim.x; ++x) {
      reversed = !reversed;
      blockIdx = {x, y, 0};
      run_block([&] { kernel(arguments); });
    }
  }
}

}  // namespace kiln_emulation

static void __syncthreads() {
  kiln_emulation::barrier();
}

static float __fadd_rn(float a, float b) {
  return a + b;
}
static float __fsub_rn(float a, float b) {
  return a - b;
}
static double __dadd_rn(double a, double b) {
  return a + b;
}
static double __dsub_rn(double a, double b) {
  return a - b;
}

template <class T>
static T __shfl_xor_sync(unsigned, T x, int distance) {
  const std::size_t self = kiln_emulation::block.running;
  std::memcpy(&kiln_emulation::block.exchanged[self], &x, sizeof x);
  kiln_emulation::barrier();
  T result;
  std::memcpy(&result,
              &kiln_emulation::block.exchanged[self ^ static_cast<std::size_t>(distance)],
              sizeof result);
  kiln_emulation::barrier();
  return result;
}

static float __int_as_float(int bits) {
  float result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}

static const double kNan = __builtin_nan(""), kInfinity = __builtin_inf();

// AArch64's g++ has the standard's name for it in C only.
#if defined(__aarch64__)
typedef __fp16 HostHalf;
#else
typedef _Float16 HostHalf;
#endif

static float kiln_half_to_float(unsigned short bits) {
  HostHalf half;
  std::memcpy(&half, &bits, sizeof half);
  return static_cast<float>(half);
}
static unsigned short kiln_float_to_half(float x) {
  const HostHalf half = static_cast<HostHalf>(x);
  unsigned short bits;
  std::memcpy(&bits, &half, sizeof bits);
  return bits;
}
// To the nearest, ties to even; NaN stays NaN.
static unsigned short kiln_float_to_bfloat16(float x) {
  unsigned bits;
  std::memcpy(&bits, &x, sizeof bits);
  if (x != x) {
    return 0x7fff;
  }
  return static_cast<unsigned short>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

#define KILN_LAUNCH(kernel, grid_x, grid_y, width, rows) \
  if ((grid_x) > 0 && (grid_y) > 0)                      \
  kiln_emulation::launch(kernel, grid_x, grid_y, width, rows, arguments)
