#include "operator_facts.hpp"

#include <ATen/core/enum_tag.h>

#include "effects.hpp"
#include "kiln/capture/convert.hpp"
#include "meta_rules.hpp"

namespace kiln::capture {
namespace {

bool writes(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

std::string signature_of(const c10::FunctionSchema& schema) {
  std::string text;
  for (const c10::Argument& argument : schema.arguments()) {
    text += (text.empty() ? "" : ",") + argument.real_type()->str() + " " + argument.name();
  }
  text += "->";
  bool first = true;
  for (const c10::Argument& result : schema.returns()) {
    text += (first ? "" : ",") + result.real_type()->str();
    first = false;
  }
  return text;
}

bool is_generator(const c10::Type& type) {
  return type.kind() == c10::TypeKind::GeneratorType ||
         (type.kind() == c10::TypeKind::OptionalType &&
          type.containedType(0)->kind() == c10::TypeKind::GeneratorType);
}

// "index_put" of "aten::index_put".
std::string base_name(const std::string& qualified) {
  const std::size_t separator = qualified.rfind(':');
  return separator == std::string::npos ? qualified : qualified.substr(separator + 1);
}

}  // namespace

OperatorFacts facts_of(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  OperatorFacts facts;
  facts.target = target_of(op.operator_name());
  facts.name = base_name(op.operator_name().name);
  facts.signature = signature_of(schema);
  for (std::uint32_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    if (writes(argument)) {
      facts.mutates.push_back(i);
    }
    if (argument.alias_info() != nullptr) {
      facts.may_alias.push_back(i);
    }
    facts.has_out = facts.has_out || argument.is_out();
    if (is_generator(*argument.real_type())) {
      facts.generator = i;
    }
    if (argument.name() == "dropout_p") {
      facts.dropout = i;
    }
  }
  facts.random = op.hasTag(at::Tag::nondeterministic_seeded);
  facts.reads_value = op.hasTag(at::Tag::data_dependent_output);
  facts.shape_from_data = op.hasTag(at::Tag::dynamic_output_shape);
  facts.in_place_view = op.hasTag(at::Tag::inplace_view);
  facts.is_view = !facts.may_alias.empty() && facts.mutates.empty();
  facts.takes_metadata_only = facts.name.starts_with("new_") || facts.name.ends_with("_like");
  facts.returns_nothing = schema.returns().empty();
  facts.asserts = is_assertion(facts.target);
  facts.effectful = has_effect(op, facts.target);
  facts.faithful_on_meta = has_faithful_meta_kernel(op, facts.target);
  return facts;
}

std::vector<std::uint32_t> undeclared_mutations(const std::string& target,
                                                const c10::IValue* arguments) {
  // Input, weight, bias, running mean, running variance, training: the old batch norms.
  if (target == "aten.native_batch_norm.default" || target == "aten.cudnn_batch_norm.default" ||
      target == "aten.miopen_batch_norm.default") {
    const bool training = arguments[5].toBool();
    const bool has_statistics = arguments[3].isTensor() && arguments[3].toTensor().defined();
    return training && has_statistics ? std::vector<std::uint32_t>{3, 4}
                                      : std::vector<std::uint32_t>{};
  }
  if (target == "aten.batch_norm_update_stats.default") {
    return {1, 2};
  }
  if (target == "aten.batch_norm_gather_stats.default" ||
      target == "aten.batch_norm_gather_stats_with_counts.default") {
    return {3, 4};
  }
  return {};
}

bool hides_mutations(const std::string& target, const c10::IValue* arguments) {
  // Input, weight, bias, running mean, running variance, training (instance norm: use input stats).
  if (target != "aten.batch_norm.default" && target != "aten._batch_norm_impl_index.default" &&
      target != "aten.instance_norm.default") {
    return false;
  }
  return arguments[5].toBool() && arguments[3].isTensor() && arguments[3].toTensor().defined();
}

}  // namespace kiln::capture
