/* What libkiln-container-cuda.a has for the code of a model: kernels out of images that lie in the
 * library, memory on the device, and libtorch's functions for CUDA. Plain C; generated code repeats
 * these declarations, as it does those of model.h. It is not part of a host, and
 * libkiln-container.a does not have it. All but launches and products are for `create` and
 * `destroy`, and take locks. */

#ifndef KILN_CONTAINER_RUNTIME_CUDA_KERNELS_H
#define KILN_CONTAINER_RUNTIME_CUDA_KERNELS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Not visible outside the library of the model. */
#define KILN_CUDA_HIDDEN __attribute__((__visibility__("hidden")))

/** Kernels for one kind of GPU. */
typedef struct KilnCudaImage {
  const void* bytes;   /**< a cubin, or PTX that ends with a zero */
  uint32_t capability; /**< 90 for sm_90 or compute_90 */
  uint32_t is_ptx;     /**< also newer GPUs can run it; it is compiled when it is loaded */
} KilnCudaImage;

/** Finds the kernels `names` in the image that suits the current device best, and puts them into
 * `kernels`; they serve every instance on devices of that kind, and stay loaded as long as the
 * library. 0 on success; otherwise AOTInductorGetLastError has the reason. */
KILN_CUDA_HIDDEN int32_t kiln_cuda_load(const KilnCudaImage* images,
                                        uint32_t image_count,
                                        const char* const* names,
                                        uint32_t name_count,
                                        void** kernels);

/** The kernel `name` of `image`, a cubin or a fatbin. `shared_bytes` is the most dynamic shared
 * memory that a launch will ask for. Null on failure, with the reason in AOTInductorGetLastError.
 */
KILN_CUDA_HIDDEN void* kiln_cuda_kernel(const void* image, const char* name, uint32_t shared_bytes);

/** Puts a launch into `stream`; grid and block are three numbers each. Null on success, else why
 * not, a static string. */
KILN_CUDA_HIDDEN const char* kiln_cuda_launch(void* kernel,
                                              const uint32_t* grid,
                                              const uint32_t* block,
                                              uint32_t shared_bytes,
                                              void* stream,
                                              void** arguments);

/** What is done with the sums of a product. */
typedef enum KilnCudaEpilogue {
  KILN_CUDA_NO_EPILOGUE = 0,
  KILN_CUDA_BIAS = 1,      /**< a number for each column is added */
  KILN_CUDA_BIAS_RELU = 2, /**< and then no result is negative */
  KILN_CUDA_BIAS_GELU = 3  /**< and then GELU in its tanh form is computed */
} KilnCudaEpilogue;

/** A product of matrices of a half type, lhs (m by k) times rhs (k by n), all in rows, to which a
 * matrix (m by n) may be added before the epilogue. A transposed
 * operand lies in memory as columns. Strides are from one row, or column, to the next. */
typedef struct KilnCudaProduct {
  int64_t m;               /**< rows of the result */
  int64_t n;               /**< columns of the result */
  int64_t k;               /**< products in each sum */
  int64_t lhs_stride;      /**< from one row of lhs, or column, to the next */
  int64_t rhs_stride;      /**< likewise of rhs */
  int64_t addend_stride;   /**< likewise of a matrix that is added; 0: none is */
  int64_t result_stride;   /**< from one row of the result to the next */
  int64_t lhs_transposed;  /**< 1: lhs lies in columns */
  int64_t rhs_transposed;  /**< likewise of rhs */
  int64_t type;            /**< as libtorch numbers types: 5 float16, 15 bfloat16 */
  int64_t epilogue;        /**< one of KilnCudaEpilogue */
  int64_t workspace_bytes; /**< of the last buffer */
} KilnCudaProduct;

/** Puts a product into `stream`, computed by the cuBLASLt that libtorch has loaded. `buffers` are
 * lhs, rhs, the bias if there is one, the matrix that is added if there is one, the result, and the
 * workspace. Null on success, else why not, until this thread's next call. How to compute it is
 * found out once for each product. */
KILN_CUDA_HIDDEN const char* kiln_cuda_multiply(const KilnCudaProduct* product,
                                                void* const* buffers,
                                                void* stream);

/** The index of the device that this thread's `create` or `run` is to use. Takes no lock. */
KILN_CUDA_HIDDEN int32_t kiln_cuda_device(void);

/** Memory of that device, from libtorch's allocator. Null on failure, with the reason in
 * AOTInductorGetLastError. */
KILN_CUDA_HIDDEN void* kiln_cuda_allocate(uint64_t bytes);
/** Gives that memory back. */
KILN_CUDA_HIDDEN void kiln_cuda_free(void* memory);

/** Zero-filled memory of the host that kernels can write to. Null on failure, with the reason in
 * AOTInductorGetLastError. */
KILN_CUDA_HIDDEN void* kiln_cuda_allocate_host(uint64_t bytes);
/** Gives that memory back. */
KILN_CUDA_HIDDEN void kiln_cuda_free_host(void* memory);

/** Waits for `stream`. Null on success, else what failed, a static string. */
KILN_CUDA_HIDDEN const char* kiln_cuda_synchronize(void* stream);

/** A function of libtorch's C shim that only its CUDA build has ("aoti_torch_cuda_mm_out"). Null if
 * this libtorch does not have it, with the reason in AOTInductorGetLastError. */
KILN_CUDA_HIDDEN void* kiln_cuda_function(const char* name);

#ifdef __cplusplus
}
#endif
#endif
