// Matrix products by cuBLASLt. The shim's operator looks for an algorithm in every call, which
// costs the host two to three times what the launch does; here it is found once for each shape.

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "container/cuda/cublas_lt.hpp"
#include "container/failure.hpp"
#include "kiln/container_runtime/cuda_kernels.h"

namespace kiln::container::cuda {
namespace {

void require_lt(LtStatus status) {
  if (status != 0) [[unlikely]] {
    throw Failure("cuBLASLt cannot compute a matrix product: status " + std::to_string(status));
  }
}

// A descriptor, destroyed with its owner.
class Descriptor {
 public:
  using Destroy = LtStatus (*)(Handle);
  Descriptor(Handle handle, Destroy destroy) : handle_(handle), destroy_(destroy) {}
  ~Descriptor() { destroy_(handle_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] Handle get() const { return handle_; }

 private:
  Handle handle_;
  Destroy destroy_;
};

// Where a product's operands lie.
struct Operands {
  const void* lhs = nullptr;
  const void* rhs = nullptr;
  const void* bias = nullptr;    // Null if there is none.
  const void* addend = nullptr;  // The result if there is none, which is then not read.
  void* result = nullptr;
  void* workspace = nullptr;
};

Operands operands_of(const KilnCudaProduct& product, void* const* buffers) {
  Operands operands{.lhs = *buffers++, .rhs = *buffers++};
  if (product.epilogue != KILN_CUDA_NO_EPILOGUE) {
    operands.bias = *buffers++;
  }
  if (product.addend_stride != 0) {
    operands.addend = *buffers++;
  }
  operands.result = *buffers++;
  operands.workspace = *buffers;
  if (operands.addend == nullptr) {
    operands.addend = operands.result;
  }
  return operands;
}

// The largest power of two up to 256 that divides an address.
std::uint32_t alignment_of(const void* address) {
  constexpr std::uintptr_t kMost = 256;
  const auto number = reinterpret_cast<std::uintptr_t>(address) | kMost;
  return static_cast<std::uint32_t>(number & (~number + 1));
}

// What an algorithm depends on.
struct Shape {
  std::array<std::int64_t, sizeof(KilnCudaProduct) / sizeof(std::int64_t)> product;
  std::array<std::uint32_t, 5> alignments;  // Of lhs, rhs, bias, addend and result.
  std::int32_t device;

  auto operator<=>(const Shape&) const = default;
};

Shape shape_of(const KilnCudaProduct& product, const Operands& operands) {
  Shape shape{};
  std::memcpy(shape.product.data(), &product, sizeof product);
  shape.alignments = {alignment_of(operands.lhs),
                      alignment_of(operands.rhs),
                      alignment_of(operands.bias),
                      alignment_of(operands.addend),
                      alignment_of(operands.result)};
  shape.device = current_device();
  return shape;
}

std::uint32_t epilogue_of(const KilnCudaProduct& product) {
  switch (product.epilogue) {
    case KILN_CUDA_BIAS_RELU: return kLtReluBias;
    case KILN_CUDA_BIAS_GELU: return kLtGeluBias;
    default: return kLtBias;
  }
}

// Descriptors of a product, which one call at a time may use: the bias is a part of them. To
// cuBLASLt, matrices are columns, so it computes the transposed result from the transposed operands
// in the other order.
class Plan {
 public:
  explicit Plan(const KilnCudaProduct& product)
      : product_(product_descriptor()),
        a_(matrix(product, product.n, product.k, product.rhs_stride, product.rhs_transposed)),
        b_(matrix(product, product.k, product.m, product.lhs_stride, product.lhs_transposed)),
        c_(matrix(product, product.n, product.m, addend_stride(product), 0)),
        d_(matrix(product, product.n, product.m, product.result_stride, 0)),
        adds_(product.addend_stride != 0) {
    const std::int32_t transposed = kLtTransposed;
    if (product.rhs_transposed != 0) {
      set(kLtTransA, transposed);
    }
    if (product.lhs_transposed != 0) {
      set(kLtTransB, transposed);
    }
    if (product.epilogue != KILN_CUDA_NO_EPILOGUE) {
      set(kLtEpilogue, epilogue_of(product));
    }
  }

  [[nodiscard]] LtAlgorithm find_algorithm(Handle lt, const Shape& shape, std::size_t workspace) {
    const CublasLt& entries = cublas_lt();
    Handle made = nullptr;
    require_lt(entries.create_preference(&made));
    const Descriptor preference(made, entries.destroy_preference);
    const auto prefer = [&](int attribute, const auto& value) {
      require_lt(entries.set_preference(preference.get(), attribute, &value, sizeof value));
    };
    prefer(kLtMaxWorkspaceBytes, std::uint64_t{workspace});
    prefer(kLtReductionSchemeMask, kLtReduceInComputeType);
    prefer(kLtMinAlignmentA, shape.alignments[1]);
    prefer(kLtMinAlignmentB, shape.alignments[0]);
    prefer(kLtMinAlignmentC, shape.alignments[3]);
    prefer(kLtMinAlignmentD, shape.alignments[4]);
    LtHeuristic result{};
    int found = 0;
    require_lt(entries.get_heuristic(lt,
                                     product_.get(),
                                     a_.get(),
                                     b_.get(),
                                     c_.get(),
                                     d_.get(),
                                     preference.get(),
                                     1,
                                     &result,
                                     &found));
    if (found == 0) {
      throw Failure("cuBLASLt knows no way to compute a matrix product of this shape");
    }
    return result.algorithm;
  }

