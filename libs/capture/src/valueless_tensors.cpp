#include "valueless_tensors.hpp"

#include <c10/core/CPUAllocator.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <array>
#include <exception>
#include <string_view>

#include "kiln/base/error.hpp"
#include "meta_rules.hpp"

namespace kiln::capture {
namespace {

constexpr std::string_view kNamespace = "aten.";

// "index_put" of "aten.index_put.hacked_twin".
std::string_view name_of(std::string_view target) {
  target.remove_prefix(std::min(kNamespace.size(), target.size()));
  return target.substr(0, target.find('.'));
}

// Operators that raise an error for some indices, which a trace must raise too.
bool takes_indices(std::string_view name) {
  constexpr std::array kNames = {"embedding",
                                 "_embedding_bag",
                                 "_embedding_bag_forward_only",
                                 "gather",
                                 "index",
                                 "index_add",
                                 "index_add_",
                                 "index_copy",
                                 "index_copy_",
                                 "index_fill",
                                 "index_fill_",
                                 "index_put",
                                 "index_put_",
                                 "_index_put_impl_",
                                 "index_reduce",
                                 "index_reduce_",
                                 "index_select",
                                 "max_unpool2d",
                                 "max_unpool3d",
                                 "multi_margin_loss",
                                 "multilabel_margin_loss_forward",
                                 "nll_loss_forward",
                                 "nll_loss2d_forward",
                                 "put",
                                 "put_",
                                 "scatter",
                                 "scatter_",
                                 "scatter_add",
                                 "scatter_add_",
                                 "scatter_reduce",
                                 "scatter_reduce_",
                                 "take"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

// Operators that raise an error for some values, or whose result's shape depends on them.
bool depends_on_values(std::string_view target) {
  constexpr std::array kTargets = {"aten.bernoulli.default",
                                   "aten.bernoulli.out",
                                   "aten.bernoulli_.Tensor",
                                   "aten.binary_cross_entropy.default",
                                   "aten.binomial.default",
                                   "aten._ctc_loss.default",
                                   "aten._ctc_loss.Tensor",
                                   "aten.multinomial.default",
                                   "aten.normal.float_Tensor",
                                   "aten.normal.Tensor_Tensor",
                                   "aten._pack_padded_sequence.default",
                                   "aten.poisson.default"};
  return !target.starts_with(kNamespace) ||
         std::find(kTargets.begin(), kTargets.end(), target) != kTargets.end();
}

bool is_integral(const at::Tensor& tensor) {
  return c10::isIntegralType(tensor.scalar_type(), /*includeBool=*/true);
}

std::vector<at::Tensor> written_by(const ValuelessTensors::Call& call,
                                   std::span<const c10::IValue> arguments) {
  std::vector<at::Tensor> written;
  for (const std::uint32_t argument : call.mutates) {
    for (at::Tensor& tensor : tensors_among(arguments.subspan(argument, 1))) {
      written.push_back(std::move(tensor));
    }
  }
  return written;
}

bool is_among(const at::Tensor& tensor, const std::vector<at::Tensor>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [&](const at::Tensor& other) {
    return other.is_same(tensor);
  });
}

// Tensors like another one, of which they take no element.
bool is_factory(std::string_view name) {
  return name.starts_with("new_") || name.ends_with("_like");
}

// Whether libtorch may raise an error because a mutated operand overlaps another.
bool overlap(const at::Tensor& a, const at::Tensor& b) {
  const auto end = [](const at::Tensor& tensor) {
    return tensor.storage_offset() + tensor.numel();
  };
  return !a.is_same(b) && memory_of(a) == memory_of(b) && a.is_non_overlapping_and_dense() &&
         b.is_non_overlapping_and_dense() && a.storage_offset() < end(b) &&
         b.storage_offset() < end(a);
}

bool overlaps(const std::vector<at::Tensor>& operands, const std::vector<at::Tensor>& written) {
  return std::any_of(operands.begin(), operands.end(), [&](const at::Tensor& operand) {
    return std::any_of(written.begin(), written.end(), [&](const at::Tensor& target) {
      return overlap(operand, target);
    });
  });
}

// Later operators may look at integers and booleans: indices, masks.
bool has_integers(const DryRunResult& outcome, const std::vector<at::Tensor>& written) {
  return std::any_of(written.begin(), written.end(), is_integral) ||
         std::any_of(
             outcome.returns.begin(), outcome.returns.end(), [](const DryRunResult::Return& one) {
               return std::any_of(
                   one.results.begin(), one.results.end(), [](const DryRunResult::Result& result) {
                     return result.geometry.defined() && is_integral(result.geometry);
                   });
             });
}

}  // namespace

bool ValuelessTensors::contains(const at::Tensor& tensor) const {
  return storages_.contains(memory_of(tensor));
}

at::Tensor ValuelessTensors::make_like(const at::Tensor& tensor) {
  Storages storages;
  return make_like(tensor, storages);
}

at::Tensor ValuelessTensors::make_like(const at::Tensor& tensor, Storages& storages) {
  const auto [entry, fresh] = storages.try_emplace(tensor.storage().unsafeGetStorageImpl());
  if (fresh) {
    entry->second = c10::Storage(c10::Storage::use_byte_size_t(),
                                 tensor.storage().nbytes(),
                                 at::DataPtr(nullptr, at::kCPU),
                                 c10::GetCPUAllocator(),
                                 /*resizable=*/true);
    c10::StorageImpl* storage = entry->second.unsafeGetStorageImpl();
    storage->release_data_and_set_meta_custom_data_ptr_error_msg_(
        "the trace has not computed this tensor");
    storages_.insert(storage);
  }
  at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(entry->second), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  c10::TensorImpl* impl = made.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    impl->set_wrapped_number(true);
  }
  return made;
}

std::optional<DryRunResult> ValuelessTensors::on_meta(const Call& call,
                                                      std::span<const c10::IValue> arguments) {
  if (auto results = apply_meta_rule(call.facts.target, arguments)) {
    DryRunResult outcome;
    for (at::Tensor& result : *results) {
      outcome.returns.push_back({.results = {{.geometry = std::move(result)}}});
    }
    return outcome;
  }
  if (!call.facts.faithful_on_meta || not_on_meta_.contains(&call.op.schema())) {
    return std::nullopt;
  }
  try {
    return dry_run(call.op,
                   c10::DispatchKeySet(c10::DispatchKey::Meta),
                   arguments,
                   without_memory,
                   /*on_meta=*/true);
  } catch (const std::exception&) {
    // Whether the program is wrong shows when it runs on other tensors.
    not_on_meta_.insert(&call.op.schema());
    return std::nullopt;
  }
}

// Run once on zeros, for the geometry of the results. Where indices matter they are the real ones.
std::optional<DryRunResult> ValuelessTensors::on_zeros(const Call& call,
                                                       std::span<const c10::IValue> arguments) {
  const bool indexes = takes_indices(name_of(call.facts.target)) && !call.by_autograd;
  const std::string key = indexes ? "" : geometry_key(call.op, arguments);
  if (const auto known = dry_runs_.find(key); !indexes && known != dry_runs_.end()) {
    return known->second;
  }
  const std::vector<at::Tensor> written = written_by(call, arguments);
  const auto stand_in = [&](const at::Tensor& tensor) {
    return contains(tensor) || is_among(tensor, written) ? zero_like(tensor) : tensor;
  };
  std::optional<DryRunResult> outcome =
      dry_run(call.op, call.keys, arguments, stand_in, /*on_meta=*/false);
  if (!outcome || outcome->is_view) {
    return outcome;
  }
  Storages storages;
  for (DryRunResult::Return& one : outcome->returns) {
    for (DryRunResult::Result& result : one.results) {
      if (result.geometry.defined()) {
        result.geometry = make_like(result.geometry, storages);
      }
    }
  }
  return indexes ? outcome : dry_runs_.emplace(key, std::move(*outcome)).first->second;
}

void ValuelessTensors::forget(const at::Tensor& written,
                              const std::unordered_set<const c10::StorageImpl*>& external) {
  c10::StorageImpl* storage = written.storage().unsafeGetStorageImpl();
  if (storages_.insert(storage).second && !external.contains(storage)) {
    storage->release_data_and_set_meta_custom_data_ptr_error_msg_(
        "the trace has not computed what was written to this tensor");
  }
}

void ValuelessTensors::apply(const DryRunResult& outcome,
                             const std::vector<at::Tensor>& operands,
                             const std::vector<at::Tensor>& written,
                             torch::jit::Stack& stack,
                             const std::unordered_set<const c10::StorageImpl*>& external) {
  for (const at::Tensor& tensor : written) {
    forget(tensor, external);
  }
  Storages storages;
  for (const DryRunResult::Return& one : outcome.returns) {
    std::vector<at::Tensor> results;
    for (const DryRunResult::Result& result : one.results) {
      results.push_back(result.operand              ? operands[*result.operand]
                        : result.geometry.defined() ? make_like(result.geometry, storages)
                                                    : at::Tensor());
    }
    if (one.is_list) {
      stack.emplace_back(std::move(results));
    } else {
      stack.emplace_back(std::move(results.front()));
    }
  }
}

void ValuelessTensors::call(const Call& call,
                            torch::jit::Stack& stack,
                            const std::unordered_set<const c10::StorageImpl*>& external) {
  const std::size_t base = stack.size() - call.op.schema().arguments().size();
  const std::span<const c10::IValue> arguments = std::span(stack).subspan(base);
  const std::vector<at::Tensor> operands = tensors_among(arguments);
  const bool varies =
      call.by_autograd ||
      (!is_factory(name_of(call.facts.target)) &&
       std::any_of(operands.begin(), operands.end(), [this](const at::Tensor& operand) {
         return varying_.contains(memory_of(operand));
       }));
  if (!varies) {
    call.op.redispatchBoxed(call.keys, &stack);
    return;
  }
  std::vector<at::Tensor> changed = written_by(call, arguments);
  run(call, stack, external);
  for (at::Tensor& result : tensors_among(std::span(stack).subspan(base))) {
    changed.push_back(std::move(result));
  }
  for (const at::Tensor& tensor : changed) {
    varying_.insert(memory_of(tensor));
  }
}

void ValuelessTensors::run(const Call& call,
                           torch::jit::Stack& stack,
                           const std::unordered_set<const c10::StorageImpl*>& external) {
  const std::size_t base = stack.size() - call.op.schema().arguments().size();
  const std::span<const c10::IValue> arguments = std::span(stack).subspan(base);
  const auto dispatch = [&] { call.op.redispatchBoxed(call.keys, &stack); };
  if (call.facts.in_place_view || (call.mutates.empty() && !call.facts.may_alias.empty())) {
    dispatch();
    return;
  }

  const std::vector<at::Tensor> operands = tensors_among(arguments);
  const std::vector<at::Tensor> written = written_by(call, arguments);
  const auto is_missing = [this](const at::Tensor& tensor) { return contains(tensor); };
  const bool missing = std::any_of(operands.begin(), operands.end(), is_missing);
  const auto compute = [&] {
    if (missing) {
      throw Error(ErrorCode::kUnsupported,
                  call.facts.target + " looks at a tensor that the trace has not computed");
    }
    dispatch();
  };

  const bool only_looks = call.op.schema().returns().empty() && call.mutates.empty();
  if (only_looks || depends_on_values(call.facts.target) || overlaps(operands, written) ||
      !std::all_of(operands.begin(), operands.end(), is_plain)) {
    compute();
    return;
  }
  const bool indexes = takes_indices(name_of(call.facts.target)) && !call.by_autograd;
  std::optional<DryRunResult> outcome = indexes ? std::nullopt : on_meta(call, arguments);
  const bool is_view = outcome && outcome->is_view;
  if (!missing && (!outcome || is_view || has_integers(*outcome, written))) {
    dispatch();
    return;
  }
  if (!outcome) {
    const bool unknown_indices =
        indexes && std::any_of(operands.begin(), operands.end(), [&](const at::Tensor& operand) {
          return is_integral(operand) && contains(operand);
        });
    if (!unknown_indices) {
      outcome = on_zeros(call, arguments);
    }
  }
  if (outcome && outcome->is_view && written.empty()) {
    dispatch();
    return;
  }
  if (!outcome || outcome->is_view) {
    compute();
    return;
  }
  stack.resize(base);
  apply(*outcome, operands, written, stack, external);
}

}  // namespace kiln::capture
