// Calls into the model's table.

#pragma once

#include <cstdint>

#include "container/constant_set.hpp"
#include "container/shim.hpp"
#include "kiln/container_runtime/container.h"
#include "kiln/container_runtime/model.h"

namespace kiln::container {

/// Where a call runs.
struct Stream {
  AOTInductorStreamOpaque* stream = nullptr;
  AOTIProxyExecutorHandle proxy_executor = nullptr;
};

/// Returns `model`; throws unless this archive understands its table and this machine its kernels.
const KilnModel& require_runnable(const KilnModel& model);

/// A new instance; throws with the reason if the model cannot make one.
void* make_instance(const KilnModel& model);

/// Calls `run` or `fold` of the model; throws with its reason if it fails.
void call_model(std::int32_t (*function)(void*, KilnCall*), void* instance, KilnCall& call);

/// Computes the folded constants from the others.
void fold_constants(const KilnModel& model, void* instance, ConstantSet& constants, Stream stream);

}  // namespace kiln::container