  void run(Handle lt,
           const LtAlgorithm& algorithm,
           const Operands& operands,
           std::size_t workspace_bytes,
           Handle stream) {
    if (operands.bias != nullptr) {
      set(kLtBiasPointer, operands.bias);
    }
    const float one = 1, zero = 0;
    require_lt(cublas_lt().matmul(lt,
                                  product_.get(),
                                  &one,
                                  operands.rhs,
                                  a_.get(),
                                  operands.lhs,
                                  b_.get(),
                                  adds_ ? &one : &zero,
                                  operands.addend,
                                  c_.get(),
                                  operands.result,
                                  d_.get(),
                                  &algorithm,
                                  operands.workspace,
                                  workspace_bytes,
                                  stream));
  }

 private:
  static Descriptor product_descriptor() {
    Handle made = nullptr;
    require_lt(cublas_lt().create_matmul_desc(&made, kLtComputeFloat32, kLtFloat32));
    return {made, cublas_lt().destroy_matmul_desc};
  }

  static std::int64_t addend_stride(const KilnCudaProduct& product) {
    return product.addend_stride != 0 ? product.addend_stride : product.result_stride;
  }

  static Descriptor matrix(const KilnCudaProduct& product,
                           std::int64_t rows,
                           std::int64_t columns,
                           std::int64_t stride,
                           std::int64_t transposed) {
    constexpr std::int64_t kFloat16 = 5;
    if (transposed != 0) {
      std::swap(rows, columns);
    }
    Handle made = nullptr;
    // Of one column, the stride to the next may be anything.
    require_lt(cublas_lt().create_layout(&made,
                                         product.type == kFloat16 ? kLtFloat16 : kLtBFloat16,
                                         static_cast<std::uint64_t>(rows),
                                         static_cast<std::uint64_t>(columns),
                                         std::max(stride, rows)));
    return {made, cublas_lt().destroy_layout};
  }

  template <class Value>
  void set(int attribute, const Value& value) {
    require_lt(cublas_lt().set_matmul_desc(product_.get(), attribute, &value, sizeof value));
  }

  Descriptor product_, a_, b_, c_, d_;
  bool adds_ = false;  // c.
};

// Every product that was computed so far.
class Products {
 public:
  Products() = default;
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;
  ~Products() {
    known_.clear();
    int count = 0;
    if (handles_.empty() || driver().device_get_count(&count) != kSuccess) {
      return;  // The process ends, and CUDA has ended before.
    }
    for (const auto& [device, lt] : handles_) {
      cublas_lt().destroy(lt);
    }
  }

  void run(const KilnCudaProduct& product, const Operands& operands, Handle stream) {
    const Shape shape = shape_of(product, operands);
    const auto workspace = static_cast<std::size_t>(product.workspace_bytes);
    auto [known, plan] = take(shape);
    if (plan == nullptr) {
      plan = std::make_unique<Plan>(product);
    }
    if (!known.has_algorithm) {
      known.lt = handle(shape.device);
      known.algorithm = plan->find_algorithm(known.lt, shape, workspace);
      known.has_algorithm = true;
    }
    plan->run(known.lt, known.algorithm, operands, workspace, stream);
    give_back(shape, known, std::move(plan));
  }

 private:
  struct Known {
    Handle lt = nullptr;
    LtAlgorithm algorithm = {};
    bool has_algorithm = false;
  };
  struct Entry {
    Known known;
    std::vector<std::unique_ptr<Plan>> idle;
  };

  std::pair<Known, std::unique_ptr<Plan>> take(const Shape& shape) {
    const std::lock_guard lock(mutex_);
    Entry& entry = known_[shape];
    if (entry.idle.empty()) {
      return {entry.known, nullptr};
    }
    std::unique_ptr<Plan> plan = std::move(entry.idle.back());
    entry.idle.pop_back();
    return {entry.known, std::move(plan)};
  }

  void give_back(const Shape& shape, const Known& known, std::unique_ptr<Plan> plan) {
    const std::lock_guard lock(mutex_);
    Entry& entry = known_[shape];
    if (!entry.known.has_algorithm) {
      entry.known = known;  // The first stays, so that all runs have the same bits.
    }
    entry.idle.push_back(std::move(plan));
  }

  Handle handle(std::int32_t device) {
    const std::lock_guard lock(mutex_);
    Handle& lt = handles_[device];
    if (lt == nullptr) {
      require_lt(cublas_lt().create(&lt));
    }
    return lt;
  }

  std::mutex mutex_;
  std::map<std::int32_t, Handle> handles_;
  std::map<Shape, Entry> known_;
};

Products products;

}  // namespace
}  // namespace kiln::container::cuda

using namespace kiln::container;

const char* kiln_cuda_multiply(const KilnCudaProduct* product, void* const* buffers, void* stream) {
  if (product->m == 0 || product->n == 0) {
    return nullptr;
  }
  const int32_t failed =
      guarded([&] { cuda::products.run(*product, cuda::operands_of(*product, buffers), stream); });
  return failed == 0 ? nullptr : last_failure();
}
