/* A host in plain C: makes a container of the affine model, runs it, gives it other constants.
 *
 * usage: kiln-test-c-host LIBRARY */

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "kiln/container_runtime/container.h"

/* Of libtorch's C shim, whose own header is C++. */
typedef struct AtenTensorOpaque* Handle;
int32_t aoti_torch_create_tensor_from_blob(void* data,
                                           int64_t rank,
                                           const int64_t* sizes,
                                           const int64_t* strides,
                                           int64_t offset,
                                           int32_t dtype,
                                           int32_t device_type,
                                           int32_t device_index,
                                           Handle* result);
int32_t aoti_torch_get_data_ptr(Handle tensor, void** data);
int32_t aoti_torch_delete_tensor_object(Handle tensor);

/* ISO C has no cast from what dlsym gives; POSIX says to write through. */
#define ENTRY(library, name)             \
  __typeof__(&name) entry_##name = NULL; \
  *(void**)(&entry_##name) = dlsym(library, #name)

static Handle row(float* values, int64_t rank) {
  static const int64_t sizes[] = {1, 4};
  static const int64_t strides[] = {4, 1};
  const int64_t skip = 2 - rank;
  Handle result = NULL;
  aoti_torch_create_tensor_from_blob(
      values, rank, sizes + skip, strides + skip, 0, 6, 0, 0, &result);
  return result;
}

int main(int count, char** arguments) {
  void* library = count == 2 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (library == NULL) {
    fprintf(stderr, "%s\n", count == 2 ? dlerror() : "usage: kiln-test-c-host LIBRARY");
    return 2;
  }
  ENTRY(library, AOTInductorModelContainerCreateWithDevice);
  ENTRY(library, AOTInductorModelContainerDelete);
  ENTRY(library, AOTInductorModelContainerRun);
  ENTRY(library, AOTInductorModelContainerUpdateConstantBufferPairs);
  ENTRY(library, AOTInductorGetLastError);

  struct AOTInductorModelContainerOpaque* container = NULL;
  if (entry_AOTInductorModelContainerCreateWithDevice(&container, 2, "cpu", NULL) != 0) {
    return 3;
  }
  float ones[] = {1, 1, 1, 1};
  float scale[] = {5, 5, 5, 5};
  for (int turn = 0; turn < 2; ++turn) {
    Handle input = row(ones, 2);
    Handle output = NULL;
    void* values = NULL;
    if (entry_AOTInductorModelContainerRun(container, &input, 1, &output, 1, NULL, NULL) != 0) {
      return 4;
    }
    aoti_torch_get_data_ptr(output, &values);
    if (((const float*)values)[3] != (turn == 0 ? 48.0F : 50.0F)) {
      return 5;
    }
    aoti_torch_delete_tensor_object(output);
    const struct AOTInductorConstantMapEntry entry = {"module.scale", row(scale, 1)};
    if (entry_AOTInductorModelContainerUpdateConstantBufferPairs(
            container, &entry, 1, false, false) != 0) {
      return 6;
    }
    aoti_torch_delete_tensor_object(entry.handle);
  }
  const char* message = NULL;
  if (entry_AOTInductorModelContainerRun(container, NULL, 0, NULL, 1, NULL, NULL) != 1 ||
      entry_AOTInductorGetLastError(&message) != 0 ||
      strcmp(message, "expected inputs vector size to be 1, but got 0") != 0) {
    return 7;
  }
  return entry_AOTInductorModelContainerDelete(container);
}
