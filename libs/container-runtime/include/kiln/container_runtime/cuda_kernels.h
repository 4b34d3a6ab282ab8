/* What libkiln-container-cuda.a has for the code of a model: kernels out of cubins that lie in the
 * library. Plain C; generated code repeats these declarations, as it does those of model.h. It is
 * not part of a host, and libkiln-container.a does not have it. */

#ifndef KILN_CONTAINER_RUNTIME_CUDA_KERNELS_H
#define KILN_CONTAINER_RUNTIME_CUDA_KERNELS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The kernel `name` of `image`, a cubin or a fatbin that lies in the library; it serves every
 * device and every instance, and is there as long as the library. `shared_bytes` is the most
 * dynamic shared memory that a launch will ask for. Null on failure, which is then the reason that
 * the container tells. Takes a lock: for `create`, not for `run`. */
__attribute__((__visibility__("hidden"))) void* kiln_cuda_kernel(const void* image,
                                                                 const char* name,
                                                                 uint32_t shared_bytes);

/* Puts a launch into `stream`; grid and block are three numbers each. Null on success, else why
 * not, a static string. */
__attribute__((__visibility__("hidden"))) const char* kiln_cuda_launch(void* kernel,
                                                                       const uint32_t* grid,
                                                                       const uint32_t* block,
                                                                       uint32_t shared_bytes,
                                                                       void* stream,
                                                                       void** arguments);

#ifdef __cplusplus
}
#endif
#endif
