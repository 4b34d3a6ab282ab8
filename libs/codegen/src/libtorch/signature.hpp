// The types of an operator's schema, read from `ir::Node::signature`.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kiln::codegen {

/// One type of a schema: "Tensor", "int[]", "Tensor?[]", "float?", "bool[3]?".
struct SchemaType {
  enum class Base {
    kTensor,
    kInt,
    kFloat,
    kBool,
    kScalar,
    kString,
    kDType,
    kDevice,
    kLayout,
    kMemoryFormat,
    kGenerator,
    kOther,  ///< Something that no call of ours can carry.
  };
  Base base = Base::kOther;
  bool list = false;
  bool optional = false;           ///< The whole may be None.
  bool optional_elements = false;  ///< A list whose elements may be None.

  bool operator==(const SchemaType&) const = default;
};

/// What an operator takes and gives.
struct Signature {
  std::vector<SchemaType> arguments;
  std::vector<std::string> names;  ///< Of the arguments; empty where the text has none.
  std::vector<SchemaType> results;
};

/// Reads "Tensor self,Tensor? bias,int[] stride->Tensor"; the names may be left out. Alias marks
/// like "(a!)" are skipped. Never fails: what it does not know is `kOther`.
[[nodiscard]] Signature parse_signature(std::string_view text);

}  // namespace kiln::codegen
