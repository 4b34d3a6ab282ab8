#include "libtorch/signature.hpp"

#include "kiln/testing/catch2.hpp"

namespace kiln::codegen {
namespace {

using Base = SchemaType::Base;

TEST_CASE("a signature gives the types of arguments and results", "[codegen][signature]") {
  const Signature signature =
      parse_signature("Tensor,Tensor?,int[2],bool,Tensor?[]->Tensor,Tensor[]");

  REQUIRE(signature.arguments.size() == 5);
  CHECK(signature.arguments[0] == SchemaType{.base = Base::kTensor});
  CHECK(signature.arguments[1] == SchemaType{.base = Base::kTensor, .optional = true});
  CHECK(signature.arguments[2] == SchemaType{.base = Base::kInt, .list = true});
  CHECK(signature.arguments[3] == SchemaType{.base = Base::kBool});
  CHECK(signature.arguments[4] ==
        SchemaType{.base = Base::kTensor, .list = true, .optional_elements = true});
  REQUIRE(signature.results.size() == 2);
  CHECK(signature.results[1] == SchemaType{.base = Base::kTensor, .list = true});
}

TEST_CASE("symbolic integers, optional lists and alias marks are read", "[codegen][signature]") {
  const Signature signature =
      parse_signature("Tensor(a!), SymInt[]?,Scalar?,ScalarType?,Device? -> Tensor(a)");

  REQUIRE(signature.arguments.size() == 5);
  CHECK(signature.arguments[0] == SchemaType{.base = Base::kTensor});
  CHECK(signature.arguments[1] == SchemaType{.base = Base::kInt, .list = true, .optional = true});
  CHECK(signature.arguments[2] == SchemaType{.base = Base::kScalar, .optional = true});
  CHECK(signature.arguments[3] == SchemaType{.base = Base::kDType, .optional = true});
  CHECK(signature.arguments[4] == SchemaType{.base = Base::kDevice, .optional = true});
  CHECK(signature.results.size() == 1);
}

TEST_CASE("arguments may be named", "[codegen][signature]") {
  const Signature signature = parse_signature("Tensor(a!) self, Scalar? min,int[]->Tensor");

  CHECK(signature.names == std::vector<std::string>{"self", "min", ""});
  CHECK(signature.arguments[0] == SchemaType{.base = Base::kTensor});
  CHECK(signature.arguments[1] == SchemaType{.base = Base::kScalar, .optional = true});
}

TEST_CASE("unknown types and missing parts are no failure", "[codegen][signature]") {
  CHECK(parse_signature("").arguments.empty());
  CHECK(parse_signature("->").results.empty());
  CHECK(parse_signature("__torch__.Packed->Tensor").arguments[0].base == Base::kOther);
}

}  // namespace
}  // namespace kiln::codegen
