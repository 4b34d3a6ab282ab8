// What the tracer needs to know of an operator, read from its schema once.

#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln::capture {

struct OperatorFacts {
  std::string target;     ///< "aten.add.Tensor"
  std::string name;       ///< "add"
  std::string signature;  ///< "Tensor self,Tensor other,Scalar alpha->Tensor"
  std::vector<std::uint32_t> mutates;
  /// Arguments that a result may be a view of, as the schema declares them.
  std::vector<std::uint32_t> may_alias;
  bool random = false;
  bool reads_value = false;  ///< Its result is a number taken out of a tensor.
  bool shape_from_data = false;
  bool in_place_view = false;
  bool is_view = false;              ///< Its results are its arguments, seen in another way.
  bool takes_metadata_only = false;  ///< `empty_like`, `new_zeros`: elements do not matter.
  bool has_out = false;              ///< What it writes are arguments `out`, all of each.
  bool effectful = false;            ///< It must run, in order, once per call (effects.hpp).
  bool asserts = false;              ///< It throws or does nothing.
  bool returns_nothing = false;
  bool faithful_on_meta =
      false;  ///< The geometry of its results can be had without computing them.
  std::optional<std::uint32_t> generator;  ///< Position of the generator argument.
  /// Position of the probability with which attention drops. At 0 it draws nothing, whatever the
  /// schema says.
  std::optional<std::uint32_t> dropout;
};

/// Reads the facts of `op`.
OperatorFacts facts_of(const c10::OperatorHandle& op);

/// The arguments that `op` writes in this very call although its schema does not say so (batch
/// norm's running statistics in training).
std::vector<std::uint32_t> undeclared_mutations(const std::string& target,
                                                const c10::IValue* arguments);

/// Whether `op`, which calls other operators only, writes an argument in this very call although
/// its schema does not say so: one of the operators that it calls says what.
bool hides_mutations(const std::string& target, const c10::IValue* arguments);

}  // namespace kiln::capture
