/* The entries of a model library, in plain C: AOTInductor's ABI as of PyTorch 2.13, and what Kiln
 * adds.
 *
 * A host in any language links a model library (or looks the names up with dlsym) and calls these.
 * Every entry returns 0, or 1 with the reason in AOTInductorGetLastError; none throws. A tensor
 * handle is libtorch's at::Tensor*: make and read it with torch/csrc/inductor/aoti_torch/c/shim.h.
 *
 * Do not include this beside torch/csrc/inductor/aoti_runtime/interface.h, which declares the same
 * names for C++ alone. */

#ifndef KILN_CONTAINER_RUNTIME_CONTAINER_H
#define KILN_CONTAINER_RUNTIME_CONTAINER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
/** No entry throws; C has no word for it. */
#define KILN_ABI_NOEXCEPT noexcept
extern "C" {
#else
#define KILN_ABI_NOEXCEPT
#endif
/** Visible outside the library. */
#define KILN_ABI __attribute__((__visibility__("default")))

struct AtenTensorOpaque;
struct AOTInductorModelOpaque;
struct AOTInductorModelContainerOpaque;
struct AOTInductorStreamOpaque;
struct AOTInductorConstantMap; /* std::unordered_map<std::string, at::Tensor*> of the C++ runtime */
struct AOTIProxyExecutorOpaque;

/** One constant by name. */
struct AOTInductorConstantMapEntry {
  const char* name;                /**< its name */
  struct AtenTensorOpaque* handle; /**< the tensor */
};

/** The most dimensions of an AOTInductorArrayRefTensor. */
#define AOTI_ARRAYREF_TENSOR_MAX_DIMS 8

/** A tensor without libtorch. All memory is the caller's; `reserved` is zero. */
struct AOTInductorArrayRefTensor {
  void* data;                                     /**< first element */
  int64_t numel;                                  /**< elements */
  int64_t sizes[AOTI_ARRAYREF_TENSOR_MAX_DIMS];   /**< of the first `ndim` dimensions */
  int64_t strides[AOTI_ARRAYREF_TENSOR_MAX_DIMS]; /**< likewise, in elements */
  int32_t ndim;                                   /**< dimensions */
  int32_t dtype;                                  /**< c10::ScalarType */
  int32_t device_type;                            /**< c10::DeviceType */
  int32_t device_idx;                             /**< which of them */
  int64_t reserved[4];                            /**< zero */
};

/* --- A container: instances that run concurrently over one set of constants --- */

/** "cpu" or "cuda". */
KILN_ABI int32_t AOTInductorModelContainerCreate(struct AOTInductorModelContainerOpaque** container,
                                                 size_t num_models,
                                                 bool is_cpu,
                                                 const char* cubin_dir) KILN_ABI_NOEXCEPT;
/** `device` reads "cpu", "cuda" or "cuda:0"; `cubin_dir` may be null. */
KILN_ABI int32_t
AOTInductorModelContainerCreateWithDevice(struct AOTInductorModelContainerOpaque** container,
                                          size_t num_models,
                                          const char* device,
                                          const char* cubin_dir) KILN_ABI_NOEXCEPT;
/** Ends a container: no run may be left. */
KILN_ABI int32_t AOTInductorModelContainerDelete(struct AOTInductorModelContainerOpaque* container)
    KILN_ABI_NOEXCEPT;

/** Takes over every input handle, also when it fails; writes new output handles, which the caller
 * deletes. The arrays stay the caller's. Waits for a free instance. */
KILN_ABI int32_t AOTInductorModelContainerRun(struct AOTInductorModelContainerOpaque* container,
                                              struct AtenTensorOpaque** inputs,
                                              size_t num_inputs,
                                              struct AtenTensorOpaque** outputs,
                                              size_t num_outputs,
                                              struct AOTInductorStreamOpaque* stream,
                                              struct AOTIProxyExecutorOpaque* proxy_executor)
    KILN_ABI_NOEXCEPT;
/** The same without locks: nothing else may touch the container meanwhile. */
KILN_ABI int32_t AOTInductorModelContainerRunSingleThreaded(
    struct AOTInductorModelContainerOpaque* container,
    struct AtenTensorOpaque** inputs,
    size_t num_inputs,
    struct AtenTensorOpaque** outputs,
    size_t num_outputs,
    struct AOTInductorStreamOpaque* stream,
    struct AOTIProxyExecutorOpaque* proxy_executor) KILN_ABI_NOEXCEPT;
/** Kiln's own: Run that leaves the input handles with the caller. */
KILN_ABI int32_t KilnContainerRunBorrowed(struct AOTInductorModelContainerOpaque* container,
                                          struct AtenTensorOpaque* const* inputs,
                                          size_t num_inputs,
                                          struct AtenTensorOpaque** outputs,
                                          size_t num_outputs,
                                          struct AOTInductorStreamOpaque* stream,
                                          struct AOTIProxyExecutorOpaque* proxy_executor)
    KILN_ABI_NOEXCEPT;

/** Kiln's own, for a host that captures graphs: RunBorrowed while `stream` is being captured. What
 * is captured works on an instance of its own, which is `capture`, and may be replayed until that
 * is released or the container deleted, as long as the constants are not changed. Run does the same
 * where it finds its stream being captured, and never releases the instance. */
KILN_ABI int32_t KilnContainerRunCaptured(struct AOTInductorModelContainerOpaque* container,
                                          struct AtenTensorOpaque* const* inputs,
                                          size_t num_inputs,
                                          struct AtenTensorOpaque** outputs,
                                          size_t num_outputs,
                                          struct AOTInductorStreamOpaque* stream,
                                          struct AOTIProxyExecutorOpaque* proxy_executor,
                                          void** capture) KILN_ABI_NOEXCEPT;
/** Ends a capture whose replays are done. */
KILN_ABI int32_t KilnContainerReleaseCapture(struct AOTInductorModelContainerOpaque* container,
                                             void* capture) KILN_ABI_NOEXCEPT;
/** Fails if the kernels of a run or replay that is done found something wrong, such as an index out
 * of range. Run does that itself, a replay cannot. */
KILN_ABI int32_t KilnContainerCheck(struct AOTInductorModelContainerOpaque* container)
    KILN_ABI_NOEXCEPT;
/** Whether runs write to an input. */
KILN_ABI int32_t KilnContainerIsInputMutated(struct AOTInductorModelContainerOpaque* container,
                                             size_t index,
                                             bool* is_mutated) KILN_ABI_NOEXCEPT;
/** Whether runs write to constants. */
KILN_ABI int32_t KilnContainerMutatesConstants(struct AOTInductorModelContainerOpaque* container,
                                               bool* mutates) KILN_ABI_NOEXCEPT;

/** Kiln's own: the weights are in the file `path`, from byte `offset` on, and not behind the
 * library. Holds for the containers made afterwards. A host that unpacks a package need not copy
 * the weights.
 */
KILN_ABI int32_t KilnModelWeightsAt(const char* path, uint64_t offset) KILN_ABI_NOEXCEPT;

/* --- What the model is. Strings belong to the library --- */

/** How many inputs a run takes. */
KILN_ABI int32_t AOTInductorModelContainerGetNumInputs(
    struct AOTInductorModelContainerOpaque* container, size_t* count) KILN_ABI_NOEXCEPT;
/** The name of an input. */
KILN_ABI int32_t
AOTInductorModelContainerGetInputName(struct AOTInductorModelContainerOpaque* container,
                                      size_t index,
                                      const char** name) KILN_ABI_NOEXCEPT;
/** How many outputs a run returns. */
KILN_ABI int32_t AOTInductorModelContainerGetNumOutputs(
    struct AOTInductorModelContainerOpaque* container, size_t* count) KILN_ABI_NOEXCEPT;
/** The name of an output. */
KILN_ABI int32_t
AOTInductorModelContainerGetOutputName(struct AOTInductorModelContainerOpaque* container,
                                       size_t index,
                                       const char** name) KILN_ABI_NOEXCEPT;
/** The tree specs of arguments and result, as JSON. */
KILN_ABI int32_t
AOTInductorModelContainerGetCallSpec(struct AOTInductorModelContainerOpaque* container,
                                     const char** in_spec,
                                     const char** out_spec) KILN_ABI_NOEXCEPT;

/** How many constants the model has, folded ones included. */
KILN_ABI int32_t AOTInductorModelContainerGetNumConstants(
    struct AOTInductorModelContainerOpaque* container, size_t* count) KILN_ABI_NOEXCEPT;
/** The model's own name of a constant. */
KILN_ABI int32_t
AOTInductorModelContainerGetConstantName(struct AOTInductorModelContainerOpaque* container,
                                         size_t index,
                                         const char** name) KILN_ABI_NOEXCEPT;
/** The user's name of a constant: "fc1.weight". */
KILN_ABI int32_t
AOTInductorModelContainerGetConstantOriginalFQN(struct AOTInductorModelContainerOpaque* container,
                                                size_t index,
                                                const char** fqn) KILN_ABI_NOEXCEPT;
/** Whether the model computes a constant from others. */
KILN_ABI int32_t
AOTInductorModelContainerGetConstantFromFolded(struct AOTInductorModelContainerOpaque* container,
                                               size_t index,
                                               bool* from_folded) KILN_ABI_NOEXCEPT;
/** The kind of a constant, by the numbers of AOTInductor's ConstantType. */
KILN_ABI int32_t
AOTInductorModelContainerGetConstantType(struct AOTInductorModelContainerOpaque* container,
                                         size_t index,
                                         int32_t* type) KILN_ABI_NOEXCEPT;
/** The type of a constant's elements, by the numbers of c10::ScalarType. */
KILN_ABI int32_t
AOTInductorModelContainerGetConstantDtype(struct AOTInductorModelContainerOpaque* container,
                                          size_t index,
                                          int32_t* dtype) KILN_ABI_NOEXCEPT;
/** The bytes of a constant's dense storage. */
KILN_ABI int32_t
AOTInductorModelContainerGetConstantDataSize(struct AOTInductorModelContainerOpaque* container,
                                             size_t index,
                                             size_t* bytes) KILN_ABI_NOEXCEPT;
/** The bytes of all constants that are stored. */
KILN_ABI int32_t AOTInductorModelContainerGetConstantsBlobSize(
    struct AOTInductorModelContainerOpaque* container, uint64_t* bytes) KILN_ABI_NOEXCEPT;

/* --- Constants: an active set that runs see, an inactive one to prepare, and a swap --- */

/** Adds fully qualified name -> handle to `map`; the handles stay the container's, valid until its
 * constants change. */
KILN_ABI int32_t
AOTInductorModelContainerExtractConstantsMap(struct AOTInductorModelContainerOpaque* container,
                                             struct AOTInductorConstantMap* map,
                                             bool use_inactive) KILN_ABI_NOEXCEPT;
/** The same as an array of the container's, valid until the next such call or change of constants.
 */
KILN_ABI int32_t AOTInductorModelContainerExtractConstantsMapEntries(
    struct AOTInductorModelContainerOpaque* container,
    const struct AOTInductorConstantMapEntry** entries,
    size_t* num_entries,
    bool use_inactive) KILN_ABI_NOEXCEPT;

/** Copies the named tensors into a set; runs in flight keep the values they started with.
 * `validate_full_update` makes a missing parameter an error. Names that the model does not have are
 * ignored. */
KILN_ABI int32_t
AOTInductorModelContainerUpdateConstantBuffer(struct AOTInductorModelContainerOpaque* container,
                                              struct AOTInductorConstantMap* map,
                                              bool use_inactive,
                                              bool validate_full_update) KILN_ABI_NOEXCEPT;
/** The same from an array. */
KILN_ABI int32_t AOTInductorModelContainerUpdateConstantBufferPairs(
    struct AOTInductorModelContainerOpaque* container,
    const struct AOTInductorConstantMapEntry* pairs,
    size_t num_pairs,
    bool use_inactive,
    bool validate_full_update) KILN_ABI_NOEXCEPT;
/** The same where a tensor on the CPU may be given for a constant on another device. */
KILN_ABI int32_t AOTInductorModelContainerUpdateConstantBufferFromCpu(
    struct AOTInductorModelContainerOpaque* container,
    struct AOTInductorConstantMap* map,
    bool use_inactive,
    bool validate_full_update) KILN_ABI_NOEXCEPT;
/** The same from an array. */
KILN_ABI int32_t AOTInductorModelContainerUpdateConstantBufferFromCpuPairs(
    struct AOTInductorModelContainerOpaque* container,
    const struct AOTInductorConstantMapEntry* pairs,
    size_t num_pairs,
    bool use_inactive,
    bool validate_full_update) KILN_ABI_NOEXCEPT;
/** The same without copying: the container works on the caller's memory. */
KILN_ABI int32_t AOTInductorModelContainerUpdateUserManagedConstantBuffer(
    struct AOTInductorModelContainerOpaque* container,
    struct AOTInductorConstantMap* map,
    bool use_inactive,
    bool validate_full_update) KILN_ABI_NOEXCEPT;
/** The same from an array. */
KILN_ABI int32_t AOTInductorModelContainerUpdateUserManagedConstantBufferPairs(
    struct AOTInductorModelContainerOpaque* container,
    const struct AOTInductorConstantMapEntry* pairs,
    size_t num_pairs,
    bool use_inactive,
    bool validate_full_update) KILN_ABI_NOEXCEPT;
/** A validated full update of the inactive set. */
KILN_ABI int32_t AOTInductorModelContainerUpdateInactiveConstantBuffer(
    struct AOTInductorModelContainerOpaque* container,
    struct AOTInductorConstantMap* map) KILN_ABI_NOEXCEPT;
/** The same from an array. */
KILN_ABI int32_t AOTInductorModelContainerUpdateInactiveConstantBufferPairs(
    struct AOTInductorModelContainerOpaque* container,
    const struct AOTInductorConstantMapEntry* pairs,
    size_t num_pairs) KILN_ABI_NOEXCEPT;
/** Copies the whole blob of the active set from memory; the entry takes a container. */
KILN_ABI int32_t AOTInductorModelUpdateConstantsFromBlob(
    struct AOTInductorModelContainerOpaque* container, const uint8_t* blob) KILN_ABI_NOEXCEPT;

/** Computes the folded constants of a set. Without it the first run does. */
KILN_ABI int32_t AOTInductorModelContainerRunConstantFolding(
    struct AOTInductorModelContainerOpaque* container,
    bool use_inactive,
    struct AOTInductorStreamOpaque* stream,
    struct AOTIProxyExecutorOpaque* proxy_executor) KILN_ABI_NOEXCEPT;
/** Makes the inactive set the active one. Returns when no run uses the other any more. */
KILN_ABI int32_t AOTInductorModelContainerSwapConstantBuffer(
    struct AOTInductorModelContainerOpaque* container) KILN_ABI_NOEXCEPT;
/** Releases the inactive set's memory. */
KILN_ABI int32_t AOTInductorModelContainerFreeInactiveConstantBuffer(
    struct AOTInductorModelContainerOpaque* container) KILN_ABI_NOEXCEPT;

/* --- A bare model: one instance, no locks, on the CPU --- */

/** A null or empty map: the embedded constants; else the handles are taken over. */
KILN_ABI int32_t AOTInductorModelCreate(struct AOTInductorModelOpaque** model,
                                        struct AOTInductorConstantMap* map) KILN_ABI_NOEXCEPT;
/** The same from an array. */
KILN_ABI int32_t AOTInductorModelCreateV2(struct AOTInductorModelOpaque** model,
                                          const struct AOTInductorConstantMapEntry* pairs,
                                          size_t num_pairs) KILN_ABI_NOEXCEPT;
/** Ends a model. */
KILN_ABI int32_t AOTInductorModelDelete(struct AOTInductorModelOpaque* model) KILN_ABI_NOEXCEPT;
/** How many outputs a run returns. */
KILN_ABI int32_t AOTInductorModelGetNumOutputs(struct AOTInductorModelOpaque* model,
                                               size_t* count) KILN_ABI_NOEXCEPT;
/** Takes over the input handles, as many as the model has inputs. */
KILN_ABI int32_t AOTInductorModelRun(struct AOTInductorModelOpaque* model,
                                     struct AtenTensorOpaque** inputs,
                                     struct AtenTensorOpaque** outputs) KILN_ABI_NOEXCEPT;
/** An output whose `data` is set receives a copy; else it gets memory of the model's, valid until
 * the next run. */
KILN_ABI int32_t AOTInductorModelRunMinimalArrayrefInterfaceV2(
    struct AOTInductorModelOpaque* model,
    int32_t num_inputs,
    const struct AOTInductorArrayRefTensor* inputs,
    int32_t num_outputs,
    struct AOTInductorArrayRefTensor* outputs) KILN_ABI_NOEXCEPT;
/** Replaces the constants, taking over the handles. */
KILN_ABI int32_t AOTInductorModelUpdateConstantsMap(
    struct AOTInductorModelOpaque* model, struct AOTInductorConstantMap* map) KILN_ABI_NOEXCEPT;
/** The same from an array. */
KILN_ABI int32_t
AOTInductorModelUpdateConstantsMapV2(struct AOTInductorModelOpaque* model,
                                     const struct AOTInductorConstantMapEntry* pairs,
                                     int32_t num_pairs) KILN_ABI_NOEXCEPT;

/** Why the last call on this thread failed; empty if it did not. Valid until the next call. */
KILN_ABI int32_t AOTInductorGetLastError(const char** message) KILN_ABI_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif
