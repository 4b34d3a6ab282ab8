/* What a compiled model gives to the container that is linked into it.
 *
 * Generated code defines `kiln_model`; libkiln-container.a has the AOTInductor entries and finds it
 * by that name. Plain C, and nothing of Kiln beyond these declarations is inside a model. Generated
 * code repeats them instead of including them: a change here is a change of KILN_MODEL_VERSION and
 * of the emitter. */

#ifndef KILN_CONTAINER_RUNTIME_MODEL_H
#define KILN_CONTAINER_RUNTIME_MODEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The version of these declarations, which the container compares. */
#define KILN_MODEL_VERSION 4

/** libtorch's at::Tensor*, the handle of the AOTInductor C shim. */
struct AtenTensorOpaque;

/** An input or output as it was compiled. A size or stride of -1 is not fixed. */
typedef struct KilnTensor {
  const char* name;       /**< its name */
  int32_t dtype;          /**< c10::ScalarType */
  int32_t device_type;    /**< c10::DeviceType */
  int32_t rank;           /**< dimensions */
  const int64_t* sizes;   /**< `rank` of them */
  const int64_t* strides; /**< `rank` of them, in elements */
  int32_t mutated;        /**< an input that run writes to */
} KilnTensor;

/** What a constant is for the user, by the numbers of AOTInductor's ConstantType. */
enum KilnConstantKind {
  KILN_CONSTANT_PARAMETER = 1,
  KILN_CONSTANT_BUFFER = 2,
  KILN_CONSTANT_TENSOR = 3,
  KILN_CONSTANT_FOLDED = 4
};

/** A constant of the model. */
typedef struct KilnConstant {
  const char* name;       /**< the model's own */
  const char* fqn;        /**< the user's: "fc1.weight" */
  int32_t dtype;          /**< c10::ScalarType */
  int32_t device_type;    /**< c10::DeviceType */
  int32_t rank;           /**< dimensions */
  const int64_t* sizes;   /**< `rank` of them */
  const int64_t* strides; /**< `rank` of them, in elements */
  uint64_t bytes;         /**< of its dense storage */
  uint64_t blob_offset; /**< into the weights, a multiple of 64; UINT64_MAX: not in them, as what is
                         * folded need not be. Constants that share storage have one place */
  int32_t kind;         /**< KilnConstantKind */
  int32_t mutated;      /**< run writes to it: a container then works on a copy of its own */
} KilnConstant;

/** One run. Inputs and constants are borrowed; every output is set to a new handle that the caller
 * owns, or, where run fails, left null. */
typedef struct KilnCall {
  struct AtenTensorOpaque* const* inputs;    /**< `num_inputs` of them */
  struct AtenTensorOpaque** outputs;         /**< `num_outputs` of them */
  struct AtenTensorOpaque* const* constants; /**< `num_constants` of them */
  void* const* constant_data;                /**< first element of each constant */
  void* stream;                              /**< the device's, or null */
  void* proxy_executor;                      /**< the host's, or null */
  const char* error; /**< set by a model that fails for a reason of its own, and good until the
                      * instance is called again; else null: the failing shim call has the message
                      * (torch_exception_get_what) */
} KilnCall;

/** What generated source defines. */
typedef struct KilnModel {
  uint32_t version;              /**< KILN_MODEL_VERSION */
  int32_t device_type;           /**< c10::DeviceType */
  int32_t num_inputs;            /**< that a run takes */
  int32_t num_outputs;           /**< that a run returns */
  int32_t num_constants;         /**< folded ones included */
  int32_t check_inputs;          /**< the container checks inputs against `inputs` before it runs */
  int32_t mutates_constants;     /**< instances then run one at a time */
  const KilnTensor* inputs;      /**< `num_inputs` of them */
  const KilnTensor* outputs;     /**< `num_outputs` of them */
  const KilnConstant* constants; /**< `num_constants` of them */
  const char* in_spec;           /**< treespec JSON */
  const char* out_spec;          /**< likewise */
  /** What the kernels need beyond the architecture's baseline, as /proc/cpuinfo names it, with
   * blanks between. A container looks before it calls any of them. */
  const char* cpu_features;
  /** The constants' bytes. Null with `weights_bytes` above 0: they stand behind the library in its
   * file, followed by a KilnWeightsTrailer, and each container maps them. */
  unsigned char* weights;
  uint64_t weights_bytes; /**< of all constants that are stored */

  /** An instance: scratch memory and tensors made once. Null on failure. */
  void* (*create)(void);
  void (*destroy)(void* instance); /**< ends an instance */
  /** 0 on success. Never throws. One call at a time per instance. */
  int32_t (*run)(void* instance, KilnCall* call);
  /** Computes the folded constants from the others: `outputs` are they, in the order of
   * `constants`. Null if there are none. */
  int32_t (*fold)(void* instance, KilnCall* call);
  /** What kernels of earlier runs found wrong, which the next run would fail with: told once, and
   * good as long as the library. Null where there is nothing, or null itself where kernels end
   * with their run. */
  const char* (*pending_error)(void* instance);
} KilnModel;

/** The steps of a run in which memory of an instance is in use, both included. */
typedef struct KilnLifetime {
  int32_t first; /**< that writes it */
  int32_t last;  /**< that reads it */
} KilnLifetime;

/** The last bytes of a library file with weights behind it. */
typedef struct KilnWeightsTrailer {
  char magic[16];             /**< KILN_WEIGHTS_MAGIC */
  uint64_t weights_bytes;     /**< what stands before the trailer */
  unsigned char reserved[40]; /**< zero */
} KilnWeightsTrailer;

/** What a KilnWeightsTrailer begins with. */
#define KILN_WEIGHTS_MAGIC "kiln weights 1\n"

/** For a model whose kernels are there for several instruction sets: which of them this machine is
 * to run. `needed` are their `cpu_features`, the least demanding first. */
__attribute__((__visibility__("hidden"))) int32_t kiln_best_cpu_level(const char* const* needed,
                                                                      int32_t count);

/** For a model whose sizes vary: where in an arena each of `count` buffers of so many bytes lies.
 * Returns how large the arena is, or -1 if there is no memory to plan it. */
__attribute__((__visibility__("hidden"))) int64_t kiln_plan_arena(const KilnLifetime* lifetimes,
                                                                  const int64_t* bytes,
                                                                  int32_t count,
                                                                  int64_t* offsets);

/** Hidden: two models in one process never see each other's table. */
extern __attribute__((__visibility__("hidden"))) const KilnModel kiln_model;

#ifdef __cplusplus
}
#endif
#endif
