#include "effects.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "kiln/capture/effects.hpp"

namespace kiln::capture {
namespace {

struct DeclaredEffects {
  std::mutex lock;
  std::unordered_set<std::string> names;
};

DeclaredEffects& declared() {
  static DeclaredEffects effects;
  return effects;
}

// Checks of what a graph has fixed anyway: sizes, types, and numbers that are part of the program.
// They have passed when they are recorded, and pass in every call.
constexpr std::array<std::string_view, 5> kStaticChecks = {
    "aten._assert_scalar.default",
    "aten._assert_tensor_metadata.default",
    "aten.sym_constrain_range.default",
    "aten.sym_constrain_range_for_size.default",
    "aten._functional_sym_constrain_range.default"};

constexpr std::array<std::string_view, 4> kAssertions = {"aten._assert_async.default",
                                                         "aten._assert_async.msg",
                                                         "aten._functional_assert_async.msg",
                                                         "aten._linalg_check_errors.default"};

// Collectives: another process waits for each of them.
constexpr std::array<std::string_view, 4> kCommunicating = {
    "c10d.", "_c10d_functional.", "_c10d_functional_autograd.", "symm_mem."};

template <std::size_t count>
bool is_any_of(std::string_view target, const std::array<std::string_view, count>& targets) {
  return std::find(targets.begin(), targets.end(), target) != targets.end();
}

bool writes_an_argument(const c10::FunctionSchema& schema) {
  return std::any_of(
      schema.arguments().begin(), schema.arguments().end(), [](const c10::Argument& argument) {
        return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
      });
}

// An object of a class that C++ registered: it may keep state of its own.
bool takes_an_object(const c10::FunctionSchema& schema) {
  return !schema.name().starts_with("quantized::") &&
         std::any_of(
             schema.arguments().begin(), schema.arguments().end(), [](const auto& argument) {
               return argument.real_type()->kind() == c10::TypeKind::ClassType;
             });
}

}  // namespace

void declare_effect(std::string name) {
  const std::lock_guard lock(declared().lock);
  declared().names.insert(std::move(name));
}

bool is_assertion(const std::string& target) {
  return is_any_of(target, kAssertions);
}

bool has_effect(const c10::OperatorHandle& op, const std::string& target) {
  if (is_any_of(target, kStaticChecks)) {
    return false;
  }
  const c10::FunctionSchema& schema = op.schema();
  if (schema.returns().empty() && !writes_an_argument(schema)) {
    return true;
  }
  if (is_assertion(target) || takes_an_object(schema) ||
      std::any_of(kCommunicating.begin(), kCommunicating.end(), [&](std::string_view space) {
        return target.starts_with(space);
      })) {
    return true;
  }
  const std::lock_guard lock(declared().lock);
  return declared().names.contains(schema.name());
}

}  // namespace kiln::capture
