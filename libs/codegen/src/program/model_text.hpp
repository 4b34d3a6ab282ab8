// Source text that all models share.

#pragma once

namespace kiln::codegen {

/// The version of the ABI between a model and the container runtime (model.h).
inline constexpr int kModelVersion = 4;

/// Types, the ABI of the container runtime, and the macros that pass errors on.
inline constexpr const char* kModelPreamble = R"(
typedef long long Int64;
typedef unsigned long long U64;
typedef __SIZE_TYPE__ Size;
struct AtenTensorOpaque;
typedef AtenTensorOpaque* Handle;

// The ABI of the container runtime (kiln/container_runtime/model.h), version 4.
struct KilnTensor {
  const char* name;
  int dtype, device_type, rank;
  const Int64 *sizes, *strides;
  int mutated;
};
struct KilnConstant {
  const char *name, *fqn;
  int dtype, device_type, rank;
  const Int64 *sizes, *strides;
  U64 bytes, blob_offset;
  int kind, mutated;
};
struct KilnCall {
  Handle const* inputs;
  Handle* outputs;
  Handle const* constants;
  void* const* constant_data;
  void* stream;
  void* proxy_executor;
  const char* error;
};
struct KilnModel {
  unsigned version;
  int device_type, num_inputs, num_outputs, num_constants, check_inputs, mutates_constants;
  const KilnTensor *inputs, *outputs;
  const KilnConstant* constants;
  const char *in_spec, *out_spec, *cpu_features;
  unsigned char* weights;
  U64 weights_bytes;
  void* (*create)(void);
  void (*destroy)(void*);
  int (*run)(void*, KilnCall*);
  int (*fold)(void*, KilnCall*);
  const char* (*pending_error)(void*);
};
struct KilnLifetime {
  int first, last;
};

// Code that runs only when sizes change is not worth the time to optimize it.
#if defined(__clang__)
#define RARELY __attribute__((noinline, optnone))
#else
#define RARELY __attribute__((noinline, optimize("O0")))
#endif

// Every function of libtorch's C shim gives 0 or an error.
#define TRY(...) if (int error = (__VA_ARGS__)) return error
)";

/// Tensors on memory of the model's own. Needs the declarations of the shim's functions; `$DEVICE`
/// stands for the device's type and index, here and below.
inline constexpr const char* kModelViews = R"(
// A tensor on memory of ours or of the caller, kept while that memory stays where it is.
struct View {
  void* base;
  Handle tensor;
};
static __attribute__((noinline)) int make_view(View& view, void* base, Int64 offset, Int64 rank,
                                         const Int64* sizes, const Int64* strides, int dtype) {
  if (view.tensor && view.base == base) return 0;
  if (view.tensor) aoti_torch_delete_tensor_object(view.tensor);
  view.tensor = nullptr;
  view.base = base;
  return aoti_torch_create_tensor_from_blob_v2((char*)base + offset, rank, sizes, strides, 0, dtype,
                                               $DEVICE, &view.tensor, 0, nullptr, 0);
}
)";

/// Handles, and checks of what libtorch returned. Needs the declarations of the shim's functions.
inline constexpr const char* kModelTensors = R"(static inline void release(Handle& tensor) {
  if (tensor) aoti_torch_delete_tensor_object(tensor);
  tensor = nullptr;
}
// A tensor for the caller, and where its memory is.
static __attribute__((noinline, unused)) int make(Handle& tensor, void*& at, Int64 rank,
                                                  const Int64* sizes, const Int64* strides, int dtype) {
  TRY(aoti_torch_empty_strided(rank, sizes, strides, dtype, $DEVICE, &tensor));
  return aoti_torch_get_data_ptr(tensor, &at);
}
// Fails with the message `refusal` if libtorch returned another type or, if `rank` is not negative,
// other sizes than the program was planned for.
static __attribute__((noinline, unused)) int expect(KilnCall& call, const char* refusal, Handle tensor,
                                                    int dtype, Int64 rank, const Int64* sizes) {
  int found_dtype;
  Int64 found_rank, *found;
  TRY(aoti_torch_get_dtype(tensor, &found_dtype));
  TRY(aoti_torch_get_dim(tensor, &found_rank));
  TRY(aoti_torch_get_sizes(tensor, &found));
  bool same = found_dtype == dtype && (rank < 0 || found_rank == rank);
  for (Int64 i = 0; same && i < rank; ++i) same = found[i] == sizes[i];
  if (same) return 0;
  call.error = refusal;
  return 1;
}
// Copies what libtorch returned if its strides are not those that the program was planned for.
static __attribute__((noinline, unused)) int ensure_strides(Handle& tensor, Int64 rank, const Int64* sizes,
                                                    const Int64* strides, int dtype) {
  Int64* found;
  TRY(aoti_torch_get_strides(tensor, &found));
  bool same = true, empty = false;
  for (Int64 i = 0; i < rank; ++i) {
    same = same && (found[i] == strides[i] || sizes[i] == 1);
    empty = empty || sizes[i] == 0;
  }
  if (same || empty) return 0;
  Handle copy;
  TRY(aoti_torch_empty_strided(rank, sizes, strides, dtype, $DEVICE, &copy));
  const int error = aoti_torch_copy_(copy, tensor, 0);
  release(error ? copy : tensor);
  if (!error) tensor = copy;
  return error;
}
)";

/// Refuses a call whose sizes its symbols do not allow.
inline constexpr const char* kModelRefusal = R"(
static __attribute__((unused)) bool is_empty(const Int64* sizes, Int64 rank) {
  for (Int64 i = 0; i < rank; ++i) {
    if (sizes[i] == 0) return true;
  }
  return false;
}
#define REFUSE(...) return snprintf(m.message, sizeof(m.message), __VA_ARGS__), call.error = m.message, 1
)";

/// Folds constants: runs an instance of the program in `folding` once.
inline constexpr const char* kModelFold = R"(
static int fold(void*, KilnCall* call) {
  void* const instance = folding::create();
  if (!instance) return 1;
  const int error = folding::run(instance, call);
  folding::destroy(instance);
  return error;
}
)";

/// A range that profilers see. The functions are weak: an older libtorch has none of them, and a
/// model runs there, too.
inline constexpr const char* kModelRanges = R"(
extern "C" {
__attribute__((weak)) int aoti_record_function_start(const char*, void*, void* const*, U64, void**);
__attribute__((weak)) int aoti_record_function_end(void*);
}
struct Range {
  void* handle = nullptr;
  explicit Range(const char* name) {
    if (aoti_record_function_start) aoti_record_function_start(name, nullptr, nullptr, 0, &handle);
  }
  ~Range() {
    if (handle) aoti_record_function_end(handle);
  }
};
)";

}  // namespace kiln::codegen
